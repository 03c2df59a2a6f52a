// The last minutes of all joints: one entry per event, in memory of fixed size; no document.
import { scaleOf, type Histogram } from '../histogram.ts';
import type { Band, JointSeries } from '../charts/joint.ts';
import { AT, VALUES, type Hello, type LiveCycles, type LiveTimes } from './stream.ts';

/** Entries kept: five minutes of 20 per second. */
export const ENTRIES = 6000;
/** Values per entry beside the joints: first and last cycle, release in ns, largest release latency. */
const HEAD = 4;

/** Lists of values of a robot's joints, the oldest overwritten by the newest. */
export class History {
  private readonly head = new Float64Array(ENTRIES * HEAD);
  private readonly values: Float64Array;
  private next = 0;
  private filled = 0;
  private start: number | null = null;

  constructor(private readonly joints: number) {
    this.values = new Float64Array(ENTRIES * joints * VALUES);
  }

  add(cycles: LiveCycles): void {
    const at = this.next;
    this.start ??= cycles.release_ns;
    this.head.set(
      [
        cycles.first,
        cycles.last,
        cycles.release_ns,
        cycles.times['release_latency']?.largest_ns ?? 0,
      ],
      at * HEAD,
    );
    cycles.joints.forEach((joint, number) => {
      const base = (at * this.joints + number) * VALUES;
      for (let i = 0; i < VALUES; i++) this.values[base + i] = joint[i] ?? NaN;
    });
    this.next = (at + 1) % ENTRIES;
    this.filled = Math.min(ENTRIES, this.filled + 1);
  }

  get length(): number {
    return this.filled;
  }

  /** Places of the entries of the last `seconds`, the oldest first. */
  private places(seconds: number): number[] {
    const newest = this.head[((this.next + ENTRIES - 1) % ENTRIES) * HEAD + 2]!;
    const all = Array.from(
      { length: this.filled },
      (_, i) => (this.next + ENTRIES - this.filled + i) % ENTRIES,
    );
    return all.filter((place) => newest - this.head[place * HEAD + 2]! <= seconds * 1e9);
  }

  private time(place: number): number {
    return (this.head[place * HEAD + 2]! - this.start!) / 1e9;
  }

  /** The series of one joint. */
  joint(number: number, seconds: number): JointSeries {
    const places = this.places(seconds);
    const column = (at: number): number[] =>
      places.map((place) => this.values[(place * this.joints + number) * VALUES + at]!);
    const band = (at: number): Band => ({
      last: column(at),
      low: column(at + 1),
      high: column(at + 2),
    });
    return {
      t: places.map((place) => this.time(place)),
      first: places.map((place) => this.head[place * HEAD]!),
      cycle: places.map((place) => this.head[place * HEAD + 1]!),
      target: band(AT.target),
      actual: band(AT.actual),
      following: band(AT.following),
      torque: band(AT.torque),
      states: column(AT.states),
    };
  }

  /** The largest release latency of each event, in ns. */
  latencies(seconds: number): { t: number[]; largest: number[] } {
    const places = this.places(seconds);
    return {
      t: places.map((place) => this.time(place)),
      largest: places.map((place) => this.head[place * HEAD + 3]!),
    };
  }
}

/** A histogram that grows. */
export class Growing {
  private readonly counts = new Map<number, number>();
  largest_ns = 0;
  at_cycle = 0;

  add(times: LiveTimes): void {
    for (let i = 0; i < times.counts.length; i += 2)
      this.counts.set(
        times.counts[i]!,
        (this.counts.get(times.counts[i]!) ?? 0) + times.counts[i + 1]!,
      );
    if (times.largest_ns > this.largest_ns) {
      this.largest_ns = times.largest_ns;
      this.at_cycle = times.at_cycle;
    }
  }

  /** The counts so far, in the form that the charts draw. */
  histogram(): Histogram {
    const index = [...this.counts.keys()].sort((a, b) => a - b);
    const count = index.map((bucket) => this.counts.get(bucket)!);
    return {
      scale: scaleOf(1, 3),
      index: Int32Array.from(index),
      count: Float64Array.from(count),
      total: count.reduce((a, b) => a + b, 0),
    };
  }
}

/** Largest following error of a joint since the start, and the joint. */
export interface Worst {
  rad: number;
  joint: number;
}

/** Everything counted since the start of the run. */
export class Totals {
  cycles = 0;
  lost = 0;
  merged = 0;
  skipped = 0;
  stale = 0;
  counterOff = 0;
  last = 0;
  readonly times = new Map<string, Growing>();
  /** Per joint, rad. */
  readonly following: number[];

  constructor(hello: Hello) {
    this.following = hello.robot.joints.map(() => 0);
    this.add(hello.total);
  }

  add(cycles: LiveCycles): void {
    this.cycles += cycles.cycles;
    this.lost += cycles.lost;
    this.merged += cycles.merged;
    this.skipped += cycles.skipped;
    this.stale += cycles.stale;
    this.counterOff += cycles.counter_off;
    this.last = Math.max(this.last, cycles.last);
    for (const [series, times] of Object.entries(cycles.times)) {
      if (!this.times.has(series)) this.times.set(series, new Growing());
      this.times.get(series)!.add(times);
    }
    cycles.joints.forEach((joint, number) => {
      const worst = Math.max(
        Math.abs(joint[AT.following + 1] ?? 0),
        Math.abs(joint[AT.following + 2] ?? 0),
      );
      this.following[number] = Math.max(this.following[number] ?? 0, worst);
    });
  }

  /** The joint with the largest following error. */
  worst(): Worst | null {
    const joint = this.following.reduce(
      (best, rad, i) => (rad > (this.following[best] ?? 0) ? i : best),
      0,
    );
    return this.following.length === 0 ? null : { joint, rad: this.following[joint]! };
  }
}
