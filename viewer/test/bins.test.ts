// Bins of the drawn distribution against distributions that are known exactly.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { binned, evenEdges, grainAt, growingEdges, type Grain } from '../src/charts/bins.ts';
import { figures, grainOf, isLongTailed, sensibleRange } from '../src/charts/distribution.ts';
import { csv } from '../src/charts/save.ts';
import { decodeBase64, lowAt, scaleOf, widthAt, type Histogram } from '../src/histogram.ts';
import { ns } from '../src/units.ts';
import { Recorder } from './encode.ts';
import { random } from './fixture.ts';

/** Every nanosecond between the ends occurs `each` times. */
function uniform(from: number, to: number, digits: number, each = 4): Histogram {
  const scale = scaleOf(1, digits);
  const index: number[] = [];
  for (let i = 0; lowAt(scale, i) < to; i++) if (lowAt(scale, i) >= from) index.push(i);
  const count = index.map((i) => widthAt(scale, i) * each);
  return {
    scale,
    index: Int32Array.from(index),
    count: Float64Array.from(count),
    total: count.reduce((a, b) => a + b, 0),
  };
}

const recorded = (values: readonly number[], digits = 3): Histogram => {
  const recorder = new Recorder(digits);
  values.forEach((value) => recorder.record(value));
  return decodeBase64(recorder.base64());
};
const grainFor = (histogram: Histogram, step = 1): Grain => ({
  scales: [histogram.scale],
  step: ns(step),
});
const RANGES: readonly (readonly [number, number])[] = [
  [100_000, 200_000],
  [500_000, 1_100_000],
  [140_000, 150_000],
  [2_000, 9_000],
  [60_000, 70_000_000],
];

for (const digits of [2, 3, 4]) {
  test(`bins of one width hold the same number of samples of a uniform distribution, ${digits} digits`, () => {
    for (const [from, to] of RANGES) {
      const histogram = uniform(1024, 90_000_000, digits);
      for (const wanted of [60, 97, 180, 260]) {
        const edges = evenEdges(ns(from), ns(to), wanted, grainFor(histogram));
        const { counts, below, beyond } = binned(histogram, edges);
        const width = edges[1]! - edges[0]!;
        assert.ok(edges[0]! <= from && edges[edges.length - 1]! >= to);
        counts.forEach((count, i) => {
          if (edges[i]! >= 2048)
            assert.equal(
              count,
              width * 4,
              `bin ${i} of ${counts.length}, ${edges[i]} ns, ${wanted} wanted`,
            );
        });
        assert.equal(counts.reduce((a, b) => a + b, 0) + below + beyond, histogram.total);
      }
    }
  });

  test(`bins that grow hold samples in proportion to their width, none empty, ${digits} digits`, () => {
    for (const [from, to] of RANGES) {
      const histogram = uniform(1024, 90_000_000, digits);
      for (const wanted of [60, 97, 180, 260]) {
        const edges = growingEdges(ns(from), ns(to), wanted, grainFor(histogram));
        const { counts, below, beyond } = binned(histogram, edges);
        assert.ok(
          edges[0]! <= from && edges[edges.length - 1]! >= to && counts.length <= wanted * 2 + 2,
          `${counts.length} bins`,
        );
        counts.forEach((count, i) => {
          if (edges[i]! >= 2048)
            assert.equal(count, (edges[i + 1]! - edges[i]!) * 4, `bin ${i}, ${edges[i]} ns`);
        });
        assert.equal(counts.reduce((a, b) => a + b, 0) + below + beyond, histogram.total);
      }
    }
  });
}

test('bins that grow have widths that differ from their neighbours’ by less than an eighth where buckets are fine', () => {
  const histogram = uniform(1024, 900_000_000, 3);
  const edges = growingEdges(ns(3_000), ns(800_000_000), 200, grainFor(histogram));
  const shares = edges.slice(1).map((end, i) => Math.log(end / edges[i]!));
  shares
    .slice(1, -1)
    .forEach((share, i) =>
      assert.ok(
        Math.abs(share / shares[i]! - 1) < 0.125,
        `${edges[i + 1]} ns: ${shares[i]} and ${share}`,
      ),
    );
});

test('an edge is never inside a bucket', () => {
  for (const digits of [1, 2, 3, 4]) {
    const { scale } = uniform(1024, 2048, digits);
    const grain: Grain = { scales: [scale], step: ns(1) };
    for (const edge of [
      ...growingEdges(ns(1), ns(5e8), 250, grain),
      ...evenEdges(ns(90_000), ns(3e6), 250, grain),
    ])
      assert.equal(edge % grainAt(grain, edge), 0, `${edge}`);
  }
});

test('what another tool counted in steps of 1 µs has no hole between the steps', () => {
  // A bucket's middle stands for each step, as an imported run has it.
  const cells = Array.from({ length: 400 }, (_, i) => i * 1000 + 500);
  const histogram = recorded(cells.flatMap((value) => Array.from({ length: 6 }, () => value)));
  const grain = grainOf([histogram], [{ step_ns: ns(1000) }]);
  for (const edges of [
    evenEdges(ns(2000), ns(390_000), 260, grain),
    growingEdges(ns(2000), ns(390_000), 260, grain),
  ]) {
    const { counts } = binned(histogram, edges);
    counts.forEach((count, i) =>
      assert.equal(count, ((edges[i + 1]! - edges[i]!) / 1000) * 6, `${edges[i]} ns`),
    );
  }
});

test('cells of another tool that double are bins as buckets are', () => {
  const histogram = recorded([5000, 9000, 40_000]);
  const grain = grainOf([histogram], [{ step_ns: ns(1), doubles_from: 256 }]);
  assert.equal(grainAt(grain, ns(200)), 1);
  assert.equal(grainAt(grain, ns(300)), 2);
  assert.equal(grainAt(grain, ns(40_000)), 256);
});

test('what lies outside of the bins is counted', () => {
  const next = random(5);
  const histogram = recorded([
    ...Array.from({ length: 3000 }, () => 5000 + Math.floor(next() * 900)),
    90_000,
    400_000,
    12,
  ]);
  const [from, to] = sensibleRange([histogram]);
  const bins = binned(histogram, evenEdges(from, to, 100, grainFor(histogram)));
  assert.equal(bins.counts.reduce((a, b) => a + b, 0) + bins.below + bins.beyond, 3003);
  assert.deepEqual([bins.below, bins.beyond], [1, 2]);
  assert.ok(bins.largest >= 400_000);
});

test('a long tail makes the axis logarithmic; a period keeps its even one', () => {
  const next = random(6);
  const core = (base: number, spread: number): number[] =>
    Array.from({ length: 5000 }, () => base + spread * next());
  assert.equal(isLongTailed([recorded([...core(5000, 4000), 800_000])]), true);
  assert.equal(isLongTailed([recorded(core(5000, 4000))]), false);
  assert.equal(isLongTailed([recorded([...core(5000, 4000), ...Array(9).fill(800_000)])]), true);
  assert.equal(isLongTailed([recorded([...core(999_000, 2000), 40_000_000], 4)]), false);
});

test('the figures of a distribution are its buckets, with units in the first line', () => {
  const text = csv(
    figures([{ cell: { name: 'P, "loaded"' }, histogram: recorded([1500, 1500, 5000]) }]),
  );
  assert.equal(
    text,
    'cell,smallest_ns,largest_ns,samples\n"P, ""loaded""",1500,1500,2\n"P, ""loaded""",5000,5003,1\n',
  );
});
