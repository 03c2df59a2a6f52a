// How often each value occurred: counts on a log axis, one line per cell, nothing cut off unsaid. The axis of values is
// logarithmic where the tail is long, so that core and tail are both seen.
import uPlot from 'uplot';
import { h } from '../dom.ts';
import {
  lowAt,
  highAt,
  maximum,
  minimum,
  scaleOf,
  valuesAt,
  type Histogram,
} from '../histogram.ts';
import type { Resolution } from '../hlog.ts';
import { histogramOf, type Cell } from '../model.ts';
import type { Scale, Store } from '../state.ts';
import type { Limit } from '../summary.ts';
import { ink, seriesStyle, type SeriesStyle } from '../theme.ts';
import { count, human, ns, ticks, toUs, type Ns } from '../units.ts';
import { seriesWord } from '../words.ts';
import { binned, evenEdges, growingEdges, type Bins, type Grain } from './bins.ts';
import type { Drawing } from './frame.ts';
import { clipped, limitMark, logSplits, marker } from './marks.ts';
import type { Figures } from './save.ts';
import { font, noSamples } from './text.ts';

/** A histogram under a name, with its style. */
export interface Curve {
  cell: Pick<Cell, 'name' | 'file'>;
  style: SeriesStyle;
  histogram: Histogram;
}
/** What is drawn: curves of one series, and how. */
export interface Shown {
  curves: readonly Curve[];
  tag: string;
  scale: Scale;
  limit: Limit | null;
}
/** The bins of all curves, and where the drawing begins and ends, µs. `gutter` is the part of the axis for what lies outside. */
interface Plan {
  curves: readonly Curve[];
  bins: readonly Bins[];
  edges: readonly Ns[];
  isLog: boolean;
  gutter: number;
  hasBelow: boolean;
}

/**
 * The stretch worth drawing on an even axis: from the 0.1th to the 99.9th percentile and a little more. When cells differ by
 * orders of magnitude the milder half decides, so that its shape stays visible; the rest is counted as below or beyond.
 */
export function sensibleRange(histograms: readonly Histogram[]): [Ns, Ns] {
  const cores = histograms
    .map((histogram) => valuesAt(histogram, [0.1, 99.9]) as [Ns, Ns])
    .sort(([a, b], [c, d]) => b - a - (d - c));
  const mild = cores.slice(0, Math.ceil(cores.length / 2));
  const low = Math.min(...mild.map(([a]) => a));
  const high = Math.max(...mild.map(([, b]) => b));
  const spread = Math.max(high - low, 200);
  const from = Math.max(Math.min(...histograms.map(minimum)), low - spread * 1.5);
  const top = Math.min(Math.max(...cores.map(([, b]) => b)), high + spread * 3);
  return [ns(Math.max(0, from - spread * 0.06)), ns(top + spread * 0.25)];
}

/**
 * True where the tail is long, or within the even axis and all else in a corner of it, and a logarithmic axis still shows the
 * core: of a period, all but the tail would be one bin.
 */
export function isLongTailed(histograms: readonly Histogram[]): boolean {
  const low = Math.max(1, Math.min(...histograms.map(minimum)));
  const high = Math.max(...histograms.map(maximum));
  const [from, top] = sensibleRange(histograms);
  const cores = histograms.map((histogram) => valuesAt(histogram, [1, 99]) as [Ns, Ns]);
  const isInCorner = cores.every(([p1, p99]) => p99 - p1 < (top - from) / 40);
  const least = Math.min(...cores.map(([p1, p99]) => Math.log(p99 / Math.max(p1, 1))));
  return (high > top * 1.5 || isInCorner) && least > Math.log(high / low) / 200;
}

/** How finely the values of these curves are known. */
export function grainOf(
  histograms: readonly Histogram[],
  resolutions: readonly (Resolution | undefined)[],
): Grain {
  const scales = histograms.map(({ scale }) => scale);
  let step = 1;
  for (const resolution of resolutions) {
    if (resolution === undefined || resolution.upper_ends_ns?.length) continue;
    if (resolution.doubles_from === undefined) step = Math.max(step, resolution.step_ns);
    else
      scales.push({
        ...scaleOf(resolution.step_ns, 1),
        subBits: Math.round(Math.log2(resolution.doubles_from)),
      });
  }
  return { scales, step: ns(step) };
}

const FLOOR = 0.6;

/** Heights for the log axis: zeros beside a filled bin come down to the floor, the others are gaps. */
export const heights = (counts: Float64Array): (number | null)[] =>
  Array.from(counts, (n, i) =>
    n > 0 ? n : (counts[i - 1] ?? 0) > 0 || (counts[i + 1] ?? 0) > 0 ? FLOOR : null,
  );

function planned(
  { curves, tag, scale, limit: judged }: Shown,
  zoom: readonly [number, number] | null,
  width: number,
): Plan {
  const histograms = curves.map(({ histogram }) => histogram);
  const isLog = scale === 'log' || (scale === 'auto' && isLongTailed(histograms));
  const limit = judged?.on === tag ? [judged.limit_ns] : [];
  const all: [Ns, Ns] = [
    ns(Math.max(1, Math.min(...histograms.map(minimum), ...limit) * 0.9)),
    ns(Math.max(...histograms.map(maximum), ...limit) * 1.1),
  ];
  const [from, to] = zoom
    ? [ns(zoom[0] * 1000), ns(zoom[1] * 1000)]
    : isLog
      ? all
      : sensibleRange(histograms);

  const wanted = Math.max(60, Math.min(260, (width - 90) / 4));
  const grain = grainOf(
    histograms,
    curves.map(({ cell }) => cell.file?.imported?.resolution?.[tag]),
  );
  const edges = (isLog ? growingEdges : evenEdges)(from, to, wanted, grain);
  const bins = histograms.map((histogram) => binned(histogram, edges));

  const isOutside = bins.some(({ below, beyond }) => below + beyond > 0);
  const gutter =
    isOutside || !isLog ? (Math.max(3, curves.length) * 9) / Math.max(200, width - 90) : 0;
  return { curves, bins, edges, isLog, gutter, hasBelow: bins.some(({ below }) => below > 0) };
}

/** Places on the axis, as shares of the stretch between the outer edges: below 0 and above 1 are the gutters. */
function axisOf({ edges, isLog }: Plan): (share: number) => number {
  const first = toUs(edges[0]!);
  const last = toUs(edges[edges.length - 1]!);
  return isLog
    ? (share) => first * (last / first) ** share
    : (share) => first + (last - first) * share;
}

export function distribution(
  store: Store,
  zoom: readonly [number, number] | null,
  width: number,
): Drawing | string {
  const { report, state } = store;
  const curves = store.selected().flatMap(({ cell, slot }) => {
    const histogram = histogramOf(report, cell, state.tag, state.clock, state.range);
    return histogram === null ? [] : [{ cell, style: seriesStyle(slot), histogram }];
  });
  if (curves.length === 0)
    return noSamples(
      store.selected().map(({ cell }) => cell),
      state.tag,
    );
  return drawnCurves(
    { curves, tag: state.tag, scale: state.scale, limit: report.summary.limit },
    zoom,
    width,
  );
}

/** Curves of one series; at least one. */
export function drawnCurves(
  shown: Shown,
  zoom: readonly [number, number] | null,
  width: number,
): Drawing {
  const { curves, tag } = shown;
  const word = seriesWord(tag);
  const plan = planned(shown, zoom, width);
  const { bins, edges, isLog, gutter, hasBelow } = plan;
  const at = axisOf(plan);
  const n = edges.length - 1;
  const ends: [number, number] = [toUs(edges[0]!), toUs(edges[n]!)];
  const top =
    Math.max(10, ...bins.flatMap(({ counts, below, beyond }) => [...counts, below, beyond])) * 1.6;
  return {
    data: [
      edges.map(toUs),
      ...bins.map(({ counts }) => [...heights(counts), counts[n - 1]! > 0 ? FLOOR : null]),
    ] as uPlot.AlignedData,
    series: curves.map(({ style }) => ({
      stroke: style.color,
      width: 1.6,
      dash: style.dash,
      paths: uPlot.paths.stepped!({ align: 1 }),
      points: { show: false },
      ...(curves.length <= 2 ? { fill: `${style.color}1f`, fillTo: FLOOR } : {}),
    })),
    full: [
      Math.max(1, Math.min(...curves.map(({ histogram }) => minimum(histogram)))) / 1020,
      (Math.max(...curves.map(({ histogram }) => maximum(histogram))) * 1.02) / 1000,
    ],
    log: isLog,
    limit: limitMark(shown.limit, tag, 'x'),
    titles: { x: word.name.toLowerCase(), y: 'samples' },
    legend: curves.map(({ cell, style }) => ({ words: cell.name, style })),
    x: {
      ...(isLog ? { distr: 3 as const } : {}),
      range: () => [hasBelow ? at(-gutter) : ends[0], at(1 + gutter)],
    },
    y: { distr: 3, range: () => [FLOOR, top] },
    xAxis: {
      values: (_u, splits) => ticks(splits),
      space: 70,
      filter: (_u, splits) =>
        splits.map((v) => (v > ends[1] || v < ends[0] ? null : v)) as number[],
      ...(isLog
        ? { splits: (_u: uPlot, _i: number, lo: number, hi: number) => logSplits(lo, hi, 14) }
        : {}),
    },
    yAxis: {
      splits: (_u, _i, min, max) => logSplits(Math.max(1, min), max, 7),
      values: (_u, splits) => splits.map(count),
      filter: (_u, splits) => splits,
    },
    draw: (u) => drawOutside(u, plan, at),
    describe: (_index, u) => described(plan, u.posToVal((u.cursor.left ?? 0) + 0.5, 'x') * 1000),
    below: h(
      'ul',
      { class: 'beyond' },
      ...curves.map(({ cell }, i) =>
        h('li', {}, h('b', {}, cell.name), ' ', beyondWords(bins[i]!, edges[n]!)),
      ),
    ),
    figures: () => figures(curves),
    table: {
      caption: `Distribution of ${word.name}`,
      head: [
        'cell',
        'samples',
        'smallest',
        'median',
        '99.9 %',
        'largest',
        'beyond the drawn range',
      ],
      rows: curves.map(({ cell, histogram }, i) => {
        const [p50, p999] = valuesAt(histogram, [50, 99.9]);
        return [
          cell.name,
          count(histogram.total),
          human(minimum(histogram)),
          human(p50!),
          human(p999!),
          human(maximum(histogram)),
          count(bins[i]!.beyond),
        ];
      }),
    },
  };
}

/** The gutters at the ends, with a stem for each cell that has samples there. */
function drawOutside(
  u: uPlot,
  { curves, bins, gutter, hasBelow }: Plan,
  at: (share: number) => number,
): void {
  if (gutter === 0) return;
  const ratio = devicePixelRatio;
  const place = (share: number): number => u.valToPos(at(share), 'x', true);
  const { top, left, width, height } = u.bbox;

  clipped(u, (ctx) => {
    ctx.fillStyle = ink('gutter');
    ctx.globalCompositeOperation = 'destination-over';
    ctx.fillRect(place(1), top, left + width - place(1), height);
    if (hasBelow) ctx.fillRect(left, top, place(0) - left, height);
    ctx.globalCompositeOperation = 'source-over';

    const stem = (x: number, n: number, style: SeriesStyle): void => {
      if (n === 0) return;
      const y = u.valToPos(n, 'y', true);
      ctx.fillStyle = style.color;
      ctx.fillRect(x - 2 * ratio, y, 4 * ratio, u.valToPos(FLOOR, 'y', true) - y);
      marker(ctx, style.marker, x, y, 3.6 * ratio, style.color, false);
    };
    curves.forEach(({ style }, i) => {
      const inside = (gutter * (i + 0.75)) / (curves.length + 0.5);
      stem(place(1 + inside), bins[i]!.beyond, style);
      stem(place(inside - gutter), bins[i]!.below, style);
    });
  });
  gutterWords(u, bins.some(({ beyond }) => beyond > 0) ? 'beyond' : '', hasBelow ? 'below' : '');
}

/** What the gutters are, at their upper ends, where no label of the axis stands. */
function gutterWords({ ctx, bbox }: uPlot, beyond: string, below: string): void {
  ctx.save();
  ctx.fillStyle = ink('muted');
  ctx.font = font(11, devicePixelRatio);
  ctx.textBaseline = 'bottom';
  ctx.textAlign = 'right';
  ctx.fillText(beyond, bbox.left + bbox.width, bbox.top - 2 * devicePixelRatio);
  ctx.textAlign = 'left';
  ctx.fillText(below, bbox.left, bbox.top - 2 * devicePixelRatio);
  ctx.restore();
}

function described({ curves, bins, edges }: Plan, at: number): string {
  const n = edges.length - 1;
  const each = (of: (bins: Bins) => number): string =>
    bins.map((one, i) => `${curves[i]!.cell.name} ${count(of(one))}`).join(' · ');
  if (at >= edges[n]!) return `beyond ${human(edges[n]!)}: ${each(({ beyond }) => beyond)}`;
  if (at < edges[0]!) return `below ${human(edges[0]!)}: ${each(({ below }) => below)}`;
  const bin = edges.findLastIndex((edge) => edge <= at);
  return `${human(edges[bin]!)} to ${human(edges[bin + 1]!)}: ${each(({ counts }) => counts[bin]!)}`;
}

/** The filled buckets of each histogram, as they were recorded. */
export function figures(
  curves: readonly { cell: { name: string }; histogram: Histogram }[],
): Figures {
  const rows = curves.flatMap(({ cell, histogram: { scale, index, count: counts } }) =>
    Array.from(index, (bucket, i) => [
      cell.name,
      lowAt(scale, bucket),
      highAt(scale, bucket),
      counts[i]!,
    ]),
  );
  return { head: ['cell', 'smallest_ns', 'largest_ns', 'samples'], rows };
}

function beyondWords({ below, beyond, largest }: Bins, end: Ns): string {
  const parts = [
    ...(below > 0 ? [`${count(below)} below the drawn range`] : []),
    ...(beyond > 0 ? [`${count(beyond)} beyond ${human(end)}`] : []),
    `largest ${human(largest)}`,
  ];
  return parts.join('; ');
}
