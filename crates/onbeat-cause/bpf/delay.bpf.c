/*
 * Delays the kernel at a trace point on the loop's CPU, once each time it is armed, and records when the delay began
 * and ended. Each program is one kind of disturbance of `onbeat inject`; the trace point determines the context in
 * which it runs (crates/onbeat/src/inject/in_kernel.rs).
 */
#include "kernel.h"

/* enum in include/linux/interrupt.h */
#define NET_RX_SOFTIRQ 3

/* Set by the loader. */
const volatile __u32 loop_cpu = 0;
/* Most readings of the clock: the verifier follows each of them, and accepts a million instructions. */
const volatile __u32 most_readings = 1000;

struct control {
	__u64 from; /* it acts at this time or later, in nanoseconds of CLOCK_MONOTONIC; 0: disarmed */
	__u64 until; /* end of the delay */
	__u64 key; /* the thread or the timer that is meant, where a trace point has several */
	__u64 began; /* 0: it has not acted */
	__u64 ended;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct control);
	__uint(max_entries, 1);
} control SEC(".maps");

/* The record of the loop's CPU while armed. */
static __always_inline struct control *armed(void)
{
	__u32 only = 0;

	if (bpf_get_smp_processor_id() != loop_cpu)
		return 0;
	struct control *here = bpf_map_lookup_elem(&control, &only);
	return here && here->from ? here : 0;
}

static __always_inline int delay(struct control *here)
{
	__u64 now = bpf_ktime_get_ns(), until = here->until;

	if (now < here->from || until < now)
		return 0;
	here->from = 0;
	here->began = now;
	__u32 left = most_readings;
again:
	now = bpf_ktime_get_ns();
	/*
	 * A jump back that the verifier takes last: it follows the exit first, and has one other branch to remember
	 * instead of one for each reading (it takes 8,192 of them at most). A compiler is free to order a loop's
	 * branches the other way.
	 */
	asm volatile goto("if %[now] < %[until] goto %l[before]"
			  :
			  : [now] "r"(now), [until] "r"(until)
			  :
			  : before);
	goto over;
before:
	if (--left)
		goto again;
over:
	here->ended = now;
	return 0;
}

/* sched_waking(thread): under that thread's lock, interrupts off. */
SEC("raw_tp/sched_waking")
int interrupts_off(struct bpf_raw_tracepoint_args *ctx)
{
	struct control *here = armed();
	struct task_struct *thread = (void *)ctx->args[0];
	__s32 pid = 0;

	if (!here)
		return 0;
	READ_MEMBER(pid, thread, pid);
	return (__u32)pid == (__u32)here->key ? delay(here) : 0;
}

/* hrtimer_expire_entry(timer, now): in the timer's interrupt, before the loop is woken. */
SEC("raw_tp/hrtimer_expire_entry")
int timer_interrupt(struct bpf_raw_tracepoint_args *ctx)
{
	struct control *here = armed();
	struct hrtimer *timer = (void *)ctx->args[0];
	__s64 due = 0;

	if (!here)
		return 0;
	READ_MEMBER(due, timer, _softexpires);
	return due == (__s64)here->key ? delay(here) : 0;
}

/* softirq_entry(number): in the softirq of a received packet. */
SEC("raw_tp/softirq_entry")
int slow_softirq(struct bpf_raw_tracepoint_args *ctx)
{
	struct control *here = armed();

	return here && ctx->args[0] == NET_RX_SOFTIRQ ? delay(here) : 0;
}

/* call_function_single_entry(): in the handler of an interrupt that another CPU sent. */
SEC("raw_tp/call_function_single_entry")
int slow_ipi(void *ctx __attribute__((unused)))
{
	struct control *here = armed();

	return here ? delay(here) : 0;
}

/* The kernel lets only programs under a compatible licence read its memory. */
char LICENSE[] SEC("license") = "Dual MIT/GPL";
