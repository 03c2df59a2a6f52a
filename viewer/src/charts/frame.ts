// A chart's figure: caption, plot that the keyboard reaches, readout, hidden table. What is drawn comes from outside.
import uPlot from 'uplot';
import { announce, hiddenTable, type Table } from '../a11y.ts';
import { freshId, h } from '../dom.ts';
import { zoomKey } from '../keys.ts';
import { ink } from '../theme.ts';

/** One drawing of a chart: plain values, made anew whenever the report's state changes. */
export interface Drawing {
  data: uPlot.AlignedData; series: uPlot.Series[]; x: uPlot.Scale; y: uPlot.Scale; xAxis: uPlot.Axis; yAxis: uPlot.Axis;
  draw?: (u: uPlot) => void; drawUnder?: (u: uPlot) => void;
  /** The readout at the data index under the cursor; null says nothing. */
  describe: (index: number, u: uPlot) => string | null;
  table: Table; below?: HTMLElement | null;
  /** Everything that could be shown along x; zooming stays inside. */
  full: readonly [number, number];
  log: boolean;
  /** Takes a new stretch of x, null for all. Without it the chart zooms by itself. */
  onRange?: (range: readonly [number, number] | null) => void;
  yCursor?: boolean;
}

export type Draw = (zoom: readonly [number, number] | null, width: number) => Drawing | string;

const FONT = '12px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif';

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
  private zoom: readonly [number, number] | null = null;
  private width = 0;

  constructor(id: string, private readonly title: string, lead: string, private readonly height: number, private readonly make: Draw, private readonly of: () => string) {
    const titleId = freshId('chart');
    this.plot = h('div', {
      class: 'plot', tabindex: 0, role: 'application', 'aria-label': `${title}. Arrow keys move the cursor, plus and minus zoom, zero shows everything.`,
      onkeydown: (event) => this.key(event as KeyboardEvent),
    });
    this.plot.style.minHeight = `${height}px`;
    const button = (key: string, sign: string, label: string): HTMLElement =>
      h('button', { type: 'button', class: 'quiet', 'aria-label': `${sign === 'All' ? 'All: show everything' : label}, ${title}`, title: label, onclick: () => this.act(key) }, sign);
    this.buttons = h('div', { class: 'zoom' }, button('+', '+', 'Zoom in'), button('-', '−', 'Zoom out'), button('0', 'All', 'Show everything'));
    this.figure = h('figure', { id, class: 'chart', 'aria-labelledby': titleId },
      h('figcaption', {}, h('h3', { id: titleId }, title, this.subject), this.buttons, h('p', {}, lead)),
      this.extra, this.plot, this.readout, this.below, this.behind);
    new ResizeObserver(() => this.fit()).observe(this.plot);
  }

  private fit(): void {
    const width = Math.floor(this.plot.clientWidth);
    if (width === this.width || width === 0) return;
    this.redraw();
  }

  /** Draws anew from the state as it is now. */
  redraw(): void {
    const width = Math.floor(this.plot.clientWidth);
    if (width === 0) return;
    this.width = width;
    this.u?.destroy();
    this.u = null;
    this.plot.replaceChildren();
    this.subject.textContent = ` ${this.of()}`;
    const drawing = this.make(this.zoom, width);
    this.buttons.hidden = typeof drawing === 'string';
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

  private options(d: Drawing, width: number): uPlot.Options {
    const axis = { stroke: ink('muted'), font: FONT, grid: { stroke: ink('grid'), width: 1 }, ticks: { stroke: ink('grid'), width: 1, size: 4 }, border: { show: false } };
    return {
      width, height: this.height, legend: { show: false }, padding: [12, 24, 0, 0],
      scales: { x: { time: false, ...d.x }, y: d.y },
      axes: [{ ...axis, size: 34, gap: 6, ...d.xAxis }, { ...axis, size: 66, gap: 6, ...d.yAxis }],
      series: [{}, ...d.series],
      cursor: {
        y: d.yCursor ?? false, points: { show: false }, drag: { x: true, y: false, setScale: false },
        bind: { dblclick: () => () => { this.act('0'); return null; } },
      },
      hooks: {
        ...(d.drawUnder ? { drawAxes: [d.drawUnder] } : {}),
        ...(d.draw ? { draw: [d.draw] } : {}),
        setCursor: [(u) => this.read(u)],
        setSelect: [(u) => this.selected(u)],
      },
    };
  }

  private read(u: uPlot): void {
    const index = u.cursor.idx;
    const text = index === null || index === undefined || (u.cursor.left ?? -1) < 0 ? null : this.drawing?.describe(index, u) ?? null;
    this.readout.textContent = text ?? '';
  }

  private selected(u: uPlot): void {
    if (u.select.width < 4) return;
    const [a, b] = [u.posToVal(u.select.left, 'x'), u.posToVal(u.select.left + u.select.width, 'x')];
    u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.range([a, b]);
  }

  private range(range: readonly [number, number] | null): void {
    if (this.drawing?.onRange) { this.drawing.onRange(range); return; }
    this.zoom = range;
    this.redraw();
  }

  /** Forgets the chart's own zoom, for instance because another series is shown now. */
  forget(): void { this.zoom = null; }

  private act(key: string): void {
    const { u, drawing } = this;
    if (u === null || drawing === null) return;
    const { min, max } = u.scales['x']!;
    const left = u.cursor.left ?? -1;
    const next = zoomKey(key, [min!, max!], drawing.full, drawing.log, left >= 0 ? u.posToVal(left, 'x') : null);
    if (next !== undefined) this.range(next);
  }

  private key(event: KeyboardEvent): void {
    const { u } = this;
    if (u === null || event.ctrlKey || event.metaKey || event.altKey) return;
    const xs = u.data[0];
    const step = event.shiftKey ? 10 : 1;
    const at = u.cursor.idx ?? -1;
    const first = u.valToIdx(u.scales['x']!.min!);
    const last = u.valToIdx(u.scales['x']!.max!);
    const moves: Record<string, number> = { ArrowRight: at < 0 ? first : at + step, ArrowLeft: at < 0 ? last : at - step, Home: first, End: last };
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
      announce(`${this.title}: ${event.key === '0' || event.key === 'Escape' ? 'everything shown' : 'zoomed'}`);
    }
  }
}
