import assert from 'node:assert/strict';
import { test } from 'node:test';
import { holesInWords, joined, stepPoints } from '../src/charts/maxima.ts';
import { clockTick, logRange, logSplits } from '../src/charts/marks.ts';
import { deriveSummary } from '../src/derive.ts';
import { valuesAt } from '../src/histogram.ts';
import { cellEnd, readText, type Resolution } from '../src/hlog.ts';
import { zoomKey } from '../src/keys.ts';
import {
  buildReport,
  extent,
  histogramOf,
  peaks,
  placed,
  type Cell,
  type Peak,
} from '../src/model.ts';
import { alarmsInWords, onlyCounted } from '../src/sections/events.ts';
import { reading } from '../src/sections/effects.ts';
import { weight } from '../src/sections/matrix.ts';
import { collectNotes, folded } from '../src/sections/notes.ts';
import { knownSpikes } from '../src/sections/spikes.ts';
import { firstClause } from '../src/sections/verdict.ts';
import { firstState } from '../src/state.ts';
import { outcomeOfSweep, type CellSummary, type SweepStep } from '../src/summary.ts';
import { contrast, shade, textOn } from '../src/theme.ts';
import { duration, held, human, moment, ns, sec, ticks, usCell } from '../src/units.ts';
import { Recorder } from './encode.ts';
import { bench, hour, runFile } from './fixture.ts';

const text = bench(2, 3);
const { files, summary } = readText(text, 'page');
const report = buildReport(summary!, files);
const cell = (tuning: string, load: string): (typeof report.cells)[number] =>
  report.cells.find((c) => c.tuning === tuning && c.load === load)!;

test('the page’s data is read whole: every file, every series, the summary', () => {
  assert.equal(files.length, 18);
  assert.equal(summary!.schema, 'onbeat.bench/1');
  assert.equal(report.kind, 'bench');
  assert.equal(report.cells.length, 18);
  const pmcs = cell('PMCS', 'paper').file!;
  assert.deepEqual(
    [...pmcs.series.keys()],
    [
      'release_latency',
      'observed_period',
      'execution_time',
      'response_time',
      'sleep_latency',
      'wakeup_latency',
    ],
  );
  assert.equal(pmcs.blocks.length, 2);
  assert.deepEqual(
    files.flatMap((file) => file.problems),
    [],
  );
});

test('the recording holds as many samples as the summary says', () => {
  for (const c of report.cells.filter(({ file }) => file !== null)) {
    for (const [tag, figures] of Object.entries(c.figures.series)) {
      const histogram = histogramOf(report, c, tag, 'own', null)!;
      assert.equal(histogram.total, figures.count, `${c.name} ${tag}`);
      assert.ok(Math.abs(figures.max_ns / histogramMax(c, tag) - 1) < 0.001);
    }
  }
});

const histogramMax = (c: (typeof report.cells)[number], tag: string): number =>
  peaks(report, c, tag, 'own').reduce((a, { max }) => Math.max(a, max), 0);

test('measured time joins a cell’s blocks; the wall clock keeps them apart', () => {
  const c = cell('M', 'idle');
  assert.deepEqual(
    extent(report, [c], 'own').map((t) => Number(t.toFixed(3))),
    [0, 6],
  );
  assert.deepEqual(
    extent(report, [c], 'wall').map((t) => Number(t.toFixed(3))),
    [3, 33],
  );
  assert.deepEqual(
    placed(report, c, 'wakeup_latency', 'own', null).map(({ from }) => Math.round(from)),
    [0, 1, 2, 3, 4, 5],
  );
});

test('stretches that were left out, and where a run was resumed, are read and explained beside their marks', () => {
  const read = readText(hour(60), 'page');
  const [file] = read.files;
  assert.deepEqual(
    file!.exclusions.map(({ t, length, what }) => [t, length, what]),
    [[18, 1.2, 'suspend']],
  );
  assert.deepEqual(
    file!.resumes.map(({ t, unmeasured_s }) => [t, unmeasured_s]),
    [[36, 41.5]],
  );
  const words = holesInWords(buildReport(read.summary!, read.files).cells);
  assert.match(words, /Hatched: excluded.*Dashed line: run resumed/);
  assert.equal(holesInWords([cell('M', 'idle')]), '', 'no marks, no words');
});

test('a time range keeps the intervals that touch it', () => {
  const c = cell('P', 'paper');
  const whole = histogramOf(report, c, 'wakeup_latency', 'own', null)!.total;
  const part = histogramOf(report, c, 'wakeup_latency', 'own', [sec(1), sec(3)])!.total;
  assert.ok(part > 1800 && part < 2100 && part < whole);
  assert.equal(histogramOf(report, c, 'wakeup_latency', 'own', [sec(100), sec(101)]), null);
});

test('the first selection is the untuned cell, one between and the best one', () => {
  const state = firstState(report);
  assert.deepEqual(
    state.slots
      .filter((key) => key !== null)
      .map((key) => report.cells.find((c) => c.key === key)!.name),
    ['none · paper', 'P · paper', 'PMCS · paper'],
  );
  assert.equal(state.tag, 'release_latency');
});

test('of many streams of another tool, the worst and the best are selected first', () => {
  const focus = { load: 'paper', series: 'release_latency', tunings: ['MC', 'P'] };
  const verdict = { ...report.summary.verdict!, best: null };
  const summary = { ...report.summary, order: 'imported', focus, verdict };
  const streams = buildReport(summary, report.files);
  const picked = firstState(streams).slots.filter((key) => key !== null);
  assert.equal(streams.kind, 'files');
  assert.deepEqual(
    picked.map((key) => streams.cells.find((one) => one.key === key)!.name),
    ['MC · paper', 'P · paper'],
  );
});

test('what was cut off, not permitted or substituted is noted', () => {
  const notes = collectNotes(report).map(([who, what]) => `${who}: ${what}`);
  assert.ok(
    notes.some((note) => note.startsWith('PM · idle: truncated; figures from the recorded part')),
  );
  assert.ok(notes.some((note) => note.startsWith('C · paper: not permitted: cpuset')));
  assert.ok(notes.some((note) => note.includes('a part of the load was substituted')));

  const lost = report.summary.cells.map((of) => ({ ...of, lost: 3, notes: ['3 of a summary'] }));
  const notesOf = (derived: boolean): string =>
    collectNotes(buildReport({ ...report.summary, derived, cells: lost }, report.files)).join();
  assert.ok(!notesOf(false).includes('dropped') && notesOf(false).includes('3 of a summary'));
  assert.ok(notesOf(true).includes('3 samples were dropped'));
});

test('a spike that stands in summary and recording is listed once', () => {
  const c = cell('none', 'paper');
  const spikes = knownSpikes(c);
  assert.ok(spikes.length >= c.file!.spikes.length);
  assert.equal(new Set(spikes.map(({ block, index }) => `${block}/${index}`)).size, spikes.length);
});

test('events that were lost or only counted are said, where there is no other', () => {
  const of = (events: CellSummary['events']): Pick<Cell, 'figures' | 'file'> => ({
    figures: { ...cell('P', 'idle').figures, ...(events ? { events } : {}) },
    file: null,
  });
  const none = { alarms: {}, others: {}, lost: 0, left_out: 0, incidents: [], listed: [] };
  const lost = of({ ...none, lost: 12 });
  const lead = 'No alarms, and 12 events of unknown kind lost before the recorder; 0 allowed.';
  assert.equal(alarmsInWords([lost], 0), lead);
  assert.equal(onlyCounted(of({ ...none, alarms: { frame_late: 1002 } })), 1002);
  assert.equal(alarmsInWords([of(undefined)], undefined), 'No alarms.');
});

test('a file that ends anywhere is read up to its last whole line', () => {
  const { text: whole } = runFile({
    tuning: 'P',
    load: 'idle',
    interval: 1,
    start: 1e9,
    dice: 5,
    cell: true,
    tags: ['wakeup_latency'],
    blocks: [{ t: 0, seconds: 4, load: 'idle' }],
  });
  for (let length = 0; length < whole.length; length += 97) {
    const {
      files: [file],
    } = readText(whole.slice(0, length), 'cut');
    if (file === undefined) continue;
    file.series.get('wakeup_latency')?.forEach((line) => line.histogram());
    assert.ok(file.problems.length <= 1, `at ${length}: ${file.problems.join('; ')}`);
    deriveSummary([file]);
  }
});

test('a file without a summary gets figures from its histograms, and exact moments from its notes', () => {
  const made = runFile({
    tuning: 'PM',
    load: 'idle',
    interval: 1,
    start: 1e9,
    dice: 6,
    cell: true,
    tags: ['wakeup_latency', 'observed_period'],
    blocks: [{ t: 0, seconds: 5, load: 'idle' }],
  });
  const derived = deriveSummary(readText(made.text, 'PM-idle.onbeat.hlog').files);
  assert.equal(derived.derived, true);
  const [only] = derived.cells;
  const figures = only!.series['wakeup_latency']!;
  assert.equal(figures.count, 5000);
  assert.equal(figures.max_ns, Math.max(...made.samples['wakeup_latency']!));
  assert.equal(only!.slots, 5000);
  assert.equal(derived.period_ns, 1_000_000);
});

test('wake-up latency is what is left of all releases without the skipped ones, interval by interval', () => {
  const late = (t: number, wakeup: number): number =>
    t % 1 > 0.5 && t % 1 < 0.5015 ? 4.2e6 : wakeup;
  const made = runFile({
    tuning: 'none',
    load: 'paper',
    interval: 1,
    start: 1e9,
    dice: 8,
    cell: true,
    tags: ['wakeup_latency'],
    blocks: [{ t: 0, seconds: 5, load: 'paper' }],
    shape: late,
  });
  const [file] = readText(made.text, 'none-paper.onbeat.hlog').files;
  const total = (tag: string): number =>
    file!.series.get(tag)!.reduce((sum, line) => sum + line.histogram()!.total, 0);
  assert.ok(made.counts['skipped']! > 10, 'releases were skipped');
  assert.deepEqual(
    [total('release_latency'), total('wakeup_latency'), total('skipped_latency')],
    [made.counts['slots'], made.counts['cycles'], made.counts['skipped']],
  );
  const figures = deriveSummary([file!]).cells[0]!.series;
  assert.equal(figures['release_latency']!.count, made.counts['slots']);
  assert.equal(figures['release_latency']!.max_ns, Math.max(...made.samples['release_latency']!));
  assert.equal(figures['wakeup_latency']!.max_ns, Math.max(...made.samples['wakeup_latency']!));
});

test('logs of other tools are read: no tag, absolute stamps, Windows line ends', () => {
  const line = text
    .split('\n')
    .find((l) => /^\d/.test(l))!
    .replace(/^[\d.]+/, '1763712000.500');
  const {
    files: [file],
  } = readText(`#[StartTime: 1763712000.000 (seconds since epoch)]\r\n${line}\r\n`, 'other.hlog');
  assert.equal(file!.series.get('untagged')![0]!.t, 0.5);
  assert.ok(file!.series.get('untagged')![0]!.histogram()!.total > 0);
  const derived = deriveSummary([file!]);
  const [cell] = derived.cells;
  assert.equal(cell!.slots, cell!.series['untagged']!.count, 'samples, not releases');
  assert.deepEqual(
    [cell!.skipped, cell!.overruns, cell!.deadline_misses, cell!.spike_count],
    [null, null, null, null],
    'what the tool does not count is not 0',
  );
  assert.deepEqual(collectNotes(buildReport(derived, [file!])), []);
});

/** An imported run as `onbeat import` writes it: a line of 4,000 values of 10,500 ns and 9 of 20,000 ns. */
const importedRun = (note: Record<string, unknown>): string => {
  const values = new Recorder(3);
  for (let i = 0; i < 4000; i++) values.record(10_500);
  for (let i = 0; i < 9; i++) values.record(20_000);
  const moments = { n: 4009, min_ns: 10_000, max_ns: 20_000, mean_ns: 10_100, m2: 1e9 };
  return [
    '#[onbeat: {"run":{"schema":"onbeat.run/1","probe":"cyclictest","timing":null,"grants":[]}}]',
    `#[onbeat: {"import":${JSON.stringify({ format: 'cyclictest', period_ns: 1e6, ...note })}}]`,
    `Tag=wakeup_latency,0.000,0.000,0.020,${values.base64()}`,
    `#[onbeat: {"interval":${JSON.stringify({ t: 0, length: 0, block: 0, cycles: 4009, series: { wakeup_latency: moments } })}}]`,
    '',
  ].join('\n');
};

test('an imported run that is dropped has the figures of its source, and nothing that the source does not count', () => {
  const resolution = {
    wakeup_latency: { step_ns: 1000, beyond: { from_ns: 19_000, to_ns: 20_000, count: 9 } },
  };
  const { files } = readText(importedRun({ resolution }), 'ct.onbeat.hlog');
  const derived = deriveSummary(files);
  const { series, skipped, slots, complete } = derived.cells[0]!;
  assert.deepEqual([skipped, slots, complete, derived.period_ns], [null, 4009, true, 1e6]);
  const { percentiles } = series['wakeup_latency']!;
  const at = (p: number): unknown => percentiles.find((one) => one.p === p);
  assert.deepEqual(at(50), { p: 50, value_ns: 10_999, supported: true }, 'the end of its cell');
  assert.deepEqual(at(99.9), { p: 99.9, value_ns: 20_000, supported: false });
  const dropped = buildReport(derived, files);
  const drawn = histogramOf(dropped, dropped.cells[0]!, 'wakeup_latency', 'own', null)!;
  assert.deepEqual(valuesAt(drawn, [50, 100]), [10_999, 20_000], 'the curve is the table’s');
});

test('a source that states figures alone has no percentiles and nothing to draw', () => {
  const { files } = readText(
    importedRun({ figures_only: ['wakeup_latency'], resolution: {} }),
    'ct.onbeat.hlog',
  );
  const derived = deriveSummary(files);
  const { percentiles, low } = derived.cells[0]!.series['wakeup_latency']!;
  assert.deepEqual([percentiles, low.map(({ q }) => q)], [[], [100]]);
  const dropped = buildReport(derived, files);
  assert.equal(histogramOf(dropped, dropped.cells[0]!, 'wakeup_latency', 'own', null), null);
});

test('cells of a source’s histogram end where they do in the source', () => {
  const ends = (of: Partial<Resolution>, ...values: number[]): number[] =>
    values.map((value) => cellEnd({ step_ns: ns(1000), ...of }, ns(value)));
  assert.deepEqual(ends({}, 0, 500, 1500), [999, 999, 1999]);
  assert.deepEqual(ends({ doubles_from: 4 }, 3500, 4500, 9000), [3999, 5999, 11_999]);
  assert.deepEqual(ends({ upper_ends_ns: [ns(10), ns(500)] }, 7, 10, 11, 600), [10, 10, 500, 600]);
});

test('a headline ends at the first semicolon outside of parentheses', () => {
  assert.deepEqual(firstClause('a differs (x; y) from b; so (z)'), [
    'a differs (x; y) from b',
    'so (z)',
  ]);
  assert.deepEqual(firstClause('2 alarms, 0 allowed: a.b at 0.4 s. p99.9 of it; more'), [
    '2 alarms, 0 allowed: a.b at 0.4 s',
    'p99.9 of it; more',
  ]);
  assert.deepEqual(firstClause('it holds (for now'), ['it holds (for now', '']);
});

test('ticks of an axis have as many digits as tell them apart', () => {
  assert.deepEqual(ticks([999.9, 1000, 1000.1, null]), ['999.9 µs', '1 ms', '1.0001 ms', '']);
  assert.deepEqual(ticks([1, 10, 100_000]), ['1 µs', '10 µs', '100 ms']);
  assert.deepEqual(ticks([50]), ['50 µs']);
});

test('joining steps keeps every peak', () => {
  const steps: Peak[] = Array.from({ length: 1000 }, (_, i) => ({
    from: sec(i),
    to: sec(i + 1),
    block: i < 500 ? 0 : 1,
    max: ns(i === 777 ? 9e6 : 1000 + i),
  }));
  const { steps: few, by } = joined(steps, 100, [0, 1000]);
  assert.ok(few.length <= 101 && by === 10);
  assert.equal(Math.max(...few.map(({ max }) => max)), 9e6);
  assert.equal(few[few.length - 1]!.to, 1000);
});

test('a pause in the recording breaks the line', () => {
  const [xs, ys] = stepPoints([
    { from: sec(0), to: sec(1), block: 0, max: ns(2000) },
    { from: sec(9), to: sec(10), block: 1, max: ns(3000) },
  ]);
  assert.deepEqual(ys, [2, 2, null, 3, 3]);
  assert.deepEqual(xs.map(Math.round), [0, 1, 1, 9, 10]);
});

test('keys zoom around the cursor, stay inside, and show everything again', () => {
  assert.deepEqual(zoomKey('+', [0, 100], [0, 100], false, 20), [10, 60]);
  assert.equal(zoomKey('-', [0, 100], [0, 100], false, null), null);
  assert.deepEqual(zoomKey('d', [0, 40], [0, 100], false, null), [10, 50]);
  assert.deepEqual(zoomKey('a', [0, 40], [0, 100], false, null), [0, 40]);
  assert.equal(zoomKey('Escape', [0, 1], [0, 100], false, null), null);
  assert.equal(zoomKey('x', [0, 1], [0, 100], false, null), undefined);
  const [lo, hi] = zoomKey('w', [1, 10_000], [1, 10_000], true, null)!;
  assert.ok(Math.abs(lo - 10) < 1e-6 && Math.abs(hi - 1000) < 1e-6);
});

test('text on every shade reads at 4.5:1 or better', () => {
  for (const theme of ['light', 'dark'] as const) {
    for (let t = 0; t <= 1; t += 0.005)
      assert.ok(contrast(shade(t, theme), textOn(shade(t, theme))) >= 4.5, `${theme} at ${t}`);
  }
});

test('a period is shaded by its distance from T', () => {
  assert.equal(weight(ns(1_001_000), 'observed_period', 'value', ns(1e6)), 1000);
  assert.equal(weight(ns(998_000), 'observed_period', 'value', ns(1e6)), 2000);
  assert.equal(weight(ns(5000), 'wakeup_latency', 'value', ns(1e6)), 5000);
  assert.equal(weight(ns(5000), 'observed_period', 'sd', ns(1e6)), 5000);
});

test('an interval that contains 1 shows no difference', () => {
  const effect = { factor: 'P', load: 'idle', metric: '', ratio: 1, sentence: '' };
  assert.equal(reading({ ...effect, low: 0.9, high: 1.1 }), 'unclear');
  assert.equal(reading({ ...effect, low: 0.2, high: 0.9 }), 'better');
  assert.equal(reading({ ...effect, low: 1.2, high: 1.9 }), 'worse');
  assert.equal(reading({ ...effect, low: 1.2, high: 1.9, differs: false }), 'unclear');
});

test('times are written with the unit and the digits that read well', () => {
  assert.deepEqual([usCell(ns(30), false), usCell(ns(0), false)], ['0.030', '0.0']);
  assert.deepEqual(
    [640, 1234, 15_500, 250_000, 1_070_000, 2_500_000_000].map((v) => human(ns(v))),
    ['640 ns', '1.23 µs', '15.5 µs', '250 µs', '1.07 ms', '2.50 s'],
  );
  // A figure that would be rounded to 1,000 of one unit is shown in the next.
  assert.deepEqual(
    [999.6, 9_996, 99_960, 999_600, 999_700_000].map((v) => human(ns(v))),
    ['1.00 µs', '10.0 µs', '100 µs', '1.00 ms', '1.00 s'],
  );
  assert.deepEqual(
    [usCell(ns(1_004_300), false), usCell(ns(1_002_110), true), usCell(ns(346_148_000), false)],
    ['1,004.3', '1,002.11', '346,148'],
  );
  assert.deepEqual(
    [9.5, 59.97, 60, 725, 3600, 12_000].map((s) => duration(sec(s))),
    ['9.5 s', '1 min', '1 min', '12 min 05 s', '1 h', '3 h 20 min'],
  );
  assert.deepEqual(
    [0.297, 9.997, 59.97, 119.97, 3599.96, 7384.25].map((s) => moment(sec(s))),
    ['0.30 s', '10.0 s', '1:00.0', '2:00.0', '1:00:00.0', '2:03:04.3'],
  );
  assert.equal(
    held('within 100 µs at 99.9 % of 5 sheep'),
    'within 100\u00a0µs at 99.9\u00a0% of 5 sheep',
  );
  assert.equal(held('ask us: 97.8 us, or 5 us.'), 'ask us: 97.8\u00a0µs, or 5\u00a0µs.');
});

test('axes stop at round values', () => {
  assert.deepEqual(logSplits(1, 100), [1, 2, 5, 10, 20, 50, 100]);
  assert.deepEqual(logSplits(1, 1e6), [1, 10, 100, 1e3, 1e4, 1e5, 1e6]);
  assert.deepEqual(logRange(3, 320), [2, 500]);
  assert.deepEqual(
    [
      clockTick(0, 300),
      clockTick(900, 300),
      clockTick(3600, 600),
      clockTick(5400, 1800),
      clockTick(2.5, 0.5),
      clockTick(90, 10),
    ],
    ['0', '15 min', '1 h', '1 h 30', '2.5 s', '1:30'],
  );
});

test('notes that say the same are one, with everything they are about and how often they were found', () => {
  const notes = [
    ['C · idle', '18 kernel threads are bound'],
    ['PC · idle', '18 kernel threads are bound'],
    ['C · idle', 'truncated'],
    ['paper, 1.0 s', 'a part died'],
    ['paper, 1.0 s', 'a part died'],
  ] as const;
  assert.deepEqual(folded(notes), [
    { about: ['C · idle', 'PC · idle'], what: '18 kernel threads are bound', times: 2 },
    { about: ['C · idle'], what: 'truncated', times: 1 },
    { about: ['paper, 1.0 s'], what: 'a part died', times: 2 },
  ]);
});

test('a sweep passes where every load was measured and reached, as in the terminal', () => {
  const step = (asked: number, reached: number | null, isAllowed = true): SweepStep => ({
    load: `cpu=${asked}%`,
    asked_percent: asked,
    reached_percent: reached,
    is_reached: reached !== null && Math.abs(reached - asked) <= 5,
    count: 1000,
    min_ns: ns(1000),
    mean_ns: ns(2000),
    max_ns: ns(51_000),
    jitter_ns: ns(50_000),
    is_allowed: isAllowed,
  });
  const of = (steps: SweepStep[], missing: string[] = []): string => {
    const sweep = { series: 'write_interval', allowed_jitter_ns: ns(100_000), sentence: '' };
    const { outcome, passed, loads } = outcomeOfSweep({ ...sweep, steps, missing });
    return `${outcome} ${passed} of ${loads}`;
  };
  const good = step(0, 1);
  assert.equal(of([good, step(0, 60), step(50, null)]), 'PASS 3 of 3');
  assert.equal(of([good], ['cpu=50%']), 'INCONCLUSIVE 1 of 2');
  assert.equal(of([good, step(100, 62)]), 'INCONCLUSIVE 1 of 2');
  assert.equal(of([step(100, 62), step(50, 50, false)], ['cpu']), 'FAIL 0 of 3');
  assert.equal(of([], ['idle']), 'INCONCLUSIVE 0 of 1');
});
