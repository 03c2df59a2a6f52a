// A sweep: smallest, mean and largest, jitter against what is allowed, and the load reached against the load asked for.
import { limitMark } from '../charts/marks.ts';
import { evenMarks, line, logMarks, smallChart, type Axis } from '../charts/small.ts';
import type { Figures } from '../charts/save.ts';
import { h, section, svg } from '../dom.ts';
import { outcomeOfStep, type Limit, type Outcome, type Sweep, type SweepStep } from '../summary.ts';
import { held, human, ns, tick } from '../units.ts';
import { seriesWord } from '../words.ts';

const OUTCOMES = ['PASS', 'INCONCLUSIVE', 'FAIL'] as const;
const TONES: Readonly<Record<Outcome, string>> = {
  PASS: 'good',
  INCONCLUSIVE: 'open',
  FAIL: 'bad',
};

const percent = (value: number): string => `${Number(value.toFixed(1))} %`;
const us = (value: number): number => Math.max(value / 1000, 1e-3);

/** Half a step of room on either side, so that marks at the ends are whole. */
function loads(steps: readonly SweepStep[]): Axis {
  const [first, last] = [steps[0]!.asked_percent, steps[steps.length - 1]!.asked_percent];
  const room = Math.max((last - first) / Math.max(steps.length - 1, 1) / 3, 2);
  return {
    from: first - room,
    to: last + room,
    log: false,
    marks: steps.map((step) => ({ at: step.asked_percent, label: `${step.asked_percent}` })),
  };
}

function times(values: readonly number[]): Axis {
  const [low, high] = [Math.min(...values) * 0.9, Math.max(...values) * 1.1];
  const log = high / low > 3;
  return {
    from: log ? low : 0,
    to: high,
    log,
    marks: log ? logMarks(low, high, tick) : evenMarks(0, high, 6, tick),
  };
}

const rows = (steps: readonly SweepStep[]): string[][] =>
  steps.map((step) => [
    percent(step.asked_percent),
    step.reached_percent === null ? 'not measured' : percent(step.reached_percent),
    human(ns(step.min_ns)),
    human(ns(step.mean_ns)),
    human(ns(step.max_ns)),
    human(ns(step.jitter_ns)),
    outcomeOfStep(step),
  ]);
/** Every step as it was measured; the same behind each chart. */
const figures = (steps: readonly SweepStep[]): Figures => ({
  head: [
    'load_asked_percent',
    'load_reached_percent',
    'min_ns',
    'mean_ns',
    'max_ns',
    'jitter_ns',
    'verdict',
  ],
  rows: steps.map((step) => [
    step.asked_percent,
    step.reached_percent ?? '',
    step.min_ns,
    step.mean_ns,
    step.max_ns,
    step.jitter_ns,
    outcomeOfStep(step),
  ]),
});
const HEAD = ['target load', 'reached', 'min', 'avg', 'max', 'jitter', 'verdict'];

function spread({ steps, series }: Sweep, limit: Limit | null): HTMLElement {
  const name = seriesWord(series).name;
  const shown = ['min_ns', 'mean_ns', 'max_ns'] as const;
  return smallChart({
    title: `${name} over load`,
    lead: 'Smallest, mean and largest at each step.',
    xTitle: 'target CPU load, %',
    yTitle: `${name}, µs`,
    x: loads(steps),
    y: times(steps.flatMap((step) => shown.map((figure) => us(step[figure])))),
    layers: (x, y) =>
      shown.flatMap((figure) => [
        line(
          `curve ${figure.slice(0, -3)}`,
          steps.map((step) => [x(step.asked_percent), y(us(step[figure]))] as const),
        ),
        ...steps.map((step) =>
          svg('circle', {
            class: `dot ${figure.slice(0, -3)}`,
            cx: x(step.asked_percent),
            cy: y(us(step[figure])),
            r: 3,
          }),
        ),
      ]),
    key: [
      ['max', 'largest'],
      ['mean', 'mean'],
      ['min', 'smallest'],
    ],
    limit: limitMark(limit, series, 'y'),
    figures: () => figures(steps),
    table: { caption: `${name} over load`, head: HEAD, rows: rows(steps) },
  });
}

function jitter({ steps, allowed_jitter_ns: allowed }: Sweep): HTMLElement {
  return smallChart({
    title: 'Jitter over load',
    lead: `Largest minus smallest at each step; limit ${human(ns(allowed))}.`,
    xTitle: 'target CPU load, %',
    yTitle: 'max − min, µs',
    x: loads(steps),
    y: times([us(allowed), ...steps.map((step) => us(step.jitter_ns))]),
    layers: (x, y) => [
      line('begin', [
        [x(loads(steps).from), y(us(allowed))],
        [x(loads(steps).to), y(us(allowed))],
      ]),
      line(
        'curve mean',
        steps.map((step) => [x(step.asked_percent), y(us(step.jitter_ns))] as const),
      ),
      ...steps.map((step) =>
        svg('circle', {
          class: `dot ${TONES[outcomeOfStep(step)]}`,
          cx: x(step.asked_percent),
          cy: y(us(step.jitter_ns)),
          r: 4,
        }),
      ),
    ],
    key: [
      ['begin', `limit ${human(ns(allowed))}`],
      ...OUTCOMES.filter((outcome) => steps.some((step) => outcomeOfStep(step) === outcome)).map(
        (outcome) => [TONES[outcome], outcome] as const,
      ),
    ],
    figures: () => figures(steps),
    table: {
      caption: 'Jitter over load',
      head: ['target load', 'jitter', 'verdict'],
      rows: steps.map((step) => [
        percent(step.asked_percent),
        human(ns(step.jitter_ns)),
        outcomeOfStep(step),
      ]),
    },
  });
}

function reached({ steps }: Sweep): HTMLElement {
  const [first, last] = [steps[0]!.asked_percent, steps[steps.length - 1]!.asked_percent];
  return smallChart({
    title: 'Load reached',
    lead: 'CPU utilisation at each step. Steps more than 5 points off the target are marked.',
    xTitle: 'target CPU load, %',
    yTitle: 'busy, %',
    x: loads(steps),
    y: {
      from: 0,
      to: 105,
      log: false,
      marks: [0, 25, 50, 75, 100].map((at) => ({ at, label: `${at}` })),
    },
    layers: (x, y) => [
      svg('polygon', {
        class: 'band',
        points: [
          [first, first - 5],
          [last, last - 5],
          [last, last + 5],
          [first, first + 5],
        ]
          .map(([a, b]) => `${x(a!).toFixed(1)},${y(b!).toFixed(1)}`)
          .join(' '),
      }),
      ...steps.flatMap((step) =>
        step.reached_percent === null
          ? []
          : [
              svg('circle', {
                class: `dot ${step.is_reached ? 'good' : 'bad'}`,
                cx: x(step.asked_percent),
                cy: y(step.reached_percent),
                r: 4,
              }),
            ],
      ),
    ],
    key: [
      ['band', 'within 5 points'],
      ['good', 'reached'],
      ['bad', 'not reached'],
    ],
    figures: () => figures(steps),
    table: {
      caption: 'Load reached',
      head: HEAD.slice(0, 2),
      rows: rows(steps).map((row) => row.slice(0, 2)),
    },
  });
}

export function sweepSection(sweep: Sweep | undefined, limit: Limit | null): HTMLElement | null {
  if (sweep === undefined || sweep.steps.length === 0) return null;
  return section(
    'sweep',
    'Latency over load',
    'One probe under a CPU load that rises in steps, as in Mossige, Sampath and Rao (2007), figures 6 to 8.',
    h('p', { class: 'note' }, held(sweep.sentence)),
    spread(sweep, limit),
    jitter(sweep),
    reached(sweep),
  );
}
