// A chain through a bus: cycles from a command to its effect, predicted and measured, as a table and as a figure.
import { evenMarks, line, smallChart, type Axis } from '../charts/small.ts';
import { h, section, svg } from '../dom.ts';
import type { Report } from '../model.ts';
import type { ChainCycles } from '../summary.ts';
import { count, human } from '../units.ts';

const fixed = (cycles: number): string => cycles.toFixed(2);
const HEADS = [
  'cell',
  'from',
  'to',
  'exchange',
  'device delay',
  'predicted',
  'min',
  'p50',
  'p99',
  'max',
  'changes',
];

/** The cells of a chain's row, behind the name. */
export function chainRow({
  sensor,
  actor,
  exchange,
  device_delay_ns: delay,
  predicted,
  min,
  p50,
  p99,
  p99_supported: isSupported,
  max,
  count: n,
}: ChainCycles): string[] {
  return [
    sensor,
    actor,
    exchange,
    delay === null ? '–' : human(delay),
    predicted === null ? '–' : `${fixed(predicted[0])} to ${fixed(predicted[1])}`,
    fixed(min),
    fixed(p50),
    `${isSupported ? '' : '~'}${fixed(p99)}`,
    fixed(max),
    count(n),
  ];
}

interface NamedChain {
  name: string;
  of: ChainCycles;
}

/** A column per cell: its prediction as a band, its extremes as a line, p50 and p99 as dots. */
function figure(cells: readonly NamedChain[]): HTMLElement {
  const most = Math.ceil(
    Math.max(...cells.flatMap(({ of }) => [of.max, ...(of.predicted ?? [])])) + 0.2,
  );
  const x: Axis = {
    from: 0,
    to: cells.length + 1,
    log: false,
    marks: cells.map(({ name }, i) => ({ at: i + 1, label: name })),
  };
  return smallChart({
    title: 'Command to effect',
    lead: 'From a change at the sensor to the cycle of the actor that applies the result.',
    xTitle: 'cell',
    yTitle: 'cycles',
    x,
    y: { from: 0, to: most, log: false, marks: evenMarks(0, most, 6, String) },
    layers: (atX, atY) =>
      cells.flatMap(({ of: { predicted, min, p50, p99, max } }, i) => [
        ...(predicted === null
          ? []
          : predicted.map((cycles) =>
              line('begin', [
                [atX(i + 0.6), atY(cycles)],
                [atX(i + 1.4), atY(cycles)],
              ]),
            )),
        line('mean', [
          [atX(i + 1), atY(min)],
          [atX(i + 1), atY(max)],
        ]),
        ...[p50, p99].map((cycles) =>
          svg('circle', {
            class: 'dot mean',
            cx: atX(i + 1).toFixed(1),
            cy: atY(cycles).toFixed(1),
            r: 3,
          }),
        ),
      ]),
    key: [
      ['begin', 'predicted least and most'],
      ['mean', 'measured: min to max, p50 and p99'],
    ],
    figures: () => ({
      head: ['cell', 'predicted_least', 'predicted_most', 'min', 'p50', 'p99', 'max', 'changes'],
      rows: cells.map(({ name, of }) => [
        name,
        of.predicted?.[0] ?? '',
        of.predicted?.[1] ?? '',
        of.min,
        of.p50,
        of.p99,
        of.max,
        of.count,
      ]),
    }),
    table: {
      caption: 'Cycles from command to effect',
      head: HEADS,
      rows: cells.map(({ name, of }) => [name, ...chainRow(of)]),
    },
  });
}

/** Command to effect in cycles. Null for a page without such a chain. */
export function chainSection(report: Report): HTMLElement | null {
  const cells = report.cells.flatMap((cell): NamedChain[] =>
    cell.figures.chain ? [{ name: cell.name, of: cell.figures.chain }] : [],
  );
  if (cells.length === 0) return null;
  const table = h(
    'div',
    { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Command to effect in cycles' },
    h(
      'table',
      { class: 'list plain' },
      h(
        'thead',
        {},
        h(
          'tr',
          {},
          ...HEADS.map((head, i) =>
            h('th', { scope: 'col', ...(i > 4 ? { class: 'number' } : {}) }, head),
          ),
        ),
      ),
      h(
        'tbody',
        {},
        ...cells.map(({ name, of }) =>
          h(
            'tr',
            {},
            h('th', { scope: 'row' }, name),
            ...chainRow(of).map((words, i) => h('td', i > 3 ? { class: 'number' } : {}, words)),
          ),
        ),
      ),
    ),
  );
  return section(
    'reaction',
    'Command to effect',
    'In cycles of the loop; predicted for a bus without latency. Yoon, Song and Lee (2009) report 3 to 4 cycles for devices that take half a cycle.',
    table,
    figure(cells),
  );
}
