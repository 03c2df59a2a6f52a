import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import {
  adviceIds,
  measureCommand,
  NO_REMEDY,
  situationOf,
  tuningIds,
  type Situation,
} from '../src/advice.ts';
import {
  CAUSES,
  countKept,
  explained,
  grouped,
  inWords,
  joinCounts,
  mainCause,
  mostFrequent,
  ordered,
  program,
  thread,
} from '../src/causes.ts';
import { deriveSummary } from '../src/derive.ts';
import {
  readText,
  type Cause,
  type CauseCount,
  type Finding,
  type RunNote,
  type Spike,
} from '../src/hlog.ts';
import { buildReport } from '../src/model.ts';
import { accounted, kindsOf } from '../src/sections/causes.ts';
import { weighed } from '../src/sections/findings.ts';
import { causeWords, knownSpikes, sorted } from '../src/sections/spikes.ts';
import { ns, sec, type Ns } from '../src/units.ts';
import { bench, runFile } from './fixture.ts';

const cause = (kind: string, size: number, culprit?: Cause['culprit']): Cause => ({
  kind,
  ns: ns(size),
  evidence: '',
  ...(culprit ? { culprit } : {}),
});
const spike = (index: number, causes?: Cause[]): Spike => ({
  t: sec(index),
  index,
  block: 0,
  wakeup_latency_ns: ns(1e5),
  execution_time_ns: ns(1),
  skipped: 0,
  stall: null,
  ...(causes ? { causes } : {}),
});
const read = (text: string): ReturnType<typeof buildReport> => {
  const { files, summary } = readText(text, 'page');
  return buildReport(summary ?? deriveSummary(files), files);
};

const fromRust = (path: string): string =>
  readFileSync(`${process.env['VIEWER_ROOT']}/../crates/${path}`, 'utf8');

test('what is said without a remedy is what the command says', () => {
  const [, said] = /NO_REMEDY: &str = "([^"]+)"/.exec(fromRust('onbeat-report/src/causes.rs'))!;
  assert.equal(NO_REMEDY, said!.replace("'", '’'));
});

test('each cause in each situation is answered as by the command, and a run’s situation is the same', () => {
  interface Cases {
    situations: Situation[];
    runs: { run: RunNote; situation: Situation }[];
    causes: {
      cause: Cause;
      advice: string[][];
      tunings: string[][];
      measured: (string | null)[];
    }[];
  }
  const { situations, runs, causes } = JSON.parse(
    fromRust('onbeat/tests/advice_cases.json'),
  ) as Cases;
  assert.ok(causes.length > CAUSES.length && situations.length > 5 && runs.length > 2);
  for (const { cause: one, advice, tunings, measured } of causes) {
    assert.deepEqual(
      situations.map((situation) => adviceIds(one, situation)),
      advice,
      inWords(one),
    );
    assert.deepEqual(
      situations.map((situation) => tuningIds(one, situation)),
      tunings,
      inWords(one),
    );
    assert.deepEqual(
      situations.map((situation) => measureCommand(one, situation) || null),
      measured,
      inWords(one),
    );
  }
  for (const { run, situation } of runs) assert.deepEqual(situationOf(run), situation);
});

test('a program of many threads weighs more than the longest single thread, and a kind by all of its time', () => {
  const many = Array.from({ length: 656 }, (_, i) =>
    cause('preempted', 165_000, { name: 'hackbench', tid: 1000 + i }),
  );
  assert.equal(
    inWords(mainCause([cause('preempted', 12_000_000, { name: 'kdamond.0', tid: 80 }), ...many])!),
    'preempted by hackbench',
  );
  const divided = [
    cause('kernel_section', 40, { name: 'dd', tid: 7 }),
    cause('softirq', 35, { name: 'NET_RX' }),
    cause('softirq', 25, { name: 'TIMER' }),
  ];
  assert.equal(inWords(mainCause(divided)!), 'softirq NET_RX');
  assert.deepEqual(
    [
      'kdamond.0',
      'ksoftirqd/1',
      'kworker/u8:3-events',
      'irq/24-nvme',
      'stress-ng-cpu',
      'python3',
      'rcuc/12',
      '7',
    ].map((name) => program({ name, tid: 1 })),
    ['kdamond', 'ksoftirqd', 'kworker', 'irq/24-nvme', 'stress-ng-cpu', 'python3', 'rcuc', '7'],
  );
});

test('causes fold by kind and culprit: 656 threads of one program are one, longest first, time without a name last', () => {
  const hackbench = Array.from({ length: 656 }, (_, i) =>
    cause('preempted', 165_000 + i, { name: 'hackbench', tid: 1000 + i }),
  );
  const groups = grouped([
    cause('unexplained', 9e9),
    cause('softirq', 40, { name: 'TIMER' }),
    ...hackbench,
    cause('preempted', 12_000_000, { name: 'kdamond.0', tid: 80 }),
    cause('softirq', 50, { name: 'TIMER' }),
    cause('kernel_section', 70, { name: 'dd', tid: 7, system_call: 'write' }),
    cause('kernel_section', 80, { name: 'dd', tid: 7, system_call: 'read' }),
  ]);
  assert.deepEqual(
    groups.map(({ words, members }) => [words, members.length]),
    [
      ['preempted by hackbench', 656],
      ['preempted by kdamond', 1],
      ['softirq TIMER', 2],
      ['kernel section in dd/read', 1],
      ['kernel section in dd/write', 1],
      ['unexplained', 1],
    ],
  );
  assert.equal(
    groups[0]!.ns,
    hackbench.reduce((sum, { ns }) => sum + ns, 0),
  );
  assert.deepEqual(
    groups[2]!.members.map(({ ns }) => ns),
    [50, 40],
  );
  assert.deepEqual(grouped([]), []);
});

test('culprits add up, and the one of most spikes is named', () => {
  const one = (culprits: Record<string, { spikes: number; worst_ns: Ns }>): CauseCount => ({
    spikes: 9,
    worst_ns: ns(9),
    lateness_ns: ns(9),
    accounted_ns: ns(9),
    culprits,
  });
  const sum = joinCounts([
    {
      softirq: one({
        NET_RX: { spikes: 5, worst_ns: ns(7) },
        TIMER: { spikes: 4, worst_ns: ns(9) },
      }),
    },
    { softirq: one({ TIMER: { spikes: 3, worst_ns: ns(2) } }) },
  ]);
  assert.deepEqual(mostFrequent(sum['softirq']!), { name: 'TIMER', spikes: 7 });
  assert.equal(sum['softirq']!.culprits!['TIMER']!.worst_ns, 9);
});

test('no two causes look alike or share their letters', () => {
  assert.equal(new Set(CAUSES.map(({ letters }) => letters)).size, CAUSES.length);
  assert.equal(new Set(CAUSES.map(({ hue, pattern }) => `${hue} ${pattern}`)).size, CAUSES.length);
});

test('a cause has who did it, where, and under which priority', () => {
  const write = cause('kernel_section', 1, { name: 'dd', tid: 7, prio: 120, system_call: 'write' });
  assert.equal(inWords(write), 'kernel section in dd/write');
  assert.equal(inWords(cause('preempted', 1, { name: 'stress' })), 'preempted by stress');
  assert.equal(inWords(cause('softirq', 1, { name: 'NET_RX' })), 'softirq NET_RX');
  assert.equal(inWords(cause('cosmic_ray', 1)), 'cosmic ray');
  assert.deepEqual(
    [
      write,
      cause('preempted', 1, { name: 'a', tid: 2, prio: 49 }),
      cause('preempted', 1, { name: 'd', prio: -1 }),
      cause('softirq', 1, { name: 'NET_RX' }),
    ].map(thread),
    ['dd [7], nice 0', 'a [2], real-time priority 50', 'd, deadline', null],
  );
});

test('the main cause is the longest; time without a name only when it is most of all', () => {
  assert.equal(
    mainCause([cause('wake_up_path', 5), cause('softirq', 90), cause('hard_irq', 20)])!.kind,
    'softirq',
  );
  assert.equal(mainCause([cause('unexplained', 60), cause('softirq', 40)])!.kind, 'unexplained');
  assert.equal(
    mainCause([cause('unexplained', 45), cause('softirq', 40), cause('smi', 15)])!.kind,
    'softirq',
  );
  assert.equal(mainCause([cause('unexplained', 9)])!.kind, 'unexplained');
  assert.equal(mainCause([]), null);
  assert.equal(mainCause(undefined), null);
  assert.deepEqual(
    ordered([cause('unexplained', 60), cause('smi', 1), cause('softirq', 40)]).map(
      ({ kind }) => kind,
    ),
    ['softirq', 'smi', 'unexplained'],
  );
});

test('counts add up by kind, and the share with a name is never rounded up', () => {
  const one = { spikes: 2, worst_ns: ns(9), lateness_ns: ns(10_000), accounted_ns: ns(9_999) };
  const sum = joinCounts([
    { smi: one },
    undefined,
    { smi: { ...one, worst_ns: ns(5) }, softirq: one },
  ]);
  assert.deepEqual(sum['smi'], {
    spikes: 4,
    worst_ns: 9,
    lateness_ns: 20_000,
    accounted_ns: 19_998,
  });
  assert.equal(accounted(sum), '99.9 %');
  assert.deepEqual(kindsOf({ ...sum, unexplained: { ...one, spikes: 99 } }, 'spikes'), [
    'smi',
    'softirq',
    'unexplained',
  ]);
  assert.equal(
    countKept([spike(1, [cause('smi', 30), cause('unexplained', 10)]), spike(2)])['smi']!
      .accounted_ns,
    30,
  );
});

test('the summary’s counts are shown; without them the recording’s', () => {
  const report = read(bench(2, 3));
  const cells = explained(report.cells);
  assert.ok(cells.length > 3 && cells.length < report.cells.length, 'only cells with spikes');
  for (const one of cells) assert.equal(one.analysed, one.spikes, one.name);
  const bare = explained(
    report.cells.map((cell) => {
      const { causes: _, ...figures } = cell.figures;
      return { ...cell, figures };
    }),
  );
  assert.deepEqual(
    bare.map(({ name, counts }) => [
      name,
      Object.values(counts).reduce((n, { spikes }) => n + spikes, 0),
    ]),
    cells.map(({ name, spikes }) => [name, spikes]),
  );
  const culprits = { 'too many spikes at once': { spikes: 3, worst_ns: ns(9) } };
  const unexplained = { spikes: 5, worst_ns: ns(9), lateness_ns: ns(9), accounted_ns: ns(0) };
  const figures = {
    spikes: [],
    spike_count: 5,
    causes: { unexplained: { ...unexplained, culprits } },
  };
  const [partly] = explained([{ name: 'partly', figures, file: null }]);
  assert.deepEqual([partly!.analysed, partly!.spikes], [2, 5]);
});

test('a recording without a summary still shows its causes, and one without causes shows none', () => {
  const options = {
    tuning: 'none',
    load: 'paper',
    interval: 1,
    start: 1e9,
    dice: 3,
    cell: true,
    tags: ['wakeup_latency'],
    blocks: [{ t: 0, seconds: 4, load: 'paper' }],
  };
  const [watched] = explained(read(runFile({ ...options, causes: true }).text).cells);
  assert.ok(watched!.analysed > 10 && watched!.analysed === watched!.spikes);
  const plain = read(runFile(options).text);
  assert.ok(plain.cells[0]!.figures.spike_count! > 10);
  assert.deepEqual(explained(plain.cells), []);
  assert.deepEqual(explained(read(bench(2, 3, false)).cells), []);
});

test('a spike known twice keeps its causes, whichever of the two has them', () => {
  const report = read(bench(2, 3));
  const cell = report.cells[0]!;
  const known = [cause('smi', 5)];
  const file = { ...report.files[0]!, spikes: [spike(1), spike(2, known)] };
  const spikes = knownSpikes({
    figures: { ...cell.figures, spikes: [spike(1, known), spike(2)] },
    file,
  });
  assert.deepEqual(spikes.map(causeWords), ['SMI', 'SMI']);
});

test('spikes sort by the words of their main cause', () => {
  const { cells } = read(bench(2, 3));
  const rows = [cause('softirq', 1), cause('hard_irq', 1), cause('smi', 1)].map((one, i) => ({
    cell: cells[0]!,
    spike: spike(i, [one]),
    at: sec(i),
  }));
  assert.deepEqual(
    sorted(rows, 'cause', false).map((row) => causeWords(row.spike)),
    ['SMI', 'interrupt handler', 'softirq'],
  );
});

test('a cycle whose work was late is as bad as one that began late', () => {
  const { cells } = read(bench(2, 3));
  const late = [
    { wakeup_latency_ns: ns(300_000), execution_time_ns: ns(1000) },
    { wakeup_latency_ns: ns(5000), execution_time_ns: ns(30_000_000) },
  ];
  const rows = late.map((of, i) => ({
    cell: cells[0]!,
    spike: { ...spike(i), ...of },
    at: sec(i),
  }));
  assert.deepEqual(
    sorted(rows, 'lateness', true).map(({ spike: { index } }) => index),
    [1, 0],
  );
});

test('what every wake-up costs names a spike only when no other cause has a quarter of it', () => {
  assert.equal(mainCause([cause('wake_up_path', 70), cause('softirq', 30)])!.kind, 'softirq');
  assert.equal(mainCause([cause('wake_up_path', 80), cause('softirq', 20)])!.kind, 'wake_up_path');
});

test('findings are weighed by the share of the lateness that they concern and by their expected effect', () => {
  const finding = (id: string, effect: number, ...mends: string[]): Finding => ({
    id,
    title: id,
    effect,
    current: '0',
    wanted: '1',
    takes: 'now',
    mends,
  });
  const one = (spikes: number, late: number): CauseCount => ({
    spikes,
    worst_ns: ns(late),
    lateness_ns: ns(late),
    accounted_ns: ns(late),
  });
  const counts = { softirq: one(9, 900), preempted: one(1, 100) };
  const rows = weighed(
    [
      finding('none', 3, 'page_fault'),
      finding('small', 1, 'softirq'),
      finding('large', 3, 'preempted'),
      finding('both', 2, 'softirq', 'preempted'),
    ],
    counts,
  );
  assert.deepEqual(
    rows.map(({ finding: { id }, spikes, share }) => [id, spikes, share]),
    [
      ['large', 1, 0.1],
      ['both', 10, 1],
      ['small', 9, 0.9],
      ['none', 0, 0],
    ],
  );
});
