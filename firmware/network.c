#include "network.h"

#include "device.h"

#include <string.h>

#include "lwip/etharp.h"
#include "lwip/init.h"
#include "lwip/netif.h"
#include "lwip/timeouts.h"
#include "netif/ethernet.h"

static struct board_facts facts;
static struct netif card;
static uint64_t received_ns;

u32_t sys_now(void)
{
    return (u32_t)(board_now_ns() / 1000000u);
}

ip_addr_t network_address(uint8_t a, uint8_t b, uint8_t c, uint8_t d)
{
    ip_addr_t address;

    IP_ADDR4(&address, a, b, c, d);
    return address;
}

int network_is_near(const ip_addr_t *address)
{
    return ip4_addr_netcmp(ip_2_ip4(address), netif_ip4_addr(&card), netif_ip4_netmask(&card));
}

uint64_t network_received_ns(void)
{
    return received_ns;
}

static err_t send_frame(struct netif *by, struct pbuf *bytes)
{
    static uint8_t copy[BOARD_FRAME_BYTES];

    (void)by;
    if (bytes->tot_len > sizeof copy)
        return ERR_BUF;
    return board_send(copy, pbuf_copy_partial(bytes, copy, bytes->tot_len, 0)) ? ERR_OK : ERR_WOULDBLOCK;
}

static err_t open_card(struct netif *opened)
{
    opened->name[0] = 'o';
    opened->name[1] = 'b';
    opened->mtu = 1500;
    opened->hwaddr_len = sizeof facts.mac;
    memcpy(opened->hwaddr, facts.mac, sizeof facts.mac);
    opened->flags = NETIF_FLAG_BROADCAST | NETIF_FLAG_ETHARP | NETIF_FLAG_ETHERNET;
    opened->output = etharp_output;
    opened->linkoutput = send_frame;
    return ERR_OK;
}

void network_open(void)
{
    ip_addr_t address = network_address(DEVICE_ADDRESS);
    ip_addr_t mask = network_address(DEVICE_MASK);

    facts = board_start();
    lwip_init();
    netif_add(&card, ip_2_ip4(&address), ip_2_ip4(&mask), IP4_ADDR_ANY4, NULL, open_card, ethernet_input);
    netif_set_default(&card);
    netif_set_up(&card);
    netif_set_link_up(&card);
}

struct udp_pcb *network_port(uint16_t number, udp_recv_fn take)
{
    struct udp_pcb *port = udp_new();

    LWIP_ASSERT("a port for each device", port != NULL);
    udp_bind(port, IP_ADDR_ANY, number);
    udp_recv(port, take, NULL);
    return port;
}

void network_find(const ip_addr_t *address)
{
    etharp_request(&card, ip_2_ip4(address));
}

static void take_frame(const uint8_t *frame, size_t bytes)
{
    struct pbuf *taken = pbuf_alloc(PBUF_RAW, (u16_t)bytes, PBUF_POOL);

    if (taken == NULL)
        return;
    pbuf_take(taken, frame, (u16_t)bytes);
    if (card.input(taken, &card) != ERR_OK)
        pbuf_free(taken);
}

struct board_event network_wait(uint64_t until_ns)
{
    static uint8_t frame[BOARD_FRAME_BYTES];
    uint64_t timer_ns = board_now_ns() + (uint64_t)sys_timeouts_sleeptime() * 1000000u;
    struct board_event event = board_wait(frame, sizeof frame, timer_ns < until_ns ? timer_ns : until_ns);

    if (event.kind == BOARD_FRAME) {
        received_ns = event.at_ns;
        take_frame(frame, event.bytes);
    }
    sys_check_timeouts();
    return event;
}
