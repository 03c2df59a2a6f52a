// The reader's place as the address has it: a section, and what was chosen where that differs from the first choices. It stands in
// the fragment, which no browser sends anywhere, so that a reload and a shared link show the same.
import { availableSeries, type Cell, type Report } from './model.ts';
import type { Scale, State } from './state.ts';
import { sec } from './units.ts';
import { SERIES } from './words.ts';

/** What an address says: where to look, and what to choose; `null` leaves the choices as they are. */
export interface Place {
  section: string;
  choices: Partial<State> | null;
}

/** A cell in an address: "PMCS/paper" where that is one cell only, its whole key otherwise. */
function cellName(report: Report, cell: Cell): string {
  const short = `${cell.tuning}/${cell.load}`;
  return report.cells.filter(({ tuning, load }) => `${tuning}/${load}` === short).length === 1
    ? short
    : cell.key;
}

const sameList = <T>(a: readonly T[], b: readonly T[]): boolean =>
  a.length === b.length && a.every((one, i) => one === b[i]);

/** Seconds as an address has them: to the microsecond. */
const seconds = (value: number): string => String(Number(value.toFixed(6)));

/** The fragment for a section and the choices that differ from the first ones. */
export function fragment(section: string, report: Report, state: State, first: State): string {
  const words = new URLSearchParams();
  const named = (key: string | null): string => {
    const cell = report.cells.find((one) => one.key === key);
    return cell ? cellName(report, cell) : '';
  };

  if (state.tag !== first.tag) words.set('series', state.tag);
  if (!sameList(state.slots, first.slots)) {
    const last = state.slots.findLastIndex((key) => key !== null);
    state.slots.slice(0, last + 1).forEach((key) => words.append('cell', named(key)));
  }
  if (state.heat !== first.heat) words.set('heat', named(state.heat));
  if (state.clock !== first.clock) words.set('clock', state.clock);
  if (state.range !== null) {
    words.set('from', seconds(state.range[0]));
    words.set('to', seconds(state.range[1]));
  }
  if (state.scale !== first.scale) words.set('axis', state.scale);
  const bands = (['p50', 'p99'] as const).filter((band) => state.bands[band]);
  if (bands.length > 0) words.set('bands', bands.join(' '));

  const chosen = words.toString().replaceAll('%2F', '/');
  return `#${section}${chosen === '' ? '' : `?${chosen}`}`;
}

/** Reads a fragment. What this report does not have is passed over; what is not named has its first value. */
export function readPlace(hash: string, report: Report, first: State): Place {
  const [section = '', query] = hash.replace(/^#/, '').split(/\?(.*)/s);
  if (query === undefined) return { section, choices: null };
  const words = new URLSearchParams(query);
  const keyOf = (name: string): string | null =>
    report.cells.find(
      (cell) =>
        cell.file !== null &&
        cell.figures.permitted &&
        (cellName(report, cell) === name || cell.key === name),
    )?.key ?? null;

  const tag = words.get('series') ?? '';
  const slots = words.getAll('cell').slice(0, first.slots.length).map(keyOf);
  const from = Number(words.get('from') ?? NaN);
  const to = Number(words.get('to') ?? NaN);
  const axis = words.get('axis') as Scale;
  const bands = (words.get('bands') ?? '').split(' ');
  return {
    section,
    choices: {
      tag: availableSeries(
        report,
        SERIES.map((word) => word.tag),
      ).includes(tag)
        ? tag
        : first.tag,
      slots: slots.some((key) => key !== null)
        ? first.slots.map((_, i) => slots[i] ?? null)
        : first.slots,
      heat: keyOf(words.get('heat') ?? '') ?? first.heat,
      clock: words.get('clock') === 'wall' ? 'wall' : first.clock,
      range: from < to ? [sec(from), sec(to)] : null,
      scale: ['linear', 'log'].includes(axis) ? axis : first.scale,
      bands: { p50: bands.includes('p50'), p99: bands.includes('p99') },
    },
  };
}
