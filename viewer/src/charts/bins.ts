// Bins of a drawn distribution. Each is made of whole buckets of the histogram: a bucket that is cut between two bins has to go
// to one of them, and where bins of 2 µs meet buckets of 512 ns, every eleventh bin then has a quarter less than its neighbours.
import { highAt, lowAt, maximum, type Histogram, type Scale } from '../histogram.ts';
import { ns, type Ns } from '../units.ts';

/** How finely values are known: by the buckets of these scales, and nowhere finer than `step` where the source counted in steps. */
export interface Grain {
  scales: readonly Scale[];
  step: Ns;
}

/** Width of the widest bucket around `value`. */
export function grainAt({ scales, step }: Grain, value: Ns): Ns {
  const widths = scales.map(({ unitMagnitude, subBits }) => {
    const magnitude = Math.floor(Math.log2(Math.max(value, 1))) - unitMagnitude - (subBits - 1);
    return 2 ** (unitMagnitude + Math.max(magnitude, 0));
  });
  return ns(Math.max(1, step, ...widths));
}

/** Edges of bins of one width, at most about `wanted`, from below `from` to beyond `to`. The width is a grain times a power of two. */
export function evenEdges(from: Ns, to: Ns, wanted: number, grain: Grain): Ns[] {
  let width = grainAt(grain, to);
  while (width < (to - from) / wanted) width = ns(width * 2);

  const first = Math.floor(from / width);
  const last = Math.max(first + 1, Math.ceil(to / width));
  return Array.from({ length: last - first + 1 }, (_, i) => ns((first + i) * width));
}

/** Edges of about `wanted` bins that grow by one factor, each a whole number of grains; where grains are coarse, one grain each. */
export function growingEdges(from: Ns, to: Ns, wanted: number, grain: Grain): Ns[] {
  const growth = (Math.max(to, from * 1.0001) / Math.max(from, 1)) ** (1 / wanted) - 1;
  const start = grainAt(grain, from);
  const edges = [ns(Math.max(Math.floor(from / start) * start, start))];

  for (let edge = edges[0]!; edge < to;) {
    const width = grainAt(grain, edge);
    const end = edge + Math.max(1, Math.floor((edge * growth) / width)) * width;
    // Behind a power of two buckets are twice as wide.
    const wider = grainAt(grain, ns(end));
    edge = ns(Math.ceil(end / wider) * wider);
    edges.push(edge);
  }
  return edges;
}

/** Counts between the edges, and what lies outside of them. */
export interface Bins {
  counts: Float64Array;
  below: number;
  beyond: number;
  largest: Ns;
}

/** Sorts a histogram into the bins between ascending `edges`. */
export function binned(histogram: Histogram, edges: readonly Ns[]): Bins {
  const n = edges.length - 1;
  const counts = new Float64Array(n);
  let below = 0;
  let beyond = 0;
  let bin = 0;
  for (let i = 0; i < histogram.index.length; i++) {
    // Where a source counted in steps, a bucket can stand across an edge; its middle is what was recorded.
    const at =
      (lowAt(histogram.scale, histogram.index[i]!) + highAt(histogram.scale, histogram.index[i]!)) /
      2;
    while (bin < n && at >= edges[bin + 1]!) bin++;
    if (at < edges[0]!) below += histogram.count[i]!;
    else if (bin === n) beyond += histogram.count[i]!;
    else counts[bin]! += histogram.count[i]!;
  }
  return { counts, below, beyond, largest: maximum(histogram) };
}
