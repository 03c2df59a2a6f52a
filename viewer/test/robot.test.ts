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
import { frameWords } from '../src/charts/frames.ts';
import { framesLead, lastAtMost, pictureAt } from '../src/frames.ts';
import { DEVICES, FRAMES, ROBOT, STEPS, walking } from './walking.ts';

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
  assert.deepEqual(
    [series.following.last[21], series.following.low[21], series.following.high[21]],
    [0.000301, -0.001, 0.0012],
  );
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
  assert.deepEqual(jointRow({ ...left!, low: -1e-9 }, 0.2), [
    'enabled',
    `0.000 to ${left!.high!.toFixed(3)}`,
    '0.0012',
    '0.6 %',
    '75',
  ]);
  assert.equal(jointRow({ ...left!, states: 0b1010_0110 }, 0.2)[0], 'ready, quick stop, fault');
  assert.deepEqual(jointRow(jointWorsts([], 1)[0]!, 0.2), ['', '–', '–', '–', '–']);
});

test('errors are named by port and by the device at the far end of its cable', () => {
  const error = (counter: string, port: number | null): CountedErrors => ({
    counter,
    port,
    count: 3,
    at_least: false,
  });
  const words = (place: number, ...errors: CountedErrors[]): string[] =>
    errorWords(ROBOT.devices, place, errors);
  assert.deepEqual(words(0, error('rx_errors', 0), error('invalid_frames', 2)), [
    'port 0 from MainDevice: 3 RX errors',
    'port 2 to right knee: 3 invalid frames',
  ]);
  assert.deepEqual(words(2, error('lost_links', 1), error('pdi_errors', null)), [
    'port 1: 3 lost links',
    '3 PDI errors',
  ]);
});

test('at a time stands the last picture before it, and the last one that is kept', () => {
  const [left, gripper] = FRAMES;
  assert.deepEqual(
    [-1, 5, 7, 100].map((at) => lastAtMost([5, 6, 9], at)),
    [-1, 0, 1, 2],
  );
  assert.equal(lastAtMost([], 3), -1);
  assert.deepEqual(
    [0, 19, 20, 69, 70, 109].map((place) => pictureAt(left!, place)?.place),
    [0, 0, 20, 20, 70, 70],
  );
  assert.equal(pictureAt(gripper!, 1), null);
  const lane = { frames: left!, t: left!.t_us.map((t) => t / 1e6) };
  assert.equal(
    frameWords(lane, 30),
    'left/image: picture 41 at 2.020 s, 550.0 ms after the one before; the last one kept, 21, is shown below',
  );
  assert.equal(frameWords(lane, 0), 'left/image: picture 1 at 0.020 s; shown below');
  assert.equal(frameWords(lane, -1), 'left/image: no picture yet');
  assert.match(
    framesLead(FRAMES),
    /4 of the log are before or after the run\. left\/image: 2 not shown: JPEG pictures that cannot be decoded\./,
  );
  assert.deepEqual(readText(walking([{ frames: FRAMES }]), 'robot').files[0]!.frames, FRAMES);
});

describe(
  'a robot’s page in Chromium',
  { skip: CHROMIUM === undefined ? NO_CHROMIUM : false },
  () => {
    let browser: Browser;
    let site: ReturnType<typeof pages>;
    before(async () => {
      browser = await launch();
      site = pages({
        'robot.html': filled(walking()),
        'frames.html': filled(walking([{ frames: FRAMES }])),
      });
    });
    after(async () => {
      await browser?.close();
      site?.done();
    });

    /** What the position chart has drawn, from its own file. */
    async function plotted(page: Page): Promise<string[]> {
      const [download] = await Promise.all([
        page.waitForEvent('download'),
        page.locator('#position .zoom button', { hasText: 'CSV' }).click(),
      ]);
      return readFileSync(await download.path(), 'utf8')
        .trim()
        .split('\n');
    }

    test('what is plotted of a joint is what the run file says, and the tree has every device', async () => {
      const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
      await page.goto(site.url('robot.html'));
      await settled(page);
      assert.equal(await page.locator('.joint-charts .plot canvas').count(), 4);
      await page.getByRole('combobox', { name: 'Joint', exact: true }).selectOption('right knee');
      const [, ...rows] = await plotted(page);
      const expected = STEPS.map(({ first, last, t, joints }) =>
        [t, first, last, ...joints[1]!.slice(0, 6).map((value) => value! / 1e6)].join(','),
      );
      assert.deepEqual(rows, expected);

      await page.locator('.joints tbody button', { hasText: 'left knee' }).click();
      assert.match(await page.locator('#position h3').innerText(), /left knee/);
      assert.match(
        await page.locator('.joints tr', { hasText: 'left knee' }).innerText(),
        /enabled[\s\S]*0\.0012[\s\S]*0\.6 %/,
      );
      assert.deepEqual(await page.locator('.tree .device b').allInnerTexts(), [
        'pelvis',
        'left knee',
        'left foot',
        'right knee',
      ]);
      assert.match(
        await page.locator('.tree .device', { hasText: 'left knee' }).innerText(),
        /OP · off[\s\S]*lost 1×, fell back 1×; port 0 from pelvis: 17 invalid frames; port 1 to left foot: ≥ 255 lost links/,
      );
      assert.match(
        await page.locator('#bus .link').innerText(),
        /cycle 6,000.*working counter 11 of 11; 3 cycles without a complete reply, 1 late/,
      );

      for (const chart of ['position', 'torque']) {
        const [download] = await Promise.all([
          page.waitForEvent('download'),
          page.locator(`#${chart} .zoom button`, { hasText: 'PNG' }).click(),
        ]);
        const picture = readFileSync(await download.path());
        assert.equal(picture.subarray(1, 4).toString(), 'PNG');
        assert.ok(
          picture.readUInt32BE(16) > 500 && picture.length > 3000,
          `${chart}: ${picture.length} bytes`,
        );
      }

      // Time that is chosen in a chart of the joints is chosen in all.
      await page.locator('#torque .zoom button', { hasText: '+' }).click();
      assert.match(await page.locator('.bar .range').innerText(), / to /);
      await page.close();
    });

    for (const colorScheme of ['light', 'dark'] as const)
      for (const width of [1280, 360]) {
        test(`pictures follow the cursor of the joints, ${colorScheme}, ${width} px`, async () => {
          const page = await browser.newPage({ viewport: { width, height: 900 }, colorScheme });
          const problems: string[] = [];
          page.on('console', (message) => {
            if (message.type() === 'error') problems.push(message.text());
          });
          page.on('pageerror', (error) => {
            problems.push(error.message);
          });
          await page.goto(site.url('frames.html'));
          await settled(page);
          const chart = page.locator('#frames');
          const image = chart.locator('img').first();
          const color = (): Promise<number[]> =>
            image.evaluate(async (shown: HTMLImageElement) => {
              await shown.decode();
              const canvas = new OffscreenCanvas(1, 1).getContext('2d')!;
              canvas.drawImage(shown, 0, 0);
              return [...canvas.getImageData(0, 0, 1, 1).data];
            });
          const isRed = async (): Promise<boolean> => {
            const [r, , b] = await color();
            return r! > b! + 100;
          };
          assert.ok(await isRed(), 'before there is a cursor, the first one that is kept');
          assert.match(
            await chart.locator('figcaption').last().innerText(),
            /gripper\/image: no picture is kept/,
          );

          // The cursor of the position is the cursor of the pictures.
          const hover = async (id: string, t: number): Promise<void> => {
            const over = page.locator(`${id} .u-over`);
            await over.scrollIntoViewIfNeeded();
            const { width: room, height } = (await over.boundingBox())!;
            await over.hover({ position: { x: Math.round((room * t) / 6), y: height / 2 } });
          };
          await hover('#position', 1.75);
          assert.match(
            await chart.locator('.readout').innerText(),
            /left\/image: picture 30 at 1\.470 s, 50\.0 ms after the one before; the last one kept, 21, is shown below · gripper\/image: no picture yet/,
          );
          assert.ok(!(await isRed()), 'the blue one is shown');
          assert.match(
            await chart.locator('figcaption').nth(1).innerText(),
            /picture 21 at 1\.020 s, of 1920 × 1200/,
          );
          await hover('#frames', 5.0);
          assert.match(
            await chart.locator('.readout').innerText(),
            /the last one kept, 81, .* gripper\/image: picture 6 at 3\.100 s/,
          );
          assert.match(
            await page.locator('#torque .readout').innerText(),
            /cycle/,
            'and the other way round',
          );
          assert.ok(await isRed());

          await page.keyboard.press('Escape');
          const [download] = await Promise.all([
            page.waitForEvent('download'),
            chart.locator('.zoom button', { hasText: 'CSV' }).click(),
          ]);
          const rows = readFileSync(await download.path(), 'utf8')
            .trim()
            .split('\n');
          assert.equal(rows.length, 1 + 110 + 2);
          assert.equal(rows.filter((row) => row.endsWith(',1')).length, 3);
          assert.ok(
            await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth),
            'nothing is wider than the page',
          );
          assert.deepEqual(problems, []);
          await page.close();
        });
      }
  },
);
