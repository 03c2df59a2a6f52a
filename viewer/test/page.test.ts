import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { after, before, describe, test } from 'node:test';
import type { Browser, Page } from 'playwright-core';
import { CHROMIUM, launch, NO_CHROMIUM, pages, settled } from './browser.ts';
import { bench, filled, hour, runFile, switchedOff, withSummary } from './fixture.ts';
import { walking } from './walking.ts';
import { readText } from '../src/hlog.ts';
import { held, human, ns, usCell } from '../src/units.ts';

const root = process.env['VIEWER_ROOT']!;
const template = readFileSync(`${root}/../crates/onbeat-cli/assets/viewer.html`, 'utf8');
/** Height of a page of Letter, the lower one, between its margins of 12 mm, in CSS pixels. */
const LETTER_PX = 11 * 96 - (2 * 12 * 96) / 25.4;

test('the template takes its data in one place and loads nothing', () => {
  assert.equal(template.split('@@DATA@@').length, 2);
  assert.match(
    template,
    /<script id="data" type="application\/x-onbeat; gzip; base64">@@DATA@@<\/script>/,
  );
  assert.doesNotMatch(
    template.replace(/<script>[\s\S]*<\/script>/, ''),
    /\b(src|href)="(?!#|data:)/,
  );
  assert.doesNotMatch(
    template,
    /@import|url\(|<script[^>]+(module|src)|\bfetch\(|XMLHttpRequest|WebSocket|importScripts|sendBeacon/,
  );
});

test('the content policy names exactly this script and this style', () => {
  const policy = /Content-Security-Policy" content="([^"]+)"/.exec(template)![1]!;
  const hash = (text: string): string =>
    `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
  const scripts = [...template.matchAll(/<script>([\s\S]*?)<\/script>/g)];
  const styles = [...template.matchAll(/<style>([\s\S]*?)<\/style>/g)];
  assert.deepEqual([scripts.length, styles.length], [1, 1]);
  assert.ok(policy.startsWith("default-src 'none'; "));
  assert.ok(
    policy.includes(`script-src ${hash(scripts[0]![1]!)};`) &&
      policy.includes(`style-src ${hash(styles[0]![1]!)};`),
  );
  assert.doesNotMatch(policy, /unsafe|https?:|\*/);
});

describe('the page in Chromium', { skip: CHROMIUM === undefined ? NO_CHROMIUM : false }, () => {
  let browser: Browser;
  let site: ReturnType<typeof pages>;
  const dropped = runFile({
    tuning: 'PM',
    load: 'idle',
    interval: 1,
    start: 1e9,
    dice: 9,
    cell: true,
    tags: ['wakeup_latency', 'observed_period'],
    blocks: [{ t: 0, seconds: 6, load: 'idle' }],
  }).text;

  const preempted = (name: string, tid: number, us: number): object => ({
    kind: 'preempted',
    ns: 1000 * us,
    evidence: `${name} [${tid}] ran`,
    culprit: { name, tid, prio: 120 },
  });
  const causes = [
    ...Array.from({ length: 688 }, (_, i) => preempted('hackbench', 2000 + i, 700 - i)),
    ...[...'abcdefghijkl'].map((letter, i) => preempted(`daemon-${letter}`, 100 + i, 90 - i)),
  ];
  const crowded = {
    t: 1.5,
    index: 1500,
    block: 0,
    wakeup_latency_ns: 240e6,
    execution_time_ns: 21e3,
    skipped: 0,
    stall: null,
    causes,
  };
  const crowd = `${dropped}#[onbeat: ${JSON.stringify({ spike: crowded })}]\n`;

  before(async () => {
    browser = await launch();
    site = pages({
      'bench.html': filled(bench(3, 5)),
      'unwatched.html': filled(bench(2, 3, false)),
      'hour.html': filled(hour(600)),
      'bus.html': filled(switchedOff()),
      'robot.html': filled(walking()),
      'empty.html': template,
      'nothing.html': filled(
        withSummary(hour(10), (summary) => {
          Object.assign(summary.cells[0]!, { series: {}, slots: 0, verdict: null });
          const verdict = { outcome: null, sentence: 'INCONCLUSIVE: no samples were recorded' };
          Object.assign(summary, { verdict, limit: null, focus: undefined });
        }),
      ),
      'PM-idle.onbeat.hlog': dropped,
      'crowd.onbeat.hlog': crowd,
    });
    writeFileSync(
      fileURLToPath(site.url('broken.html')),
      template.replace('@@DATA@@', 'H4sIAAAAAAAAA0tMSk4BAMJBJDUGAAAA'.slice(0, 20)),
    );
  });
  after(async () => {
    await browser?.close();
    site?.done();
  });

  async function opened<T>(
    name: string,
    options: { width?: number; height?: number; dark?: boolean },
    look: (page: Page) => Promise<T>,
  ): Promise<T> {
    const context = await browser.newContext({
      viewport: { width: options.width ?? 1280, height: options.height ?? 900 },
      colorScheme: options.dark ? 'dark' : 'light',
    });
    const page = await context.newPage();
    const complaints: string[] = [];
    const requests: string[] = [];
    page.on('console', (message) => {
      if (message.type() === 'error' || message.type() === 'warning')
        complaints.push(message.text());
    });
    page.on('pageerror', (error) => complaints.push(String(error)));
    page.on('request', (request) => {
      if (!request.url().startsWith('data:')) requests.push(request.url());
    });
    await page.goto(site.url(name));
    await settled(page);
    const result = await look(page);
    assert.deepEqual(complaints, [], 'nothing on the console');
    assert.deepEqual(requests, [site.url(name)], 'one request, the file itself');
    await context.close();
    return result;
  }

  /** The paper's table in place of percentiles. */
  const lowQ = async (page: Page): Promise<void> =>
    page.getByRole('radio', { name: 'Low q' }).check({ force: true });

  for (const name of [
    'bench.html',
    'unwatched.html',
    'hour.html',
    'bus.html',
    'robot.html',
    'empty.html',
  ]) {
    for (const dark of [false, true]) {
      test(`${name} has no accessibility violation, ${dark ? 'dark' : 'light'}`, async () => {
        const axe = readFileSync(
          createRequire(`${root}/package.json`).resolve('axe-core/axe.min.js'),
          'utf8',
        );
        await opened(name, { dark }, async (page) => {
          const more = page.locator('#spikes .more');
          if ((await more.count()) > 1) for (const i of [0, 1]) await more.nth(i).click();
          await page.evaluate(axe);
          const violations = await page.evaluate(async () => {
            const api = (
              globalThis as unknown as {
                axe: {
                  run: (o: object) => Promise<{
                    violations: {
                      id: string;
                      nodes: { html: string; failureSummary?: string }[];
                    }[];
                  }>;
                };
              }
            ).axe;
            return (await api.run({ resultTypes: ['violations'] })).violations.map(
              ({ id, nodes }) =>
                `${id}: ${nodes.length} such as ${nodes[0]!.html.slice(0, 160)} ${nodes[0]!.failureSummary?.slice(0, 300)}`,
            );
          });
          assert.deepEqual(violations, []);
        });
      });
    }
  }

  for (const width of [360, 400, 420, 768, 1280]) {
    test(`the body never scrolls sideways at ${width} px`, async () => {
      for (const name of ['bench.html', 'hour.html', 'bus.html', 'robot.html']) {
        await opened(name, { width }, async (page) => {
          if ((await page.locator('#spikes .more').count()) > 0)
            await page.locator('#spikes .more').first().click();
          assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= width);
          const wide = await page.evaluate(
            (limit) =>
              [...document.querySelectorAll('main *')]
                .filter(
                  (e) =>
                    e.closest('.scroll, .vh, svg, .plot') === null &&
                    e.getBoundingClientRect().right > limit + 1,
                )
                .map((e) => `${e.tagName}.${e.className}`),
            width,
          );
          assert.deepEqual(wide, []);
          const overfull = await page.evaluate(() =>
            [
              ...document.querySelectorAll(
                'main :is(dd, dt, td, th, p, li, b, button, legend, summary, .chip, .badge, .total)',
              ),
            ]
              .filter(
                (box) =>
                  box.closest('.vh, .choice legend, .divided, .stretch, .plot, .lanes, .device') ===
                    null &&
                  box.clientWidth > 0 &&
                  box.scrollWidth > box.clientWidth + 1,
              )
              .map((box) => `${box.tagName}.${box.className}: ${box.textContent?.slice(0, 60)}`),
          );
          assert.deepEqual(overfull, [], 'words wider than their box');
        });
      }
    });
  }

  for (const [width, height] of [
    [1400, 900],
    [390, 844],
  ] as const) {
    for (const name of ['bench.html', 'hour.html']) {
      test(`the first screen of ${name} has verdict, sentence, chart and figures, ${width} × ${height}`, async () => {
        await opened(name, { width, height }, async (page) => {
          const bottoms = await page.evaluate(() =>
            ['.badge', 'h1', '.hero .plot canvas', '.numbers table'].map(
              (part) => document.querySelector(`#verdict ${part}`)!.getBoundingClientRect().bottom,
            ),
          );
          assert.ok(
            bottoms.every((bottom) => bottom > 0 && bottom <= height),
            `${bottoms.join(', ')} of ${height}`,
          );
        });
      });
    }
  }

  test('before and after in numbers are the summary’s, under the load that decides', async () => {
    await opened('bench.html', {}, async (page) => {
      const { summary } = readText(bench(3, 5), 'bench');
      const cells = ['none', 'PMCS'].map((tuning) =>
        summary!.cells.find((cell) => cell.tuning === tuning && cell.load === 'paper')!,
      );
      const rows = await page
        .locator('.numbers tbody tr')
        .evaluateAll((all) =>
          all.map((row) => [...row.children].map((cell) => cell.textContent!.replace('°', ''))),
        );
      assert.deepEqual(
        rows.map(([name]) => name),
        ['p50', 'p99', 'p99.9', 'p99.99', 'max', 'over 100\u00a0µs', 'missed or skipped'],
      );
      for (const [place, p] of [50, 99, 99.9, 99.99].entries())
        assert.deepEqual(
          rows[place]!.slice(1),
          cells.map((cell) =>
            held(
              human(
                cell.series['release_latency']!.percentiles.find((one) => one.p === p)!.value_ns,
              ),
            ),
          ),
        );
      assert.deepEqual(
        rows[4]!.slice(1),
        cells.map((cell) => held(human(cell.series['release_latency']!.max_ns))),
      );
      assert.match(await page.locator('#first h2').innerText(), /under the paper’s load|paper/);
      assert.equal(
        await page.locator('#heat select').inputValue(),
        'PMCS/paper/PMCS-paper.onbeat.hlog',
      );
    });
  });

  test('the worst spikes are those of the whole run, whatever is selected', async () => {
    await opened('bench.html', {}, async (page) => {
      const { summary } = readText(bench(3, 5), 'bench');
      const worst = Math.max(
        ...summary!.cells.flatMap((cell) => cell.spikes.map((spike) => spike.wakeup_latency_ns)),
      );
      const first = page.locator('#spikes tbody tr').first().locator('td').nth(1);
      assert.equal(await first.innerText(), usCell(ns(worst), false));
      for (const tuning of ['none', 'P', 'PMCS'])
        await page.locator(`.picker input[data-cell^="${tuning}/paper/"]`).uncheck({ force: true });
      await page.locator('.picker input').first().check({ force: true });
      assert.equal(await first.innerText(), usCell(ns(worst), false));
      await page.getByRole('checkbox', { name: /only the selected/ }).check();
      assert.notEqual(await first.innerText(), usCell(ns(worst), false));
    });
  });

  test('charts stand two abreast from 1,400 px on, and use the whole width', async () => {
    for (const [width, abreast] of [
      [1280, 1],
      [1400, 2],
      [2560, 2],
    ] as const)
      await opened('bench.html', { width }, async (page) => {
        const [first, second] = await page
          .locator('.charts > .chart')
          .evaluateAll((all) => all.map((one) => one.getBoundingClientRect().toJSON() as DOMRect));
        assert.equal(first!.top === second!.top ? 2 : 1, abreast, `${width} px`);
        const right = Math.max(first!.right, second!.right);
        assert.ok(width - right <= 60, `${width - right} px are left of ${width}`);
      });
  });

  test('every part of the report is there, with the limit’s word', async () => {
    await opened('bench.html', {}, async (page) => {
      assert.match(await page.locator('#verdict').innerText(), /PASS[\s\S]*Yes: PMCS/);
      for (const id of [
        'ladder',
        'matrix',
        'effects',
        'causes',
        'charts',
        'spikes',
        'notes',
        'glossary',
        'distribution',
        'percentiles',
        'maxima',
        'heat',
      ])
        assert.equal(await page.locator(`#${id}`).count(), 1, id);
      assert.equal(await page.locator('.matrix').count(), 2);
      assert.equal(await page.locator('#matrix td.refused').count(), 1);
      await lowQ(page);
      assert.equal(await page.locator('#matrix td.unsupported').count(), 0);
      await page.getByRole('button', { name: 'Show rows without support' }).click();
      assert.ok((await page.locator('#matrix td.unsupported').count()) > 50);
      assert.equal(await page.locator('.plot canvas').count(), 5);
      assert.equal(await page.locator('figure table').count(), 5);
    });
  });

  test('what happened on the bus is listed, alarms first, then event by event', async () => {
    await opened('bus.html', {}, async (page) => {
      assert.match(
        await page.locator('#verdict').innerText(),
        /FAIL[\s\S]*2 bus and robot alarms, 0 allowed/,
      );
      const events = page.locator('#events');
      assert.match(await events.locator('.lead').innerText(), /^2 alarms; 0 allowed\.$/);
      assert.deepEqual(await events.locator('li').allInnerTexts(), [
        'left knee stopped answering at 20.002 s, back in OP after 0.520 s',
      ]);
      await events.locator('summary').click();
      const rows = await events.locator('tbody tr').allInnerTexts();
      assert.equal(rows.length, 4);
      assert.match(rows[2]!, /device lost[\s\S]*left knee does not answer/);
      assert.deepEqual(await events.locator('tbody b').allInnerTexts(), [
        'working counter off',
        'device lost',
      ]);
      assert.match(await page.locator('#maxima').innerText(), /Triangles at the top/);
    });
    await opened('hour.html', {}, async (page) =>
      assert.equal(await page.locator('#events').count(), 0, 'nothing happened'),
    );
  });

  test('figures in the matrix are the summary’s', async () => {
    await opened('bench.html', {}, async (page) => {
      const shown = await page
        .locator('#matrix table')
        .nth(1)
        .locator('tbody tr')
        .nth(1)
        .locator('td')
        .first()
        .innerText();
      assert.match(shown, /^\d+\.\d$/);
      await page.getByRole('radio', { name: 'Observed period' }).check({ force: true });
      const periods = await page
        .locator('#matrix table')
        .nth(0)
        .locator('tbody tr')
        .nth(6)
        .locator('td')
        .allInnerTexts();
      assert.ok(
        periods.every((text) => /^1,0\d\d\.\d°?$/.test(text)),
        periods.join(' '),
      );
    });
  });

  test('the limit is the first row of every matrix, in words and in its colour', async () => {
    await opened('bench.html', {}, async (page) => {
      for (const table of await page.locator('#matrix table').all()) {
        const row = table.locator('tbody tr').first();
        assert.match(await row.locator('th').innerText(), /^limit 100 µs$/);
        const words = await row.locator('td:not(.refused)').allInnerTexts();
        assert.ok(
          words.every((word) => /(PASS|FAIL|INCONCLUSIVE)$/.test(word)),
          words.join(' '),
        );
      }
      const colours = async (word: string): Promise<string> =>
        page
          .locator('#matrix td.outcome', { hasText: word })
          .first()
          .evaluate(
            (td) => `${getComputedStyle(td).color} ${getComputedStyle(td).backgroundColor}`,
          );
      assert.equal(new Set([await colours('FAIL'), await colours('INCONCLUSIVE')]).size, 2);
      const cut = await page
        .locator('#matrix td')
        .evaluateAll((cells) =>
          cells
            .filter((cell) => cell.scrollWidth > cell.clientWidth + 1)
            .map((cell) => cell.textContent),
        );
      assert.deepEqual(cut, [], 'a value wider than its box');
    });
    await opened('hour.html', {}, async (page) =>
      assert.deepEqual(
        (await page.locator('#matrix tbody tr').first().locator('td').allInnerTexts()).map((word) =>
          word.trim(),
        ),
        ['✕ FAIL', '–', '–', '–'],
      ),
    );
  });

  test('rows that no cell supports are one row until the reader opens them', async () => {
    await opened('bench.html', {}, async (page) => {
      await lowQ(page);
      const rows = page.locator('#matrix table').first().locator('tbody tr');
      const folded = await rows.count();
      assert.match(
        await page.locator('#matrix tr.folded').first().innerText(),
        /Low 99\.99, 99\.999\s%\s+fewer than 10 samples beyond this value/,
      );
      await page.getByRole('button', { name: 'Show rows without support' }).click();
      assert.equal(await rows.count(), folded + 5);
      assert.equal(await page.locator('#matrix tr.folded').count(), 0);
      await page.getByRole('button', { name: 'Hide rows without support' }).click();
      assert.equal(await rows.count(), folded);
    });
  });

  test('the keyboard reaches the matrix and chooses a column', async () => {
    await opened('bench.html', {}, async (page) => {
      for (let i = 0; i < 120; i++) {
        await page.keyboard.press('Tab');
        if (
          await page.evaluate(
            () => document.activeElement?.matches('#matrix button.column') ?? false,
          )
        )
          break;
      }
      assert.equal(
        await page.evaluate(() => document.activeElement?.getAttribute('aria-pressed')),
        'false',
      );
      await page.keyboard.press('Enter');
      assert.equal(
        await page.evaluate(() => document.activeElement?.getAttribute('aria-pressed')),
        'true',
      );
      assert.equal(await page.locator('.picker input:checked').count(), 4);
    });
  });

  test('arrow keys move a chart’s cursor and say the value', async () => {
    await opened('bench.html', {}, async (page) => {
      for (const id of ['distribution', 'percentiles', 'maxima', 'heat']) {
        await page.locator(`#${id} .plot`).focus();
        for (let i = 0; i < 4; i++) await page.keyboard.press('ArrowRight');
        const readout = await page.locator(`#${id} > .readout`).innerText();
        assert.match(readout, /\d/, id);
        await page.waitForFunction(
          (said) => document.getElementById('live')!.innerText === said,
          readout,
        );
      }
    });
  });

  test('zooming in time narrows every chart and the spike list, and Escape takes it back', async () => {
    await opened('bench.html', {}, async (page) => {
      const samples = async (): Promise<string> =>
        page
          .locator('#distribution table tbody td')
          .first()
          .evaluate((td) => td.textContent ?? '');
      const [all, spikes] = [await samples(), await page.locator('#spikes tbody tr').count()];
      await page.locator('#maxima .plot').focus();
      for (const key of ['w', 'w', 'd', '+']) await page.keyboard.press(key);
      await settled(page);
      assert.notEqual(await samples(), all);
      assert.match(await page.locator('.bar .range').innerText(), / to .*Show all/s);
      await page.keyboard.press('Escape');
      await settled(page);
      assert.equal(await samples(), all);
      assert.equal(await page.locator('#spikes tbody tr').count(), spikes);
      const box = (await page.locator('#maxima .u-over').boundingBox())!;
      await page.mouse.move(box.x + 100, box.y + 80);
      await page.mouse.down();
      await page.mouse.move(box.x + 400, box.y + 90, { steps: 4 });
      await page.mouse.up();
      await settled(page);
      assert.notEqual(await samples(), all);
    });
  });

  for (const [name, dark, width] of [
    ['bench.html', true, 1280],
    ['bench.html', false, 1400],
    ['bench.html', false, 2560],
    ['hour.html', false, 1280],
    ['bus.html', true, 1280],
  ] as const) {
    test(`printed from ${width} px, ${name} is light, nothing is wider than the paper, and no chart or matrix higher`, async () => {
      await opened(name, { dark, width }, async (page) => {
        await page.evaluate(() =>
          document.querySelectorAll('details').forEach((one) => {
            one.open = true;
          }),
        );
        if ((await page.locator('#spikes .more').count()) > 0)
          await page.locator('#spikes .more').first().click();
        await page.evaluate(() => dispatchEvent(new Event('beforeprint')));
        const { theme, wide, high, darkInk } = await page.evaluate((pageHeight) => {
          const outside = (element: Element): boolean =>
            element.closest('.vh') === null &&
            element.getBoundingClientRect().width > 0 &&
            element.getBoundingClientRect().right > 691;
          const hasInk = (canvas: HTMLCanvasElement): boolean => {
            const { data } = canvas.getContext('2d')!.getImageData(0, 0, canvas.width, 60);
            for (let i = 0; i < data.length; i += 4)
              if (data[i]! < 40 && data[i + 1]! < 40 && data[i + 2]! < 45 && data[i + 3]! > 250)
                return true;
            return false;
          };
          const isHigh = (element: Element): boolean =>
            element.getBoundingClientRect().height > pageHeight;
          return {
            theme: document.documentElement.dataset['theme'],
            high: [...document.querySelectorAll('figure, .lanes, .matrices > div')]
              .filter(isHigh)
              .map((one) => `${one.tagName}.${one.className}`),
            wide: [...document.querySelectorAll('main *')]
              .filter(outside)
              .map((one) => `${one.tagName}.${one.className}`),
            darkInk: [...document.querySelectorAll<HTMLCanvasElement>('.plot canvas')].map(hasInk),
          };
        }, LETTER_PX);
        assert.equal(theme, 'light');
        assert.deepEqual([wide, high], [[], []]);
        assert.deepEqual(
          darkInk,
          [true, true, true, true, true],
          'every chart is drawn in the ink of the light theme',
        );
        await page.evaluate(() => dispatchEvent(new Event('afterprint')));
        assert.equal(
          await page.evaluate(() => document.documentElement.dataset['theme']),
          dark ? 'dark' : 'light',
        );
        assert.equal(
          await page.evaluate(
            () => document.querySelector<HTMLCanvasElement>('.plot canvas')!.width,
          ),
          await page
            .locator('.plot')
            .first()
            .evaluate((plot) => plot.clientWidth),
        );
      });
    });
  }

  test('the question mark lists the keys and closes them again', async () => {
    await opened('hour.html', {}, async (page) => {
      await page.keyboard.press('?');
      assert.equal(await page.locator('dialog[open]').count(), 1);
      await page.keyboard.press('Escape');
      assert.equal(await page.locator('dialog[open]').count(), 0);
    });
  });

  test('the theme follows the system until the reader chooses', async () => {
    await opened('hour.html', { dark: true }, async (page) => {
      const background = (): Promise<string> =>
        page.evaluate(() => getComputedStyle(document.body).backgroundColor);
      const dark = await background();
      await page.getByRole('radio', { name: 'Light' }).check({ force: true });
      assert.notEqual(await background(), dark);
      assert.equal(await page.evaluate(() => document.documentElement.dataset['theme']), 'light');
    });
  });

  test('columns of the list sort, both ways', async () => {
    await opened('bench.html', {}, async (page) => {
      const first = (): Promise<string> => page.locator('#spikes tbody tr td').nth(1).innerText();
      const worst = await first();
      assert.equal(await page.locator('#spikes th[aria-sort]').count(), 0);
      for (const order of ['descending', 'ascending']) {
        await page.locator('#spikes th button', { hasText: 'wake-up latency' }).click();
        assert.equal(
          await page.locator('#spikes th[aria-sort]').first().getAttribute('aria-sort'),
          order,
        );
      }
      assert.notEqual(await first(), worst);
    });
  });

  test('a spike has the time that the terminal prints: seconds since its recording began, wherever its block stands', async () => {
    const made = runFile({
      tuning: 'P',
      load: 'idle',
      interval: 1,
      start: 1e9,
      dice: 4,
      cell: true,
      tags: ['wakeup_latency'],
      blocks: [
        { t: 0, seconds: 3, load: 'idle' },
        { t: 70, seconds: 3, load: 'idle' },
      ],
    });
    const worst = {
      t: 71.2345,
      index: 4200,
      block: 1,
      wakeup_latency_ns: 300e6,
      execution_time_ns: 21e3,
      skipped: 0,
      stall: null,
    };
    const text = `${made.text}#[onbeat: ${JSON.stringify({ spike: worst })}]\n`;
    await opened('empty.html', {}, async (page) => {
      await page
        .locator('#files')
        .setInputFiles([
          { name: 'P-idle.onbeat.hlog', mimeType: 'text/plain', buffer: Buffer.from(text) },
        ]);
      const row = page.locator('#spikes tbody tr', { hasText: '300,000' });
      await row.waitFor();
      const column = (await page.locator('#spikes thead th').allInnerTexts()).findIndex((name) =>
        name.startsWith('at, s'),
      );
      assert.equal(await row.locator('td').nth(column).innerText(), '71.234');
    });
  });

  test('causes stand by cell, by number or by lateness, with a table and advice', async () => {
    await opened('bench.html', {}, async (page) => {
      assert.match(
        await page.locator('#causes').innerText(),
        /With no added load, 62 spikes[\s\S]+causes account for [\d.]+\s% of their lateness[\s\S]+keep other threads off this CPU/,
      );
      const rows = await page.locator('#causes .cause-row').count();
      assert.ok(rows > 3);
      assert.equal(await page.locator('#causes .vh table tbody tr').count(), rows);
      const total = page.locator('#causes .total').first();
      assert.match(await total.innerText(), /^[\d,]+ spikes?$/);
      await page.getByRole('radio', { name: 'Lateness' }).check({ force: true });
      assert.match(await total.innerText(), /^[\d.,]+ (µs|ms|s)$/);
      const { whole, parts } = await page
        .locator('#causes .divided')
        .first()
        .evaluate((bar) => ({
          whole: bar.getBoundingClientRect().width,
          parts: [...bar.children].reduce(
            (sum, part) => sum + part.getBoundingClientRect().width,
            bar.children.length - 1,
          ),
        }));
      assert.ok(whole > 300 && Math.abs(whole - parts) < 1);
    });
  });

  test('what was not as wanted stands beside the causes: what concerns this run first, eight open and the rest on request', async () => {
    await opened('bench.html', {}, async (page) => {
      const part = page.locator('#findings');
      assert.match(
        await part.innerText(),
        /When the run began, 11 settings differed from the recommended value/,
      );
      const rows = await part.locator('table').first().locator('tbody tr').allInnerTexts();
      assert.equal(rows.length, 8);
      assert.match(rows[0]!, /shield\.threads[\s\S]+tens to hundreds of µs/);
      assert.match(
        rows[1]!,
        /irq\.affinity[\s\S]+interrupt 24 \(ACPI:Ged\): CPUs 0-1 → no CPU of 1[\s\S]+up to milliseconds[\s\S]+\d of [\d,]+ spikes, \d+\s% of their lateness/,
      );
      assert.match(rows[7]!, /no spike of this run/);
      await part.getByText('3 more').click();
      assert.equal(await part.locator('tbody tr').count(), 11);
    });
  });

  test('what ran around a spike is read with the keyboard and with the pointer, in nanoseconds', async () => {
    await opened('bench.html', {}, async (page) => {
      await page.locator('#spikes .more').first().click();
      const lanes = page.locator('#spikes .lanes').first();
      const readout = page.locator('#spikes .around .readout').first();
      await lanes.focus();
      await page.keyboard.press('ArrowRight');
      assert.match(
        await readout.innerText(),
        /^onbeat-load \(thread 17594, nice 0, preempted\): [\d,]+ ns, starting 400 µs before the programmed expiry$/,
      );
      await page.keyboard.press('ArrowRight');
      assert.match(
        await readout.innerText(),
        /^timer interrupt \(hrtimer_wakeup\): 6,000 ns, starting [\d.]+ [µm]s after/,
      );
      await page.evaluate(() => (document.activeElement as HTMLElement).blur());
      await lanes.locator('[data-lane="softirqs"] .stretch').first().hover();
      assert.match(await readout.innerText(), /^softirq NET_RX: [\d,]+ ns/);
      const [track, late] = await Promise.all(
        [lanes.locator('.track').first(), lanes.locator('.late').first()].map((of) =>
          of.boundingBox(),
        ),
      );
      assert.ok(
        late!.width > track!.width * 0.5 && late!.width < track!.width,
        'the lateness is a band with room beside it',
      );
      await page.locator('#spikes .around label', { hasText: 'All events' }).first().click();
      assert.equal(await lanes.locator('.gap').count(), 1, 'missing events show');
      assert.match(
        await page.locator('#spikes .around').first().innerText(),
        /17 events farther away were dropped[\s\S]+onbeat export RUN --cell \S+ --spike \d+ --perfetto FILE/,
      );
    });
  });

  test('a spike’s causes open and close with the keyboard and stay open when the list is sorted', async () => {
    await opened('bench.html', {}, async (page) => {
      const more = page.locator('#spikes .more').first();
      const words = await more.innerText();
      await more.focus();
      await page.keyboard.press('Enter');
      assert.equal(
        await page.evaluate(() => document.activeElement?.getAttribute('aria-expanded')),
        'true',
      );
      const under = page.locator('#spikes .under:visible');
      assert.equal(await under.count(), 1);
      assert.match(await under.innerText(), /of lateness, by cause:[\s\S]+%[\s\S]+To reduce it: /);
      assert.equal(await under.locator('.divided > *').count(), await under.locator('li').count());
      assert.ok(
        words.replace(/\s+/g, ' ').includes(await under.locator('li b').nth(1).innerText()),
      );
      await page.locator('#spikes th button', { hasText: 'wake-up latency' }).click();
      assert.equal(await under.count(), 1);
      await page.locator('#spikes .more[aria-expanded="true"]').focus();
      await page.keyboard.press('Space');
      assert.equal(await under.count(), 0);
    });
  });

  test('without causes the page says that they were not analysed, and the list has no empty column', async () => {
    await opened('unwatched.html', {}, async (page) => {
      assert.match(await page.locator('#causes').innerText(), /Not analysed/);
      assert.equal(await page.locator('#spikes th button', { hasText: /^cause/ }).count(), 0);
      assert.ok((await page.locator('#spikes tbody tr').count()) > 0);
    });
  });

  test('a run without samples says so, and has neither empty charts nor shares of nothing', async () => {
    await opened('nothing.html', {}, async (page) => {
      const words = await page.locator('#verdict .words').innerText();
      assert.match(words, /INCONCLUSIVE\s+No samples were recorded/);
      assert.equal(await page.locator('.numbers, .chart, #matrix, .bar').count(), 0);
      assert.match(await page.locator('#charts').innerText(), /No samples were recorded/);
    });
  });

  test('a dropped file without a summary is shown, and its figures are called what they are', async () => {
    await opened('empty.html', {}, async (page) => {
      assert.match(await page.locator('h1').innerText(), /No recording/);
      await page.locator('#files').setInputFiles(fileURLToPath(site.url('PM-idle.onbeat.hlog')));
      await page.waitForSelector('#matrix');
      await settled(page);
      assert.match(await page.locator('#matrix .note').innerText(), /Computed from the histograms/);
      assert.equal(await page.locator('.plot canvas').count(), 5);
      const [title, read] = [page.locator('h1'), await page.locator('h1').innerText()];
      const file = (name: string, bytes: number[] | string) => ({
        name,
        mimeType: 'application/octet-stream',
        buffer: Buffer.from(bytes as string),
      });
      const csv = file('x.csv', 'time,a,b,c\n0.1,2,3,4\n');
      await page
        .locator('#files')
        .setInputFiles([csv, file('x.gz', [0x1f, 0x8b, 8, 0, 1, 2, 3, 4, 5, 6, 7, 8])]);
      await page.waitForSelector('#refused');
      assert.match(
        await page.locator('#refused').innerText(),
        /Not read: x.csv \(no histogram lines\), x.gz \(damaged or truncated gzip data\)\. .*onbeat import/,
      );
      assert.equal(await title.innerText(), read, 'what is open stays open');
    });
  });

  test('a spike with hundreds of causes has one entry for each kind and culprit; the largest ones stand open', async () => {
    await opened('empty.html', {}, async (page) => {
      await page.locator('#files').setInputFiles(fileURLToPath(site.url('crowd.onbeat.hlog')));
      await page.waitForSelector('#spikes .more');
      const height = (): Promise<number> =>
        page.evaluate(() => document.documentElement.scrollHeight);
      const before = await height();
      const more = page.locator('#spikes .more').first();
      assert.match(await more.innerText(), /preempted by hackbench and 12 more/);
      await more.click();
      const shown = page.locator('#spikes .why > ol > li');
      assert.equal(await shown.count(), 8);
      assert.match(
        await shown.first().innerText(),
        /^Pr\s+preempted by hackbench 245\sms[\s\S]+688 times, 700\sµs at most: hackbench \[2000\] ran/,
      );
      assert.equal(
        await page.locator('#spikes .divided > *').count(),
        9,
        'a piece for each entry, and one for the rest of the kind',
      );
      assert.ok((await height()) - before < 2500, `${before} px became ${await height()} px`);

      const all = shown.first().locator('details');
      await all.locator('summary', { hasText: 'All 688' }).click();
      await all.locator('li').nth(687).waitFor();
      assert.deepEqual(
        [await all.locator('li').count(), await all.locator('li').first().innerText()],
        [688, 'hackbench [2000], nice 0\n700\u00a0µs'],
      );

      const rest = page.locator('#spikes .why > details');
      assert.match(await rest.locator('summary').innerText(), /^5 more causes, /);
      await rest.locator('summary').click();
      await rest.locator('li').nth(4).waitFor();
      assert.equal(await rest.locator('li').count(), 5);
    });
  });

  test('data that cannot be read is said, not swallowed', async () => {
    await opened('broken.html', {}, async (page) =>
      assert.match(await page.locator('h1').innerText(), /could not be read|holds nothing/),
    );
  });
});
