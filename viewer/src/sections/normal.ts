// Mean and standard deviation beside the maximum, and the normal distribution they stand for over the real histogram.
import { limitMark } from '../charts/marks.ts';
import { evenMarks, line, logMarks, smallChart, type Layer } from '../charts/small.ts';
import type { Normal } from '../conclusions.ts';
import type { Limit } from '../summary.ts';
import { h, section, svg } from '../dom.ts';
import type { Cell, Report } from '../model.ts';
import { count, held, human, tick } from '../units.ts';
import { seriesWord } from '../words.ts';

const FLOOR = 0.5;
const digits = (value: number): string => String(Number(value.toPrecision(3)));

function table(cells: readonly (readonly [Cell, Normal])[]): HTMLElement {
  const heads = ['samples', 'mean', 'SD', 'max', '(max − mean) / SD', 'normal'];
  return h(
    'div',
    {
      class: 'scroll',
      tabindex: 0,
      role: 'region',
      'aria-label': 'Largest value in standard deviations above the mean',
    },
    h(
      'table',
      { class: 'list plain' },
      h(
        'thead',
        {},
        h(
          'tr',
          {},
          h('th', { scope: 'col' }, 'run'),
          ...heads.map((head) => h('th', { scope: 'col', class: 'number' }, head)),
        ),
      ),
      h(
        'tbody',
        {},
        ...cells.map(([cell, normal]) =>
          h(
            'tr',
            {},
            h('th', { scope: 'row' }, cell.name),
            ...[
              count(normal.count),
              human(normal.mean_ns),
              human(normal.sd_ns),
              human(normal.max_ns),
              digits(normal.tail_ratio),
              digits(normal.normal_tail_ratio),
            ].map((text) => h('td', { class: 'number' }, text)),
          ),
        ),
      ),
    ),
  );
}

/** Bins as rectangles, the normal distribution as a line; both by number of samples. */
function plot(cell: Cell, normal: Normal, named: boolean, limit: Limit | null): HTMLElement {
  const tag = cell.figures.conclusions?.series ?? 'wakeup_latency';
  const series = seriesWord(tag).name;
  const { from_ns: edges, count: counts, normal: expected } = normal.curve;
  const [low, high] = [edges[0]! / 1000, edges[edges.length - 1]! / 1000];
  const most = Math.max(...counts, ...expected);
  // Of values before zero it may lie there, where the axis has no place.
  const isShown = normal.normal_max_ns >= edges[0]!;
  const layers: Layer = (x, y) => [
    ...counts
      .map((n, i) =>
        n === 0
          ? null
          : svg('rect', {
              class: 'bin',
              x: x(edges[i]! / 1000),
              y: y(n),
              width: Math.max(1, x(edges[i + 1]! / 1000) - x(edges[i]! / 1000) - 0.5),
              height: Math.max(1, y(FLOOR) - y(n)),
            }),
      )
      .filter((bin) => bin !== null),
    line(
      'curve bell',
      expected.map((n, i) =>
        n < FLOOR ? null : ([x(Math.sqrt(edges[i]! * edges[i + 1]!) / 1000), y(n)] as const),
      ),
    ),
    ...(isShown ? [normal.normal_max_ns / 1000] : []).map((at) =>
      line('begin', [
        [x(at), y(FLOOR)],
        [x(at), y(most)],
      ]),
    ),
  ];
  return smallChart({
    title: named ? `${series}, ${cell.name}` : `${series} and the normal distribution`,
    lead: held(normal.sentence),
    layers,
    xTitle: series.toLowerCase(),
    yTitle: 'samples',
    x: {
      from: low,
      to: high,
      log: high / low > 4,
      marks: high / low > 4 ? logMarks(low, high, tick) : evenMarks(low, high, 6, tick),
    },
    limit: limitMark(limit, tag, 'x'),
    figures: () => ({
      head: ['from_ns', 'to_ns', 'samples', 'normal_samples'],
      rows: counts.map((n, i) => [edges[i]!, edges[i + 1]!, n, expected[i]!]),
    }),
    y: { from: FLOOR, to: most * 1.6, log: true, marks: logMarks(1, most * 1.6, count) },
    key: [
      ['bin', 'samples'],
      ['bell', 'normal distribution with the same mean and SD'],
      ...(isShown ? [['begin', 'its expected maximum'] as const] : []),
    ],
    table: {
      caption: `Samples, and those expected of a normal distribution, ${cell.name}`,
      head: ['from', 'samples', 'normal'],
      rows: counts.map((n, i) => [human(edges[i]!), count(n), digits(expected[i]!)]),
    },
  });
}

export function normalSection(report: Report): HTMLElement | null {
  const cells = report.cells.flatMap((cell) =>
    cell.figures.conclusions?.normal ? [[cell, cell.figures.conclusions.normal] as const] : [],
  );
  if (cells.length === 0) return null;
  const best = report.summary.verdict?.best;
  const [cell, normal] =
    cells.find(([{ tuning, load }]) => best?.tuning === tuning && best.load === load) ?? cells[0]!;
  return section(
    'normal',
    'Tail versus normal distribution',
    'Mean and standard deviation describe a normal distribution and leave out the tail. The distance of the largest value from the mean, in standard deviations, shows how much they leave out.',
    table(cells),
    plot(cell, normal, cells.length > 1, report.summary.limit),
  );
}
