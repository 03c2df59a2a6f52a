// Axes and marks that several charts share.
import type uPlot from 'uplot';
import type { Marker } from '../theme.ts';
import { ink } from '../theme.ts';
import { tick } from '../units.ts';

/** Round stops on a log axis: decades, with 2 and 5 between when there are few. */
export function logSplits(min: number, max: number, most = 9): number[] {
  const decades = Math.log10(max / min);
  const steps = decades * 3 <= most ? [1, 2, 5] : [1];
  const stride = Math.max(1, Math.ceil(decades / most));
  const result: number[] = [];
  for (let exponent = Math.floor(Math.log10(min)); exponent <= Math.ceil(Math.log10(max)); exponent += stride) {
    for (const step of steps) {
      const value = Number((step * 10 ** exponent).toPrecision(6));
      if (value >= min * 0.9999 && value <= max * 1.0001) result.push(value);
    }
  }
  return result;
}

/** The y axis of a time, logarithmic, in µs. */
export const timeAxis = (): uPlot.Axis => ({
  splits: (_u, _i, min, max) => logSplits(min, max), values: (_u, splits) => splits.map(tick), filter: (_u, splits) => splits,
});

const CLOCK_STEPS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400];

/** A point of time as an axis writes it, as coarse as the distance of its ticks allows. */
export function clockTick(t: number, step: number): string {
  if (step >= 60 && t < 3600) return t === 0 ? '0' : `${Math.round(t / 60)} min`;
  const [hours, minutes] = [Math.floor(t / 3600), Math.floor((t % 3600) / 60)];
  if (step >= 60) return minutes === 0 ? `${hours} h` : `${hours} h ${String(minutes).padStart(2, '0')}`;
  const decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const seconds = (t % 60).toFixed(decimals);
  if (t < 60) return t === 0 ? '0' : `${seconds} s`;
  return `${hours > 0 ? `${hours}:${String(minutes).padStart(2, '0')}` : minutes}:${seconds.padStart(decimals > 0 ? decimals + 3 : 2, '0')}`;
}

/** The x axis of elapsed time: stops at whole seconds, minutes, hours. */
export const clockAxis = (): uPlot.Axis => ({
  incrs: CLOCK_STEPS, space: 80, values: (_u, splits, _i, _space, step) => splits.map((t) => clockTick(Number(t.toFixed(6)), step)),
});

/** A log scale whose ends are pushed out to the next 1, 2 or 5. */
export function logRange(low: number, high: number): [number, number] {
  const down = (v: number): number => { const p = 10 ** Math.floor(Math.log10(v)); const m = v / p; return (m >= 5 ? 5 : m >= 2 ? 2 : 1) * p; };
  const up = (v: number): number => { const p = 10 ** Math.floor(Math.log10(v)); const m = v / p; return (m <= 1 ? 1 : m <= 2 ? 2 : m <= 5 ? 5 : 10) * p; };
  const [a, b] = [down(Math.max(low, 1e-3)), up(Math.max(high, low * 1.01, 1e-3))];
  return a < b ? [a, b] : [a, a * 10];
}

/** Draws a marker around (x, y) in canvas pixels; a hollow one shows the page through. */
export function marker(ctx: CanvasRenderingContext2D, shape: Marker, x: number, y: number, size: number, color: string, hollow: boolean): void {
  const s = size;
  ctx.beginPath();
  switch (shape) {
    case 'circle': ctx.arc(x, y, s, 0, 2 * Math.PI); break;
    case 'square': ctx.rect(x - s * 0.9, y - s * 0.9, s * 1.8, s * 1.8); break;
    case 'diamond': ctx.moveTo(x, y - s * 1.3); ctx.lineTo(x + s * 1.3, y); ctx.lineTo(x, y + s * 1.3); ctx.lineTo(x - s * 1.3, y); break;
    case 'triangle': ctx.moveTo(x, y - s * 1.2); ctx.lineTo(x + s * 1.15, y + s * 0.9); ctx.lineTo(x - s * 1.15, y + s * 0.9); break;
    case 'down': ctx.moveTo(x, y + s * 1.2); ctx.lineTo(x + s * 1.15, y - s * 0.9); ctx.lineTo(x - s * 1.15, y - s * 0.9); break;
    case 'star': for (let i = 0; i < 10; i++) { const r = i % 2 ? s * 0.6 : s * 1.4; const a = (i * Math.PI) / 5 - Math.PI / 2; ctx.lineTo(x + r * Math.cos(a), y + r * Math.sin(a)); } break;
    case 'cross': ctx.moveTo(x - s, y - s); ctx.lineTo(x + s, y + s); ctx.moveTo(x + s, y - s); ctx.lineTo(x - s, y + s); break;
    case 'plus': ctx.moveTo(x - s * 1.2, y); ctx.lineTo(x + s * 1.2, y); ctx.moveTo(x, y - s * 1.2); ctx.lineTo(x, y + s * 1.2); break;
  }
  const open = shape === 'cross' || shape === 'plus';
  if (!open) ctx.closePath();
  ctx.setLineDash([]);
  ctx.lineWidth = Math.max(1.5, size / 2.4);
  ctx.strokeStyle = color;
  if (!open) { ctx.fillStyle = hollow ? ink('surface') : color; ctx.fill(); }
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

/** The line of the limit, with its word. */
export function limitLine(u: uPlot, us: number, word: string): void {
  const { ctx, bbox } = u;
  const y = Math.round(u.valToPos(us, 'y', true));
  if (!(y >= bbox.top && y <= bbox.top + bbox.height)) return;
  const ratio = devicePixelRatio;
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = ink('bad');
  ctx.lineWidth = 1.5 * ratio;
  ctx.setLineDash([6 * ratio, 4 * ratio]);
  ctx.beginPath();
  ctx.moveTo(bbox.left, y);
  ctx.lineTo(bbox.left + bbox.width, y);
  ctx.stroke();
  ctx.font = `600 ${12 * ratio}px system-ui, sans-serif`;
  ctx.textAlign = 'left';
  const above = y - bbox.top > 20 * ratio;
  ctx.textBaseline = above ? 'bottom' : 'top';
  const width = ctx.measureText(word).width;
  const at = y + (above ? -3 : 4) * ratio;
  ctx.globalAlpha = 0.85;
  ctx.fillStyle = ink('surface');
  ctx.fillRect(bbox.left + 4 * ratio, above ? at - 15 * ratio : at - ratio, width + 8 * ratio, 16 * ratio);
  ctx.globalAlpha = 1;
  ctx.fillStyle = ink('bad');
  ctx.fillText(word, bbox.left + 8 * ratio, at);
  ctx.restore();
}
