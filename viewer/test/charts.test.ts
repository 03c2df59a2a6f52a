// What the charts show and give away: legend, titles, limit, one cursor, pictures and figures.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import type { Browser, Page } from 'playwright-core';
import { CHROMIUM, launch, NO_CHROMIUM, pages, settled } from './browser.ts';
import { collisions, noteWriting, writing } from './canvas.ts';
import { bench, filled, hour, switchedOff } from './fixture.ts';
import { apart } from '../src/charts/marks.ts';

const CHARTS = ['distribution', 'percentiles', 'maxima', 'heat'];

describe('charts in Chromium', { skip: CHROMIUM === undefined ? NO_CHROMIUM : false }, () => {
  let browser: Browser;
  let site: ReturnType<typeof pages>;
  before(async () => {
    browser = await launch();
    site = pages({
      'bench.html': filled(bench(3, 5)),
      'hour.html': filled(hour(600)),
      'bus.html': filled(switchedOff()),
    });
  });
  after(async () => {
    await browser?.close();
    site?.done();
  });

  async function opened<T>(
    name: string,
    width: number,
    look: (page: Page) => Promise<T>,
  ): Promise<T> {
    const context = await browser.newContext({
      viewport: { width, height: 900 },
      acceptDownloads: true,
    });
    const page = await context.newPage();
    const complaints: string[] = [];
    page.on('console', (message) => {
      if (['error', 'warning'].includes(message.type())) complaints.push(message.text());
    });
    page.on('pageerror', (error) => complaints.push(String(error)));
    await noteWriting(page);
    await page.goto(site.url(name));
    await settled(page);
    assert.equal(await page.locator('.plot canvas').count(), 5);
    const result = await look(page);
    assert.deepEqual(complaints, []);
    await context.close();
    return result;
  }

  test('every chart has its legend, the titles of its axes and the limit inside', async () => {
    await opened('bench.html', 1280, async (page) => {
      const all = await writing(page);
      const of = (chart: string): string[] =>
        all.filter((one) => one.chart === chart).map(({ text }) => text);
      for (const chart of CHARTS) {
        assert.ok(
          of(chart).some((text) => /limit 100 µs/.test(text)),
          `${chart}: ${of(chart).join(' | ')}`,
        );
        assert.ok(
          of(chart).some((text) => /release latency/.test(text)),
          chart,
        );
      }
      for (const chart of CHARTS.slice(0, 3))
        for (const cell of ['none · paper', 'P · paper', 'PMCS · paper'])
          assert.ok(of(chart).includes(cell), `${chart}: ${cell}`);
      assert.ok(
        of('heat').some((text) => /^1 to [\d,]+ samples$/.test(text)) &&
          of('heat').includes('PMCS · paper'),
      );
      assert.ok(
        of('distribution').includes('samples') &&
          of('maxima').includes('measured time') &&
          of('heat').includes('measured time'),
      );
      await page.getByRole('radio', { name: 'Response time' }).check({ force: true });
      await settled(page);
      assert.equal(
        (await writing(page)).filter(({ chart, text }) => chart !== 'first' && /limit/.test(text))
          .length,
        0,
        'the limit is on another series',
      );
    });
  });

  test('the limit is in every chart of conclusions', async () => {
    await opened('hour.html', 1280, async (page) => {
      const limits = await page
        .locator('.small-plot')
        .evaluateAll((drawings) =>
          drawings.map((drawing) => drawing.querySelector('.limit-words')?.textContent ?? 'none'),
        );
      assert.ok(
        limits.length >= 4 && limits.every((words) => /limit 150 µs/.test(words)),
        limits.join(' | '),
      );
    });
  });

  test('what ran around a spike is saved as a picture, and as its slices in nanoseconds', async () => {
    await opened('bench.html', 1280, async (page) => {
      await page.locator('#spikes .more').first().click();
      const saved = async (kind: string): Promise<Buffer> => {
        const [download] = await Promise.all([
          page.waitForEvent('download'),
          page.locator('#spikes .around .zoom button', { hasText: kind }).first().click(),
        ]);
        return readFileSync(await download.path());
      };
      const picture = await saved('PNG');
      assert.ok(
        picture.subarray(1, 4).toString() === 'PNG' &&
          picture.readUInt32BE(16) === 1920 &&
          picture.length > 3000,
        `${picture.length} bytes`,
      );
      const [head, ...lines] = (await saved('CSV')).toString().trimEnd().split('\n');
      assert.equal(head, 'lane,name,detail,from_ns,to_ns');
      assert.ok(
        lines.some((line) => /^softirqs,NET_RX,softirq,\d+,\d+$/.test(line)),
        lines.join('\n'),
      );
    });
  });

  for (const width of [360, 400, 420, 768, 1280]) {
    test(`no words run into each other or over a chart’s edge at ${width} px`, async () => {
      for (const name of ['bench.html', 'hour.html', 'bus.html']) {
        await opened(name, width, async (page) => {
          assert.deepEqual(collisions(await writing(page)), [], name);
          for (const axis of ['linear', 'log']) {
            await page.getByRole('radio', { name: axis, exact: true }).check({ force: true });
            await settled(page);
            assert.deepEqual(collisions(await writing(page)), [], `${name}, ${axis} axis`);
          }
        });
      }
    });
  }

  test('the axis of values is logarithmic where the tail is long, and as the reader chooses', async () => {
    await opened('bench.html', 1280, async (page) => {
      const words = async (): Promise<string> =>
        (await writing(page))
          .filter(({ chart }) => chart === 'distribution')
          .map(({ text }) => text)
          .join(' ');
      assert.match(await words(), /10 µs 100 µs 1 ms 10 ms/);
      assert.match(
        await page.locator('#distribution .beyond').innerText(),
        /^none · paper largest \d/,
      );
      await page.getByRole('radio', { name: 'linear', exact: true }).check({ force: true });
      await settled(page);
      assert.match(await words(), /beyond/);
      assert.match(await page.locator('#distribution .beyond').innerText(), /[\d,]+ beyond/);
      await page.getByRole('radio', { name: 'auto axis' }).check({ force: true });
      await page.getByRole('radio', { name: 'Observed period' }).check({ force: true });
      await settled(page);
      assert.match(await words(), /beyond/, 'a period has an even axis');
    });
  });

  test('maxima and heat map have one cursor', async () => {
    await opened('bench.html', 1280, async (page) => {
      for (const [here, there] of [
        ['maxima', 'heat'],
        ['heat', 'maxima'],
      ] as const) {
        await page.locator(`#${here}`).scrollIntoViewIfNeeded();
        const box = (await page.locator(`#${here} .u-over`).boundingBox())!;
        await page.mouse.move(box.x + box.width / 3, box.y + 40);
        const at = async (chart: string): Promise<number> =>
          page
            .locator(`#${chart} .u-cursor-x`)
            .evaluate((line) => line.getBoundingClientRect().left);
        assert.ok(
          Math.abs((await at(here)) - (await at(there))) <= 1,
          `${await at(here)} and ${await at(there)}`,
        );
        assert.match(await page.locator(`#${there} > .readout`).innerText(), /^at \d/);
        await page.mouse.move(box.x + box.width / 3, box.y - 200);
        assert.equal(await page.locator(`#${there} > .readout`).innerText(), '');
      }
    });
  });

  test('charts of conclusions have their legend inside, and are saved too', async () => {
    for (const width of [360, 1280]) {
      await opened('hour.html', width, async (page) => {
        const plots = page.locator('.chart.small');
        assert.ok((await plots.count()) >= 3);
        const faults = await page.locator('.small-plot').evaluateAll((drawings) =>
          drawings.flatMap((drawing) => {
            const edge = drawing.getBoundingClientRect();
            const boxes = [...drawing.querySelectorAll('text')]
              .filter(({ textContent }) => textContent !== '')
              .map((text) => ({ words: text.textContent, box: text.getBoundingClientRect() }));
            return boxes.flatMap((a, i) => [
              ...(a.box.left < edge.left - 1 || a.box.right > edge.right + 1
                ? [`“${a.words}” is cut off`]
                : []),
              ...boxes
                .slice(i + 1)
                .filter(
                  (b) =>
                    Math.min(a.box.right, b.box.right) - Math.max(a.box.left, b.box.left) > 1 &&
                    Math.min(a.box.bottom, b.box.bottom) - Math.max(a.box.top, b.box.top) > 4,
                )
                .map((b) => `“${a.words}” and “${b.words}”`),
            ]);
          }),
        );
        assert.deepEqual(faults, []);
        for (const [kind, begin] of [
          ['PNG', Buffer.from([0x89, 0x50])],
          ['CSV', Buffer.from('time_s,')],
        ] as const) {
          const [download] = await Promise.all([
            page.waitForEvent('download'),
            plots.first().locator('.zoom button', { hasText: kind }).click(),
          ]);
          const content = readFileSync(await download.path());
          assert.ok(
            content.subarray(0, begin.length).equals(begin) && content.length > 300,
            `${kind}: ${content.length} bytes`,
          );
        }
      });
    }
  });

  test('cause bars and forest plots are saved as pictures, and as their figures', async () => {
    await opened('bench.html', 1280, async (page) => {
      for (const [section, head] of [
        ['causes', 'cell,cause,spikes,lateness_ns,accounted_ns,worst_ns'],
        ['effects', 'tuning,load,metric,ratio,low,high'],
      ] as const) {
        const saved = async (kind: string): Promise<Buffer> => {
          const [download] = await Promise.all([
            page.waitForEvent('download'),
            page.locator(`#${section} .zoom button`, { hasText: kind }).first().click(),
          ]);
          return readFileSync(await download.path());
        };
        const picture = await saved('PNG');
        assert.equal(picture.subarray(1, 4).toString(), 'PNG');
        assert.ok(
          picture.readUInt32BE(16) === 1920 && picture.length > 3000,
          `${section}: ${picture.length} bytes`,
        );
        const lines = (await saved('CSV')).toString().trimEnd().split('\n');
        assert.equal(lines[0], head);
        assert.ok(lines.length > 2, section);
      }
    });
  });

  test('every chart is saved as a picture, and as figures with their units', async () => {
    await opened('hour.html', 1280, async (page) => {
      const heads = {
        distribution: 'cell,smallest_ns,largest_ns,samples',
        percentiles: 'cell,percentile_percent,value_ns,samples_above,supported',
        maxima: 'cell,from_s,to_s,largest_ns',
        heat: 'cell,from_s,to_s,smallest_ns,largest_ns,samples',
      };
      for (const chart of CHARTS) {
        const saved = async (kind: string): Promise<{ name: string; content: Buffer }> => {
          const [download] = await Promise.all([
            page.waitForEvent('download'),
            page.locator(`#${chart} .zoom button`, { hasText: kind }).click(),
          ]);
          return {
            name: download.suggestedFilename(),
            content: readFileSync(await download.path()),
          };
        };
        const picture = await saved('PNG');
        assert.match(picture.name, /^onbeat-[a-z-]+-release-latency\.png$/);
        assert.equal(picture.content.subarray(1, 4).toString(), 'PNG');
        assert.ok(picture.content.readUInt32BE(16) > 900 && picture.content.length > 5000);
        const [head, ...lines] = (await saved('CSV')).content.toString().trimEnd().split('\n');
        assert.equal(head, heads[chart as keyof typeof heads]);
        const samples = Number(
          (await page
            .locator('#distribution table tbody td')
            .first()
            .evaluate((td) => td.textContent))!.replaceAll(',', ''),
        );
        if (head!.endsWith(',samples'))
          assert.equal(
            lines.reduce((sum, line) => sum + Number(line.split(',').at(-1)), 0),
            samples,
            chart,
          );
        if (chart === 'maxima') assert.equal(lines.length, 600);
      }
    });
  });
});

test('labels that run into others give way, those of decades last', () => {
  const [words, places] = [
    ['50', '100', '200', '500', ''],
    [10, 22, 36, 80, 90],
  ];
  const width = (word: string): number => 8 * word.length;
  assert.deepEqual(apart(words, places, 100, width), ['50', '', '200', '500', '']);
  const decades = apart(words, places, 100, width, (i) => i === 1);
  assert.deepEqual(decades, ['', '100', '', '500', '']);
  assert.deepEqual(apart(['out'], [95], 100, width), ['']);
});
