// Figures for files that came without a summary. They are read off the histograms, and the page says so.
import { situationOf } from './advice.ts';
import { countsOfFile } from './causes.ts';
import {
  isCarried,
  lowest,
  maximum,
  merge,
  minimum,
  valuesAt,
  type Histogram,
} from './histogram.ts';
import { joinMoments, type Moments, type RunFile } from './hlog.ts';
import { isFiguresOnly, stated } from './model.ts';
import type { CellSummary, SeriesFigures, Summary } from './summary.ts';
import { ns, type Ns } from './units.ts';
import { inOrder } from './words.ts';

export { joinMoments };

export const LOW_QS = [99, 99.9, 99.99, 99.999, 100] as const;
export const PERCENTILES = [50, 90, 99, 99.9, 99.99, 99.999] as const;

/** A series' figures from its histogram, with exact moments where the run file kept them. */
export function figuresOf(histogram: Histogram, exact: Moments | null): SeriesFigures {
  const known = exact?.n === histogram.total ? { ...histogram, exact } : histogram;
  const low = LOW_QS.map((q) => lowest(known, q));
  const values = valuesAt(known, PERCENTILES);
  const all = low[low.length - 1]!;
  if (exact !== null && exact.n === histogram.total) {
    all.max_ns = exact.max_ns;
    all.mean_ns = exact.mean_ns;
    all.sd_ns = ns(exact.n > 0 ? Math.sqrt(exact.m2 / exact.n) : 0);
  }
  const min: Ns = exact !== null ? exact.min_ns : minimum(histogram);
  const max: Ns = exact !== null ? exact.max_ns : maximum(histogram);
  return {
    count: histogram.total,
    min_ns: min,
    mean_ns: all.mean_ns,
    sd_ns: all.sd_ns,
    max_ns: max,
    jitter_ns: ns(max - min),
    low,
    percentiles: PERCENTILES.map((p, i) => ({
      p,
      value_ns: values[i]!,
      supported: isCarried(histogram, p, values[i]!),
    })),
  };
}

function cellOf(file: RunFile): CellSummary {
  const series: Record<string, SeriesFigures> = {};
  for (const [tag, lines] of file.series) {
    const all = merge(lines.map((line) => line.histogram()).filter((h) => h !== null));
    if (all === null || all.total === 0) continue;
    const histogram = stated(all, file, tag);
    const moments = file.intervals.map((note) => note.series?.[tag]).filter((m) => m !== undefined);
    const exact = moments.length > 0 ? moments.reduce(joinMoments) : null;
    const figures = figuresOf(histogram, exact);
    // A percentile of figures alone would be an invention.
    series[tag] = isFiguresOnly(file, tag)
      ? { ...figures, low: figures.low.slice(-1), percentiles: [] }
      : figures;
  }
  const sum = (of: (note: RunFile['intervals'][number]) => number): number =>
    file.intervals.reduce((s, note) => s + of(note), 0);
  const cycles = file.end?.cycles ?? sum((note) => note.cycles);
  const skipped = file.end?.skipped ?? sum((note) => note.skipped);
  const lost = file.end?.lost ?? sum((note) => note.lost ?? 0);
  const spikes = sum((note) => note.spikes ?? 0) || file.spikes.length;
  // Another tool counts samples, and says nothing of releases, misses and spikes.
  const other = file.imported ?? (file.run === null ? { format: 'HdrHistogram log' } : null);
  const counted = (n: number): number | null => (other === null ? n : null);
  const samples = inOrder(Object.keys(series)).map((tag) => series[tag]!.count)[0] ?? 0;
  return {
    tuning: file.run?.cell?.tuning ?? '',
    load: file.run?.cell?.load ?? file.blocks[0]?.load ?? '',
    file: file.name,
    permitted: true,
    why_not: null,
    complete: file.end !== null || (other !== null && !file.imported?.is_closed_by_a_line),
    blocks: file.blocks.length,
    slots: other === null ? (file.end?.slots ?? cycles + skipped) : samples + lost,
    cycles: other === null ? cycles : samples,
    skipped: counted(skipped),
    overruns: counted(sum((note) => note.overruns)),
    deadline_misses: counted(sum((note) => note.deadline_misses)),
    lost,
    spike_count: counted(spikes),
    import: other,
    series,
    verdict: null,
    spikes: [...file.spikes].sort((a, b) => b.wakeup_latency_ns - a.wakeup_latency_ns),
    notes: [],
    causes: countsOfFile(file),
    situation: situationOf(file.run),
  };
}

/** A summary of files that have none. */
export function deriveSummary(files: readonly RunFile[]): Summary {
  const recorded = files.filter((file) => file.series.size > 0);
  const first = recorded.find((file) => file.run !== null) ?? recorded[0];
  const cells = recorded.map(cellOf);
  const period = first?.run?.timing?.period_ns ?? first?.imported?.period_ns;
  const starts = recorded
    .map((file) => file.run?.started_unix_s ?? file.startUnix)
    .filter((start) => start > 0);
  const started = starts.length > 0 ? Math.min(...starts) : 0;
  const lengths = recorded.map((file) => file.blocks[file.blocks.length - 1]?.end ?? 0);
  // Cells of a bench have one zero of time; logs of other tools may be years apart.
  const isBench = recorded.every((file) => file.run?.cell && file.imported === null);
  const ends = recorded.map(
    (file, i) =>
      lengths[i]! + (isBench ? (file.run?.started_unix_s ?? file.startUnix) - started : 0),
  );
  return {
    schema: cells.length > 1 ? 'onbeat.bench/1' : 'onbeat.measure/1',
    version: first?.run?.version ?? '',
    command: first?.run?.command ?? [],
    started_unix_s: started,
    elapsed_s: Math.max(0, ...ends),
    host: first?.run?.host ?? {},
    ladder: first?.run?.grants ?? [],
    limit: null,
    order: '',
    tunings: [...new Set(cells.map((cell) => cell.tuning))],
    loads: [...new Set(cells.map((cell) => cell.load))],
    period_ns: ns(typeof period === 'number' ? period : NaN),
    cells,
    effects: [],
    verdict: null,
    derived: true,
  };
}
