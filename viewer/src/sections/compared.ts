// Runs beside each other: ratios of percentiles with their intervals, what differed, and limits of the comparison.
import { beside, rowsOf, type Beside, type Ratio, type Row, type Rows } from '../comparison.ts';
import { saveButtons } from '../charts/rows.ts';
import { h, prose, section } from '../dom.ts';
import type { Store } from '../state.ts';
import { count, held, human, ns } from '../units.ts';
import { seriesWord, UNSUPPORTED } from '../words.ts';
import { forest, pictureRows, ratioBounds, reading, scale, times, type Span } from './effects.ts';

const WORDS = { better: 'shorter', worse: 'longer', unclear: 'not distinguishable' } as const;

/** A ratio without an interval is a point. */
const spanOf = ({ ratio, low, high, differs }: Ratio): Span => ({
  ratio,
  low: low ?? ratio,
  high: high ?? ratio,
  differs,
});

function row(ratio: Ratio, bounds: [number, number]): HTMLElement {
  const sure = ratio.low !== null && ratio.high !== null;
  const span = spanOf(ratio);
  const interval = sure ? `${times(span.low)} … ${times(span.high)}` : 'no interval';
  const isOneOfSeveral = !ratio.differs && reading({ ...span, differs: true }) !== 'unclear';
  const words = sure
    ? `${WORDS[reading(span)]}${isOneOfSeveral ? ' as one of several percentiles' : ''}`
    : ratio.wanders
      ? 'INCONCLUSIVE: the level drifts within one of the runs'
      : ratio.supported
        ? 'INCONCLUSIVE: fewer than 4 blocks or intervals'
        : UNSUPPORTED;
  return h(
    'div',
    { class: `effect compared${sure ? '' : ' unsure'}` },
    h('div', { class: 'factor' }, h('b', {}, ratio.metric)),
    forest(
      span,
      bounds,
      sure ? reading(span) : 'unclear',
      `ratio ${times(ratio.ratio)}, ${interval}: ${words}`,
    ),
    h(
      'div',
      { class: 'ratio' },
      h('b', {}, `${sure ? '' : '~ '}× ${times(ratio.ratio)}`),
      h('span', { class: 'muted' }, interval),
    ),
    h('p', {}, words),
  );
}

function ratios(found: readonly Beside[]): HTMLElement[] {
  const bounds = ratioBounds(
    found.flatMap(({ others }) => others.flatMap((other) => other.ratios.map(spanOf))),
  );
  return found.flatMap(({ cell, base, others }) =>
    others.map(({ name, ratios: own }) =>
      h(
        'div',
        { class: 'effects', role: 'group', 'aria-label': `${name} over ${base} ${cell}` },
        h(
          'div',
          { class: 'rows-head' },
          h(
            'h3',
            {},
            name,
            h('span', { class: 'muted' }, ` over ${base}${cell === '' ? '' : `, ${cell}`}`),
          ),
          saveButtons(
            `Ratios of ${name} over ${base} ${cell}`.trim(),
            () =>
              pictureRows(
                own
                  .filter(({ supported }) => supported)
                  .map((one) => ({ ...spanOf(one), name: one.metric })),
                bounds,
              ),
            () => ({
              head: ['run', 'base', 'cell', 'metric', 'ratio', 'low', 'high', 'supported'],
              rows: own.map(({ metric, ratio, low, high, supported }) => [
                name,
                base,
                cell,
                metric,
                ratio,
                low ?? '',
                high ?? '',
                String(supported),
              ]),
            }),
          ),
        ),
        ...own.filter(({ supported }) => supported).map((ratio) => row(ratio, bounds)),
        scale(bounds),
        unsupported(own, bounds),
      ),
    ),
  );
}

/** Ratios with fewer than ten samples beyond the value, folded into one line. */
function unsupported(all: readonly Ratio[], bounds: [number, number]): HTMLElement | null {
  const rest = all.filter(({ supported }) => !supported);
  if (rest.length === 0) return null;
  return h(
    'details',
    { class: 'folded' },
    h(
      'summary',
      {},
      rest.map(({ metric }) => metric).join(', '),
      h('span', { class: 'muted' }, ` ${UNSUPPORTED}`),
    ),
    ...rest.map((ratio) => row(ratio, bounds)),
  );
}

/** The figures of a run and how they are written; what a source does not state is a dash. */
export const FIGURES: readonly [string, (row: Row) => string][] = [
  // One sample without a spread stands for a number that the source does not state.
  ['samples', (row) => (row.count === 1 && row.sd_ns === null ? '–' : count(row.count))],
  ['min', (row) => human(ns(row.min_ns))],
  ['avg', (row) => human(ns(row.mean_ns))],
  ['SD', (row) => (row.sd_ns === null ? '–' : human(ns(row.sd_ns)))],
  ['max', (row) => human(ns(row.max_ns))],
  ['jitter', (row) => human(ns(row.jitter_ns))],
  ['overruns', (row) => (row.overruns === null ? '–' : count(row.overruns))],
  ['skipped', (row) => (row.skipped === null ? '–' : count(row.skipped))],
  ['tail', (row) => (row.tail_ratio === null ? '–' : row.tail_ratio.toPrecision(3))],
];

/** A row per run and cell. */
function table({ head, rows }: Rows): HTMLElement {
  const unknown = rows.some(({ figures }) => figures.overruns === null);
  return h(
    'div',
    {},
    h(
      'div',
      { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Figures by run' },
      h(
        'table',
        { class: 'list plain by-run' },
        h(
          'thead',
          {},
          h(
            'tr',
            {},
            ...[...head, ...FIGURES.map(([name]) => name)].map((name) =>
              h('th', { scope: 'col' }, name),
            ),
          ),
        ),
        h(
          'tbody',
          {},
          ...rows.map(({ names: [name, ...more], figures }) =>
            h(
              'tr',
              {},
              h('th', { scope: 'row' }, name ?? ''),
              ...more.map((word) => h('td', {}, word)),
              ...FIGURES.map(([, of]) => h('td', {}, of(figures))),
            ),
          ),
        ),
      ),
    ),
    h(
      'p',
      { class: 'note' },
      `Jitter is max − min, tail is (max − avg) / SD, both over all samples.${unknown ? ' –: the tool that recorded the run does not count it.' : ''}`,
    ),
  );
}

/** The section of a page that `onbeat compare` wrote; `null` on others. */
export function comparedSection(store: Store): { element: HTMLElement; redraw: () => void } | null {
  const comparison = store.report.summary.comparison;
  if (comparison === undefined) return null;
  const holder = h('div');
  const { differences, runs, warnings } = comparison;
  const differed =
    differences.length === 0
      ? h('p', { class: 'lead' }, 'The recorded hosts and settings do not differ.')
      : h(
          'div',
          { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Differences' },
          h(
            'table',
            { class: 'list plain differed' },
            h(
              'thead',
              {},
              h(
                'tr',
                {},
                h('th', { scope: 'col' }, 'setting'),
                ...runs.map((run) => h('th', { scope: 'col' }, run)),
              ),
            ),
            h(
              'tbody',
              {},
              ...differences.map(({ fact, values }) =>
                h(
                  'tr',
                  {},
                  h('th', { scope: 'row' }, fact.replaceAll('_', ' ')),
                  ...values.map((value) => h('td', {}, value ?? 'not recorded')),
                ),
              ),
            ),
          ),
        );
  const element = section(
    'compared',
    'Side by side',
    `Each percentile divided by that of the first run. The line is the 95 % confidence interval; left of 1 is shorter. An interval that contains 1 shows no difference.`,
    holder,
    h('h3', { class: 'of' }, 'Hosts and settings'),
    differed,
    h('h3', { class: 'of' }, 'Limits of the comparison'),
    h(
      'ul',
      { class: 'warnings' },
      ...warnings.map((warning) => h('li', {}, ...prose(held(`${warning}.`)))),
    ),
  );
  const redraw = (): void => {
    const found = beside(comparison, store.state.tag);
    const figures = rowsOf(comparison, store.state.tag);
    holder.replaceChildren(
      ...(figures.rows.length > 0 ? [table(figures)] : []),
      ...(found.length > 0
        ? ratios(found)
        : [
            h(
              'p',
              { class: 'lead' },
              `No percentile of ${seriesWord(store.state.tag).name.toLowerCase()} is in two runs (see the limits below).`,
            ),
          ]),
    );
  };
  return { element, redraw };
}
