// The loop of the live view: the worst release latency of each event, and a histogram that fills.
import type uPlot from 'uplot';
import { thinned } from '../a11y.ts';
import { choice, section } from '../dom.ts';
import { drawnCurves } from '../charts/distribution.ts';
import { Chart, type Drawing } from '../charts/frame.ts';
import { logRange, timeAxis } from '../charts/marks.ts';
import { seriesStyle } from '../theme.ts';
import { human, moment, ns, sec } from '../units.ts';
import { SERIES } from '../words.ts';
import type { History, Totals } from './history.ts';

/** Series that have a histogram, as the events name them. */
const TAGS = ['observed_period', 'release_latency', 'execution_time', 'round_trip'];

export class LoopPart {
  readonly element: HTMLElement;
  private readonly latencies: Chart;
  private readonly shape: Chart;
  private tag = TAGS[0]!;
  private totals: Totals | null = null;
  private steps: { t: number[]; largest: number[] } = { t: [], largest: [] };
  private span: readonly [number, number] = [0, 10];
  private isDrawn = false;

  constructor() {
    const word = (): string =>
      SERIES.find(({ tag }) => tag === this.tag)?.name.toLowerCase() ?? this.tag;
    this.latencies = new Chart(
      'latencies',
      'Worst release latency',
      'The largest value between two updates; every cycle is included.',
      220,
      () => this.overTime(),
      () => '',
    );
    this.shape = new Chart(
      'histogram',
      'Histogram since the start',
      'Cycles by value; both axes are logarithmic where the tail is long.',
      300,
      (zoom, width) => this.histogram(zoom, width),
      word,
    );
    this.shape.extra.append(
      choice(
        'Series',
        SERIES.filter(({ tag }) => TAGS.includes(tag)).map(({ tag, name, meaning }) => ({
          value: tag,
          label: name,
          title: meaning,
        })),
        this.tag,
        (tag) => {
          this.tag = tag;
          this.shape.forget();
          this.shape.redraw();
        },
      ),
    );
    this.element = section('loop', 'Loop', null, this.latencies.figure, this.shape.figure);
  }

  drawLatencies(history: History, seconds: number, inFull: boolean): void {
    this.steps = history.latencies(seconds);
    const newest = this.steps.t[this.steps.t.length - 1] ?? 0;
    this.span = [Math.max(0, newest - seconds), Math.max(seconds, newest)];
    if (inFull || !this.isDrawn) this.latencies.redraw();
    else this.latencies.update();
    this.isDrawn = this.steps.t.length > 0;
  }

  drawHistogram(totals: Totals): void {
    this.totals = totals;
    this.shape.redraw();
    this.latencies.describe();
  }

  private overTime(): Drawing | string {
    const { t, largest } = this.steps;
    const { span } = this;
    if (t.length === 0) return 'No cycles yet.';
    const us = largest.map((value) => Math.max(value, 1) / 1000);
    const range = logRange(
      us.reduce((a, b) => Math.min(a, b)) * 0.9,
      us.reduce((a, b) => Math.max(a, b)) * 1.1,
    );
    const style = seriesStyle(0);
    return {
      data: [t, us] as uPlot.AlignedData,
      series: [{ stroke: style.color, width: 1.4, points: { show: false } }],
      x: { range: () => [span[0], span[1]] },
      y: { distr: 3, range: () => range },
      xAxis: { values: (_u, splits) => splits.map((at) => moment(sec(at))), space: 70 },
      yAxis: timeAxis(),
      titles: { x: 'time', y: 'largest release latency' },
      legend: [],
      limit: null,
      full: span,
      log: false,
      describe: (i) => `at ${moment(sec(t[i]!))}: ${human(ns(largest[i]!))}`,
      figures: () => ({ head: ['t_s', 'largest_ns'], rows: t.map((at, i) => [at, largest[i]!]) }),
      table: {
        caption: 'Worst release latency',
        head: ['time', 'largest'],
        rows: thinned(
          t.map((_, i) => i),
          20,
        ).map((i) => [moment(sec(t[i]!)), human(ns(largest[i]!))]),
      },
    };
  }

  private histogram(zoom: readonly [number, number] | null, width: number): Drawing | string {
    const growing = this.totals?.times.get(this.tag);
    if (growing === undefined || growing.largest_ns === 0) return 'No cycles yet.';
    const curve = {
      cell: { name: 'since the start', file: null },
      style: seriesStyle(0),
      histogram: growing.histogram(),
    };
    return drawnCurves({ curves: [curve], tag: this.tag, scale: 'auto', limit: null }, zoom, width);
  }
}
