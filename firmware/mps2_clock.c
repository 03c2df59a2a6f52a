/* FPGAIO's counter at 25 MHz (Arm DAI0385D), and timer 0 at the same rate as the alarm (CMSDK APB timer, DDI0479). Interrupts are never taken: they
 * are pending only, and end the sleep of WFI. Not SysTick: in QEMU 7.2 a sleep that it should end takes twice as long. */
#include "mps2_clock.h"

#include "board.h"

#define FPGAIO_COUNTER REG(0x40028018u)
#define FPGAIO_PRESCALE REG(0x4002801Cu)
#define NVIC_ISER REG(0xE000E100u)
#define NVIC_ICPR REG(0xE000E280u)
#define TIMER(offset) REG(0x40000000u + (offset))
enum { CTRL = 0x0, VALUE = 0x4, RELOAD = 0x8, INT_CLEAR = 0xC };
#define TIMER_IRQ (1u << 8)
#define RUN 9u /* TIMER(CTRL): enabled, with its interrupt */
#define LONGEST_SLEEP_NS 100000000u /* the counter is read far more often than it wraps, every 171 s */

void mps2_clock_start(void)
{
    __asm__ volatile("cpsid i"); /* pending interrupts end a sleep, and nothing else */
    FPGAIO_PRESCALE = 0;
    NVIC_ISER = TIMER_IRQ;
}

uint64_t board_now_ns(void)
{
    static uint32_t low, high;
    uint32_t now = FPGAIO_COUNTER;

    high += now < low;
    low = now;
    return ((uint64_t)high << 32 | now) * MPS2_STEP_NS;
}

void mps2_sleep(uint64_t until_ns, int (*is_pending)(void))
{
    uint64_t now_ns = board_now_ns();
    uint64_t sleep_ns;

    if (now_ns >= until_ns)
        return;
    sleep_ns = until_ns - now_ns < LONGEST_SLEEP_NS ? until_ns - now_ns : LONGEST_SLEEP_NS;
    TIMER(RELOAD) = UINT32_MAX;
    TIMER(VALUE) = (uint32_t)(sleep_ns / MPS2_STEP_NS) + 1;
    TIMER(CTRL) = RUN;
    /* What has come in this very moment has made its interrupt pending: no sleep then. */
    if (!is_pending())
        __asm__ volatile("wfi");
    TIMER(CTRL) = 0;
    TIMER(INT_CLEAR) = 1;
    NVIC_ICPR = TIMER_IRQ;
}
