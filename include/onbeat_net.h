/* The packets of onbeat, version 1: for firmware that answers `onbeat measure rtt`, or plays an actuator or an I/O board.
 *
 * This file is complete, and specifies the format: UDP, little-endian, IEEE 754; a header of 56 bytes and a body by kind. Reserved bytes are 0, and
 * not checked by receivers of version 1; versions never change the first 6 bytes. A receiver discards a datagram that is shorter than a header, has
 * another magic, version or an undefined kind, another length than it states, or a body of another size than its kind (onbeat_packet_read). A device
 * copies device, sequence, sent_ns, session and lifetime_us into the answer. A device that answers echo requests, all of it:
 *
 *     static uint16_t answer(unsigned char *bytes, uint16_t length, uint64_t received_ns)
 *     {
 *         struct onbeat_packet packet;
 *         if (!onbeat_packet_read(&packet, bytes, length) || packet.kind != ONBEAT_ECHO_REQUEST)
 *             return 0;
 *         packet.kind = ONBEAT_ECHO_ANSWER;
 *         packet.received_ns = received_ns;
 *         packet.answered_ns = now_ns();
 *         onbeat_packet_write(bytes, &packet);
 *         return length;
 *     }
 *
 * C11 or C++17. Where the processor is little-endian, as almost all are, the structs are the bytes on the wire, and onbeat_body_order does nothing.
 */
#ifndef ONBEAT_NET_H
#define ONBEAT_NET_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A compiler without __BYTE_ORDER__ for a big-endian processor is given -DONBEAT_NET_BIG_ENDIAN. */
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ && !defined(ONBEAT_NET_BIG_ENDIAN)
#define ONBEAT_NET_BIG_ENDIAN
#endif

#ifdef __cplusplus
#define ONBEAT_NET_ASSERT static_assert
#else
#define ONBEAT_NET_ASSERT _Static_assert
#endif

#define ONBEAT_NET_PORT 7470u
#define ONBEAT_NET_VERSION 1u
#define ONBEAT_NET_MAGIC 0x54424E4Fu /* the bytes 4F 4E 42 54, "ONBT" */
#define ONBEAT_NET_MOST_BYTES 1472u

/* The kind of an answer is that of its request + 1. */
enum onbeat_packet_kind {
    ONBEAT_ECHO_REQUEST = 1, /* body: any bytes */
    ONBEAT_ECHO_ANSWER = 2,  /* body: the bytes of the request */
    ONBEAT_ACTUATOR_COMMAND = 3,
    ONBEAT_ACTUATOR_FEEDBACK = 4,
    ONBEAT_IO_COMMAND = 5,
    ONBEAT_IO_FEEDBACK = 6,
    ONBEAT_EDGE_COMMAND = 7,
    ONBEAT_EDGE_REPORT = 8
};

enum onbeat_actuator_mode {
    ONBEAT_ACTUATOR_OFF = 0,
    ONBEAT_ACTUATOR_POSITION = 1,
    ONBEAT_ACTUATOR_VELOCITY = 2,
    ONBEAT_ACTUATOR_TORQUE = 3
};

/* Bits of `state` of an actuator. */
#define ONBEAT_LIFETIME_OVER 1u
#define ONBEAT_VELOCITY_LIMITED 2u
#define ONBEAT_TORQUE_LIMITED 4u
#define ONBEAT_FAULT 8u

/* The header of every message. */
struct onbeat_packet {
    uint32_t magic;       /*  0: ONBEAT_NET_MAGIC */
    uint8_t version;      /*  4: ONBEAT_NET_VERSION */
    uint8_t kind;         /*  5: enum onbeat_packet_kind */
    uint16_t device;      /*  6: number of the device, as the controller counts them */
    uint64_t sequence;    /*  8: number of the cycle; with `device` unique in a run */
    uint64_t sent_ns;     /* 16: when the controller sent the request, by its own clock */
    uint64_t received_ns; /* 24: when the device received it, by the device's clock; 0 in requests */
    uint64_t answered_ns; /* 32: when the device sent the answer, by the same clock; 0 in requests */
    uint32_t session;     /* 40: drawn by the controller for each run; 0 before a run */
    uint32_t lifetime_us; /* 44: validity of a command after its receipt; 0: until the next one */
    uint16_t length;      /* 48: bytes of the whole message, equal to the length of the datagram */
    uint16_t reserved[3]; /* 50: 0 */
};

/* An actuator whose last command is older than its lifetime_us switches to ONBEAT_ACTUATOR_OFF. */
struct onbeat_actuator_command {
    uint8_t mode; /*  0: enum onbeat_actuator_mode */
    uint8_t reserved[7];
    double position_rad;       /*  8 */
    float velocity_rad_s;      /* 16 */
    float torque_nm;           /* 20 */
    float most_velocity_rad_s; /* 24: 0: the device's limit */
    float most_torque_nm;      /* 28: 0: the device's limit */
};

struct onbeat_actuator_feedback {
    uint8_t mode;                /*  0 */
    uint8_t state;               /*  1: bits */
    uint16_t fault;              /*  2: 0 for none */
    uint32_t command_age_us;     /*  4 */
    uint64_t command_sequence;   /*  8 */
    double position_rad;         /* 16 */
    double target_rad;           /* 24: of the local loop */
    float velocity_rad_s;        /* 32 */
    float torque_nm;             /* 36 */
    float current_a;             /* 40 */
    float supply_v;              /* 44 */
    float temperatures_c[2];     /* 48: motor, board */
    float gyro_rad_s[3];         /* 56: of the housing, as acceleration_m_s2 */
    float acceleration_m_s2[3];  /* 68 */
    uint64_t loop_cycles;        /* 80 */
    uint32_t loop_period_ns;     /* 88 */
    uint32_t loop_latency_ns;    /* 92: largest wake-up latency since the last feedback */
    uint8_t reserved[48];        /* 96 */
};

struct onbeat_io_command {
    uint32_t digital_mask; /*  0: bits of the outputs to change, as pwm_mask */
    uint32_t digital;      /*  4 */
    uint32_t pwm_mask;     /*  8 */
    uint32_t reserved;     /* 12 */
    float pwm[8];          /* 16: duty cycles, 0 to 1 */
};

struct onbeat_io_feedback {
    uint32_t digital_in;       /*   0 */
    uint32_t digital_out;      /*   4 */
    uint64_t changed_ns[8];    /*   8: last change of each of the first eight inputs, by the device's clock; 0 for none */
    uint64_t sampled_ns;       /*  72: when the analogue inputs were sampled */
    float analogue_v[16];      /*  80 */
    float pwm[8];              /* 144 */
    uint64_t command_sequence; /* 176 */
    uint32_t command_age_us;   /* 184 */
    uint32_t reserved;         /* 188 */
};

/* An edge, on its way from the board that saw it to the board that writes an output for it. */
struct onbeat_edge_command {
    uint64_t edge_ns;    /*  0: by the sender's clock, as release_ns */
    uint64_t release_ns; /*  8: the end of the sender's delay */
    uint32_t delay_ns;   /* 16: from taking the edge up to writing the output */
    uint32_t reserved;   /* 20 */
};

/* Bit of `state` of an edge report. */
#define ONBEAT_WRITE_FAILED 1u

/* The answer, sent after the write. */
struct onbeat_edge_report {
    uint64_t edge_ns;    /*  0: as in the command, up to delay_ns */
    uint64_t release_ns; /*  8 */
    uint32_t delay_ns;   /* 16 */
    uint32_t state;      /* 20 */
    uint64_t taken_ns;   /* 24: by the clock of this board, as written_ns */
    uint64_t written_ns; /* 32: the write returned */
    uint64_t reserved;   /* 40 */
};

ONBEAT_NET_ASSERT(sizeof(struct onbeat_packet) == 56, "header");
ONBEAT_NET_ASSERT(sizeof(struct onbeat_actuator_command) == 32, "actuator command");
ONBEAT_NET_ASSERT(sizeof(struct onbeat_actuator_feedback) == 144, "actuator feedback");
ONBEAT_NET_ASSERT(sizeof(struct onbeat_io_command) == 48, "I/O command");
ONBEAT_NET_ASSERT(sizeof(struct onbeat_io_feedback) == 192, "I/O feedback");
ONBEAT_NET_ASSERT(sizeof(struct onbeat_edge_command) == 24, "edge command");
ONBEAT_NET_ASSERT(sizeof(struct onbeat_edge_report) == 48, "edge report");
ONBEAT_NET_ASSERT(offsetof(struct onbeat_packet, sequence) == 8, "sequence");
ONBEAT_NET_ASSERT(offsetof(struct onbeat_packet, session) == 40, "session");
ONBEAT_NET_ASSERT(offsetof(struct onbeat_packet, length) == 48, "length");
ONBEAT_NET_ASSERT(offsetof(struct onbeat_actuator_command, position_rad) == 8, "position");
ONBEAT_NET_ASSERT(offsetof(struct onbeat_actuator_feedback, loop_cycles) == 80, "loop_cycles");
ONBEAT_NET_ASSERT(offsetof(struct onbeat_io_feedback, analogue_v) == 80, "analogue_v");
ONBEAT_NET_ASSERT(offsetof(struct onbeat_io_feedback, command_sequence) == 176, "command_sequence");

/* Bytes of the body of a kind; 0 for an echo, whose body has any length, and for an undefined kind. */
static inline uint16_t onbeat_body_bytes(uint8_t kind)
{
    switch (kind) {
    case ONBEAT_ACTUATOR_COMMAND: return (uint16_t)sizeof(struct onbeat_actuator_command);
    case ONBEAT_ACTUATOR_FEEDBACK: return (uint16_t)sizeof(struct onbeat_actuator_feedback);
    case ONBEAT_IO_COMMAND: return (uint16_t)sizeof(struct onbeat_io_command);
    case ONBEAT_IO_FEEDBACK: return (uint16_t)sizeof(struct onbeat_io_feedback);
    case ONBEAT_EDGE_COMMAND: return (uint16_t)sizeof(struct onbeat_edge_command);
    case ONBEAT_EDGE_REPORT: return (uint16_t)sizeof(struct onbeat_edge_report);
    default: return 0;
    }
}

#ifdef ONBEAT_NET_BIG_ENDIAN
/* Bytes of each field of a body, in order; of the header for kind 0. Single bytes at the end are left out. */
static inline const char *onbeat_field_bytes(uint8_t kind)
{
    switch (kind) {
    case 0: return "4112" "8888" "44" "2222";
    case ONBEAT_ACTUATOR_COMMAND: return "11111111" "8" "4444";
    case ONBEAT_ACTUATOR_FEEDBACK: return "1124" "888" "4444" "44" "444" "444" "8" "44";
    case ONBEAT_IO_COMMAND: return "4444" "44444444";
    case ONBEAT_IO_FEEDBACK: return "44" "88888888" "8" "4444444444444444" "44444444" "8" "44";
    case ONBEAT_EDGE_COMMAND: return "88" "44";
    case ONBEAT_EDGE_REPORT: return "88" "44" "888";
    default: return "";
    }
}
#endif

/* Converts a body, in place, from the order of bytes on the wire to that of the processor, or back. Kind 0 is a header. */
static inline void onbeat_body_order(void *body, uint8_t kind)
{
#ifdef ONBEAT_NET_BIG_ENDIAN
    unsigned char *field = (unsigned char *)body;
    for (const char *bytes = onbeat_field_bytes(kind); *bytes; field += *bytes++ - '0')
        for (int low = 0, high = *bytes - '1'; low < high; low++, high--) {
            unsigned char byte = field[low];
            field[low] = field[high];
            field[high] = byte;
        }
#else
    (void)body;
    (void)kind;
#endif
}

/* Writes a header into a datagram; its body follows in the order of onbeat_body_order. */
static inline void onbeat_packet_write(void *bytes, const struct onbeat_packet *packet)
{
    memcpy(bytes, packet, sizeof *packet);
    onbeat_body_order(bytes, 0);
}

/* Reads the header of a datagram. Returns 1 when it is a message of this version, otherwise 0. */
static inline int onbeat_packet_read(struct onbeat_packet *packet, const void *bytes, size_t length)
{
    if (length < sizeof *packet)
        return 0;
    memcpy(packet, bytes, sizeof *packet);
    onbeat_body_order(packet, 0);
    if (packet->magic != ONBEAT_NET_MAGIC || packet->version != ONBEAT_NET_VERSION || packet->length != length)
        return 0;
    if (packet->kind < ONBEAT_ECHO_REQUEST || packet->kind > ONBEAT_EDGE_REPORT)
        return 0;
    return packet->kind <= ONBEAT_ECHO_ANSWER || length == sizeof *packet + onbeat_body_bytes(packet->kind);
}

/* Datagrams of run files (`--log-to`, `onbeat net log`, UDP port 7472), version 1: 40 bytes, the name, the bytes of the part.
 *
 *      0  bytes  magic: 4F 4E 42 4C ("ONBL")
 *      4  u8     version: 1
 *      5  u8     kind: 1 part, 2 receipt
 *      6  u8     state, bits of a part: 1 begins a line, 2 the last one, 4 a receipt is wanted
 *      7  u8     length n of the name of a part; 0 in receipts
 *      8  u32    session, drawn by the sender for each run
 *     12  u32    bytes of the whole datagram
 *     16  u64    number of the part, from 0; of a receipt: the part that it answers
 *     24  u64    number of the line in which a part begins, from 0; of the last part: of all lines; of a receipt: datagrams received
 *     32  u64    of a receipt: datagrams dropped because the writer was behind; 0 in parts
 *     40  n      name: RUN/FILE.onbeat.hlog of letters, digits, '.', '-', '_'
 *   40+n         whole lines, or a piece of one long line
 *
 * Only header and end of a run are repeated until receipted. */

#endif
