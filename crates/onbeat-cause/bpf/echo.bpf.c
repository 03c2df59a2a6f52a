/*
 * Answers echo requests of `onbeat net` at an interface, where the frame lies (crates/onbeat-net/src/kernel_device.rs):
 * the request becomes its answer and leaves by the interface on which it came. Every other frame passes on to the
 * kernel's network stack, and so to the sockets of the devices, which decide and count what they do without this.
 *
 * Absent on purpose: IPv6, IP options and fragments, and the UDP checksum: answers have none (RFC 768 allows 0 over
 * IPv4), those of requests are left to the network card.
 */
#include "kernel.h"

#define network16(number) __builtin_bswap16(number)

#define ETH_P_IP 0x0800
#define IPPROTO_UDP 17
/* Version 4, a header of five words. */
#define PLAIN_IPV4 0x45
/* More fragments, or a place other than the first. */
#define FRAGMENT 0x3fff

struct ethernet {
	__u16 to[3];
	__u16 from[3];
	__u16 type;
};

struct ipv4 {
	__u8 version_and_words;
	__u8 service;
	__u16 length;
	__u16 id;
	__u16 fragment;
	__u8 hops;
	__u8 protocol;
	__u16 checksum;
	__u32 from;
	__u32 to;
};

struct udp {
	__u16 from;
	__u16 to;
	__u16 length;
	__u16 checksum;
};

/* docs/net.md */
struct message {
	__u32 magic;
	__u8 version;
	__u8 kind;
	__u16 device;
	__u64 sequence;
	__u64 sent;
	__u64 received;
	__u64 answered;
	__u64 reserved;
	__u16 length;
	__u16 unused[3];
};
_Static_assert(sizeof(struct message) == 56, "the header of a message");

/* Set by the loader; addresses in network order. */
const volatile __u32 bind_address = 0;
const volatile __u32 first_port = 0;
const volatile __u32 last_port = 0;
const volatile __u32 magic = 0;
const volatile __u32 version = 0;
const volatile __u32 request = 0;
const volatile __u32 answer = 0;
const volatile __u32 range_count = 0;
const volatile __u32 silence_count = 0;

/* Senders that are answered. */
struct range {
	__u32 first;
	__u32 mask;
};

/* A device leaves sequences from `from` on and before `to` unanswered. */
struct silence {
	__u64 from;
	__u64 to;
	__u64 port;
};

/* The loader gives both maps the size that they need. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct range);
	__uint(max_entries, 1);
} ranges SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct silence);
	__uint(max_entries, 1);
} silences SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, 1);
} answers SEC(".maps");

static __always_inline int is_allowed(__u32 sender)
{
	for (__u32 at = 0; at < range_count; at++) {
		__u32 key = at;
		struct range *range = bpf_map_lookup_elem(&ranges, &key);

		if (range && (sender & range->mask) == range->first)
			return 1;
	}
	return 0;
}

static __always_inline int is_silent(__u32 port, __u64 sequence)
{
	for (__u32 at = 0; at < silence_count; at++) {
		__u32 key = at;
		struct silence *silence = bpf_map_lookup_elem(&silences, &key);

		if (silence && silence->port == port && sequence >= silence->from && sequence < silence->to)
			return 1;
	}
	return 0;
}

#define SWAP(one, other)                                                                                               \
	do {                                                                                                           \
		typeof(one) kept = (one);                                                                              \
		(one) = (other);                                                                                       \
		(other) = kept;                                                                                        \
	} while (0)

SEC("xdp")
int echo(struct xdp_md *context)
{
	void *begin = (void *)(long)context->data, *end = (void *)(long)context->data_end;
	struct ethernet *ethernet = begin;
	struct ipv4 *ip = begin + sizeof(*ethernet);
	struct udp *udp = (void *)ip + sizeof(*ip);
	struct message *message = (void *)udp + sizeof(*udp);

	if ((void *)(message + 1) > end)
		return XDP_PASS;

	if (ethernet->type != network16(ETH_P_IP) || ip->version_and_words != PLAIN_IPV4 ||
	    ip->fragment & network16(FRAGMENT) || ip->protocol != IPPROTO_UDP || ip->to != bind_address)
		return XDP_PASS;
	__u32 port = network16(udp->to);
	if (port < first_port || port > last_port)
		return XDP_PASS;

	/* An echo request of this version, as long as it states. */
	if (message->magic != magic || message->version != version || message->kind != request ||
	    network16(udp->length) != message->length + sizeof(*udp))
		return XDP_PASS;
	if (!is_allowed(ip->from) || is_silent(port, message->sequence))
		return XDP_PASS;

	message->received = bpf_ktime_get_ns();
	for (int at = 0; at < 3; at++)
		SWAP(ethernet->to[at], ethernet->from[at]);
	/* The checksum of the IP header is the same in any order. */
	SWAP(ip->from, ip->to);
	SWAP(udp->from, udp->to);
	udp->checksum = 0;
	message->kind = answer;

	__u32 only = 0;
	__u64 *count = bpf_map_lookup_elem(&answers, &only);
	if (count)
		__sync_fetch_and_add(count, 1);
	message->answered = bpf_ktime_get_ns();
	return XDP_TX;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
