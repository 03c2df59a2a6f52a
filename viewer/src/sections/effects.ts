// Effect of each tuning: ratios with their intervals, as a forest plot.
import { paintInterval, paintStops, saveButtons, type PictureRow } from '../charts/rows.ts';
import { h, prose, section, svg } from '../dom.ts';
import { ink } from '../theme.ts';
import type { Effect } from '../summary.ts';
import { held } from '../units.ts';
import { loadHeading, loadPhrase, TUNING_LETTERS } from '../words.ts';

export const times = (ratio: number): string =>
  ratio >= 100
    ? ratio.toFixed(0)
    : ratio >= 10
      ? ratio.toFixed(1)
      : ratio >= 0.095
        ? ratio.toFixed(2)
        : ratio.toPrecision(2);

/** A ratio with its interval, and whether it differs from 1 where that is judged otherwise than by the interval. */
export type Span = Pick<Effect, 'ratio' | 'low' | 'high'> & { differs?: boolean };

/** The plot's ends: powers of two or ten around all intervals, 1 always inside. */
export function ratioBounds(effects: readonly Span[]): [number, number] {
  const low = Math.min(0.5, ...effects.map((effect) => Math.max(effect.low, 1e-4)));
  const high = Math.max(2, ...effects.map((effect) => effect.high));
  return [low / 1.25, high * 1.25];
}

/** What an interval says: better, worse, or neither since 1 lies within. */
export const reading = ({ low, high, differs = true }: Span): 'better' | 'worse' | 'unclear' =>
  differs && high < 1 ? 'better' : differs && low > 1 ? 'worse' : 'unclear';

const WORDS = { better: 'shorter', worse: 'longer', unclear: 'not distinguishable' } as const;

/** Where a ratio stands between the ends. */
const place = (ratio: number, bounds: [number, number]): string =>
  `${5 + (90 * Math.log(Math.max(ratio, 1e-4) / bounds[0])) / Math.log(bounds[1] / bounds[0])}%`;

/** One ratio with its interval as a line around a point. */
export function forest(
  { ratio, low, high }: Span,
  bounds: [number, number],
  tone: string,
  label: string,
): SVGElement {
  const at = (value: number): string => place(value, bounds);
  return svg(
    'svg',
    { class: `forest ${tone}`, role: 'img', 'aria-label': label },
    svg('line', { class: 'one', x1: at(1), x2: at(1), y1: 0, y2: '100%' }),
    svg('line', { class: 'span', x1: at(low), x2: at(high), y1: '50%', y2: '50%' }),
    ...(low < high
      ? [low, high].map((end) =>
          svg('line', { class: 'end', x1: at(end), x2: at(end), y1: '32%', y2: '68%' }),
        )
      : []),
    svg('circle', { cx: at(ratio), cy: '50%', r: 5 }),
  );
}

/** The axis under a group. */
export const scale = (bounds: [number, number]): HTMLElement =>
  h(
    'div',
    { class: 'effect axis', 'aria-hidden': 'true' },
    h('div'),
    svg(
      'svg',
      { class: 'forest scale' },
      ...stops(bounds).map((v) => svg('text', { x: place(v, bounds), y: 14 }, `× ${v}`)),
    ),
    h('div'),
    h('div'),
  );

const TONES = { better: 'blue', worse: 'vermilion', unclear: 'muted' } as const;

/** A forest plot as rows of a picture, with its axis below. */
export function pictureRows(
  spans: readonly (Span & { name: string })[],
  bounds: [number, number],
): PictureRow[] {
  const row = ({ name, ...span }: Span & { name: string }): PictureRow => ({
    name,
    words: `× ${times(span.ratio)} (${times(span.low)} … ${times(span.high)})`,
    paint: (ctx, box) => paintInterval(ctx, box, span, bounds, ink(TONES[reading(span)])),
  });
  return [
    ...spans.map(row),
    { name: '', words: '', paint: (ctx, box) => paintStops(ctx, box, stops(bounds), bounds) },
  ];
}

function row(effect: Effect, bounds: [number, number]): HTMLElement {
  const tone = reading(effect);
  return h(
    'div',
    { class: 'effect' },
    h(
      'div',
      { class: 'factor' },
      h('b', {}, effect.factor),
      h('span', { class: 'muted' }, TUNING_LETTERS[effect.factor] ?? ''),
    ),
    forest(
      effect,
      bounds,
      tone,
      `ratio ${times(effect.ratio)}, interval ${times(effect.low)} to ${times(effect.high)}: ${WORDS[tone]}`,
    ),
    h(
      'div',
      { class: 'ratio' },
      h('b', {}, `× ${times(effect.ratio)}`),
      h('span', { class: 'muted' }, `${times(effect.low)} … ${times(effect.high)}`),
    ),
    h('p', {}, ...prose(held(effect.sentence))),
  );
}

function stops([low, high]: [number, number]): number[] {
  const all = [0.001, 0.01, 0.1, 1, 10, 100, 1000].filter((v) => v >= low && v <= high);
  return all.length >= 3
    ? all
    : [0.25, 0.5, 1, 2, 4, ...all].filter(
        (v, i, list) => v >= low && v <= high && list.indexOf(v) === i,
      );
}

export function effectsSection(effects: readonly Effect[]): HTMLElement {
  if (effects.length === 0)
    return section(
      'effects',
      'Effect of each tuning',
      'No two cells differ in one tuning alone, so the effect of a single tuning cannot be computed.',
    );
  const bounds = ratioBounds(effects);
  const loads = [...new Set(effects.map((effect) => effect.load))];
  return section(
    'effects',
    'Effect of each tuning',
    'Each figure with the tuning divided by the figure without it, over the pairs of cells that differ in nothing else; the line is the 95 % confidence interval. Left of 1 is shorter. An interval that contains 1 shows no difference.',
    ...loads.map((load) => {
      const own = effects.filter((effect) => effect.load === load);
      const metrics = [...new Set(own.map((effect) => effect.metric))];
      return h(
        'div',
        { class: 'effects', role: 'group', 'aria-label': `Effects ${loadPhrase(load)}` },
        h(
          'div',
          { class: 'rows-head' },
          h('h3', {}, loadHeading(load), h('span', { class: 'muted' }, ` ${metrics.join(', ')}`)),
          saveButtons(
            `Effect of each tuning, ${load}`,
            () =>
              pictureRows(
                own.map((effect) => ({ ...effect, name: effect.factor })),
                bounds,
              ),
            () => ({
              head: ['tuning', 'load', 'metric', 'ratio', 'low', 'high'],
              rows: own.map(({ factor, load: of, metric, ratio, low, high }) => [
                factor,
                of,
                metric,
                ratio,
                low,
                high,
              ]),
            }),
          ),
        ),
        ...own.map((effect) => row(effect, bounds)),
        scale(bounds),
      );
    }),
  );
}
