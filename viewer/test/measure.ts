// How long the reader waits: first chart of an hour at 1 kHz, and how large the page is.
import { statSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { CHROMIUM, launch, NO_CHROMIUM, pages } from './browser.ts';
import { bench, filled, hour } from './fixture.ts';
import { readText } from '../src/hlog.ts';

const hourText = hour();
const site = pages({ 'hour.html': filled(hourText), 'bench.html': filled(bench()) });
const megabytes = (name: string): string =>
  `${(statSync(fileURLToPath(site.url(name))).size / 1e6).toFixed(2)} MB`;

// An hour in one-second intervals: about eleven thousand lines.
const lines = readText(hour(3600, 1), 'hour').files.flatMap((file) =>
  [...file.series.values()].flat(),
);
const began = performance.now();
lines.forEach((line) => line.histogram());
const decoding = performance.now() - began;
console.log(`decoding: ${lines.length} histogram lines in ${decoding.toFixed(0)} ms`);

if (CHROMIUM === undefined) {
  console.log(`page size: ${megabytes('hour.html')}; first chart: skipped, ${NO_CHROMIUM}`);
} else {
  const browser = await launch();
  for (const name of ['hour.html', 'bench.html']) {
    const times: number[] = [];
    for (let i = 0; i < 5; i++) {
      const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
      await page.goto(site.url(name));
      await page.waitForFunction(
        () => performance.getEntriesByName('onbeat-first-chart').length > 0,
      );
      times.push(
        await page.evaluate(() => performance.getEntriesByName('onbeat-first-chart')[0]!.startTime),
      );
      await page.close();
    }
    times.sort((a, b) => a - b);
    console.log(
      `${name}: page ${megabytes(name)}, first chart after ${times[2]!.toFixed(0)} ms (median of 5, largest ${times[4]!.toFixed(0)} ms)`,
    );
  }
  await browser.close();
}
site.done();
