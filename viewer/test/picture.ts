// A picture of a page for the README: from its top to the end of what stands in the first screen, light, 1,400 px wide:
// `node test/run.mjs picture PAGE PICTURE`; scripts/report-picture.sh makes the page and the picture small.
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { CHROMIUM, launch, NO_CHROMIUM, settled } from './browser.ts';

const WIDTH = 1400;
/** Below the figures, CSS pixels. */
const MARGIN = 28;

const [report, picture] = process.argv.slice(2);
if (report === undefined || picture === undefined) {
  console.error('usage: node test/run.mjs picture PAGE PICTURE');
  process.exit(2);
}
if (CHROMIUM === undefined) {
  console.error(`${NO_CHROMIUM}; install chromium, or set CHROMIUM to its path`);
  process.exit(2);
}

const browser = await launch();
try {
  const page = await browser.newPage({
    viewport: { width: WIDTH, height: 900 },
    colorScheme: 'light',
    deviceScaleFactor: 1,
  });
  await page.goto(pathToFileURL(resolve(report)).href);
  await settled(page);
  const height = await page
    .locator('.hero')
    .evaluate(
      (box, margin) => Math.ceil(box.getBoundingClientRect().bottom + scrollY + margin),
      MARGIN,
    );
  await page.screenshot({
    path: picture,
    fullPage: true,
    clip: { x: 0, y: 0, width: WIDTH, height },
  });
  console.log(`${picture}: ${WIDTH} × ${height} px`);
} finally {
  await browser.close();
}
