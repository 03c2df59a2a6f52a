import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Browser } from 'playwright-core';
import { chainRow } from '../src/sections/chain.ts';
import type { ChainCycles } from '../src/summary.ts';
import type { Ns } from '../src/units.ts';
import { CHROMIUM, launch, NO_CHROMIUM, pages, settled } from './browser.ts';
import { cellSummary, filled, HOST, LADDER, runFile } from './fixture.ts';

const CHAIN: ChainCycles = {
  sensor: 'pelvis',
  actor: 'left knee',
  exchange: 'pipelined',
  period_ns: 1_000_000 as Ns,
  device_delay_ns: 500_000 as Ns,
  predicted: [3, 4],
  count: 1200,
  min: 3.01,
  p50: 3.5,
  p99: 4.02,
  p99_supported: true,
  max: 4.4,
};

/** The page's data of a bench of two cells, both with a chain. */
function chained(): string {
  const cells = ['none', 'P'].map((tuning, i) => {
    const made = runFile({
      tuning,
      load: 'idle',
      interval: 1,
      start: 1_763_950_000 + 10 * i,
      dice: 3 + i,
      cell: true,
      tags: ['wakeup_latency'],
      blocks: [{ t: 0, seconds: 4, load: 'idle' }],
    });
    const chain =
      i === 0 ? CHAIN : { ...CHAIN, predicted: null, device_delay_ns: null, p99_supported: false };
    return {
      text: `#[onbeat: ${JSON.stringify({ file: `${tuning}-idle.onbeat.hlog` })}]\n${made.text}`,
      cell: { ...cellSummary(tuning, 'idle', made, 1), verdict: null, chain },
    };
  });
  const summary = {
    schema: 'onbeat.bench/1',
    version: '0.1.0',
    command: ['onbeat', 'bench', '--with', 'chain'],
    started_unix_s: 1_763_950_000,
    elapsed_s: 14,
    host: HOST,
    ladder: LADDER.slice(0, 2),
    limit: null,
    order: 'interleaved',
    tunings: ['none', 'P'],
    loads: ['idle'],
    period_ns: 1_000_000,
    cells: cells.map(({ cell }) => cell),
    effects: [],
    verdict: null,
  };
  return `${cells.map(({ text }) => text).join('')}#[onbeat: ${JSON.stringify({ summary })}]\n`;
}

test('a chain is shown in cycles, with its prediction, and what fewer than ten changes support is marked', () => {
  assert.deepEqual(chainRow(CHAIN), [
    'pelvis',
    'left knee',
    'pipelined',
    '500 µs',
    '3.00 to 4.00',
    '3.01',
    '3.50',
    '4.02',
    '4.40',
    '1,200',
  ]);
  assert.deepEqual(
    chainRow({ ...CHAIN, predicted: null, device_delay_ns: null, p99_supported: false }).slice(
      3,
      9,
    ),
    ['–', '–', '3.01', '3.50', '~4.02', '4.40'],
  );
});

describe(
  'a bench of a chain in Chromium',
  { skip: CHROMIUM === undefined ? NO_CHROMIUM : false },
  () => {
    let browser: Browser;
    let site: ReturnType<typeof pages>;
    before(async () => {
      browser = await launch();
      site = pages({ 'chain.html': filled(chained()) });
    });
    after(async () => {
      await browser?.close();
      site?.done();
    });

    test('the page has a row and a column of the figure for each cell, beside the published cycles', async () => {
      const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
      await page.goto(site.url('chain.html'));
      await settled(page);
      const section = page.locator('#reaction');
      assert.match(await section.innerText(), /Command to effect[\s\S]*2009[\s\S]*3 to 4 cycles/);
      const rows = section.locator('table.list tbody tr');
      assert.equal(await rows.count(), 2);
      assert.match(
        await rows.first().innerText(),
        /none[\s\S]*pelvis[\s\S]*left knee[\s\S]*3\.00 to 4\.00[\s\S]*3\.50[\s\S]*4\.40/,
      );
      assert.equal(
        await section.locator('svg circle.dot.mean').count(),
        4,
        'p50 and p99 of two cells',
      );
      await page.close();
    });
  },
);
