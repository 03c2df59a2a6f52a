// The largest value of every interval over time. Averages hide what breaks a loop; maxima do not.
import uPlot from 'uplot';
import { thinned } from '../a11y.ts';
import { h } from '../dom.ts';
import { valuesAt } from '../histogram.ts';
import { extent, onClock, peaks, placed, type Cell, type Peak } from '../model.ts';
import type { EventNote } from '../hlog.ts';
import type { Store } from '../state.ts';
import { ink, seriesStyle } from '../theme.ts';
import { duration, human, moment, ns, sec, toUs, type Sec } from '../units.ts';
import { seriesWord } from '../words.ts';
import type { Drawing } from './frame.ts';
import { clipped, clockAxis, clockTitle, limitMark, marker, timeScale } from './marks.ts';
import type { Figures } from './save.ts';

type Points = [number[], (number | null)[]];
const exact = (t: number): number => Math.round(t * 1e6) / 1e6;

/** Steps as points: each holds until the next; where the recording pauses, the line ends and a null follows. */
export function stepPoints(steps: readonly Peak[]): Points {
  const xs: number[] = [];
  const ys: (number | null)[] = [];
  steps.forEach(({ from, to, max }, i) => {
    const value = Math.max(toUs(max), 1e-3);
    const next = steps[i + 1];
    xs.push(exact(from));
    ys.push(value);
    if (next !== undefined && next.from - to < (to - from) * 0.5) return;
    xs.push(exact(to));
    ys.push(value);
    if (next !== undefined) {
      xs.push(exact(to + 2e-6));
      ys.push(null);
    }
  });
  return [xs, ys];
}

/** A path of steps that lifts the pen at a null; where only another curve has a point (undefined) it goes on. */
const broken: uPlot.Series.PathBuilder = (u, series, first, last) => {
  const path = new Path2D();
  const [xs, ys] = [u.data[0], u.data[series]!];
  let before: number | null = null;
  for (let i = first; i <= last; i++) {
    const value = ys[i];
    if (value === undefined) continue;
    if (value === null) {
      before = null;
      continue;
    }
    const [x, y] = [u.valToPos(xs[i]!, 'x', true), u.valToPos(value, 'y', true)];
    if (before === null) path.moveTo(x, y);
    else {
      path.lineTo(x, before);
      path.lineTo(x, y);
    }
    before = y;
  }
  return { stroke: path, fill: null, clip: null, flags: 1 };
};

/** Joins neighbours of a block until at most `most` steps are left within the range; a maximum of maxima loses no peak. */
export function joined(
  steps: readonly Peak[],
  most: number,
  range: readonly [number, number],
): { steps: Peak[]; by: number } {
  const inside = steps.filter(({ from, to }) => to > range[0] && from < range[1]);
  const by = Math.ceil(inside.length / most);
  if (by <= 1) return { steps: inside, by: 1 };
  const result: Peak[] = [];
  let n = 0;
  for (const step of inside) {
    const last = result[result.length - 1];
    if (last !== undefined && n % by !== 0 && last.block === step.block) {
      last.to = step.to;
      last.max = ns(Math.max(last.max, step.max));
    } else {
      result.push({ ...step });
      n = 0;
    }
    n++;
  }
  return { steps: result, by };
}

/** A percentile of every interval, in the form of peaks. */
function band(store: Store, cell: Cell, p: number): Peak[] {
  const { report, state } = store;
  return placed(report, cell, state.tag, state.clock, null).flatMap(({ from, to, block, line }) => {
    const histogram = line.histogram();
    return histogram === null || histogram.total === 0
      ? []
      : [{ from, to, block, max: valuesAt(histogram, [p])[0]! }];
  });
}

/** Stretches under one load, in order, for the shading. */
function loadStretches(
  store: Store,
  cells: readonly Cell[],
): { from: Sec; to: Sec; load: string }[] {
  const { report, state } = store;
  if (state.clock === 'own' && cells.length > 1) return [];
  const all = (state.clock === 'wall' ? report.cells : cells)
    .flatMap((cell) =>
      (cell.file?.blocks ?? []).map((block) => {
        const from = onClock(report, cell.file!, block, block.t, state.clock);
        return { from, to: sec(from + block.end - block.t), load: block.load };
      }),
    )
    .sort((a, b) => a.from - b.from);
  const stretches: { from: Sec; to: Sec; load: string }[] = [];
  for (const block of all) {
    const last = stretches[stretches.length - 1];
    if (last?.load === block.load) last.to = sec(Math.max(last.to, block.to));
    else stretches.push({ ...block });
  }
  return stretches;
}

function drawContext(u: uPlot, store: Store, cells: readonly Cell[]): void {
  const { report, state } = store;
  const ratio = devicePixelRatio;
  const stretches = loadStretches(store, cells);
  clipped(u, (ctx) => {
    const { top, height } = u.bbox;
    if (stretches.length > 1) {
      ctx.font = `${11 * ratio}px system-ui, sans-serif`;
      ctx.textBaseline = 'top';
      ctx.textAlign = 'left';
      stretches.forEach(({ from, to, load }, i) => {
        const a = Math.max(u.valToPos(from, 'x', true), u.bbox.left);
        const b = Math.min(u.valToPos(to, 'x', true), u.bbox.left + u.bbox.width);
        ctx.fillStyle = ink('gutter');
        if (i % 2 === 0) ctx.fillRect(a, top, b - a, height);
        ctx.fillStyle = ink('muted');
        if (b - a > ctx.measureText(load).width + 12 * ratio)
          ctx.fillText(load, a + 6 * ratio, top + 5 * ratio);
      });
    }
    const blocks = state.clock === 'own' ? (cells[0]?.file?.blocks ?? []) : [];
    if (blocks.length < 2 || blocks.length > 80) return;
    ctx.strokeStyle = ink('muted');
    ctx.globalAlpha = 0.45;
    ctx.setLineDash([ratio, 3 * ratio]);
    ctx.lineWidth = ratio;
    ctx.beginPath();
    for (const block of blocks.slice(1)) {
      const x =
        Math.round(u.valToPos(onClock(report, cells[0]!.file!, block, block.t, 'own'), 'x', true)) +
        0.5;
      ctx.moveTo(x, top);
      ctx.lineTo(x, top + height);
    }
    ctx.stroke();
  });
}

/** Where the recording has a hole for a reason that is in its notes: hatched what was left out, a line where the run was resumed. */
function drawHoles(u: uPlot, store: Store, cells: readonly Cell[]): void {
  const ratio = devicePixelRatio;
  const { top, height } = u.bbox;
  clipped(u, (ctx) => {
    ctx.strokeStyle = ink('muted');
    ctx.lineWidth = ratio;
    for (const { file } of cells) {
      const place = (t: Sec): number => {
        const block = file!.blocks.findLast((one) => one.t <= t + 1e-6) ?? file!.blocks[0];
        return u.valToPos(onClock(store.report, file!, block, t, store.state.clock), 'x', true);
      };
      for (const { t, length } of file?.exclusions ?? [])
        hatched(ctx, place(t), Math.max(place(sec(t + length)), place(t) + 3 * ratio), top, height);
      ctx.setLineDash([6 * ratio, 3 * ratio]);
      for (const { t } of file?.resumes ?? []) {
        ctx.beginPath();
        ctx.moveTo(place(t), top);
        ctx.lineTo(place(t), top + height);
        ctx.stroke();
      }
      ctx.setLineDash([]);
    }
  });
}

function hatched(
  ctx: CanvasRenderingContext2D,
  from: number,
  to: number,
  top: number,
  height: number,
): void {
  const apart = 6 * devicePixelRatio;
  ctx.save();
  ctx.beginPath();
  ctx.rect(from, top, to - from, height);
  ctx.clip();
  ctx.beginPath();
  for (let y = top - (to - from); y < top + height; y += apart) {
    ctx.moveTo(from, y + (to - from));
    ctx.lineTo(to, y);
  }
  ctx.stroke();
  ctx.restore();
}

/** What the marks of {@link drawHoles} mean, when there are any. */
export function holesInWords(cells: readonly Cell[]): string {
  const some = (holes: (cell: Cell) => number): boolean => cells.some((cell) => holes(cell) > 0);
  return [
    some(({ file }) => file?.exclusions.length ?? 0)
      ? 'Hatched: excluded, because the surroundings of the loop changed (see Notes).'
      : '',
    some((cell) => alarmsIn(cell).length) ? 'Triangles at the top: bus and robot alarms.' : '',
    some(({ file }) => file?.resumes.length ?? 0) ? 'Dashed line: run resumed.' : '',
  ]
    .filter((words) => words !== '')
    .join(' ');
}

/** Triangles at the head of the plot where bus or robot say that something is wrong. */
function drawAlarms(u: uPlot, store: Store, cells: readonly Cell[]): void {
  clipped(u, (ctx) => {
    for (const cell of cells) {
      for (const { t } of alarmsIn(cell)) {
        const block =
          cell.file!.blocks.findLast((one) => one.t <= t + 1e-6) ?? cell.file!.blocks[0];
        const x = u.valToPos(
          onClock(store.report, cell.file!, block, t, store.state.clock),
          'x',
          true,
        );
        marker(
          ctx,
          'down',
          x,
          u.bbox.top + 7 * devicePixelRatio,
          4 * devicePixelRatio,
          ink('bad'),
          false,
        );
      }
    }
  });
}

const alarmsIn = ({ file }: Cell): readonly EventNote[] =>
  (file?.events ?? []).filter(({ alarm }) => alarm);

/** Crosses at the foot of the plot where samples were lost between the loop and the recorder. */
function drawLost(u: uPlot, store: Store, cells: readonly Cell[]): void {
  clipped(u, (ctx) => {
    for (const cell of cells) {
      for (const note of cell.file?.intervals ?? []) {
        if (!note.lost) continue;
        const block = cell.file!.blocks[note.block] ?? cell.file!.blocks[0];
        const x = u.valToPos(
          onClock(store.report, cell.file!, block, note.t, store.state.clock),
          'x',
          true,
        );
        marker(
          ctx,
          'cross',
          x,
          u.bbox.top + u.bbox.height - 7 * devicePixelRatio,
          4 * devicePixelRatio,
          ink('bad'),
          false,
        );
      }
    }
  });
}

export function maxima(
  store: Store,
  setRange: (range: readonly [number, number] | null) => void,
  width: number,
): Drawing | string {
  const { report, state } = store;
  const word = seriesWord(state.tag);
  const full = extent(report, store.timed(), state.clock);
  const [min, max] = state.range ?? full;
  const curves = store
    .selected()
    .map(({ cell, slot }) => ({
      cell,
      style: seriesStyle(slot),
      ...joined(peaks(report, cell, state.tag, state.clock), (width - 90) / 4, [min, max]),
    }))
    .filter(({ steps }) => steps.length > 0);
  if (curves.length === 0)
    return `No selected cell has a recording of ${word.name.toLowerCase()} over time.`;
  const cells = curves.map(({ cell }) => cell);
  const ps = [...(state.bands.p99 ? [99] : []), ...(state.bands.p50 ? [50] : [])];
  const tables: Points[] = curves.map(({ steps }) => stepPoints(steps));
  const series: uPlot.Series[] = curves.map(({ style }) => ({
    stroke: style.color,
    width: 1.75,
    dash: style.dash,
    paths: broken,
    points: { show: false },
  }));
  for (const p of ps) {
    for (const { cell, style } of curves) {
      tables.push(stepPoints(band(store, cell, p)));
      series.push({
        stroke: style.color,
        width: 1,
        alpha: 0.7,
        dash: [1, p === 99 ? 2 : 4],
        paths: broken,
        points: { show: false },
      });
    }
  }
  const data = uPlot.join(tables as uPlot.AlignedData[]);
  const limit = limitMark(report.summary.limit, state.tag, 'y');
  const seen = tables.flatMap(([xs, ys]) =>
    ys.filter((y, i) => y !== null && xs[i]! >= min - 1 && xs[i]! <= max + 1),
  ) as number[];
  const bounds = seen.length > 0 ? seen : [1, 10];
  const { range, axis } = timeScale(
    Math.min(reduceMin(bounds), limit?.us ?? Infinity),
    Math.max(reduceMax(bounds), limit?.us ?? 0),
    { below: 0.9, above: 1.1 },
  );
  return {
    data,
    series,
    full,
    log: false,
    onRange: setRange,
    limit,
    titles: { x: clockTitle(state.clock), y: `largest ${word.name.toLowerCase()}` },
    legend: curves.map(({ cell, style }) => ({ words: cell.name, style })),
    x: { range: () => [min, max] },
    y: { distr: 3, range: () => range },
    xAxis: clockAxis(),
    yAxis: axis,
    drawUnder: (u) => drawContext(u, store, cells),
    draw: (u) => {
      clipped(u, (ctx) =>
        curves.forEach(({ style }, n) => {
          const [xs, ys] = tables[n]!;
          const inside = xs.flatMap((x, i) => (x >= min && x <= max && ys[i] !== null ? [i] : []));
          for (const i of thinned(inside, 9).slice(1, -1)) {
            marker(
              ctx,
              style.marker,
              u.valToPos(xs[i]!, 'x', true),
              u.valToPos(ys[i]!, 'y', true),
              3.6 * devicePixelRatio,
              style.color,
              false,
            );
          }
        }),
      );
      drawHoles(u, store, cells);
      drawLost(u, store, cells);
      drawAlarms(u, store, cells);
    },
    below: explained(
      curves.some(({ by }) => by > 1)
        ? `Each step is the largest value of up to ${duration(sec(widest(curves)))}; zoom in for shorter steps.`
        : '',
      holesInWords(cells),
    ),
    describe: (index) => {
      const t = data[0][index]!;
      const values = curves.flatMap(({ cell, steps }) => {
        const step = stepAt(steps, t);
        return step ? [`${cell.name} ${human(step.max)}`] : [];
      });
      return `at ${moment(sec(t))}: ${values.length > 0 ? values.join(' · ') : 'no recording'}`;
    },
    figures: () => figures(store, cells),
    table: {
      caption: `Largest ${word.name} over time, at most 60 intervals of each cell`,
      head: ['time', 'cell', 'largest'],
      rows: curves.flatMap(({ cell, steps }) =>
        thinned(steps, 60).map(({ from, max: value }) => [
          moment(from),
          cell.name,
          human(ns(value)),
        ]),
      ),
    },
  };
}

/** Every step of each cell in the range that is shown, none joined. */
function figures({ report, state }: Store, cells: readonly Cell[]): Figures {
  const rows = cells.flatMap((cell) =>
    peaks(report, cell, state.tag, state.clock)
      .filter(
        ({ from, to }) => state.range === null || (to > state.range[0] && from < state.range[1]),
      )
      .map(({ from, to, max }) => [cell.name, exact(from), exact(to), max]),
  );
  return { head: ['cell', 'from_s', 'to_s', 'largest_ns'], rows };
}

const explained = (...sentences: string[]): HTMLElement | null => {
  const said = sentences.filter((words) => words !== '').join(' ');
  return said === '' ? null : h('p', { class: 'readout' }, said);
};

/** Length in seconds of the longest step of several curves. */
const widest = (curves: readonly { steps: readonly Peak[] }[]): number =>
  Math.max(...curves.map(({ steps }) => reduceMax(steps.map(({ from, to }) => to - from))));

function stepAt(steps: readonly Peak[], t: number): Peak | undefined {
  let [lo, hi] = [0, steps.length - 1];
  while (lo < hi) {
    const middle = (lo + hi + 1) >> 1;
    if (steps[middle]!.from <= t + 1e-6) lo = middle;
    else hi = middle - 1;
  }
  const step = steps[lo];
  return step && step.from <= t + 1e-6 && step.to >= t - 1e-6 ? step : undefined;
}

const reduceMin = (values: readonly number[]): number =>
  values.reduce((a, b) => Math.min(a, b), Infinity);
const reduceMax = (values: readonly number[]): number =>
  values.reduce((a, b) => Math.max(a, b), -Infinity);
