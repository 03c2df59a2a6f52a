// Pictures of a walking humanoid, for docs: the live view, and joints and bus in the page of the finished run; both themes, wide and narrow.
// `node test/run.mjs live_pictures FOLDER`; scripts/live-view-pictures.sh makes them small.
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import type { Browser } from 'playwright-core';
import { CHROMIUM, launch, NO_CHROMIUM, settled } from './browser.ts';
import { NO_ONBEAT, ONBEAT, startRobot } from './live.ts';

/** Time until the charts are full, ms. */
const WALKS_MS = 11_000;
/** Seconds of the finished run in its pictures: as long as steps are finest. */
const SHOWN_S = 12;
/** Pictures: name, width, height (0: the whole page), theme. */
const PICTURES = [
  ['', 1280, 0, 'light'],
  ['-dark', 1280, 0, 'dark'],
  ['-narrow', 400, 2600, 'light'],
  ['-narrow-dark', 400, 2600, 'dark'],
] as const;

/** Takes joints and bus of the page that `onbeat report` makes of a run. */
async function finishedRun(browser: Browser, runs: string, into: string): Promise<void> {
  const page = join(runs, 'robot.html');
  const { status, stderr } = spawnSync(ONBEAT!, ['report', join(runs, 'latest'), '--html', page], {
    encoding: 'utf8',
  });
  if (status === null || status === 2)
    throw new Error(`onbeat report ended with ${status}: ${stderr}`);
  for (const [name, width, height, colorScheme] of PICTURES) {
    const shown = await browser.newPage({
      viewport: { width, height: 900 },
      colorScheme,
      deviceScaleFactor: 1,
    });
    await shown.goto(`file://${page}#joints?from=0&to=${SHOWN_S}`);
    await settled(shown);
    await shown.getByRole('combobox', { name: 'Joint', exact: true }).selectOption('left knee');
    // The bar that stays in sight would cover a part of the picture.
    await shown.evaluate(() => {
      document.querySelector<HTMLElement>('main > .bar')!.style.position = 'static';
    });
    const [joints, bus] = [
      (await shown.locator('#joints').boundingBox())!,
      (await shown.locator('#bus').boundingBox())!,
    ];
    const scrolled = await shown.evaluate(() => scrollY);
    const whole = bus.y + bus.height - joints.y + 24;
    const clip = {
      x: 0,
      y: joints.y + scrolled - 16,
      width,
      height: height === 0 ? whole : Math.min(height, whole),
    };
    await shown.screenshot({ path: join(into, `robot-page${name}.png`), fullPage: true, clip });
    await shown.close();
  }
}

const folder = process.argv[2];
if (folder === undefined) {
  console.error('usage: node test/run.mjs live_pictures FOLDER');
  process.exit(2);
}
if (CHROMIUM === undefined || ONBEAT === undefined) {
  console.error(CHROMIUM === undefined ? NO_CHROMIUM : NO_ONBEAT);
  process.exit(2);
}

const robot = await startRobot(`live-picture-${process.pid}`, false);
const browser = await launch();
try {
  for (const [name, width, height, colorScheme] of PICTURES) {
    const page = await browser.newPage({
      viewport: { width, height: 900 },
      colorScheme,
      deviceScaleFactor: 1,
    });
    await page.goto(robot.url);
    await page.locator('.bar select').selectOption('left knee');
    await page.waitForTimeout(WALKS_MS);
    await page.getByRole('button', { name: 'Pause' }).click();
    await page.screenshot({
      path: join(folder, `live-view${name}.png`),
      fullPage: true,
      ...(height === 0 ? {} : { clip: { x: 0, y: 0, width, height } }),
    });
    await page.close();
  }
  await robot.end();
  await finishedRun(browser, robot.runs, folder);
} finally {
  await browser.close();
  await robot.stop();
}
