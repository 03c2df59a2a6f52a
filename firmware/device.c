/* A device of onbeat's network: answers echo requests (`onbeat measure rtt`), and sets its output at the end of an edge's delay (`onbeat
 * measure chain --via`). One loop on lwIP's raw API; no heap, no thread, no interrupt handler.
 */
#include "device.h"

#include "board.h"
#include "onbeat_net.h"

#include "lwip/etharp.h"
#include "lwip/init.h"
#include "lwip/netif.h"
#include "lwip/timeouts.h"
#include "lwip/udp.h"
#include "netif/ethernet.h"

/* Longest delay of an edge, as of `onbeat net board`. */
enum { MOST_DELAY_NS = 100000000 };

/* An edge that waits for the end of its delay. */
struct edge {
    struct onbeat_packet request;
    struct onbeat_edge_command command;
    uint64_t taken_ns;
    struct udp_pcb *by;
    ip_addr_t to;
    uint16_t port;
};

static struct board_facts facts;
static struct netif card;
static uint8_t frame[BOARD_FRAME_BYTES];
/* When the frame that is being read was taken from the card. */
static uint64_t received_ns;
static struct edge edges[DEVICE_EDGES];
static unsigned first_edge, waiting;

u32_t sys_now(void)
{
    return (u32_t)(board_now_ns() / 1000000u);
}

static void answer(struct onbeat_packet *packet, uint64_t taken_ns, uint8_t kind)
{
    packet->kind = kind;
    packet->received_ns = taken_ns;
    packet->answered_ns = board_now_ns();
}

static void echo(struct udp_pcb *by, struct pbuf *bytes, struct onbeat_packet *packet, const ip_addr_t *to, u16_t port)
{
    answer(packet, received_ns, ONBEAT_ECHO_ANSWER);
    memcpy(bytes->payload, packet, sizeof *packet);
    udp_sendto(by, bytes, to, port);
}

static uint64_t due_ns(const struct edge *edge)
{
    return edge->taken_ns + edge->command.delay_ns;
}

static void keep(const struct edge *edge)
{
    if (waiting < DEVICE_EDGES)
        edges[(first_edge + waiting++) % DEVICE_EDGES] = *edge;
}

/* Sets the output for the oldest edge and reports it. In the order of arrival, as `onbeat net board`: an edge with a shorter delay than the one
 * before it waits for that. */
static void write_output(void)
{
    struct edge *edge = &edges[first_edge];
    struct onbeat_edge_report report = {0};
    struct onbeat_packet packet = edge->request;
    struct pbuf *bytes;

    board_output((int)(packet.sequence & 1));
    report.written_ns = board_now_ns();
    report.edge_ns = edge->command.edge_ns;
    report.release_ns = edge->command.release_ns;
    report.delay_ns = edge->command.delay_ns;
    report.taken_ns = edge->taken_ns;
    bytes = pbuf_alloc(PBUF_TRANSPORT, sizeof packet + sizeof report, PBUF_POOL);
    if (bytes) {
        packet.length = (uint16_t)(sizeof packet + sizeof report);
        answer(&packet, edge->taken_ns, ONBEAT_EDGE_REPORT);
        pbuf_take(bytes, &packet, sizeof packet);
        pbuf_take_at(bytes, &report, sizeof report, sizeof packet);
        udp_sendto(edge->by, bytes, &edge->to, edge->port);
        pbuf_free(bytes);
    }
    first_edge = (first_edge + 1) % DEVICE_EDGES;
    waiting--;
}

static void on_packet(void *unused, struct udp_pcb *by, struct pbuf *bytes, const ip_addr_t *from, u16_t port)
{
    struct onbeat_packet packet;
    struct edge edge = {.taken_ns = received_ns, .by = by, .to = *from, .port = port};

    (void)unused;
    /* Only its own network: a device that answers any sender can be made to send to a third one. */
    if (bytes->next == NULL && ip4_addr_netcmp(ip_2_ip4(from), netif_ip4_addr(&card), netif_ip4_netmask(&card)) &&
        onbeat_packet_read(&packet, bytes->payload, bytes->len)) {
        edge.request = packet;
        if (packet.kind == ONBEAT_ECHO_REQUEST) {
            echo(by, bytes, &packet, from, port);
        } else if (packet.kind == ONBEAT_EDGE_COMMAND) {
            memcpy(&edge.command, (const uint8_t *)bytes->payload + sizeof packet, sizeof edge.command);
            if (edge.command.delay_ns <= MOST_DELAY_NS)
                keep(&edge);
        }
    }
    pbuf_free(bytes);
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

static ip4_addr_t address_of(uint8_t a, uint8_t b, uint8_t c, uint8_t d)
{
    ip4_addr_t address;

    IP4_ADDR(&address, a, b, c, d);
    return address;
}

static void open_network(void)
{
    ip4_addr_t address = address_of(DEVICE_ADDRESS);
    ip4_addr_t mask = address_of(DEVICE_MASK);
    ip4_addr_t gateway = address_of(0, 0, 0, 0);

    lwip_init();
    netif_add(&card, &address, &mask, &gateway, NULL, open_card, ethernet_input);
    netif_set_default(&card);
    netif_set_up(&card);
    netif_set_link_up(&card);
    for (u16_t at = 0; at < DEVICE_PORTS; at++) {
        struct udp_pcb *port = udp_new();
        LWIP_ASSERT("a port for each device", port != NULL);
        udp_bind(port, IP_ADDR_ANY, (u16_t)(ONBEAT_NET_PORT + at));
        udp_recv(port, on_packet, NULL);
    }
}

static void take_frame(size_t bytes)
{
    struct pbuf *taken = pbuf_alloc(PBUF_RAW, (u16_t)bytes, PBUF_POOL);

    if (taken == NULL)
        return;
    pbuf_take(taken, frame, (u16_t)bytes);
    if (card.input(taken, &card) != ERR_OK)
        pbuf_free(taken);
}

int main(void)
{
    facts = board_start();
    open_network();
    for (;;) {
        uint64_t until_ns = board_now_ns() + (uint64_t)sys_timeouts_sleeptime() * 1000000u;
        size_t bytes;

        if (waiting && due_ns(&edges[first_edge]) < until_ns)
            until_ns = due_ns(&edges[first_edge]);
        bytes = board_receive(frame, sizeof frame, until_ns);
        received_ns = board_now_ns();
        if (bytes)
            take_frame(bytes);
        while (waiting && due_ns(&edges[first_edge]) <= board_now_ns())
            write_output();
        sys_check_timeouts();
    }
}
