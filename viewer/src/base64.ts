const VALUE = new Int8Array(128).fill(-1);
'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'
  .split('')
  .forEach((symbol, value) => { VALUE[symbol.charCodeAt(0)] = value; });

/**
 * Decodes `text` from `from` up to `to`. White space is passed over, padding ends it.
 * Throws on any other symbol, with its place.
 */
export function base64Bytes(text: string, from = 0, to = text.length): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(Math.floor(((to - from) * 3) / 4) + 3);
  let used = 0;
  let bits = 0;
  let held = 0;
  for (let at = from; at < to; at++) {
    const code = text.charCodeAt(at);
    const value = code < 128 ? VALUE[code]! : -1;
    if (value < 0) {
      if (code === 0x3d) break;
      if (code === 0x0a || code === 0x0d || code === 0x20 || code === 0x09) continue;
      throw new Error(`base64: the symbol ${JSON.stringify(text[at])} at ${at - from} does not belong there`);
    }
    bits = (bits << 6) | value;
    held += 6;
    if (held >= 8) {
      held -= 8;
      bytes[used++] = (bits >>> held) & 0xff;
    }
  }
  return bytes.subarray(0, used);
}
