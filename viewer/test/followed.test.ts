// A run that is followed in Chromium while it is measured: the page moves, and its last figures are the report's.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { describe, test } from 'node:test';
import { CHROMIUM, launch, NO_CHROMIUM, settled } from './browser.ts';
import { NO_ONBEAT, ONBEAT } from './live.ts';
import { buildReport, isTruncated } from '../src/model.ts';
import { GrowingRun } from '../src/live_run.ts';
import { bench } from './fixture.ts';
import type { Summary } from '../src/summary.ts';
import { held, human } from '../src/units.ts';

/** Its four cells take 7 s at least; `ONBEAT_LIVE_SECONDS` follows it for longer. */
const SECONDS = Math.max(10, Number(process.env['ONBEAT_LIVE_SECONDS'] ?? 0));

test('lines of files that come in any pieces are the files, and a new connection begins again', () => {
  const files = bench(2, 3)
    .split(/^(?=#\[onbeat: \{"file")/m)
    .filter((part) => part.startsWith('#[onbeat: {"file"'));
  const run = new GrowingRun();
  assert.equal(run.unpacked(), null, 'nothing yet');
  for (const attempt of [1, 2]) {
    run.reset();
    for (const part of files) {
      const [head = '', ...lines] = part.split(/(?<=\n)/);
      const name = (JSON.parse(head.slice('#[onbeat: '.length, -2)) as { file: string }).file;
      for (let at = 0; at < lines.length; at += 7)
        run.add(
          name,
          lines
            .slice(at, at + 7)
            .filter((line) => !line.includes('"summary"'))
            .join(''),
        );
    }
    const { files: found, summary } = run.unpacked()!;
    assert.equal(found.length, files.length, `connection ${attempt}`);
    assert.ok(summary!.derived, 'figures of the histograms until a summary comes');
    assert.ok(found.every((file) => file.problems.length === 0));
    const ended = buildReport(summary!, found).cells.filter(isTruncated);
    assert.deepEqual(ended, [], 'a run in progress is not called truncated');
    const going = summary!.cells.filter((cell) => cell.goes_on);
    const names = going.map(({ tuning, load }) => `${tuning}/${load}`);
    assert.deepEqual(names, ['PM/idle'], 'files without a closing line are in progress');

    const cells = summary!.cells.map((cell) => ({ ...cell, series: {} }));
    run.summarise({ ...summary!, cells, derived: false });
    assert.ok(run.unpacked()!.summary!.derived, 'a summary of before the first samples');
  }
});

describe(
  'a run in the browser',
  { skip: CHROMIUM === undefined ? NO_CHROMIUM : ONBEAT === undefined ? NO_ONBEAT : false },
  () => {
    test(`a bench of ${SECONDS} s is followed: the page moves, and its last figures are the report’s`, async () => {
      const folder = mkdtempSync(join(tmpdir(), 'onbeat-followed-'));
      const env = { ...process.env, ONBEAT_STATE_DIR: folder };
      const line = ['--tunings', 'none,S', '--loads', 'idle,cpu=20%', '--for', `${SECONDS}s`];
      const child = spawn(
        ONBEAT!,
        ['bench', ...line, '--limit', '1s', '--at', '50', '--until', 'end', '--view'],
        { cwd: folder, env, stdio: ['ignore', 'ignore', 'pipe'] },
      );
      const ended = new Promise<number | null>((done) => child.once('close', done));
      const browser = await launch();
      try {
        const said: string[] = [];
        const address = await new Promise<string>((found, failed) => {
          createInterface({ input: child.stderr }).on('line', (text) => {
            said.push(text);
            const url = /^live view: (http:\S+)/.exec(text)?.[1];
            if (url) found(url);
          });
          // It may have ended while the browser started.
          void ended.then(() => failed(new Error(said.join('\n'))));
        });
        const page = await browser.newPage({ viewport: { width: 1400, height: 900 } });
        const complaints: string[] = [];
        page.on('console', (message) => {
          if (['error', 'warning'].includes(message.type())) complaints.push(message.text());
        });
        page.on('pageerror', (error) => complaints.push(String(error)));
        await page.goto(address);
        const samples = (): Promise<number> =>
          page.evaluate(() =>
            [...document.querySelectorAll('#verdict .facts > div')]
              .filter((fact) => fact.querySelector('dt')?.textContent === 'Releases')
              .map((fact) => Number(fact.querySelector('dd')!.textContent!.replace(/\D/g, '')))
              .reduce((sum, one) => sum + one, 0),
          );
        await page.locator('#verdict .facts').waitFor({ timeout: 60_000 });
        const before = await samples();
        await page.locator('#run-state.good').waitFor({ timeout: 120_000 });
        // Whatever the verdict is: a busy machine leaves some seconds undecided.
        assert.ok([0, 1, 3].includes((await ended) ?? -1), said.join('\n'));
        await settled(page);
        assert.ok((await samples()) > before, 'it grew');

        const { stdout } = spawnSync(ONBEAT!, ['report', '--json', '--html', 'page.html'], {
          cwd: folder,
          env,
          encoding: 'utf8',
          maxBuffer: 1 << 28,
        });
        const summary = JSON.parse(stdout) as Summary;
        const cells = summary.focus!.tunings.map((tuning) =>
          summary.cells.find(
            (cell) => cell.tuning === tuning && cell.load === summary.focus!.load,
          )!,
        );
        assert.match(await page.locator('#verdict').innerText(), /PASS/);
        const shown = await page
          .locator('.numbers tbody tr')
          .evaluateAll((rows) =>
            rows.map((row) =>
              [...row.querySelectorAll('td')].map((cell) => cell.textContent!.replace('°', '')),
            ),
          );
        for (const [place, p] of [50, 99, 99.9, 99.99].entries())
          assert.deepEqual(
            shown[place],
            cells.map((cell) =>
              held(
                human(
                  cell.series['release_latency']!.percentiles.find((one) => one.p === p)!.value_ns,
                ),
              ),
            ),
            `p${p}`,
          );
        const all = summary.cells.reduce((sum, cell) => sum + cell.slots, 0);
        assert.equal(await samples(), all, 'every release of the run');
        assert.deepEqual(complaints, []);
      } finally {
        await browser.close();
        child.kill();
        rmSync(folder, { recursive: true, force: true });
      }
    });
  },
);
