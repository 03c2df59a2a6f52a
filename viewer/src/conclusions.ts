// What a run's figures allow to conclude, as the summary carries it (docs/format.md).
import type { Ns } from './units.ts';

export interface PhasePlot {
  p50_ns: (Ns | null)[];
  p90_ns: (Ns | null)[];
  max_ns: (Ns | null)[];
}
export interface Mode {
  period_s: number;
  period_cycles: number;
  size_ns: Ns;
  lifts: 'most' | 'some' | 'single';
  duration_s: number;
  share: number;
  seen: number;
  periods: number;
  first_s: number;
  tied: 'time' | 'cycles' | 'undecided';
  phase: PhasePlot;
  sentence: string;
}
export interface Modes {
  step_s: number;
  steps: number;
  shortest_s: number;
  longest_s: number;
  found: Mode[];
  sentence: string;
}
export interface Normal {
  count: number;
  mean_ns: Ns;
  sd_ns: Ns;
  max_ns: Ns;
  tail_ratio: number;
  normal_max_ns: Ns;
  normal_tail_ratio: number;
  log10_expected_beyond: number;
  within_one_sd: number;
  sentence: string;
  curve: { from_ns: Ns[]; count: number[]; normal: number[] };
}
export interface Level {
  mission_s: number;
  worst_ns: Ns;
  low_ns: Ns;
  high_ns: Ns;
}
export interface Estimate extends Level {
  threshold_ns: Ns;
  peaks: number;
  stretches_over: number;
  stretches: number;
  stretch_s: number;
  shape: number;
  shape_above: number;
  scale_ns: Ns;
  anderson_darling: number;
  critical: number;
  passed_over: number;
  curve?: Level[];
  observed?: { every_s: number; ns: Ns }[];
}
export interface Extremes {
  mission_s: number;
  estimate: Estimate | null;
  largest_ns: Ns;
  sentence: string;
}
export interface Enough {
  at: number;
  period_ns: Ns;
  releases: number;
  seconds: number;
  over: number;
  sentence: string;
}
/** What can be concluded of one series; runs of before 0.2 name none and are about wake-up latency. */
export interface OfSeries {
  series?: string;
  modes: Modes;
  normal: Normal | null;
  extremes: Extremes;
}
export interface Conclusions extends OfSeries {
  enough: Enough | null;
  others?: OfSeries[];
}

/** The main series first. */
export const eachSeries = (all: Conclusions): readonly OfSeries[] => [all, ...(all.others ?? [])];
