// Pictures of the live view of a walking humanoid, for docs: both themes, wide and narrow.
// `node test/run.mjs live_pictures FOLDER`; scripts/live-view-pictures.sh makes them small.
import { join } from 'node:path';
import { CHROMIUM, launch, NO_CHROMIUM } from './browser.ts';
import { NO_ONBEAT, ONBEAT, startRobot } from './live.ts';

/** Time until the charts are full, ms. */
const WALKS_MS = 11_000;
/** Pictures: name, width, height (0: the whole page), theme. */
const PICTURES = [
  ['live-view', 1280, 0, 'light'], ['live-view-dark', 1280, 0, 'dark'], ['live-view-narrow', 400, 2600, 'light'], ['live-view-narrow-dark', 400, 2600, 'dark'],
] as const;

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
    const page = await browser.newPage({ viewport: { width, height: 900 }, colorScheme, deviceScaleFactor: 1 });
    await page.goto(robot.url);
    await page.locator('.bar select').selectOption('left knee');
    await page.waitForTimeout(WALKS_MS);
    await page.getByRole('button', { name: 'Pause' }).click();
    await page.screenshot({ path: join(folder, `${name}.png`), fullPage: true, ...(height === 0 ? {} : { clip: { x: 0, y: 0, width, height } }) });
    await page.close();
  }
} finally {
  await browser.close();
  await robot.stop();
}
