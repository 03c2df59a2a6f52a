// The address keeps section, series, cells and time range.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Browser, Page } from 'playwright-core';
import { readText } from '../src/hlog.ts';
import { buildReport } from '../src/model.ts';
import { fragment, readPlace } from '../src/place.ts';
import { firstState } from '../src/state.ts';
import { sec } from '../src/units.ts';
import { CHROMIUM, launch, NO_CHROMIUM, pages, settled } from './browser.ts';
import { bench, filled } from './fixture.ts';

const text = bench(2, 3);
const { files, summary } = readText(text, 'data');
const report = buildReport(summary!, files);
const first = firstState(report);
const keyOf = (tuning: string, load: string): string =>
  report.cells.find((cell) => cell.tuning === tuning && cell.load === load)!.key;

test('the first choices have an address without any', () => {
  assert.equal(fragment('heat', report, first, first), '#heat');
  assert.deepEqual(readPlace('#heat', report, first), { section: 'heat', choices: null });
});

test('every choice comes back from its address', () => {
  const chosen = {
    ...first,
    tag: 'observed_period',
    slots: first.slots.map((_, i) =>
      i === 1 ? keyOf('PM', 'idle') : i === 3 ? keyOf('none', 'paper') : null,
    ),
    heat: keyOf('PM', 'idle'),
    clock: 'wall' as const,
    range: [sec(1.25), sec(7.5)] as const,
    scale: 'log' as const,
    bands: { p50: true, p99: false },
  };
  const address = fragment('maxima', report, chosen, first);
  assert.equal(
    address,
    '#maxima?series=observed_period&cell=&cell=PM/idle&cell=&cell=none/paper&heat=PM/idle&clock=wall&from=1.25&to=7.5&axis=log&bands=p50',
  );
  assert.deepEqual(readPlace(address, report, first), {
    section: 'maxima',
    choices: {
      tag: chosen.tag,
      slots: chosen.slots,
      heat: chosen.heat,
      clock: 'wall',
      range: [1.25, 7.5],
      scale: 'log',
      bands: chosen.bands,
    },
  });
});

test('what a report does not have is passed over', () => {
  for (const address of [
    '#charts?series=no_such&cell=XX/idle&heat=nothing&from=9&to=1&axis=cubic&clock=sun',
    '#charts?from=a&to=b',
    '#charts?cell=C/paper',
    '#charts?%E0%A4%A',
  ]) {
    const { choices } = readPlace(address, report, first);
    assert.deepEqual({ ...first, ...choices }, first, address);
  }
});

describe('the address in Chromium', { skip: CHROMIUM === undefined ? NO_CHROMIUM : false }, () => {
  let browser: Browser;
  let site: ReturnType<typeof pages>;
  before(async () => {
    browser = await launch();
    site = pages({ 'bench.html': filled(text) });
  });
  after(async () => {
    await browser?.close();
    site?.done();
  });

  const isDrawn = async (page: Page): Promise<void> => {
    await settled(page);
    assert.equal(await page.locator('.plot canvas').count(), 5);
  };
  const seen = async (page: Page): Promise<object> => ({
    series: await page.locator('.bar input:checked + span').innerText(),
    cells: await page
      .locator('.picker input:checked')
      .evaluateAll((inputs) => inputs.map((input) => (input as HTMLElement).dataset['cell'])),
    range: await page.locator('.bar .range').innerText(),
    samples: await page
      .locator('#distribution table tbody td')
      .first()
      .evaluate((td) => td.textContent),
  });

  test('a reload and a link show the same section, cells, series and time range', async () => {
    const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
    const requests: string[] = [];
    page.on('request', (request) => {
      if (!request.url().startsWith('data:')) requests.push(request.url().replace(/#.*/, ''));
    });
    await page.goto(site.url('bench.html'));
    await isDrawn(page);
    await page.waitForTimeout(500);
    assert.equal(page.url(), site.url('bench.html'), 'an untouched page keeps its address');
    await page.getByRole('radio', { name: 'Wake-up latency' }).check({ force: true });
    await page.locator('.picker input').nth(1).check({ force: true });
    await isDrawn(page);
    await page.locator('#maxima .plot').focus();
    // Faster than a drawing: moving to the right must not show everything again.
    await page.locator('#maxima .plot').evaluate((plot) => {
      for (const key of ['w', 'w', 'd'])
        plot.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
    });
    await page.waitForFunction(() => /series=wakeup_latency.*cell=.*from=/.test(location.hash));
    await page.locator('.contents a', { hasText: 'Percentiles' }).evaluate((link) => {
      document.querySelector('#matrix')!.classList.add('the-same-page');
      (link as HTMLElement).click();
    });
    await page.waitForFunction(() =>
      /^#percentiles\?.*series=wakeup_latency.*cell=.*from=/.test(location.hash),
    );
    assert.equal(
      await page.locator('.the-same-page').count(),
      1,
      'a link of the page does not build it again',
    );
    const before = await seen(page);
    const address = page.url();

    // The page's own word for it: a reload that is waited for from outside is confused by an address that changes meanwhile.
    await Promise.all([
      page.waitForEvent('load'),
      page.evaluate(() => {
        setTimeout(() => location.reload(), 0);
      }),
    ]);
    await isDrawn(page);
    await page.waitForFunction(
      () => Math.abs(document.getElementById('percentiles')!.getBoundingClientRect().top) < 200,
    );
    assert.deepEqual(await seen(page), before);

    const other = await browser.newPage({ viewport: { width: 1280, height: 900 } });
    await other.goto(address);
    await isDrawn(other);
    await other.waitForFunction(
      () => Math.abs(document.getElementById('percentiles')!.getBoundingClientRect().top) < 200,
    );
    assert.deepEqual(await seen(other), before);
    assert.deepEqual(
      [...new Set(requests)],
      [site.url('bench.html')],
      'nothing but the file itself',
    );
    await page.close();
    await other.close();
  });

  test('the contents name every section and mark the one in sight', async () => {
    const page = await browser.newPage({ viewport: { width: 1700, height: 900 } });
    await page.goto(site.url('bench.html'));
    await isDrawn(page);
    const names = await page.locator('.contents a').allInnerTexts();
    assert.deepEqual(names, [
      'Charts',
      'Distribution',
      'Percentiles',
      'Interval maxima',
      'Heat map',
      'All cells',
      'Causes of latency',
      'Worst spikes',
      'Effect of each tuning',
      'Privileges',
      'Notes',
      'Glossary',
    ]);
    for (const name of ['Heat map', 'Causes of latency']) {
      await page.locator('.contents a', { hasText: name }).click();
      await page.waitForFunction(
        (wanted) => document.querySelector('.contents [aria-current]')?.textContent === wanted,
        name,
      );
    }
    const nav = (await page.locator('.contents').boundingBox())!;
    const matrix = (await page.locator('#matrix').boundingBox())!;
    assert.ok(nav.x >= 0 && nav.x + nav.width <= matrix.x, 'beside the page, not over it');
    await page.close();
  });

  test('an address that is pasted into an open page is followed', async () => {
    const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
    await page.goto(site.url('bench.html'));
    await isDrawn(page);
    await page.evaluate(() => {
      location.hash = '#heat?series=response_time&cell=PM/idle';
    });
    await page.waitForFunction(
      () =>
        document.querySelectorAll('.picker input:checked').length === 1 &&
        document.querySelectorAll('.plot canvas').length === 5,
    );
    assert.match(await page.locator('.bar input:checked + span').innerText(), /Response time/);
    await page.close();
  });
});
