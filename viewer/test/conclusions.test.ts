import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Browser } from 'playwright-core';
import { evenMarks, logMarks, timeMarks } from '../src/charts/small.ts';
import { curvesOf, length } from '../src/sections/modes.ts';
import { ns } from '../src/units.ts';
import { CHROMIUM, launch, NO_CHROMIUM, pages } from './browser.ts';
import { concluded, refused } from './concluded.ts';
import { filled, hour } from './fixture.ts';

test('marks of an axis are round, few and inside', () => {
  assert.deepEqual(
    evenMarks(0, 100, 5, String).map(({ at }) => at),
    [0, 20, 40, 60, 80, 100],
  );
  assert.deepEqual(
    timeMarks(-32, 286, 6, String).map(({ at }) => at),
    [0, 60, 120, 180, 240],
  );
  assert.deepEqual(
    logMarks(1, 1e6, String).map(({ at }) => at),
    [1, 10, 100, 1000, 10_000, 100_000, 1e6],
  );
  for (const [from, to] of [
    [7, 4100],
    [80, 330],
    [0.5, 9e7],
  ] as const) {
    const marks = logMarks(from, to, String);
    assert.ok(
      marks.length >= 2 &&
        marks.length <= 9 &&
        marks.every(({ at }) => at >= from * 0.99 && at <= to * 1.01),
      JSON.stringify(marks),
    );
  }
});

test('periods read as people say them', () => {
  assert.deepEqual([0.007, 5, 318].map(length), ['7.00 ms', '5 s', '5 min 18 s']);
});

test('a mode of single cycles is drawn by the largest values, a level by median and 90th percentile', () => {
  const [level, single] = concluded.modes.found;
  assert.deepEqual(
    curvesOf(level!).map(({ name }) => name),
    ['p50', 'p90'],
  );
  assert.deepEqual(
    curvesOf(single!).map(({ name }) => name),
    ['p50', 'max'],
  );
});

describe('conclusions in Chromium', { skip: CHROMIUM === undefined ? NO_CHROMIUM : false }, () => {
  let browser: Browser;
  let site: ReturnType<typeof pages>;
  before(async () => {
    browser = await launch();
    site = pages({
      'found.html': filled(hour(60, 6, concluded)),
      'refused.html': filled(hour(60, 6, refused)),
      'negative.html': filled(
        hour(60, 6, { ...concluded, normal: { ...concluded.normal!, normal_max_ns: ns(-732) } }),
      ),
    });
  });
  after(async () => {
    await browser.close();
    site.done();
  });

  test('every mode has its sentence and its phase plot, and every chart a table behind it', async () => {
    const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
    await page.goto(site.url('found.html'));
    await page.waitForSelector('#modes svg.small-plot');
    assert.equal(await page.locator('#modes svg.small-plot').count(), 2);
    assert.match(
      await page.locator('#modes').innerText(),
      /15\.0\s+s every 5\s+min 18\s+s[\s\S]+periodic in time/,
    );
    assert.equal(await page.locator('#modes .vh table').count(), 2);
    assert.ok(
      (await page.locator('#normal .bin').count()) > 20 &&
        (await page.locator('#normal path.bell').getAttribute('d'))!.length > 50,
    );
    assert.match(
      await page.locator('#normal .list tbody').innerText(),
      /3,600,000[\s\S]+27\.6[\s\S]+5\.03/,
    );
    assert.equal(await page.locator('#extremes circle.seen').count(), 8);
    assert.match(
      await page.locator('#extremes').innerText(),
      /214\sµs to 330\sµs[\s\S]+Anderson–Darling 0\.41, passes up to 0\.78/,
    );
    assert.match(await page.locator('#extremes').innerText(), /does not guarantee a bound/);
    await page.close();
  });

  test('an expected maximum below zero has no place on the axis, and no mark', async () => {
    const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
    await page.goto(site.url('negative.html'));
    await page.waitForSelector('#normal svg.small-plot');
    assert.ok((await page.locator('#normal .bin').count()) > 20);
    assert.equal(await page.locator('#normal path.begin').count(), 0);
    await page.close();
  });

  test('on a narrow screen nothing is wider than the screen', async () => {
    const page = await browser.newPage({ viewport: { width: 400, height: 900 } });
    await page.goto(site.url('found.html'));
    await page.waitForSelector('#extremes svg.small-plot');
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= 400));
    assert.ok(
      await page
        .locator('#extremes svg.small-plot')
        .evaluate((plot) => plot.getBoundingClientRect().width <= 400),
    );
    await page.close();
  });

  test('what was not found and what was refused is said, without an empty chart', async () => {
    const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
    await page.goto(site.url('refused.html'));
    await page.waitForSelector('#extremes');
    assert.match(await page.locator('#modes').innerText(), /Nothing in 600 steps/);
    assert.match(await page.locator('#extremes').innerText(), /400 are needed/);
    assert.equal(await page.locator('svg.small-plot').count(), 0);
    assert.equal(await page.locator('#normal').count(), 0);
    await page.close();
  });
});
