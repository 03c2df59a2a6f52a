// A joint over time: target, actual position, following error, torque and states. Lines are last values; bands are all values
// in between, so that no value is left out. Live and finished runs draw the same.
import type uPlot from 'uplot';
import { thinned } from '../a11y.ts';
import { ink, seriesStyle } from '../theme.ts';
import { moment, sec } from '../units.ts';
import type { Drawing } from './frame.ts';

/** Last, lowest and highest value of each step; NaN where there is none. */
export interface Band {
  last: number[];
  low: number[];
  high: number[];
}

/** A joint over time, a step after the other. `first` and `cycle` are the first and the last cycle of each step. */
export interface JointSeries {
  t: number[];
  first: number[];
  cycle: number[];
  /** rad */
  target: Band;
  actual: Band;
  following: Band;
  /** Thousandths of the rated torque. */
  torque: Band;
  /** A bit for each state that occurred. */
  states: number[];
}

/** States of a drive's power stage, by number. */
export const JOINT_STATES = [
  'not ready',
  'off',
  'ready',
  'switched on',
  'enabled',
  'quick stop',
  'fault reaction',
  'fault',
] as const;

/** Numbers with as many decimals as their size needs. */
export const radians = (value: number): string =>
  Number.isFinite(value) ? `${value.toFixed(Math.abs(value) < 0.1 ? 4 : 3)} rad` : 'none';
const permille = (value: number): string =>
  Number.isFinite(value) ? `${value.toFixed(0)} ‰` : 'none';

interface Curve {
  name: string;
  band: Band;
  slot: number;
}

/** Between two steps with cycles missing stands one without values. */
const isStep = (series: JointSeries, i: number): boolean => Number.isFinite(series.cycle[i]);
const steps = (series: JointSeries): number[] =>
  series.t.flatMap((_, i) => (isStep(series, i) ? [i] : []));
const gaps = (values: number[]): (number | null)[] =>
  values.map((value) => (Number.isFinite(value) ? value : null));

/** Ends of an axis with some room, at least `least` apart. */
function room(curves: readonly Curve[], least: number): [number, number] {
  let [low, high] = [Infinity, -Infinity];
  for (const { band } of curves) {
    for (const value of band.low) if (value < low) low = value;
    for (const value of band.high) if (value > high) high = value;
  }
  if (low > high) [low, high] = [0, 0];
  const middle = (low + high) / 2;
  const half = Math.max((high - low) / 2, least / 2) * 1.08;
  return [middle - half, middle + half];
}

interface Kind {
  title: string;
  unit: string;
  least: number;
  words: (value: number) => string;
  decimals: number;
}

function banded(
  series: JointSeries,
  curves: readonly Curve[],
  kind: Kind,
  span: readonly [number, number],
): Drawing | string {
  if (series.t.length === 0) return 'No cycles yet.';
  const range = room(curves, kind.least);
  const data = [
    series.t,
    ...curves.flatMap(({ band }) => [gaps(band.high), gaps(band.low), gaps(band.last)]),
  ] as uPlot.AlignedData;
  return {
    data,
    series: curves.flatMap(({ slot }) => {
      const { color, dash } = seriesStyle(slot);
      const hidden = { stroke: 'transparent', width: 0, points: { show: false } };
      return [hidden, hidden, { stroke: color, width: 1.6, dash, points: { show: false } }];
    }),
    bands: curves.map(({ slot }, i) => ({
      series: [3 * i + 1, 3 * i + 2] as [number, number],
      fill: `${seriesStyle(slot).color}40`,
    })),
    x: { range: () => [span[0], span[1]] },
    y: { range: () => range },
    xAxis: { values: (_u, splits) => splits.map((at) => moment(sec(at))), space: 70 },
    yAxis: {
      values: (_u, splits) =>
        splits.map((value) =>
          value.toFixed(kind.decimals + (range[1] - range[0] < 0.05 && kind.decimals > 0 ? 1 : 0)),
        ),
    },
    titles: { x: 'time', y: kind.title },
    legend: curves.map(({ name, slot }) => ({ words: name, style: seriesStyle(slot) })),
    limit: null,
    full: span,
    log: false,
    describe: (i) =>
      isStep(series, i)
        ? `cycle ${series.cycle[i]}: ${curves
            .map(
              ({ name, band }) =>
                `${name} ${kind.words(band.last[i]!)}${
                  band.low[i] !== band.high[i]
                    ? ` (${kind.words(band.low[i]!)} to ${kind.words(band.high[i]!)})`
                    : ''
                }`,
            )
            .join(' · ')}`
        : null,
    figures: () => ({
      head: [
        't_s',
        'first_cycle',
        'cycle',
        ...curves.flatMap(({ name }) =>
          ['', '_lowest', '_highest'].map(
            (end) => `${name.replaceAll(' ', '_')}${end}_${kind.unit}`,
          ),
        ),
      ],
      rows: steps(series).map((i) => [
        series.t[i]!,
        series.first[i]!,
        series.cycle[i]!,
        ...curves.flatMap(({ band }) => [band.last[i]!, band.low[i]!, band.high[i]!]),
      ]),
    }),
    table: {
      caption: kind.title,
      head: ['time', ...curves.map(({ name }) => name)],
      rows: thinned(steps(series), 20).map((i) => [
        moment(sec(series.t[i]!)),
        ...curves.map(({ band }) => kind.words(band.last[i]!)),
      ]),
    },
  };
}

/** Target and actual position. */
export const positions = (series: JointSeries, span: readonly [number, number]): Drawing | string =>
  banded(
    series,
    [
      { name: 'target', band: series.target, slot: 0 },
      { name: 'actual', band: series.actual, slot: 1 },
    ],
    { title: 'position, rad', unit: 'rad', least: 0.02, words: radians, decimals: 2 },
    span,
  );

/** Set-point minus position, where the drive follows its set-point. */
export const followingErrors = (
  series: JointSeries,
  span: readonly [number, number],
): Drawing | string =>
  banded(
    series,
    [{ name: 'following error', band: series.following, slot: 2 }],
    { title: 'following error, rad', unit: 'rad', least: 0.002, words: radians, decimals: 3 },
    span,
  );

/** Torque, in thousandths of the rated torque. */
export const torques = (series: JointSeries, span: readonly [number, number]): Drawing | string =>
  banded(
    series,
    [{ name: 'torque', band: series.torque, slot: 3 }],
    { title: 'torque, ‰ of rated', unit: 'permille', least: 4, words: permille, decimals: 0 },
    span,
  );

const within = (states: number): number[] =>
  JOINT_STATES.flatMap((_, i) => (states & (1 << i) ? [i] : []));

/** The states of the power stage: a mark for each that occurred. */
export function states(series: JointSeries, span: readonly [number, number]): Drawing | string {
  if (series.t.length === 0) return 'No cycles yet.';
  const present = within(series.states.reduce((all, mask) => all | mask, 0));
  const rank = new Map(present.map((state, i) => [state, i]));
  const highest = series.states.map((mask) => {
    const all = within(mask);
    return all.length > 0 ? rank.get(all[all.length - 1]!)! : NaN;
  });
  const words = (i: number): string =>
    within(series.states[i]!)
      .map((state) => JOINT_STATES[state])
      .join(', ');
  return {
    data: [series.t, gaps(highest)] as uPlot.AlignedData,
    series: [{ stroke: 'transparent', width: 0, points: { show: false } }],
    x: { range: () => [span[0], span[1]] },
    y: { range: () => [-0.6, present.length - 0.4] },
    xAxis: { values: (_u, splits) => splits.map((at) => moment(sec(at))), space: 70 },
    yAxis: {
      splits: () => present.map((_, i) => i),
      values: () => present.map((state) => JOINT_STATES[state]!),
      size: 96,
      grid: { show: false },
    },
    titles: { x: 'time', y: 'state' },
    legend: [],
    limit: null,
    full: span,
    log: false,
    draw: (u) => {
      drawStates(u, series, rank, seriesStyle(0).color);
    },
    describe: (i) => (isStep(series, i) ? `cycle ${series.cycle[i]}: ${words(i)}` : null),
    figures: () => ({
      head: ['t_s', 'first_cycle', 'cycle', 'states'],
      rows: steps(series).map((i) => [series.t[i]!, series.first[i]!, series.cycle[i]!, words(i)]),
    }),
    table: {
      caption: 'states',
      head: ['time', 'states'],
      rows: thinned(steps(series), 20).map((i) => [moment(sec(series.t[i]!)), words(i)]),
    },
  };
}

/** A bar from step to step for each state that occurred in it. */
function drawStates(
  u: uPlot,
  series: JointSeries,
  rank: ReadonlyMap<number, number>,
  color: string,
): void {
  const { ctx, bbox } = u;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  const half = Math.min(
    10 * devicePixelRatio,
    Math.max(
      2 * devicePixelRatio,
      Math.abs(u.valToPos(0, 'y', true) - u.valToPos(0.28, 'y', true)),
    ),
  );
  series.t.forEach((t, i) => {
    const to = u.valToPos(t, 'x', true);
    const from = i === 0 ? to - 2 * devicePixelRatio : u.valToPos(series.t[i - 1]!, 'x', true);
    for (const state of within(series.states[i]!)) {
      ctx.fillStyle = state >= 5 ? ink('bad') : color;
      ctx.fillRect(
        from,
        u.valToPos(rank.get(state)!, 'y', true) - half,
        Math.max(to - from, devicePixelRatio) + 0.5,
        2 * half,
      );
    }
  });
  ctx.restore();
}
