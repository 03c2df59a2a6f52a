// Two runs beside each other, for pages of tests.
import type { Comparison, Row } from '../src/comparison.ts';
import { cellSummary, HOST, LADDER, runFile } from './fixture.ts';

const ratio = (
  metric: string,
  value: number,
  low: number | null,
  high: number | null,
): Comparison['cells'][0]['runs'][0]['ratios'][0] => ({
  metric,
  ratio: value,
  low,
  high,
  supported: low !== null,
  differs: low !== null && high !== null && (low > 1 || high < 1),
});
export const row = (run: number, load: string, more: Partial<Row> = {}): Row => ({
  run,
  tuning: 'P',
  load,
  count: 60_000,
  min_ns: 18_300,
  mean_ns: 34_000,
  sd_ns: 8_000,
  max_ns: 394_000,
  jitter_ns: 375_700,
  tail_ratio: 45,
  overruns: 3,
  skipped: 17,
  ...more,
});
export const comparison: Comparison = {
  runs: ['monday', 'tuesday'],
  rows: [
    {
      series: 'release_latency',
      rows: [row(0, 'idle'), row(1, 'paper', { overruns: null, skipped: null, tail_ratio: 411.4 })],
    },
  ],
  cells: [
    {
      cell: '',
      series: 'release_latency',
      runs: [
        { run: 0, ratios: [] },
        {
          run: 1,
          ratios: [
            ratio('p50', 1.4, 1.2, 1.6),
            ratio('p99', 0.7, 0.4, 1.3),
            ratio('p99.99', 3.1, null, null),
          ],
        },
      ],
    },
    {
      cell: '',
      series: 'observed_period',
      runs: [
        { run: 0, ratios: [] },
        { run: 1, ratios: [ratio('p50', 1, 0.99, 1.01)] },
      ],
    },
  ],
  differences: [
    { fact: 'kernel', values: ['6.18.3 PREEMPT_RT', '6.18.4'] },
    { fact: 'governor', values: ['performance', null] },
  ],
  warnings: [
    'The loads differ: monday idle and tuesday paper; so their effect cannot be separated from all other effects',
    'The runs were measured one after the other; `onbeat bench` takes turns',
  ],
  sentences: ['p50 wake-up latency of tuesday is x 1.40 (1.20 to 1.60) that of monday'],
};

/** Two runs of a minute, as `onbeat compare --html` puts them into a page. */
export function compared(): string {
  const runs = comparison.runs.map((name, i) => {
    const load = i === 0 ? 'idle' : 'paper';
    const made = runFile({
      tuning: 'P',
      load,
      interval: 1,
      start: 1_763_800_000 + 100 * i,
      dice: 5 + i,
      cell: false,
      tags: ['wakeup_latency', 'observed_period'],
      blocks: [{ t: 0, seconds: 60, load }],
    });
    const file = `${i + 1}-timer.onbeat.hlog`;
    return {
      text: `#[onbeat: ${JSON.stringify({ file })}]\n${made.text}`,
      cell: { ...cellSummary('P', load, made, 1), tuning: name, file, verdict: null, notes: [] },
    };
  });
  const summary = {
    schema: 'onbeat.compare/1',
    version: '0.1.0',
    command: ['onbeat', 'compare', ...comparison.runs, '--html', 'page.html'],
    started_unix_s: 1_763_800_000,
    elapsed_s: 120,
    host: HOST,
    ladder: LADDER.slice(0, 2),
    limit: null,
    order: 'compared',
    tunings: comparison.runs,
    loads: ['idle', 'paper'],
    period_ns: 1_000_000,
    cells: runs.map(({ cell }) => cell),
    effects: [],
    verdict: { outcome: null, best: null, sentence: comparison.sentences.join('; ') },
    comparison,
  };
  return `${runs.map(({ text }) => text).join('')}#[onbeat: ${JSON.stringify({ summary })}]\n`;
}
