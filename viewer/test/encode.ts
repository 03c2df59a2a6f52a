// Writes HdrHistogram's V2 form, for fixtures: deliberately apart from the reader it is to test.
import { deflateSync } from 'node:zlib';

/** Counts by bucket index for values in ns. */
export class Recorder {
  readonly counts = new Map<number, number>();
  private readonly subBits: number;
  constructor(readonly digits: number) {
    this.subBits = Math.ceil(Math.log2(2 * 10 ** digits));
  }

  record(value: number): void {
    const v = Math.max(1, Math.round(value));
    const bits = Math.floor(Math.log2(v)) + 1;
    const bucket = Math.max(0, bits - this.subBits);
    const sub = Math.floor(v / 2 ** bucket);
    const half = 1 << (this.subBits - 1);
    const index = (bucket + 1) * half + (sub - half);
    this.counts.set(index, (this.counts.get(index) ?? 0) + 1);
  }

  /** base64 of the deflated V2 form. */
  base64(): string {
    const payload: number[] = [];
    const put = (value: number): void => {
      let zigzag = value >= 0 ? value * 2 : -value * 2 - 1;
      while (zigzag >= 128) {
        payload.push((zigzag % 128) | 128);
        zigzag = Math.floor(zigzag / 128);
      }
      payload.push(zigzag);
    };
    let next = 0;
    for (const index of [...this.counts.keys()].sort((a, b) => a - b)) {
      const gap = index - next;
      if (gap === 1) put(0);
      if (gap > 1) put(-gap);
      put(this.counts.get(index)!);
      next = index + 1;
    }
    const inner = Buffer.alloc(40 + payload.length);
    inner.writeUInt32BE(0x1c849313, 0);
    inner.writeUInt32BE(payload.length, 4);
    inner.writeUInt32BE(this.digits, 12);
    inner.writeBigInt64BE(1n, 16);
    inner.writeBigInt64BE(1_000_000_000_000n, 24);
    inner.writeDoubleBE(1, 32);
    Buffer.from(payload).copy(inner, 40);
    const packed = deflateSync(inner);
    const outer = Buffer.alloc(8);
    outer.writeUInt32BE(0x1c849314, 0);
    outer.writeUInt32BE(packed.length, 4);
    return Buffer.concat([outer, packed]).toString('base64');
  }
}
