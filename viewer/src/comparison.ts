// What `onbeat compare` says of runs beside each other, as its page carries it (docs/format.md). No document.

export interface Ratio {
  metric: string;
  ratio: number;
  low: number | null;
  high: number | null;
  supported: boolean;
  /** Judged together with the other percentiles of the series: each interval alone leaves out 1 more often. */
  differs: boolean;
  wanders?: boolean;
}
export interface Compared {
  cell: string;
  series: string;
  runs: { run: number; ratios: Ratio[] }[];
}
/** A fact that is not the same in all runs. */
export interface Difference {
  fact: string;
  values: (string | null)[];
}
/** Figures of one run, or one cell of it, in one series; what another tool did not count is null. */
export interface Row {
  run: number;
  tuning: string;
  load: string;
  count: number;
  min_ns: number;
  mean_ns: number;
  sd_ns: number | null;
  max_ns: number;
  jitter_ns: number;
  tail_ratio: number | null;
  overruns: number | null;
  skipped: number | null;
}
/** Runs beside each other; ratios are to the first run that has the cell. */
export interface Comparison {
  runs: string[];
  rows?: { series: string; rows: Row[] }[];
  cells: Compared[];
  differences: Difference[];
  warnings: string[];
  sentences: string[];
}

/** What has ratios in one series: the name of the cell, the run that is held against, and the others with theirs. */
export interface Beside {
  cell: string;
  base: string;
  others: { name: string; ratios: Ratio[] }[];
}

export function beside(comparison: Comparison, series: string): Beside[] {
  return comparison.cells
    .filter((compared) => compared.series === series)
    .flatMap(({ cell, runs: [base, ...others] }) => {
      const name = (run: number): string => comparison.runs[run] ?? `run ${run + 1}`;
      return base === undefined
        ? []
        : [
            {
              cell,
              base: name(base.run),
              others: others.map(({ run, ratios }) => ({ name: name(run), ratios })),
            },
          ];
    });
}

/** The rows of one series: a name, and the load and the tuning where these distinguish rows. */
export interface Rows {
  head: string[];
  rows: { names: string[]; figures: Row }[];
}

export function rowsOf(comparison: Comparison, series: string): Rows {
  const found = comparison.rows?.find((of) => of.series === series)?.rows ?? [];
  const loads = new Set(found.map(({ load }) => load));
  // The loads of one run are called as they are.
  const areLoads = found.every(({ run, load }) => comparison.runs[run] === load);
  const hasTuning = new Set(found.map(({ run, load }) => `${run} ${load}`)).size < found.length;
  const hasLoad = !areLoads && loads.size > 1;
  const names = (row: Row): string[] => [
    comparison.runs[row.run] ?? `run ${row.run + 1}`,
    ...(hasTuning ? [row.tuning] : []),
    ...(hasLoad ? [row.load] : []),
  ];
  return {
    head: [
      areLoads ? 'load' : 'run',
      ...(hasTuning ? ['tuning'] : []),
      ...(hasLoad ? ['load'] : []),
    ],
    rows: found.map((figures) => ({ names: names(figures), figures })),
  };
}
