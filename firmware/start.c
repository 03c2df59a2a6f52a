/* Start of a Cortex-M: its first two vectors, and memory as C expects it. Interrupts stay disabled; a fault halts, and the device is silent. */
#include <stdint.h>
#include <string.h>

int main(void);
void reset(void);
extern uint32_t stack_end, data_load, data_start, data_end, bss_start, bss_end;

static void halt(void)
{
    for (;;)
        ;
}

void reset(void)
{
    memcpy(&data_start, &data_load, (size_t)((char *)&data_end - (char *)&data_start));
    memset(&bss_start, 0, (size_t)((char *)&bss_end - (char *)&bss_start));
    main();
    halt();
}

/* Up to SysTick (15): no handler of the board's own interrupts is ever entered. */
__attribute__((section(".vectors"), used)) static const struct {
    uint32_t *stack;
    void (*handlers[15])(void);
} vectors = {&stack_end, {reset, halt, halt, halt, halt, halt, halt, halt, halt, halt, halt, halt, halt, halt, halt}};
