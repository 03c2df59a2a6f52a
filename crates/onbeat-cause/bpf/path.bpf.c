/*
 * Records the loop's path through the kernel: one program for each trace point that a wake-up of the loop passes. What
 * they cost adds to its latency, so they write 32 bytes to a ring in memory shared with the recorder, read members of
 * the kernel's structures without a helper (`tp_btf`), and touch as few cache lines as they can: there are no
 * constants of the loader here, which would lie in another map; what differs are programs of their own.
 *
 * crates/onbeat-cause/src/path_record.rs reads the records.
 */
#include "kernel.h"

/* Kinds of records. */
enum kind {
	SWITCH = 1,
	WAKING = 2,
	TIMER_START = 3,
	TIMER_EXPIRE_ENTRY = 4,
	IDLE = 5,
	LOCAL_TIMER_ENTRY = 6,
	LOCAL_TIMER_EXIT = 7,
	EXIT = 8,
	READING = 9,
	LEFT_IN = 10,
	LENT = 11,
	FAULT = 12,
	CALL = 13,
	FUNCTION_BEGINS = 14,
	FUNCTION_ENDS = 15,
};

/* Flags of a reading. */
#define THROTTLED 1
#define BY_SERVER 2
#define KNOWS_STEAL 4
#define KNOWS_THROTTLING 8
#define KNOWS_SERVER 16
#define FROZEN 32
#define KNOWS_FREEZER 64

/* Instead of a system call's number: the thread is in none, and how it entered the kernel is unknown; or an interrupt
 * or a fault brought it from user code. */
#define NO_CALL ((__u32)-1)
#define FROM_USER ((__u32)-2)
/* Numbers of system calls are below this. */
#define CALLS 1024
#define CALL_BITS 10

/* futex(2), on x86-64, and its operations that wait for a value; the flags of an operation are above these bits. */
#define FUTEX 202
#define FUTEX_OPERATION 0x7f
#define FUTEX_WAIT 0
#define FUTEX_WAIT_BITSET 9
/* Where the C library of GNU has the number of the thread that holds a mutex, from its word on. */
#define OWNER_AT 8

struct record {
	__u64 at; /* CLOCK_MONOTONIC in nanoseconds; 0: being written */
	__u32 tid;
	__u32 kind; /* and extra << 8 */
	union {
		__u32 words[4];
		__u64 doubles[2];
		char name[16];
	};
};

/* A cache line for each CPU: its records written so far, and where its ring lies among all records. */
struct head {
	__u64 written;
	__u32 first;
	__u32 mask;
	__u64 unused[6];
};

/* The loop, in the page of the heads, which every program touches anyway. */
struct loop {
	__u32 tid;
	__u32 unused;
	__u64 due_at; /* when its timer is due; 0: no timer, or it woke the loop */
	__u64 stacks_taken;
	__u64 fault_began;
	__u64 call_began;
	/* The memory whose lock the loop asked for or holds, by its address; 0: none. */
	__u64 locked;
	/* When madvise last gave pages back, and from which address on it was to. */
	__u64 gave_back_at;
	__u64 gave_back_from;
};

#define STACKS 64
#define FRAMES 20
/* The stack of a wake-up with at most this lateness is not copied. */
#define LATE_NS 30000

struct stack {
	__u64 at; /* 0: being written */
	__s64 bytes; /* or a negative error */
	__u64 frames[FRAMES];
};

/* The loop's entry, then one for each CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct head);
	__uint(max_entries, 1);
} heads SEC(".maps");

/* The rings of all CPUs. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct record);
	__uint(max_entries, 1);
} records SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct stack);
	__uint(max_entries, STACKS);
} stacks SEC(".maps");

/*
 * The threads that are measured, each at the place of the low bits of its number: a look takes one cache line, which
 * threads that run often keep in the cache.
 */
#define PLACES (1 << 16)

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, PLACES);
} measured SEC(".maps");

/* The time of a record is its last word to be written. */
#define WRITE_LAST(to, value)                                                                                          \
	do {                                                                                                           \
		asm volatile("" ::: "memory");                                                                         \
		*(volatile __u64 *)&(to) = (value);                                                                    \
	} while (0)

/* Whether an interrupt, whose programs reserve records too, can occur between two instructions of a program. */
enum interrupts { ARE_OFF, MAY_COME };

static __always_inline struct loop *the_loop(void)
{
	__u32 key = 0;

	return bpf_map_lookup_elem(&heads, &key);
}

static __always_inline int is_measured(__u32 tid)
{
	__u32 key = tid & (PLACES - 1);
	__u64 *place = bpf_map_lookup_elem(&measured, &key);

	return tid && place && *place == tid;
}

/*
 * Returns the CPU's next record, with a time of 0. Where interrupts may come, the number is incremented atomically,
 * which costs more than the two plain instructions.
 */
static __always_inline struct record *reserve(enum interrupts interrupts)
{
	__u32 key = bpf_get_smp_processor_id() + 1;
	struct head *head = bpf_map_lookup_elem(&heads, &key);
	__u64 number;

	if (!head)
		return 0;
	if (interrupts == MAY_COME)
		number = __sync_fetch_and_add(&head->written, 1);
	else
		number = head->written++;
	key = head->first + ((__u32)number & head->mask);
	struct record *record = bpf_map_lookup_elem(&records, &key);
	if (record) {
		*(volatile __u64 *)&record->at = 0;
		asm volatile("" ::: "memory");
	}
	return record;
}

/* Reserves a record of `kind` for the current thread. */
static __always_inline struct record *begin(enum kind kind, enum interrupts interrupts)
{
	struct record *record = reserve(interrupts);

	if (record) {
		record->tid = bpf_get_current_task_btf()->pid;
		record->kind = kind;
	}
	return record;
}

static __always_inline int finish(struct record *record)
{
	WRITE_LAST(record->at, bpf_ktime_get_ns());
	return 0;
}

/* How a thread entered the kernel: a system call with its first arguments, or NO_CALL or FROM_USER. */
struct entry {
	__u32 call;
	__u64 first, second, third;
};

/*
 * Returns how `thread` entered the kernel, on x86-64, by the user registers at the top of its kernel stack: the
 * instruction `syscall` leaves the return address in `rcx` and the flags in `r11`, and no other entry does both.
 */
static __always_inline struct entry entry_of(struct task_struct *thread)
{
	/* struct pt_regs from r11 on; it ends the 16 KiB of a kernel stack, 168 bytes long. */
	struct {
		__u64 r11, r10, r9, r8, rax, rcx, rdx, rsi, rdi, orig_rax, rip, cs, eflags;
	} user;
	struct entry entry = { .call = NO_CALL };
	const int at = (16 << 10) - 168 + 48;

	if (!HAS_MEMBER(pt_regs___x86, orig_ax))
		return entry;
	/* Most wake-ups find an idle CPU, which has no user registers, so its stack is not read. */
	if (!thread->pid)
		return entry;
	bpf_probe_read_kernel(&user, sizeof(user), thread->stack + at);
	if ((user.cs & 3) != 3)
		return entry;
	if (user.rcx != user.rip || user.r11 != user.eflags) {
		entry.call = FROM_USER;
		return entry;
	}
	entry.first = user.rdi;
	entry.second = user.rsi;
	entry.third = user.rdx;
	if (user.orig_rax < CALLS)
		entry.call = user.orig_rax;
	return entry;
}

static __always_inline __u32 call_of(struct task_struct *thread)
{
	return entry_of(thread).call;
}

static __always_inline struct rq *queue_of(struct task_struct *thread)
{
	return thread->se.cfs_rq->rq;
}

static __always_inline __u32 state_of(struct task_struct *thread)
{
	if (HAS_MEMBER(task_struct, __state))
		return thread->__state;
	return ((struct task_struct___before_5_14 *)thread)->state;
}

static __always_inline __u32 cpu_of(struct task_struct *thread)
{
	if (HAS_MEMBER(task_struct, thread_info.cpu))
		return thread->thread_info.cpu;
	return ((struct task_struct___with_cpu *)thread)->cpu;
}

static __always_inline __u32 knows_steal(void)
{
	return HAS_MEMBER(rq, prev_steal_time_rq) ? KNOWS_STEAL : 0;
}

/* What the scheduler's flag for throttled real-time threads says of `thread`. */
static __always_inline __u32 throttling_of(struct task_struct *thread)
{
	if (!HAS_MEMBER(rt_rq, rt_throttled))
		return 0;
	if (HAS_MEMBER(task_struct, rt.rt_rq))
		return KNOWS_THROTTLING | (thread->rt.rt_rq->rt_throttled ? THROTTLED : 0);
	return KNOWS_THROTTLING | (queue_of(thread)->rt.rt_throttled ? THROTTLED : 0);
}

/*
 * What cgroup's freezers say of `thread`: of v1 in its state (TASK_FROZEN, since Linux 6.1), of v2 in its requests to
 * stop (JOBCTL_TRAP_FREEZE, since Linux 5.2). A thread that the latter wakes still sleeps for itself, so its trap
 * counts when it leaves the CPU only.
 */
static __always_inline __u32 freezing_of(struct task_struct *thread, enum kind kind)
{
	__u32 flags = KNOWS_FREEZER;

	if (!HAS_MEMBER(task_struct, jobctl))
		return 0;
	if (state_of(thread) & 0x8000)
		flags |= FROZEN;
	if (kind == READING && thread->jobctl & (1 << 23))
		flags |= FROZEN;
	return flags;
}

/* The flags of a reading of the loop's `thread`; `next` gets the CPU from it, if it leaves one. */
static __always_inline __u32 flags_of(struct task_struct *thread, struct task_struct *next, enum kind kind)
{
	__u32 flags = knows_steal() | throttling_of(thread) | freezing_of(thread, kind);

	if (next && HAS_MEMBER(task_struct, dl_server)) {
		flags |= KNOWS_SERVER;
		if (next->dl_server)
			flags |= BY_SERVER;
	}
	return flags;
}

/* How sched_switch says in which state a thread leaves the CPU. */
enum leaving {
	GIVEN, /* by its last argument, since Linux 5.18 */
	OF_THREAD, /* by the thread: another CPU may have woken it in the meantime, so that it looks preempted */
};

/* The state in which a thread leaves the CPU; 0: it is ready and was made to leave. */
static __always_inline __u32 state_left_in(__u64 *context, enum leaving leaving)
{
	return leaving == GIVEN ? (__u32)context[3] : state_of((void *)context[1]);
}

static __always_inline void fill_switch(struct record *record, __u64 *context, enum leaving leaving)
{
	struct task_struct *prev = (void *)context[1], *next = (void *)context[2];
	__u32 state = state_left_in(context, leaving);

	record->tid = prev->pid;
	record->words[0] = next->pid;
	record->words[1] = next->prio;
	record->words[2] = prev->prio;
	record->words[3] = state | prev->exit_state;
	record->kind = SWITCH | ((__u32)context[0] & 1) << 8;
}

/*
 * Records the system call in which the loop, the current thread, leaves its CPU: its first argument, and of a futex the
 * value that it waits to change, or the word of a lock with priority inheritance, and who holds a mutex of the GNU C
 * library. It leaves, so nothing of this delays its wake-up.
 */
static __always_inline void record_call_left_in(const struct entry *entry, __u64 now)
{
	struct record *record = reserve(ARE_OFF);
	__u32 operation = 0, word = entry->third, owner = 0;

	if (!record)
		return;
	if (HAS_MEMBER(pt_regs___x86, orig_ax) && entry->call == FUTEX) {
		operation = entry->second & FUTEX_OPERATION;
		if (operation != FUTEX_WAIT && operation != FUTEX_WAIT_BITSET)
			bpf_probe_read_user(&word, sizeof(word), (void *)entry->first);
		bpf_probe_read_user(&owner, sizeof(owner), (void *)(entry->first + OWNER_AT));
	}
	record->tid = bpf_get_current_task_btf()->pid;
	record->doubles[0] = entry->first;
	record->words[2] = word;
	record->words[3] = owner;
	record->kind = LEFT_IN | (entry->call | operation << CALL_BITS) << 8;
	WRITE_LAST(record->at, now);
}

/*
 * Writes two records with the same time: the switch, and the reading for the loop. Both are reserved before one is
 * written, because the memory of a record is usually not in the cache. A loop that leaves in a system call has a third.
 */
static __always_inline int at_the_loops_switch(__u64 *context, enum leaving leaving, int leaves)
{
	struct task_struct *prev = (void *)context[1], *next = (void *)context[2];
	struct task_struct *thread = leaves ? prev : next;
	struct record *record = reserve(ARE_OFF), *reading = reserve(ARE_OFF);

	if (!record || !reading)
		return 0;
	__u64 now = bpf_ktime_get_ns();
	struct entry entry = entry_of(prev);
	reading->tid = prev->pid;
	reading->words[2] = entry.call;
	reading->words[3] = next->pid;
	/* A thread that gets the CPU is not held back by a rule of the scheduler, and this code delays its wake-up. */
	reading->kind = READING | (leaves ? flags_of(thread, next, READING) : knows_steal()) << 8;
	if (HAS_MEMBER(rq, prev_steal_time_rq))
		reading->doubles[0] = queue_of(thread)->prev_steal_time_rq;
	WRITE_LAST(reading->at, now);

	fill_switch(record, context, leaving);
	WRITE_LAST(record->at, now);
	if (leaves && entry.call < CALLS)
		record_call_left_in(&entry, now);
	return 0;
}

/* sched_switch(preempt, prev, next, prev_state) */
static __always_inline int at_switch(__u64 *context, enum leaving leaving)
{
	struct task_struct *prev = (void *)context[1], *next = (void *)context[2];
	struct loop *loop = the_loop();

	if (!loop)
		return 0;
	if (loop->tid == (__u32)prev->pid) {
		/* What it gives back after a sleep is of another call. */
		if (state_left_in(context, leaving))
			loop->gave_back_at = 0;
		return at_the_loops_switch(context, leaving, 1);
	}
	if (loop->tid == (__u32)next->pid)
		return at_the_loops_switch(context, leaving, 0);
	struct record *record = reserve(ARE_OFF);
	if (!record)
		return 0;
	fill_switch(record, context, leaving);
	return finish(record);
}

SEC("tp_btf/sched_switch")
int sched_switch(__u64 *context)
{
	return at_switch(context, GIVEN);
}

SEC("tp_btf/sched_switch")
int switch_old(__u64 *context)
{
	return at_switch(context, OF_THREAD);
}

/*
 * For measuring alone: the switches of the threads that are measured and no others, without readings. Another thread's
 * switch costs two looks into an array.
 */
static __always_inline int at_measured_switch(__u64 *context, enum leaving leaving)
{
	struct task_struct *prev = (void *)context[1], *next = (void *)context[2];

	if (!is_measured(prev->pid) && !is_measured(next->pid))
		return 0;
	struct record *record = reserve(ARE_OFF);
	if (!record)
		return 0;
	fill_switch(record, context, leaving);
	return finish(record);
}

SEC("tp_btf/sched_switch")
int own_switch(__u64 *context)
{
	return at_measured_switch(context, GIVEN);
}

SEC("tp_btf/sched_switch")
int own_switch_old(__u64 *context)
{
	return at_measured_switch(context, OF_THREAD);
}

/*
 * Copies the kernel's stack if the loop's timer was due more than LATE_NS ago and a thread ran, whose code is then on
 * the stack. A wake-up that no timer caused is not late: the first one takes the timer's time away.
 */
static __always_inline void copy_stack_if_late(void *context, struct loop *loop, struct task_struct *thread)
{
	__u64 due_at = loop->due_at;

	if (!due_at)
		return;
	loop->due_at = 0;
	if (!thread->pid || bpf_ktime_get_ns() - due_at <= LATE_NS)
		return;
	__u32 key = loop->stacks_taken++ & (STACKS - 1);
	struct stack *stack = bpf_map_lookup_elem(&stacks, &key);
	if (!stack)
		return;
	/* A reader skips a stack whose time is 0. */
	*(volatile __u64 *)&stack->at = 0;
	stack->bytes = bpf_get_stack(context, stack->frames, sizeof(stack->frames), 0);
	WRITE_LAST(stack->at, bpf_ktime_get_ns());
}

/*
 * sched_waking(thread) of the loop, on the CPU of the waker: in an interrupt, the current thread is the interrupted
 * one. The steal time is not read: the kernel updates it when the loop is queued.
 */
static __always_inline int at_waking(__u64 *context, int copies_stack)
{
	struct task_struct *thread = (void *)context[0];
	struct loop *loop = the_loop();

	if (!loop || loop->tid != (__u32)thread->pid)
		return 0;
	struct record *record = reserve(MAY_COME);
	if (!record)
		return 0;
	struct task_struct *current = bpf_get_current_task_btf();
	record->words[0] = thread->pid;
	record->words[1] = thread->prio;
	record->words[2] = cpu_of(thread);
	record->tid = current->pid;
	record->words[3] = call_of(current);
	record->kind = WAKING | flags_of(thread, 0, WAKING) << 8;
	if (copies_stack)
		copy_stack_if_late(context, loop, current);
	return finish(record);
}

SEC("tp_btf/sched_waking")
int sched_waking(__u64 *context)
{
	return at_waking(context, 0);
}

SEC("tp_btf/sched_waking")
int waking_stack(__u64 *context)
{
	return at_waking(context, 1);
}

/* hrtimer_start(timer, ...), by the current thread. */
static __always_inline int record_timer_start(__u64 *context)
{
	const __u64 most_slack = 0xffffff;
	struct hrtimer *timer = (void *)context[0];
	__u64 due = timer->_softexpires, slack = timer->node.expires - due;
	struct record *record = begin(TIMER_START, MAY_COME);

	if (!record)
		return 0;
	record->kind = TIMER_START | (__u32)(slack < most_slack ? slack : most_slack) << 8;
	record->doubles[0] = (__u64)timer;
	record->doubles[1] = due;
	return finish(record);
}

/* hrtimer_start(timer, ...), by the loop only. */
static __always_inline int at_timer_start(__u64 *context, int copies_stack)
{
	struct hrtimer *timer = (void *)context[0];
	struct loop *loop = the_loop();

	if (!loop || loop->tid != (__u32)bpf_get_current_task_btf()->pid)
		return 0;
	if (copies_stack)
		loop->due_at = timer->_softexpires;
	return record_timer_start(context);
}

SEC("tp_btf/hrtimer_start")
int hrtimer_start(__u64 *context)
{
	return at_timer_start(context, 0);
}

SEC("tp_btf/hrtimer_start")
int start_stack(__u64 *context)
{
	return at_timer_start(context, 1);
}

static __always_inline int record_timer_expiry(__u64 *context)
{
	struct hrtimer *timer = (void *)context[0];
	struct record *record = begin(TIMER_EXPIRE_ENTRY, MAY_COME);

	if (!record)
		return 0;
	record->doubles[0] = (__u64)timer;
	record->doubles[1] = (__u64)timer->function;
	return finish(record);
}

/* The same, by each of the threads that are measured. */
SEC("tp_btf/hrtimer_start")
int own_start(__u64 *context)
{
	return is_measured(bpf_get_current_task_btf()->pid) ? record_timer_start(context) : 0;
}

/* hrtimer_expire_entry(timer, now), where it interrupts a thread that is measured: it was about to sleep. */
SEC("tp_btf/hrtimer_expire_entry")
int own_expire(__u64 *context)
{
	return is_measured(bpf_get_current_task_btf()->pid) ? record_timer_expiry(context) : 0;
}

/* hrtimer_expire_entry(timer, now) */
SEC("tp_btf/hrtimer_expire_entry")
int hrtimer_expire(__u64 *context)
{
	return record_timer_expiry(context);
}

/* cpu_idle(state, cpu), on entry only: the next event of the CPU shows when it was awake again. */
SEC("tp_btf/cpu_idle")
int cpu_idle(__u64 *context)
{
	/* States are small numbers, and all ones when the CPU is awake again (PWR_EVENT_EXIT). */
	const __u64 deepest = 1000;
	__u64 state = context[0];

	if (state > deepest)
		return 0;
	struct record *record = begin(IDLE, MAY_COME);
	if (!record)
		return 0;
	record->words[0] = state;
	return finish(record);
}

/* The kernel disables interrupts around both trace points of its local timer. */
SEC("tp_btf/local_timer_entry")
int timer_entry(void *context __attribute__((unused)))
{
	struct record *record = begin(LOCAL_TIMER_ENTRY, ARE_OFF);

	return record ? finish(record) : 0;
}

SEC("tp_btf/local_timer_exit")
int timer_exit(void *context __attribute__((unused)))
{
	struct record *record = begin(LOCAL_TIMER_EXIT, ARE_OFF);

	return record ? finish(record) : 0;
}

/* sched_process_exit(thread, ...) */
SEC("tp_btf/sched_process_exit")
int process_exit(__u64 *context)
{
	struct task_struct *thread = (void *)context[0];
	struct record *record = begin(EXIT, MAY_COME);

	if (!record)
		return 0;
	bpf_probe_read_kernel(record->name, sizeof(record->name), &thread->comm);
	return finish(record);
}

/*
 * sched_pi_setprio(thread, waiter): `thread` holds a lock with priority inheritance, and runs from now on at the priority
 * of `waiter`; without one at its own. A waiter may spin for the lock on its CPU and never leave it.
 */
SEC("tp_btf/sched_pi_setprio")
int pi_setprio(__u64 *context)
{
	struct task_struct *thread = (void *)context[0], *waiter = (void *)context[1];
	struct record *record = begin(LENT, MAY_COME);

	if (!record)
		return 0;
	record->words[0] = thread->pid;
	record->words[1] = thread->prio;
	record->words[2] = waiter ? waiter->pid : 0;
	record->words[3] = waiter ? waiter->prio : 0;
	return finish(record);
}

static __always_inline struct loop *the_current_loop(void)
{
	struct loop *loop = the_loop();

	return loop && loop->tid == (__u32)bpf_get_current_task_btf()->pid ? loop : 0;
}

/* handle_mm_fault(area, address, flags, registers), by the loop: its page faults, with their length. */
SEC("fentry/handle_mm_fault")
int fault_begins(void *context __attribute__((unused)))
{
	struct loop *loop = the_current_loop();

	if (loop)
		loop->fault_began = bpf_ktime_get_ns();
	return 0;
}

SEC("fexit/handle_mm_fault")
int fault_ends(__u64 *context)
{
	/* VM_FAULT_MAJOR of enum vm_fault_reason: it had to wait for a device. */
	const __u32 major = 4;
	struct loop *loop = the_current_loop();

	if (!loop || !loop->fault_began)
		return 0;
	struct record *record = begin(FAULT, MAY_COME);
	if (!record)
		return 0;
	__u64 now = bpf_ktime_get_ns();
	record->kind = FAULT | ((__u32)context[4] & major ? 1 : 0) << 8;
	record->doubles[0] = context[1];
	record->doubles[1] = now - loop->fault_began;
	loop->fault_began = 0;
	WRITE_LAST(record->at, now);
	return 0;
}

/* Instead of a call from its beginning to its end, what is known of it is recorded. */
#define AT_LEAST (1 << CALL_BITS)

/* Records that `ns` until `now` were in a call that changes memory. */
static __always_inline int record_call(__u32 call, __u64 ns, __u64 now)
{
	struct record *record = begin(CALL, MAY_COME);

	if (!record)
		return 0;
	record->kind = CALL | call << 8;
	record->doubles[0] = ns;
	WRITE_LAST(record->at, now);
	return 0;
}

/* System calls of the loop that change its memory: one record at the end of each, with its length. */
static __attribute__((noinline)) int call_begins(void)
{
	struct loop *loop = the_current_loop();

	if (loop)
		loop->call_began = bpf_ktime_get_ns();
	return 0;
}

static __attribute__((noinline)) int call_ends(void)
{
	struct loop *loop = the_current_loop();

	if (!loop || !loop->call_began)
		return 0;
	__u64 now = bpf_ktime_get_ns(), ns = now - loop->call_began;
	loop->call_began = 0;
	return record_call(call_of(bpf_get_current_task_btf()) & (CALLS - 1), ns, now);
}

#define AT_BOTH_ENDS(function)                                                                                         \
	SEC("fentry/" #function)                                                                                       \
	int begins_##function(void *context __attribute__((unused)))                                                   \
	{                                                                                                              \
		return call_begins();                                                                                  \
	}                                                                                                              \
	SEC("fexit/" #function)                                                                                        \
	int ends_##function(void *context __attribute__((unused)))                                                     \
	{                                                                                                              \
		return call_ends();                                                                                    \
	}

/* The kernel's functions behind mmap, munmap, madvise, brk, and behind fork and clone. */
AT_BOTH_ENDS(vm_mmap_pgoff)
AT_BOTH_ENDS(__x64_sys_munmap)
AT_BOTH_ENDS(__x64_sys_madvise)
AT_BOTH_ENDS(__x64_sys_brk)
AT_BOTH_ENDS(kernel_clone)

/*
 * The same calls where the kernel lets no program be put at its functions: for nearly all of their time they hold the
 * lock of the memory. fork takes the child's too, inside that of its own.
 */
/* mmap_lock_start_locking(memory, write) */
SEC("tp_btf/mmap_lock_start_locking")
int lock_wanted(__u64 *context)
{
	struct loop *loop = the_current_loop();

	if (!loop || (loop->locked && loop->locked != context[0]))
		return 0;
	loop->locked = context[0];
	loop->call_began = bpf_ktime_get_ns();
	return 0;
}

/* mmap_lock_acquire_returned(memory, write, success) */
SEC("tp_btf/mmap_lock_acquire_returned")
int lock_taken(__u64 *context)
{
	struct loop *loop = the_current_loop();

	if (loop && loop->locked == context[0] && !(context[2] & 1))
		loop->locked = 0;
	return 0;
}

/* mmap_lock_released(memory, write) */
SEC("tp_btf/mmap_lock_released")
int lock_returned(__u64 *context)
{
	struct loop *loop = the_current_loop();

	if (!loop || loop->locked != context[0])
		return 0;
	loop->locked = 0;
	__u32 call = call_of(bpf_get_current_task_btf());
	/* Page faults take it as well. */
	if (call >= CALLS)
		return 0;
	__u64 now = bpf_ktime_get_ns();
	return record_call(call | AT_LEAST, now - loop->call_began, now);
}

/* madvise(2), on x86-64: since Linux 6.17 it takes another lock, which has no trace points. */
#define MADVISE 28
/*
 * From one table (2 MiB) whose pages are given back to the next takes less than this, in nanoseconds: pages are freed
 * by the ten thousand.
 */
#define TABLE_NS 10000000

/*
 * rss_stat(memory, member), of every table whose pages are given back: from one to the next it was the same call,
 * unless the loop has slept in between.
 */
SEC("tp_btf/rss_stat")
int pages_counted(void *context __attribute__((unused)))
{
	struct loop *loop = the_current_loop();

	if (!loop || loop->locked)
		return 0;
	struct entry entry = entry_of(bpf_get_current_task_btf());
	if (entry.call != MADVISE)
		return 0;
	__u64 now = bpf_ktime_get_ns(), ns = now - loop->gave_back_at;
	int is_same = loop->gave_back_from == entry.first && ns < TABLE_NS;
	loop->gave_back_at = now;
	loop->gave_back_from = entry.first;
	return is_same ? record_call(entry.call | AT_LEAST, ns, now) : 0;
}

/*
 * A function of the program each of whose calls is a cycle of its loop. Its stack tells which return belongs to which
 * call: functions call themselves, and returns may be lost.
 */
static __always_inline int at_function(enum kind kind, struct pt_regs___x86 *registers)
{
	struct record *record = begin(kind, MAY_COME);

	if (!record)
		return 0;
	record->doubles[0] = HAS_MEMBER(pt_regs___x86, orig_ax) ? registers->sp : 0;
	return finish(record);
}

SEC("uprobe")
int function_begins(struct pt_regs___x86 *registers)
{
	return at_function(FUNCTION_BEGINS, registers);
}

SEC("uretprobe")
int function_ends(struct pt_regs___x86 *registers)
{
	return at_function(FUNCTION_ENDS, registers);
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
