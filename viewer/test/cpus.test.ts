// A loop on each CPU at once: the machine from its fact, a panel for each CPU on one pair of axes, the worst one named.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Browser } from 'playwright-core';
import { coreGroups } from '../src/topology.ts';
import { CHROMIUM, launch, NO_CHROMIUM, pages, settled } from './browser.ts';
import { cellSummary, filled, HOST, LADDER, runFile } from './fixture.ts';

const CPUS = [0, 1, 2, 5];
const WORST = 'CPU 2';

/** A run on four of six CPUs. */
function measured(): string {
  const cells: Record<string, unknown>[] = [];
  const texts: string[] = [];
  for (const cpu of CPUS) {
    const tuning = `CPU ${cpu}`;
    const made = runFile({
      tuning,
      load: 'idle',
      interval: 1,
      start: 1_763_712_000.1,
      dice: cpu + 1,
      cell: true,
      tags: ['wakeup_latency', 'response_time'],
      blocks: [{ t: 0, seconds: 8, load: 'idle' }],
      causes: false,
      cutOff: false,
    });
    const file = `CPU_${cpu}-idle.onbeat.hlog`;
    const states = [
      { name: 'POLL', exit_us: 0, entered: 3, time_us: 9 },
      { name: 'C1E', exit_us: 10, entered: cpu === 5 ? 0 : 812, time_us: 700 },
    ];
    cells.push({
      ...cellSummary(tuning, 'idle', made, 1),
      file,
      power: { cpus: `${cpu}`, states },
    });
    texts.push(`#[onbeat: ${JSON.stringify({ file })}]\n${made.text}`);
  }
  const summary = {
    schema: 'onbeat.bench/1',
    version: '0.1.0',
    command: ['onbeat', 'measure', 'timer', '--cpus', '0-2,5'],
    started_unix_s: 1_763_712_000.1,
    elapsed_s: 8.2,
    host: {
      ...HOST,
      'CPU topology': 'package 0 node 0 L3 0-3: 0+2 1+3; package 1 node 1 L3 4-5: (4 5)',
    },
    ladder: LADDER,
    limit: null,
    order: 'at_once',
    tunings: CPUS.map((cpu) => `CPU ${cpu}`),
    loads: ['idle'],
    period_ns: 1_000_000,
    cells,
    effects: [],
    verdict: {
      outcome: null,
      best: null,
      worst: { tuning: WORST, load: 'idle' },
      sentence: `${WORST} is worst: p99 release latency 40 us with no added load`,
    },
    power: `${WORST}: deepest idle state C1E (10 us to leave)`,
    focus: { load: 'idle', series: 'release_latency', tunings: [WORST, 'CPU 0'] },
  };
  return `${texts.join('')}#[onbeat: ${JSON.stringify({ summary })}]\n`;
}

/** A bench of two tunings with a loop on each of these CPUs; `none` is worst on CPU 0. */
function benched(): string {
  const texts: string[] = [];
  const cells = ['none', 'P'].map((tuning, place) => {
    const worst = place === 0 ? 0 : 2;
    const loops = CPUS.map((cpu) => {
      const made = runFile({
        tuning,
        load: 'paper',
        interval: 1,
        start: 1_763_712_000.1,
        dice: 10 * place + cpu + 1,
        cell: true,
        tags: ['wakeup_latency', 'release_latency'],
        blocks: [{ t: 0, seconds: 8, load: 'paper' }],
        causes: false,
        cutOff: false,
      });
      const file = `${tuning}-paper-cpu${cpu}.onbeat.hlog`;
      texts.push(`#[onbeat: ${JSON.stringify({ file })}]\n${made.text}`);
      return { cpu, file, summary: cellSummary(tuning, 'paper', made, 1) as Record<string, any> };
    });
    const cpus = loops.map(({ cpu, file, summary }) => ({
      cpu,
      file,
      figures: { ...summary.series.release_latency, low: [] },
      deadline_misses: summary.deadline_misses,
      skipped: summary.skipped,
    }));
    const of = loops.find(({ cpu }) => cpu === worst)!;
    return { ...of.summary, file: of.file, cpu: worst, cpus };
  });
  const summary = {
    schema: 'onbeat.bench/1',
    version: '0.1.0',
    command: ['onbeat', 'bench', '--cpus', '0-2,5'],
    started_unix_s: 1_763_712_000.1,
    elapsed_s: 20,
    host: { ...HOST, 'CPU topology': 'package 0 node 0 L3 0-5: 0 1 2 3 4 5' },
    ladder: LADDER,
    limit: null,
    order: 'interleaved',
    tunings: ['none', 'P'],
    loads: ['paper'],
    period_ns: 1_000_000,
    cells,
    effects: [],
    verdict: {
      outcome: null,
      best: { tuning: 'P', load: 'paper', cpu: 2 },
      sentence:
        'P is best: p99 release latency 40 us under the 2009 stress mix (`paper`), worst on CPU 2',
    },
    focus: { load: 'paper', series: 'release_latency', tunings: ['none', 'P'] },
  };
  return `${texts.join('')}#[onbeat: ${JSON.stringify({ summary })}]\n`;
}

test('a machine is groups of cores with their threads', () => {
  assert.deepEqual(coreGroups('package 0 node 0 L3 0-3: 0+2 1+3; package 1 node 1 L3 4-5: (4 5)'), [
    { name: 'package 0, node 0, L3 0-3', clusters: [[[0, 2]], [[1, 3]]] },
    { name: 'package 1, node 1, L3 4-5', clusters: [[[4], [5]]] },
  ]);
  for (const text of ['', 'unknown', 'package 0: a+b']) assert.deepEqual(coreGroups(text), []);
});

describe('CPUs in Chromium', { skip: CHROMIUM === undefined ? NO_CHROMIUM : false }, () => {
  let browser: Browser;
  let site: ReturnType<typeof pages>;
  before(async () => {
    browser = await launch();
    site = pages({ 'cpus.html': filled(measured()), 'bench.html': filled(benched()) });
  });
  after(async () => {
    await browser?.close();
    site?.done();
  });

  for (const width of [390, 1400])
    test(`a panel for each CPU, one axis, the worst named, at ${width} px`, async () => {
      const page = await browser.newPage({ viewport: { width, height: 900 } });
      const complaints: string[] = [];
      page.on('console', (message) => {
        if (['error', 'warning'].includes(message.type())) complaints.push(message.text());
      });
      page.on('pageerror', (error) => complaints.push(String(error)));
      await page.goto(site.url('cpus.html'));
      await settled(page);

      const panels = page.locator('.cpu-panel');
      assert.equal(await panels.count(), CPUS.length);
      const axes = await panels.evaluateAll((all) =>
        all.map((one) =>
          [...one.querySelectorAll('text')].map((label) => label.textContent).join(),
        ),
      );
      assert.equal(new Set(axes).size, 1, 'one pair of axes');
      assert.deepEqual(await page.locator('.cpu-panel.worst b').allTextContents(), [WORST]);
      assert.deepEqual(await page.locator('.cpu.worst b').allTextContents(), [WORST]);
      // Those of the machine that have no loop are there as well.
      assert.deepEqual(await page.locator('.cpu.idle b').allTextContents(), ['CPU 3', 'CPU 4']);
      const rows = await page.locator('.cpu-figures tbody tr').allTextContents();
      assert.equal(rows.length, CPUS.length);
      assert.match(rows[2]!, /2 \(worst\).*C1E/);
      assert.match(rows[3]!, /POLL/);
      assert.match((await page.locator('.power').textContent())!, /deepest idle state C1E/);
      const wider = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(wider <= 0, `the page is ${wider} px wider than the screen`);
      assert.deepEqual(complaints, []);
      await page.close();
    });

  for (const width of [390, 1400])
    test(`panels of the untuned and the best cell of a bench, one axis for both, at ${width} px`, async () => {
      const page = await browser.newPage({ viewport: { width, height: 900 } });
      const complaints: string[] = [];
      page.on('console', (message) => {
        if (['error', 'warning'].includes(message.type())) complaints.push(message.text());
      });
      page.on('pageerror', (error) => complaints.push(String(error)));
      await page.goto(site.url('bench.html'));
      await settled(page);

      const panels = page.locator('.cpu-panel');
      assert.equal(await panels.count(), 2 * CPUS.length);
      const axes = await panels.evaluateAll((all) =>
        all.map((one) =>
          [...one.querySelectorAll('text')].map((label) => label.textContent).join(),
        ),
      );
      assert.equal(new Set(axes).size, 1, 'one pair of axes');
      assert.deepEqual(await page.locator('.cpu-panel.worst b').allTextContents(), [
        'CPU 0',
        'CPU 2',
      ]);
      assert.deepEqual(
        await page.locator('.cpu.worst b').allTextContents(),
        ['CPU 2'],
        'of the best',
      );
      const heads = await page.locator('#cpus h3').allTextContents();
      assert.equal(heads.length, 3);
      assert.match(heads[0]!, /^none /);
      assert.match(heads[1]!, /^P /);
      const rows = await page.locator('.cpu-figures tbody tr').allTextContents();
      assert.equal(rows.length, 2 * CPUS.length);
      const matrix = await page.locator('tr', { hasText: 'worst CPU' }).first().textContent();
      assert.match(matrix!, /worst CPU\s*0\s*2/);
      assert.match((await page.locator('body').textContent())!, /4, at the same time/);
      const wider = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(wider <= 0, `the page is ${wider} px wider than the screen`);
      assert.deepEqual(complaints, []);
      await page.close();
    });
});
