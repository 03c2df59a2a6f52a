import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { after, before, describe, test } from 'node:test';
import type { Browser } from 'playwright-core';
import { beside, rowsOf, type Comparison, type Row } from '../src/comparison.ts';
import { FIGURES } from '../src/sections/compared.ts';
import { CHROMIUM, launch, NO_CHROMIUM, pages, settled } from './browser.ts';
import { compared, comparison, row } from './compared.ts';
import { filled } from './fixture.ts';

const root = process.env['VIEWER_ROOT']!;

test('each run but the first has its ratios to the first, series by series', () => {
  const [found] = beside(comparison, 'release_latency');
  assert.equal(found!.base, 'monday');
  assert.deepEqual(
    found!.others.map(({ name, ratios }) => [name, ratios.length]),
    [['tuesday', 3]],
  );
  assert.deepEqual(beside(comparison, 'execution_time'), []);
});

test('what a source does not state is a dash, and no end of the page', () => {
  const stated = row(0, 'idle', { sd_ns: null, tail_ratio: null, overruns: null, skipped: null });
  const words = Object.fromEntries(FIGURES.map(([name, of]) => [name, of(stated)]));
  assert.deepEqual(
    [words['SD'], words['tail'], words['overruns'], words['skipped']],
    ['–', '–', '–', '–'],
  );
});

test('rows are named by run, and by load and tuning only where these distinguish them', () => {
  assert.deepEqual(rowsOf(comparison, 'release_latency').head, ['run', 'load']);
  assert.deepEqual(
    rowsOf(comparison, 'release_latency').rows.map(({ names }) => names),
    [
      ['monday', 'idle'],
      ['tuesday', 'paper'],
    ],
  );
  assert.deepEqual(rowsOf(comparison, 'execution_time').rows, []);
  const rows = (of: Row[]): Comparison => ({
    ...comparison,
    rows: [{ series: 'hiccup', rows: of }],
  });
  assert.deepEqual(rowsOf(rows([row(0, 'idle'), row(1, 'idle')]), 'hiccup').head, ['run']);
  assert.deepEqual(
    rowsOf(rows([row(0, 'idle'), row(0, 'idle', { tuning: 'none' })]), 'hiccup').head,
    ['run', 'tuning'],
  );
  const loads = { ...rows([row(0, 'idle'), row(1, 'paper')]), runs: ['idle', 'paper'] };
  assert.deepEqual(
    [rowsOf(loads, 'hiccup').head, rowsOf(loads, 'hiccup').rows.map(({ names }) => names)],
    [['load'], [['idle'], ['paper']]],
  );
  const { rows: _, ...older } = comparison;
  assert.deepEqual(rowsOf(older, 'release_latency').rows, [], 'pages of an older onbeat have none');
});

describe('a comparison in Chromium', { skip: CHROMIUM === undefined ? NO_CHROMIUM : false }, () => {
  let browser: Browser;
  let site: ReturnType<typeof pages>;
  before(async () => {
    browser = await launch();
    site = pages({ 'compared.html': filled(compared()) });
  });
  after(async () => {
    await browser?.close();
    site?.done();
  });

  test('ratios are saved as a picture, and as their figures', async () => {
    const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
    await page.goto(site.url('compared.html'));
    await settled(page);
    const saved = async (kind: string): Promise<Buffer> => {
      const [download] = await Promise.all([
        page.waitForEvent('download'),
        page.locator('#compared .zoom button', { hasText: kind }).first().click(),
      ]);
      return readFileSync(await download.path());
    };
    assert.equal((await saved('PNG')).subarray(1, 4).toString(), 'PNG');
    const [head, ...lines] = (await saved('CSV')).toString().trimEnd().split('\n');
    assert.deepEqual([head, lines.length], ['run,base,cell,metric,ratio,low,high,supported', 3]);
    await page.close();
  });

  for (const width of [400, 1280]) {
    for (const colorScheme of ['light', 'dark'] as const) {
      test(`ratios, differences and warnings are there, ${colorScheme} at ${width} px`, async () => {
        const page = await browser.newPage({ viewport: { width, height: 900 }, colorScheme });
        const complaints: string[] = [];
        page.on('console', (message) => {
          if (['error', 'warning'].includes(message.type())) complaints.push(message.text());
        });
        page.on('pageerror', (error) => complaints.push(String(error)));
        await page.goto(site.url('compared.html'));
        await page.waitForFunction(() => document.querySelector('#compared') !== null);
        await settled(page);
        assert.equal(
          await page.locator('#verdict .badge').count(),
          0,
          'a comparison has no verdict',
        );
        assert.match(await page.locator('#verdict h1').innerText(), /×\s1\.40/);
        const section = await page.locator('#compared').innerText();
        for (const words of [
          'tuesday',
          'longer',
          'not distinguishable',
          'fewer than 10 samples',
          'PREEMPT_RT',
          'not recorded',
          'The loads differ',
          '60,000',
          '394',
          '411',
          'does not count it',
        ])
          assert.ok(section.includes(words), `${words} in ${section}`);
        assert.equal(await page.locator('#compared svg[role=img]').count(), 3);
        assert.deepEqual(
          await page.locator('#compared details.folded .factor').allInnerTexts(),
          [''],
          'what fewer than ten samples support is folded',
        );
        assert.match(
          await page.locator('#compared details.folded summary').innerText(),
          /^p[\d.]+ fewer than 10 samples beyond this value$/,
        );
        assert.doesNotMatch(
          await page.locator('#causes').innerText(),
          /one after the other/,
          'a warning is not a cause',
        );
        assert.equal(await page.locator('#compared table.by-run tbody tr').count(), 2);
        await page.getByRole('radio', { name: 'Observed period' }).check({ force: true });
        assert.equal(
          await page.locator('#compared table.by-run').count(),
          0,
          'rows are of the series that is shown',
        );
        assert.equal(
          await page.locator('#compared svg[role=img]').count(),
          1,
          'ratios are of the series that is shown',
        );
        assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= width);
        await page.evaluate(
          readFileSync(
            createRequire(`${root}/package.json`).resolve('axe-core/axe.min.js'),
            'utf8',
          ),
        );
        const violations = await page.evaluate(async () => {
          const api = (
            globalThis as unknown as {
              axe: {
                run: (
                  o: object,
                ) => Promise<{ violations: { id: string; nodes: { html: string }[] }[] }>;
              };
            }
          ).axe;
          return (await api.run({ resultTypes: ['violations'] })).violations.map(
            ({ id, nodes }) => `${id}: ${nodes[0]!.html.slice(0, 160)}`,
          );
        });
        assert.deepEqual([violations, complaints], [[], []]);
        await page.close();
      });
    }
  }
});
