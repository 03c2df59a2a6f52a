/* A device of onbeat's network: answers echo requests (`onbeat measure rtt`), and sets its output at the end of an edge's delay. Edges arrive as
 * packets (`onbeat measure chain --via`) or at its own input, and an edge at the input can go on to a second board (DEVICE_NEXT): the I/O boards
 * of Mossige, Sampath and Rao (2007). One loop on lwIP's raw API; no heap, no thread, no interrupt handler.
 */
#include "device.h"

#include "network.h"
#include "onbeat_net.h"

/* Longest delay of an edge, as of `onbeat net board`. */
enum { MOST_DELAY_NS = 100000000 };

/* An edge that waits for the end of its delay. */
struct edge {
    struct onbeat_packet request;
    struct onbeat_edge_command command;
    uint64_t taken_ns;
    struct udp_pcb *by; /* that reports it; NULL for one of the input */
    ip_addr_t to;
    uint16_t port;
};

static struct edge edges[DEVICE_EDGES];
static unsigned first_edge, waiting;
static struct udp_pcb *own_port;

static void answer(struct onbeat_packet *packet, uint64_t taken_ns, uint8_t kind)
{
    packet->kind = kind;
    packet->received_ns = taken_ns;
    packet->answered_ns = board_now_ns();
}

static void echo(struct udp_pcb *by, struct pbuf *bytes, struct onbeat_packet *packet, const ip_addr_t *to, u16_t port)
{
    answer(packet, network_received_ns(), ONBEAT_ECHO_ANSWER);
    onbeat_packet_write(bytes->payload, packet);
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

static void send(struct edge *edge, const struct onbeat_packet *packet, void *body)
{
    struct pbuf *bytes = pbuf_alloc(PBUF_TRANSPORT, packet->length, PBUF_POOL);
    uint8_t header[sizeof *packet];

    if (bytes == NULL)
        return;
    onbeat_packet_write(header, packet);
    onbeat_body_order(body, packet->kind);
    pbuf_take(bytes, header, sizeof header);
    pbuf_take_at(bytes, body, onbeat_body_bytes(packet->kind), sizeof header);
    udp_sendto(edge->by ? edge->by : own_port, bytes, &edge->to, edge->port);
    pbuf_free(bytes);
}

/* Sets the output for an edge, and reports it to the sender of its packet. */
static void write_output(struct edge *edge)
{
    struct onbeat_edge_report report = {0};
    struct onbeat_packet packet = edge->request;

    board_output((int)(packet.sequence & 1));
    report.written_ns = board_now_ns();
    if (edge->by == NULL)
        return;
    report.edge_ns = edge->command.edge_ns;
    report.release_ns = edge->command.release_ns;
    report.delay_ns = edge->command.delay_ns;
    report.taken_ns = edge->taken_ns;
    packet.length = (uint16_t)(sizeof packet + sizeof report);
    answer(&packet, edge->taken_ns, ONBEAT_EDGE_REPORT);
    send(edge, &packet, &report);
}

/* Sends an edge of the input on, for the next board to answer it. */
static void pass_on(struct edge *edge)
{
    edge->command.release_ns = due_ns(edge);
    edge->request.sent_ns = board_now_ns();
    send(edge, &edge->request, &edge->command);
}

/* In the order of arrival, as `onbeat net board`: an edge with a shorter delay than the one before it waits for that. */
static void serve_oldest_edge(void)
{
    struct edge *edge = &edges[first_edge];

    if (edge->by == NULL && edge->port)
        pass_on(edge);
    else
        write_output(edge);
    first_edge = (first_edge + 1) % DEVICE_EDGES;
    waiting--;
}

static void on_packet(void *unused, struct udp_pcb *by, struct pbuf *bytes, const ip_addr_t *from, u16_t port)
{
    struct onbeat_packet packet;
    struct edge edge = {.taken_ns = network_received_ns(), .by = by, .to = *from, .port = port};

    (void)unused;
    if (bytes->next == NULL && network_is_near(from) && onbeat_packet_read(&packet, bytes->payload, bytes->len)) {
        edge.request = packet;
        if (packet.kind == ONBEAT_ECHO_REQUEST) {
            echo(by, bytes, &packet, from, port);
        } else if (packet.kind == ONBEAT_EDGE_COMMAND) {
            memcpy(&edge.command, (const uint8_t *)bytes->payload + sizeof packet, sizeof edge.command);
            onbeat_body_order(&edge.command, packet.kind);
            if (edge.command.delay_ns <= MOST_DELAY_NS)
                keep(&edge);
        }
    }
    pbuf_free(bytes);
}

/* An edge at the input; the level is the lowest bit of its number, so that the output follows it whatever is lost. */
static void on_edge(const struct board_event *event)
{
    static uint64_t count;
    struct edge edge = {.taken_ns = board_now_ns()};

    count += (count ^ (uint64_t)event->level) & 1u ? 1u : 2u;
    edge.request.magic = ONBEAT_NET_MAGIC;
    edge.request.version = ONBEAT_NET_VERSION;
    edge.request.kind = ONBEAT_EDGE_COMMAND;
    edge.request.sequence = count;
    edge.request.length = sizeof edge.request + sizeof edge.command;
    edge.command.edge_ns = event->at_ns;
    edge.command.delay_ns = DEVICE_DELAY_NS;
#ifdef DEVICE_NEXT
    edge.to = network_address(DEVICE_NEXT);
    edge.port = DEVICE_NEXT_PORT;
#endif
    keep(&edge);
}

int main(void)
{
    network_open();
    for (uint16_t at = 0; at < DEVICE_PORTS; at++) {
        struct udp_pcb *port = network_port((uint16_t)(ONBEAT_NET_PORT + at), on_packet);
        own_port = own_port ? own_port : port;
    }
    for (;;) {
        struct board_event event = network_wait(waiting ? due_ns(&edges[first_edge]) : UINT64_MAX);

        if (event.kind == BOARD_EDGE)
            on_edge(&event);
        while (waiting && due_ns(&edges[first_edge]) <= board_now_ns())
            serve_oldest_edge();
    }
}
