// The summary as `onbeat bench --json` prints it (docs/format.md). The page shows these figures and computes none of them.
import type { Situation } from './advice.ts';
import type { Comparison } from './comparison.ts';
import type { Conclusions } from './conclusions.ts';
import type { CauseCount, EventNote, Grant, Spike } from './hlog.ts';
import type { Low } from './histogram.ts';
import type { Ns } from './units.ts';

export interface SeriesFigures {
  count: number;
  min_ns: Ns;
  mean_ns: Ns;
  sd_ns: Ns;
  max_ns: Ns;
  jitter_ns?: Ns;
  tail_ratio?: number | null;
  low: Low[];
  percentiles: { p: number; value_ns: Ns; supported: boolean }[];
}
export type Outcome = 'PASS' | 'FAIL' | 'INCONCLUSIVE';
/** The loop's own deadline, where no limit was given. */
export interface DeadlineVerdict {
  outcome: Outcome;
  words: string;
  sentence: string;
  basis?: string;
}
export interface CellVerdict {
  outcome: Outcome;
  over: number;
  releases: number;
  needed: number | null;
  sentence: string;
  basis?: string;
}
export interface PowerUse {
  cpus: string;
  driver?: string;
  /** The shallowest first; absent where the kernel lists none. */
  states?: { name: string; exit_us: number; entered: number; time_us: number }[];
}
/** The loop of a cell on one of its CPUs. */
export interface CpuLoop {
  cpu: number;
  file: string | null;
  why_not?: string;
  /** Of the cell's main series, without those of the lowest samples. */
  figures?: SeriesFigures;
  deadline_misses: number | null;
  skipped: number | null;
  outcome?: Outcome;
  power?: PowerUse;
}
export interface CellSummary {
  tuning: string;
  load: string;
  /** Where each of several CPUs has a loop, the worst of them: the figures are its own. */
  cpu?: number;
  cpus?: CpuLoop[];
  file: string | null;
  permitted: boolean;
  why_not: string | null;
  complete: boolean;
  goes_on?: boolean;
  blocks: number;
  slots: number;
  cycles: number;
  skipped: number | null;
  overruns: number | null;
  deadline_misses: number | null;
  lost: number;
  spike_count: number | null;
  page_faults?: number;
  involuntary_switches?: number;
  cpu_share?: number | null;
  series: Record<string, SeriesFigures>;
  verdict: CellVerdict | null;
  spikes: Spike[];
  notes: string[];
  /** Where another tool recorded it: misses, overruns and skipped releases are not known then. */
  import?: { format: string } | null;
  /** What the run is about, the main series first; absent for release latency. */
  about?: string[];
  /** Exact figures second by second, spread over the run. */
  by_second?: {
    seconds: number;
    min_mean_ns: Ns;
    min_sd_ns: Ns;
    samples: number;
    mean_mean_ns: Ns;
    mean_sd_ns: Ns;
    max_mean_ns: Ns;
    max_sd_ns: Ns;
    overruns: number;
  };
  /** What follows from the figures of its probe, in sentences. */
  derived?: string[];
  /** What became of packets; absent without any. */
  packets?: PacketAccount;
  /** A chain through a bus in cycles, predicted and measured. */
  chain?: ChainCycles;
  /** How the CPUs of its loop rested and how fast they ran. */
  power?: PowerUse;
  /** Spikes by main cause. */
  causes?: Record<string, CauseCount>;
  /** What decides which advice applies. */
  situation?: Situation;
  /** What happened on its bus and to the robot on it; alarms say that something is wrong. */
  events?: {
    alarms: Record<string, number>;
    others: Record<string, number>;
    lost: number;
    left_out: number;
    incidents: string[];
    listed: EventNote[];
  };
  /** What can be concluded beyond the figures. */
  conclusions?: Conclusions;
}
export interface ChainCycles {
  sensor: string;
  actor: string;
  exchange: string;
  period_ns: Ns;
  device_delay_ns: Ns | null;
  predicted: [number, number] | null;
  count: number;
  min: number;
  p50: number;
  p99: number;
  p99_supported: boolean;
  max: number;
}
export interface DevicePackets {
  address: string;
  scheduled: number;
  answered: number;
  late: number;
  lost: number;
  unsent: number;
  duplicates: number;
  reordered: number;
  min_ns: Ns;
  p50_ns: Ns;
  p99_ns: Ns;
  max_ns: Ns;
  response_p50_ns?: Ns;
  /** Sum of places in the order of arrival, and how many answers are in it. */
  place_sum?: number;
  place_count?: number;
}
export interface AnswerTimes {
  min_ns: Ns;
  p50_ns: Ns;
  p99_ns: Ns;
  max_ns: Ns;
}
export interface PacketAccount {
  payload: number;
  lost_after_ns: Ns;
  devices: DevicePackets[];
  /** Cycle by cycle, from the release; 0 without an answer. */
  cycles?: {
    complete: number;
    first: AnswerTimes;
    last: AnswerTimes;
    latest: { cycle: number; response_ns: Ns[] }[];
  };
  /** What a plan predicts. */
  predicted?: {
    plan: string;
    first: AnswerTimes;
    last: AnswerTimes;
    devices: { name: string; response_p50_ns: Ns; place: number; lost_ppm: number }[];
  };
}
export interface Effect {
  factor: string;
  load: string;
  metric: string;
  ratio: number;
  low: number;
  high: number;
  sentence: string;
}
export interface Limit {
  limit_ns: Ns;
  at: number;
  on: string;
}
export interface SweepStep {
  load: string;
  asked_percent: number;
  reached_percent: number | null;
  is_reached: boolean;
  count: number;
  min_ns: Ns;
  mean_ns: Ns;
  max_ns: Ns;
  jitter_ns: Ns;
  is_allowed: boolean;
}
export interface Sweep {
  series: string;
  allowed_jitter_ns: Ns;
  /** Whether that is the paper's value, because none was requested. */
  is_default?: boolean;
  steps: SweepStep[];
  /** Loads without samples. */
  missing?: string[];
  sentence: string;
}

/** Whether the jitter is allowed at this load, as the terminal has it: under less load than asked it may be another. */
export const outcomeOfStep = (step: SweepStep): Outcome => {
  const fallsShort = !step.is_reached && (step.reached_percent ?? Infinity) < step.asked_percent;
  return !step.is_allowed ? 'FAIL' : fallsShort ? 'INCONCLUSIVE' : 'PASS';
};

/** Of all loads; one that was not measured may be another. */
export function outcomeOfSweep({ steps, missing = [] }: Sweep): {
  outcome: Outcome;
  passed: number;
  loads: number;
} {
  const outcomes = steps.map(outcomeOfStep);
  const passed = outcomes.filter((outcome) => outcome === 'PASS').length;
  const loads = steps.length + missing.length;
  const isPassed = passed === loads && loads > 0;
  const outcome = outcomes.includes('FAIL') ? 'FAIL' : isPassed ? 'PASS' : 'INCONCLUSIVE';
  return { outcome, passed, loads };
}
export interface Summary {
  schema: string;
  version: string;
  command: string[];
  started_unix_s: number;
  elapsed_s: number;
  host: Record<string, string | number>;
  ladder: Grant[];
  limit: Limit | null;
  order: string;
  tunings: string[];
  loads: string[];
  period_ns: Ns;
  cells: CellSummary[];
  effects: Effect[];
  verdict: {
    outcome: Outcome | null;
    best: { tuning: string; load: string; cpu?: number } | null;
    /** Of CPUs that were measured at once; they have no best one. */
    worst?: { tuning: string; load: string };
    sentence: string;
    deadline?: DeadlineVerdict;
  } | null;
  /** What to look at first in a bench: the load that decides, and the untuned cell beside the best. */
  focus?: { load: string; series: string; tunings: string[] };
  /** How many alarms of bus and robot there may be, when that has a limit. */
  most_alarms?: number;
  /** Over rising load, when it is a sweep. */
  sweep?: Sweep;
  /** Idle states and frequency of the cell that the answer is about, in a line. */
  power?: string;
  /** What made cycles late, in sentences. */
  causes?: string[];
  /** The runs beside each other, on a page of `onbeat compare`. */
  comparison?: Comparison;
  /** Set by the page when it had to read the figures off the histograms itself. */
  derived?: boolean;
}
