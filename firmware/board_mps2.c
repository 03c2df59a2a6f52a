/* The board layer of Arm's MPS2 with image AN385 (Cortex-M3 at 25 MHz, LAN9118), as QEMU has it: -M mps2-an385.
 *
 * Registers: Arm DAI0385D (map, FPGAIO), SMSC LAN9118 data sheet, Armv7-M reference manual (NVIC). Interrupts are never taken: they are
 * pending only, and end a sleep.
 */
#include "board.h"
#include "mps2_clock.h"

#include <string.h>

#define FPGAIO_LED REG(0x40028000u)
#define NVIC_ISER REG(0xE000E100u)
#define NVIC_ICPR REG(0xE000E280u)

/* Registers of the LAN9118 and of the UART. */
enum {
    RX_DATA = 0x00, TX_DATA = 0x20, RX_STATUS = 0x40, TX_STATUS = 0x48, IRQ_CFG = 0x54, INT_STS = 0x58, INT_EN = 0x5C, FIFO_INT = 0x68,
    TX_CFG = 0x70, HW_CFG = 0x74, RX_FIFO_INF = 0x7C, TX_FIFO_INF = 0x80, MAC_CMD = 0xA4, MAC_DATA = 0xA8,
    UART_DATA = 0x0, UART_STATE = 0x4, UART_CTRL = 0x8, UART_INT = 0xC, UART_BAUDDIV = 0x10
};
#define LAN(offset) REG(0x40200000u + (offset))
#define UART(offset) REG(0x40004000u + (offset))
enum { LAN_IRQ = 13, UART_IRQ = 0, MAC_CR = 1, ADDRH = 2, ADDRL = 3 };
#define INTERRUPTS (1u << LAN_IRQ | 1u << UART_IRQ)
#define RX_LEVEL (1u << 3)  /* LAN(INT_STS), LAN(INT_EN): frames wait */
#define RX_ERROR (1u << 15) /* of a received frame's status */
#define TX_FULL 1u          /* UART(UART_STATE) */
#define RX_FULL 2u
#define UART_ON 0xBu /* UART(UART_CTRL): transmitter, receiver, its interrupt */

static uint32_t mac_read(uint32_t at)
{
    LAN(MAC_CMD) = 0xC0000000u | at;
    while (LAN(MAC_CMD) & 0x80000000u)
        ;
    return LAN(MAC_DATA);
}

static void put(char character)
{
    while (UART(UART_STATE) & TX_FULL)
        ;
    UART(UART_DATA) = (uint8_t)character;
}

struct board_facts board_start(void)
{
    struct board_facts facts = {{0}, MPS2_STEP_NS};
    uint32_t low, high;

    mps2_clock_start();
    UART(UART_BAUDDIV) = 217; /* 115,200 baud */
    UART(UART_CTRL) = UART_ON;
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
    NVIC_ISER = INTERRUPTS;
    for (const char *text = "onbeat device on mps2-an385: counter step 40 ns\r\n"; *text; text++)
        put(*text);
    return facts;
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

static int has_frame(void)
{
    return (LAN(RX_FIFO_INF) & 0x00FF0000u) != 0;
}

static int has_come(void)
{
    return has_frame() || (UART(UART_STATE) & RX_FULL);
}

/* QEMU's model of the board has no GPIO that an edge could arrive at: the input is the UART's line, and a character the edge to its lowest bit. */
struct board_event board_wait(uint8_t *frame, size_t most, uint64_t until_ns)
{
    for (;;) {
        struct board_event event = {.kind = BOARD_INSTANT};

        if (UART(UART_STATE) & RX_FULL) {
            event.at_ns = board_now_ns();
            event.kind = BOARD_EDGE;
            event.level = (int)(UART(UART_DATA) & 1u);
            return event;
        }
        while (has_frame()) {
            event.at_ns = board_now_ns();
            event.bytes = take(frame, most);
            if (event.bytes) {
                event.kind = BOARD_FRAME;
                return event;
            }
        }
        LAN(INT_STS) = RX_LEVEL;
        UART(UART_INT) = RX_FULL;
        NVIC_ICPR = INTERRUPTS;
        event.at_ns = board_now_ns();
        if (event.at_ns >= until_ns)
            return event;
        mps2_sleep(until_ns, has_come);
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

/* An LED, and the UART's line for whoever looks at the emulated board from outside. */
void board_output(int level)
{
    FPGAIO_LED = level != 0;
    put(level ? '1' : '0');
}
