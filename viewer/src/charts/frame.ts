// A chart's figure: caption, plot that the keyboard reaches, readout, hidden table. What is drawn comes from outside.
import uPlot from 'uplot';
import { announce, hiddenTable, type Table } from '../a11y.ts';
import { freshId, h } from '../dom.ts';
import { zoomKey } from '../keys.ts';
import { FIT } from '../print.ts';
import { ink } from '../theme.ts';
import { Legend, type Entry } from './legend.ts';
import { apart, limitLine, type LimitMark } from './marks.ts';
import { fileName, saveCsv, savePng, type Figures } from './save.ts';
import { font, wordsWidth } from './text.ts';

/** One drawing of a chart: plain values, made again whenever the report's state changes. */
export interface Drawing {
  data: uPlot.AlignedData;
  series: uPlot.Series[];
  x: uPlot.Scale;
  y: uPlot.Scale;
  xAxis: uPlot.Axis;
  yAxis: uPlot.Axis;
  /** Fills between two series. */
  bands?: uPlot.Band[];
  draw?: (u: uPlot) => void;
  drawUnder?: (u: uPlot) => void;
  /** What stands along the axes, and the entries of the legend; these may be known only once the drawing is. */
  titles: { x: string; y: string };
  legend: readonly Entry[] | (() => readonly Entry[]);
  /** The limit that the report judges by, where it is on what is drawn. */
  limit: LimitMark | null;
  /** The exact figures behind the drawing. */
  figures: () => Figures;
  /** The readout at the data index under the cursor; null says nothing. */
  describe: (index: number, u: uPlot) => string | null;
  table: Table;
  below?: HTMLElement | null;
  /** Everything that could be shown along x; zooming stays inside. */
  full: readonly [number, number];
  log: boolean;
  /** Takes a new stretch of x, null for all. Without it the chart zooms by itself. */
  onRange?: (range: readonly [number, number] | null) => void;
  yCursor?: boolean;
}

export type Draw = (zoom: readonly [number, number] | null, width: number) => Drawing | string;

/** Below this width a chart has narrower axes. */
const NARROW = 480;

/** Where the legend begins, CSS pixels from the chart's corner. */
const LEGEND = { left: 12, top: 8 } as const;

/** A figure with a plot in it. */
export class Chart {
  readonly figure: HTMLElement;
  readonly extra = h('div', { class: 'chart-extra' });
  private readonly plot: HTMLElement;
  private readonly subject = h('span', { class: 'muted' });
  private readonly readout = h('p', { class: 'readout' });
  private readonly behind = h('div');
  private readonly below = h('div', { class: 'chart-below' });
  private readonly buttons: HTMLElement;
  private u: uPlot | null = null;
  private drawing: Drawing | null = null;
  private legend: Legend | null = null;
  private linked: readonly Chart[] = [];
  private isFollowing = false;
  private zoom: readonly [number, number] | null = null;
  /** What a key asked for since the last drawing; `null` is everything. */
  private asked: readonly [number, number] | null | undefined = undefined;
  private width = 0;

  constructor(
    id: string,
    private readonly title: string,
    lead: string,
    private readonly height: number,
    private readonly make: Draw,
    private readonly of: () => string,
    heading: 'h2' | 'h3' = 'h3',
  ) {
    const titleId = freshId('chart');
    this.plot = h('div', {
      class: 'plot',
      tabindex: 0,
      role: 'application',
      'aria-label': `${title}. Arrow keys move the cursor, plus and minus zoom, zero shows everything.`,
      onkeydown: (event) => this.key(event as KeyboardEvent),
    });
    this.plot.style.minHeight = `${height}px`;
    const saving = (kind: string, what: string, act: () => void): HTMLElement =>
      h(
        'button',
        {
          type: 'button',
          class: 'quiet',
          'aria-label': `${kind}: save ${title} ${what}`,
          title: `Save ${what}`,
          onclick: act,
        },
        kind,
      );
    const button = (key: string, sign: string, label: string): HTMLElement =>
      h(
        'button',
        {
          type: 'button',
          class: 'quiet',
          'aria-label': `${sign === 'All' ? 'All: show everything' : label}, ${title}`,
          title: label,
          onclick: () => this.act(key),
        },
        sign,
      );
    this.buttons = h(
      'div',
      { class: 'zoom' },
      button('+', '+', 'Zoom in'),
      button('-', '−', 'Zoom out'),
      button('0', 'All', 'Show everything'),
      saving('PNG', 'as a picture', () => this.savePicture()),
      saving('CSV', 'with its exact figures', () => this.saveFigures()),
    );
    this.figure = h(
      'figure',
      { id, class: 'chart', 'aria-labelledby': titleId },
      h(
        'figcaption',
        {},
        h(heading, { id: titleId }, title, this.subject),
        this.buttons,
        h('p', {}, lead),
      ),
      this.extra,
      this.plot,
      this.readout,
      this.below,
      this.behind,
    );
    new ResizeObserver(() => this.fit()).observe(this.plot);
    this.plot.addEventListener(FIT, () => this.redraw());
  }

  private fit(): void {
    const width = Math.floor(this.plot.clientWidth);
    if (width === this.width || width === 0) return;
    this.redraw();
  }

  /** Draws again from the state as it is now. */
  redraw(): void {
    const width = Math.floor(this.plot.clientWidth);
    if (width === 0) return;
    this.width = width;
    this.asked = undefined;
    this.u?.destroy();
    this.u = null;
    this.plot.replaceChildren();
    this.subject.textContent = ` ${this.of()}`;
    const drawing = this.make(this.zoom, width);
    this.buttons.hidden = typeof drawing === 'string';
    // A sentence has no cursor to move.
    this.plot.tabIndex = typeof drawing === 'string' ? -1 : 0;
    this.plot.style.minHeight = typeof drawing === 'string' ? '' : `${this.height}px`;
    if (typeof drawing === 'string') {
      this.drawing = null;
      this.plot.append(h('p', { class: 'empty' }, drawing));
      this.behind.replaceChildren();
      this.below.replaceChildren();
      this.readout.textContent = '';
      return;
    }
    this.drawing = drawing;
    this.u = new uPlot(this.options(drawing, width), drawing.data, this.plot);
    this.behind.replaceChildren(hiddenTable(drawing.table));
    this.below.replaceChildren(...(drawing.below ? [drawing.below] : []));
    this.readout.textContent = '';
  }

  /**
   * Takes new values into the drawing there is: for a chart that follows a running loop. Its scales are those of the new
   * drawing; titles, legend and number of series are those of the first one.
   */
  update(): void {
    const { u } = this;
    if (u === null || this.drawing === null || this.zoom !== null) {
      if (u === null) this.redraw();
      return;
    }
    const drawing = this.make(null, this.width);
    if (typeof drawing === 'string') {
      this.redraw();
      return;
    }
    this.drawing = drawing;
    u.scales['x']!.range = drawing.x.range as uPlot.Range.Function;
    u.scales['y']!.range = drawing.y.range as uPlot.Range.Function;
    const { splits, values } = drawing.yAxis;
    if (splits) u.axes[1]!.splits = splits as NonNullable<uPlot.Axis['splits']>;
    if (values) u.axes[1]!.values = values as NonNullable<uPlot.Axis['values']>;
    u.setData(drawing.data);
    const left = u.cursor.left ?? -1;
    if (left >= 0) u.setCursor({ left, top: u.cursor.top ?? 0 });
  }

  /** Writes the table behind the chart again, for those who read it. */
  describe(): void {
    if (this.drawing !== null) this.behind.replaceChildren(hiddenTable(this.drawing.table));
  }

  private axes(d: Drawing, width: number): uPlot.Axis[] {
    const axis = {
      stroke: ink('muted'),
      font: font(12),
      labelFont: font(12),
      labelSize: 18,
      labelGap: 0,
      grid: { stroke: ink('grid'), width: 1 },
      ticks: { stroke: ink('grid'), width: 1, size: 4 },
      border: { show: false },
    };
    const values = d.xAxis.values as uPlot.Axis.DynamicValues;
    const spaced: uPlot.Axis.DynamicValues = (u, splits, ...more) => {
      const words = values(u, splits, ...more).map((word) => String(word ?? ''));
      return apart(
        words,
        splits.map((split) => (split === null ? NaN : u.valToPos(split, 'x'))),
        // Of the layout that is being made: that of the document is the one before.
        u.width - 2 - u.bbox.left / devicePixelRatio,
        wordsWidth,
        (i) => d.x?.distr !== 3 || Number.isInteger(Math.log10(splits[i]!)),
      );
    };
    const room: uPlot.Axis.Size = (_u, words) =>
      Math.max(
        width < NARROW ? 56 : 64,
        Math.ceil(Math.max(...(words ?? []).map((word) => wordsWidth(String(word ?? ''))))) + 14,
      );
    return [
      { ...axis, size: 32, gap: 6, label: d.titles.x, ...d.xAxis, values: spaced },
      { ...axis, size: room, gap: 6, label: d.titles.y, ...d.yAxis },
    ];
  }

  /** What lies over everything: the limit and the legend. */
  private drawOver(u: uPlot, d: Drawing): void {
    d.draw?.(u);
    if (d.limit) limitLine(u, d.limit);
    const legend =
      typeof d.legend === 'function'
        ? new Legend(d.legend(), this.legendRoom(u.width))
        : this.legend;
    legend?.draw(
      u.ctx,
      LEGEND.left * devicePixelRatio,
      LEGEND.top * devicePixelRatio,
      devicePixelRatio,
    );
  }

  private legendRoom(width: number): number {
    return width - 2 * LEGEND.left;
  }

  private options(d: Drawing, width: number): uPlot.Options {
    this.legend = new Legend(
      typeof d.legend === 'function' ? d.legend() : d.legend,
      this.legendRoom(width),
    );
    const above = this.legend.height;
    return {
      width,
      height: this.height + above,
      legend: { show: false },
      // To the right, half of "99.9999 %".
      padding: [LEGEND.top + above + 4, 32, 2, 4],
      scales: { x: { time: false, ...d.x }, y: d.y },
      axes: this.axes(d, width),
      series: [{}, ...d.series],
      ...(d.bands ? { bands: d.bands } : {}),
      cursor: {
        y: d.yCursor ?? false,
        points: { show: false },
        drag: { x: true, y: false, setScale: false },
        bind: {
          dblclick: () => () => {
            this.act('0');
            return null;
          },
        },
      },
      hooks: {
        ...(d.drawUnder ? { drawAxes: [d.drawUnder] } : {}),
        draw: [(u) => this.drawOver(u, this.drawing ?? d)],
        setCursor: [(u) => this.read(u)],
        setSelect: [(u) => this.selected(u)],
      },
    };
  }

  private read(u: uPlot): void {
    const index = u.cursor.idx;
    const text =
      index === null || index === undefined || (u.cursor.left ?? -1) < 0
        ? null
        : (this.drawing?.describe(index, u) ?? null);
    this.readout.textContent = text ?? '';

    if (this.isFollowing) return;
    const left = u.cursor.left ?? -1;
    const at = left < 0 ? null : u.posToVal(left, 'x');
    this.linked.forEach((chart) => chart.follow(at));
  }

  /** Has these charts show their cursor where this one has its own; all of them have the same kind of x axis. */
  lead(charts: readonly Chart[]): void {
    this.linked = charts;
  }

  private follow(at: number | null): void {
    const { u } = this;
    if (u === null) return;
    const { min, max } = u.scales['x']!;
    const isInside = at !== null && at >= min! && at <= max!;

    this.isFollowing = true;
    u.setCursor({ left: isInside ? u.valToPos(at, 'x') : -10, top: -10 });
    this.isFollowing = false;
  }

  /** The name of this chart's files. */
  private name(): string {
    return fileName('onbeat', this.title, this.of());
  }

  private savePicture(): void {
    const canvas = this.u?.ctx.canvas;
    if (canvas) savePng(this.name(), `${this.title}, ${this.of()}`, canvas, devicePixelRatio);
  }

  private saveFigures(): void {
    if (this.drawing !== null) saveCsv(this.name(), this.drawing.figures());
  }

  private selected(u: uPlot): void {
    if (u.select.width < 4) return;
    const [a, b] = [
      u.posToVal(u.select.left, 'x'),
      u.posToVal(u.select.left + u.select.width, 'x'),
    ];
    u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.range([a, b]);
  }

  private range(range: readonly [number, number] | null): void {
    if (this.drawing?.onRange) {
      this.drawing.onRange(range);
      return;
    }
    this.zoom = range;
    this.redraw();
  }

  /** Forgets the chart's own zoom, for instance because another series is shown now. */
  forget(): void {
    this.zoom = null;
  }

  private act(key: string): void {
    const { u, drawing } = this;
    if (u === null || drawing === null) return;
    const { min, max } = u.scales['x']!;
    const drawn = [min!, max!] as const;
    // Keys may come faster than drawings: what the last one asked for counts, not what is drawn still.
    const now = this.asked === undefined ? drawn : (this.asked ?? drawing.full);
    const left = this.asked === undefined ? (u.cursor.left ?? -1) : -1;
    const next = zoomKey(
      key,
      now,
      drawing.full,
      drawing.log,
      left >= 0 ? u.posToVal(left, 'x') : null,
    );
    if (next === undefined) return;
    this.asked = next;
    this.range(next);
  }

  private key(event: KeyboardEvent): void {
    const { u } = this;
    if (u === null || event.ctrlKey || event.metaKey || event.altKey) return;
    const xs = u.data[0];
    const step = event.shiftKey ? 10 : 1;
    const at = u.cursor.idx ?? -1;
    const first = u.valToIdx(u.scales['x']!.min!);
    const last = u.valToIdx(u.scales['x']!.max!);
    const moves: Record<string, number> = {
      ArrowRight: at < 0 ? first : at + step,
      ArrowLeft: at < 0 ? last : at - step,
      Home: first,
      End: last,
    };
    const to = moves[event.key];
    if (to !== undefined) {
      event.preventDefault();
      const index = Math.max(first, Math.min(last, to));
      const y = this.drawing?.yCursor ? u.over.clientHeight / 2 : 0;
      u.setCursor({ left: Math.max(0, u.valToPos(xs[index]!, 'x')), top: y });
      announce(this.readout.textContent ?? '');
      return;
    }
    if (/^[+\-=wasd0]$/i.test(event.key) || event.key === 'Escape') {
      event.preventDefault();
      this.act(event.key);
      announce(
        `${this.title}: ${event.key === '0' || event.key === 'Escape' ? 'everything shown' : 'zoomed'}`,
      );
    }
  }
}
