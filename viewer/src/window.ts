// What a CPU did around a spike: the events that a run file keeps of it, as stretches on lanes (docs/format.md, "window").
import { base64Bytes, inflateRaw } from './packed.ts';
import { ns, type Ns } from './units.ts';

/** The note of a run file. Instants are nanoseconds of the monotonic clock. */
export interface WindowNote {
  block: number;
  index: number;
  release_ns: number;
  expiry_ns: number;
  start_ns: number;
  end_ns: number;
  tid: number;
  cpu: number | null;
  prio: number;
  events: number;
  left_out: number;
  packed: string;
}

export type Lane = 'tasks' | 'interrupts' | 'softirqs' | 'idle';
export const LANES: readonly Lane[] = ['tasks', 'interrupts', 'softirqs', 'idle'];

/** Something that ran from one event to another; times are nanoseconds since the instant the loop's timer was set to. */
export interface Stretch {
  lane: Lane;
  from: number;
  to: number;
  name: string;
  detail: string;
  tid: number | null;
}
/** Events that are missing between two instants. */
export interface Gap {
  from: number;
  to: number;
  count: number | null;
}
/** The loop's CPU around a spike. The loop was to run at 0 and ran at `start`. */
export interface Timeline {
  from: number;
  to: number;
  start: number;
  end: number;
  release: number;
  stretches: Stretch[];
  gaps: Gap[];
}

const LINE = /^.*-\d+ +\[(\d+)\] \S+ +(\d+)\.(\d{9}): (\w+): (.*)$/;
const SWITCH =
  /^prev_comm=(.*) prev_pid=(\d+) prev_prio=(-?\d+) prev_state=(\S+) ==> next_comm=(.*) next_pid=(\d+) next_prio=(-?\d+)$/;
const VECTORS: Readonly<Record<string, string>> = {
  local_timer: 'timer interrupt',
  reschedule: 'reschedule interrupt',
  call_function: 'function call interrupt',
  call_function_single: 'function call interrupt',
  irq_work: 'irq work interrupt',
  thermal_apic: 'thermal interrupt',
  ipi: 'inter-processor interrupt',
};

/** A thread's priority as people know it. */
export const rank = (prio: number): string =>
  prio < 0 ? 'deadline' : prio < 100 ? `real-time priority ${99 - prio}` : `nice ${prio - 120}`;

interface Open {
  lane: Lane;
  key: string;
  from: number;
  name: string;
  details: string[];
}

/** Walks one CPU's events in order. */
class Walk {
  readonly stretches: Stretch[] = [];
  private open: Open[] = [];
  private running: { from: number; tid: number; name: string; prio: number } | null = null;
  /** Where the events begin, or begin again behind a gap. */
  private begin: number;
  constructor(begin: number) {
    this.begin = begin;
  }

  event(at: number, name: string, fields: string): void {
    const edge = /^(.*)_(entry|exit)$/.exec(name);
    if (name === 'sched_switch') this.switched(at, fields);
    else if (name === 'irq_handler_entry')
      this.enter(
        'interrupts',
        /irq=(\d+)/.exec(fields)?.[1] ?? '',
        at,
        /name=(.*)$/.exec(fields)?.[1] ?? 'interrupt',
        `interrupt ${/irq=(\d+)/.exec(fields)?.[1] ?? ''}`,
      );
    else if (name === 'irq_handler_exit')
      this.leave('interrupts', /irq=(\d+)/.exec(fields)?.[1] ?? '', at);
    else if (name === 'softirq_entry')
      this.enter('softirqs', fields, at, /action=(\w+)/.exec(fields)?.[1] ?? 'softirq', 'softirq');
    else if (name === 'softirq_exit') this.leave('softirqs', fields, at);
    else if (name === 'hrtimer_expire_entry')
      this.open.at(-1)?.details.push(/function=(\S+)/.exec(fields)?.[1] ?? 'a timer');
    else if (edge !== null && edge[1]! in VECTORS) {
      if (edge[2] === 'entry') this.enter('interrupts', edge[1]!, at, VECTORS[edge[1]!]!, '');
      else this.leave('interrupts', edge[1]!, at);
    }
  }

  private switched(at: number, fields: string): void {
    const match = SWITCH.exec(fields);
    if (match === null) return;
    const [, prev, prevTid, prevPrio, state, next, nextTid, nextPrio] = match as unknown as [
      string,
      string,
      string,
      string,
      string,
      string,
      string,
      string,
    ];
    this.running ??= { from: this.begin, tid: Number(prevTid), name: prev, prio: Number(prevPrio) };
    this.ran(at, state.startsWith('R') ? 'preempted' : `then in state ${state}`);
    this.running = { from: at, tid: Number(nextTid), name: next, prio: Number(nextPrio) };
  }

  private ran(to: number, left: string): void {
    const { from, tid, name, prio } = this.running!;
    if (to <= from) return;
    this.stretches.push(
      tid === 0
        ? { lane: 'idle', from, to, name: 'idle', detail: 'no thread to run', tid }
        : {
            lane: 'tasks',
            from,
            to,
            name,
            detail: [`thread ${tid}`, rank(prio), left].filter(Boolean).join(', '),
            tid,
          },
    );
  }

  private enter(lane: Lane, key: string, from: number, name: string, detail: string): void {
    this.open.push({ lane, key, from, name, details: detail ? [detail] : [] });
  }

  private leave(lane: Lane, key: string, to: number): void {
    const place = this.open.findLastIndex((one) => one.lane === lane && one.key === key);
    if (place < 0) return;
    // What was inside it has ended without an event.
    for (const one of this.open.splice(place)) this.close(one, to);
  }

  private close({ lane, from, name, details }: Open, to: number): void {
    this.stretches.push({ lane, from, to, name, detail: details.join(', '), tid: null });
  }

  /** Events are missing from here to there. Every lane ends: what ran in between is not known. */
  gap(from: number, to: number): void {
    this.stop(from);
    this.begin = to;
  }

  private stop(at: number): void {
    if (this.running !== null) this.ran(at, '');
    this.running = null;
    for (const one of this.open.splice(0)) this.close(one, at);
  }

  ended(to: number): Stretch[] {
    this.stop(to);
    return this.stretches.sort((a, b) => a.from - b.from || b.to - a.to);
  }
}

const unpacked = (note: WindowNote): string =>
  new TextDecoder().decode(inflateRaw(base64Bytes(note.packed)));

/** The CPUs that have events in a window, the loop's among them. Throws when the note cannot be unpacked. */
export function cpusOf(note: WindowNote): number[] {
  const found = new Set<number>(note.cpu === null ? [] : [note.cpu]);
  for (const line of unpacked(note).split('\n')) {
    const match = line.startsWith('#') ? null : LINE.exec(line);
    if (match !== null) found.add(Number(match[1]));
  }
  return [...found].sort((a, b) => a - b);
}

/** One CPU in a window, the loop's unless another is asked for. Throws when the note cannot be unpacked. */
export function timeline(note: WindowNote, cpu: number | null = note.cpu): Timeline {
  const text = unpacked(note);
  const second = Math.floor(note.expiry_ns / 1e9);
  const zero = note.expiry_ns - second * 1e9;
  // Relative first: the monotonic clock outgrows exact numbers after 104 days.
  const since = (seconds: string, rest: string): number =>
    (Number(seconds) - second) * 1e9 + Number(rest) - zero;
  const absolute = (text: string): number => since(text.slice(0, -9) || '0', text.slice(-9));
  let [from, to] = [0, note.end_ns - note.expiry_ns];
  const gaps: Gap[] = [];
  const events: { at: number; name: string; fields: string }[] = [];
  for (const line of text.split('\n')) {
    const words = line.split(' ');
    if (line.startsWith('# window: ')) [from, to] = [absolute(words[2]!), absolute(words[3]!)];
    else if (line.startsWith('# lost: ') && Number(words[2]) === cpu)
      gaps.push({
        from: absolute(words[3]!),
        to: absolute(words[4]!),
        count: words[5] === '-' ? null : Number(words[5]),
      });
    else if (!line.startsWith('#')) {
      const match = LINE.exec(line);
      if (match === null || Number(match[1]) !== cpu) continue;
      events.push({ at: since(match[2]!, match[3]!), name: match[4]!, fields: match[5]! });
    }
  }
  return {
    from,
    to,
    start: note.start_ns - note.expiry_ns,
    end: note.end_ns - note.expiry_ns,
    release: note.release_ns - note.expiry_ns,
    stretches: stretchesOf(events, gaps, from, to),
    gaps,
  };
}

function stretchesOf(
  events: readonly { at: number; name: string; fields: string }[],
  gaps: readonly Gap[],
  from: number,
  to: number,
): Stretch[] {
  const walk = new Walk(from);
  const ahead = [...gaps].sort((a, b) => a.from - b.from);
  for (const { at, name, fields } of events) {
    while (ahead.length > 0 && ahead[0]!.to <= at) {
      const gap = ahead.shift()!;
      walk.gap(gap.from, gap.to);
    }
    walk.event(at, name, fields);
  }
  for (const gap of ahead) walk.gap(gap.from, gap.to);
  return walk.ended(to);
}

/** The stretch to look at from `at` within a lane: the shortest one around it, or else the nearest within `reach`. */
export function nearest(
  stretches: readonly Stretch[],
  lane: Lane,
  at: number,
  reach: number,
): Stretch | null {
  const away = ({ from, to }: Stretch): number => Math.max(from - at, at - to, 0);
  const near = stretches.filter((one) => one.lane === lane && away(one) <= reach);
  near.sort((a, b) => away(a) - away(b) || a.to - a.from - (b.to - b.from));
  return near[0] ?? null;
}

/** Round distances for an axis: about `most` ticks between `from` and `to`. */
export function ticks(from: number, to: number, most: number): Ns[] {
  const rough = (to - from) / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((of) => of * power).find((of) => of >= rough)!;
  const first = Math.ceil(from / step);
  return Array.from({ length: Math.max(0, Math.floor(to / step) - first + 1) }, (_, i) =>
    ns((first + i) * step),
  );
}
