// Base64 and deflate, unpacked at once. The browser's DecompressionStream answers through promises, which costs more than
// the work itself when eleven thousand histograms of 300 bytes each are to be unpacked.
import { inflateSync, unzlibSync } from 'fflate';

/** Decodes `text` from `from` up to `to`. White space is passed over. Throws where it is not valid base64. */
export function base64Bytes(text: string, from = 0, to = text.length): Uint8Array<ArrayBuffer> {
  let symbols: string;
  try {
    symbols = atob(text.slice(from, to));
  } catch {
    throw new Error(`base64: ${to - from} symbols are not valid base64`);
  }
  const bytes = new Uint8Array(symbols.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = symbols.charCodeAt(i);
  return bytes;
}

/** Deflate makes nothing smaller than this many times. */
const DENSEST = 1040;

// Without a buffer of ours, fflate asks for 128 KiB at every call; with one it needs an eighth of the time.
let room = new Uint8Array(1 << 16);

function unpacked(
  source: Uint8Array,
  unpack: (source: Uint8Array, options: { out: Uint8Array }) => Uint8Array,
): Uint8Array {
  const most = source.length * DENSEST;
  for (;;) {
    let result: Uint8Array | null = null;
    try {
      result = unpack(source, { out: room });
    } catch (error) {
      // A stored block that does not fit is a RangeError; what does not fit otherwise fills the room and is left out.
      if (!(error instanceof RangeError))
        throw new Error(`inflate: ${(error as Error).message} (${source.length} bytes)`);
    }
    if (result !== null && result.length < room.length) return result;
    if (room.length > most)
      throw new Error(`inflate: ${source.length} bytes decompress to more than they can contain`);
    room = new Uint8Array(room.length * 2);
  }
}

/** Adler-32 (RFC 1950), which fflate leaves to its callers. */
function adler32(bytes: Uint8Array): number {
  let a = 1;
  let b = 0;
  for (let i = 0; i < bytes.length;) {
    // This many additions stay exact before the remainder is taken.
    for (const end = Math.min(i + 3800, bytes.length); i < end; i++) {
      a += bytes[i]!;
      b += a;
    }
    a %= 65521;
    b %= 65521;
  }
  return ((b << 16) | a) >>> 0;
}

/**
 * Unpacks a zlib stream. The result is a view of memory that the next call reuses: read it, or copy it, before.
 * Throws when the stream is cut short, malformed or its check sum does not fit.
 */
export function inflateZlib(source: Uint8Array): Uint8Array {
  if (source.length < 7)
    throw new Error(`inflate: ${source.length} bytes are too short for a zlib stream`);
  const result = unpacked(source, unzlibSync);
  const end = source.length - 4;
  const stated =
    ((source[end]! << 24) |
      (source[end + 1]! << 16) |
      (source[end + 2]! << 8) |
      source[end + 3]!) >>>
    0;
  if (stated !== adler32(result))
    throw new Error(`inflate: the checksum does not match (${source.length} bytes)`);
  return result;
}

/** Unpacks a bare deflate stream, which carries no check sum. The result is a view as above. Throws as above. */
export function inflateRaw(source: Uint8Array): Uint8Array {
  if (source.length === 0) throw new Error('inflate: no data');
  return unpacked(source, inflateSync);
}
