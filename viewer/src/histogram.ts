// HdrHistogram's V2 encoding, and what can be read off the counts. Values are nanoseconds.
import { base64Bytes, inflateZlib } from './packed.ts';
import { ns, type Ns } from './units.ts';

// The fifth nibble holds the word size and, in V2, that counts are ZigZag LEB128; writers put 1 there, some 0.
const WORD_SIZE = 0xf0;
const COOKIE_V2_DEFLATED = 0x1c849304;
const COOKIE_V2 = 0x1c849303;
const HEADER = 40;

/** How bucket indices stand for values; two histograms of one scale can be added bucket by bucket. */
export interface Scale {
  readonly unitMagnitude: number;
  readonly subBits: number;
}

/** A histogram with only its filled buckets: `index` ascending, `count` beside it. */
export interface Histogram {
  readonly scale: Scale;
  readonly index: Int32Array;
  readonly count: Float64Array;
  readonly total: number;
  /** Extremes of its samples, where they are known more exactly than by their buckets. */
  readonly exact?: { readonly min_ns: Ns; readonly max_ns: Ns };
  /** Upper end of the cell of a source that counted more coarsely, by the middle of a bucket that stands for it. */
  readonly top?: (middle: Ns) => Ns;
  /** From here on the source only counted: a value is the largest that its sample can have had. */
  readonly open_ns?: Ns;
}

/** The scale that HdrHistogram derives from its lowest value and its significant digits. */
export function scaleOf(lowest: number, digits: number): Scale {
  return {
    unitMagnitude: Math.floor(Math.log2(lowest)),
    subBits: Math.ceil(Math.log2(2 * 10 ** digits)),
  };
}

const sameScale = (a: Scale, b: Scale): boolean =>
  a.unitMagnitude === b.unitMagnitude && a.subBits === b.subBits;

/** Width of the bucket `index`. */
export function widthAt(scale: Scale, index: number): Ns {
  const bucket = (index >> (scale.subBits - 1)) - 1;
  return ns(2 ** (Math.max(bucket, 0) + scale.unitMagnitude));
}

/** Smallest value that falls into the bucket `index`. */
export function lowAt(scale: Scale, index: number): Ns {
  const halfBits = scale.subBits - 1;
  const half = 1 << halfBits;
  let bucket = (index >> halfBits) - 1;
  let sub = (index & (half - 1)) + half;
  if (bucket < 0) {
    sub -= half;
    bucket = 0;
  }
  return ns(sub * 2 ** (bucket + scale.unitMagnitude));
}

/** Largest whole value that falls into the bucket `index`: what HdrHistogram reports for a percentile. */
export const highAt = (scale: Scale, index: number): Ns =>
  ns(lowAt(scale, index) + widthAt(scale, index) - 1);

/** Middle of the bucket `index`: what means are made of. */
export const midAt = (scale: Scale, index: number): Ns =>
  ns(lowAt(scale, index) + Math.floor(widthAt(scale, index) / 2));

let scratchIndex = new Int32Array(1 << 14);
let scratchCount = new Float64Array(1 << 14);

function pairs(bytes: Uint8Array, from: number, to: number): { n: number; total: number } {
  let at = from;
  let index = 0;
  let n = 0;
  let total = 0;
  while (at < to) {
    // LEB128 with 64 bits in at most nine bytes, zig-zag. Counts beyond 2^31 need the multiplication.
    let byte = bytes[at++]!;
    let value = (byte >>> 1) ^ -(byte & 1);
    if (byte >= 128) {
      let low = byte & 0x7f;
      for (let length = 1, scale = 128; byte >= 128 && length < 9; length++, scale *= 128) {
        if (at >= to) throw new Error('histogram: a count is truncated');
        byte = bytes[at++]!;
        low += (length === 8 ? byte : byte & 0x7f) * scale;
      }
      value = low % 2 === 0 ? low / 2 : -(low + 1) / 2;
    }
    if (value < 0) {
      index -= value;
      continue;
    }
    if (value > 0) {
      if (n === scratchIndex.length) growScratch();
      scratchIndex[n] = index;
      scratchCount[n++] = value;
      total += value;
    }
    index++;
  }
  return { n, total };
}

function growScratch(): void {
  const index = new Int32Array(scratchIndex.length * 2);
  const counts = new Float64Array(scratchCount.length * 2);
  index.set(scratchIndex);
  counts.set(scratchCount);
  scratchIndex = index;
  scratchCount = counts;
}

/** Decodes the inner V2 form. Throws when it is another form or cut short. */
export function decodeV2(bytes: Uint8Array): Histogram {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (bytes.length < HEADER || (view.getUint32(0) & ~WORD_SIZE) !== COOKIE_V2)
    throw new Error('histogram: not in the V2 encoding');
  const payload = view.getUint32(4);
  // The normalizing offset at 8 concerns only the writer's memory: counts stand in order of value (and one library always writes 1).
  if (HEADER + payload > bytes.length) throw new Error('histogram: its counts are truncated');
  const lowest = view.getUint32(16) * 2 ** 32 + view.getUint32(20);
  const scale = scaleOf(Math.max(lowest, 1), view.getUint32(12));
  const { n, total } = pairs(bytes, HEADER, HEADER + payload);
  return { scale, index: scratchIndex.slice(0, n), count: scratchCount.slice(0, n), total };
}

/** Decodes the last field of a log line: base64 of the deflated V2 form (or of the plain one). */
export function decodeBase64(text: string, from = 0, to = text.length): Histogram {
  const bytes = base64Bytes(text, from, to);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (bytes.length < 8) throw new Error('histogram: too short');
  const cookie = view.getUint32(0) & ~WORD_SIZE;
  if (cookie === COOKIE_V2) return decodeV2(bytes);
  if (cookie !== COOKIE_V2_DEFLATED)
    throw new Error(`histogram: encoding 0x${cookie.toString(16)} is not supported, only V2`);
  return decodeV2(inflateZlib(bytes.subarray(8, 8 + view.getUint32(4))));
}

/** A histogram without a sample. */
export const emptyHistogram = (scale: Scale): Histogram => ({
  scale,
  index: new Int32Array(0),
  count: new Float64Array(0),
  total: 0,
});

let sums = new Float64Array(1 << 14);

/** Adds histograms. Throws when their scales differ; returns null for an empty list. */
export function merge(parts: readonly Histogram[]): Histogram | null {
  if (parts.length === 0) return null;
  const scale = parts[0]!.scale;
  let last = -1;
  let first = Infinity;
  let total = 0;
  for (const part of parts) {
    if (!sameScale(part.scale, scale))
      throw new Error('histogram: cannot add histograms of different precision');
    if (part.index.length === 0) continue;
    first = Math.min(first, part.index[0]!);
    last = Math.max(last, part.index[part.index.length - 1]!);
    total += part.total;
  }
  if (last < 0) return emptyHistogram(scale);
  if (last >= sums.length) sums = new Float64Array(2 ** Math.ceil(Math.log2(last + 1)));
  for (const part of parts)
    for (let i = 0; i < part.index.length; i++) sums[part.index[i]!]! += part.count[i]!;
  let filled = 0;
  for (let i = first; i <= last; i++) if (sums[i]! > 0) filled++;
  const index = new Int32Array(filled);
  const counts = new Float64Array(filled);
  for (let i = first, n = 0; i <= last; i++) {
    if (sums[i]! === 0) continue;
    index[n] = i;
    counts[n++] = sums[i]!;
    sums[i] = 0;
  }
  return { scale, index, count: counts, total };
}

/** What is left of `all` without the samples of `part`, which are among them. Throws when their scales differ. */
export function without(all: Histogram, part: Histogram): Histogram {
  if (!sameScale(all.scale, part.scale))
    throw new Error('histogram: cannot subtract a histogram of a different precision');
  const gone = new Map<number, number>();
  part.index.forEach((index, i) => gone.set(index, part.count[i]!));
  const left = [...all.index]
    .map((index, i) => [index, all.count[i]! - (gone.get(index) ?? 0)] as const)
    .filter(([, count]) => count > 0);
  return {
    scale: all.scale,
    index: Int32Array.from(left, ([index]) => index),
    count: Float64Array.from(left, ([, count]) => count),
    total: left.reduce((sum, [, count]) => sum + count, 0),
  };
}

/** Ranks counted from the bottom, for percentile `p` of `total` samples: the smallest rank that covers p percent. */
export const rankOf = (p: number, total: number): number =>
  Math.min(total, Math.max(1, Math.ceil(Math.round((p / 100) * total * 1e6) / 1e6)));

/** True when at least 10 samples lie beyond the figure at percentile `p`. The maximum is an observation: always true. */
export const isSupported = (p: number, total: number): boolean =>
  p >= 100 || total - rankOf(p, total) >= 10;

/** Whether a figure of these samples is one: enough of them are beyond it, and the source says how large they were. */
export const isCarried = ({ total, open_ns: open }: Histogram, p: number, value: Ns): boolean =>
  isSupported(p, total) && (p >= 100 || value < (open ?? Infinity));

/** Value at each of the ascending percentiles `ps`, as HdrHistogram gives it: the top of the bucket, never above the largest. */
export function valuesAt(histogram: Histogram, ps: readonly number[]): Ns[] {
  const result: Ns[] = [];
  let seen = 0;
  let i = -1;
  for (const p of ps) {
    const rank = rankOf(p, histogram.total);
    while (seen < rank && i + 1 < histogram.index.length) seen += histogram.count[++i]!;
    if (i < 0) result.push(ns(NaN));
    else if (rank >= histogram.total) result.push(maximum(histogram));
    else result.push(ns(Math.min(endAt(histogram, histogram.index[i]!), maximum(histogram))));
  }
  return result;
}

/** Figures over the lowest `q` percent of the samples, from bucket middles. */
export interface Low {
  q: number;
  count: number;
  max_ns: Ns;
  mean_ns: Ns;
  sd_ns: Ns;
  supported: boolean;
}

/** Count, maximum, mean and standard deviation of the lowest `q` percent. */
export function lowest(histogram: Histogram, q: number): Low {
  const keep = histogram.total === 0 ? 0 : rankOf(q, histogram.total);
  let seen = 0;
  let mean = 0;
  let m2 = 0;
  let top = -1;
  for (let i = 0; i < histogram.index.length && seen < keep; i++) {
    const n = Math.min(histogram.count[i]!, keep - seen);
    const value = midAt(histogram.scale, histogram.index[i]!);
    const distance = value - mean;
    mean += (distance * n) / (seen + n);
    m2 += distance * distance * n * (seen / (seen + n));
    seen += n;
    top = histogram.index[i]!;
  }
  const max = ns(top < 0 ? NaN : Math.min(endAt(histogram, top), maximum(histogram)));
  return {
    q,
    count: seen,
    supported: isCarried(histogram, q, max),
    max_ns: max,
    mean_ns: ns(seen > 0 ? mean : NaN),
    sd_ns: ns(seen > 0 ? Math.sqrt(m2 / seen) : NaN),
  };
}

/** Smallest value that any sample can have had. */
export const minimum = (h: Histogram): Ns =>
  h.exact?.min_ns ?? (h.index.length === 0 ? ns(NaN) : lowAt(h.scale, h.index[0]!));
/** Largest value that any sample can have had. */
export const maximum = (h: Histogram): Ns =>
  h.exact?.max_ns ?? (h.index.length === 0 ? ns(NaN) : endAt(h, h.index[h.index.length - 1]!));
const endAt = (h: Histogram, index: number): Ns =>
  ns(Math.max(highAt(h.scale, index), h.top?.(midAt(h.scale, index)) ?? 0));
