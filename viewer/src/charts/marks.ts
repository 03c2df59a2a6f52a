// Axes and marks that several charts share.
import type uPlot from 'uplot';
import type { Clock } from '../model.ts';
import type { Limit } from '../summary.ts';
import type { Marker } from '../theme.ts';
import { ink } from '../theme.ts';
import { human, tick, ticks } from '../units.ts';
import { evenMarks } from './small.ts';
import { font } from './text.ts';

/** Round stops on a log axis: decades, with 2 and 5 between when there are few. */
export function logSplits(min: number, max: number, most = 9): number[] {
  const decades = Math.log10(max / min);
  const steps = decades * 3 <= most ? [1, 2, 5] : [1];
  const stride = Math.max(1, Math.ceil(decades / most));
  const result: number[] = [];
  for (
    let exponent = Math.floor(Math.log10(min));
    exponent <= Math.ceil(Math.log10(max));
    exponent += stride
  ) {
    for (const step of steps) {
      const value = Number((step * 10 ** exponent).toPrecision(6));
      if (value >= min * 0.9999 && value <= max * 1.0001) result.push(value);
    }
  }
  return result;
}

/** The y axis of a time, logarithmic, in µs. */
export const timeAxis = (): uPlot.Axis => ({
  splits: (_u, _i, min, max) => logSplits(min, max),
  values: (_u, splits) => ticks(splits),
  filter: (_u, splits) => splits,
});

/** Values that differ by less than this factor have an axis as narrow as they are. */
const NARROW = 1.3;

/** The logarithmic axis of times from `low` to `high` µs with some room, and where it begins and ends. */
export function timeScale(
  low: number,
  high: number,
  room: { below: number; above: number },
): { range: [number, number]; axis: uPlot.Axis } {
  if (high / low >= NARROW)
    return { range: logRange(low * room.below, high * room.above), axis: timeAxis() };
  // Half a nanosecond at least: nothing is known more finely.
  const beside = Math.max((high - low) * 0.3, low * 0.002, 0.0005);
  return {
    range: [low - beside, high + beside],
    axis: {
      ...timeAxis(),
      splits: (_u, _i, min, max) => evenMarks(min, max, 4, tick).map(({ at }) => at),
    },
  };
}

const CLOCK_STEPS = [
  0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900,
  1800, 3600, 7200, 14400, 28800, 86400,
];

/** A point of time as an axis writes it, as coarse as the distance of its ticks allows. */
export function clockTick(t: number, step: number): string {
  if (step >= 60 && t < 3600) return t === 0 ? '0' : `${Math.round(t / 60)} min`;
  const [hours, minutes] = [Math.floor(t / 3600), Math.floor((t % 3600) / 60)];
  if (step >= 60)
    return minutes === 0 ? `${hours} h` : `${hours} h ${String(minutes).padStart(2, '0')}`;
  const decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const seconds = (t % 60).toFixed(decimals);
  if (t < 60) return t === 0 ? '0' : `${seconds} s`;
  return `${hours > 0 ? `${hours}:${String(minutes).padStart(2, '0')}` : minutes}:${seconds.padStart(decimals > 0 ? decimals + 3 : 2, '0')}`;
}

/** The x axis of elapsed time: stops at whole seconds, minutes, hours. */
export const clockAxis = (): uPlot.Axis => ({
  incrs: CLOCK_STEPS,
  space: 80,
  values: (_u, splits, _i, _space, step) =>
    splits.map((t) => clockTick(Number(t.toFixed(6)), step)),
});

/** What an axis of time counts. */
export const clockTitle = (clock: Clock): string =>
  clock === 'own' ? 'measured time' : 'time since the start of the first recording';

/** A log scale whose ends are pushed out to the next 1, 2 or 5. */
export function logRange(low: number, high: number): [number, number] {
  const down = (v: number): number => {
    const p = 10 ** Math.floor(Math.log10(v));
    const m = v / p;
    return (m >= 5 ? 5 : m >= 2 ? 2 : 1) * p;
  };
  const up = (v: number): number => {
    const p = 10 ** Math.floor(Math.log10(v));
    const m = v / p;
    return (m <= 1 ? 1 : m <= 2 ? 2 : m <= 5 ? 5 : 10) * p;
  };
  const [a, b] = [down(Math.max(low, 1e-3)), up(Math.max(high, low * 1.01, 1e-3))];
  return a < b ? [a, b] : [a, a * 10];
}

/** Draws a marker around (x, y) in canvas pixels; a hollow one shows the page through. */
export function marker(
  ctx: CanvasRenderingContext2D,
  shape: Marker,
  x: number,
  y: number,
  size: number,
  color: string,
  hollow: boolean,
): void {
  const s = size;
  ctx.beginPath();
  switch (shape) {
    case 'circle':
      ctx.arc(x, y, s, 0, 2 * Math.PI);
      break;
    case 'square':
      ctx.rect(x - s * 0.9, y - s * 0.9, s * 1.8, s * 1.8);
      break;
    case 'diamond':
      ctx.moveTo(x, y - s * 1.3);
      ctx.lineTo(x + s * 1.3, y);
      ctx.lineTo(x, y + s * 1.3);
      ctx.lineTo(x - s * 1.3, y);
      break;
    case 'triangle':
      ctx.moveTo(x, y - s * 1.2);
      ctx.lineTo(x + s * 1.15, y + s * 0.9);
      ctx.lineTo(x - s * 1.15, y + s * 0.9);
      break;
    case 'down':
      ctx.moveTo(x, y + s * 1.2);
      ctx.lineTo(x + s * 1.15, y - s * 0.9);
      ctx.lineTo(x - s * 1.15, y - s * 0.9);
      break;
    case 'star':
      for (let i = 0; i < 10; i++) {
        const r = i % 2 ? s * 0.6 : s * 1.4;
        const a = (i * Math.PI) / 5 - Math.PI / 2;
        ctx.lineTo(x + r * Math.cos(a), y + r * Math.sin(a));
      }
      break;
    case 'cross':
      ctx.moveTo(x - s, y - s);
      ctx.lineTo(x + s, y + s);
      ctx.moveTo(x + s, y - s);
      ctx.lineTo(x - s, y + s);
      break;
    case 'plus':
      ctx.moveTo(x - s * 1.2, y);
      ctx.lineTo(x + s * 1.2, y);
      ctx.moveTo(x, y - s * 1.2);
      ctx.lineTo(x, y + s * 1.2);
      break;
  }
  const open = shape === 'cross' || shape === 'plus';
  if (!open) ctx.closePath();
  ctx.setLineDash([]);
  ctx.lineWidth = Math.max(1.5, size / 2.4);
  ctx.strokeStyle = color;
  if (!open) {
    ctx.fillStyle = hollow ? ink('surface') : color;
    ctx.fill();
  }
  ctx.stroke();
}

/** Draws with the plot's own area as the limit. */
export function clipped(u: uPlot, draw: (ctx: CanvasRenderingContext2D) => void): void {
  const { ctx, bbox } = u;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  draw(ctx);
  ctx.restore();
}

/**
 * The words that fit along an axis of `room` pixels, at their places; where two would run into each other, or one out of the
 * chart, the later gives way to an empty one, and one that does not come first to one that does.
 */
export function apart(
  words: readonly string[],
  places: readonly number[],
  room: number,
  width: (words: string) => number,
  isFirst: (i: number) => boolean = () => true,
): string[] {
  const taken: [from: number, to: number][] = [];
  const kept = words.map(() => '');
  const order = [...words.keys()].sort((a, b) => Number(isFirst(b)) - Number(isFirst(a)));
  for (const i of order) {
    const half = width(words[i]!) / 2;
    const [from, to] = [places[i]! - half, places[i]! + half];
    // A place that is not a number fits nowhere.
    if (
      words[i] === '' ||
      !(to <= room) ||
      taken.some((one) => from < one[1] + 6 && to + 6 > one[0])
    )
      continue;
    taken.push([from, to]);
    kept[i] = words[i]!;
  }
  return kept;
}

/** The limit in a chart: its place in µs, the axis that it is a value of, and its words. */
export interface LimitMark {
  us: number;
  axis: 'x' | 'y';
  words: string;
}

/** The report's limit as a mark, where it is on the series that is drawn. */
export const limitMark = (limit: Limit | null, tag: string, axis: 'x' | 'y'): LimitMark | null =>
  limit?.on === tag
    ? { us: limit.limit_ns / 1000, axis, words: `limit ${human(limit.limit_ns)}` }
    : null;

/** The line of the limit, with its words; where it is outside of what is drawn, the words with an arrow. */
export function limitLine(u: uPlot, limit: LimitMark): void {
  const { ctx, bbox } = u;
  const at = Math.round(u.valToPos(limit.us, limit.axis, true));
  const start = limit.axis === 'x' ? bbox.left : bbox.top;
  const end = start + (limit.axis === 'x' ? bbox.width : bbox.height);
  const isInside = at >= start && at <= end;

  ctx.save();
  ctx.strokeStyle = ink('bad');
  ctx.lineWidth = 1.5 * devicePixelRatio;
  ctx.setLineDash([6 * devicePixelRatio, 4 * devicePixelRatio]);
  if (isInside) {
    ctx.beginPath();
    ctx.moveTo(limit.axis === 'x' ? at : bbox.left, limit.axis === 'x' ? bbox.top : at);
    ctx.lineTo(
      limit.axis === 'x' ? at : bbox.left + bbox.width,
      limit.axis === 'x' ? bbox.top + bbox.height : at,
    );
    ctx.stroke();
  }
  if (limit.axis === 'x')
    wordsBeside(
      u,
      isInside ? limit.words : at > end ? `${limit.words} →` : `← ${limit.words}`,
      Math.max(start, Math.min(end, at)),
    );
  else
    wordsAbove(
      u,
      isInside ? limit.words : at < start ? `${limit.words} ↑` : `${limit.words} ↓`,
      Math.max(start, Math.min(end, at)),
    );
  ctx.restore();
}

/** Words beside a line that stands at `x`, at the top, on the side that has room. */
function wordsBeside(u: uPlot, words: string, x: number): void {
  const isLeft = x > u.bbox.left + u.bbox.width / 2;
  u.ctx.textAlign = isLeft ? 'right' : 'left';
  onPaper(u, words, x + (isLeft ? -8 : 8) * devicePixelRatio, u.bbox.top + 4 * devicePixelRatio);
}

/** Words above a line at the height `y`, or below it at the top, at the left end. */
function wordsAbove(u: uPlot, words: string, y: number): void {
  const isAbove = y - u.bbox.top > 20 * devicePixelRatio;
  u.ctx.textAlign = 'left';
  onPaper(u, words, u.bbox.left + 8 * devicePixelRatio, y + (isAbove ? -18 : 4) * devicePixelRatio);
}

/** Words in the limit's colour on a strip of the page's own, their upper end at `y`. */
function onPaper({ ctx }: uPlot, words: string, x: number, y: number): void {
  const ratio = devicePixelRatio;
  ctx.font = font(12, ratio, 600);
  ctx.textBaseline = 'top';
  const width = ctx.measureText(words).width;
  ctx.globalAlpha = 0.85;
  ctx.fillStyle = ink('surface');
  ctx.fillRect(
    (ctx.textAlign === 'right' ? x - width : x) - 4 * ratio,
    y - ratio,
    width + 8 * ratio,
    16 * ratio,
  );
  ctx.globalAlpha = 1;
  ctx.fillStyle = ink('bad');
  ctx.fillText(words, x, y);
}
