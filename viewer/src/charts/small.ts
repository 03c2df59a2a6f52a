// Small charts drawn by hand: a plane with two axes that fits its place, and a table behind it.
import { hiddenTable, type Table } from '../a11y.ts';
import { freshId, h, svg } from '../dom.ts';

/** A stretch of an axis and where its marks stand. */
export interface Axis { from: number; to: number; log: boolean; marks: readonly { at: number; label: string }[] }

/** What is drawn, for a plane of which `x` and `y` give the places. */
export type Layer = (x: (value: number) => number, y: (value: number) => number) => SVGElement[];

export interface Small { title: string; lead: string; x: Axis; y: Axis; xTitle: string; yTitle: string; layers: Layer; key: readonly (readonly [mark: string, words: string])[]; table: Table }

const HEIGHT = 240;
const [LEFT, RIGHT, TOP, BOTTOM] = [64, 16, 12, 40];

const place = ({ from, to, log }: Axis, low: number, high: number) => (value: number): number => {
  const share = log ? Math.log(value / from) / Math.log(to / from) : (value - from) / (to - from);
  return low + (high - low) * Math.max(-0.02, Math.min(1.02, share));
};

function drawn(chart: Small, width: number): SVGElement {
  const x = place(chart.x, LEFT, width - RIGHT);
  const y = place(chart.y, HEIGHT - BOTTOM, TOP);
  const apart = Math.max(1, Math.ceil((chart.x.marks.length * 62) / Math.max(width - LEFT - RIGHT, 1)));
  return svg('svg', { class: 'small-plot', width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, role: 'img', 'aria-label': `${chart.title}: ${chart.xTitle} across, ${chart.yTitle} up` },
    ...chart.y.marks.flatMap(({ at, label }) => [svg('line', { class: 'grid', x1: LEFT, x2: width - RIGHT, y1: y(at), y2: y(at) }), svg('text', { class: 'up', x: LEFT - 8, y: y(at) + 4 }, label)]),
    ...chart.x.marks.filter((_, i) => i % apart === 0).flatMap(({ at, label }) => [svg('line', { class: 'grid', x1: x(at), x2: x(at), y1: TOP, y2: HEIGHT - BOTTOM }), svg('text', { class: 'across', x: x(at), y: HEIGHT - BOTTOM + 16 }, label)]),
    svg('text', { class: 'axis-title', x: width - RIGHT, y: HEIGHT - 6 }, chart.xTitle),
    ...chart.layers(x, y));
}

/** A figure that draws itself anew whenever its width changes. */
export function smallChart(chart: Small): HTMLElement {
  const id = freshId('small');
  const plot = h('div', { class: 'plot' });
  let width = 0;
  new ResizeObserver(() => {
    const now = Math.floor(plot.clientWidth);
    if (now === width || now === 0) return;
    width = now;
    plot.replaceChildren(drawn(chart, width));
  }).observe(plot);
  return h('figure', { class: 'chart small', 'aria-labelledby': id }, h('figcaption', {}, h('h3', { id }, chart.title), h('p', {}, chart.lead)),
    plot, h('p', { class: 'small-key', 'aria-hidden': 'true' }, h('span', {}, chart.yTitle), ...chart.key.map(([mark, words]) => h('span', {}, svg('svg', { class: `key ${mark}`, width: 18, height: 10 }, svg('path', { d: 'M1 5h16' })), words))),
    hiddenTable(chart.table));
}

/** Points joined by straight lines; nothing is drawn across gaps, and a point alone is a dot. */
export function line(name: string, points: readonly (readonly [number, number] | null)[]): SVGElement {
  let pen = 'M';
  const d = points.map((point, i) => {
    if (point === null) { pen = 'M'; return ''; }
    const alone = pen === 'M' && (points[i + 1] ?? null) === null;
    const step = `${pen}${point[0].toFixed(1)} ${point[1].toFixed(1)}${alone ? 'm-2 0h4' : ''}`;
    pen = 'L';
    return step;
  }).join('');
  return svg('path', { class: name, d });
}

/** Round numbers: 1, 2 and 5 times powers of ten, or only the powers when the stretch is long. */
export function logMarks(from: number, to: number, label: (value: number) => string): { at: number; label: string }[] {
  const decades = Math.log10(to / from);
  const steps = decades > 3 ? [1] : decades > 1.2 ? [1, 3] : [1, 1.5, 2, 3, 5, 7];
  const marks: { at: number; label: string }[] = [];
  for (let power = Math.floor(Math.log10(from)); power <= Math.log10(to); power++) {
    for (const step of steps) {
      const at = step * 10 ** power;
      if (at >= from * 0.999 && at <= to * 1.001) marks.push({ at, label: label(at) });
    }
  }
  const thin = Math.ceil(marks.length / 9);
  return marks.filter((_, i) => i % thin === 0);
}

const CLOCK = [60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400];

/** Steps of a length of time in seconds: whole minutes and hours above half a minute. */
export function timeMarks(from: number, to: number, wanted: number, label: (value: number) => string): { at: number; label: string }[] {
  const aim = (to - from) / wanted;
  const step = aim > 30 ? CLOCK.find((s) => s >= aim) : undefined;
  return step === undefined ? evenMarks(from, to, wanted, label) : stepped(from, to, step, label);
}

/** About `wanted` even steps of a round length. */
export function evenMarks(from: number, to: number, wanted: number, label: (value: number) => string): { at: number; label: string }[] {
  const aim = (to - from) / wanted;
  const power = 10 ** Math.floor(Math.log10(aim));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= aim)!;
  return stepped(from, to, step, label);
}

function stepped(from: number, to: number, step: number, label: (value: number) => string): { at: number; label: string }[] {
  const first = Math.ceil(from / step);
  return Array.from({ length: Math.max(0, Math.floor(to / step) - first + 1) }, (_, i) => ({ at: (first + i) * step, label: label((first + i) * step) }));
}
