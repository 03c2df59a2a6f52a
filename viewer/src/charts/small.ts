// Small charts drawn by hand: a plane with two axes that fits its place, and a table behind it.
import { hiddenTable, type Table } from '../a11y.ts';
import { freshId, h, svg } from '../dom.ts';
import { FIT } from '../print.ts';
import { inRows } from './legend.ts';
import { apart, type LimitMark } from './marks.ts';
import { fileName, saveCsv, saveSvg, type Figures } from './save.ts';
import { digitsFor } from '../units.ts';
import { wordsWidth } from './text.ts';

/** A stretch of an axis and where its marks stand. */
export interface Axis {
  from: number;
  to: number;
  log: boolean;
  marks: readonly { at: number; label: string }[];
}

/** What is drawn, for a plane of which `x` and `y` give the places. */
export type Layer = (x: (value: number) => number, y: (value: number) => number) => SVGElement[];

export interface Small {
  title: string;
  lead: string;
  x: Axis;
  y: Axis;
  xTitle: string;
  yTitle: string;
  layers: Layer;
  key: readonly (readonly [mark: string, words: string])[];
  /** The limit that the report judges by, where it is on one of the axes. */
  limit?: LimitMark | null;
  table: Table;
  /** The exact figures behind it. */
  figures: () => Figures;
}

const HEIGHT = 240;
const LEFT = 64;
const RIGHT = 16;
const BOTTOM = 40;
const ROW = 18;
const SIGN = 26;

const place =
  ({ from, to, log }: Axis, low: number, high: number) =>
  (value: number): number => {
    const share = log ? Math.log(value / from) / Math.log(to / from) : (value - from) / (to - from);
    return low + (high - low) * Math.max(-0.02, Math.min(1.02, share));
  };

/** The title of the upright axis and the key, in rows above the plane; and how high they are. */
function heading(
  { yTitle, key }: Small,
  width: number,
): { elements: SVGElement[]; height: number } {
  const rows = inRows(
    [wordsWidth(yTitle), ...key.map(([, words]) => SIGN + wordsWidth(words))],
    width - 2 * RIGHT,
  );
  const at = (i: number): { x: number; y: number } => ({
    x: RIGHT + rows[i]!.x,
    y: 16 + rows[i]!.row * ROW,
  });
  const title = svg('text', { ...at(0) }, yTitle);
  const marks = key.flatMap(([mark, words], i) => {
    const { x, y } = at(i + 1);
    return [
      svg(
        'g',
        { class: `key ${mark}`, transform: `translate(${x.toFixed(1)} ${y - 9})` },
        svg('path', { d: 'M1 5h16' }),
      ),
      svg('text', { class: 'word', x: x + SIGN - 4, y }, words),
    ];
  });
  return { elements: [title, ...marks], height: 12 + ROW * (rows[rows.length - 1]!.row + 1) };
}

/** The limit's line and its words; where it is outside of the plane, the words with an arrow at that end. */
function limitLayer(
  { us, axis, words }: LimitMark,
  chart: Small,
  x: (value: number) => number,
  y: (value: number) => number,
  top: number,
  width: number,
): SVGElement[] {
  const { from, to } = chart[axis];
  const isInside = us >= from && us <= to;
  const at = Math.max(from, Math.min(to, us));
  if (axis === 'x') {
    const isLeft = x(at) > width / 2;
    return [
      ...(isInside
        ? [svg('line', { class: 'limit', x1: x(at), x2: x(at), y1: top, y2: HEIGHT - BOTTOM })]
        : []),
      svg(
        'text',
        {
          class: isLeft ? 'limit-words up' : 'limit-words',
          x: x(at) + (isLeft ? -6 : 6),
          y: top + 12,
        },
        isInside ? words : us > to ? `${words} →` : `← ${words}`,
      ),
    ];
  }
  return [
    ...(isInside
      ? [svg('line', { class: 'limit', x1: LEFT, x2: width - RIGHT, y1: y(at), y2: y(at) })]
      : []),
    svg(
      'text',
      { class: 'limit-words', x: LEFT + 6, y: Math.max(top + 12, y(at) - 5) },
      isInside ? words : `${words} ${us > to ? '↑' : '↓'}`,
    ),
  ];
}

function drawn(chart: Small, width: number): SVGElement {
  const head = heading(chart, width);
  const top = head.height;
  const x = place(chart.x, LEFT, width - RIGHT);
  const y = place(chart.y, HEIGHT - BOTTOM, top);
  const middles = chart.x.marks.map(({ at }) => x(at));
  const labels = apart(
    chart.x.marks.map(({ label }) => label),
    middles,
    width - 2,
    wordsWidth,
  );
  return svg(
    'svg',
    {
      class: 'small-plot',
      width,
      height: HEIGHT,
      viewBox: `0 0 ${width} ${HEIGHT}`,
      role: 'img',
      'aria-label': `${chart.title}: ${chart.xTitle} across, ${chart.yTitle} up`,
    },
    ...head.elements,
    ...chart.y.marks.flatMap(({ at, label }) => [
      svg('line', { class: 'grid', x1: LEFT, x2: width - RIGHT, y1: y(at), y2: y(at) }),
      svg('text', { class: 'up', x: LEFT - 8, y: y(at) + 4 }, label),
    ]),
    ...middles.flatMap((at, i) =>
      labels[i] === ''
        ? []
        : [
            svg('line', { class: 'grid', x1: at, x2: at, y1: top, y2: HEIGHT - BOTTOM }),
            svg('text', { class: 'across', x: at, y: HEIGHT - BOTTOM + 16 }, labels[i]),
          ],
    ),
    svg('text', { class: 'axis-title', x: width - RIGHT, y: HEIGHT - 6 }, chart.xTitle),
    ...chart.layers(x, y),
    ...(chart.limit ? limitLayer(chart.limit, chart, x, y, top, width) : []),
  );
}

/** A figure that is drawn again whenever its width changes. */
export function smallChart(chart: Small): HTMLElement {
  const id = freshId('small');
  const plot = h('div', { class: 'plot' });
  const draw = (): void => {
    if (plot.clientWidth > 0) plot.replaceChildren(drawn(chart, Math.floor(plot.clientWidth)));
  };
  let width = 0;
  new ResizeObserver(() => {
    if (Math.floor(plot.clientWidth) === width) return;
    width = Math.floor(plot.clientWidth);
    draw();
  }).observe(plot);
  plot.addEventListener(FIT, draw);

  const name = fileName('onbeat', chart.title);
  const button = (kind: string, what: string, act: () => void): HTMLElement =>
    h(
      'button',
      {
        type: 'button',
        class: 'quiet',
        'aria-label': `${kind}: save ${chart.title} ${what}`,
        title: `Save ${what}`,
        onclick: act,
      },
      kind,
    );
  const picture = (): void => {
    const drawing = plot.querySelector('svg');
    if (drawing !== null) void saveSvg(name, chart.title, drawing);
  };
  const buttons = h(
    'div',
    { class: 'zoom' },
    button('PNG', 'as a picture', picture),
    button('CSV', 'with its exact figures', () => saveCsv(name, chart.figures())),
  );
  return h(
    'figure',
    { class: 'chart small', 'aria-labelledby': id },
    h('figcaption', {}, h('h3', { id }, chart.title), buttons, h('p', {}, chart.lead)),
    plot,
    hiddenTable(chart.table),
  );
}

/** Points joined by straight lines; nothing is drawn across gaps, and a point alone is a dot. */
export function line(
  name: string,
  points: readonly (readonly [number, number] | null)[],
): SVGElement {
  let pen = 'M';
  const d = points
    .map((point, i) => {
      if (point === null) {
        pen = 'M';
        return '';
      }
      const alone = pen === 'M' && (points[i + 1] ?? null) === null;
      const step = `${pen}${point[0].toFixed(1)} ${point[1].toFixed(1)}${alone ? 'm-2 0h4' : ''}`;
      pen = 'L';
      return step;
    })
    .join('');
  return svg('path', { class: name, d });
}

/** Round numbers: 1, 2 and 5 times powers of ten, or only the powers when the stretch is long. */
export function logMarks(
  from: number,
  to: number,
  label: (value: number) => string,
): { at: number; label: string }[] {
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
export function timeMarks(
  from: number,
  to: number,
  wanted: number,
  label: (value: number) => string,
): { at: number; label: string }[] {
  const aim = (to - from) / wanted;
  const step = aim > 30 ? CLOCK.find((s) => s >= aim) : undefined;
  return step === undefined ? evenMarks(from, to, wanted, label) : stepped(from, to, step, label);
}

/** About `wanted` even steps of a round length. */
export function evenMarks(
  from: number,
  to: number,
  wanted: number,
  label: (value: number, digits: number) => string,
): { at: number; label: string }[] {
  const aim = (to - from) / wanted;
  const power = 10 ** Math.floor(Math.log10(aim));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= aim)!;
  return stepped(from, to, step, label);
}

function stepped(
  from: number,
  to: number,
  step: number,
  label: (value: number, digits: number) => string,
): { at: number; label: string }[] {
  const first = Math.ceil(from / step);
  const digits = digitsFor(to, step);
  return Array.from({ length: Math.max(0, Math.floor(to / step) - first + 1) }, (_, i) => ({
    at: (first + i) * step,
    label: label((first + i) * step, digits),
  }));
}
