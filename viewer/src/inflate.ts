// A synchronous inflate (RFC 1950, RFC 1951). The browser's DecompressionStream answers through promises,
// which costs more than the work itself when eleven thousand histograms of 300 bytes each are to be unpacked.

const FAST_BITS = 9;
const MAX_BITS = 15;
const LENGTH_BASE = [3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258];
const LENGTH_EXTRA = [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0];
const DIST_BASE = [1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577];
const DIST_EXTRA = [0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13];
const CODE_ORDER = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

/** A canonical Huffman code: `fast` answers codes of up to nine bits at once, `counts` and `symbols` the longer ones. */
interface Code { fast: Uint16Array; counts: Uint16Array; symbols: Uint16Array }

const newCode = (symbols: number): Code => ({
  fast: new Uint16Array(1 << FAST_BITS), counts: new Uint16Array(MAX_BITS + 1), symbols: new Uint16Array(symbols),
});

let input: Uint8Array = new Uint8Array(0);
let at = 0;
let bits = 0;
let held = 0;
let output = new Uint8Array(1 << 16);
let used = 0;
const offsets = new Uint16Array(MAX_BITS + 2);
const nextCode = new Uint16Array(MAX_BITS + 2);
const lengths = new Uint8Array(320);
const literalCode = newCode(288);
const distanceCode = newCode(32);
const lengthCode = newCode(19);

const broken = (why: string): Error => new Error(`inflate: ${why} (byte ${at} of ${input.length})`);

function need(n: number): void {
  while (held < n) {
    if (at >= input.length) throw broken('the stream ends too early');
    bits |= input[at++]! << held;
    held += 8;
  }
}

function take(n: number): number {
  if (n === 0) return 0;
  need(n);
  const value = bits & ((1 << n) - 1);
  bits >>>= n;
  held -= n;
  return value;
}

function reversed(code: number, length: number): number {
  let result = 0;
  for (let i = 0; i < length; i++) result |= ((code >>> i) & 1) << (length - 1 - i);
  return result;
}

function buildCode(code: Code, from: number, n: number): void {
  const { fast, counts, symbols } = code;
  counts.fill(0);
  fast.fill(0);
  for (let i = 0; i < n; i++) counts[lengths[from + i]!]!++;
  counts[0] = 0;
  let next = 0;
  offsets[1] = 0;
  for (let length = 1; length <= MAX_BITS; length++) {
    nextCode[length] = next;
    next = (next + counts[length]!) << 1;
    offsets[length + 1] = offsets[length]! + counts[length]!;
    if (next > 2 << length) throw broken('a Huffman code is over-full');
  }
  for (let symbol = 0; symbol < n; symbol++) {
    const length = lengths[from + symbol]!;
    if (length === 0) continue;
    symbols[offsets[length]!++] = symbol;
    const assigned = nextCode[length]!++;
    if (length > FAST_BITS) continue;
    for (let slot = reversed(assigned, length); slot < 1 << FAST_BITS; slot += 1 << length) fast[slot] = (symbol << 4) | length;
  }
}

function decode(code: Code): number {
  while (held < FAST_BITS && at < input.length) { bits |= input[at++]! << held; held += 8; }
  const hit = code.fast[bits & ((1 << FAST_BITS) - 1)]!;
  const hitLength = hit & 15;
  if (hitLength > 0 && hitLength <= held) {
    bits >>>= hitLength;
    held -= hitLength;
    return hit >>> 4;
  }
  let value = 0;
  let first = 0;
  let index = 0;
  for (let length = 1; length <= MAX_BITS; length++) {
    value |= take(1);
    const n = code.counts[length]!;
    if (value - n < first) return code.symbols[index + (value - first)]!;
    index += n;
    first = (first + n) << 1;
    value <<= 1;
  }
  throw broken('a code that stands for nothing');
}

function room(n: number): void {
  if (used + n <= output.length) return;
  const larger = new Uint8Array(Math.max(output.length * 2, used + n));
  larger.set(output);
  output = larger;
}

function stored(): void {
  bits = 0;
  at -= held >>> 3;
  held = 0;
  if (at + 4 > input.length) throw broken('the stream ends too early');
  const n = input[at]! | (input[at + 1]! << 8);
  if ((n ^ 0xffff) !== (input[at + 2]! | (input[at + 3]! << 8))) throw broken('a stored block contradicts its own length');
  at += 4;
  if (at + n > input.length) throw broken('the stream ends too early');
  room(n);
  output.set(input.subarray(at, at + n), used);
  used += n;
  at += n;
}

function fixedCodes(): void {
  lengths.fill(8, 0, 144).fill(9, 144, 256).fill(7, 256, 280).fill(8, 280, 288);
  buildCode(literalCode, 0, 288);
  lengths.fill(5, 0, 30);
  buildCode(distanceCode, 0, 30);
}

function dynamicCodes(): void {
  const literals = take(5) + 257;
  const distances = take(5) + 1;
  const codes = take(4) + 4;
  if (literals > 286 || distances > 30) throw broken('a block declares too many codes');
  lengths.fill(0, 0, 19);
  for (let i = 0; i < codes; i++) lengths[CODE_ORDER[i]!] = take(3);
  buildCode(lengthCode, 0, 19);
  for (let i = 0; i < literals + distances;) {
    const symbol = decode(lengthCode);
    if (symbol < 16) { lengths[i++] = symbol; continue; }
    if (symbol === 16 && i === 0) throw broken('a length repeats nothing');
    const value = symbol === 16 ? lengths[i - 1]! : 0;
    const times = symbol === 16 ? 3 + take(2) : symbol === 17 ? 3 + take(3) : 11 + take(7);
    if (i + times > literals + distances) throw broken('lengths run over their end');
    lengths.fill(value, i, i + times);
    i += times;
  }
  buildCode(literalCode, 0, literals);
  buildCode(distanceCode, literals, distances);
}

function compressed(): void {
  for (;;) {
    const symbol = decode(literalCode);
    if (symbol < 256) {
      if (used === output.length) room(1);
      output[used++] = symbol;
      continue;
    }
    if (symbol === 256) return;
    if (symbol > 285) throw broken('a length that does not exist');
    const length = LENGTH_BASE[symbol - 257]! + take(LENGTH_EXTRA[symbol - 257]!);
    const code = decode(distanceCode);
    if (code > 29) throw broken('a distance that does not exist');
    const distance = DIST_BASE[code]! + take(DIST_EXTRA[code]!);
    if (distance > used) throw broken('a distance reaches before the start');
    room(length);
    for (let i = 0; i < length; i++, used++) output[used] = output[used - distance]!;
  }
}

function checkSum(): void {
  at -= held >>> 3;
  let a = 1;
  let b = 0;
  for (let i = 0; i < used;) {
    const end = Math.min(i + 3800, used);
    for (; i < end; i++) { a += output[i]!; b += a; }
    a %= 65521;
    b %= 65521;
  }
  if (at + 4 > input.length) throw broken('the check sum is missing');
  const told = ((input[at]! << 24) | (input[at + 1]! << 16) | (input[at + 2]! << 8) | input[at + 3]!) >>> 0;
  if (told !== ((b << 16) | a) >>> 0) throw broken('the check sum does not fit');
}

function blocks(): void {
  for (let last = false; !last;) {
    last = take(1) === 1;
    const kind = take(2);
    if (kind === 3) throw broken('a block of no known kind');
    if (kind === 0) { stored(); continue; }
    if (kind === 1) fixedCodes(); else dynamicCodes();
    compressed();
  }
}

/**
 * Unpacks a zlib stream. The result is a view of memory that the next call reuses: read it, or copy it, before.
 * Throws when the stream is cut short, malformed or its Adler-32 does not fit.
 */
export function inflateZlib(source: Uint8Array): Uint8Array {
  input = source;
  at = 2;
  bits = held = used = 0;
  if (input.length < 6 || (input[0]! & 15) !== 8 || ((input[0]! << 8) | input[1]!) % 31 !== 0 || (input[1]! & 32) !== 0) {
    throw broken('not a zlib stream');
  }
  blocks();
  checkSum();
  return output.subarray(0, used);
}

/** Unpacks a bare deflate stream, which carries no check sum. The result is a view as above. */
export function inflateRaw(source: Uint8Array): Uint8Array {
  input = source;
  at = bits = held = used = 0;
  blocks();
  return output.subarray(0, used);
}
