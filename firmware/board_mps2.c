/* The board layer of Arm's MPS2 with image AN385 (Cortex-M3 at 25 MHz, LAN9118), as QEMU has it: -M mps2-an385.
 *
 * Registers: Arm DAI0385D (map, FPGAIO), SMSC LAN9118 data sheet, Armv7-M reference manual (SysTick, NVIC). Interrupts are never taken: they
 * are pending only, and end the sleep of WFI.
 */
#include "board.h"

#include <string.h>

#define REG(address) (*(volatile uint32_t *)(address))

#define FPGAIO_LED REG(0x40028000u)
#define FPGAIO_COUNTER REG(0x40028018u)
#define FPGAIO_PRESCALE REG(0x4002801Cu)
#define SYST_CSR REG(0xE000E010u)
#define SYST_RVR REG(0xE000E014u)
#define SYST_CVR REG(0xE000E018u)
#define NVIC_ISER REG(0xE000E100u)
#define NVIC_ICPR REG(0xE000E280u)
#define SCB_ICSR REG(0xE000ED04u)

/* Registers of the LAN9118 and of the UART. */
enum {
    RX_DATA = 0x00, TX_DATA = 0x20, RX_STATUS = 0x40, TX_STATUS = 0x48, IRQ_CFG = 0x54, INT_STS = 0x58, INT_EN = 0x5C, FIFO_INT = 0x68,
    TX_CFG = 0x70, HW_CFG = 0x74, RX_FIFO_INF = 0x7C, TX_FIFO_INF = 0x80, MAC_CMD = 0xA4, MAC_DATA = 0xA8,
    UART_DATA = 0x0, UART_STATE = 0x4, UART_CTRL = 0x8, UART_BAUDDIV = 0x10
};
#define LAN(offset) REG(0x40200000u + (offset))
#define UART(offset) REG(0x40004000u + (offset))
enum { STEP_NS = 40, LAN_IRQ = 13, MAC_CR = 1, ADDRH = 2, ADDRL = 3 };
#define RX_LEVEL (1u << 3)        /* LAN(INT_STS), LAN(INT_EN): frames wait */
#define RX_ERROR (1u << 15) /* of a received frame's status */
#define LONGEST_SLEEP_NS 100000000u /* the counter is read far more often than it wraps, every 171 s */

static uint32_t mac_read(uint32_t at)
{
    LAN(MAC_CMD) = 0xC0000000u | at;
    while (LAN(MAC_CMD) & 0x80000000u)
        ;
    return LAN(MAC_DATA);
}

static void say(const char *text)
{
    for (; *text; text++) {
        while (UART(UART_STATE) & 1u)
            ;
        UART(UART_DATA) = (uint8_t)*text;
    }
}

struct board_facts board_start(void)
{
    struct board_facts facts = {{0}, STEP_NS};
    uint32_t low, high;

    __asm__ volatile("cpsid i"); /* pending interrupts end a sleep, and nothing else */
    UART(UART_BAUDDIV) = 217; /* 115,200 baud */
    UART(UART_CTRL) = 1;
    FPGAIO_PRESCALE = 0;
    LAN(HW_CFG) = 1;
    while (LAN(HW_CFG) & 1u)
        ;
    low = mac_read(ADDRL);
    high = mac_read(ADDRH);
    for (int at = 0; at < 6; at++)
        facts.mac[at] = (uint8_t)(at < 4 ? low >> 8 * at : high >> 8 * (at - 4));
    LAN(FIFO_INT) = 0; /* at the first frame */
    LAN(INT_EN) = RX_LEVEL;
    LAN(IRQ_CFG) = 0x111; /* enabled, active high, push-pull */
    LAN(TX_CFG) = 2;
    LAN(MAC_DATA) = 0x0010000Cu; /* full duplex, transmitter, receiver */
    LAN(MAC_CMD) = 0x80000000u | MAC_CR;
    NVIC_ISER = 1u << LAN_IRQ;
    say("onbeat device on mps2-an385: counter step 40 ns\r\n");
    return facts;
}

uint64_t board_now_ns(void)
{
    static uint32_t low, high;
    uint32_t now = FPGAIO_COUNTER;

    high += now < low;
    low = now;
    return ((uint64_t)high << 32 | now) * STEP_NS;
}

static size_t take(uint8_t *frame, size_t most)
{
    uint32_t status = LAN(RX_STATUS);
    size_t bytes = (status >> 16) & 0x3FFFu; /* with the check sequence */
    size_t words = (bytes + 3) / 4;
    int fits = !(status & RX_ERROR) && bytes > 4 && bytes - 4 <= most;

    for (size_t at = 0; at < 4 * words; at += 4) {
        uint32_t word = LAN(RX_DATA);
        if (fits && at < bytes - 4)
            memcpy(frame + at, &word, bytes - 4 - at < 4 ? bytes - 4 - at : 4);
    }
    return fits ? bytes - 4 : 0;
}

size_t board_receive(uint8_t *frame, size_t most, uint64_t until_ns)
{
    for (;;) {
        uint64_t now_ns, sleep_ns;

        while (LAN(RX_FIFO_INF) & 0x00FF0000u) {
            size_t bytes = take(frame, most);
            if (bytes)
                return bytes;
        }
        LAN(INT_STS) = RX_LEVEL;
        NVIC_ICPR = 1u << LAN_IRQ;
        now_ns = board_now_ns();
        if (now_ns >= until_ns)
            return 0;
        sleep_ns = until_ns - now_ns < LONGEST_SLEEP_NS ? until_ns - now_ns : LONGEST_SLEEP_NS;
        SYST_RVR = (uint32_t)(sleep_ns / STEP_NS) + 1;
        SYST_CVR = 0;
        SCB_ICSR = 1u << 25; /* SysTick is not pending */
        SYST_CSR = 7;
        /* A frame of this very moment has made the interrupt pending: no sleep then. */
        if (!(LAN(RX_FIFO_INF) & 0x00FF0000u))
            __asm__ volatile("wfi");
        SYST_CSR = 0;
    }
}

int board_send(const uint8_t *frame, size_t bytes)
{
    if (bytes > BOARD_FRAME_BYTES || (LAN(TX_FIFO_INF) & 0xFFFFu) < bytes + 16)
        return 0;
    LAN(TX_DATA) = 0x3000u | (uint32_t)bytes; /* first and last segment */
    LAN(TX_DATA) = (uint32_t)bytes;
    for (size_t at = 0; at < bytes; at += 4) {
        uint32_t word = 0;
        memcpy(&word, frame + at, bytes - at < 4 ? bytes - at : 4);
        LAN(TX_DATA) = word;
    }
    while (LAN(TX_FIFO_INF) & 0x00FF0000u)
        (void)LAN(TX_STATUS);
    return 1;
}

void board_output(int level)
{
    FPGAIO_LED = level != 0;
}
