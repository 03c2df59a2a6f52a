// Percentiles on the 1/(1-p) axis: every decade to the right is one more nine.
import uPlot from 'uplot';
import { isCarried, rankOf, valuesAt, type Histogram } from '../histogram.ts';
import { histogramOf } from '../model.ts';
import type { Cell, Clock, Range } from '../model.ts';
import type { Store } from '../state.ts';
import { seriesStyle } from '../theme.ts';
import { fromUs, human, ns, percent, toUs, type Ns } from '../units.ts';
import { seriesWord } from '../words.ts';
import type { Drawing } from './frame.ts';
import { clipped, limitMark, logSplits, marker, timeScale } from './marks.ts';
import type { Figures } from './save.ts';
import { noSamples } from './text.ts';

const STEPS = 48;
const asPercent = (x: number): number => 100 * (1 - 1 / x);

/** The places on the 1/(1-p) axis at which a curve of `totals` samples is read, ascending, each exactly once. */
export function percentileGrid(totals: readonly number[]): number[] {
  const most = Math.max(1, ...totals);
  const grid = new Set<number>(totals.filter((total) => total > 0));
  for (let i = 0; 10 ** (i / STEPS) <= most; i++)
    grid.add(i % STEPS === 0 ? 10 ** (i / STEPS) : Number((10 ** (i / STEPS)).toPrecision(6)));
  return [...grid].sort((a, b) => a - b);
}

/** A curve in two parts, µs: what enough samples support, and what lies above it. They share one point. */
export function percentileCurve(
  histogram: Histogram,
  grid: readonly number[],
): { solid: (number | null)[]; hollow: (number | null)[] } {
  const last = (x: number): boolean => x >= histogram.total * 0.9999999;
  const values = valuesAt(
    histogram,
    grid.map((x) => (last(x) ? 100 : asPercent(x))),
  ).map((value) => toUs(ns(Math.max(1, value))));
  let border = -1;
  const solid = grid.map((x, i) => {
    const isKnown = isCarried(histogram, asPercent(x), fromUs(values[i]!));
    if (x > histogram.total * 1.0000001 || !isKnown) return null;
    border = i;
    return values[i]!;
  });
  const hollow = grid.map((x, i) =>
    i >= border && x <= histogram.total * 1.0000001 ? values[i]! : null,
  );
  return { solid, hollow };
}

const nines = (x: number): string => (x < 1.5 ? '0' : percent(asPercent(Math.round(x))));

/** Each curve's values where it is drawn, with the samples above each. */
export function figures(
  curves: readonly { cell: { name: string }; histogram: Histogram }[],
  grid: readonly number[],
): Figures {
  const rows = curves.flatMap(({ cell, histogram }) => {
    const shares = grid
      .filter((x) => x < histogram.total)
      .map(asPercent)
      .concat(100);
    const values = valuesAt(histogram, shares);
    return shares.map((share, i) => [
      cell.name,
      Number(share.toPrecision(12)),
      values[i]!,
      histogram.total - rankOf(share, histogram.total),
      String(isCarried(histogram, share, values[i]!)),
    ]);
  });
  return { head: ['cell', 'percentile_percent', 'value_ns', 'samples_above', 'supported'], rows };
}

/** Which cells are drawn, of which series, in which stretch of time. */
export interface Choice {
  cells: readonly { cell: Cell; slot: number }[];
  tag: string;
  clock: Clock;
  range: Range;
}

const chosen = (store: Store): Choice => ({ cells: store.selected(), ...store.state });

export function percentiles(
  store: Store,
  zoom: readonly [number, number] | null,
  of: Choice = chosen(store),
): Drawing | string {
  const { report } = store;
  const word = seriesWord(of.tag);
  const curves = of.cells.flatMap(({ cell, slot }) => {
    const histogram = histogramOf(report, cell, of.tag, of.clock, of.range);
    return histogram === null ? [] : [{ cell, style: seriesStyle(slot), histogram }];
  });
  if (curves.length === 0)
    return noSamples(
      of.cells.map(({ cell }) => cell),
      of.tag,
    );
  const grid = percentileGrid(curves.map(({ histogram }) => histogram.total));
  const parts = curves.map(({ histogram }) => percentileCurve(histogram, grid));
  const stepped = uPlot.paths.stepped!({ align: -1 });
  const series: uPlot.Series[] = curves.flatMap(({ style }) => [
    { stroke: style.color, width: 2, paths: stepped, points: { show: false } },
    { stroke: style.color, width: 1.5, dash: [2, 4], paths: stepped, points: { show: false } },
  ]);
  const limit = limitMark(report.summary.limit, of.tag, 'y');
  const all = parts.flatMap(({ solid, hollow }) => [...solid, ...hollow]).filter((v) => v !== null);
  const { range, axis } = timeScale(
    Math.min(...all, limit?.us ?? Infinity),
    Math.max(...all, limit?.us ?? 0),
    { below: 0.95, above: 1.4 },
  );
  const full: [number, number] = [1, Math.max(2, grid[grid.length - 1]! * 1.15)];
  const [min, max] = zoom ?? full;
  return {
    data: [grid, ...parts.flatMap(({ solid, hollow }) => [solid, hollow])] as uPlot.AlignedData,
    series,
    full,
    log: true,
    limit,
    titles: { x: 'percentile', y: word.name.toLowerCase() },
    legend: curves.map(({ cell, style }) => ({ words: cell.name, style })),
    x: { distr: 3, range: () => [min, max] },
    y: { distr: 3, range: () => range },
    xAxis: {
      splits: (_u, _i, lo, hi) =>
        logSplits(lo, hi, 12).filter((v) => v === 1 || Number.isInteger(Math.log10(v)) || v === 2),
      values: (_u, splits) => splits.map(nines),
      filter: (_u, splits) => splits,
    },
    yAxis: axis,
    draw: (u) => {
      clipped(u, (ctx) =>
        parts.forEach(({ solid, hollow }, n) =>
          grid.forEach((x, i) => {
            const isLast = x === curves[n]!.histogram.total;
            const whole = (Math.abs(Math.log10(x) % 1) < 1e-9 && x > 1) || isLast;
            const value = solid[i] ?? hollow[i];
            if (!whole || value === null || value === undefined) return;
            const { style } = curves[n]!;
            // The last mark is the largest value: an observation, hence filled.
            marker(
              ctx,
              style.marker,
              u.valToPos(x, 'x', true),
              u.valToPos(value, 'y', true),
              4 * devicePixelRatio,
              style.color,
              solid[i] === null && !isLast,
            );
          }),
        ),
      );
    },
    describe: (index) => {
      const x = grid[index]!;
      const isLast = (n: number): boolean => x === curves[n]!.histogram.total;
      const drawn = curves.flatMap(({ cell: { name } }, n) => {
        const value = parts[n]!.solid[index] ?? parts[n]!.hollow[index];
        if (value === null || value === undefined) return [];
        // The end of a curve is its largest value: an observation, at no percentile.
        const mark = parts[n]!.solid[index] === null && !isLast(n) ? '°' : '';
        return [{ n, words: `${human(ns(value * 1000))}${mark}`, name }];
      });
      if (drawn.every(({ n }) => isLast(n)))
        return `largest: ${drawn.map(({ name, words }) => `${name} ${words}`).join(' · ')}`;
      const values = drawn.map(
        ({ n, name, words }) => `${name} ${isLast(n) ? 'largest ' : ''}${words}`,
      );
      return `at ${percent(Number(asPercent(x).toPrecision(7)))}: ${values.join(' · ')}`;
    },
    figures: () => figures(curves, grid),
    table: {
      caption: `Percentiles of ${word.name}; ° marks fewer than 10 samples beyond this value`,
      head: ['percentile', ...curves.map(({ cell }) => cell.name)],
      rows: [50, 90, 99, 99.9, 99.99, 99.999, 100].map((p) => [
        percent(p),
        ...curves.map(({ histogram }) => {
          const [value] = valuesAt(histogram, [p]) as [Ns];
          return human(value) + (isCarried(histogram, p, value) ? '' : '°');
        }),
      ]),
    },
  };
}
