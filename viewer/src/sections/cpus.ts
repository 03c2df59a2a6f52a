// A loop on each CPU at once, alone or in the cells of a bench: where the CPUs are in the machine, and a panel each with one pair
// of axes for all, as OSADL draws its latency plots.
import { evenEdges, binned, growingEdges } from '../charts/bins.ts';
import { grainOf, heights } from '../charts/distribution.ts';
import { logMarks } from '../charts/small.ts';
import { h, section, svg } from '../dom.ts';
import { maximum, minimum, type Histogram } from '../histogram.ts';
import type { RunFile } from '../hlog.ts';
import { histogramOf, type Cell, type Report } from '../model.ts';
import type { PowerUse, SeriesFigures } from '../summary.ts';
import { coreGroups, type Cluster } from '../topology.ts';
import { count, human, ns, tick, type Ns } from '../units.ts';
import { loadPhrase, seriesWord, UNSUPPORTED } from '../words.ts';

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

/** The loop of one CPU. */
interface Measured {
  cpu: number;
  name: string;
  isWorst: boolean;
  file: RunFile | null;
  histogram: Histogram;
  figures: SeriesFigures;
  misses: number | null;
  skipped: number | null;
  power: PowerUse | undefined;
}

/** Loops that ran at the same time; `title` names their cell in a bench. */
interface AtOnce {
  title: string;
  all: Measured[];
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
  const files = all.map(({ file }) => file?.imported?.resolution?.[tag]);
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

const percentile = (figures: SeriesFigures, p: number): { text: string; supported: boolean } => {
  const found = figures.percentiles.find((one) => Math.abs(one.p - p) < 1e-9);
  return found
    ? { text: human(found.value_ns), supported: found.supported }
    : { text: '–', supported: true };
};

function panel(one: Measured, shared: Plane, tag: string): HTMLElement {
  const { edges, most, x, y, limit } = shared;
  const { figures, isWorst } = one;
  const [first, last] = [edges[0]!, edges[edges.length - 1]!];
  const across = logMarks(first / 1000, last / 1000, tick);
  const thin = Math.ceil(across.length / 5);
  const upright = logMarks(1, most, (value) => count(value)).filter(
    (_, i, all) => i % Math.ceil(all.length / 4) === 0,
  );
  const p99 = percentile(figures, 99);
  return h(
    'li',
    { class: isWorst ? 'cpu-panel worst' : 'cpu-panel', 'data-cpu': one.cpu },
    h(
      'p',
      {},
      h('b', {}, `CPU ${one.cpu}`),
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
        'aria-label': `${one.name}: ${seriesWord(tag).name.toLowerCase()} of ${count(figures.count)} samples, from ${human(figures.min_ns)} to ${human(figures.max_ns)}`,
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

function table({ title, all }: AtOnce, tag: string): HTMLElement {
  const heads = ['samples', 'min', 'avg', 'p50', 'p99', 'p99.9', 'max', 'misses', 'skipped'];
  const cells = ({ figures: series, misses, skipped, power }: Measured): HTMLElement[] => {
    const plain = (text: string): HTMLElement => h('td', { class: 'number' }, text);
    const share = (p: number): HTMLElement => {
      const { text, supported } = percentile(series, p);
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
      counted(misses),
      counted(skipped),
      h('td', {}, deepest(power)),
    ];
  };
  return h(
    'div',
    {
      class: 'scroll',
      tabindex: 0,
      role: 'region',
      'aria-label': ['Figures by CPU', title].filter(Boolean).join(': '),
    },
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
            h('th', { scope: 'row' }, String(one.cpu), one.isWorst ? ' (worst)' : ''),
            ...cells(one),
          ),
        ),
      ),
    ),
    h('p', { class: 'muted' }, `° ${UNSUPPORTED}`),
  );
}

/** Packages, nodes, caches and cores, with the largest value of each CPU that was measured. */
function machineMap(report: Report, all: readonly Measured[]): HTMLElement | null {
  const groups = coreGroups(String(report.summary.host['CPU topology'] ?? ''));
  if (groups.length === 0) return null;
  const of = new Map(all.map((one) => [one.cpu, one]));
  const chip = (cpu: number): HTMLElement => {
    const one = of.get(cpu);
    const max = one === undefined ? 'not measured' : human(one.figures.max_ns);
    const kind = one === undefined ? 'idle' : one.isWorst ? 'worst' : 'measured';
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

/** The CPUs of a measurement: each is a cell. */
function cpusOf(report: Report, tag: string): Measured[] {
  const worst = report.summary.verdict?.worst?.tuning;
  return report.cells.flatMap((cell): Measured[] => {
    const histogram = histogramOf(report, cell, tag, 'own', null);
    const { figures } = cell;
    const of = figures.series[tag];
    if (histogram === null || of === undefined) return [];
    return [
      {
        cpu: Number(cell.tuning.replace(/^CPU /, '')),
        name: cell.tuning,
        isWorst: cell.tuning === worst,
        file: cell.file,
        histogram,
        figures: of,
        misses: figures.deadline_misses,
        skipped: figures.skipped,
        power: figures.power,
      },
    ];
  });
}

/** The CPUs of a cell of a bench. */
function cpusOfCell(report: Report, cell: Cell, tag: string): Measured[] {
  return (cell.figures.cpus ?? []).flatMap((loop): Measured[] => {
    const file = report.files.find(({ name }) => name === loop.file) ?? null;
    const series = loop.figures ? { [tag]: loop.figures } : {};
    const own = { ...cell, file, figures: { ...cell.figures, series } };
    const histogram = histogramOf(report, own, tag, 'own', null);
    if (histogram === null || loop.figures === undefined) return [];
    return [
      {
        cpu: loop.cpu,
        name: `${cell.tuning}, CPU ${loop.cpu}`,
        isWorst: loop.cpu === cell.figures.cpu,
        file,
        histogram,
        figures: loop.figures,
        misses: loop.deadline_misses,
        skipped: loop.skipped,
        power: loop.power,
      },
    ];
  });
}

/** The cells of a bench that are looked at first, then the best one under its worst load. */
function cellsShown({ summary, cells }: Report): Cell[] {
  const { focus, verdict } = summary;
  const wanted = (focus?.tunings ?? []).map((tuning) => ({ tuning, load: focus!.load }));
  if (verdict?.best) wanted.push(verdict.best);
  const of = ({ tuning, load }: { tuning: string; load: string }): Cell | undefined =>
    cells.find((cell) => cell.tuning === tuning && cell.load === load);
  return [...new Set(wanted.map(of))].filter((cell) => cell !== undefined);
}

function atOnce(report: Report, tag: string): AtOnce[] {
  if (report.summary.order === 'at_once') return [{ title: '', all: cpusOf(report, tag) }];
  return cellsShown(report).map((cell) => ({
    title: `${cell.tuning} ${loadPhrase(cell.load)}`,
    all: cpusOfCell(report, cell, tag),
  }));
}

/** The section of loops on several CPUs at once; null for any other run. */
export function cpusSection(report: Report): HTMLElement | null {
  const { summary } = report;
  const tag = summary.focus?.series ?? 'release_latency';
  const shown = atOnce(report, tag).filter(({ all }) => all.length > 0);
  const last = shown[shown.length - 1];
  if (last === undefined) return null;
  const every = shown.flatMap(({ all }) => all);
  const cpus = new Set(every.map(({ cpu }) => cpu)).size;
  const limit = summary.limit?.on === tag ? summary.limit.limit_ns : null;
  const shared = plane(every, tag, limit);
  const map = machineMap(report, last.all);
  return section(
    'cpus',
    'CPUs',
    `A loop on each of ${cpus} CPUs at the same time. The panels have one pair of logarithmic axes: samples by ${seriesWord(tag).name.toLowerCase()}.${limit !== null && shared.limit === null ? ` The limit of ${human(limit)} is beyond them.` : ''}`,
    ...shown.flatMap((of) => [
      of.title === '' ? null : h('h3', {}, of.title),
      h('ul', { class: 'cpu-panels' }, ...of.all.map((one) => panel(one, shared, tag))),
      table(of, tag),
    ]),
    map === null ? null : h('h3', {}, 'The machine'),
    map === null
      ? null
      : h(
          'p',
          { class: 'muted' },
          `The largest value of each CPU${last.title === '' ? '' : `, ${last.title}`}. Threads of a core stand in one frame.`,
        ),
    map,
  );
}
