import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { connect } from 'node:net';
import { describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { History, Totals } from '../src/live/history.ts';
import { positions, states } from '../src/charts/joint.ts';
import { treeDevices, type DeviceFacts, type TreeDevice } from '../src/sections/topology.ts';
import type { Hello, JointList, LiveCycles } from '../src/live/stream.ts';
import { CHROMIUM, launch, NO_CHROMIUM } from './browser.ts';
import { NO_ONBEAT, ONBEAT, startRobot, type EchoedCycle } from './live.ts';

const root = process.env['VIEWER_ROOT']!;
/** Seconds for which a joint is followed; `make test-view` follows it for 5. */
const SECONDS = Number(process.env['ONBEAT_LIVE_SECONDS'] ?? 1.5);
/** Cycles per second of the robot that is followed: its ring keeps forty seconds of them for a slow echo. */
const RATE = 200;

const joint = (target: number): JointList => [
  target,
  target - 1,
  target + 1,
  0,
  0,
  0,
  target,
  target - 1,
  target + 1,
  5,
  5,
  5,
  0x1237,
  16,
];
const cyclesOf = (last: number, target: number, largest = 1000): LiveCycles => ({
  cycles: 50,
  lost: 0,
  merged: 0,
  first: last - 49,
  last,
  release_ns: last * 1e6,
  skipped: 0,
  stale: 0,
  counter_off: 0,
  in_op: 2,
  phase: 2,
  rung: 0,
  joints: [joint(target), joint(-target)],
  times: { release_latency: { largest_ns: largest, at_cycle: last, counts: [1000, 49, 1001, 1] } },
});
const hello: Hello = {
  command: 'x',
  pid: 1,
  total: cyclesOf(50, 0.5),
  robot: {
    name: 'two',
    period_ns: 1e6,
    devices: [],
    joints: ['hip', 'knee'].map((name, device) => ({
      name,
      device,
      low_rad: -1,
      high_rad: 1,
      velocity_rad_s: 1,
      following_rad: 1,
    })),
  },
};

test('the history keeps each joint’s values of the chosen time, and their extremes', () => {
  const history = new History(2);
  for (let i = 1; i <= 400; i++) history.add(cyclesOf(50 * i, i / 100));
  const knee = history.joint(1, 10);
  assert.equal(knee.t.length, 201);
  assert.deepEqual(
    [knee.target.last.at(-1), knee.target.low.at(-1), knee.target.high.at(-1)],
    [-4, -5, -3],
  );
  assert.deepEqual([knee.first.at(-1), knee.cycle.at(-1)], [19_951, 20_000]);
  assert.equal(history.joint(0, 300).t.length, 400);
});

test('the totals have every cycle, and the worst of each joint', () => {
  const totals = new Totals(hello);
  totals.add(cyclesOf(100, 3, 9000));
  totals.add(cyclesOf(150, 1));
  assert.deepEqual(
    [totals.cycles, totals.last, totals.times.get('release_latency')!.largest_ns],
    [150, 150, 9000],
  );
  assert.equal(totals.times.get('release_latency')!.histogram().total, 150);
  assert.deepEqual(totals.worst(), { joint: 0, rad: 4 });
});

test('the figures of a chart are what is drawn, with the extremes between two events', () => {
  const history = new History(2);
  history.add(cyclesOf(50, 0.5));
  const drawing = positions(history.joint(0, 10), [0, 10]);
  assert.ok(typeof drawing !== 'string');
  assert.deepEqual([...drawing.figures().rows], [[0, 1, 50, 0.5, -0.5, 1.5, 0, 0, 0]]);
  assert.deepEqual(
    drawing.data.slice(1).map((column) => [...column]),
    [[1.5], [-0.5], [0.5], [0], [0], [0]],
  );
  const power = states(history.joint(0, 10), [0, 10]);
  assert.ok(typeof power !== 'string');
  assert.equal(power.describe(0, null as never), 'cycle 50: enabled');
});

test('the live view’s policy names exactly its script and its style, and lets it connect to its own address alone', () => {
  const page = readFileSync(`${root}/../crates/onbeat-cli/assets/live.html`, 'utf8');
  const policy = /Content-Security-Policy" content="([^"]+)"/.exec(page)![1]!;
  const hash = (text: string): string =>
    `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
  const script = /<script>([\s\S]*?)<\/script>/.exec(page)![1]!;
  assert.ok(
    policy.includes(`script-src ${hash(script)};`) && policy.endsWith("; connect-src 'self'"),
    policy,
  );
  assert.doesNotMatch(policy, /unsafe|https?:|\*/);
});

/** What axe finds wrong for readers who do not see the page, or not its colours. */
async function violations(page: Page): Promise<string[]> {
  await page.evaluate(
    readFileSync(createRequire(`${root}/package.json`).resolve('axe-core/axe.min.js'), 'utf8'),
  );
  return page.evaluate(async () => {
    const { axe } = globalThis as unknown as {
      axe: {
        run: (o: object) => Promise<{
          violations: { id: string; nodes: { html: string; failureSummary?: string }[] }[];
        }>;
      };
    };
    return (await axe.run({ resultTypes: ['violations'] })).violations.map(
      ({ id, nodes }) =>
        `${id}: ${nodes.length} such as ${nodes[0]!.html.slice(0, 160)} ${nodes[0]!.failureSummary?.slice(0, 300)}`,
    );
  });
}

/** A row of the file: first and last cycle of a step; last, lowest and highest value in it. */
type Row = {
  first: number;
  cycle: number;
  target: [number, number, number];
  actual: [number, number, number];
};

/** What the position chart has drawn, from its own file. */
async function plotted(page: Page): Promise<Row[]> {
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.locator('#position .zoom button', { hasText: 'CSV' }).click(),
  ]);
  const [head, ...lines] = readFileSync(await download.path(), 'utf8')
    .trim()
    .split('\n');
  assert.equal(
    head,
    't_s,first_cycle,cycle,target_rad,target_lowest_rad,target_highest_rad,actual_rad,actual_lowest_rad,actual_highest_rad',
  );
  return lines.map((line) => {
    const [, first, cycle, ...values] = line.split(',').map(Number) as [
      number,
      number,
      number,
      ...number[],
    ];
    return {
      first,
      cycle,
      target: values.slice(0, 3) as Row['target'],
      actual: values.slice(3) as Row['actual'],
    };
  });
}

/** Last, lowest and highest value of a joint in the ring, from one cycle to another. */
function ofRing(
  ring: ReadonlyMap<number, EchoedCycle>,
  what: 'target_rad' | 'actual_rad',
  joint: number,
  { first, cycle }: Row,
): number[] {
  const values = Array.from(
    { length: cycle - first + 1 },
    (_, i) => ring.get(first + i)![what][joint]!,
  );
  return [values.at(-1)!, Math.min(...values), Math.max(...values)];
}

test('a device of the tree shows its state, and what went wrong since the start', () => {
  const facts = (more: object): DeviceFacts => ({
    al_state: 8,
    al_status_code: 0,
    joint_state: null,
    reason: null,
    lost: 0,
    fell_back: 0,
    other_alarms: 0,
    ...more,
  });
  const device = { name: 'left knee', kind: 'drive', after: null };
  const shown = (of: DeviceFacts): TreeDevice => treeDevices([{ ...device, port: null }], [of])[0]!;
  assert.deepEqual(shown(facts({ joint_state: 'operation_enabled', reason: 'none' })), {
    ...device,
    tone: 'good',
    state: 'OP · enabled',
    counts: '',
  });
  assert.deepEqual(shown(facts({ al_state: null, lost: 2 })), {
    ...device,
    tone: 'bad',
    state: 'no answer',
    counts: 'lost 2×',
  });
  assert.deepEqual(
    shown(facts({ al_state: 4, al_status_code: 0x1b, fell_back: 1 })).state,
    'SAFEOP 0x001b',
  );
  assert.equal(
    shown(facts({ joint_state: 'fault', reason: 'drive_fault' })).state,
    'OP · down: fault',
  );
});

/** Waits until the page says that the robot is running and has counted this many cycles; returns how many it has counted. */
async function counted(page: Page, least: number): Promise<number> {
  const cycles = await page.waitForFunction(
    (atLeast) => {
      const fact = [...document.querySelectorAll('#now .facts > div')].find(
        (one) => one.querySelector('dt')?.textContent === 'Cycles',
      );
      const count = Number(fact?.querySelector('dd')?.textContent?.replace(/\D/g, '') ?? 0);
      return document.querySelector('#now h1')?.textContent?.endsWith('is running') &&
        count >= atLeast
        ? count
        : 0;
    },
    least,
    { timeout: 120_000 },
  );
  return cycles.jsonValue();
}

describe(
  'a robot in the browser',
  { skip: CHROMIUM === undefined ? NO_CHROMIUM : ONBEAT === undefined ? NO_ONBEAT : false },
  () => {
    test(`a joint is followed for ${SECONDS} s: what is plotted is what the ring says at the same cycles`, async () => {
      const robot = await startRobot(
        `live-test-${process.pid}`,
        true,
        '--period',
        `${1000 / RATE}ms`,
      );
      const browser = await launch();
      try {
        const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
        const complaints: string[] = [];
        page.on('console', (message) => {
          if (message.type() === 'error' || message.type() === 'warning')
            complaints.push(message.text());
        });
        page.on('pageerror', (error) => complaints.push(String(error)));
        await page.goto(robot.url);
        await page.locator('#joints select, .bar select').selectOption('left knee');
        const names = await page.locator('.bar select option').allTextContents();
        const knee = names.indexOf('left knee');

        // Counted in cycles: how many of them a busy machine runs in a second is not this test's matter.
        const cycles = SECONDS * RATE;
        await counted(page, (await counted(page, 1)) + cycles);
        await page.getByRole('button', { name: 'Pause' }).click();
        await page.locator('.choice label', { hasText: '5 min' }).click();
        const rows = await plotted(page);

        // All cycles of the stretch, none left out between two events.
        rows.slice(1).forEach((row, i) => {
          assert.equal(row.first, rows[i]!.cycle + 1);
        });
        const stretch = rows.at(-1)!.cycle - rows[0]!.first + 1;
        assert.ok(stretch >= cycles, `${stretch} cycles`);
        await waitFor(() => robot.ring.has(rows.at(-1)!.cycle));
        for (const row of rows) {
          assert.deepEqual(
            row.target,
            ofRing(robot.ring, 'target_rad', knee, row),
            `target, cycle ${row.cycle}`,
          );
          assert.deepEqual(
            row.actual,
            ofRing(robot.ring, 'actual_rad', knee, row),
            `actual, cycle ${row.cycle}`,
          );
        }
        assert.ok(new Set(rows.flatMap(({ target }) => target)).size > 10, 'the knee moved');

        // What stands in the page besides: the devices, and the end of the run.
        assert.equal(await page.locator('.tree .device').count(), 59);
        // States come less often than cycles.
        await page
          .locator('.tree .device', { hasText: 'left knee' })
          .filter({ hasText: /OP · enabled/ })
          .waitFor();
        for (const colorScheme of ['light', 'dark'] as const) {
          await page.emulateMedia({ colorScheme });
          assert.deepEqual(await violations(page), [], colorScheme);
        }
        for (const width of [1280, 400]) {
          await page.setViewportSize({ width, height: 900 });
          // Charts follow with the next frame.
          await page.waitForFunction(
            (wanted) => document.documentElement.scrollWidth === wanted,
            width,
          );
        }
        await robot.stop();
        await page.getByText('The run has ended').first().waitFor();
        assert.deepEqual(complaints, []);
      } finally {
        await browser.close();
        await robot.stop();
      }
    });
  },
);

/** Memory of a process itself, KiB: what it has allocated, and not the pages of its program, which come with what it does first. */
const resident = (pid: number): number =>
  Number(/^RssAnon:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]);
const LONG = 5;

test(
  'a browser that stops reading costs the robot no memory, and its merged events are counted',
  {
    skip:
      ONBEAT === undefined
        ? NO_ONBEAT
        : SECONDS < LONG
          ? 'takes 10 s; `make test-view` runs it'
          : false,
  },
  async () => {
    const robot = await startRobot(`stalled-${process.pid}`, false);
    try {
      const { port } = new URL(robot.url);
      const socket = connect(Number(port), '127.0.0.1');
      socket.write(`GET /events HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n\r\n`);
      await once(socket, 'data');
      socket.pause();

      // The kernel's buffers are full by then.
      await new Promise((done) => {
        setTimeout(done, LONG * 1000);
      });
      const before = resident(robot.pid);
      await new Promise((done) => {
        setTimeout(done, LONG * 1000);
      });
      const grown = resident(robot.pid) - before;
      assert.ok(grown < 1024, `${grown} KiB more in ${LONG} s`);
      await robot.end();
      socket.destroy();
      const account =
        robot.said.find((line) => /^live view: \d+ browser/.test(line)) ?? robot.said.join('\n');
      assert.match(
        account,
        /live view: 1 browser, [\d,]+ events?, [1-9][\d,]* merged into later ones for slow browsers; [\d,]+ cycles shown, 0 lost/,
      );
    } finally {
      await robot.stop();
    }
  },
);

async function waitFor(isSo: () => boolean): Promise<void> {
  while (!isSo())
    await new Promise((done) => {
      setTimeout(done, 20);
    });
}
