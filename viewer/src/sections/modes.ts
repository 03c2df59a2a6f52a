// Periodic interference: each mode in a sentence, and the run laid over itself with its period.
import { limitMark } from '../charts/marks.ts';
import { evenMarks, line, smallChart, timeMarks, type Layer } from '../charts/small.ts';
import { eachSeries, type Mode } from '../conclusions.ts';
import { h, section } from '../dom.ts';
import type { Report } from '../model.ts';
import type { Limit } from '../summary.ts';
import { seriesWord } from '../words.ts';
import { count, duration, held, human, ns, sec, tick, type Ns } from '../units.ts';

type Curve = readonly (Ns | null)[];
const CURVES = [
  ['p50', 'median'],
  ['p90', '90th percentile'],
  ['max', 'largest'],
] as const;

/** A period on an axis: "5 min 18 s", "7 ms". */
export const length = (seconds: number): string =>
  seconds >= 1 ? duration(sec(seconds)) : human(ns(seconds * 1e9));

/** The curves worth drawing: the largest values only where the mode is of single cycles, so that others keep their shape. */
export function curvesOf(mode: Mode): { name: string; words: string; values: Curve }[] {
  const wanted = mode.lifts === 'single' ? ['p50', 'max'] : ['p50', 'p90'];
  return CURVES.filter(([name]) => wanted.includes(name))
    .map(([name, words]) => ({ name, words, values: mode.phase[`${name}_ns`] }))
    .filter(({ values }) => values.length > 0);
}

function phasePlot(mode: Mode, tag: string, limit: Limit | null, isNamed: boolean): HTMLElement {
  const series = seriesWord(tag).name.toLowerCase();
  const curves = curvesOf(mode);
  const all = curves.flatMap(({ values }) => values.filter((value): value is Ns => value !== null));
  const [low, high] = [Math.min(...all), Math.max(...all)];
  const room = Math.max((high - low) * 0.08, high * 0.002);
  const [from, to] = [Math.max(0, (low - room) / 1000), (high + room) / 1000];
  const most = Math.max(...curves.map(({ values }) => values.length));
  // The mode begins at a tenth of the period, which is 0 on the axis.
  const at = (i: number, n: number): number => ((i + 0.5) / n - 0.1) * mode.period_s;
  const layers: Layer = (x, y) => [
    line('begin', [
      [x(0), y(from)],
      [x(0), y(to)],
    ]),
    ...curves.map(({ name, values }) =>
      line(
        `curve ${name}`,
        values.map((value, i) =>
          value === null ? null : ([x(at(i, values.length)), y(value / 1000)] as const),
        ),
      ),
    ),
  ];
  return smallChart({
    title: `Every ${length(mode.period_s)}${isNamed ? `, ${series}` : ''}`,
    lead: held(`${mode.sentence}.`),
    layers,
    xTitle: 'time since its start',
    yTitle: series,
    x: {
      from: -0.1 * mode.period_s,
      to: 0.9 * mode.period_s,
      log: false,
      marks: timeMarks(-0.1 * mode.period_s, 0.9 * mode.period_s, 6, (value) =>
        value === 0 ? '0' : value < 0 ? `−${length(-value)}` : length(value),
      ),
    },
    y: { from, to, log: false, marks: evenMarks(from, to, 5, tick) },
    key: curves.map(({ name, words }) => [name, words] as const),
    limit: limitMark(limit, tag, 'y'),
    figures: () => ({
      head: ['time_s', ...curves.map(({ name }) => `${name}_ns`)],
      rows: Array.from({ length: most }, (_, i) => [
        at(i, most),
        ...curves.map(({ values }) => values[i] ?? ''),
      ]),
    }),
    table: {
      caption: `${seriesWord(tag).name} by position in a period of ${length(mode.period_s)}`,
      head: ['time since its start', ...curves.map(({ words }) => words)],
      rows: Array.from({ length: most }, (_, i) => [
        length(Math.abs(at(i, most))),
        ...curves.map(({ values }) =>
          values[i] === null || values[i] === undefined ? 'none' : human(values[i]),
        ),
      ]),
    },
  });
}

export function modesSection(report: Report): HTMLElement | null {
  const cells = report.cells.filter((cell) => cell.figures.conclusions !== undefined);
  if (cells.length === 0) return null;
  const many = cells.length > 1;
  const plots = cells.map((cell) => ({
    cell,
    found: eachSeries(cell.figures.conclusions!).flatMap((of, place) =>
      of.modes.found.map((mode) =>
        phasePlot(mode, of.series ?? 'wakeup_latency', report.summary.limit, place > 0),
      ),
    ),
  }));
  const found = plots.filter((one) => one.found.length > 0);
  if (found.length === 0) {
    const sentences = new Set(cells.map((cell) => cell.figures.conclusions!.modes.sentence));
    return section(
      'modes',
      'Periodic interference',
      sentences.size === 1
        ? held([...sentences][0]!)
        : `No periodic interference found in the recordings of the ${count(cells.length)} cells.`,
    );
  }
  return section(
    'modes',
    'Periodic interference',
    'Disturbances that recur at a fixed period. Each chart shows the run folded at one of these periods: what recurs adds up, everything else averages out.',
    ...found.map((one) =>
      h(
        'div',
        { class: 'smalls' },
        many ? h('h3', { class: 'of' }, one.cell.name) : null,
        ...one.found,
      ),
    ),
  );
}
