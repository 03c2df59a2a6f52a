// A robot with its live view, and what its ring says: for the tests and pictures of the live view.
import { spawn, type ChildProcess } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

const root = process.env['VIEWER_ROOT']!;
const PLACES = [
  process.env['ONBEAT'],
  join(root, '../target/debug/onbeat'),
  join(root, '../target/release/onbeat'),
];
export const ONBEAT = PLACES.find((place) => place !== undefined && existsSync(place));
export const NO_ONBEAT = 'no program at target/debug/onbeat and ONBEAT is not set';

/** One cycle, as `onbeat message echo` prints it. */
export interface EchoedCycle {
  cycle: number;
  target_rad: number[];
  actual_rad: number[];
  torque_permille: number[];
}

/** `end` ends the run, whose folder below `runs` stays until `stop`. */
export interface Robot {
  url: string;
  pid: number;
  said: readonly string[];
  runs: string;
  ring: Map<number, EchoedCycle>;
  end: () => Promise<void>;
  stop: () => Promise<void>;
}

const ended = (child: ChildProcess): Promise<void> =>
  new Promise((done) => {
    if (child.exitCode !== null || child.signalCode !== null) done();
    else
      child.once('close', () => {
        done();
      });
  });

/** Starts the humanoid with its live view, and follows its ring if `echoes`. */
export async function startRobot(name: string, echoes: boolean, ...more: string[]): Promise<Robot> {
  const folder = mkdtempSync(join(tmpdir(), 'onbeat-live-'));
  const env = { ...process.env, ONBEAT_STATE_DIR: folder };
  // A loop beside a browser misses cycles, which must not stop the robot here: neither by its ladder nor by the watchdogs of its drives.
  const file = join(folder, 'patient.toml');
  const patient = { '[segment]': 'watchdog_ms = 6000', '[robot]': 'following_ms = 60000' };
  let humanoid = readFileSync(
    join(root, '../crates/onbeat-ethercat/src/description/humanoid.toml'),
    'utf8',
  );
  for (const [table, setting] of Object.entries(patient)) {
    if (!humanoid.includes(`${table}\n`)) throw new Error(`no ${table} in the humanoid`);
    humanoid = humanoid.replace(`${table}\n`, `${table}\n${setting}\n`);
  }
  writeFileSync(file, `${humanoid}\n[robot.ladder]\ndegrade_at = 50000\nstop_at = 100000\n`);
  const args = [
    'robot',
    'run',
    file,
    '--trajectory',
    'gait',
    '--name',
    name,
    '--view',
    '--no-causes',
    '--out',
    join(folder, 'runs'),
    ...more,
  ];
  const robot = spawn(ONBEAT!, args, { env, stdio: ['ignore', 'ignore', 'pipe'] });
  const said: string[] = [];
  const url = await new Promise<string>((found, failed) => {
    createInterface({ input: robot.stderr }).on('line', (line) => {
      said.push(line);
      const address = /live view: (http:\S+)/.exec(line);
      if (address !== null) found(address[1]!);
    });
    robot.once('close', (status) => {
      failed(new Error(`onbeat ended with ${status}: ${said.join('\n')}`));
    });
  });

  const ring = new Map<number, EchoedCycle>();
  let echo: ChildProcess | null = null;
  if (echoes) {
    echo = spawn(
      ONBEAT!,
      [
        'message',
        'echo',
        `${name}/cycle`,
        '--from',
        'oldest',
        '--fields',
        'cycle,target_rad,actual_rad,torque_permille',
      ],
      { env, stdio: ['ignore', 'pipe', 'ignore'] },
    );
    createInterface({ input: echo.stdout! }).on('line', (line) => {
      const record = JSON.parse(line) as Record<string, unknown>;
      const fields = (record['message'] ??
        record['data'] ??
        record['value'] ??
        record) as EchoedCycle;
      if (fields.cycle !== undefined) ring.set(fields.cycle, fields);
    });
  }
  const end = async (): Promise<void> => {
    robot.kill('SIGTERM');
    await ended(robot);
    echo?.kill('SIGTERM');
    if (echo !== null) await ended(echo);
  };
  const stop = async (): Promise<void> => {
    await end();
    rmSync(folder, { recursive: true, force: true });
  };
  return { url, pid: robot.pid!, said, runs: join(folder, 'runs'), ring, end, stop };
}
