// Time × latency, the count as colour: shows modes and drift that maxima hide.
import type uPlot from 'uplot';
import { thinned } from '../a11y.ts';
import { highAt, lowAt, midAt, valuesAt } from '../histogram.ts';
import { extent, placed, type Cell, type Placed } from '../model.ts';
import type { Store } from '../state.ts';
import { cividis, theme } from '../theme.ts';
import { count, human, moment, ns, sec, tick, ticks } from '../units.ts';
import { seriesWord } from '../words.ts';
import type { Drawing } from './frame.ts';
import { clockAxis, clockTitle, limitMark, logRange, timeAxis } from './marks.ts';
import type { Figures } from './save.ts';
import { evenMarks } from './small.ts';

/** Counts by column (interval) and row (log latency). */
export interface HeatCells {
  rows: number;
  counts: Float32Array[];
}

/** Sorts intervals into `rows` rows between `low` and `high` µs, evenly in the logarithm. */
export function heatCells(
  intervals: readonly Placed[],
  low: number,
  high: number,
  rows: number,
): HeatCells {
  const step = Math.log(high / low) / rows;
  const counts = intervals.map(({ line }) => {
    const column = new Float32Array(rows);
    const histogram = line.histogram();
    if (histogram === null) return column;
    for (let i = 0; i < histogram.index.length; i++) {
      const us = midAt(histogram.scale, histogram.index[i]!) / 1000;
      const row = Math.max(0, Math.min(rows - 1, Math.floor(Math.log(us / low) / step)));
      column[row]! += histogram.count[i]!;
    }
    return column;
  });
  return { rows, counts };
}

/** Few samples stay near the page's colour, many stand out, in both themes. */
export function heatColor(n: number, most: number): readonly [number, number, number] {
  const t = most <= 1 ? 1 : Math.log(n) / Math.log(most);
  return cividis(theme() === 'dark' ? 0.25 + 0.75 * t : 0.92 * (1 - t));
}

/** Paints the cells into an image of `width` columns; where several intervals share one, their counts add up. Returns the largest of them. */
function paint(u: uPlot, intervals: readonly Placed[], heat: HeatCells): number {
  const { ctx, bbox } = u;
  const width = Math.round(bbox.width);
  const image = new ImageData(width, heat.rows);
  const sums = new Float32Array(width * heat.rows);
  intervals.forEach(({ from, to }, i) => {
    const a = Math.max(0, Math.round(u.valToPos(from, 'x', true) - bbox.left));
    const b = Math.min(width, Math.max(a + 1, Math.round(u.valToPos(to, 'x', true) - bbox.left)));
    for (let row = 0; row < heat.rows; row++) {
      const n = heat.counts[i]![row]!;
      if (n > 0) for (let x = a; x < b; x++) sums[(heat.rows - 1 - row) * width + x]! += n;
    }
  });
  const most = sums.reduce((a, b) => Math.max(a, b), 1);
  for (let i = 0; i < sums.length; i++) {
    if (sums[i] === 0) continue;
    const [r, g, b] = heatColor(sums[i]!, most);
    image.data.set([r, g, b, 255], i * 4);
  }
  const layer = document.createElement('canvas');
  layer.width = width;
  layer.height = heat.rows;
  layer.getContext('2d')!.putImageData(image, 0, 0);
  ctx.save();
  ctx.imageSmoothingEnabled = false;
  ctx.drawImage(layer, bbox.left, bbox.top, width, bbox.height);
  ctx.restore();
  return most;
}

/** The colours' key: a colour for each share of the strip. */
const key = (share: number): string =>
  `rgb(${heatColor(Math.exp(share * Math.log(1000)), 1000).join(' ')})`;

/** The filled buckets of every interval. */
function figures(cell: Cell, intervals: readonly Placed[]): Figures {
  function* rows(): Generator<(string | number)[]> {
    for (const { from, to, line } of intervals) {
      const histogram = line.histogram();
      for (let i = 0; i < (histogram?.index.length ?? 0); i++) {
        const { scale, index, count: counts } = histogram!;
        yield [
          cell.name,
          Number(from.toFixed(6)),
          Number(to.toFixed(6)),
          lowAt(scale, index[i]!),
          highAt(scale, index[i]!),
          counts[i]!,
        ];
      }
    }
  }
  return { head: ['cell', 'from_s', 'to_s', 'smallest_ns', 'largest_ns', 'samples'], rows: rows() };
}

export function heatMap(
  store: Store,
  height: number,
  setRange: (range: readonly [number, number] | null) => void,
): Drawing | string {
  const { report, state } = store;
  const word = seriesWord(state.tag);
  const cell = store.cell(state.heat);
  if (cell === undefined) return 'No cell is selected.';
  const intervals = placed(report, cell, state.tag, state.clock, state.range).filter(
    ({ from, to }) => to > from,
  );
  if (intervals.length === 0)
    return `${cell.name} has no recording of ${word.name.toLowerCase()} in this time range.`;
  const ends = intervals
    .map(({ line }) => line.histogram())
    .filter((h) => h !== null && h.total > 0)
    .map(
      (h) =>
        [midAt(h!.scale, h!.index[0]!), midAt(h!.scale, h!.index[h!.index.length - 1]!)] as const,
    );
  if (ends.length === 0)
    return `${cell.name} has no samples of ${word.name.toLowerCase()} in this time range.`;
  const smallest = ends.reduce((a, [b]) => Math.min(a, b), Infinity) / 1000;
  const largest = ends.reduce((a, [, b]) => Math.max(a, b), 0) / 1000;
  const limit = limitMark(report.summary.limit, state.tag, 'y');
  const narrow = Math.max(largest, limit?.us ?? 0) / Math.min(smallest, limit?.us ?? Infinity) < 4;
  const [low, high] = narrow
    ? [Math.min(smallest, limit?.us ?? Infinity) * 0.995, Math.max(largest, limit?.us ?? 0) * 1.005]
    : logRange(
        Math.min(smallest, limit?.us ?? Infinity),
        Math.max(largest, (limit?.us ?? 0) * 1.1),
      );
  const heat = heatCells(intervals, low, high, Math.floor((height - 44) / 3));
  const full = extent(report, store.timed(), state.clock);
  const [min, max] = state.range ?? full;
  const xs = intervals.map(({ from }) => from as number);
  let most = 1;
  return {
    data: [xs, xs.map(() => low)] as uPlot.AlignedData,
    series: [{ show: true, stroke: 'transparent', points: { show: false }, paths: () => null }],
    full,
    log: false,
    onRange: setRange,
    yCursor: true,
    limit,
    titles: { x: clockTitle(state.clock), y: word.name.toLowerCase() },
    legend: () => [{ words: cell.name }, { words: `1 to ${count(most)} samples`, strip: key }],
    x: { range: () => [min, max] },
    y: { distr: 3, range: () => [low, high] },
    xAxis: { ...clockAxis(), grid: { show: false } },
    yAxis: {
      ...timeAxis(),
      ...(narrow
        ? {
            splits: (_u: uPlot, _i: number, lo: number, hi: number) =>
              evenMarks(lo, hi, 5, tick).map(({ at }) => at),
            values: (_u: uPlot, splits: number[]) => ticks(splits),
          }
        : {}),
      grid: { show: false },
    },
    drawUnder: (u) => {
      most = paint(u, intervals, heat);
    },
    describe: (_index, u) => {
      const t = u.posToVal(u.cursor.left ?? 0, 'x');
      const i = intervals.findLastIndex(({ from, to }) => from <= t + 1e-6 && to > t - 1e-6);
      if (i < 0) return `at ${moment(sec(t))}: no recording`;
      const isPointed = (u.cursor.top ?? -1) >= 0;
      const y = u.posToVal(u.cursor.top ?? 0, 'y');
      const row = Math.floor((Math.log(y / low) / Math.log(high / low)) * heat.rows);
      const histogram = intervals[i]!.line.histogram();
      const [p50, p99] = histogram ? valuesAt(histogram, [50, 99]) : [];
      const range = [row, row + 1].map((r) =>
        tick(Number((low * (high / low) ** (r / heat.rows)).toPrecision(4))),
      );
      const median = p50 !== undefined ? `; median ${human(p50)}, 99 % ${human(p99!)}` : '';
      // Where another chart leads the cursor, it has a time and no latency.
      if (!isPointed)
        return `at ${moment(intervals[i]!.from)}: ${count(histogram?.total ?? 0)} samples${median}`;
      return `at ${moment(intervals[i]!.from)}, ${range[0]} to ${range[1]}: ${count(heat.counts[i]![row] ?? 0)} samples${median}`;
    },
    figures: () => figures(cell, intervals),
    table: {
      caption: `${word.name} of ${cell.name} over time, at most 60 intervals`,
      head: ['time', 'samples', 'median', '99 %', 'largest'],
      rows: thinned(intervals, 60).flatMap(({ from, line }) => {
        const histogram = line.histogram();
        if (histogram === null || histogram.total === 0) return [];
        const [p50, p99, p100] = valuesAt(histogram, [50, 99, 100]);
        return [[moment(from), count(histogram.total), human(p50!), human(p99!), human(ns(p100!))]];
      }),
    },
  };
}
