// The four charts of the page, bound to the reader's choices.
import { choice, h } from '../dom.ts';
import { isFiguresOnly, type Range, type Report } from '../model.ts';
import type { Change, Scale, Store } from '../state.ts';
import { sec } from '../units.ts';
import type { First } from '../focus.ts';
import { placePhrase, seriesWord } from '../words.ts';
import { distribution } from './distribution.ts';
import { Chart } from './frame.ts';
import { heatMap } from './heat.ts';
import { maxima } from './maxima.ts';
import { percentiles } from './percentiles.ts';

const HEAT_HEIGHT = 360;

/** Draws one thing per frame, so that the page answers while it fills. `data-drawing` stands on the root until all is drawn. */
class Turns {
  private waiting: (() => void)[] = [];
  private running = false;
  constructor(private readonly settled: () => void) {}
  add(task: () => void): void {
    if (!this.waiting.includes(task)) this.waiting.push(task);
    if (this.running) return;
    this.running = true;
    document.documentElement.dataset['drawing'] = 'true';
    requestAnimationFrame(() => this.next());
  }
  private next(): void {
    this.waiting.shift()?.();
    this.running = this.waiting.length > 0;
    if (this.running) {
      requestAnimationFrame(() => this.next());
      return;
    }
    delete document.documentElement.dataset['drawing'];
    this.settled();
  }
}

/** Whether any recording has more than one interval of time, or was made by onbeat: a histogram of another tool does not tell when its samples came. */
export const isTimed = (report: Report): boolean =>
  report.cells.some(
    ({ figures, file }) =>
      !figures.import || [...(file?.series.values() ?? [])].some((lines) => lines.length > 1),
  );

/** Height of the chart in the first screen, where that is narrow and where it is not. */
const FIRST_HEIGHT = { narrow: 190, wide: 400 } as const;

/** The chart that stands first: percentiles of the whole run, whatever is chosen below. */
export function firstChart(store: Store, cells: () => readonly First[]): Chart | null {
  const shown = (): First[] =>
    cells().filter(({ cell: { file }, tag }) => file !== null && !isFiguresOnly(file, tag));
  const tag = shown()[0]?.tag;
  if (tag === undefined) return null;
  const isNarrow = innerWidth <= 640;
  const where = placePhrase(store.report.summary.focus?.load);
  return new Chart(
    'first',
    'Percentiles',
    '',
    isNarrow ? FIRST_HEIGHT.narrow : FIRST_HEIGHT.wide,
    (zoom) => percentiles(store, zoom, { cells: shown(), tag, clock: 'own', range: null }),
    () => `${seriesWord(tag).name.toLowerCase()}${where}`,
    'h2',
  );
}

/** The charts' figures in page order, and what to call when something changed. `first` stands above them and is drawn before them; `seen` is called after the first drawing, `settled` after the last one. */
export function buildCharts(
  store: Store,
  first: Chart | null,
  seen: () => void,
  settled: () => void,
): { figures: HTMLElement[]; changed: (what: ReadonlySet<Change>) => void; redraw: () => void } {
  const setRange = (range: readonly [number, number] | null): void =>
    store.set({ range: range === null ? null : ([sec(range[0]), sec(range[1])] as Range) });
  const subject = (): string => seriesWord(store.state.tag).name.toLowerCase();
  const time = new Chart(
    'maxima',
    'Interval maxima',
    'The largest value of each interval. Drag to choose a time range for all charts.',
    340,
    (_zoom, width) => maxima(store, setRange, width),
    subject,
  );
  const shape = new Chart(
    'distribution',
    'Distribution',
    'Samples by value; both axes are logarithmic where the tail is long. Samples outside the drawn range are counted at its edges.',
    340,
    (zoom, width) => distribution(store, zoom, width),
    subject,
  );
  const curve = new Chart(
    'percentiles',
    'Percentiles',
    'Each gridline adds a nine: 90 %, 99 %, 99.9 %. Dotted, with hollow markers: fewer than 10 samples beyond this value.',
    360,
    (zoom) => percentiles(store, zoom),
    subject,
  );
  const heat = new Chart(
    'heat',
    'Heat map',
    'Latency over time; the colour is the number of samples, on a log scale.',
    HEAT_HEIGHT,
    () => heatMap(store, HEAT_HEIGHT, setRange),
    subject,
  );
  time.lead([heat]);
  heat.lead([time]);

  const which = h('select', {
    'aria-label': 'Cell in the heat map',
    onchange: () => store.set({ heat: which.value }),
  });
  const many = store.report.cells.length > 1;
  const fillWhich = (): void =>
    which.replaceChildren(
      ...store.report.cells
        .filter((cell) => cell.file !== null && cell.figures.permitted)
        .map((cell) =>
          h('option', { value: cell.key, selected: cell.key === store.state.heat }, cell.name),
        ),
    );
  if (many) heat.extra.append(h('label', {}, 'Cell ', which));
  const axis = choice<Scale>(
    'Value axis',
    [
      { value: 'auto', label: 'auto axis', title: 'logarithmic where the tail is long' },
      { value: 'linear', label: 'linear' },
      { value: 'log', label: 'log' },
    ],
    store.state.scale,
    (scale) => store.set({ scale }),
  );
  shape.extra.append(axis);

  const tickBox = (label: string, name: 'p50' | 'p99'): HTMLElement =>
    h(
      'label',
      { class: 'tick' },
      h('input', {
        type: 'checkbox',
        checked: store.state.bands[name],
        onchange: (event) =>
          store.set({
            bands: { ...store.state.bands, [name]: (event.target as HTMLInputElement).checked },
          }),
      }),
      label,
    );
  time.extra.append(
    many && store.report.kind === 'bench'
      ? choice(
          'Clock',
          [
            {
              value: 'own',
              label: 'measured time',
              title: 'the blocks of each cell joined, so that cells can be overlaid',
            },
            {
              value: 'wall',
              label: 'elapsed time',
              title: 'each block at the time at which it ran',
            },
          ],
          store.state.clock,
          (clock) => store.set({ clock, range: null }),
        )
      : '',
    tickBox('99 % of each interval', 'p99'),
    tickBox('median of each interval', 'p50'),
  );

  const charts = isTimed(store.report) ? [shape, curve, time, heat] : [shape, curve];
  const turns = new Turns(settled);
  let unseen = true;
  const drawn = (chart: Chart): void => {
    chart.redraw();
    if (unseen) {
      unseen = false;
      seen();
    }
  };
  const tasks = charts.map((chart) => () => drawn(chart));
  const redrawChosen = (): void => {
    fillWhich();
    tasks.forEach((task) => turns.add(task));
  };
  const redraw = (): void => {
    if (first !== null) turns.add(() => drawn(first));
    redrawChosen();
  };
  const changed = (what: ReadonlySet<Change>): void => {
    if (what.has('tag') || what.has('slots')) charts.forEach((chart) => chart.forget());
    if (what.size === 1 && what.has('bands')) {
      tasks.slice(2, 3).forEach((task) => turns.add(task));
      return;
    }
    if (what.size === 1 && what.has('scale')) {
      shape.forget();
      turns.add(tasks[0]!);
      return;
    }
    if (what.size === 1 && what.has('heat')) {
      fillWhich();
      tasks.slice(2).forEach((task) => turns.add(task));
      return;
    }
    redrawChosen();
  };
  return { figures: charts.map((chart) => chart.figure), changed, redraw };
}
