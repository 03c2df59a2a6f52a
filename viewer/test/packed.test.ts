import assert from 'node:assert/strict';
import { test } from 'node:test';
import { constants, deflateRawSync, deflateSync } from 'node:zlib';
import { base64Bytes, inflateRaw, inflateZlib } from '../src/packed.ts';
import { random } from './fixture.ts';

const next = random(3);
const bodies: Record<string, Buffer> = {
  nothing: Buffer.alloc(0),
  'one byte': Buffer.from([7]),
  'a long run': Buffer.alloc(200_000, 65),
  text: Buffer.from('the lowest 99 percent of the samples, '.repeat(3000)),
  'noise, which is stored': Buffer.from(
    Array.from({ length: 70_000 }, () => Math.floor(next() * 256)),
  ),
  'skewed noise, which has long codes': Buffer.from(
    Array.from({ length: 300_000 }, () => Math.min(255, Math.floor(-Math.log(1 - next()) * 9))),
  ),
};

for (const [name, body] of Object.entries(bodies)) {
  test(`what zlib packs, inflate unpacks: ${name}`, () => {
    for (const level of [0, 1, 6, 9]) {
      for (const strategy of [
        constants.Z_DEFAULT_STRATEGY,
        constants.Z_FIXED,
        constants.Z_HUFFMAN_ONLY,
        constants.Z_RLE,
      ]) {
        assert.ok(
          body.equals(inflateZlib(deflateSync(body, { level, strategy }))),
          `level ${level}, strategy ${strategy}`,
        );
      }
    }
  });
}

test('codes longer than nine bits are unpacked too', () => {
  // Counts that double from symbol to symbol make a code as deep as deflate allows.
  const body = Buffer.concat(Array.from({ length: 17 }, (_, i) => Buffer.alloc(2 ** i, i * 3)));
  const mixed = Buffer.from(body);
  for (let i = mixed.length - 1; i > 0; i--) {
    const j = Math.floor(next() * (i + 1));
    [mixed[i], mixed[j]] = [mixed[j]!, mixed[i]!];
  }
  assert.ok(mixed.equals(inflateZlib(deflateSync(mixed, { strategy: constants.Z_HUFFMAN_ONLY }))));
});

test('a stream that is cut short is refused wherever it ends', () => {
  const whole = deflateSync(bodies['text']!);
  for (let length = 0; length < whole.length; length++)
    assert.throws(
      () => inflateZlib(whole.subarray(0, length)),
      /inflate:/,
      `after ${length} bytes`,
    );
});

test('a stream with a changed byte is refused or unpacks to the same', () => {
  const body = bodies['text']!;
  const whole = deflateSync(body);
  let refused = 0;
  for (let at = 2; at < whole.length; at++) {
    const changed = Buffer.from(whole);
    changed[at]! ^= 0x55;
    try {
      assert.ok(body.equals(inflateZlib(changed)));
    } catch (error) {
      assert.match((error as Error).message, /inflate:/);
      refused++;
    }
  }
  assert.ok(refused > whole.length / 2);
});

test('a stream that unpacks to more than the room that is held at first is whole', () => {
  for (const level of [0, 1, 9]) {
    const body = Buffer.concat([
      bodies['noise, which is stored']!,
      Buffer.alloc(3_000_000, 9),
      bodies['text']!,
    ]);
    assert.ok(body.equals(inflateZlib(deflateSync(body, { level }))), `zlib, level ${level}`);
    assert.ok(body.equals(inflateRaw(deflateRawSync(body, { level }))), `bare, level ${level}`);
  }
  assert.throws(() => inflateRaw(new Uint8Array(0)), /inflate:/);
});

test('base64 is read as Node reads it, and a foreign symbol is refused', () => {
  for (let length = 0; length < 50; length++) {
    const body = bodies['noise, which is stored']!.subarray(0, length);
    assert.deepEqual(Buffer.from(base64Bytes(body.toString('base64'))), Buffer.from(body));
  }
  assert.deepEqual([...base64Bytes(' AQ\nID ')], [1, 2, 3]);
  assert.throws(() => base64Bytes('AB*D'), /4 symbols are not valid base64/);
});
