// Packets of round trips: the answers of the latest cycles one by one, and what became of each device's packets.
import { evenMarks, line, smallChart, type Axis } from '../charts/small.ts';
import { h, section, svg } from '../dom.ts';
import type { Report } from '../model.ts';
import type { DevicePackets, PacketAccount } from '../summary.ts';
import { count, human, ns, tick, usCell, type Ns } from '../units.ts';

const us = (value: number): number => value / 1000;
const place = (of: DevicePackets): string =>
  of.place_count ? (of.place_sum! / of.place_count).toFixed(1) : '–';

/** A cycle is a column, an answer a dot: as in "Analyzing the viability of Ethernet and UDP for robot control". */
function answers(name: string, { cycles, predicted }: PacketAccount): HTMLElement | null {
  if (!cycles || cycles.latest.length === 0) return null;
  const { latest } = cycles;
  const most = Math.max(
    ...latest.flatMap((cycle) => cycle.response_ns),
    predicted?.last.p50_ns ?? 0,
  );
  const [first, last] = [latest[0]!.cycle, latest[latest.length - 1]!.cycle];
  const x: Axis = {
    from: first - 1,
    to: last + 1,
    log: false,
    marks: latest
      .filter((_, i) => i % 10 === 0)
      .map(({ cycle }) => ({ at: cycle, label: count(cycle) })),
  };
  const arrived = (response: readonly Ns[]): Ns[] =>
    response.filter((value) => value > 0).sort((a, b) => a - b);
  return smallChart({
    title: `${name}Answers of the latest ${latest.length} cycles`,
    lead: 'A column per cycle, a dot per device: from the release to its answer.',
    xTitle: 'cycle',
    yTitle: 'release to answer, µs',
    x,
    y: { from: 0, to: us(most) * 1.08, log: false, marks: evenMarks(0, us(most) * 1.08, 6, tick) },
    layers: (atX, atY) => [
      ...(predicted
        ? [predicted.first, predicted.last].map((of) =>
            line('begin', [
              [atX(first - 1), atY(us(of.p50_ns))],
              [atX(last + 1), atY(us(of.p50_ns))],
            ]),
          )
        : []),
      ...latest.flatMap(({ cycle, response_ns }) =>
        response_ns
          .filter((value) => value > 0)
          .map((value) =>
            svg('circle', {
              class: 'dot mean',
              cx: atX(cycle).toFixed(1),
              cy: atY(us(value)).toFixed(1),
              r: 1.8,
            }),
          ),
      ),
    ],
    key: [
      ['mean', 'an answer'],
      ...(predicted ? [['begin', 'first and last answer as predicted'] as const] : []),
    ],
    figures: () => ({
      head: ['cycle', ...latest[0]!.response_ns.map((_, device) => `device_${device}_ns`)],
      rows: latest.map((of) => [of.cycle, ...of.response_ns]),
    }),
    table: {
      caption: 'First and last answer of each cycle',
      head: ['cycle', 'answers', 'first', 'last'],
      rows: latest.map(({ cycle, response_ns }) => {
        const times = arrived(response_ns);
        return [
          count(cycle),
          count(times.length),
          times.length ? human(times[0]!) : '–',
          times.length ? human(times[times.length - 1]!) : '–',
        ];
      }),
    },
  });
}

function devices(name: string, { devices: all, predicted }: PacketAccount): HTMLElement {
  const times = ['min', 'p50', 'p99', 'max'];
  const fates = ['answered', 'late', 'lost', 'not sent', 'twice', 'reordered'];
  const head = [
    ...times,
    ...fates,
    'place',
    ...(predicted ? ['release to answer', 'predicted', 'place predicted'] : []),
  ];
  const row = (of: DevicePackets, device: number): HTMLElement => {
    const plan = predicted?.devices[device];
    const response = of.response_p50_ns ?? ns(0);
    const cells = [
      ...[of.min_ns, of.p50_ns, of.p99_ns, of.max_ns].map((value) =>
        value === 0 ? '–' : usCell(value, false),
      ),
      ...[of.answered, of.late, of.lost, of.unsent, of.duplicates, of.reordered].map(count),
      place(of),
      ...(plan
        ? [
            response === 0 ? '–' : usCell(response, false),
            usCell(plan.response_p50_ns, false),
            count(plan.place),
          ]
        : []),
    ];
    return h(
      'tr',
      {},
      h('th', { scope: 'row' }, `${device} ${plan?.name ?? of.address}`),
      ...cells.map((text) => h('td', { class: 'number' }, text)),
    );
  };
  return h(
    'div',
    { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Devices' },
    h(
      'table',
      { class: 'list plain' },
      h(
        'caption',
        {},
        `${name}Round trips by device, µs; place: mean place in the order of arrival`,
      ),
      h(
        'thead',
        {},
        h(
          'tr',
          {},
          h('th', { scope: 'col' }, 'device'),
          ...head.map((word) => h('th', { scope: 'col', class: 'number' }, word)),
        ),
      ),
      h('tbody', {}, ...all.map(row)),
    ),
  );
}

export function packetsSection(report: Report): HTMLElement | null {
  const cells = report.cells.flatMap((cell) =>
    cell.figures.packets ? [{ name: cell.name, of: cell.figures.packets }] : [],
  );
  if (cells.length === 0) return null;
  const named = (name: string): string => (cells.length > 1 ? `${name}: ` : '');
  return section(
    'packets',
    'Packets',
    'Every packet of the schedule, device by device; an unanswered packet counts with its age at the timeout.',
    ...cells.flatMap(({ name, of }) => [answers(named(name), of), devices(named(name), of)]),
  );
}
