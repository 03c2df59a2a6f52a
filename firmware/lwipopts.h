/* lwIP without an operating system and without a heap of the C library: its own pools, of fixed size. */
#ifndef LWIPOPTS_H
#define LWIPOPTS_H

#include "device.h"

#define NO_SYS 1
#define SYS_LIGHTWEIGHT_PROT 0
#define LWIP_NETCONN 0
#define LWIP_SOCKET 0
#define LWIP_TCP 0
#define LWIP_RAW 0
#define LWIP_ICMP 1
#define IP_REASSEMBLY 0
#define IP_FRAG 0
#define LWIP_STATS 0
#define LWIP_CHECKSUM_ON_COPY 0

#define MEM_LIBC_MALLOC 0
#define MEMP_MEM_MALLOC 0
#define MEM_ALIGNMENT 4
#define MEM_SIZE (16 * 1024)
#define MEMP_NUM_UDP_PCB DEVICE_PORTS
/* A frame fits one buffer, so that an answer is written where its request stands. */
#define PBUF_POOL_SIZE 16
#define PBUF_POOL_BUFSIZE 1536

#endif
