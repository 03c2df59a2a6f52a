// What `onbeat compare` says of runs beside each other, as its page carries it (docs/format.md). No document.

export interface Ratio { metric: string; ratio: number; low: number | null; high: number | null; supported: boolean }
export interface Compared { cell: string; series: string; runs: { run: number; ratios: Ratio[] }[] }
/** A fact that is not the same in all runs. */
export interface Difference { fact: string; values: (string | null)[] }
/** Runs beside each other; ratios are to the first run that has the cell. */
export interface Comparison { runs: string[]; cells: Compared[]; differences: Difference[]; warnings: string[]; sentences: string[] }

/** What has ratios in one series: the name of the cell, the run that is held against, and the others with theirs. */
export interface Beside { cell: string; base: string; others: { name: string; ratios: Ratio[] }[] }

export function beside(comparison: Comparison, series: string): Beside[] {
  return comparison.cells.filter((compared) => compared.series === series).flatMap(({ cell, runs: [base, ...others] }) => {
    const name = (run: number): string => comparison.runs[run] ?? `run ${run + 1}`;
    return base === undefined ? [] : [{ cell, base: name(base.run), others: others.map(({ run, ratios }) => ({ name: name(run), ratios })) }];
  });
}
