// What would remove a cause in the situation of its run: the same list and the same choice as `onbeat::cause::advice` and
// `onbeat::report::remedies`; a test holds them against each other.
import type { Cause, RunNote } from './hlog.ts';

/** What is in effect in a run already, and what its machine is. */
export interface Situation {
  facts: readonly string[];
  priority: number;
  idle_exit_ns?: number;
}

/** Of a run that says nothing of itself. */
export const NOTHING_KNOWN: Situation = { facts: [], priority: 0 };

/**
 * An advice: its id, its text, the facts that it needs, those with which it is in effect already or can do nothing, and the ids of
 * the catalogue of tunings that put it into effect.
 */
type Row = readonly [
  id: string,
  text: string,
  needs: readonly string[],
  notWith: readonly string[],
  tunings: readonly string[],
];

/** Tunings that exist on some machines only, each with the fact that it needs. */
const TUNING_NEEDS: Readonly<Record<string, string>> = {
  'shield.cpuset_v2': 'cpuset_v2',
  'shield.cpuset_v1': 'cpuset_v1',
};

/** Tunings that take a reboot, another kernel, the host, a service or a change of the loop's program. */
export const NOT_IN_TURNS: readonly string[] = [
  'fw.smi',
  'guest.host_advice',
  'irq.irqbalance',
  'irq.managed',
  'kern.preempt_rt',
  'proc.pi_mutex',
  'proc.prefault',
  'shield.rcu_nocbs',
];

export const ADVICE: readonly Row[] = [
  [
    'pin-vcpu',
    'give the virtual CPU a physical CPU of its own on the host (pinning, isolation)',
    ['guest'],
    [],
    ['guest.host_advice'],
  ],
  ['bare-metal', 'run on bare metal', ['guest'], [], []],
  [
    'keep-awake',
    'let the vCPU poll before it halts: guest_halt_poll_ns of the module haltpoll, which costs CPU time of the host',
    ['guest'],
    ['idle_polls'],
    ['idle.haltpoll'],
  ],
  ['leave-tenth', 'leave a tenth of the CPU to others', [], [], []],
  [
    'no-rt-limit',
    'kernel.sched_rt_runtime_us=-1 removes the limit',
    [],
    ['no_rt_limit'],
    ['sched.rt_runtime'],
  ],
  [
    'fair-server-off',
    'debugfs sched/fair_server/cpuN/runtime=0 switches the fair server off',
    [],
    [],
    ['sched.fair_server'],
  ],
  [
    'priority-over-quota',
    'give the loop a real-time priority (tuning P), which no quota holds back',
    [],
    [],
    ['proc.policy'],
  ],
  ['raise-quota', "raise cpu.max of the loop's cgroup", [], [], []],
  ['frozen', "nothing to tune: somebody froze the loop's cgroup", [], [], []],
  [
    'runtime-user',
    'that thread used up the runtime that the real-time threads of this CPU share: let it sleep, give it an ordinary policy (chrt --other --pid 0 TID), or move it to another CPU',
    [],
    [],
    [],
  ],
  [
    'who-changed-policy',
    "nothing to tune: another program changed the loop's policy or priority: look for chrt, sched_setscheduler and rtkit, and take their right to it",
    [],
    [],
    [],
  ],
  [
    'move-interrupt',
    'move the interrupt to another CPU: /proc/irq/N/smp_affinity_list (tuning C)',
    [],
    ['one_cpu', 'shielded'],
    ['irq.affinity', 'irq.irqbalance'],
  ],
  [
    'managed-interrupt',
    'boot with isolcpus=managed_irq,CPU: the kernel then keeps the interrupts it manages off that CPU',
    ['shielded'],
    ['one_cpu', 'managed_irqs_elsewhere'],
    ['irq.managed'],
  ],
  [
    'others-timers',
    'keep the threads that set this timer off this CPU (tuning C)',
    [],
    ['one_cpu', 'shielded'],
    ['timer.migration'],
  ],
  [
    'stop-tick',
    'keep the releases of a loop that sleeps away from the tick (--phase avoid-tick); only a loop that polls gains from nohz_full=CPU at boot (medium risk: slower system calls)',
    [],
    ['one_cpu', 'no_tick'],
    [],
  ],
  [
    'own-interrupts',
    "an interrupt of the CPU's own, which cannot be moved: keep other threads off this CPU (tuning C)",
    [],
    ['one_cpu', 'shielded'],
    ['rcu.normal'],
  ],
  [
    'softirq-timers',
    'timers of other threads expire on this CPU: keep those threads off it (tuning C)',
    [],
    ['one_cpu', 'shielded'],
    ['timer.migration', 'shield.cpuset_v2', 'shield.cpuset_v1'],
  ],
  [
    'rcu-elsewhere',
    'boot with rcu_nocbs=CPU to run RCU callbacks elsewhere',
    [],
    ['one_cpu', 'rcu_elsewhere'],
    ['shield.rcu_nocbs'],
  ],
  [
    'no-balancing',
    'the scheduler balances load on this CPU: take it out of balancing (tuning C, or boot with isolcpus=CPU)',
    [],
    ['one_cpu', 'shielded'],
    ['shield.cpuset_v2', 'shield.cpuset_v1'],
  ],
  [
    'move-softirq',
    "move the device's interrupt, and threads that use loopback, to another CPU (tuning C)",
    [],
    ['one_cpu', 'shielded'],
    ['irq.affinity', 'shield.cpuset_v2', 'shield.cpuset_v1'],
  ],
  [
    'threaded-softirqs',
    'a PREEMPT_RT kernel runs softirqs in threads',
    [],
    ['preempt_rt'],
    ['kern.preempt_rt'],
  ],
  [
    'others-off',
    'keep other threads off this CPU (tuning C)',
    [],
    ['one_cpu', 'shielded'],
    ['shield.cpuset_v2', 'shield.cpuset_v1'],
  ],
  [
    'preempt-rt',
    'a PREEMPT_RT kernel lets go much earlier',
    [],
    ['preempt_rt'],
    ['kern.preempt_rt'],
  ],
  [
    'preempt-full',
    'preempt=full on the kernel command line lets go earlier',
    [],
    ['preempt_rt', 'preempt_full'],
    ['kern.preempt_mode'],
  ],
  ['priority', "give the loop a priority above that thread's (tuning P)", [], [], ['proc.policy']],
  [
    'priority-outside-calls',
    "give the loop a priority above that thread's (tuning P): this helps only if the thread soon leaves its system call",
    [],
    [],
    ['proc.policy'],
  ],
  [
    'move-thread',
    'move that thread to another CPU (tuning C)',
    [],
    ['one_cpu'],
    ['shield.cpuset_v2', 'shield.cpuset_v1', 'shield.threads'],
  ],
  [
    'per-cpu-thread',
    'a thread of the kernel for this CPU, which stays here: keep other threads, which give it work, off (tuning C)',
    [],
    ['one_cpu', 'shielded'],
    ['shield.cpuset_v2', 'shield.cpuset_v1'],
  ],
  [
    'deadline-elsewhere',
    'a SCHED_DEADLINE thread precedes every priority: move it to another CPU (tuning C)',
    [],
    ['one_cpu'],
    ['shield.cpuset_v2', 'shield.cpuset_v1'],
  ],
  [
    'bound-idle',
    'bound the idle states: /dev/cpu_dma_latency 0 (--dma-latency 0us)',
    [],
    ['idle_bound', 'idle_polls'],
    ['idle.pm_qos', 'idle.dma_latency'],
  ],
  [
    'idle-poll',
    'as a last resort boot with idle=poll: no CPU sleeps (high risk: heat, and sibling threads starve)',
    [],
    ['guest', 'idle_polls'],
    [],
  ],
  [
    'spin',
    'spin for the last part before the release (tuning S, --wait spin=50us)',
    [],
    ['spins'],
    ['proc.spin'],
  ],
  ['shorter-work', 'shorten the work of a cycle or lengthen the period', [], [], []],
  [
    'no-lock',
    'share without a lock, or by a mutex with priority inheritance, and keep its holder short (--sharing wait-free, pi)',
    [],
    [],
    ['proc.pi_mutex'],
  ],
  [
    'ask-first',
    'do not wait inside a cycle: ask in one cycle and read in the next (a bus: --exchange pipelined)',
    [],
    [],
    [],
  ],
  [
    'lock-memory',
    'lock and touch all memory beforehand (tuning M: mlockall)',
    [],
    ['memory_locked'],
    ['proc.mlock'],
  ],
  [
    'touch-first',
    'touch new memory before the loop begins, and do not fork: memory is locked, but these pages were new or shared',
    ['memory_locked'],
    [],
    ['proc.prefault'],
  ],
  [
    'bind',
    'bind the loop to one CPU (--cpu, tuning C)',
    [],
    ['one_cpu', 'bound'],
    ['proc.affinity'],
  ],
  [
    'who-moves',
    'somebody changed the CPUs of a bound loop: look for sched_setaffinity, taskset and changes of its cpuset',
    ['bound'],
    ['one_cpu'],
    [],
  ],
  [
    'fix-frequency',
    'fix the frequency: governor performance',
    [],
    ['guest', 'frequency_fixed'],
    ['freq.governor', 'freq.fixed'],
  ],
  ['somebody-stopped', 'nothing to tune: somebody stopped the process', [], [], []],
  [
    'firmware',
    'firmware settings: switch off USB legacy emulation, thermal and ECC polling by SMI',
    [],
    ['guest'],
    ['fw.smi'],
  ],
  [
    'grant-evidence',
    'record again with the missing evidence granted (see what was not permitted)',
    ['evidence_missing'],
    [],
    [],
  ],
  [
    'look-at-events',
    'look at the events around it: onbeat export --spike N --perfetto FILE',
    [],
    [],
    [],
  ],
];

/** The name of a culprit whose timer is late because the host had halted the CPU. */
const HALTED = 'a halted vCPU';
const HALTED_AT_MOST_NS = 500_000;
const SHALLOW_NS = 10_000;
const HIGHEST = 99;
const OF_ONE_CPU = /^(migration|ksoftirqd|cpuhp|rcuc|ktimers|irq_work|kworker)\/\d/;

/** Whether a culprit is a thread of a real-time policy, other than SCHED_DEADLINE. */
export const isRealTime = (culprit: Cause['culprit']): boolean =>
  culprit?.prio !== undefined && culprit.prio >= 0 && culprit.prio < 100;

export type Asked = Pick<Cause, 'kind' | 'culprit'> & { ns: number };

const PLAIN: Readonly<Record<string, readonly string[]>> = {
  hypervisor_steal: ['pin-vcpu', 'bare-metal'],
  hypervisor_pause: ['pin-vcpu', 'bare-metal'],
  policy_change: ['who-changed-policy'],
  cgroup_freezer: ['frozen'],
  timer_interrupt: ['spin', 'pin-vcpu', 'look-at-events'],
  interrupts_off: ['others-off', 'preempt-rt'],
  kernel_section: ['others-off', 'preempt-rt', 'preempt-full'],
  own_overrun: ['shorter-work'],
  lock_wait: ['no-lock'],
  own_wait: ['ask-first'],
  page_fault: ['lock-memory', 'touch-first'],
  migration: ['bind', 'who-moves'],
  frequency_change: ['fix-frequency'],
  stopped: ['somebody-stopped'],
  smi: ['firmware'],
  wake_up_path: ['spin'],
  unexplained: ['grant-evidence', 'look-at-events'],
};

function candidates(
  { kind, culprit, ns }: Asked,
  { facts, priority, idle_exit_ns: exit = 0 }: Situation,
): readonly string[] {
  const name = culprit?.name;
  const isGuest = facts.includes('guest');
  switch (kind) {
    // Another real-time thread than the loop used up the time.
    case 'rt_throttling':
      return [isRealTime(culprit) ? 'runtime-user' : 'leave-tenth', 'no-rt-limit'];
    case 'fair_server':
      return isRealTime(culprit)
        ? ['runtime-user', 'fair-server-off']
        : ['leave-tenth', 'others-off', 'fair-server-off'];
    case 'cpu_quota':
      return priority > 0 ? ['raise-quota'] : ['priority-over-quota', 'raise-quota'];
    case 'hard_irq':
      if (name === 'timer tick_nohz_handler' || name === 'timer tick_sched_timer')
        return ['stop-tick'];
      if (name?.startsWith('timer ')) return ['others-timers'];
      return name !== undefined && !name.includes('(irq ')
        ? ['own-interrupts']
        : ['move-interrupt', 'managed-interrupt'];
    case 'softirq':
      if (name === 'TIMER' || name === 'HRTIMER') return ['softirq-timers'];
      if (name === 'RCU') return ['rcu-elsewhere', 'others-off'];
      return name === 'SCHED' ? ['no-balancing'] : ['move-softirq', 'threaded-softirqs'];
    case 'preempted': {
      const of = culprit?.prio === undefined ? undefined : HIGHEST - culprit.prio;
      if (of !== undefined && of > HIGHEST) return ['deadline-elsewhere'];
      const elsewhere =
        culprit?.tid !== undefined && OF_ONE_CPU.test(culprit.name)
          ? 'per-cpu-thread'
          : 'move-thread';
      if (of !== undefined && (of === HIGHEST || priority > Math.max(of, 0))) return [elsewhere];
      return culprit?.woken_in === undefined
        ? ['priority', elsewhere]
        : [elsewhere, 'priority-outside-calls'];
    }
    case 'late_idle_exit':
      if (!isGuest) return ['bound-idle', 'spin', 'idle-poll'];
      return exit < SHALLOW_NS ? ['keep-awake', 'spin'] : ['keep-awake', 'bound-idle', 'spin'];
    case 'late_timer':
      if (!isGuest) return ['spin', 'firmware'];
      return name === HALTED && ns < HALTED_AT_MOST_NS
        ? ['keep-awake', 'spin']
        : ['pin-vcpu', 'bare-metal'];
    default:
      return PLAIN[kind] ?? [];
  }
}

/** What would remove a cause, as ids, the best first: nothing that is in effect already, and nothing that cannot apply. */
export function adviceIds(cause: Asked, situation: Situation): string[] {
  const applies = (id: string): boolean => {
    const row = ADVICE.find(([known]) => known === id);
    return (
      row !== undefined &&
      row[2].every((fact) => situation.facts.includes(fact)) &&
      !row[3].some((fact) => situation.facts.includes(fact))
    );
  };
  return candidates(cause, situation).filter(applies);
}

/** The same in words; empty where nothing applies. */
export const adviceAgainst = (cause: Asked, situation: Situation): string =>
  adviceIds(cause, situation)
    .map((id) => ADVICE.find(([known]) => known === id)![1])
    .join('; ');

/** The tunings that put advice against a cause into effect on the machine of its run. */
export function tuningIds(cause: Asked, situation: Situation): string[] {
  const all = adviceIds(cause, situation).flatMap(
    (id) => ADVICE.find(([known]) => known === id)![4],
  );
  const exists = (id: string): boolean =>
    TUNING_NEEDS[id] === undefined || situation.facts.includes(TUNING_NEEDS[id]);
  return [...new Set(all)].filter(exists);
}

/** The command that shows them in full; empty without any. */
export function tuningCommand(cause: Asked, situation: Situation): string {
  const ids = tuningIds(cause, situation);
  return ids.length > 0 ? `onbeat tune check ${ids.join(' ')}` : '';
}

/** The command that measures what the first of them is worth that can be measured in turns; empty if none can. */
export function measureCommand(cause: Asked, situation: Situation): string {
  const first = tuningIds(cause, situation).find((id) => !NOT_IN_TURNS.includes(id));
  return first === undefined ? '' : `onbeat tune measure ${first}`;
}

/** What is said where no advice applies that is not in effect already. */
export const NO_REMEDY = 'no further remedy is known for this run’s settings';

/** Whether a list such as `0-2,4` has a CPU; `all` has every one. */
function hasCpu(list: string, cpu: number | null): boolean {
  if (list === 'all') return true;
  return (
    cpu !== null &&
    list
      .split(',')
      .filter((part) => /^\d/.test(part))
      .some((part) => {
        const [first, last] = part.split('-');
        return Number(first) <= cpu && cpu <= Number(last ?? first);
      })
  );
}

/** The situation of a run, from what its file says of the machine, of what was granted and of how the loop was timed. */
export function situationOf(run: RunNote | null): Situation {
  if (run === null) return NOTHING_KNOWN;
  const { host = {}, grants = [], timing = {} } = run;
  const granted = (what: string): boolean =>
    grants.some((grant) => grant.granted && grant.what.startsWith(what));
  const refused = (what: string): boolean =>
    grants.some((grant) => !grant.granted && grant.what.startsWith(what));
  const cpu = typeof timing['cpu'] === 'number' ? timing['cpu'] : null;
  const words = String(host['kernel command line'] ?? '').split(/\s+/);
  const booted = (option: string): string | undefined =>
    words
      .filter((word) => word.startsWith(`${option}=`))
      .pop()
      ?.slice(option.length + 1);
  const facts: [string, boolean][] = [
    ['guest', host['hypervisor'] !== undefined],
    ['one_cpu', host['CPUs online'] === '1'],
    ['preempt_rt', host['preemption'] === 'PREEMPT_RT'],
    ['preempt_full', booted('preempt') === 'full'],
    ['idle_polls', booted('idle') === 'poll'],
    ['rcu_elsewhere', hasCpu(booted('rcu_nocbs') ?? '', cpu)],
    ['no_tick', hasCpu(booted('nohz_full') ?? '', cpu)],
    ['managed_irqs_elsewhere', booted('isolcpus')?.includes('managed_irq') ?? false],
    ['no_rt_limit', host['real-time budget'] === 'unlimited'],
    ['frequency_fixed', host['frequency governor'] === 'performance'],
    ['memory_locked', granted('locked memory')],
    ['bound', cpu !== null && !refused('CPU affinity')],
    ['shielded', granted('CPU shield')],
    [
      'spins',
      timing['wait'] !== undefined && !['sleep', 'relative'].includes(String(timing['wait'])),
    ],
    ['idle_bound', granted('idle-state bound')],
    ['evidence_missing', refused('flight recorder') || refused('steal counter')],
    ['cpuset_v1', host['cpuset'] === 'cgroup v1'],
    ['cpuset_v2', host['cpuset'] === 'cgroup v2'],
  ];
  const exit = /, (\d+) ns to leave$/.exec(String(host['deepest idle state'] ?? ''))?.[1];
  return {
    facts: facts.filter(([, holds]) => holds).map(([fact]) => fact),
    priority: granted('real-time priority') ? Number(timing['priority'] ?? 0) : 0,
    ...(exit === undefined ? {} : { idle_exit_ns: Number(exit) }),
  };
}
