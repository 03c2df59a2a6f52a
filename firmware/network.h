/* lwIP's raw API on a board: one address, UDP ports, and a wait that brings frames in. */
#ifndef NETWORK_H
#define NETWORK_H

#include "board.h"

#include "lwip/udp.h"

/* Starts the board and opens its card at DEVICE_ADDRESS. */
void network_open(void);

/* A UDP port, and what takes its packets. */
struct udp_pcb *network_port(uint16_t number, udp_recv_fn take);

/* Asks for the card of an address, before the first packet to it. */
void network_find(const ip_addr_t *address);

/* Waits as board_wait does; frames go to lwIP, and its timers are served. */
struct board_event network_wait(uint64_t until_ns);

/* When the frame that is being taken arrived. */
uint64_t network_received_ns(void);

/* Whether an address is in the board's own network. A board that answers any sender can be made to send to a third one. */
int network_is_near(const ip_addr_t *address);

/* An address of device.h: network_address(DEVICE_NEXT). */
ip_addr_t network_address(uint8_t a, uint8_t b, uint8_t c, uint8_t d);

#endif
