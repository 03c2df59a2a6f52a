// The events of `onbeat robot run --view`, as crates/onbeat-robot/src/live_view writes them.
import type { Robot } from '../robot.ts';
import type { DeviceFacts } from '../sections/topology.ts';

export type LiveRobot = Robot;

/** Places in a joint's list of values: last, lowest and highest of each, then statusword and the states that occurred. */
export const AT = {
  target: 0,
  actual: 3,
  following: 6,
  torque: 9,
  statusword: 12,
  states: 13,
} as const;
/** Length of that list. */
export const VALUES = 14;
export type JointList = (number | null)[];

/** A histogram: index and count in turns. */
export interface LiveTimes {
  largest_ns: number;
  at_cycle: number;
  counts: number[];
}

/** The cycles between two events: last values, and extremes of all cycles in between. */
export interface LiveCycles {
  cycles: number;
  lost: number;
  merged: number;
  first: number;
  last: number;
  release_ns: number;
  skipped: number;
  stale: number;
  counter_off: number;
  in_op: number;
  phase: number;
  rung: number;
  joints: JointList[];
  times: Record<string, LiveTimes>;
}

export interface LiveState {
  phase: number;
  rung: number;
  stopped_by: string;
  stopped_joint: string | null;
  misses: [number, number];
  speed: number;
  time_ns: number;
  bus: {
    in_op: number;
    lost: number;
    late: number;
    strange: number;
    no_answer_ns: number;
    working_counter: number;
    expected: number;
  };
  loop: { worst_ns: number; deadline_misses: number; skipped: number; spikes: number };
  spikes: { t: number; late_ns: number; cause: string }[];
  devices: DeviceFacts[];
}
export interface LiveEvent {
  at_ns: number;
  cycle: number;
  alarm: boolean;
  device: string;
  words: string;
}
export interface Hello {
  robot: LiveRobot;
  command: string;
  pid: number;
  total: LiveCycles;
}

/** What the page does with each kind of event. */
export interface Listener {
  hello: (hello: Hello) => void;
  cycles: (cycles: LiveCycles) => void;
  robot: (state: LiveState) => void;
  events: (events: { left_out: number; events: LiveEvent[] }) => void;
  /** The run has ended; there will be no more. */
  end: () => void;
  /** The connection was lost; the browser tries again. */
  lost: () => void;
}

/** Follows the events of the address that the page came from. */
export function follow(listener: Listener): void {
  const source = new EventSource('events');
  const on = (name: 'hello' | 'cycles' | 'robot' | 'events'): void =>
    source.addEventListener(name, (event) => {
      (listener[name] as (data: unknown) => void)(JSON.parse((event as MessageEvent<string>).data));
    });
  (['hello', 'cycles', 'robot', 'events'] as const).forEach(on);
  source.addEventListener('end', () => {
    source.close();
    listener.end();
  });
  source.addEventListener('error', () => {
    listener.lost();
  });
}
