/* Counter and alarm of MPS2 AN385, which both of its board layers have. */
#ifndef MPS2_CLOCK_H
#define MPS2_CLOCK_H

#include <stdint.h>

#define REG(address) (*(volatile uint32_t *)(address))
#define MPS2_STEP_NS 40u

void mps2_clock_start(void);

/* Sleeps until an instant or the next pending interrupt; not at all where `is_pending` says that something has come. */
void mps2_sleep(uint64_t until_ns, int (*is_pending)(void));

#endif
