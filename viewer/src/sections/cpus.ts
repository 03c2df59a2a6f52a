// A loop on each CPU at once: where the CPUs are in the machine, and a panel each with one pair of axes for all, as OSADL draws
// its latency plots.
import { evenEdges, binned, growingEdges } from '../charts/bins.ts';
import { grainOf, heights } from '../charts/distribution.ts';
import { logMarks } from '../charts/small.ts';
import { h, section, svg } from '../dom.ts';
import { maximum, minimum, type Histogram } from '../histogram.ts';
import { histogramOf, type Cell, type Report } from '../model.ts';
import type { PowerUse } from '../summary.ts';
import { coreGroups, type Cluster } from '../topology.ts';
import { count, human, ns, tick, type Ns } from '../units.ts';
import { seriesWord, UNSUPPORTED } from '../words.ts';

const WIDTH = 320;
const HEIGHT = 150;
const LEFT = 40;
const RIGHT = 8;
const TOP = 10;
const BOTTOM = 24;
/** How many times the largest value a limit may be to stand in the panels. */
const FARTHEST = 30;
/** Bins of a panel. */
const BINS = 72;

/** The number of the CPU of a cell: `CPU 3`. */
const cpuOf = (cell: Cell): number => Number(cell.tuning.replace(/^CPU /, ''));

interface Measured {
  cell: Cell;
  cpu: number;
  histogram: Histogram;
}

/** What all panels share. */
interface Plane {
  edges: readonly Ns[];
  most: number;
  x: (value: Ns) => number;
  y: (samples: number) => number;
  limit: Ns | null;
}

function plane(all: readonly Measured[], tag: string, limit: Ns | null): Plane {
  const histograms = all.map(({ histogram }) => histogram);
  const files = all.map(({ cell }) => cell.file?.resolution[tag]);
  const from = ns(Math.max(1, Math.min(...histograms.map(minimum)) * 0.9));
  const largest = Math.max(...histograms.map(maximum));
  // A limit far beyond all values would leave the panels empty.
  const seen = limit !== null && limit <= largest * FARTHEST ? limit : null;
  const to = ns(Math.max(largest, seen ?? 0) * 1.1);
  const grain = grainOf(histograms, files);
  const edges =
    to > from * 1.5 ? growingEdges(from, to, BINS, grain) : evenEdges(from, to, BINS, grain);
  const [first, last] = [edges[0]!, edges[edges.length - 1]!];
  const most = Math.max(...histograms.flatMap((one) => [...binned(one, edges).counts]), 1);
  const span = Math.log(last / Math.max(first, 1));
  return {
    edges,
    most,
    x: (value) =>
      LEFT + ((WIDTH - LEFT - RIGHT) * Math.log(Math.max(value, 1) / Math.max(first, 1))) / span,
    y: (samples) =>
      TOP + (HEIGHT - TOP - BOTTOM) * (1 - Math.log(samples / 0.6) / Math.log((most * 1.2) / 0.6)),
    limit: seen,
  };
}

/** The outline of a histogram, closed at the floor. */
function outline({ histogram }: Measured, { edges, x, y }: Plane): string {
  const tops = heights(binned(histogram, edges).counts);
  const floor = HEIGHT - BOTTOM;
  let path = '';
  tops.forEach((top, i) => {
    if (top === null) return;
    const [left, right] = [x(edges[i]!).toFixed(1), x(edges[i + 1]!).toFixed(1)];
    path += `M${left} ${floor}V${y(top).toFixed(1)}H${right}V${floor}Z`;
  });
  return path;
}

const percentile = (cell: Cell, tag: string, p: number): { text: string; supported: boolean } => {
  const found = cell.figures.series[tag]?.percentiles.find((one) => Math.abs(one.p - p) < 1e-9);
  return found
    ? { text: human(found.value_ns), supported: found.supported }
    : { text: '–', supported: true };
};

function panel(one: Measured, shared: Plane, tag: string, isWorst: boolean): HTMLElement {
  const { edges, most, x, y, limit } = shared;
  const figures = one.cell.figures.series[tag]!;
  const [first, last] = [edges[0]!, edges[edges.length - 1]!];
  const across = logMarks(first / 1000, last / 1000, tick);
  const thin = Math.ceil(across.length / 5);
  const upright = logMarks(1, most, (value) => count(value)).filter(
    (_, i, all) => i % Math.ceil(all.length / 4) === 0,
  );
  const p99 = percentile(one.cell, tag, 99);
  return h(
    'li',
    { class: isWorst ? 'cpu-panel worst' : 'cpu-panel', 'data-cpu': one.cpu },
    h(
      'p',
      {},
      h('b', {}, one.cell.tuning),
      isWorst ? h('span', { class: 'sign' }, 'worst') : null,
      h(
        'span',
        { class: 'muted' },
        `p99\u00a0${p99.text}${p99.supported ? '' : '°'} · max\u00a0${human(figures.max_ns)}`,
      ),
    ),
    svg(
      'svg',
      {
        viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
        role: 'img',
        'aria-label': `${one.cell.tuning}: ${seriesWord(tag).name.toLowerCase()} of ${count(figures.count)} samples, from ${human(figures.min_ns)} to ${human(figures.max_ns)}`,
      },
      ...upright.flatMap(({ at, label }) => [
        svg('line', { class: 'grid', x1: LEFT, x2: WIDTH - RIGHT, y1: y(at), y2: y(at) }),
        svg('text', { class: 'up', x: LEFT - 5, y: y(at) + 4 }, label),
      ]),
      ...across.flatMap(({ at, label }, i) => {
        const place = x(ns(at * 1000));
        return [
          svg('line', { class: 'grid', x1: place, x2: place, y1: TOP, y2: HEIGHT - BOTTOM }),
          i % thin === 0
            ? svg('text', { class: 'across', x: Math.min(place, WIDTH - 18), y: HEIGHT - 8 }, label)
            : null,
        ].filter((element) => element !== null);
      }),
      svg('path', { class: 'bin', d: outline(one, shared) }),
      svg('line', {
        class: 'worst-value',
        x1: x(figures.max_ns),
        x2: x(figures.max_ns),
        y1: HEIGHT - BOTTOM - 14,
        y2: HEIGHT - BOTTOM,
      }),
      limit === null
        ? null
        : svg('line', { class: 'limit', x1: x(limit), x2: x(limit), y1: TOP, y2: HEIGHT - BOTTOM }),
    ),
  );
}

/** `C6 (133 µs to leave)`; what the kernel says where there is none. */
function deepest(power: PowerUse | undefined): string {
  if (power === undefined) return '–';
  const states = power.states ?? [];
  const entered = states.filter((state) => state.entered > 0);
  const found = entered.reduce<(typeof states)[number] | null>(
    (most, state) => (most !== null && most.exit_us > state.exit_us ? most : state),
    null,
  );
  if (found !== null) return `${found.name} (${found.exit_us}\u00a0µs to leave)`;
  return states.length > 0 ? 'none entered' : 'none listed';
}

function table(all: readonly Measured[], tag: string, worst: string | undefined): HTMLElement {
  const heads = ['samples', 'min', 'avg', 'p50', 'p99', 'p99.9', 'max', 'misses', 'skipped'];
  const cells = ({ cell }: Measured): HTMLElement[] => {
    const { figures } = cell;
    const series = figures.series[tag]!;
    const plain = (text: string): HTMLElement => h('td', { class: 'number' }, text);
    const share = (p: number): HTMLElement => {
      const { text, supported } = percentile(cell, tag, p);
      return h(
        'td',
        { class: supported ? 'number' : 'number few' },
        text,
        supported ? null : h('span', { class: 'degree', title: UNSUPPORTED }, '°'),
      );
    };
    const counted = (of: number | null): HTMLElement => plain(of === null ? '–' : count(of));
    return [
      plain(count(series.count)),
      plain(human(series.min_ns)),
      plain(human(ns(series.mean_ns))),
      share(50),
      share(99),
      share(99.9),
      plain(human(series.max_ns)),
      counted(figures.deadline_misses),
      counted(figures.skipped),
      h('td', {}, deepest(figures.power)),
    ];
  };
  return h(
    'div',
    { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Figures by CPU' },
    h(
      'table',
      { class: 'list plain cpu-figures' },
      h('caption', { class: 'vh' }, `${seriesWord(tag).name} by CPU`),
      h(
        'thead',
        {},
        h(
          'tr',
          {},
          h('th', { scope: 'col' }, 'CPU'),
          ...heads.map((head) => h('th', { scope: 'col', class: 'number' }, head)),
          h('th', { scope: 'col' }, 'deepest idle state'),
        ),
      ),
      h(
        'tbody',
        {},
        ...all.map((one) =>
          h(
            'tr',
            {},
            h('th', { scope: 'row' }, String(one.cpu), one.cell.tuning === worst ? ' (worst)' : ''),
            ...cells(one),
          ),
        ),
      ),
    ),
    h('p', { class: 'muted' }, `° ${UNSUPPORTED}`),
  );
}

/** Packages, nodes, caches and cores, with the largest value of each CPU that was measured. */
function machineMap(report: Report, all: readonly Measured[], tag: string): HTMLElement | null {
  const groups = coreGroups(String(report.summary.host['CPU topology'] ?? ''));
  if (groups.length === 0) return null;
  const worst = report.summary.verdict?.worst?.tuning;
  const of = new Map(all.map((one) => [one.cpu, one]));
  const chip = (cpu: number): HTMLElement => {
    const one = of.get(cpu);
    const max = one === undefined ? 'not measured' : human(one.cell.figures.series[tag]!.max_ns);
    const kind = one === undefined ? 'idle' : one.cell.tuning === worst ? 'worst' : 'measured';
    return h(
      'li',
      { class: `cpu ${kind}` },
      h('b', {}, `CPU ${cpu}`),
      h('span', {}, max),
      kind === 'worst' ? h('span', { class: 'sign' }, 'worst') : null,
    );
  };
  const core = (cpus: readonly number[]): HTMLElement =>
    h(
      'ul',
      {
        class: cpus.length > 1 ? 'core shared' : 'core',
        title: cpus.length > 1 ? 'threads of one core' : null,
      },
      ...cpus.map(chip),
    );
  const cluster = (cores: Cluster): HTMLElement =>
    h(
      'li',
      {
        class: cores.length > 1 ? 'cluster shared' : 'cluster',
        title: cores.length > 1 ? 'cores that share a second-level cache' : null,
      },
      ...cores.map(core),
    );
  return h(
    'div',
    { class: 'machine' },
    ...groups.map(({ name, clusters }) =>
      h(
        'div',
        { class: 'cpu-group' },
        h('h4', {}, name),
        h('ul', { class: 'clusters' }, ...clusters.map(cluster)),
      ),
    ),
  );
}

/** The section of a run on several CPUs at once; null for any other run. */
export function cpusSection(report: Report): HTMLElement | null {
  const { summary } = report;
  if (summary.order !== 'at_once') return null;
  const tag = summary.focus?.series ?? 'release_latency';
  const all = report.cells.flatMap((cell): Measured[] => {
    const histogram = histogramOf(report, cell, tag, 'own', null);
    return histogram === null || !cell.figures.series[tag]
      ? []
      : [{ cell, cpu: cpuOf(cell), histogram }];
  });
  if (all.length === 0) return null;
  const worst = summary.verdict?.worst?.tuning;
  const limit = summary.limit?.on === tag ? summary.limit.limit_ns : null;
  const shared = plane(all, tag, limit);
  const map = machineMap(report, all, tag);
  return section(
    'cpus',
    'CPUs',
    `A loop on each of ${all.length} CPUs at the same time. The panels have one pair of logarithmic axes: samples by ${seriesWord(tag).name.toLowerCase()}.${limit !== null && shared.limit === null ? ` The limit of ${human(limit)} is beyond them.` : ''}`,
    h(
      'ul',
      { class: 'cpu-panels' },
      ...all.map((one) => panel(one, shared, tag, one.cell.tuning === worst)),
    ),
    table(all, tag, worst),
    map === null ? null : h('h3', {}, 'The machine'),
    map === null
      ? null
      : h(
          'p',
          { class: 'muted' },
          'The largest value of each CPU. Threads of a core stand in one frame.',
        ),
    map,
  );
}
