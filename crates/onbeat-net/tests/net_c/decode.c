/* Decodes the messages on standard input by the structs of onbeat_net.h, each behind its length as two bytes; prints some of their fields, and
 * writes them again: to the same bytes, or it ends with 2. */
#include <onbeat_net.h>
#include <stdio.h>

static void print_body(uint8_t kind, const unsigned char *body)
{
    struct onbeat_actuator_command command;
    struct onbeat_actuator_feedback feedback;
    struct onbeat_io_command outputs;
    struct onbeat_io_feedback inputs;
    struct onbeat_edge_command edge;
    struct onbeat_edge_report report;

    switch (kind) {
    case ONBEAT_ACTUATOR_COMMAND:
        memcpy(&command, body, sizeof command);
        printf(" mode=%u position=%g most_torque=%g", command.mode, command.position_rad, (double)command.most_torque_nm);
        break;
    case ONBEAT_ACTUATOR_FEEDBACK:
        memcpy(&feedback, body, sizeof feedback);
        printf(" mode=%u target=%g gyro=%g latency=%u", feedback.mode, feedback.target_rad, (double)feedback.gyro_rad_s[2],
               feedback.loop_latency_ns);
        break;
    case ONBEAT_IO_COMMAND:
        memcpy(&outputs, body, sizeof outputs);
        printf(" mask=%u pwm=%g", outputs.digital_mask, (double)outputs.pwm[7]);
        break;
    case ONBEAT_IO_FEEDBACK:
        memcpy(&inputs, body, sizeof inputs);
        printf(" in=%u changed=%llu analogue=%g age=%u", inputs.digital_in, (unsigned long long)inputs.changed_ns[7],
               (double)inputs.analogue_v[15], inputs.command_age_us);
        break;
    case ONBEAT_EDGE_COMMAND:
        memcpy(&edge, body, sizeof edge);
        printf(" edge=%llu delay=%u", (unsigned long long)edge.edge_ns, edge.delay_ns);
        break;
    case ONBEAT_EDGE_REPORT:
        memcpy(&report, body, sizeof report);
        printf(" release=%llu state=%u written=%llu", (unsigned long long)report.release_ns, report.state,
               (unsigned long long)report.written_ns);
        break;
    default:
        break;
    }
}

int main(void)
{
    unsigned char length[2], bytes[ONBEAT_NET_MOST_BYTES], again[ONBEAT_NET_MOST_BYTES];
    while (fread(length, 1, 2, stdin) == 2) {
        size_t size = (size_t)length[0] | (size_t)length[1] << 8;
        struct onbeat_packet packet;
        if (size > sizeof bytes || fread(bytes, 1, size, stdin) != size)
            return 1;
        if (!onbeat_packet_read(&packet, bytes, size)) {
            printf("not a message\n");
            continue;
        }
        printf("kind=%u device=%u sequence=%llx lifetime=%x", packet.kind, packet.device, (unsigned long long)packet.sequence,
               packet.lifetime_us);
        memcpy(again, bytes, size);
        onbeat_body_order(again + sizeof packet, packet.kind);
        print_body(packet.kind, again + sizeof packet);
        onbeat_packet_write(again, &packet);
        onbeat_body_order(again + sizeof packet, packet.kind);
        if (memcmp(again, bytes, size) != 0)
            return 2;
        printf("\n");
    }
    return 0;
}
