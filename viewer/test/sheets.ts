// The first screens of a page at four widths, light and dark, as one picture: `node test/run.mjs sheets PAGE PICTURE`.
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { CHROMIUM, launch, NO_CHROMIUM, settled } from './browser.ts';

const SCREENS = [
  [360, 780],
  [768, 1024],
  [1400, 900],
  [2560, 1440],
] as const;
/** Height of a row, CSS pixels. */
const ROW = 330;

const [report, picture] = process.argv.slice(2);
if (report === undefined || picture === undefined) {
  console.error('usage: node test/run.mjs sheets PAGE PICTURE');
  process.exit(2);
}
if (CHROMIUM === undefined) {
  console.error(`${NO_CHROMIUM}; install chromium, or set CHROMIUM to its path`);
  process.exit(2);
}

const browser = await launch();
try {
  const rows: string[] = [];
  for (const colorScheme of ['light', 'dark'] as const) {
    let row = '';
    for (const [width, height] of SCREENS) {
      const page = await browser.newPage({ viewport: { width, height }, colorScheme });
      page.on('pageerror', (error) => {
        throw error;
      });
      await page.goto(pathToFileURL(resolve(report)).href);
      await settled(page);
      const shot = (await page.screenshot()).toString('base64');
      row += `<img src="data:image/png;base64,${shot}" height="${ROW}">`;
      await page.close();
    }
    rows.push(`<div>${row}</div>`);
  }
  const sheet = await browser.newPage({ viewport: { width: 1700, height: 10 } });
  await sheet.setContent(
    `<style>body{margin:0;background:#888}#all{display:inline-grid;gap:12px;padding:12px}div div{display:flex;gap:12px}</style><div id="all">${rows.join('')}</div>`,
  );
  await sheet.locator('#all').screenshot({ path: picture });
} finally {
  await browser.close();
}
