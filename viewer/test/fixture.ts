// Realistic recordings, made by a simulated loop: a bench of eighteen cells as in the paper, and an hour at 1 kHz.
import { deflateRawSync, gzipSync } from 'node:zlib';
import { readFileSync } from 'node:fs';
import type { WindowNote } from '../src/window.ts';
import type { Conclusions } from '../src/conclusions.ts';
import { SERIES } from '../src/words.ts';
import { concluded } from './concluded.ts';
import { Recorder } from './encode.ts';

export const DIGITS: Readonly<Record<string, number>> = { observed_period: 4 };
const PERIOD = 1_000_000;

/** A small reproducible generator (mulberry32). */
export function random(origin: number): () => number {
  let state = origin >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

const normal = (next: () => number): number =>
  Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next());

/** One wake-up latency in ns, shaped after the paper's tables. */
export function latency(next: () => number, tuning: string, load: string): number {
  const has = (letter: string): boolean => tuning.includes(letter) && tuning !== 'none';
  const busy = load !== 'idle';
  const base = has('S')
    ? 1600 + 350 * Math.abs(normal(next))
    : (busy ? 5200 : 13500) + (busy ? 1700 : 4600) * Math.abs(normal(next)) * (has('P') ? 0.8 : 1);
  const dice = next();
  if (has('S'))
    return (
      base +
      (dice < 0.002 ? next() * 16_000 : 0) +
      (dice < 0.00006 ? next() * (busy ? 50_000 : 12_000) : 0)
    );
  if (has('P')) {
    const tail = has('C') ? (busy ? 62_000 : 18_000) : busy ? 300_000 : 22_000;
    return base + (dice < 0.003 ? next() * 26_000 : 0) + (dice < 0.0002 ? next() * tail : 0);
  }
  if (!busy)
    return (
      base + (dice < 0.002 ? next() * 40_000 : 0) + (dice < 0.00025 ? 60_000 + next() * 400_000 : 0)
    );
  if (has('C'))
    return (
      base +
      (dice < 0.02 ? -Math.log(1 - next()) * 180_000 : 0) +
      (dice < 0.0008 ? -Math.log(1 - next()) * 5_000_000 : 0)
    );
  return (
    base +
    (dice < 0.12 ? -Math.log(1 - next()) * 7_000_000 : 0) +
    (dice < 0.0005 ? -Math.log(1 - next()) * 60_000_000 : 0)
  );
}

interface FixtureCause {
  kind: string;
  ns: number;
  evidence: string;
  culprit?: { name: string; tid?: number; prio?: number; system_call?: string };
}

/** What a flight recorder would say of a spike: mostly one cause, with the wake-up itself beside it, in no particular order. */
export function causesOf(wakeup: number, index: number, tuning: string): FixtureCause[] {
  const us = (value: number): string => `${(value / 1000).toFixed(1)} us`;
  const path = Math.min(6000, Math.round(wakeup / 10));
  const most = wakeup - path;
  const call = ['write', 'fsync', 'getdents64'][index % 3]!;
  const kinds: ((n: number) => FixtureCause)[] = [
    (n) => ({
      kind: 'kernel_section',
      ns: n,
      evidence: `the kernel worked for onbeat-load [17594] and did not let go on CPU 1 for ${us(n)}`,
      culprit: { name: 'onbeat-load', tid: 17594, prio: 120, system_call: call },
    }),
    (n) => ({
      kind: 'hypervisor_steal',
      ns: n,
      evidence: `the hypervisor counted ${us(n)} of steal on CPU 1`,
    }),
    (n) => ({
      kind: 'softirq',
      ns: n,
      evidence: `softirq NET_RX ran on CPU 1 for ${us(n)}`,
      culprit: { name: 'NET_RX' },
    }),
    (n) => ({
      kind: 'interrupts_off',
      ns: n,
      evidence: `the timer's interrupt came ${us(n)} after its expiry while find [412] was in the kernel`,
      culprit: { name: 'find', tid: 412, prio: 120, system_call: 'newfstatat' },
    }),
    (n) => ({
      kind: 'hard_irq',
      ns: n,
      evidence: `interrupt 24 ran on CPU 1 for ${us(n)}`,
      culprit: { name: 'nvme0q1' },
    }),
    (n) => ({
      kind: 'late_idle_exit',
      ns: n,
      evidence: `CPU 1 left idle state 3 ${us(n)} after the expiry`,
    }),
  ];
  const preempted = (n: number): FixtureCause => ({
    kind: 'preempted',
    ns: n,
    evidence: `hackbench [9021] ran on CPU 1 for ${us(n)}`,
    culprit: { name: 'hackbench', tid: 9021, prio: 120 },
  });
  const throttled = (n: number): FixtureCause => ({
    kind: 'rt_throttling',
    ns: n,
    evidence: `real-time threads of CPU 1 were held back for ${us(n)}`,
  });
  const pick =
    wakeup > 3e7
      ? throttled
      : !tuning.includes('P') && index % 4 < 3
        ? preempted
        : kinds[index % kinds.length]!;
  const other = kinds[(index + 2) % kinds.length]!;
  const rest = Math.round((most * (index % 7)) / 20);
  const none = index % 29 === 0;
  return [
    { kind: 'wake_up_path', ns: path, evidence: 'the timer interrupt, the wake-up and the switch' },
    ...(rest > 0
      ? [
          none
            ? {
                kind: 'unexplained',
                ns: rest,
                evidence: 'no event and no counter shows what it was',
              }
            : other(rest),
        ]
      : []),
    none
      ? {
          kind: 'unexplained',
          ns: most - rest,
          evidence: 'no event and no counter shows what it was',
        }
      : pick(most - rest),
  ];
}

/** Spikes by their largest cause. */
function byMain(spikes: readonly { causes?: FixtureCause[] }[]): Record<string, object> {
  const counts: Record<
    string,
    { spikes: number; worst_ns: number; lateness_ns: number; accounted_ns: number }
  > = {};
  for (const { causes = [] } of spikes) {
    const main = [...causes].sort((a, b) => b.ns - a.ns)[0];
    if (!main) continue;
    const late = causes.reduce((sum, { ns }) => sum + ns, 0);
    const one = (counts[main.kind] ??= { spikes: 0, worst_ns: 0, lateness_ns: 0, accounted_ns: 0 });
    one.spikes++;
    one.worst_ns = Math.max(one.worst_ns, late);
    one.lateness_ns += late;
    one.accounted_ns += causes.reduce(
      (sum, { kind, ns }) => sum + (kind === 'unexplained' ? 0 : ns),
      0,
    );
  }
  return counts;
}

interface Cycle {
  slot: number;
  wakeup: number;
  period: number;
  execution: number;
  response: number;
}
/** What a flight recorder keeps of a spike: a thread in the kernel, with an interrupt and a softirq in it. */
export function windowNote(block: number, index: number, wakeup: number): WindowNote {
  const second = 7_000;
  const expiry = second * 1e9 + 500_000_000;
  const [loop, other, idle] = [
    ['onbeat-loop', 100, 9],
    ['onbeat-load', 17594, 120],
    ['swapper/1', 0, 120],
  ] as const;
  const lines: string[] = [];
  const at = (since: number, cpu: number, tid: number, event: string): void => {
    lines.push(
      `${'task'.padStart(16)}-${String(tid).padEnd(7)} [00${cpu}] ..... ${second}.${String(Math.round(5e8 + since)).padStart(9, '0')}: ${event}`,
    );
  };
  const change = (
    since: number,
    prev: readonly [string, number, number],
    state: string,
    next: readonly [string, number, number],
  ): void =>
    at(
      since,
      1,
      prev[1],
      `sched_switch: prev_comm=${prev[0]} prev_pid=${prev[1]} prev_prio=${prev[2]} prev_state=${state} ==> next_comm=${next[0]} next_pid=${next[1]} next_prio=${next[2]}`,
    );
  change(-900_000, loop, 'S', idle);
  change(-400_000, idle, 'R', other);
  at(wakeup * 0.1, 1, 17594, 'local_timer_entry: vector=236');
  at(
    wakeup * 0.1 + 900,
    1,
    17594,
    'hrtimer_expire_entry: hrtimer=00000000d5706f5f function=hrtimer_wakeup now=1',
  );
  at(wakeup * 0.1 + 6000, 1, 17594, 'local_timer_exit: vector=236');
  at(wakeup * 0.3, 1, 17594, 'irq_handler_entry: irq=36 name=virtio1-req.0');
  at(wakeup * 0.38, 1, 17594, 'irq_handler_exit: irq=36 ret=handled');
  at(wakeup * 0.38, 1, 17594, 'softirq_entry: vec=3 [action=NET_RX]');
  at(wakeup * 0.5, 1, 17594, 'softirq_exit: vec=3 [action=NET_RX]');
  change(wakeup - 2000, other, 'R+', loop);
  change(wakeup + 24_000, loop, 'S', idle);
  const text = [
    '# tracer: nop',
    '#',
    `# window: ${expiry - 4_000_000} ${expiry + wakeup + 1_000_000}`,
    '# cpus: 1',
    `# lost: 1 ${expiry - 4_000_000} ${expiry - 900_000} 17`,
    ...lines,
    '',
  ].join('\n');
  return {
    block,
    index,
    release_ns: expiry,
    expiry_ns: expiry,
    start_ns: expiry + wakeup,
    end_ns: expiry + wakeup + 22_000,
    tid: 100,
    cpu: 1,
    prio: 9,
    events: lines.length,
    left_out: 17,
    packed: deflateRawSync(Buffer.from(text)).toString('base64'),
  };
}

interface Block {
  t: number;
  seconds: number;
  load: string;
}
export interface Made {
  text: string;
  samples: Record<string, number[]>;
  counts: Record<string, number>;
  spikes: unknown[];
  causes?: Record<string, object>;
}

const moments = (values: readonly number[]): object => {
  const mean = values.reduce((a, b) => a + b, 0) / values.length;
  return {
    n: values.length,
    min_ns: values.reduce((a, b) => Math.min(a, b)),
    max_ns: values.reduce((a, b) => Math.max(a, b)),
    mean_ns: mean,
    m2: values.reduce((a, b) => a + (b - mean) ** 2, 0),
  };
};

/** Runs the simulated loop through its blocks and writes the run file. */
export function runFile(options: {
  tuning: string;
  load: string;
  blocks: Block[];
  interval: number;
  start: number;
  dice: number;
  cell: boolean;
  tags: string[];
  cutOff?: boolean;
  shape?: (t: number, ns: number, next: () => number) => number;
  maxima?: boolean;
  causes?: boolean;
}): Made {
  const next = random(options.dice);
  const lines = ['#[Histogram log format version 1.3]'];
  const note = (value: object): void => {
    lines.push(`#[onbeat: ${JSON.stringify(value)}]`);
  };
  note({
    run: {
      schema: 'onbeat.run/1',
      version: '0.1.0',
      command: ['onbeat', 'bench'],
      probe: 'timer',
      started_unix_s: options.start,
      host: HOST,
      cell: options.cell ? { tuning: options.tuning, load: options.load } : null,
      timing: {
        period_ns: PERIOD,
        phase_ns: 400_000,
        deadline_ns: PERIOD,
        work_ns: 20_000,
        wait: 'sleep',
        on_overrun: 'skip',
        cpu: 1,
        priority: 98,
      },
      grants: LADDER,
    },
  });
  lines.push(
    `#[StartTime: ${options.start.toFixed(3)} (seconds since epoch)]`,
    `#[BaseTime: ${options.start.toFixed(3)} (seconds since epoch)]`,
    '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"',
  );
  const samples: Record<string, number[]> = Object.fromEntries(
    [...options.tags, 'release_latency', 'skipped_latency'].map((tag) => [tag, []]),
  );
  const counts = {
    slots: 0,
    cycles: 0,
    skipped: 0,
    overruns: 0,
    deadline_misses: 0,
    lost: 0,
    spike_count: 0,
  };
  const spikes: {
    t: number;
    index: number;
    block: number;
    wakeup_latency_ns: number;
    execution_time_ns: number;
    skipped: number;
    stall: string | null;
    causes?: FixtureCause[];
  }[] = [];
  options.blocks.forEach((block, index) => {
    note({ block: { index, t: block.t, load: block.load, slots_before: counts.slots } });
    let release = 0;
    let last = -PERIOD;
    for (let second = 0; second < block.seconds; second += options.interval) {
      const held: Record<string, number[]> = Object.fromEntries(
        [...options.tags, 'skipped_latency'].map((tag) => [tag, []]),
      );
      const tally = { cycles: 0, skipped: 0, overruns: 0, deadline_misses: 0, lost: 0, spikes: 0 };
      let passed = 0;
      const fine: number[] = [];
      while (release * PERIOD < (second + options.interval) * 1e9) {
        const t = block.t + (release * PERIOD) / 1e9;
        let wakeup = latency(next, options.tuning, block.load);
        if (options.shape) wakeup = options.shape(t, wakeup, next);
        wakeup = Math.round(wakeup);
        const execution = Math.round(21_000 + 2600 * Math.abs(normal(next)));
        const cycle: Cycle = {
          slot: release,
          wakeup,
          execution,
          response: wakeup + execution,
          period: release * PERIOD + wakeup - last,
        };
        last = release * PERIOD + wakeup;
        const values: Record<string, number> = {
          wakeup_latency: wakeup,
          observed_period: cycle.period,
          execution_time: execution,
          response_time: cycle.response,
          sleep_latency: wakeup + 400,
        };
        for (const tag of options.tags)
          if (tag !== 'observed_period' || release > 0) held[tag]!.push(values[tag]!);
        const sec = Math.floor((release * PERIOD) / 1e9 - second);
        fine[sec] = Math.max(fine[sec] ?? 0, wakeup);
        tally.cycles++;
        if (cycle.response > PERIOD) tally.deadline_misses++;
        const over = Math.max(0, Math.floor((wakeup + execution) / PERIOD));
        if (wakeup > 80_000) {
          tally.spikes++;
          spikes.push({
            t: Number((t + wakeup / 1e9).toFixed(6)),
            index: release,
            block: index,
            wakeup_latency_ns: wakeup,
            execution_time_ns: execution,
            skipped: passed,
            stall: wakeup > 3e7 ? 'rt_throttling' : null,
            ...(options.causes ? { causes: causesOf(wakeup, release, options.tuning) } : {}),
          });
        }
        passed = over;
        if (over > 0) tally.overruns++;
        for (let i = 1; i <= over; i++) {
          held['skipped_latency']!.push((over + 1 - i) * PERIOD);
          tally.skipped++;
        }
        release += 1 + over;
      }
      const at = block.t + second;
      // Skipped releases, then all of them without a tag; wake-up latency has no line of its own.
      const released = [...(held['wakeup_latency'] ?? []), ...held['skipped_latency']!];
      for (const value of held['wakeup_latency'] ?? []) samples['wakeup_latency']!.push(value);
      for (const tag of [
        'skipped_latency',
        'release_latency',
        ...options.tags.filter((one) => one !== 'wakeup_latency'),
      ]) {
        const values = tag === 'release_latency' ? released : held[tag]!;
        if (values.length === 0) continue;
        const recorder = new Recorder(DIGITS[tag] ?? 3);
        values.forEach((value) => recorder.record(value));
        lines.push(
          `${tag === 'release_latency' ? '' : `Tag=${tag},`}${at.toFixed(3)},${options.interval.toFixed(3)},${(values.reduce((a, b) => Math.max(a, b)) / 1e6).toFixed(3)},${recorder.base64()}`,
        );
        for (const value of values) samples[tag]!.push(value);
      }
      const own = spikes.filter((s) => s.block === index && s.index >= second * 1000);
      note({
        interval: {
          t: at,
          length: options.interval,
          block: index,
          ...tally,
          ...(options.causes && own.length > 0 ? { causes: byMain(own) } : {}),
          series: Object.fromEntries(
            Object.entries(held)
              .filter(([, v]) => v.length > 0)
              .map(([tag, v]) => [tag, moments(v)]),
          ),
        },
      });
      if (options.maxima)
        note({
          maxima: {
            t: at,
            every: 1,
            series: {
              release_latency: Array.from({ length: options.interval }, (_, i) => fine[i] ?? 0),
            },
          },
        });
      own
        .sort((a, b) => b.wakeup_latency_ns - a.wakeup_latency_ns)
        .slice(0, 10)
        .forEach((spike, i) => {
          const kept = options.causes && i < 3;
          note({
            spike: {
              ...spike,
              ...(options.causes ? { window: kept ? 'kept' : 'not_among_worst' } : {}),
            },
          });
          if (kept) note({ window: windowNote(spike.block, spike.index, spike.wakeup_latency_ns) });
        });
      counts.cycles += tally.cycles;
      counts.skipped += tally.skipped;
      counts.overruns += tally.overruns;
      counts.deadline_misses += tally.deadline_misses;
      counts.spike_count += tally.spikes;
    }
  });
  counts.slots = counts.cycles + counts.skipped;
  const lastBlock = options.blocks[options.blocks.length - 1]!;
  if (!options.cutOff)
    note({
      end: {
        t: lastBlock.t + lastBlock.seconds,
        reason: 'complete',
        ...counts,
        warmup: 0,
        page_faults: 0,
        involuntary_switches: 2,
        cpu_ns: 2e9,
      },
    });
  const causes = options.causes ? byMain(spikes) : undefined;
  spikes.sort((a, b) => b.wakeup_latency_ns - a.wakeup_latency_ns);
  return {
    text: lines.join('\n') + '\n',
    samples,
    counts,
    spikes: spikes.slice(0, 20),
    ...(causes ? { causes } : {}),
  };
}

/** Exact figures of raw samples, as the summary gives them. */
export function figures(samples: readonly number[]): object {
  const all = Float64Array.from(samples).sort();
  const n = all.length;
  const rank = (p: number): number =>
    Math.min(n, Math.max(1, Math.ceil(Math.round((p / 100) * n * 1e6) / 1e6)));
  const supported = (p: number): boolean => p === 100 || n - rank(p) >= 10;
  const low = [99, 99.9, 99.99, 99.999, 100].map((q) => {
    const part = all.subarray(0, rank(q));
    const mean = part.reduce((a, b) => a + b, 0) / part.length;
    return {
      q,
      count: part.length,
      max_ns: part[part.length - 1],
      mean_ns: mean,
      sd_ns: Math.sqrt(part.reduce((a, b) => a + (b - mean) ** 2, 0) / part.length),
      supported: supported(q),
    };
  });
  const whole = low[4]!;
  return {
    count: n,
    min_ns: all[0],
    mean_ns: whole.mean_ns,
    sd_ns: whole.sd_ns,
    max_ns: all[n - 1],
    jitter_ns: all[n - 1]! - all[0]!,
    tail_ratio: (all[n - 1]! - whole.mean_ns) / whole.sd_ns,
    low,
    percentiles: [50, 90, 99, 99.9, 99.99, 99.999].map((p) => ({
      p,
      value_ns: all[rank(p) - 1],
      supported: supported(p),
    })),
  };
}

export const HOST = {
  kernel: '6.18.3 PREEMPT_RT',
  cpu: 'AMD Ryzen Embedded V2718',
  cpus: 16,
  memory: '31.3 GiB',
  distribution: 'Debian GNU/Linux 12',
  clock_source: 'tsc',
  idle_driver: 'acpi_idle',
  governor: 'performance',
  virtualization: 'none',
  timer_slack_ns: 50000,
  cmdline: 'BOOT_IMAGE=/vmlinuz-6.18.3 root=UUID=af01 ro quiet isolcpus=managed_irq,3 nohz_full=3',
};
export const LADDER = [
  {
    what: 'SCHED_FIFO 98',
    wanted: 'to run before every ordinary thread',
    granted: true,
    why_not: null,
    costs: null,
    remedy: null,
  },
  {
    what: 'locked memory',
    wanted: 'to keep page faults out of the loop',
    granted: true,
    why_not: null,
    costs: null,
    remedy: null,
  },
  {
    what: 'idle states',
    wanted: 'to keep the CPU from sleeping deeply between cycles',
    granted: false,
    why_not: '/dev/cpu_dma_latency: permission denied',
    costs: 'a wake-up from a deep idle state adds 50 to 200 µs to the first cycles after a pause',
    remedy:
      'echo \'KERNEL=="cpu_dma_latency", GROUP="realtime", MODE="0660"\' | sudo tee /etc/udev/rules.d/60-onbeat.rules',
  },
  {
    what: 'flight recorder',
    wanted: 'to name what stalled a spike',
    granted: false,
    why_not: '/sys/kernel/tracing is not readable',
    costs: 'spikes are listed with their size only',
    remedy: 'sudo mount -o remount,gid=realtime,mode=750 /sys/kernel/tracing',
  },
];
export const TUNINGS = ['none', 'M', 'C', 'MC', 'P', 'PM', 'PC', 'PMC', 'PMCS'];

export function cellSummary(
  tuning: string,
  load: string,
  made: Made,
  blocks: number,
  limit = 100_000,
  share = 10_000,
): Record<string, unknown> {
  const worst =
    (made.samples['wakeup_latency'] ?? []).filter((v) => v > limit).length +
    (made.samples['skipped_latency'] ?? []).length;
  const outcome =
    worst > made.counts['slots']! / share
      ? 'FAIL'
      : made.counts['slots']! < 29_956
        ? 'INCONCLUSIVE'
        : 'PASS';
  return {
    tuning,
    load,
    file: `${tuning}-${load}.onbeat.hlog`,
    permitted: true,
    why_not: null,
    complete: true,
    blocks,
    ...made.counts,
    page_faults: 0,
    involuntary_switches: 2,
    cpu_share: 0.031,
    series: Object.fromEntries(
      Object.entries(made.samples)
        .filter(([, v]) => v.length > 0)
        .map(([tag, v]) => [tag, figures(v)]),
    ),
    verdict: {
      outcome,
      over: worst,
      releases: made.counts['slots'],
      needed: 29_956,
      sentence: `${worst} of ${made.counts['slots']} releases were later than ${limit / 1000} µs.`,
    },
    spikes: made.spikes,
    ...(made.causes ? { causes: made.causes } : {}),
    notes:
      load === 'paper' && tuning === 'none'
        ? ["the load's part ping died: ping: socket: operation not permitted"]
        : [],
  };
}

/** What was not as wanted when the bench began, as the command records it. */
const FINDINGS = [
  ...[3, 3, 2, 2, 2, 1, 1, 1, 0].map((effect, i) => ({
    id: `mem.setting_${i + 1}`,
    title: 'A setting of memory',
    effect,
    current: String(i),
    wanted: String(i + 1),
    takes: 'now',
    mends: ['page_fault'],
  })),
  {
    id: 'shield.threads',
    title: 'CPUs of running threads',
    effect: 2,
    current: 'CPUs 0-1 in 36 places',
    wanted: 'no CPU of 1',
    takes: 'now',
    mends: ['preempted', 'kernel_section'],
  },
  {
    id: 'irq.affinity',
    title: 'Interrupt affinity',
    effect: 3,
    current: 'interrupt 24 (ACPI:Ged): CPUs 0-1',
    wanted: 'no CPU of 1',
    takes: 'now',
    mends: ['hard_irq', 'softirq'],
  },
];

/** A bench of nine tunings under two loads, with one cell that was not permitted; with or without a flight recorder. */
export function bench(blocks = 6, seconds = 10, causes = true): string {
  const cells: Record<string, unknown>[] = [];
  const texts: string[] = [];
  const start = 1_763_712_000.1;
  ['idle', 'paper'].forEach((load, l) =>
    TUNINGS.forEach((tuning, c) => {
      if (tuning === 'C' && load === 'paper') {
        cells.push({
          ...cellSummary(
            tuning,
            load,
            {
              text: '',
              samples: {},
              counts: {
                slots: 0,
                cycles: 0,
                skipped: 0,
                overruns: 0,
                deadline_misses: 0,
                lost: 0,
                spike_count: 0,
              },
              spikes: [],
            },
            0,
          ),
          permitted: false,
          file: null,
          verdict: null,
          series: {},
          why_not: 'cpuset: /sys/fs/cgroup is mounted read-only',
        });
        return;
      }
      const first = l * blocks * TUNINGS.length * seconds + c * seconds;
      const tags = [
        'wakeup_latency',
        'observed_period',
        'execution_time',
        'response_time',
        ...(tuning.includes('S') ? ['sleep_latency'] : []),
      ];
      const made = runFile({
        tuning,
        load,
        interval: 1,
        start: start + first,
        dice: 100 * l + c + 1,
        cell: true,
        tags,
        blocks: Array.from({ length: blocks }, (_, i) => ({
          t: i * TUNINGS.length * seconds,
          seconds,
          load,
        })),
        causes,
        cutOff: tuning === 'PM' && load === 'idle',
      });
      const summary = cellSummary(tuning, load, made, blocks);
      if (tuning === 'PM' && load === 'idle') summary['complete'] = false;
      cells.push(summary);
      texts.push(
        `#[onbeat: ${JSON.stringify({ file: `${tuning}-${load}.onbeat.hlog` })}]\n${made.text}`,
      );
    }),
  );
  const limit = { limit_ns: 100_000, at: 99.99, on: 'release_latency' };
  const effect = (
    factor: string,
    load: string,
    ratio: number,
    low: number,
    high: number,
    sentence: string,
  ): object => ({ factor, load, metric: 'p99 release latency', ratio, low, high, sentence });
  const summary = {
    schema: 'onbeat.bench/1',
    version: '0.1.0',
    command: ['onbeat', 'bench', '--limit', '100us@99.99', '--loads', 'idle,paper'],
    started_unix_s: start,
    elapsed_s: 2 * blocks * TUNINGS.length * seconds,
    host: HOST,
    ladder: LADDER,
    limit,
    order: 'interleaved',
    tunings: TUNINGS,
    loads: ['idle', 'paper'],
    period_ns: PERIOD,
    cells,
    effects: [
      effect('P', 'idle', 0.92, 0.85, 1.01, 'Priority made no difference that these samples show.'),
      effect(
        'M',
        'idle',
        1.04,
        0.97,
        1.12,
        'Locking memory made no difference that these samples show.',
      ),
      effect(
        'C',
        'idle',
        0.96,
        0.88,
        1.05,
        'A shielded CPU made no difference that these samples show.',
      ),
      effect(
        'S',
        'idle',
        0.11,
        0.09,
        0.14,
        'Spinning the last 50 µs made wake-up latency nine times shorter.',
      ),
      effect(
        'P',
        'paper',
        0.0021,
        0.0012,
        0.0038,
        'Priority made the 99th percentile about 480 times shorter.',
      ),
      effect(
        'M',
        'paper',
        0.99,
        0.91,
        1.08,
        'Locking memory made no difference that these samples show.',
      ),
      effect(
        'C',
        'paper',
        0.42,
        0.31,
        0.55,
        'A shielded CPU made the 99th percentile 2.4 times shorter.',
      ),
      effect(
        'S',
        'paper',
        0.19,
        0.15,
        0.23,
        'Spinning the last 50 µs made wake-up latency five times shorter.',
      ),
    ],
    ...(causes
      ? {
          causes: [
            'With no added load, 62 spikes: 21 steal (worst 402 us), 15 late idle exit (worst 398 us), 12 kernel section in onbeat-load/write (worst 311 us), 8 softirq NET_RX (worst 280 us) and 6 with other causes; causes account for 97.8 % of their lateness',
            'To reduce steal: give the virtual CPU a physical CPU of its own on the host (pinning, isolation), or run on bare metal',
          ],
        }
      : {}),
    focus: { load: 'paper', series: 'release_latency', tunings: ['none', 'PMCS'] },
    verdict: {
      outcome: 'PASS',
      best: { tuning: 'PMCS', load: 'paper' },
      sentence: 'Yes: PMCS keeps 99.99 % of 60,000 releases within 100 µs under the paper’s load.',
    },
  };
  const run = {
    run: {
      schema: 'onbeat.run/1',
      version: '0.1.0',
      command: ['onbeat', 'bench'],
      probe: 'bench',
      started_unix_s: start,
      host: HOST,
      findings: FINDINGS,
    },
  };
  const whole = { bench: { tunings: TUNINGS, loads: ['idle', 'paper'], limit } };
  const events = [
    { t: 540.2, load: 'paper', event: 'started', detail: 'ping, du, find, hackbench' },
    {
      t: 541.1,
      load: 'paper',
      event: 'part_substituted',
      detail: 'hackbench is not installed; 400 messaging threads of our own instead',
    },
    { t: 1080, load: 'paper', event: 'stopped', detail: '' },
  ];
  texts.push(
    `#[onbeat: {"file":"bench.onbeat.hlog"}]\n#[Histogram log format version 1.3]\n#[onbeat: ${JSON.stringify(run)}]\n#[onbeat: ${JSON.stringify(whole)}]\n${events.map((load) => `#[onbeat: ${JSON.stringify({ load })}]`).join('\n')}\n`,
  );
  return `${texts.join('')}#[onbeat: ${JSON.stringify({ summary })}]\n`;
}

/** An hour at 1 kHz, three series, by itself in intervals of six seconds with one-second maxima between. */
export function hour(seconds = 3600, interval = 6, conclusions: Conclusions = concluded): string {
  const start = 1_763_800_000.5;
  const made = runFile({
    tuning: 'P',
    load: 'stress',
    interval,
    start,
    dice: 7,
    cell: false,
    maxima: true,
    tags: ['wakeup_latency', 'observed_period', 'response_time'],
    blocks: [{ t: 0, seconds, load: 'stress' }],
    shape: (t, value, next) =>
      value +
      (t % 600 > 480 ? 3000 : 0) +
      900 * Math.sin(t / 200) +
      (next() < 0.00002 ? 60_000 + next() * 90_000 : 0),
  });
  const cell = cellSummary('P', 'stress', made, 1, 150_000, 100_000);
  cell['file'] = 'timer.onbeat.hlog';
  cell['conclusions'] = conclusions;
  const summary = {
    schema: 'onbeat.measure/1',
    version: '0.1.0',
    command: [
      'onbeat',
      'measure',
      'timer',
      '--duration',
      '1h',
      '--load',
      'stress',
      '--limit',
      '150us@99.999',
    ],
    started_unix_s: start,
    elapsed_s: seconds,
    host: HOST,
    ladder: LADDER.slice(0, 2),
    limit: { limit_ns: 150_000, at: 99.999, on: 'release_latency' },
    order: 'sequential',
    tunings: ['P'],
    loads: ['stress'],
    period_ns: PERIOD,
    cells: [cell],
    effects: [],
    verdict: {
      outcome: 'FAIL',
      best: null,
      sentence: `No: ${(cell['verdict'] as { over: number }).over} of ${made.counts['slots']!.toLocaleString('en-US')} releases were later than 150 µs; 99.999 % allow ${Math.floor(made.counts['slots']! / 1e5)}.`,
    },
  };
  const holes = [
    {
      exclusion: {
        t: seconds * 0.3,
        length: seconds * 0.02,
        what: 'suspend',
        sentence: 'the machine slept for 12 s',
        samples: 21,
      },
    },
    { resume: { t: seconds * 0.6, unmeasured_s: 41.5, after: null, phase_ns: 0 } },
  ]
    .map((note) => `#[onbeat: ${JSON.stringify(note)}]\n`)
    .join('');
  return `#[onbeat: {"file":"timer.onbeat.hlog"}]\n${made.text}${holes}#[onbeat: ${JSON.stringify({ summary })}]\n`;
}

/** A bus for a minute, on which a drive was switched off for half a second. */
export function switchedOff(): string {
  const made = runFile({
    tuning: 'P',
    load: 'idle',
    interval: 1,
    start: 1_763_900_000,
    dice: 11,
    cell: false,
    tags: ['wakeup_latency', 'response_time'],
    blocks: [{ t: 0, seconds: 60, load: 'idle' }],
  });
  const event = (
    t: number,
    kind: string,
    device: string | undefined,
    alarm: boolean,
    sentence: string,
  ): object => ({
    t,
    cycle: Math.round(t * 1000),
    kind,
    ...(device ? { device } : {}),
    old: 0,
    new: 0,
    code: 0,
    alarm,
    sentence,
  });
  const listed = [
    event(0.05, 'bus_up', undefined, false, 'all 59 devices are in OP'),
    event(
      20.001,
      'working_counter_off',
      undefined,
      true,
      'working counter 168 where 171 is expected',
    ),
    event(20.002, 'device_lost', 'left knee', true, 'left knee does not answer'),
    event(20.522, 'device_back', 'left knee', false, 'left knee is back in OP after 0.520 s'),
  ];
  const cell = cellSummary('P', 'idle', made, 1);
  cell['file'] = 'bus.onbeat.hlog';
  cell['events'] = {
    alarms: { working_counter_off: 1, device_lost: 1 },
    others: { bus_up: 1, device_back: 1 },
    lost: 0,
    left_out: 0,
    incidents: ['left knee stopped answering at 20.002 s, back in OP after 0.520 s'],
    listed,
  };
  const sentence =
    'FAIL: 2 bus and robot alarms, 0 allowed: left knee stopped answering at 20.002 s, back in OP after 0.520 s';
  const summary = {
    schema: 'onbeat.measure/1',
    version: '0.1.0',
    command: ['onbeat', 'measure', 'bus', '--limit-on', 'events=0'],
    started_unix_s: 1_763_900_000,
    elapsed_s: 60,
    host: HOST,
    ladder: LADDER.slice(0, 2),
    limit: null,
    most_alarms: 0,
    order: 'single',
    tunings: ['P'],
    loads: ['idle'],
    period_ns: PERIOD,
    cells: [cell],
    effects: [],
    verdict: { outcome: 'FAIL', best: null, sentence },
  };
  const notes = listed.map((note) => `#[onbeat: ${JSON.stringify({ event: note })}]\n`).join('');
  return `#[onbeat: {"file":"bus.onbeat.hlog"}]\n${made.text}${notes}#[onbeat: ${JSON.stringify({ summary })}]\n`;
}

type Cells = {
  cells: (Record<string, unknown> & {
    tuning: string;
    load: string;
    series: Record<string, unknown>;
  })[];
};

/** The same text with its summary changed. */
export function withSummary(text: string, change: (summary: Cells) => void): string {
  return text.replace(/^#\[onbeat: (\{"summary":.*\})\]$/m, (_, json: string) => {
    const note = JSON.parse(json) as { summary: Cells };
    change(note.summary);
    return `#[onbeat: ${JSON.stringify(note)}]`;
  });
}

/** The same text with every series that the page knows; those that are not simulated have the values of the observed period. */
export function withEverySeries(text: string): string {
  const made = [
    'release_latency',
    'wakeup_latency',
    ...[...text.matchAll(/^Tag=(\w+),/gm)].map(([, tag]) => tag!),
  ];
  const more = SERIES.map(({ tag }) => tag).filter((tag) => !made.includes(tag));
  const recorded = text.replace(/^Tag=observed_period,(.*)$/gm, (line, rest: string) =>
    [line, ...more.map((tag) => `Tag=${tag},${rest}`)].join('\n'),
  );
  return withSummary(recorded, ({ cells }) => {
    for (const { series } of cells)
      if (series['observed_period'])
        for (const tag of more) series[tag] ??= series['observed_period'];
  });
}

/** The template, filled as the command does it. */
export function filled(text: string): string {
  const template = readFileSync(
    `${process.env['VIEWER_ROOT']}/../crates/onbeat-cli/assets/viewer.html`,
    'utf8',
  );
  return template.replace('@@DATA@@', () =>
    gzipSync(Buffer.from(text), { level: 6 }).toString('base64'),
  );
}
