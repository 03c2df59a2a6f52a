// Extrapolated worst case (EVT): the estimate with its interval where the fit holds, or why there is none.
import { limitMark, type LimitMark } from '../charts/marks.ts';
import { logMarks, line, smallChart, type Layer } from '../charts/small.ts';
import { eachSeries, type Conclusions, type Estimate, type Extremes } from '../conclusions.ts';
import { h, line as foldedLine, prose, section, svg } from '../dom.ts';
import type { Report } from '../model.ts';
import { duration, held, human, sec, tick, type Sec } from '../units.ts';
import { seriesWord } from '../words.ts';

const TIMES = [
  1, 3, 10, 30, 60, 180, 600, 1800, 3600, 10_800, 28_800, 86_400, 259_200, 604_800, 2_592_000,
  7_776_000, 31_557_600,
];
const days = (seconds: Sec): string =>
  seconds >= 172_800 ? `${Math.round(seconds / 86_400)} d` : duration(seconds);

function facts(estimate: Estimate): HTMLElement {
  const over =
    estimate.stretches_over > estimate.peaks
      ? `, of ${estimate.stretches_over} intervals over it`
      : '';
  const pairs: [string, string][] = [
    [`worst in ${days(sec(estimate.mission_s))}`, human(estimate.worst_ns)],
    ['95 % interval', `${human(estimate.low_ns)} to ${human(estimate.high_ns)}`],
    ['peaks', `${estimate.peaks} over ${human(estimate.threshold_ns)}${over}`],
    [
      'fit',
      `Anderson–Darling ${estimate.anderson_darling.toFixed(2)}, passes up to ${estimate.critical.toFixed(2)}`,
    ],
    ['shape', `${estimate.shape.toFixed(2)}, upper half ${estimate.shape_above.toFixed(2)}`],
  ];
  return h(
    'dl',
    { class: 'facts' },
    ...pairs.map(([word, value]) => h('div', {}, h('dt', {}, word), h('dd', {}, held(value)))),
  );
}

function plot(
  name: string,
  { sentence, mission_s: mission }: Extremes,
  estimate: Estimate,
  limit: LimitMark | null,
): HTMLElement {
  const curve = estimate.curve ?? [];
  const observed = estimate.observed ?? [];
  const times = [...curve.map((level) => level.mission_s), ...observed.map((one) => one.every_s)];
  const levels = [
    ...curve.flatMap((level) => [level.low_ns, level.high_ns]),
    ...observed.map((one) => one.ns),
  ].map((value) => value / 1000);
  const [from, to] = [Math.min(...times) * 0.9, Math.max(...times) * 1.1];
  const [low, high] = [Math.min(...levels) * 0.95, Math.max(...levels) * 1.05];
  const layers: Layer = (x, y) => {
    const ends = [
      ...curve.map((level) => [x(level.mission_s), y(level.high_ns / 1000)]),
      ...[...curve].reverse().map((level) => [x(level.mission_s), y(level.low_ns / 1000)]),
    ];
    return [
      svg('polygon', {
        class: 'band',
        points: ends.map(([a, b]) => `${a!.toFixed(1)},${b!.toFixed(1)}`).join(' '),
      }),
      line(
        'curve bell',
        curve.map((level) => [x(level.mission_s), y(level.worst_ns / 1000)] as const),
      ),
      ...observed.map((one) =>
        svg('circle', { class: 'seen', cx: x(one.every_s), cy: y(one.ns / 1000), r: 3 }),
      ),
      line('begin', [
        [x(mission), y(low)],
        [x(mission), y(high)],
      ]),
    ];
  };
  return smallChart({
    title: name === '' ? 'Return level' : `Return level, ${name}`,
    lead: held(sentence),
    layers,
    xTitle: 'return period',
    yTitle: 'value exceeded once',
    x: {
      from,
      to,
      log: true,
      marks: TIMES.filter((at) => at >= from && at <= to).map((at) => ({
        at,
        label: days(sec(at)),
      })),
    },
    y: { from: low, to: high, log: high / low > 3, marks: logMarks(low, high, tick) },
    limit,
    figures: () => ({
      head: ['kind', 'time_s', 'value_ns', 'low_ns', 'high_ns'],
      rows: [
        ...curve.map((level) => [
          'estimate',
          level.mission_s,
          level.worst_ns,
          level.low_ns,
          level.high_ns,
        ]),
        ...observed.map((one) => ['observed', one.every_s, one.ns, '', '']),
      ],
    }),
    key: [
      ['seen', 'observed in the run'],
      ['bell', 'estimate, with its 95 % interval'],
      ['begin', 'mission'],
    ],
    table: {
      caption: 'Value exceeded once in a time',
      head: ['time', 'estimate', 'from', 'to'],
      rows: curve.map((level) => [
        days(sec(level.mission_s)),
        human(level.worst_ns),
        human(level.low_ns),
        human(level.high_ns),
      ]),
    },
  });
}

const TITLE = 'Extrapolated worst case (EVT)';

/** Why cells have no estimate, cell by cell. */
const reasons = (refused: readonly { name: string; all: Conclusions }[]): HTMLElement =>
  h(
    'details',
    {},
    h('summary', {}, `${refused.length} cells without an estimate`),
    h(
      'dl',
      { class: 'pairs' },
      ...refused.flatMap(({ name, all }) => [
        h('dt', {}, name),
        h('dd', {}, held(all.extremes.sentence)),
      ]),
    ),
  );

export function extremesSection(report: Report): HTMLElement | null {
  const cells = report.cells.flatMap((cell) =>
    cell.figures.conclusions ? [{ name: cell.name, all: cell.figures.conclusions }] : [],
  );
  if (cells.length === 0) return null;
  const many = cells.length > 1;
  const shown = cells.flatMap(({ name, all }) =>
    eachSeries(all).flatMap((of, place) => {
      const words = [
        ...(many ? [name] : []),
        ...(place > 0 ? [seriesWord(of.series ?? '').name.toLowerCase()] : []),
      ];
      return of.extremes.estimate === null
        ? []
        : [
            {
              name: words.join(', '),
              of: of.extremes,
              estimate: of.extremes.estimate,
              limit: limitMark(report.summary.limit, of.series ?? 'wakeup_latency', 'y'),
            },
          ];
    }),
  );
  const refused = cells.filter(({ all }) => all.extremes.estimate === null);
  const enough = cells.map(({ all }) => all.enough).find((one) => one !== null);
  const [why, ...others] = new Set(refused.map(({ all }) => all.extremes.sentence));
  if (shown.length === 0)
    return foldedLine(
      'extremes',
      TITLE,
      others.length > 0 ? `No estimate in any of the ${refused.length} cells.` : held(why!),
      others.length > 0 ? reasons(refused) : null,
      enough ? h('p', { class: 'note' }, ...prose(held(enough.sentence))) : null,
    );
  return section(
    'extremes',
    TITLE,
    'An estimate by extreme value theory, shown only where its fit holds. It extrapolates the tail of the run, does not include causes that did not occur in the run, and does not guarantee a bound.',
    ...shown.map(({ name, of, estimate, limit }) =>
      h('div', {}, plot(name, of, estimate, limit), facts(estimate)),
    ),
    refused.length > 0 && !many
      ? h('p', { class: 'note' }, ...prose(held(refused[0]!.all.extremes.sentence)))
      : null,
    refused.length > 0 && many ? reasons(refused) : null,
    enough ? h('p', { class: 'note' }, ...prose(held(enough.sentence))) : null,
  );
}
