import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import type { Browser, Page } from 'playwright-core';
import { positions } from '../src/charts/joint.ts';
import { readText } from '../src/hlog.ts';
import { jointSeries, jointWorsts } from '../src/robot.ts';
import { jointRow } from '../src/sections/robot.ts';
import { errorWords, type CountedErrors } from '../src/sections/topology.ts';
import { CHROMIUM, launch, NO_CHROMIUM, pages, settled } from './browser.ts';
import { filled } from './fixture.ts';
import { DEVICES, ROBOT, STEPS, walking } from './walking.ts';

const recorded = readText(walking(), 'robot').files[0]!;

test('a run file has its robot, every step of its joints, and the last state of its devices', () => {
  assert.deepEqual(recorded.robot, ROBOT);
  assert.deepEqual(recorded.joints, STEPS);
  assert.deepEqual(recorded.devices, DEVICES);
  assert.deepEqual(recorded.problems, []);
});

test('a joint’s series has all steps, and a gap where cycles are missing', () => {
  const series = jointSeries(STEPS, 1, ({ t }) => t);
  assert.equal(series.t.length, STEPS.length + 1);
  assert.ok(Number.isNaN(series.cycle[20]) && Number.isNaN(series.target.high[20]));
  assert.deepEqual([series.first[21], series.cycle[21], series.states[21]], [1051, 1100, 0b11110]);
  assert.deepEqual([series.following.last[21], series.following.low[21], series.following.high[21]], [0.000301, -0.001, 0.0012]);
  assert.ok(Number.isNaN(series.following.last[19]), 'without power nothing is followed');

  const drawing = positions(series, [0, 6]);
  assert.ok(typeof drawing !== 'string');
  const rows = [...drawing.figures().rows];
  assert.equal(rows.length, STEPS.length, 'a gap is not a figure');
  assert.equal(drawing.describe(20, null as never), null);
});

test('the worst of a joint is that of all its steps', () => {
  const [left, right] = jointWorsts(STEPS, 2);
  assert.deepEqual([left!.following, right!.following], [0.0012, 0.0012]);
  assert.deepEqual([left!.torque, right!.torque, left!.states], [75, 76, 0b11110]);
  const actual = STEPS.map(({ joints }) => joints[0]![4]! / 1e6);
  assert.equal(left!.low, Math.min(...actual));
  assert.deepEqual(jointRow({ ...left!, low: -1e-9 }, 0.2), ['enabled', `0.000 to ${left!.high!.toFixed(3)}`, '0.0012', '0.6 %', '75']);
  assert.equal(jointRow({ ...left!, states: 0b1010_0110 }, 0.2)[0], 'ready, quick stop, fault');
  assert.deepEqual(jointRow(jointWorsts([], 1)[0]!, 0.2), ['', '–', '–', '–', '–']);
});

test('errors are named by port and by the device at the far end of its cable', () => {
  const error = (counter: string, port: number | null): CountedErrors => ({ counter, port, count: 3, at_least: false });
  const words = (place: number, ...errors: CountedErrors[]): string[] => errorWords(ROBOT.devices, place, errors);
  assert.deepEqual(words(0, error('rx_errors', 0), error('invalid_frames', 2)), ['port 0 from MainDevice: 3 RX errors', 'port 2 to right knee: 3 invalid frames']);
  assert.deepEqual(words(2, error('lost_links', 1), error('pdi_errors', null)), ['port 1: 3 lost links', '3 PDI errors']);
});

describe('a robot’s page in Chromium', { skip: CHROMIUM === undefined ? NO_CHROMIUM : false }, () => {
  let browser: Browser;
  let site: ReturnType<typeof pages>;
  before(async () => { browser = await launch(); site = pages({ 'robot.html': filled(walking()) }); });
  after(async () => { await browser?.close(); site?.done(); });

  /** What the position chart has drawn, from its own file. */
  async function plotted(page: Page): Promise<string[]> {
    const [download] = await Promise.all([page.waitForEvent('download'), page.locator('#position .zoom button', { hasText: 'CSV' }).click()]);
    return readFileSync(await download.path(), 'utf8').trim().split('\n');
  }

  test('what is plotted of a joint is what the run file says, and the tree has every device', async () => {
    const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
    await page.goto(site.url('robot.html'));
    await settled(page);
    assert.equal(await page.locator('.joint-charts .plot canvas').count(), 4);
    await page.getByRole('combobox', { name: 'Joint', exact: true }).selectOption('right knee');
    const [, ...rows] = await plotted(page);
    const expected = STEPS.map(({ first, last, t, joints }) => [t, first, last, ...joints[1]!.slice(0, 6).map((value) => value! / 1e6)].join(','));
    assert.deepEqual(rows, expected);

    await page.locator('.joints tbody button', { hasText: 'left knee' }).click();
    assert.match(await page.locator('#position h3').innerText(), /left knee/);
    assert.match(await page.locator('.joints tr', { hasText: 'left knee' }).innerText(), /enabled[\s\S]*0\.0012[\s\S]*0\.6 %/);
    assert.deepEqual(await page.locator('.tree .device b').allInnerTexts(), ['pelvis', 'left knee', 'left foot', 'right knee']);
    assert.match(await page.locator('.tree .device', { hasText: 'left knee' }).innerText(), /OP · off[\s\S]*lost 1×, fell back 1×; port 0 from pelvis: 17 invalid frames; port 1 to left foot: ≥ 255 lost links/);
    assert.match(await page.locator('#bus .link').innerText(), /cycle 6,000.*working counter 11 of 11; 3 cycles without a complete reply, 1 late/);

    for (const chart of ['position', 'torque']) {
      const [download] = await Promise.all([page.waitForEvent('download'), page.locator(`#${chart} .zoom button`, { hasText: 'PNG' }).click()]);
      const picture = readFileSync(await download.path());
      assert.equal(picture.subarray(1, 4).toString(), 'PNG');
      assert.ok(picture.readUInt32BE(16) > 500 && picture.length > 3000, `${chart}: ${picture.length} bytes`);
    }

    // Time that is chosen in a chart of the joints is chosen in all.
    await page.locator('#torque .zoom button', { hasText: '+' }).click();
    assert.match(await page.locator('.bar .range').innerText(), / to /);
    await page.close();
  });
});
