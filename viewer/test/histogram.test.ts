import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deflateSync } from 'node:zlib';
import hdr from 'hdr-histogram-js';
import {
  decodeBase64,
  highAt,
  isSupported,
  lowAt,
  lowest,
  maximum,
  merge,
  minimum,
  rankOf,
  scaleOf,
  valuesAt,
  widthAt,
} from '../src/histogram.ts';
import { heights } from '../src/charts/distribution.ts';
import { percentileCurve, percentileGrid } from '../src/charts/percentiles.ts';
import { figuresOf, joinMoments } from '../src/derive.ts';
import { ns } from '../src/units.ts';
import { Recorder } from './encode.ts';
import { random } from './fixture.ts';

const made = (digits: 3 | 4, values: readonly number[]): hdr.Histogram => {
  const histogram = hdr.build({
    lowestDiscernibleValue: 1,
    highestTrackableValue: 1_000_000_000_000,
    numberOfSignificantValueDigits: digits,
    bitBucketSize: 64,
    useWebAssembly: false,
  });
  values.forEach((value) => histogram.recordValue(value));
  return histogram;
};
const encoded = (histogram: hdr.Histogram): string => hdr.encodeIntoCompressedBase64(histogram);
const next = random(11);
const spread = (n: number): number[] =>
  Array.from({ length: n }, () => Math.max(1, Math.floor(Math.exp(next() * 27))));

for (const digits of [3, 4] as const) {
  test(`histograms of another library decode to the same counts and percentiles, ${digits} digits`, () => {
    for (const values of [
      [1],
      [1, 2, 3],
      [2047, 2048, 2049, 4095, 4096],
      spread(20_000),
      Array.from({ length: 5000 }, () => 1_000_000 + Math.floor(next() * 5000)),
    ]) {
      const theirs = made(digits, values);
      const ours = decodeBase64(encoded(theirs));
      assert.equal(ours.total, values.length);
      const ps = [0.001, 10, 50, 90, 99, 99.9, 99.99, 100];
      const found = valuesAt(ours, ps);
      ps.forEach((p, i) => assert.equal(found[i], theirs.getValueAtPercentile(p), `${p} %`));
      assert.ok(minimum(ours) <= Math.min(...values) && maximum(ours) >= Math.max(...values));
    }
  });
}

test('the fixtures’ own writer is read by another library', () => {
  for (const digits of [3, 4]) {
    const recorder = new Recorder(digits);
    const values = spread(3000);
    values.forEach((value) => recorder.record(value));
    const theirs = hdr.decodeFromCompressedBase64(recorder.base64(), 64, false);
    assert.equal(theirs.totalCount, 3000);
    assert.equal(
      theirs.getValueAtPercentile(50),
      made(digits as 3 | 4, values).getValueAtPercentile(50),
    );
  }
});

// Written by the Rust crate hdrhistogram 7.6.0, which onbeat records with.
const RUST = [
  {
    digits: 3,
    total: 1002,
    p50: 6523,
    p99: 7975,
    p999: 405759,
    max: 1000190509055,
    text: 'HISTFAAAAVd4nEVRu1EEUQwzfj6dWQiYIaULCqAO+qEDaiCgBgIaILwiCCkBSX4zt5/Zt/5Isvz09v4YkT8x19rfG76/l4+HePnbkfx+zqzsXNmRR2QFKiqjiseqSIaK8WQoFUIzFMrxn22sW7l4Vo3rE3cA2KYOdxXuJ5/BuFmyoUr16KlaYhQhCaBEbAXiOXjuJVnQWQDVqieeAKSEdefcGhpWJooZAqAIkITKPYVQo6mA6iVtMqrnPVpihLUSqXlkjuDplzg9sMmVjz7lMTFyE5eT3FaLN2WRfQh7wiTyesEIrdgym7M0lU6Q06LY1cKxTQYfezAyqCu8FlEziIUJiil6FqpNmpoUXJCmgEHcKN3w3ILHXkv2tlcZICwnZOzCdGDpn7qwZxwwEN3C1aITa+zi3nj02bas9ApLykufWYEmXOYvGxgHZz1hVqo01z9efr2y/vOS+Q/VVhGS',
  },
  {
    digits: 4,
    total: 1002,
    p50: 1002079,
    p99: 1003999,
    p999: 1003999,
    max: 1000022736895,
    text: 'HISTFAAAAIV4nC2KywkCQRBEx2FZhqZsirZpBpmDN8MwOTEBA/BkCGZiDu7REOzFLSge9RnX+6GUcit/TRt36eX9ZLl8t6Y+ln2jVxORY2CWRsjACeFqikEJOrp6h03kIDGgoCoCMlN0neDrU9nU3CORsswO6xQLIw0WGgFvbSQ0Mqq3/vqc6w8Y2hCd',
  },
];

test('histograms of the recorder’s own library decode to what it says of them', () => {
  for (const { total, p50, p99, p999, max, text } of RUST) {
    const ours = decodeBase64(text);
    assert.equal(ours.total, total);
    assert.deepEqual([...valuesAt(ours, [50, 99, 99.9])], [p50, p99, p999]);
    assert.equal(maximum(ours), max);
    assert.equal(minimum(ours), 1);
  }
});

test('a bucket holds exactly the values between its ends', () => {
  for (const digits of [1, 2, 3, 4, 5]) {
    const scale = scaleOf(1, digits);
    let end = 0;
    for (let index = 0; index < (1 << scale.subBits) * 3; index++) {
      assert.equal(lowAt(scale, index), end);
      end = lowAt(scale, index) + widthAt(scale, index);
      assert.equal(highAt(scale, index), end - 1);
    }
  }
});

test('counts beyond 32 bits survive', () => {
  const theirs = made(3, []);
  theirs.recordValueWithCount(5000, 6_000_000_000);
  theirs.recordValue(70);
  const ours = decodeBase64(encoded(theirs));
  assert.equal(ours.total, 6_000_000_001);
  assert.deepEqual([...ours.count], [1, 6_000_000_000]);
});

test('merging intervals gives what one histogram of everything gives', () => {
  const parts = Array.from({ length: 20 }, (_, i) => spread(i === 3 ? 0 : 500));
  const whole = decodeBase64(encoded(made(3, parts.flat())));
  const joined = merge(parts.map((values) => decodeBase64(encoded(made(3, values)))))!;
  assert.deepEqual([...joined.index], [...whole.index]);
  assert.deepEqual([...joined.count], [...whole.count]);
  assert.equal(joined.total, whole.total);
  assert.equal(merge([]), null);
});

test('histograms of different precision are not added', () => {
  assert.throws(
    () => merge([decodeBase64(encoded(made(3, [5]))), decodeBase64(encoded(made(4, [5])))]),
    /different precision/,
  );
});

test('damaged histograms are refused with a reason', () => {
  assert.throws(() => decodeBase64('AAAA'), /too short/);
  assert.throws(
    () => decodeBase64(Buffer.from([0x1c, 0x84, 0x93, 0x01, 0, 0, 0, 0]).toString('base64')),
    /0x1c849301/,
  );
  const text = encoded(made(3, spread(500)));
  assert.throws(() => decodeBase64(text.slice(0, text.length - 40)), /inflate:/);
  const inner = Buffer.alloc(40);
  inner.writeUInt32BE(0x1c849303, 0);
  inner.writeUInt32BE(9, 4);
  const packed = deflateSync(inner);
  const outer = Buffer.alloc(8);
  outer.writeUInt32BE(0x1c849304, 0);
  outer.writeUInt32BE(packed.length, 4);
  assert.throws(() => decodeBase64(Buffer.concat([outer, packed]).toString('base64')), /truncated/);
});

test('a percentile is supported when ten samples stand above it, and the maximum always is', () => {
  assert.equal(isSupported(99, 1000), true);
  assert.equal(isSupported(99, 999), false);
  assert.equal(isSupported(99.99, 100_000), true);
  assert.equal(isSupported(99.99, 60_000), false);
  assert.equal(isSupported(99.999, 1_000_000), true);
  assert.equal(isSupported(100, 1), true);
});

test('ranks do not suffer from binary fractions', () => {
  assert.equal(rankOf(99.9, 1000), 999);
  assert.equal(rankOf(99.99, 100_000), 99_990);
  assert.equal(rankOf(0, 10), 1);
  assert.equal(rankOf(100, 10), 10);
});

test('the lowest q percent leave the peaks out and keep everything else', () => {
  const values = Array.from({ length: 1000 }, (_, i) => i + 1);
  const histogram = decodeBase64(encoded(made(3, values)));
  const low = lowest(histogram, 99);
  assert.deepEqual([low.count, low.max_ns, low.supported], [990, 990, true]);
  assert.ok(Math.abs(low.mean_ns - 495.5) < 1e-9);
  const exact = Math.sqrt(values.slice(0, 990).reduce((a, v) => a + (v - 495.5) ** 2, 0) / 990);
  assert.ok(Math.abs(low.sd_ns - exact) < 1e-9);
  assert.equal(lowest(histogram, 99.9).supported, false);
});

test('moments of intervals join to those of the whole', () => {
  const parts = Array.from({ length: 7 }, () => spread(300));
  const of = (values: readonly number[]): Parameters<typeof joinMoments>[0] => {
    const mean = values.reduce((a, b) => a + b, 0) / values.length;
    return {
      n: values.length,
      min_ns: ns(Math.min(...values)),
      max_ns: ns(Math.max(...values)),
      mean_ns: ns(mean),
      m2: values.reduce((a, b) => a + (b - mean) ** 2, 0),
    };
  };
  const joined = parts.map(of).reduce(joinMoments);
  const whole = of(parts.flat());
  assert.equal(joined.n, whole.n);
  assert.equal(joined.max_ns, whole.max_ns);
  assert.ok(
    Math.abs(joined.mean_ns / whole.mean_ns - 1) < 1e-12 &&
      Math.abs(joined.m2 / whole.m2 - 1) < 1e-9,
  );
  const figures = figuresOf(decodeBase64(encoded(made(3, parts.flat()))), joined);
  assert.equal(figures.max_ns, Math.max(...parts.flat()));
  assert.equal(figures.low[4]!.mean_ns, joined.mean_ns);
});

test('the percentile curve splits where support ends and ends at the largest value', () => {
  const histogram = decodeBase64(
    encoded(
      made(
        3,
        Array.from({ length: 2000 }, (_, i) => 1000 + i),
      ),
    ),
  );
  const grid = percentileGrid([histogram.total]);
  const { solid, hollow } = percentileCurve(histogram, grid);
  grid.forEach((x, i) => {
    const above = 2000 - rankOf(100 * (1 - 1 / x), 2000);
    assert.equal(solid[i] !== null, above >= 10 && x < 2000, `at ${x}`);
  });
  assert.equal(grid[grid.length - 1], 2000);
  assert.equal(hollow[grid.length - 1], maximum(histogram) / 1000);
  assert.equal(hollow.filter((v, i) => v !== null && solid[i] !== null).length, 1);
});

test('empty bins between filled ones come down to the floor, the others are gaps', () => {
  assert.deepEqual(heights(Float64Array.from([0, 0, 3, 0, 0, 0, 1])), [
    null,
    0.6,
    3,
    0.6,
    null,
    0.6,
    1,
  ]);
});
