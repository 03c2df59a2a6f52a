/* The sender of a test of round trips, whose clock is the board's counter: one echo request at each release of a grid, and its run file, as it
 * grows, to `onbeat net log`. After "Analyzing the viability of Ethernet and UDP for robot control" (2016).
 */
#include "device.h"
#include "histogram.h"
#include "network.h"
#include "onbeat_net.h"

/* Samples of a line of the log, bytes of a line. */
enum { INTERVAL_PACKETS = 1000, LINE_BYTES = 16384, LOG_PORT = 7472, LOG_HEADER_BYTES = 40 };
/* State of a part. */
enum { BEGINS_LINE = 1, IS_LAST = 2 };

static const char log_name[] = "sender/round_trip.onbeat.hlog";
static struct histogram round_trips;
static struct udp_pcb *port;
static ip_addr_t device, server;
static char line[LINE_BYTES];
static uint64_t first_ns, sent, answered, disordered, interval_from_ns, latest_release_ns, parts, lines;
static uint64_t expected = 1;

static void put_u32(uint8_t *at, uint32_t number)
{
    for (int byte = 0; byte < 4; byte++)
        at[byte] = (uint8_t)(number >> 8 * byte);
}

/* A datagram of a run file (onbeat_net.h): `bytes` of the text from `at` on. */
static void log_part(const char *at, size_t bytes, uint8_t state)
{
    uint8_t head[LOG_HEADER_BYTES] = {'O', 'N', 'B', 'L', 1, 1, state, sizeof log_name - 1};
    size_t name = sizeof log_name - 1;
    struct pbuf *part = pbuf_alloc(PBUF_TRANSPORT, (u16_t)(sizeof head + name + bytes), PBUF_POOL);

    put_u32(head + 8, 1); /* session */
    put_u32(head + 12, (uint32_t)(sizeof head + name + bytes));
    put_u32(head + 16, (uint32_t)parts++);
    put_u32(head + 24, (uint32_t)lines);
    if (part == NULL)
        return;
    pbuf_take(part, head, sizeof head);
    pbuf_take_at(part, log_name, (u16_t)name, sizeof head);
    pbuf_take_at(part, at, (u16_t)bytes, (u16_t)(sizeof head + name));
    udp_sendto(port, part, &server, LOG_PORT);
    pbuf_free(part);
}

/* Sends a text of whole lines. */
static void log_lines(const char *text, size_t bytes)
{
    const size_t most = ONBEAT_NET_MOST_BYTES - LOG_HEADER_BYTES - (sizeof log_name - 1);

    for (size_t at = 0; at < bytes; at += most)
        log_part(text + at, bytes - at < most ? bytes - at : most, at == 0 ? BEGINS_LINE : 0);
    for (size_t at = 0; at < bytes; at++)
        lines += text[at] == '\n';
}

static void log_text(const char *text)
{
    log_lines(text, strlen(text));
}

static void end_interval(uint64_t now_ns)
{
    const char *end = line + sizeof line;
    char *at;
    size_t bytes = histogram_line(&round_trips, "round_trip", interval_from_ns - first_ns, now_ns - first_ns, line, sizeof line);

    log_lines(line, bytes);
    at = append_text(line, end, "#[sender: ");
    at = append_number(at, end, sent);
    at = append_text(at, end, " sent, ");
    at = append_number(at, end, answered);
    at = append_text(at, end, " answered, ");
    at = append_number(at, end, disordered);
    at = append_text(at, end, " out of order, latest release ");
    at = append_number(at, end, latest_release_ns);
    at = append_text(at, end, " ns after its instant]\n");
    log_lines(line, (size_t)(at - line));
    interval_from_ns = now_ns;
}

static void send_request(uint64_t release_ns)
{
    static uint8_t request[SENDER_PAYLOAD];
    struct pbuf *bytes = pbuf_alloc(PBUF_TRANSPORT, sizeof request, PBUF_POOL);
    struct onbeat_packet packet = {
        .magic = ONBEAT_NET_MAGIC, .version = ONBEAT_NET_VERSION, .kind = ONBEAT_ECHO_REQUEST, .session = 1, .length = sizeof request,
    };

    if (bytes == NULL)
        return;
    packet.sequence = ++sent;
    packet.sent_ns = board_now_ns();
    if (packet.sent_ns - release_ns > latest_release_ns)
        latest_release_ns = packet.sent_ns - release_ns;
    onbeat_packet_write(request, &packet);
    pbuf_take(bytes, request, sizeof request);
    udp_sendto(port, bytes, &device, ONBEAT_NET_PORT);
    pbuf_free(bytes);
}

static void on_answer(void *unused, struct udp_pcb *by, struct pbuf *bytes, const ip_addr_t *from, u16_t from_port)
{
    struct onbeat_packet packet;

    (void)unused, (void)by, (void)from, (void)from_port;
    if (onbeat_packet_read(&packet, bytes->payload, bytes->len) && packet.kind == ONBEAT_ECHO_ANSWER && packet.session == 1) {
        histogram_record(&round_trips, network_received_ns() - packet.sent_ns);
        disordered += packet.sequence < expected;
        expected = packet.sequence + 1;
        answered++;
    }
    pbuf_free(bytes);
}

/* Both addresses are asked for before the first release: a request that waits for ARP would have a round trip of its own. */
static void find_neighbours(void)
{
    uint64_t until_ns = board_now_ns() + 10u * SENDER_PERIOD_NS;

    network_find(&device);
    network_find(&server);
    while (board_now_ns() < until_ns)
        network_wait(until_ns);
    log_text("#[Histogram log format version 1.3]\n#[StartTime: 0.000 (seconds since epoch)]\n"
             "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n");
}

static int is_over(void)
{
    return SENDER_PACKETS && sent == SENDER_PACKETS;
}

int main(void)
{
    uint64_t release_ns;

    network_open();
    device = network_address(SENDER_TO);
    server = network_address(SENDER_LOG);
    port = network_port(ONBEAT_NET_PORT, on_answer);
    find_neighbours();
    first_ns = interval_from_ns = release_ns = board_now_ns() + SENDER_PERIOD_NS;
    for (;;) {
        network_wait(release_ns);
        /* When an answer has come, there is time until the next release. */
        if (round_trips.samples >= INTERVAL_PACKETS && !is_over())
            end_interval(board_now_ns());
        if (board_now_ns() < release_ns)
            continue;
        if (!is_over())
            send_request(release_ns);
        else if (round_trips.samples)
            end_interval(release_ns), log_part(line, 0, IS_LAST);
        release_ns += SENDER_PERIOD_NS;
    }
}
