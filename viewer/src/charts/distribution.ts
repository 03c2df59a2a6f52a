// How often each value occurred: linear time, counts on a log axis, one line per cell, nothing cut off unsaid.
import uPlot from 'uplot';
import { h } from '../dom.ts';
import { highAt, lowAt, maximum, midAt, minimum, valuesAt, widthAt, type Histogram } from '../histogram.ts';
import { histogramOf } from '../model.ts';
import type { Store } from '../state.ts';
import { ink, seriesStyle, type SeriesStyle } from '../theme.ts';
import { count, human, ns, tick, type Ns } from '../units.ts';
import { seriesWord } from '../words.ts';
import type { Drawing } from './frame.ts';
import { clipped, logSplits, marker } from './marks.ts';

/** Counts in bins of equal width, and what lies outside of them. */
export interface Bins { counts: Float64Array; below: number; beyond: number; largest: Ns }

/** Sorts a histogram into `n` bins of `width` from `from` on, by the middle of each bucket. */
export function binned(histogram: Histogram, from: Ns, width: Ns, n: number): Bins {
  const counts = new Float64Array(n);
  let [below, beyond] = [0, 0];
  for (let i = 0; i < histogram.index.length; i++) {
    const bin = Math.floor((midAt(histogram.scale, histogram.index[i]!) - from) / width);
    if (bin < 0) below += histogram.count[i]!;
    else if (bin >= n) beyond += histogram.count[i]!;
    else counts[bin]! += histogram.count[i]!;
  }
  return { counts, below, beyond, largest: maximum(histogram) };
}

/**
 * The stretch worth drawing: from the 0.1th to the 99.9th percentile and a little more. When cells differ by orders
 * of magnitude the milder half decides, so that its shape stays visible; the rest is counted as below or beyond.
 */
export function sensibleRange(histograms: readonly Histogram[]): [Ns, Ns] {
  const cores = histograms.map((histogram) => valuesAt(histogram, [0.1, 99.9]) as [Ns, Ns]).sort(([a, b], [c, d]) => b - a - (d - c));
  const mild = cores.slice(0, Math.ceil(cores.length / 2));
  const [low, high] = [Math.min(...mild.map(([a]) => a)), Math.max(...mild.map(([, b]) => b))];
  const spread = Math.max(high - low, 200);
  const from = Math.max(Math.min(...histograms.map(minimum)), low - spread * 1.5);
  const top = Math.min(Math.max(...cores.map(([, b]) => b)), high + spread * 3);
  return [ns(Math.max(0, from - spread * 0.06)), ns(top + spread * 0.25)];
}

/** A bin width of 1, 2 or 5 times a power of ten: about `wanted` bins, never finer than the histogram's own buckets. */
export function binWidth(from: Ns, to: Ns, wanted: number, histograms: readonly Histogram[]): Ns {
  let finest = 1;
  for (const { scale, index } of histograms) {
    const last = index.findLast((i) => lowAt(scale, i) <= to) ?? 0;
    finest = Math.max(finest, widthAt(scale, last));
  }
  const aim = Math.max((to - from) / wanted, finest);
  const power = 10 ** Math.floor(Math.log10(aim));
  return ns([1, 2, 5, 10].map((m) => m * power).find((w) => w >= aim * 0.9999)!);
}

const FLOOR = 0.6;

/** Heights for the log axis: zeros beside a filled bin come down to the floor, the others are gaps. */
export const heights = (counts: Float64Array): (number | null)[] =>
  Array.from(counts, (n, i) => (n > 0 ? n : (counts[i - 1] ?? 0) > 0 || (counts[i + 1] ?? 0) > 0 ? FLOOR : null));

export function distribution(store: Store, zoom: readonly [number, number] | null, width: number): Drawing | string {
  const { report, state } = store;
  const word = seriesWord(state.tag);
  const curves = store.selected().flatMap(({ cell, slot }) => {
    const histogram = histogramOf(report, cell, state.tag, state.clock, state.range);
    return histogram === null ? [] : [{ cell, style: seriesStyle(slot), histogram }];
  });
  if (curves.length === 0) return `No selected cell has samples of ${word.name.toLowerCase()} here.`;
  const histograms = curves.map(({ histogram }) => histogram);
  const everything: [number, number] = [Math.min(...histograms.map(minimum)) / 1000, Math.max(...histograms.map(maximum)) / 1000];
  const [lo, hi] = zoom ? [ns(zoom[0] * 1000), ns(zoom[1] * 1000)] : sensibleRange(histograms);
  const wide = binWidth(lo, hi, Math.max(60, Math.min(260, (width - 90) / 4)), histograms);
  const from = ns(Math.floor(lo / wide) * wide);
  const n = Math.ceil((hi - from) / wide);
  const bins = histograms.map((histogram) => binned(histogram, from, wide, n));
  const xs = Array.from({ length: n + 1 }, (_, i) => (from + i * wide) / 1000);
  const end = xs[n]!;
  const gutter = ((end - xs[0]!) * Math.max(3, curves.length) * 9) / Math.max(200, width - 90);
  const top = Math.max(10, ...bins.flatMap(({ counts, below, beyond }) => [...counts, below, beyond])) * 1.6;
  const stepped = uPlot.paths.stepped!({ align: 1 });
  const few = curves.length <= 2;
  const under = bins.some(({ below }) => below > 0) ? gutter : 0;
  // The word at the right needs room; a label that would run into it gives way.
  const lastLabel = end + gutter - ((end + gutter - xs[0]!) * 62) / Math.max(200, width - 90);
  const firstLabel = under > 0 ? xs[0]! - under + ((end + gutter - xs[0]!) * 62) / Math.max(200, width - 90) : -Infinity;
  const beyondX = (i: number): number => end + (gutter * (i + 0.75)) / (curves.length + 0.5);
  const belowX = (i: number): number => beyondX(i) - end + xs[0]! - gutter;
  return {
    data: [xs, ...bins.map(({ counts }) => [...heights(counts), counts[n - 1]! > 0 ? FLOOR : null])] as uPlot.AlignedData,
    series: curves.map(({ style }) => ({
      stroke: style.color, width: 1.6, dash: style.dash, paths: stepped, points: { show: false },
      ...(few ? { fill: `${style.color}1f`, fillTo: FLOOR } : {}),
    })),
    full: [everything[0] * 0.98, everything[1] * 1.02], log: false,
    x: { range: () => [xs[0]! - under, end + gutter] }, y: { distr: 3, range: () => [FLOOR, top] },
    xAxis: { values: (_u, splits) => splits.map((v) => (v === null || v > lastLabel || v < firstLabel ? '' : tick(v))), filter: (_u, splits) => splits.map((v) => (v > end || v < xs[0]! ? null : v)) as number[], space: 70 },
    yAxis: { splits: (_u, _i, min, max) => logSplits(Math.max(1, min), max, 7), values: (_u, splits) => splits.map(count), filter: (_u, splits) => splits },
    draw: (u) => {
      const ratio = devicePixelRatio;
      const edge = u.valToPos(end, 'x', true);
      clipped(u, (ctx) => {
        ctx.fillStyle = ink('gutter');
        ctx.globalCompositeOperation = 'destination-over';
        ctx.fillRect(edge, u.bbox.top, u.bbox.left + u.bbox.width - edge, u.bbox.height);
        if (under > 0) ctx.fillRect(u.bbox.left, u.bbox.top, u.valToPos(xs[0]!, 'x', true) - u.bbox.left, u.bbox.height);
        ctx.globalCompositeOperation = 'source-over';
        const stem = (at: number, n: number, style: SeriesStyle): void => {
          if (n === 0) return;
          const [x, y, base] = [u.valToPos(at, 'x', true), u.valToPos(n, 'y', true), u.valToPos(FLOOR, 'y', true)];
          ctx.fillStyle = style.color;
          ctx.fillRect(x - 2 * ratio, y, 4 * ratio, base - y);
          marker(ctx, style.marker, x, y, 3.6 * ratio, style.color, false);
        };
        curves.forEach(({ style }, i) => { stem(beyondX(i), bins[i]!.beyond, style); stem(belowX(i), bins[i]!.below, style); });
      });
    },
    drawUnder: (u) => {
      const { ctx, bbox } = u;
      ctx.save();
      ctx.fillStyle = ink('muted');
      ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
      ctx.textAlign = 'right';
      ctx.textBaseline = 'top';
      ctx.fillText('beyond', bbox.left + bbox.width, bbox.top + bbox.height + 7 * devicePixelRatio);
      ctx.textAlign = 'left';
      if (under > 0) ctx.fillText('below', bbox.left, bbox.top + bbox.height + 7 * devicePixelRatio);
      ctx.restore();
    },
    describe: (index) => {
      if (index >= n) return bins.map((b, i) => `${curves[i]!.cell.name} ${count(b.beyond)} beyond`).join(' · ');
      const a = ns(from + index * wide);
      return `${human(a)} to ${human(ns(a + wide))}: ${bins.map((b, i) => `${curves[i]!.cell.name} ${count(b.counts[index]!)}`).join(' · ')}`;
    },
    below: h('ul', { class: 'beyond' }, ...curves.map(({ cell }, i) => h('li', {}, h('b', {}, cell.name), ' ', beyondWords(bins[i]!, ns(from + n * wide))))),
    table: {
      caption: `Distribution of ${word.name}`, head: ['cell', 'samples', 'smallest', 'median', '99.9 %', 'largest', 'beyond the drawn range'],
      rows: curves.map(({ cell, histogram }, i) => {
        const [p50, p999] = valuesAt(histogram, [50, 99.9]);
        return [cell.name, count(histogram.total), human(minimum(histogram)), human(p50!), human(p999!), human(highAt(histogram.scale, histogram.index[histogram.index.length - 1]!)), count(bins[i]!.beyond)];
      }),
    },
  };
}

function beyondWords(bins: Bins, end: Ns): string {
  const under = bins.below > 0 ? `${count(bins.below)} below the range drawn; ` : '';
  if (bins.beyond === 0) return `${under}none beyond ${human(end)}; largest ${human(bins.largest)}`;
  return `${under}${count(bins.beyond)} beyond ${human(end)}; the largest ${human(bins.largest)}`;
}
