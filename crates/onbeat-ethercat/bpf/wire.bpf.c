/*
 * The program of an interface whose frames of EtherCAT go to a socket of AF_XDP
 * (crates/onbeat-ethercat/src/carrier/xdp/program.rs). It redirects them to the socket of the frame's queue, and writes
 * the instant of arrival before the frame. All other frames, and those of queues without a socket, pass on.
 */
#include "kernel.h"

/* EtherType of EtherCAT, as it is in a frame. */
#define ETHERCAT __builtin_bswap16(0x88a4)
/* Highest number of a receive queue, plus one. */
#define QUEUES 64

struct ethernet {
	__u16 to[3];
	__u16 from[3];
	__u16 type;
};

/* Before a frame: the instant on CLOCK_MONOTONIC in ns, and its complement, which distinguishes a stamp from other bytes. */
struct stamp {
	__u64 arrival;
	__u64 complement;
};
_Static_assert(sizeof(struct stamp) == 16, "STAMP_BYTES of the socket");

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__type(key, __u32);
	__type(value, __u32);
	__uint(max_entries, QUEUES);
} sockets SEC(".maps");

SEC("xdp")
int wire(struct xdp_md *context)
{
	struct ethernet *ethernet = (void *)(long)context->data;

	if ((void *)(ethernet + 1) > (void *)(long)context->data_end || ethernet->type != ETHERCAT)
		return XDP_PASS;

	__u64 arrival = bpf_ktime_get_ns();
	/* Room for the stamp; drivers without it leave the frame unstamped. */
	if (bpf_xdp_adjust_meta(context, -(int)sizeof(struct stamp)) == 0) {
		struct stamp *stamp = (void *)(long)context->data_meta;

		if ((void *)(stamp + 1) <= (void *)(long)context->data) {
			stamp->arrival = arrival;
			stamp->complement = ~arrival;
		}
	}
	/* Without a socket of this queue, pass. */
	return bpf_redirect_map(&sockets, context->rx_queue_index, XDP_PASS);
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
