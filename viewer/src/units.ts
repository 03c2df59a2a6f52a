// Times carry their unit in their type, so that a nanosecond never meets a second by accident.

/** A time in nanoseconds. */
export type Ns = number & { readonly unit: 'ns' };
/** A time in seconds since the start of a run, or a length in seconds. */
export type Sec = number & { readonly unit: 's' };
/** A time in microseconds, as charts draw it. */
export type Us = number & { readonly unit: 'us' };

export const ns = (value: number): Ns => value as Ns;
export const sec = (value: number): Sec => value as Sec;
export const toUs = (value: Ns): Us => (value / 1000) as Us;
export const fromUs = (value: number): Ns => (value * 1000) as Ns;

const grouped = (value: number, decimals: number): string =>
  value.toLocaleString('en-US', {
    minimumFractionDigits: decimals,
    maximumFractionDigits: decimals,
  });

/** A count with thousands separated. */
export const count = (value: number): string => grouped(Math.round(value), 0);

/**
 * A time as microseconds without the unit, for tables that state it once.
 * Means and deviations get one more decimal than single observations; from 10 ms on, none; below 0.1, three.
 */
export function usCell(value: Ns, averaged: boolean): string {
  const us = value / 1000;
  if (Math.abs(us) >= 10_000) return grouped(us, 0);
  // 30 ns are not 0.
  if (us !== 0 && Math.abs(us) < 0.1) return grouped(us, 3);
  return grouped(us, averaged ? 2 : 1);
}

/** A time with the unit that reads best: "3.2 µs", "1.07 ms", "2.5 s". */
export function human(value: Ns): string {
  const abs = Math.abs(value);
  // A figure that would be rounded to 1,000 of one unit is shown in the next.
  if (abs < 999.5) return `${grouped(value, 0)} ns`;
  const [scaled, unit] =
    abs < 999.5e3 ? [value / 1e3, 'µs'] : abs < 999.5e6 ? [value / 1e6, 'ms'] : [value / 1e9, 's'];
  const size = Math.abs(scaled);
  return `${grouped(scaled, size < 9.995 ? 2 : size < 99.95 ? 1 : 0)} ${unit}`;
}

/** A value in microseconds for an axis tick, in the unit that keeps it short: "50 µs", "1 ms". */
export function tick(us: number, digits = 4): string {
  if (us <= 0) return '0';
  if (us >= 1e6) return `${trim(us / 1e6, digits)} s`;
  if (us >= 1e3) return `${trim(us / 1e3, digits)} ms`;
  if (us >= 0.999) return `${trim(us, digits)} µs`;
  return `${trim(us * 1e3, digits)} ns`;
}

/** The ticks of an axis in microseconds, with as many digits as tell neighbours apart; where there is no tick, nothing. */
export function ticks(at: readonly (number | null)[]): string[] {
  const all = at.filter((us) => us !== null);
  const gaps = all.slice(1).map((us, i) => us - all[i]!);
  const digits = digitsFor(Math.max(...all), Math.min(...gaps));
  return at.map((us) => (us === null ? '' : tick(us, digits)));
}

/** Digits that tell values up to `most` apart that have a distance of `step`. */
export function digitsFor(most: number, step: number): number {
  const digits = Math.ceil(Math.log10(most / step)) + 1;
  return Number.isFinite(digits) ? Math.min(12, Math.max(4, digits)) : 4;
}

const trim = (value: number, digits = 4): string =>
  value.toLocaleString('en-US', { maximumSignificantDigits: digits });

/** A length of time in words a reader takes in at a glance: "9.5 s", "12 min 05 s", "3 h 20 min". */
export function duration(seconds: Sec): string {
  if (seconds < 59.95) return `${trim(Math.round(seconds * 10) / 10)} s`;
  const total = Math.round(seconds);
  const [h, m, s] = [Math.floor(total / 3600), Math.floor((total % 3600) / 60), total % 60];
  if (h > 0) return m === 0 ? `${h} h` : `${h} h ${String(m).padStart(2, '0')} min`;
  return s === 0 ? `${m} min` : `${m} min ${String(s).padStart(2, '0')} s`;
}

/** A point of time on an axis or in a list: seconds with enough digits to find it again. */
export function moment(seconds: Sec): string {
  // Rounded first, so that no minute has sixty seconds.
  const tenths = Math.round(seconds * 10);
  if (tenths < 600) return `${grouped(seconds, seconds < 9.995 ? 2 : 1)} s`;
  const [h, m] = [Math.floor(tenths / 36_000), Math.floor((tenths % 36_000) / 600)];
  const rest = ((tenths % 600) / 10).toFixed(1).padStart(4, '0');
  return h > 0 ? `${h}:${String(m).padStart(2, '0')}:${rest}` : `${m}:${rest}`;
}

/** The same sentence with its numbers held to their units and signs where lines break, and the page's letters for microseconds. */
export const held = (sentence: string): string =>
  sentence
    .replace(/(\d) (?=(?:ns|µs|us|ms|s|min|h|%)(?![\w]))/g, '$1\u00a0')
    .replace(/(?<=\d\u00a0)us\b/g, 'µs')
    .replace(/× (?=\d)/g, '×\u00a0');

/** A percentile as people write it: 99.9 %, 99.999 %. */
export const percent = (p: number): string => `${Number(p.toPrecision(10))} %`;
