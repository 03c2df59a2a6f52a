// What would remove a cause in the situation of its run: the same list and the same choice as `onbeat::cause::advice` and
// `onbeat::report::remedies`; a test holds them against each other.
import type { Cause, RunNote } from './hlog.ts';
import { ADVICE, NOT_IN_TURNS, PLAIN_ADVICE, TUNING_NEEDS } from './vocabulary.ts';

export { ADVICE, NOT_IN_TURNS } from './vocabulary.ts';

/** What is in effect in a run already, and what its machine is. */
export interface Situation {
  facts: readonly string[];
  priority: number;
  idle_exit_ns?: number;
}

/** Of a run that says nothing of itself. */
export const NOTHING_KNOWN: Situation = { facts: [], priority: 0 };

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
      return PLAIN_ADVICE[kind] ?? [];
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
  const { host = {}, grants = [] } = run;
  // Imported runs, and the file of a whole bench, have none.
  const timing = run.timing ?? {};
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
