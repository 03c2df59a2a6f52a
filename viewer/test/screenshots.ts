// Pictures of the fixtures in both themes and two widths, for looking at: `npm run screenshots -- FOLDER [ONLY]`,
// in pieces of 1,400 pixels; ONLY is a part of a picture's name, such as bench-dark.
import { mkdirSync } from 'node:fs';
import { CHROMIUM, launch, NO_CHROMIUM, pages } from './browser.ts';
import { bench, filled, hour } from './fixture.ts';

const folder = process.argv[2] ?? 'screenshots';
const only = process.argv[3] ?? '';
const PIECE = 1400;
if (CHROMIUM === undefined) {
  console.log(`skipped: ${NO_CHROMIUM}`);
} else {
  mkdirSync(folder, { recursive: true });
  const site = pages({ 'bench.html': filled(bench()), 'hour.html': filled(hour()) });
  const browser = await launch();
  for (const name of ['bench', 'hour']) {
    for (const colorScheme of ['light', 'dark'] as const) {
      for (const width of [1280, 400]) {
        if (!`${name}-${colorScheme}-${width}`.includes(only)) continue;
        const page = await browser.newPage({
          viewport: { width, height: 900 },
          colorScheme,
          deviceScaleFactor: 1,
        });
        page.on('console', (message) => console.log(name, colorScheme, width, message.text()));
        page.on('pageerror', (error) => console.log(name, colorScheme, width, String(error)));
        await page.goto(site.url(`${name}.html`));
        await page.waitForTimeout(1500);
        const height = await page.evaluate(() => document.documentElement.scrollHeight);
        for (let y = 0, piece = 0; y < height; y += PIECE, piece++) {
          await page.screenshot({
            path: `${folder}/${name}-${colorScheme}-${width}-${piece}.png`,
            fullPage: true,
            clip: { x: 0, y, width, height: Math.min(PIECE, height - y) },
          });
        }
        await page.close();
      }
    }
  }
  await browser.close();
  site.done();
  console.log(`pictures in ${folder}`);
}
