// A run of a robot with four devices in two branches and two joints, in steps with all cycles.
import type { RunFrames } from '../src/frames.ts';
import type { BusFacts, JointStep, Robot } from '../src/robot.ts';
import { cellSummary, HOST, LADDER, runFile } from './fixture.ts';

export const ROBOT: Robot = {
  name: 'walker',
  period_ns: 1_000_000,
  joints: [
    {
      name: 'left knee',
      device: 1,
      low_rad: -0.1,
      high_rad: 2.4,
      velocity_rad_s: 6,
      following_rad: 0.2,
    },
    {
      name: 'right knee',
      device: 3,
      low_rad: -0.1,
      high_rad: 2.4,
      velocity_rad_s: 6,
      following_rad: 0.2,
    },
  ],
  devices: [
    { name: 'pelvis', kind: 'coupler', after: null, port: null },
    { name: 'left knee', kind: 'drive', after: 0, port: 1 },
    { name: 'left foot', kind: 'force-torque', after: 1, port: 1 },
    { name: 'right knee', kind: 'drive', after: 0, port: 2 },
  ],
};

const device = (more: object): BusFacts['devices'][number] => ({
  al_state: 8,
  al_status_code: 0,
  joint_state: null,
  reason: null,
  lost: 0,
  fell_back: 0,
  other_alarms: 0,
  ...more,
});
export const DEVICES: BusFacts = {
  cycle: 6000,
  working_counter: 11,
  expected: 11,
  in_op: 4,
  lost: 3,
  late: 1,
  strange: 0,
  no_answer_ns: 0,
  devices: [
    device({}),
    device({
      joint_state: 'switch_on_disabled',
      reason: 'none',
      lost: 1,
      fell_back: 1,
      errors: [
        { counter: 'invalid_frames', port: 0, count: 17, at_least: false },
        { counter: 'lost_links', port: 1, count: 255, at_least: true },
      ],
    }),
    device({}),
    device({ joint_state: 'switch_on_disabled', reason: 'none' }),
  ],
};

/** Steps of 50 ms; the drives are enabled from step 20 on, and the 1,001st to 1,050th cycle are missing. */
export const STEPS: JointStep[] = Array.from({ length: 120 }, (_, i): JointStep => {
  const first = 50 * i + 1 + (i >= 20 ? 50 : 0);
  const rad = (cycle: number, joint: number): number =>
    Math.round(350_000 * Math.sin(cycle / 300 + joint));
  const knee = (joint: number): (number | null)[] => {
    const [a, b] = [rad(first, joint), rad(first + 49, joint)];
    const [low, high] = [Math.min(a, b), Math.max(a, b)];
    const following = i < 20 ? [null, null, null] : [300 + joint, -900 - 100 * joint, 1200];
    return [
      b,
      low,
      high,
      b - 300,
      low - 500,
      high + 400,
      ...following,
      40,
      -60,
      75 + joint,
      i < 20 ? 0b10 : i === 20 ? 0b11110 : 0b10000,
    ];
  };
  return { first, last: first + 49, t: (first + 49) / 1000, joints: [knee(0), knee(1)] };
});

/** A red and a blue picture of 16 × 10. */
const RED =
  '/9j/4AAQSkZJRgABAgAAAQABAAD//gAQTGF2YzU5LjM3LjEwMAD/2wBDAAgoKC8oLzc3Nzc3N0E8QUNDQ0FBQUFDQ0NISEhVVVVISEhDQ0hIUFBVVVxfXFdXVVdfX2RkZHh4c3OMjJGsrM//xABMAAEBAAAAAAAAAAAAAAAAAAAABgEBAQAAAAAAAAAAAAAAAAAABgcQAQAAAAAAAAAAAAAAAAAAAAARAQAAAAAAAAAAAAAAAAAAAAD/wAARCAAKABADASIAAhEAAxEA/9oADAMBAAIRAxEAPwCLAFF/f//Z';
const BLUE =
  '/9j/4AAQSkZJRgABAgAAAQABAAD//gAQTGF2YzU5LjM3LjEwMAD/2wBDAAgoKC8oLzc3Nzc3N0E8QUNDQ0FBQUFDQ0NISEhVVVVISEhDQ0hIUFBVVVxfXFdXVVdfX2RkZHh4c3OMjJGsrM//xABMAAEBAAAAAAAAAAAAAAAAAAAABwEBAQAAAAAAAAAAAAAAAAAABQcQAQAAAAAAAAAAAAAAAAAAAAARAQAAAAAAAAAAAAAAAAAAAAD/wAARCAAKABADASIAAhEAAxEA/9oADAMBAAIRAxEAPwCOAL+Lf//Z';

/** Pictures at 20 Hz, without the 31st to 40th; the first, the 21st and the 81st are kept. A second camera has numbers and times alone. */
export const FRAMES: RunFrames[] = [
  {
    channel: 'left/image',
    clock: 'cycles',
    more: 0,
    outside: 4,
    undecoded: { 'JPEG pictures that cannot be decoded': 2 },
    numbers: Array.from({ length: 110 }, (_, i) => i + 1 + (i >= 30 ? 10 : 0)),
    t_us: Array.from({ length: 110 }, (_, i) => 20_000 + 50_000 * (i + (i >= 30 ? 10 : 0))),
    pictures: [
      [0, RED],
      [20, BLUE],
      [70, RED],
    ].map(([place, jpeg]) => ({
      place: place as number,
      of: [1920, 1200],
      size: [16, 10],
      jpeg: jpeg as string,
    })),
  },
  {
    channel: 'gripper/image',
    clock: 'cycles',
    more: 0,
    outside: 0,
    undecoded: {},
    numbers: [5, 6],
    t_us: [3_000_000, 3_100_000],
    pictures: [],
  },
];

/** The page's data of that run, with what is to stand behind its file. */
export function walking(more: object[] = []): string {
  const made = runFile({
    tuning: 'PM',
    load: 'idle',
    interval: 1,
    start: 1_763_950_000,
    dice: 13,
    cell: false,
    tags: ['wakeup_latency', 'observed_period', 'response_time'],
    blocks: [{ t: 0, seconds: 6, load: 'idle' }],
  });
  const cell = { ...cellSummary('PM', 'idle', made, 1), file: 'robot.onbeat.hlog', verdict: null };
  const summary = {
    schema: 'onbeat.measure/1',
    version: '0.1.0',
    command: ['onbeat', 'robot', 'run', 'walker.toml'],
    started_unix_s: 1_763_950_000,
    elapsed_s: 6,
    host: HOST,
    ladder: LADDER.slice(0, 2),
    limit: null,
    order: 'single',
    tunings: ['PM'],
    loads: ['idle'],
    period_ns: 1_000_000,
    cells: [cell],
    effects: [],
    verdict: null,
  };
  const notes = [
    { robot: ROBOT },
    ...[0, 1, 2, 3, 4, 5, 6, 7].map((n) => ({
      joints: { steps: STEPS.slice(16 * n, 16 * n + 16) },
    })),
    { devices: { ...DEVICES, lost: 0 } },
    { devices: DEVICES },
    ...more,
  ];
  return `#[onbeat: {"file":"robot.onbeat.hlog"}]\n${made.text}${notes.map((note) => `#[onbeat: ${JSON.stringify(note)}]\n`).join('')}#[onbeat: ${JSON.stringify({ summary })}]\n`;
}
