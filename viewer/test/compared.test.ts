import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { after, before, describe, test } from 'node:test';
import type { Browser } from 'playwright-core';
import { beside, rowsOf, type Comparison, type Row } from '../src/comparison.ts';
import { CHROMIUM, launch, NO_CHROMIUM, pages, settled } from './browser.ts';
import { cellSummary, filled, HOST, LADDER, runFile } from './fixture.ts';

const root = process.env['VIEWER_ROOT']!;
const ratio = (metric: string, value: number, low: number | null, high: number | null): Comparison['cells'][0]['runs'][0]['ratios'][0] => ({ metric, ratio: value, low, high, supported: low !== null });
const row = (run: number, load: string, more: Partial<Row> = {}): Row =>
  ({ run, tuning: 'P', load, count: 60_000, min_ns: 18_300, mean_ns: 34_000, sd_ns: 8_000, max_ns: 394_000, jitter_ns: 375_700, tail_ratio: 45, overruns: 3, skipped: 17, ...more });
const comparison: Comparison = {
  runs: ['monday', 'tuesday'],
  rows: [{ series: 'release_latency', rows: [row(0, 'idle'), row(1, 'paper', { overruns: null, skipped: null, tail_ratio: 411.4 })] }],
  cells: [
    { cell: '', series: 'release_latency', runs: [{ run: 0, ratios: [] }, { run: 1, ratios: [ratio('p50', 1.4, 1.2, 1.6), ratio('p99', 0.7, 0.4, 1.3), ratio('p99.99', 3.1, null, null)] }] },
    { cell: '', series: 'observed_period', runs: [{ run: 0, ratios: [] }, { run: 1, ratios: [ratio('p50', 1, 0.99, 1.01)] }] },
  ],
  differences: [{ fact: 'kernel', values: ['6.18.3 PREEMPT_RT', '6.18.4'] }, { fact: 'governor', values: ['performance', null] }],
  warnings: ['The loads differ: monday idle and tuesday paper; so their effect cannot be separated from all other effects', 'The runs were measured one after the other; `onbeat bench` takes turns'],
  sentences: ['p50 wake-up latency of tuesday is x 1.40 (1.20 to 1.60) that of monday'],
};

/** Two runs of a minute, as `onbeat compare --html` puts them into a page. */
function compared(): string {
  const runs = comparison.runs.map((name, i) => {
    const load = i === 0 ? 'idle' : 'paper';
    const made = runFile({ tuning: 'P', load, interval: 1, start: 1_763_800_000 + 100 * i, dice: 5 + i, cell: false, tags: ['wakeup_latency', 'observed_period'], blocks: [{ t: 0, seconds: 60, load }] });
    const file = `${i + 1}-timer.onbeat.hlog`;
    return { text: `#[onbeat: ${JSON.stringify({ file })}]\n${made.text}`, cell: { ...cellSummary('P', load, made, 1), tuning: name, file, verdict: null, notes: [] } };
  });
  const summary = { schema: 'onbeat.compare/1', version: '0.1.0', command: ['onbeat', 'compare', ...comparison.runs, '--html', 'page.html'], started_unix_s: 1_763_800_000, elapsed_s: 120, host: HOST, ladder: LADDER.slice(0, 2),
    limit: null, order: 'compared', tunings: comparison.runs, loads: ['idle', 'paper'], period_ns: 1_000_000, cells: runs.map(({ cell }) => cell), effects: [], verdict: { outcome: null, best: null, sentence: comparison.sentences.join('; ') }, comparison };
  return `${runs.map(({ text }) => text).join('')}#[onbeat: ${JSON.stringify({ summary })}]\n`;
}

test('each run but the first has its ratios to the first, series by series', () => {
  const [found] = beside(comparison, 'release_latency');
  assert.equal(found!.base, 'monday');
  assert.deepEqual(found!.others.map(({ name, ratios }) => [name, ratios.length]), [['tuesday', 3]]);
  assert.deepEqual(beside(comparison, 'execution_time'), []);
});

test('rows are named by run, and by load and tuning only where these distinguish them', () => {
  assert.deepEqual(rowsOf(comparison, 'release_latency').head, ['run', 'load']);
  assert.deepEqual(rowsOf(comparison, 'release_latency').rows.map(({ names }) => names), [['monday', 'idle'], ['tuesday', 'paper']]);
  assert.deepEqual(rowsOf(comparison, 'execution_time').rows, []);
  const rows = (of: Row[]): Comparison => ({ ...comparison, rows: [{ series: 'hiccup', rows: of }] });
  assert.deepEqual(rowsOf(rows([row(0, 'idle'), row(1, 'idle')]), 'hiccup').head, ['run']);
  assert.deepEqual(rowsOf(rows([row(0, 'idle'), row(0, 'idle', { tuning: 'none' })]), 'hiccup').head, ['run', 'tuning']);
  const loads = { ...rows([row(0, 'idle'), row(1, 'paper')]), runs: ['idle', 'paper'] };
  assert.deepEqual([rowsOf(loads, 'hiccup').head, rowsOf(loads, 'hiccup').rows.map(({ names }) => names)], [['load'], [['idle'], ['paper']]]);
  const { rows: _, ...older } = comparison;
  assert.deepEqual(rowsOf(older, 'release_latency').rows, [], 'pages of an older onbeat have none');
});

describe('a comparison in Chromium', { skip: CHROMIUM === undefined ? NO_CHROMIUM : false }, () => {
  let browser: Browser;
  let site: ReturnType<typeof pages>;
  before(async () => { browser = await launch(); site = pages({ 'compared.html': filled(compared()) }); });
  after(async () => { await browser?.close(); site?.done(); });

  for (const width of [400, 1280]) {
    for (const colorScheme of ['light', 'dark'] as const) {
      test(`ratios, differences and warnings are there, ${colorScheme} at ${width} px`, async () => {
        const page = await browser.newPage({ viewport: { width, height: 900 }, colorScheme });
        const complaints: string[] = [];
        page.on('console', (message) => { if (['error', 'warning'].includes(message.type())) complaints.push(message.text()); });
        page.on('pageerror', (error) => complaints.push(String(error)));
        await page.goto(site.url('compared.html'));
        await page.waitForFunction(() => document.querySelector('#compared') !== null);
        await settled(page);
        assert.equal(await page.locator('#verdict .badge').count(), 0, 'a comparison has no verdict');
        assert.match(await page.locator('#verdict h1').innerText(), /×\s1\.40/);
        const section = await page.locator('#compared').innerText();
        for (const words of ['tuesday', 'longer', 'not distinguishable', 'fewer than 10 samples', 'PREEMPT_RT', 'not recorded', 'The loads differ', '60,000', '394', '411', 'does not count it']) assert.ok(section.includes(words), `${words} in ${section}`);
        assert.equal(await page.locator('#compared svg[role=img]').count(), 3);
        assert.deepEqual(await page.locator('#compared details.folded .factor').allInnerTexts(), [''], 'what too few samples support is folded');
        assert.match(await page.locator('#compared details.folded summary').innerText(), /^p[\d.]+ fewer than 10 samples beyond this value$/);
        assert.doesNotMatch(await page.locator('#causes').innerText(), /one after the other/, 'a warning is not a cause');
        assert.equal(await page.locator('#compared table.by-run tbody tr').count(), 2);
        await page.getByRole('radio', { name: 'Observed period' }).check({ force: true });
        assert.equal(await page.locator('#compared table.by-run').count(), 0, 'rows are of the series that is shown');
        assert.equal(await page.locator('#compared svg[role=img]').count(), 1, 'ratios are of the series that is shown');
        assert.ok(await page.evaluate(() => document.documentElement.scrollWidth) <= width);
        await page.evaluate(readFileSync(createRequire(`${root}/package.json`).resolve('axe-core/axe.min.js'), 'utf8'));
        const violations = await page.evaluate(async () => {
          const api = (globalThis as unknown as { axe: { run: (o: object) => Promise<{ violations: { id: string; nodes: { html: string }[] }[] }> } }).axe;
          return (await api.run({ resultTypes: ['violations'] })).violations.map(({ id, nodes }) => `${id}: ${nodes[0]!.html.slice(0, 160)}`);
        });
        assert.deepEqual([violations, complaints], [[], []]);
        await page.close();
      });
    }
  }
});
