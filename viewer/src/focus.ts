// What stands first: which cells, of which series, and their figures in lines. The same lines as in `onbeat report --markdown`.
import type { Cell, Report } from './model.ts';
import type { State } from './state.ts';
import type { CellSummary, SeriesFigures } from './summary.ts';
import { count, human, percent } from './units.ts';

/** A cell that stands first, with the place whose colour, dash and marker it wears; `tag` is the series that is shown of it. */
export interface First {
  cell: Cell;
  slot: number;
  tag: string;
}

/** The cells that stand first: of a bench untuned and best under the load that decides, otherwise what is chosen at first. */
export function firstCells(report: Report, first: State): First[] {
  const { focus } = report.summary;
  if (focus !== undefined)
    return focus.tunings.flatMap((tuning, place) => {
      const cell = report.cells.find((one) => one.tuning === tuning && one.load === focus.load);
      if (cell === undefined) return [];
      const slot = first.slots.indexOf(cell.key);
      return [{ cell, slot: slot < 0 ? place : slot, tag: focus.series }];
    });
  return first.slots.flatMap((key, slot) => {
    const cell = key === null ? undefined : report.cells.find((one) => one.key === key);
    return cell ? [{ cell, slot, tag: first.tag }] : [];
  });
}

/** A line of figures; what fewer than ten samples support is marked. */
export interface FirstRow {
  name: string;
  figures: { text: string; supported: boolean }[];
}

const SHARES = [50, 99, 99.9, 99.99];
const NONE = { text: '–', supported: true };

/** A share with what it is of; rounded as the terminal rounds it. */
const share = (part: number, all: number): string =>
  `${percent(Number(((100 * part) / Math.max(all, 1)).toPrecision(3)))} (${count(part)} of ${count(all)})`;

function late({ deadline_misses: misses, skipped, slots }: CellSummary): FirstRow['figures'][0] {
  if (slots === 0 || (misses === null && skipped === null)) return NONE;
  return { text: share((misses ?? 0) + (skipped ?? 0), slots), supported: true };
}

/** Percentiles, the largest value, what was over the limit, and what was missed or skipped. */
export function firstRows(report: Report, cells: readonly First[]): FirstRow[] {
  const { limit } = report.summary;
  const row = (
    name: string,
    of: (figures: SeriesFigures) => FirstRow['figures'][0] | null,
  ): FirstRow => ({
    name,
    figures: cells.map(({ cell, tag }) => {
      const figures = cell.figures.series[tag];
      return (figures ? of(figures) : null) ?? NONE;
    }),
  });
  const rows = SHARES.map((p) =>
    row(`p${p}`, (figures) => {
      const found = figures.percentiles.find((one) => Math.abs(one.p - p) < 1e-9);
      return found ? { text: human(found.value_ns), supported: found.supported } : null;
    }),
  );
  rows.push(row('max', ({ max_ns: max }) => ({ text: human(max), supported: true })));
  const judged = cells.some(({ cell, tag }) => cell.figures.verdict && limit?.on === tag);
  if (limit && judged)
    rows.push({
      name: `over ${human(limit.limit_ns)}`,
      figures: cells.map(({ cell: { figures } }) =>
        figures.verdict
          ? { text: share(figures.verdict.over, figures.verdict.releases), supported: true }
          : NONE,
      ),
    });
  if (cells.some(({ cell }) => late(cell.figures) !== NONE))
    rows.push({
      name: 'missed or skipped',
      figures: cells.map(({ cell }) => late(cell.figures)),
    });
  return rows;
}
