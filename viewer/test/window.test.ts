import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deflateRawSync } from 'node:zlib';
import { readText } from '../src/hlog.ts';
import type { Spike } from '../src/hlog.ts';
import { cpuOfFirstCause, figures, inWords, viewOf } from '../src/sections/around.ts';
import { cpusOf, nearest, ticks, timeline, type WindowNote } from '../src/window.ts';
import { windowNote } from './fixture.ts';

const of = (lines: string[], note: Partial<WindowNote> = {}): WindowNote => ({
  block: 0,
  index: 4,
  release_ns: 5_001_000_000,
  expiry_ns: 5_001_000_000,
  start_ns: 5_001_908_000,
  end_ns: 5_001_909_000,
  tid: 100,
  cpu: 1,
  prio: 9,
  events: lines.length,
  left_out: 0,
  packed: deflateRawSync(
    Buffer.from(['# tracer: nop', '#', '# window: 4998000000 5002500000', ...lines, ''].join('\n')),
  ).toString('base64'),
  ...note,
});
const line = (us: number, event: string, tid = 7, cpu = 1): string =>
  `              dd-${tid}       [00${cpu}] .....     5.${String(us * 1000).padStart(9, '0')}: ${event}`;
const change = (prev: [string, number, number, string], next: [string, number, number]): string =>
  `sched_switch: prev_comm=${prev[0]} prev_pid=${prev[1]} prev_prio=${prev[2]} prev_state=${prev[3]} ==> next_comm=${next[0]} next_pid=${next[1]} next_prio=${next[2]}`;

const EVENTS = [
  line(101, change(['onbeat-loop', 100, 9, 'S'], ['d d -1 [2]', 7, 120]), 100),
  line(400, 'irq_handler_entry: irq=36 name=virtio1-req.0'),
  line(450, 'local_timer_entry: vector=236', 7, 0),
  line(500, 'irq_handler_exit: irq=36 ret=handled'),
  line(500, 'softirq_entry: vec=4 [action=BLOCK]'),
  line(520, 'softirq_exit: vec=4 [action=BLOCK]'),
  line(1001, 'local_timer_entry: vector=236'),
  line(1002, 'hrtimer_expire_entry: hrtimer=0abc function=hrtimer_wakeup now=5001001000'),
  line(1006, 'local_timer_exit: vector=236'),
  line(1906, change(['d d -1 [2]', 7, 120, 'R+'], ['onbeat-loop', 100, 9])),
  line(1920, change(['onbeat-loop', 100, 9, 'S'], ['swapper/1', 0, 120]), 100),
];

test('tasks, interrupts, softirqs and idle time become stretches of the loop’s CPU, in nanoseconds since the expiry', () => {
  const { stretches, start, from, to } = timeline(of(EVENTS));
  assert.deepEqual([from, to, start], [-3_000_000, 1_500_000, 908_000]);
  assert.deepEqual(
    stretches.map(({ lane, name, from: a, to: b }) => [lane, name, a, b]),
    [
      ['tasks', 'onbeat-loop', -3_000_000, -899_000],
      ['tasks', 'd d -1 [2]', -899_000, 906_000],
      ['interrupts', 'virtio1-req.0', -600_000, -500_000],
      ['softirqs', 'BLOCK', -500_000, -480_000],
      ['interrupts', 'timer interrupt', 1_000, 6_000],
      ['tasks', 'onbeat-loop', 906_000, 920_000],
      ['idle', 'idle', 920_000, 1_500_000],
    ],
  );
  assert.equal(
    inWords(stretches[1]!),
    'd d -1 [2] (thread 7, nice 0, preempted): 1,805,000 ns, starting 899 µs before the programmed expiry',
  );
  assert.equal(
    inWords(stretches[4]!),
    'timer interrupt (hrtimer_wakeup): 5,000 ns, starting 1.00 µs after the programmed expiry',
  );
});

test('a slice that begins at the programmed expiry says so, and the figures have every slice in nanoseconds', () => {
  const line = timeline(of(EVENTS));
  assert.equal(
    inWords({ ...line.stretches[4]!, from: 0 }),
    'timer interrupt (hrtimer_wakeup): 6,000 ns, starting at the programmed expiry',
  );
  const { head, rows } = figures(line);
  assert.deepEqual(head, ['lane', 'name', 'detail', 'from_ns', 'to_ns']);
  assert.deepEqual([...rows].length, line.stretches.length);
  assert.deepEqual([...rows][2], [
    'interrupts',
    'virtio1-req.0',
    'interrupt 36',
    -600_000,
    -500_000,
  ]);
});

test('an interrupt whose end is missing ends with the one around it, or with the window', () => {
  const { stretches } = timeline(
    of([
      line(1, 'irq_handler_entry: irq=1 name=a'),
      line(2, 'softirq_entry: vec=4 [action=BLOCK]'),
      line(5, 'irq_handler_exit: irq=1 ret=handled'),
      line(9, 'local_timer_entry: vector=236'),
      line(10, 'irq_handler_exit: irq=77 ret=handled'),
    ]),
  );
  assert.deepEqual(
    stretches.map(({ name, from, to }) => [name, from, to]),
    [
      ['a', -999_000, -995_000],
      ['BLOCK', -998_000, -995_000],
      ['timer interrupt', -991_000, 1_500_000],
    ],
  );
});

test('lanes show the CPU that the first cause names, where the window has events of it', () => {
  const note = of(EVENTS);
  assert.deepEqual(cpusOf(note), [0, 1]);
  const spike = (evidence: string): Spike =>
    ({ causes: [{ kind: 'preempted', ns: 900_000, evidence }] }) as unknown as Spike;
  const shown = (evidence: string): number | null =>
    cpuOfFirstCause(spike(evidence), note, cpusOf(note));
  assert.equal(shown('hackbench [9] ran on CPU 0 for 900 us'), 0);
  assert.equal(shown('hackbench [9] ran on CPU 7 for 900 us'), 1, 'nothing is known of CPU 7');
  assert.equal(shown('steal'), 1);
  assert.deepEqual(
    timeline(note, 0).stretches.map(({ name }) => name),
    ['timer interrupt'],
  );
});

test('missing events are counted, those of other CPUs are not', () => {
  const { gaps } = timeline(
    of([
      '# lost: 1 5000000000 5000500000 12',
      '# lost: 0 5000000000 5000500000 3',
      '# lost: 1 5000600000 5000700000 -',
    ]),
  );
  assert.deepEqual(gaps, [
    { from: -1_000_000, to: -500_000, count: 12 },
    { from: -400_000, to: -300_000, count: null },
  ]);
});

test('lanes end where events were dropped, and begin where they come again', () => {
  // A task and a softirq are open when the events stop; a switch away from another task is the first thing seen afterwards.
  const { stretches } = timeline(
    of([
      '# lost: 1 5000500000 5001000000 12',
      line(100, change(['onbeat-loop', 100, 9, 'S'], ['dd', 7, 120]), 100),
      line(400, 'softirq_entry: vec=4 [action=BLOCK]'),
      line(1300, change(['cc1', 8, 120, 'R+'], ['onbeat-loop', 100, 9]), 8),
      line(1400, change(['onbeat-loop', 100, 9, 'S'], ['swapper/1', 0, 120]), 100),
    ]),
  );
  assert.deepEqual(
    stretches.map(({ lane, name, from, to }) => [lane, name, from, to]),
    [
      ['tasks', 'onbeat-loop', -3_000_000, -900_000],
      ['tasks', 'dd', -900_000, -500_000],
      ['softirqs', 'BLOCK', -600_000, -500_000],
      ['tasks', 'cc1', 0, 300_000],
      ['tasks', 'onbeat-loop', 300_000, 400_000],
      ['idle', 'idle', 400_000, 1_500_000],
    ],
  );
});

test('after a last gap nothing is drawn', () => {
  const { stretches } = timeline(
    of([
      '# lost: 1 5001000000 5002500000 -',
      line(100, change(['onbeat-loop', 100, 9, 'S'], ['dd', 7, 120]), 100),
    ]),
  );
  assert.deepEqual(
    stretches.map(({ name, from, to }) => [name, from, to]),
    [
      ['onbeat-loop', -3_000_000, -900_000],
      ['dd', -900_000, 0],
    ],
  );
});

test('instants beyond a hundred days of uptime keep their nanoseconds', () => {
  const day = 86_400 * 200;
  const [one] = timeline(
    of(
      [
        `  dd-7       [001] ..... ${day + 5}.000000001: irq_handler_entry: irq=1 name=a`,
        `  dd-7       [001] ..... ${day + 5}.000000004: irq_handler_exit: irq=1 ret=handled`,
      ],
      { expiry_ns: (day + 5) * 1e9 },
    ),
  ).stretches;
  assert.deepEqual([one!.from, one!.to], [1, 4]);
});

test('the pointer finds the innermost stretch, and one near by where there is none', () => {
  const { stretches } = timeline(of(EVENTS));
  assert.equal(nearest(stretches, 'tasks', 0, 0)!.name, 'd d -1 [2]');
  assert.equal(nearest(stretches, 'interrupts', 8_000, 5_000)!.name, 'timer interrupt');
  assert.equal(nearest(stretches, 'interrupts', 50_000, 5_000), null);
});

test('the view of a spike has room on either side, and ends where the window ends', () => {
  const all = timeline(of(EVENTS));
  const [from, to] = viewOf(all, 'spike');
  assert.ok(from < 0 && from > -200_000 && to > 909_000 && to < all.to);
  assert.deepEqual(viewOf(all, 'all'), [all.from, all.to]);
  assert.deepEqual(ticks(-130_000, 1_030_000, 5), [0, 500_000, 1_000_000]);
});

test('damage is reported, not drawn', () => {
  assert.throws(() => timeline(of(EVENTS, { packed: '!' })));
  assert.throws(() => timeline(of(EVENTS, { packed: 'eJw' })));
});

test('notes of a recording bring windows, and numbers for spikes in their order', () => {
  const spike = (index: number): string =>
    `#[onbeat: ${JSON.stringify({ spike: { t: index, index, block: 0, wakeup_latency_ns: 9, execution_time_ns: 1, skipped: 0, stall: null } })}]`;
  const { files } = readText(
    `${spike(7)}\n#[onbeat: ${JSON.stringify({ window: windowNote(0, 7, 900_000) })}]\n${spike(9)}\n`,
    'run',
  );
  assert.deepEqual(
    files[0]!.spikes.map(({ number }) => number),
    [1, 2],
  );
  assert.ok(timeline(files[0]!.windows[0]!).stretches.length > 5);
});
