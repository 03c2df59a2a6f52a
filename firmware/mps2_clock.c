/* FPGAIO's counter at 25 MHz (Arm DAI0385D), SysTick as the alarm (Armv7-M). Interrupts are never taken: they are pending only, and end the
 * sleep of WFI. */
#include "mps2_clock.h"

#include "board.h"

#define FPGAIO_COUNTER REG(0x40028018u)
#define FPGAIO_PRESCALE REG(0x4002801Cu)
#define SYST_CSR REG(0xE000E010u)
#define SYST_RVR REG(0xE000E014u)
#define SYST_CVR REG(0xE000E018u)
#define SCB_ICSR REG(0xE000ED04u)
#define PROCESSOR_CLOCK 4u /* SYST_CSR; 1 runs it, 2 makes its interrupt pending */
#define LONGEST_SLEEP_NS 100000000u /* the counter is read far more often than it wraps, every 171 s */

void mps2_clock_start(void)
{
    __asm__ volatile("cpsid i"); /* pending interrupts end a sleep, and nothing else */
    FPGAIO_PRESCALE = 0;
    SYST_CSR = PROCESSOR_CLOCK; /* and stopped: QEMU misses the first alarm after a change of the source */
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
    SYST_RVR = (uint32_t)(sleep_ns / MPS2_STEP_NS) + 1;
    SYST_CVR = 0;
    SCB_ICSR = 1u << 25; /* SysTick is not pending */
    SYST_CSR = PROCESSOR_CLOCK | 3u;
    /* What has come in this very moment has made its interrupt pending: no sleep then. */
    if (is_pending == NULL || !is_pending())
        __asm__ volatile("wfi");
    SYST_CSR = PROCESSOR_CLOCK;
}
