// A robot and what its joints did, as run files and the live view have it (docs/format.md).
import type { JointSeries } from './charts/joint.ts';
import type { DeviceFacts } from './sections/topology.ts';

/** A joint and its limits. */
export interface RobotJoint {
  name: string;
  device: number;
  low_rad: number;
  high_rad: number;
  velocity_rad_s: number;
  following_rad: number;
}
/** A device, and the one its cable comes from; `null` for a cable of the MainDevice. */
export interface RobotDevice {
  name: string;
  kind: string;
  after: number | null;
  port: number | null;
}
export interface Robot {
  name: string;
  period_ns: number;
  joints: RobotJoint[];
  devices: RobotDevice[];
}

/**
 * All joints in a stretch of cycles, `t` being the release of the last one in seconds since the file's start. Per joint: last, lowest and
 * highest value of target, actual position and following error in µrad and of torque in thousandths of the rated one, then states.
 */
export interface JointStep {
  first: number;
  last: number;
  t: number;
  joints: (number | null)[][];
}

/** Bus and devices at the end of a run, with what was counted since its start. */
export interface BusFacts {
  cycle: number;
  working_counter: number;
  expected: number;
  in_op: number;
  lost: number;
  late: number;
  strange: number;
  no_answer_ns: number;
  devices: DeviceFacts[];
}

const AT = { target: 0, actual: 3, following: 6, torque: 9, states: 12 } as const;

/**
 * The steps of one joint, `at` giving the time of a step. Where cycles are missing between two steps, a step without values parts them.
 */
export function jointSeries(
  steps: readonly JointStep[],
  joint: number,
  at: (step: JointStep) => number,
): JointSeries {
  const band = (): JointSeries['target'] => ({ last: [], low: [], high: [] });
  const series: JointSeries = {
    t: [],
    first: [],
    cycle: [],
    target: band(),
    actual: band(),
    following: band(),
    torque: band(),
    states: [],
  };
  const add = (
    t: number,
    first: number,
    last: number,
    values: readonly (number | null)[],
  ): void => {
    const value = (place: number, scale: number): number => {
      const n = values[place];
      return n === null || n === undefined ? NaN : n / scale;
    };
    series.t.push(t);
    series.first.push(first);
    series.cycle.push(last);
    for (const [what, scale] of [
      ['target', 1e6],
      ['actual', 1e6],
      ['following', 1e6],
      ['torque', 1],
    ] as const) {
      series[what].last.push(value(AT[what], scale));
      series[what].low.push(value(AT[what] + 1, scale));
      series[what].high.push(value(AT[what] + 2, scale));
    }
    series.states.push(values[AT.states] ?? 0);
  };
  steps.forEach((step, i) => {
    const before = steps[i - 1];
    const t = at(step);
    if (before !== undefined && step.first !== before.last + 1)
      add((at(before) + t) / 2, NaN, NaN, []);
    add(t, step.first, step.last, step.joints[joint] ?? []);
  });
  return series;
}

/** What a joint did in a run: its travel, the following error with the largest magnitude, the largest torque, every state; null for none. */
export interface JointWorst {
  low: number | null;
  high: number | null;
  following: number | null;
  torque: number | null;
  states: number;
  last: number;
}

/** The worst of each joint. */
export function jointWorsts(steps: readonly JointStep[], joints: number): JointWorst[] {
  return Array.from({ length: joints }, (_, joint) => {
    const all: JointWorst = {
      low: null,
      high: null,
      following: null,
      torque: null,
      states: 0,
      last: 0,
    };
    for (const { joints: values } of steps) {
      const of = values[joint] ?? [];
      const [low, high] = [of[AT.actual + 1] ?? null, of[AT.actual + 2] ?? null];
      if (low !== null && (all.low === null || low / 1e6 < all.low)) all.low = low / 1e6;
      if (high !== null && (all.high === null || high / 1e6 > all.high)) all.high = high / 1e6;
      for (const [what, scale] of [
        ['following', 1e6],
        ['torque', 1],
      ] as const) {
        for (const value of [of[AT[what] + 1], of[AT[what] + 2]]) {
          if (
            value !== null &&
            value !== undefined &&
            (all[what] === null || Math.abs(value / scale) > Math.abs(all[what]!))
          )
            all[what] = value / scale;
        }
      }
      all.last = of[AT.states] ?? 0;
      all.states |= all.last;
    }
    return all;
  });
}
