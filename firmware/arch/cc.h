/* What lwIP needs to know of compiler and board. */
#ifndef ARCH_CC_H
#define ARCH_CC_H

#include <stdint.h>

uint64_t board_now_ns(void);

#define LWIP_RAND() ((uint32_t)board_now_ns())
#define LWIP_PLATFORM_DIAG(message) ((void)0)
/* A broken invariant of lwIP: the board stops answering, which the controller reports as lost packets. */
#define LWIP_PLATFORM_ASSERT(message) __builtin_trap()

#endif
