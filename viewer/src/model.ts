// What the page draws from: cells (a tuning under a load, or one file), each with its figures and its recording.
import { merge, type Histogram } from './histogram.ts';
import { cellEnd, type Block, type Line, type RunFile } from './hlog.ts';
import type { CellSummary, Summary } from './summary.ts';
import { ns, sec, type Ns, type Sec } from './units.ts';

/** One cell: its figures and, when its file is at hand, its recording. */
export interface Cell {
  key: string;
  name: string;
  tuning: string;
  load: string;
  figures: CellSummary;
  file: RunFile | null;
}

/** The whole report. `kind` decides whether tunings stand side by side or one run stands alone. */
export interface Report {
  kind: 'bench' | 'single' | 'files';
  summary: Summary;
  cells: Cell[];
  files: RunFile[];
  start: number;
}

/**
 * Two clocks: `own` counts only the time a cell was measured, so that cells which took turns can be laid over each other;
 * `wall` is the time since the first file began, so that they stand where they ran.
 */
export type Clock = 'own' | 'wall';

/** A stretch of time on the clock in use, or null for everything. */
export type Range = readonly [Sec, Sec] | null;

/** Binds the summary's cells to the files they were recorded in. */
export function buildReport(summary: Summary, files: RunFile[]): Report {
  const byName = new Map(files.map((file) => [file.name, file]));
  const bench = summary.cells.length > 1 || summary.schema.startsWith('onbeat.bench');
  // Runs that are compared, or came from one source, stand beside each other as files do.
  const asFiles = summary.order === 'compared' || summary.order === 'imported';
  const kind =
    asFiles && bench
      ? 'files'
      : summary.derived && summary.cells.some((c) => c.tuning === '')
        ? 'files'
        : bench
          ? 'bench'
          : 'single';
  const manyLoads = new Set(summary.cells.map((cell) => cell.load)).size > 1;
  const cells = summary.cells.map((figures, i): Cell => {
    const file =
      (figures.file !== null ? byName.get(figures.file) : undefined) ??
      (summary.cells.length === 1 && files.length === 1 ? files[0]! : null);
    const name =
      figures.tuning === ''
        ? (figures.file ?? `run ${i + 1}`)
        : manyLoads
          ? `${figures.tuning} · ${figures.load}`
          : figures.tuning;
    return {
      key: `${figures.tuning}/${figures.load}/${figures.file ?? i}`,
      name,
      tuning: figures.tuning,
      load: figures.load,
      figures,
      file,
    };
  });
  const starts = files.filter((file) => file.series.size > 0).map((file) => file.startUnix);
  return { kind, summary, cells, files, start: starts.length > 0 ? Math.min(...starts) : 0 };
}

/** Whether a summary has figures of any sample. */
export const isMeasured = ({ cells }: Summary): boolean =>
  cells.some(({ series }) => Object.keys(series).length > 0);

/** Whether the recording ends before its run did, and nobody writes to it any more. */
export const isTruncated = ({ figures, file }: Cell): boolean =>
  figures.permitted &&
  !figures.goes_on &&
  ((figures.file !== null && !figures.complete) ||
    (file !== null && file.run !== null && file.end === null && !figures.import));

/** Moves a time of `file` from seconds since the file's start to the clock in use. */
export function onClock(
  report: Report,
  file: RunFile,
  block: Block | undefined,
  t: Sec,
  clock: Clock,
): Sec {
  if (clock === 'wall') return sec(t + (file.startUnix - report.start));
  return block ? sec(block.own + (t - block.t)) : t;
}

/** An interval of a series, placed on a clock. */
export interface Placed {
  from: Sec;
  to: Sec;
  block: number;
  line: Line;
}

/** The series' intervals on the clock, cut down to those that touch the range. */
export function placed(
  report: Report,
  cell: Cell,
  tag: string,
  clock: Clock,
  range: Range,
): Placed[] {
  const file = cell.file;
  if (file === null) return [];
  const result: Placed[] = [];
  for (const line of file.series.get(tag) ?? []) {
    const from = onClock(report, file, file.blocks[line.block], line.t, clock);
    const to = sec(from + line.length);
    if (range === null || (to > range[0] + 1e-9 && from < range[1] - 1e-9))
      result.push({ from, to, block: line.block, line });
  }
  return result;
}

/** Whether the source of a recording states count, extremes and mean of a series alone: its lines hold no distribution. */
export const isFiguresOnly = (file: RunFile, tag: string): boolean =>
  file.imported?.figures_only?.includes(tag) ?? false;

/** The same samples in the cells in which their source counted them. */
export function stated(histogram: Histogram, file: RunFile, tag: string): Histogram {
  const resolution = file.imported?.resolution?.[tag];
  if (resolution === undefined) return histogram;
  const { beyond } = resolution;
  const top = (middle: Ns): Ns => cellEnd(resolution, middle);
  return { ...histogram, top, ...(beyond?.count ? { open_ns: beyond.from_ns } : {}) };
}

const merged = new WeakMap<RunFile, Map<string, Histogram | null>>();

/** The series' samples of all intervals that touch the range, as one histogram; null when there are none. */
export function histogramOf(
  report: Report,
  cell: Cell,
  tag: string,
  clock: Clock,
  range: Range,
): Histogram | null {
  if (cell.file === null || isFiguresOnly(cell.file, tag)) return null;
  const known = merged.get(cell.file) ?? new Map<string, Histogram | null>();
  merged.set(cell.file, known);
  if (range === null && known.has(tag)) return known.get(tag)!;
  const parts = placed(report, cell, tag, clock, range)
    .map(({ line }) => line.histogram())
    .filter((h) => h !== null);
  const result = merge(parts);
  const answer = result !== null && result.total > 0 ? stated(result, cell.file, tag) : null;
  if (range !== null) return answer;
  const of = cell.figures.series[tag];
  const whole = answer !== null && of?.count === answer.total ? { ...answer, exact: of } : answer;
  known.set(tag, whole);
  return whole;
}

/** Where the recording of these cells begins and ends on the clock. */
export function extent(report: Report, cells: readonly Cell[], clock: Clock): readonly [Sec, Sec] {
  let from = Infinity;
  let to = -Infinity;
  for (const { file } of cells) {
    for (const block of file?.blocks ?? []) {
      const start = onClock(report, file!, block, block.t, clock);
      from = Math.min(from, start);
      to = Math.max(to, start + (block.end - block.t));
    }
  }
  return from < to ? [sec(from), sec(to)] : [sec(0), sec(1)];
}

/** A step of the largest values: from `from` to `to` nothing was later than `max`. */
export interface Peak {
  from: Sec;
  to: Sec;
  block: number;
  max: Ns;
}

/** The largest value of each interval, from one-second maxima where the run kept them, otherwise from the intervals. */
export function peaks(report: Report, cell: Cell, tag: string, clock: Clock): Peak[] {
  const file = cell.file;
  if (file === null) return [];
  const fine = finePeaks(report, file, tag, clock);
  if (fine.length > 0) return fine;
  const exact = new Map<number, Ns>();
  for (const note of file.intervals) {
    const max = note.series?.[tag]?.max_ns;
    if (max !== undefined) exact.set(Math.round(note.t * 1e6), max);
  }
  return placed(report, cell, tag, clock, null).map(({ from, to, block, line }) => ({
    from,
    to,
    block,
    max: exact.get(Math.round(line.t * 1e6)) ?? line.stated,
  }));
}

function finePeaks(report: Report, file: RunFile, tag: string, clock: Clock): Peak[] {
  const result: Peak[] = [];
  let at = 0;
  for (const note of file.maxima) {
    const values = note.series[tag];
    if (values === undefined) continue;
    while (at + 1 < file.blocks.length && file.blocks[at + 1]!.t <= note.t + 1e-6) at++;
    values.forEach((max, i) => {
      if (max <= 0) return;
      const from = onClock(report, file, file.blocks[at], sec(note.t + i * note.every), clock);
      result.push({ from, to: sec(from + note.every), block: at, max: ns(max) });
    });
  }
  return result;
}

/** The series that any cell has, in the order of the glossary. */
export function availableSeries(report: Report, order: readonly string[]): string[] {
  const present = new Set<string>();
  for (const cell of report.cells) {
    Object.keys(cell.figures.series).forEach((tag) => present.add(tag));
    cell.file?.series.forEach((_, tag) => present.add(tag));
  }
  return [
    ...order.filter((tag) => present.has(tag)),
    ...[...present].filter((tag) => !order.includes(tag)),
  ];
}
