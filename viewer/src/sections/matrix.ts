// The paper's tables (Figures 7 and 8): columns are tunings, rows the statistics of the lowest q percent.
import { choice, h, section } from '../dom.ts';
import type { Low } from '../histogram.ts';
import type { Cell, Report } from '../model.ts';
import type { Store } from '../state.ts';
import type { CellSummary, CellVerdict, Limit, SeriesFigures } from '../summary.ts';
import { css, seriesStyle, shade, textOn } from '../theme.ts';
import { count, human, usCell, type Ns } from '../units.ts';
import {
  inOrder,
  loadHeading,
  loadPhrase,
  seriesWord,
  tuningWords,
  UNSUPPORTED,
} from '../words.ts';
import { swatch } from './picker.ts';
import { OUTCOMES } from './verdict.ts';

/** A row of the table: how it is called and how its figure is read off a cell. */
interface Row {
  group: string;
  name: string;
  kind: 'value' | 'sd';
  averaged: boolean;
  of: (figures: SeriesFigures) => { value: Ns; supported: boolean } | null;
  first: boolean;
  span: number;
}

const QS = [99, 99.9, 99.99, 99.999, 100];
const lowOf = (figures: SeriesFigures, q: number): Low | undefined =>
  figures.low.find((low) => Math.abs(low.q - q) < 1e-9);

/** A spread of 0 between different extremes means that the source does not state one. */
const hasNoSpread = ({ sd_ns: sd, min_ns: min, max_ns: max }: SeriesFigures): boolean =>
  sd === 0 && max > min;

function rows(): Row[] {
  const list: Row[] = [
    {
      group: '',
      name: 'min',
      kind: 'value',
      averaged: false,
      first: true,
      span: 1,
      of: (f) => ({ value: f.min_ns, supported: true }),
    },
  ];
  for (const q of QS) {
    const part = (
      name: string,
      pick: (low: Low) => Ns,
      kind: Row['kind'],
      averaged: boolean,
      first: boolean,
    ): Row => ({
      group: q === 100 ? '100 %' : `Low ${q} %`,
      name,
      kind,
      averaged,
      first,
      span: 3,
      of: (figures) => {
        const low = lowOf(figures, q);
        if (low === undefined || (kind === 'sd' && q === 100 && hasNoSpread(figures))) return null;
        return { value: pick(low), supported: low.supported || q === 100 };
      },
    });
    list.push(
      part('max', (l) => l.max_ns, 'value', false, true),
      part('avg', (l) => l.mean_ns, 'value', true, false),
      part('SD', (l) => l.sd_ns, 'sd', true, false),
    );
  }
  return list;
}

/** A percentile, an extreme or a moment as a row. */
const plain = (
  name: string,
  kind: Row['kind'],
  averaged: boolean,
  of: Row['of'],
  first = false,
): Row => ({ group: '', name, kind, averaged, of, first, span: 1 });
const certain = (value: Ns): { value: Ns; supported: boolean } => ({ value, supported: true });
const percentile = (p: number): Row =>
  plain(`p${p}`, 'value', false, ({ percentiles }) => {
    const found = percentiles.find((one) => Math.abs(one.p - p) < 1e-9);
    return found ? { value: found.value_ns, supported: found.supported } : null;
  });

/** What the terminal prints as columns, in its order. */
const PERCENTILES: readonly Row[] = [
  plain('min', 'value', false, (f) => certain(f.min_ns), true),
  plain('avg', 'value', true, (f) => certain(f.mean_ns)),
  plain('max', 'value', false, (f) => certain(f.max_ns)),
  plain('SD', 'sd', true, (f) => (hasNoSpread(f) ? null : certain(f.sd_ns))),
  { ...percentile(50), first: true },
  percentile(99),
  percentile(99.9),
  percentile(99.99),
];

const ROWS = rows();

/** Which rows are shown: percentiles, or the paper's of the lowest q percent. */
type View = 'percentiles' | 'low';
const rowsOf = (view: View): readonly Row[] => (view === 'low' ? ROWS : PERCENTILES);

/** What the shading measures: a period is judged by its distance from T, everything else by itself. */
export const weight = (value: Ns, tag: string, kind: Row['kind'], period: Ns): number =>
  Math.max(
    tag === 'observed_period' && kind === 'value' && period > 0 ? Math.abs(value - period) : value,
    100,
  );

/** Lowest and highest weight over all cells of the report, so that loads can be compared by eye. */
function bounds(
  all: readonly SeriesFigures[],
  tag: string,
  kind: Row['kind'],
  period: Ns,
): [number, number] {
  const weights = all.flatMap((figures) =>
    ROWS.filter((row) => row.kind === kind).flatMap((row) => {
      const figure = row.of(figures);
      return figure && Number.isFinite(figure.value)
        ? [weight(figure.value, tag, kind, period)]
        : [];
    }),
  );
  return weights.length > 0 ? [Math.min(...weights), Math.max(...weights)] : [1, 10];
}

/** The shading spans at least a factor of two hundred, so that cells which hardly differ hardly differ in shade. */
const WIDEST = Math.log(200);

type Shades = Record<Row['kind'], [number, number]>;

function figureCell(
  row: Row,
  figures: SeriesFigures | undefined,
  tag: string,
  period: Ns,
  shades: Shades,
): HTMLTableCellElement {
  const figure = figures ? row.of(figures) : null;
  if (figure === null || !Number.isFinite(figure.value)) return h('td', { class: 'none' }, '–');
  const text = usCell(figure.value, row.averaged);
  const [low, high] = shades[row.kind];
  const color = shade(
    Math.log(weight(figure.value, tag, row.kind, period) / low) /
      Math.max(Math.log(high / low), WIDEST),
  );
  const cell = h(
    'td',
    { class: figure.supported ? null : 'unsupported' },
    text,
    figure.supported ? null : h('span', { class: 'degree', title: UNSUPPORTED }, '°'),
  );
  if (figure.supported) {
    cell.style.backgroundColor = css(color);
    cell.style.color = css(textOn(color));
  } else {
    cell.style.setProperty('--hollow', css(color));
  }
  return cell;
}

const COUNTS: readonly (readonly [string, (cell: CellSummary) => number | null])[] = [
  ['worst CPU', (c) => c.cpu ?? null],
  ['misses', (c) => c.deadline_misses],
  ['skipped', (c) => c.skipped],
  ['overruns', (c) => c.overruns],
  ['lost', (c) => (c.import ? null : c.lost)],
  ['releases', (c) => c.slots],
];

/** The counts that any of the cells has; another tool counts samples, and knows nothing of releases. */
const recorded = (cells: readonly Cell[]): typeof COUNTS =>
  COUNTS.filter(([, of]) => cells.some(({ figures }) => of(figures) !== null)).map(([name, of]) =>
    name === 'releases' && cells.every(({ figures }) => figures.import)
      ? ['samples', of]
      : [name, of],
  );

/** A count, or a dash where the tool that recorded did not count it. */
const counted = (of: number | null): string => (of === null ? '–' : count(of));
const someClass = (name: string, of: number | null): string | null =>
  (of ?? 0) > 0 && !['releases', 'samples', 'worst CPU'].includes(name) ? 'some' : null;

/** Names longer than this take several lines. */
const LONG = 24;

function columnHead(cell: Cell, store: Store): HTMLTableCellElement {
  const { figures } = cell;
  const label = figures.tuning === 'none' ? 'none' : figures.tuning || cell.name;
  const column = label.length > LONG ? 'column long' : 'column';
  if (!figures.permitted || cell.file === null)
    return h(
      'th',
      { scope: 'col', title: tuningWords(figures.tuning) },
      h('span', { class: column }, label),
    );
  const slot = store.slotOf(cell.key);
  const button = h(
    'button',
    {
      type: 'button',
      class: column,
      'aria-pressed': String(slot >= 0),
      title: `${tuningWords(figures.tuning)}: show or hide in the charts`,
      'data-cell': cell.key,
    },
    slot >= 0 ? swatch(slot) : h('span', { class: 'swatch-room', 'aria-hidden': 'true' }),
    label,
  );
  return h(
    'th',
    { scope: 'col', 'data-cell': cell.key, class: slot >= 0 ? 'chosen' : null },
    button,
  );
}

/** A column of a table; `judged` where the limit is on what it shows. */
interface Column {
  head: HTMLTableCellElement;
  cell: Cell;
  tag: string;
  judged: CellVerdict | null;
}
/** How a table is drawn: what the shading spans, the loop's period, whether counts stand below, and whether rows without support are open. */
interface Look {
  shades: Shades;
  period: Ns;
  hasCounts: boolean;
  isOpen: boolean;
  view: View;
  limit: Limit | null;
}

const isBare = (row: Row, columns: readonly Pick<Column, 'cell' | 'tag'>[]): boolean => {
  const found = columns
    .filter(({ cell }) => cell.figures.permitted)
    .map(({ cell, tag }) => cell.figures.series[tag])
    .filter((figures) => figures !== undefined)
    .map(row.of);
  return found.length > 0 && found.every((figure) => figure !== null && !figure.supported);
};

/** Groups of rows in which fewer than ten samples stand beyond every figure. */
export const bareGroups = (columns: readonly Pick<Column, 'cell' | 'tag'>[]): string[] => {
  const groups = [...new Set(ROWS.map(({ group }) => group))];
  return groups.filter((group) =>
    ROWS.filter((row) => row.group === group).every((row) => isBare(row, columns)),
  );
};

/** The limit, first of all: what it says of each column. */
function limitRow(columns: readonly Column[], limit: Limit | null): HTMLTableRowElement | null {
  if (!columns.some(({ judged }) => judged !== null)) return null;
  return h(
    'tr',
    { class: 'limit' },
    h(
      'th',
      { scope: 'row', colspan: 2, class: 'stat' },
      'limit',
      limit ? h('span', { class: 'muted' }, ` ${human(limit.limit_ns)}`) : null,
    ),
    ...columns
      .filter(({ cell }) => cell.figures.permitted)
      .map(({ judged }) => {
        if (judged === null) return h('td', {}, '–');
        const { word, sign, tone } = OUTCOMES[judged.outcome];
        return h(
          'td',
          { class: `outcome ${tone}`, title: judged.sentence },
          h('span', { 'aria-hidden': 'true' }, sign),
          ` ${word}`,
        );
      }),
  );
}

/** One row in place of groups that no column supports. */
function foldedRow(groups: readonly string[], columns: readonly Column[]): HTMLTableRowElement {
  const shown = columns.filter(({ cell }) => cell.figures.permitted).length;
  const isWhole = shown === columns.length;
  return h(
    'tr',
    { class: 'first folded' },
    h(
      'th',
      { scope: 'row', colspan: 2, class: 'stat' },
      groups.join(', ').replaceAll(' %, Low ', ', ').replace(' %', '\u00a0%'),
    ),
    ...(isWhole
      ? [h('td', { colspan: shown }, UNSUPPORTED)]
      : Array.from({ length: shown }, () => h('td', { title: UNSUPPORTED }, '°'))),
  );
}

function figureRow(row: Row, columns: readonly Column[], look: Look): HTMLTableRowElement {
  const tr = h('tr', { class: row.first ? 'first' : null });
  if (row.group === '') tr.append(h('th', { scope: 'row', colspan: 2, class: 'stat' }, row.name));
  else {
    if (row.first)
      tr.append(h('th', { scope: 'rowgroup', rowspan: row.span, class: 'group' }, row.group));
    tr.append(h('th', { scope: 'row', class: 'stat' }, row.name));
  }
  for (const { cell, tag } of columns) {
    if (!cell.figures.permitted) continue;
    const td = figureCell(row, cell.figures.series[tag], tag, look.period, look.shades);
    if (cell.file !== null && look.hasCounts) td.dataset['cell'] = cell.key;
    tr.append(td);
  }
  return tr;
}

/** The rows of figures; neighbouring groups that no column supports share one. */
function figureRows(columns: readonly Column[], look: Look): HTMLTableRowElement[] {
  const bare = look.isOpen || look.view === 'percentiles' ? [] : bareGroups(columns);
  const result: HTMLTableRowElement[] = [];
  let together: string[] = [];
  for (const row of rowsOf(look.view)) {
    if (bare.includes(row.group)) {
      if (row.first) together.push(row.group);
      continue;
    }
    if (together.length > 0) result.push(foldedRow(together, columns));
    together = [];
    result.push(figureRow(row, columns, look));
  }
  return result;
}

/** One table: the cells as columns, the limit first, counts below where they belong to columns. */
function table(caption: string, columns: readonly Column[], look: Look): HTMLElement {
  const limit = limitRow(columns, look.limit);
  const rows = [
    ...(limit ? [limit] : []),
    ...figureRows(columns, look),
    ...(look.hasCounts ? countRows(columns.map(({ cell }) => cell)) : []),
  ];

  // What was not permitted is one field through all rows.
  columns.forEach(({ cell }, place) => {
    if (cell.figures.permitted) return;
    const headings = rows[0]!.querySelectorAll('th').length;
    const hatch = h(
      'td',
      { class: 'refused', rowspan: rows.length },
      h(
        'span',
        {},
        h('b', {}, 'not permitted'),
        cell.figures.why_not ? ` ${cell.figures.why_not}` : '',
      ),
    );
    rows[0]!.insertBefore(hatch, rows[0]!.children[headings + place] ?? null);
  });

  return h(
    'div',
    { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': caption },
    h(
      'table',
      { class: look.hasCounts ? 'matrix' : 'matrix narrow' },
      h('caption', {}, caption),
      h(
        'thead',
        {},
        h(
          'tr',
          {},
          h('td', { colspan: 2, class: 'unit' }, 'µs'),
          ...columns.map(({ head }) => head),
        ),
      ),
      h('tbody', {}, ...rows),
    ),
  );
}

function countRows(cells: readonly Cell[]): HTMLTableRowElement[] {
  const shown = cells.filter((cell) => cell.figures.permitted);
  return recorded(shown).map(([name, of], i) =>
    h(
      'tr',
      { class: i === 0 ? 'first counts' : 'counts' },
      h('th', { scope: 'row', colspan: 2, class: 'stat' }, name),
      ...shown.map(({ figures }) =>
        h('td', { class: someClass(name, of(figures)) }, counted(of(figures))),
      ),
    ),
  );
}

function bodyOf(store: Store, isOpen: boolean, view: View): HTMLElement[] {
  const { report, state } = store;
  const { summary } = report;
  const word = seriesWord(state.tag);
  if (report.kind !== 'bench') return singleTable(store, isOpen, view);
  const figures = report.cells
    .map((cell) => cell.figures.series[state.tag])
    .filter((f) => f !== undefined);
  const shades: Shades = {
    value: bounds(figures, state.tag, 'value', summary.period_ns),
    sd: bounds(figures, state.tag, 'sd', summary.period_ns),
  };
  return summary.loads.map((load) => {
    const cells = report.cells.filter((cell) => cell.load === load);
    return h(
      'div',
      {},
      h('h3', {}, loadHeading(load), h('span', { class: 'muted' }, ` ${word.name.toLowerCase()}`)),
      table(
        `${word.name} ${loadPhrase(load)}, µs`,
        cells.map((cell) => ({
          head: columnHead(cell, store),
          cell,
          tag: state.tag,
          judged: cell.figures.verdict,
        })),
        { shades, period: summary.period_ns, hasCounts: true, isOpen, view, limit: summary.limit },
      ),
    );
  });
}

/** One run: its series stand side by side; several files without tunings: a column each. */
function singleTable(store: Store, isOpen: boolean, view: View): HTMLElement[] {
  const { report, state } = store;
  const { limit, period_ns: period } = report.summary;
  const shadesFor = (tags: readonly string[]): Shades => {
    const of = (kind: Row['kind']): [number, number] => {
      const all = report.cells.flatMap((cell) =>
        tags.flatMap((tag) =>
          cell.figures.series[tag] ? [bounds([cell.figures.series[tag]!], tag, kind, period)] : [],
        ),
      );
      return [Math.min(...all.map(([a]) => a)), Math.max(...all.map(([, b]) => b))];
    };
    return { value: of('value'), sd: of('sd') };
  };
  if (report.kind === 'files' && report.cells.length > 1) {
    return [
      table(
        `${seriesWord(state.tag).name} by file, µs`,
        report.cells.map((cell) => ({
          head: columnHead(cell, store),
          cell,
          tag: state.tag,
          judged: cell.figures.verdict,
        })),
        { shades: shadesFor([state.tag]), period, hasCounts: true, isOpen, view, limit },
      ),
    ];
  }
  return report.cells.map((cell) => {
    const tags = inOrder(Object.keys(cell.figures.series));
    const columns = tags.map((tag) => ({
      head: h('th', { scope: 'col' }, h('span', { class: 'column' }, seriesWord(tag).name)),
      cell,
      tag,
      judged: limit?.on === tag ? cell.figures.verdict : null,
    }));
    return h(
      'div',
      {},
      table('Figures of the run, µs', columns, {
        shades: shadesFor(tags),
        period,
        hasCounts: false,
        isOpen,
        view,
        limit,
      }),
      h(
        'dl',
        { class: 'facts counts' },
        ...recorded([cell]).map(([name, of]) =>
          h(
            'div',
            {},
            h('dt', {}, name),
            h('dd', { class: someClass(name, of(cell.figures)) }, counted(of(cell.figures))),
          ),
        ),
      ),
    );
  });
}

function legend(report: Report, tag: string, view: View): HTMLElement {
  const strip = h(
    'span',
    { class: 'strip', 'aria-hidden': 'true' },
    ...Array.from({ length: 24 }, (_, i) => {
      const bit = h('i');
      bit.style.backgroundColor = css(shade(i / 23));
      return bit;
    }),
  );
  const what = tag === 'observed_period' ? 'closer to T … farther from T' : 'shorter … longer';
  const refused = report.cells.some((cell) => !cell.figures.permitted);
  const unsupported = report.cells.some((cell) =>
    Object.values(cell.figures.series).some((figures) =>
      rowsOf(view).some((row) => row.of(figures)?.supported === false),
    ),
  );
  return h(
    'p',
    { class: 'legend' },
    h('span', {}, strip, ` ${what} (log)`),
    unsupported
      ? h('span', {}, h('span', { class: 'sample unsupported' }, '1.0°'), ` ${UNSUPPORTED}`)
      : null,
    view === 'low'
      ? h('span', {}, '“Low 99 %”: figures of the lowest 99 % of the samples, and so on')
      : null,
    refused
      ? h(
          'span',
          {},
          h('span', { class: 'sample refused', 'aria-hidden': 'true' }),
          ' not permitted, not measured',
        )
      : null,
  );
}

/** The section; it draws itself again when series, selection or theme change. */
export function matrixSection(store: Store): { element: HTMLElement; redraw: () => void } {
  const holder = h('div', { class: 'matrices' });
  const { report } = store;
  const lead =
    report.kind === 'bench'
      ? `Columns are ${report.summary.order === 'at_once' ? 'CPUs' : 'tunings'}. Choose a column to show or hide its cell in the charts.`
      : null;
  const source = report.summary.derived
    ? h(
        'p',
        { class: 'note' },
        'These files have no summary. Computed from the histograms by this page; a figure is as exact as its bucket.',
      )
    : null;
  let isOpen = false;
  let view: View = 'percentiles';
  const rowChoice = choice<View>(
    'Rows',
    [
      { value: 'percentiles', label: 'Percentiles' },
      {
        value: 'low',
        label: 'Low q',
        title: 'the paper’s table: figures of the lowest 99 % of the samples, and so on',
      },
    ],
    view,
    (chosen) => {
      view = chosen;
      redraw();
    },
  );
  const fold = h('button', {
    type: 'button',
    class: 'quiet',
    onclick: () => {
      isOpen = !isOpen;
      redraw();
    },
  });
  const element = section(
    'matrix',
    report.kind === 'bench' ? 'All cells' : 'Figures',
    lead,
    source,
    h('div', { class: 'matrix-rows' }, rowChoice),
    holder,
  );
  const redraw = (): void => {
    const active = (document.activeElement as HTMLElement | null)?.dataset['cell'];
    const scrolls = [...holder.querySelectorAll('.scroll')].map((box) => box.scrollLeft);
    const body = bodyOf(store, isOpen, view);
    const canFold = isOpen || body.some((part) => part.querySelector('tr.folded') !== null);
    fold.textContent = isOpen ? 'Hide rows without support' : 'Show rows without support';
    const key = legend(report, store.state.tag, view);
    if (canFold) key.append(fold);
    const isFocused = document.activeElement === fold;
    holder.replaceChildren(key, ...body);
    if (isFocused) fold.focus({ preventScroll: true });
    holder.querySelectorAll('.scroll').forEach((box, i) => {
      box.scrollLeft = scrolls[i] ?? 0;
    });
    if (active !== undefined)
      holder
        .querySelector<HTMLElement>(`button[data-cell="${CSS.escape(active)}"]`)
        ?.focus({ preventScroll: true });
    for (const { cell, slot } of store.selected()) {
      holder
        .querySelectorAll<HTMLElement>(`th[data-cell="${CSS.escape(cell.key)}"]`)
        .forEach((th) => th.style.setProperty('--series', seriesStyle(slot).color));
    }
  };
  holder.addEventListener('click', (event) => {
    const key = (event.target as HTMLElement).closest<HTMLElement>('[data-cell]')?.dataset['cell'];
    if (key !== undefined) store.toggle(key);
  });
  return { element, redraw };
}
