// No control, label or value is cut, covered or wider than its box, from a phone to a wide screen.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Browser, Page } from 'playwright-core';
import { SERIES } from '../src/words.ts';
import { faults } from './boxes.ts';
import { CHROMIUM, launch, NO_CHROMIUM, pages, settled } from './browser.ts';
import { collisions, noteWriting, writing } from './canvas.ts';
import { compared } from './compared.ts';
import { concluded } from './concluded.ts';
import { bench, filled, hour, switchedOff, withEverySeries, withSummary } from './fixture.ts';

const WIDTHS = [360, 480, 768, 960, 1280, 1400, 1600, 2560];

/** Seven steps of a sweep, of which the last one was not reached. */
const sweep = {
  series: 'release_latency',
  allowed_jitter_ns: 100_000,
  sentence:
    'Jitter (max - min) of release latency: 12.5 us at 10 % load, 880 us at 100 %; limit 100 us, met at 5 of 7 loads',
  steps: [10, 25, 40, 55, 70, 85, 100].map((asked, i) => ({
    load: `cpu:${asked}`,
    asked_percent: asked,
    reached_percent: asked - (asked === 100 ? 12.4 : 0.3),
    is_reached: asked !== 100,
    count: 60_000,
    min_ns: 3100,
    mean_ns: 5200 + 900 * i,
    max_ns: 16_000 + 9 ** i,
    jitter_ns: 12_900 + 9 ** i,
    is_allowed: i < 5,
  })),
};
const seconds = {
  seconds: 60,
  min_mean_ns: 3100,
  min_sd_ns: 210,
  samples: 60_000,
  mean_mean_ns: 5200,
  mean_sd_ns: 340,
  max_mean_ns: 41_000,
  max_sd_ns: 12_000,
  overruns: 2,
};

/** A bench with every series, and with what single runs have besides. */
const everything = (): string =>
  withSummary(withEverySeries(bench(2, 3)), (summary) => {
    const cell = summary.cells.find(({ tuning, load }) => tuning === 'PMCS' && load === 'paper')!;
    Object.assign(cell, { conclusions: concluded, by_second: seconds });
  });
/** Eighteen streams of another tool, of which eight are shown first. */
const many = (): string =>
  withSummary(bench(1, 2), (summary) =>
    Object.assign(summary, { order: 'imported', focus: undefined }),
  );
const swept = (): string =>
  withSummary(withEverySeries(hour(60)), (summary) => Object.assign(summary, { sweep }));

describe('the layout in Chromium', { skip: CHROMIUM === undefined ? NO_CHROMIUM : false }, () => {
  let browser: Browser;
  let site: ReturnType<typeof pages>;
  before(async () => {
    browser = await launch();
    site = pages({
      'everything.html': filled(everything()),
      'swept.html': filled(swept()),
      'bus.html': filled(switchedOff()),
      'compared.html': filled(compared()),
      'many.html': filled(many()),
    });
  });
  after(async () => {
    await browser?.close();
    site?.done();
  });

  /** Opens what is folded: a fault behind a triangle is one all the same. */
  async function unfold(page: Page): Promise<void> {
    const rows = page.getByRole('button', { name: 'Show rows without support' });
    if ((await rows.count()) > 0) await rows.click();
    if ((await page.locator('#spikes .more').count()) > 0)
      await page.locator('#spikes .more').first().click();
    await page.evaluate(() =>
      document.querySelectorAll('details').forEach((one) => {
        one.open = true;
      }),
    );
  }

  for (const [name, colorScheme] of [
    ['everything', 'light'],
    ['everything', 'dark'],
    ['swept', 'light'],
    ['bus', 'dark'],
    ['compared', 'light'],
    ['many', 'light'],
  ] as const) {
    test(`nothing is cut, covered or wider than its box: ${name}, ${colorScheme}`, async () => {
      const page = await browser.newPage({
        viewport: { width: WIDTHS[0]!, height: 900 },
        colorScheme,
      });
      await noteWriting(page);
      await page.goto(site.url(`${name}.html`));
      await settled(page);
      await unfold(page);
      for (const width of WIDTHS) {
        await page.setViewportSize({ width, height: 900 });
        await page.evaluate(() => scrollTo(0, 0));
        await settled(page);
        assert.deepEqual(
          [...(await faults(page)), ...collisions(await writing(page))],
          [],
          `${width} px`,
        );
      }
      await page.close();
    });
  }

  test('a run with every series offers each of them, and a link to a section leaves room for the bar', async () => {
    const page = await browser.newPage({ viewport: { width: 960, height: 900 } });
    await page.goto(site.url('everything.html'));
    await settled(page);
    assert.equal(await page.locator('.bar input').count(), SERIES.length);
    await page.locator('.contents a', { hasText: 'Percentiles' }).click();
    await page.waitForFunction(
      () =>
        document.querySelector('.bar')!.getBoundingClientRect().top === 0 &&
        Math.abs(document.getElementById('percentiles')!.getBoundingClientRect().top) < 400,
    );
    const [bar, title] = await Promise.all(
      ['.bar', '#percentiles h3'].map((part) => page.locator(part).boundingBox()),
    );
    assert.ok(
      bar!.y === 0 && title!.y >= bar!.height,
      `the title begins at ${title!.y} px, below ${bar!.height} px of the bar`,
    );
    await page.close();
  });

  test('the list of keys fits a phone', async () => {
    const page = await browser.newPage({ viewport: { width: 360, height: 900 } });
    await page.goto(site.url('bus.html'));
    await settled(page);
    await page.keyboard.press('?');
    const { left, right, isCut } = await page.locator('dialog[open]').evaluate((dialog) => ({
      left: dialog.getBoundingClientRect().left,
      right: dialog.getBoundingClientRect().right,
      isCut: dialog.scrollWidth > dialog.clientWidth,
    }));
    assert.ok(left >= 0 && right <= 360 && !isCut, `${left} to ${right} px`);
    await page.close();
  });

  test('a fault of the layout is found', async () => {
    const page = await browser.newPage({ viewport: { width: 960, height: 900 } });
    await page.goto(site.url('everything.html'));
    await settled(page);
    await page.evaluate(() => {
      // The page's policy forbids another style sheet.
      document.querySelector<HTMLElement>('.bar .choice')!.style.flexWrap = 'nowrap';
      document.querySelector<HTMLElement>('#matrix h2')!.style.height = '4px';
    });
    const found = await faults(page);
    assert.ok(
      found.some((fault) => /“Skipped latency” is from [\d.]+ to [\d.]+ px of 960/.test(fault)),
      found.join('\n'),
    );
    assert.ok(
      found.some((fault) => /are over each other/.test(fault)),
      found.join('\n'),
    );
    await page.close();
  });
});
