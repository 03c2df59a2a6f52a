// What the reader has chosen. Everything drawn follows from the report and this.
import type { Cell, Clock, Range, Report } from './model.ts';
import { availableSeries } from './model.ts';
import { STYLES } from './theme.ts';
import { SERIES } from './words.ts';

/** The axis of values in the distribution; `auto` is logarithmic where the tail is long. */
export type Scale = 'auto' | 'linear' | 'log';

export interface State {
  tag: string;
  clock: Clock;
  range: Range;
  heat: string;
  /** Selected cells by key; the place in the list is the style they keep. */
  slots: (string | null)[];
  bands: { p50: boolean; p99: boolean };
  scale: Scale;
}
export type Change = keyof State;

/** The reader's choices, and the listeners for their changes. */
export class Store {
  private listeners: ((changed: ReadonlySet<Change>) => void)[] = [];
  constructor(
    readonly report: Report,
    public state: State,
  ) {}

  onChange(listener: (changed: ReadonlySet<Change>) => void): void {
    this.listeners.push(listener);
  }

  set(part: Partial<State>): void {
    this.state = { ...this.state, ...part };
    const changed = new Set(Object.keys(part) as Change[]);
    this.listeners.forEach((listener) => listener(changed));
  }

  cell(key: string): Cell | undefined {
    return this.report.cells.find((cell) => cell.key === key);
  }

  /** Selected cells with the place whose colour, dash and marker they wear. */
  selected(): { cell: Cell; slot: number }[] {
    return this.state.slots.flatMap((key, slot) => {
      const cell = key === null ? undefined : this.cell(key);
      return cell ? [{ cell, slot }] : [];
    });
  }

  /** The cells whose time the charts over time span: the selected ones and the heat map's. */
  timed(): Cell[] {
    const heat = this.cell(this.state.heat);
    return [...this.selected().map(({ cell }) => cell), ...(heat ? [heat] : [])];
  }

  slotOf(key: string): number {
    return this.state.slots.indexOf(key);
  }

  /** Selects or releases a cell. When all places are taken the oldest choice makes room. */
  toggle(key: string): void {
    const slots = [...this.state.slots];
    const at = slots.indexOf(key);
    if (at >= 0) {
      slots[at] = null;
      const left = slots.find((slot) => slot !== null);
      this.set({ slots, ...(this.state.heat === key && left ? { heat: left } : {}) });
      return;
    }
    const free = slots.indexOf(null);
    slots[free >= 0 ? free : 0] = key;
    this.set({ slots, heat: key });
  }
}

/** The first choices: the best cell beside the untuned one, under the load that decides. */
export function firstState(report: Report): State {
  const tags = availableSeries(
    report,
    SERIES.map((word) => word.tag),
  );
  const { summary, cells } = report;
  const shown = cells.filter((cell) => cell.file !== null && cell.figures.permitted);
  const limit = summary.limit?.on;
  const about =
    summary.sweep?.series ?? cells.find((cell) => cell.figures.about)?.figures.about?.[0];
  // Of files that have different series, the one of most.
  const holders = (tag: string): number =>
    cells.filter(({ figures }) => figures.series[tag]).length;
  const most = [...tags].sort((a, b) => holders(b) - holders(a))[0];
  const tag =
    [limit, about].find((one) => one !== undefined && tags.includes(one)) ??
    most ??
    'release_latency';
  let picks: Cell[] = shown.slice(0, STYLES);
  if (summary.sweep) {
    const worst = [...summary.sweep.steps].sort((a, b) => b.jitter_ns - a.jitter_ns)[0]?.load;
    picks = [
      ...new Set(
        [shown[0], shown.find((cell) => cell.load === worst), shown[shown.length - 1]].filter(
          (cell) => cell !== undefined,
        ),
      ),
    ];
  } else if (report.kind === 'bench' || summary.focus) {
    const load = summary.focus?.load ?? summary.verdict?.best?.load ?? summary.loads.at(-1);
    const ofLoad = shown.filter((cell) => cell.load === load);
    const best =
      ofLoad.find(
        (cell) => cell.tuning === (summary.verdict?.best?.tuning ?? summary.focus?.tunings[1]),
      ) ?? ofLoad[ofLoad.length - 1];
    const untuned = summary.focus?.tunings[0] ?? 'none';
    const none = ofLoad.find((cell) => cell.tuning === untuned) ?? ofLoad[0];
    const between = ofLoad.find((cell) => cell.tuning === 'P' || cell.tuning === 'PM');
    picks = [...new Set([none, between, best].filter((cell) => cell !== undefined))];
  }
  const slots = Array.from({ length: STYLES }, (_, i) => picks[i]?.key ?? null);
  return {
    tag,
    clock: 'own',
    range: null,
    heat: picks[picks.length - 1]?.key ?? '',
    slots,
    bands: { p50: false, p99: false },
    scale: 'auto',
  };
}
