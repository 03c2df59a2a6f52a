// Pictures of cameras over time: a lane for each camera, a mark for each picture, and what the camera had seen at the cursor.
import type uPlot from 'uplot';
import { thinned } from '../a11y.ts';
import { h } from '../dom.ts';
import { lastAtMost, pictureAt, type RunFrames } from '../frames.ts';
import { ink, seriesStyle } from '../theme.ts';
import { count, moment, sec } from '../units.ts';
import type { Drawing } from './frame.ts';

/** A time to which pictures can be told apart. */
const second = (t: number): string => `${t.toFixed(3)} s`;

/** One camera with its times on the clock in use, s. */
export interface FrameLane {
  frames: RunFrames;
  t: readonly number[];
}

/** The pictures below the lanes; they change with the cursor. */
export class FramePictures {
  readonly element = h('div', { class: 'frame-pictures' });
  private shown: { image: HTMLImageElement; caption: HTMLElement }[] = [];

  /** Other lanes: their first pictures. */
  fill(lanes: readonly FrameLane[]): void {
    this.shown = lanes.map(() => ({
      image: h('img', { alt: '', decoding: 'sync' }),
      caption: h('figcaption'),
    }));
    this.element.replaceChildren(
      ...this.shown.map(({ image, caption }) => h('figure', {}, image, caption)),
    );
    lanes.forEach(({ frames }, lane) => {
      this.show(lanes, lane, frames.pictures[0]?.place ?? 0);
    });
  }

  /** Shows what a camera had seen by its frame at `place`. */
  show(lanes: readonly FrameLane[], lane: number, place: number): void {
    const { frames, t } = lanes[lane]!;
    const { image, caption } = this.shown[lane]!;
    const picture = pictureAt(frames, place);
    image.hidden = picture === null;
    if (picture === null) {
      caption.textContent = `${frames.channel}: no picture is kept so far`;
      return;
    }
    const name = `picture ${frames.numbers[picture.place]} at ${second(t[picture.place]!)}`;
    const source = `data:image/jpeg;base64,${picture.jpeg}`;
    if (image.src !== source) {
      image.src = source;
      [image.width, image.height] = picture.size;
    }
    image.alt = `${frames.channel}: ${name}`;
    caption.textContent = `${frames.channel}: ${name}, of ${picture.of[0]} × ${picture.of[1]}`;
  }
}

/** What is said of a camera at a time: its last picture. */
export function frameWords({ frames, t }: FrameLane, place: number): string {
  if (place < 0) return `${frames.channel}: no picture yet`;
  const before =
    place > 0 ? `, ${(1000 * (t[place]! - t[place - 1]!)).toFixed(1)} ms after the one before` : '';
  const shown = pictureAt(frames, place);
  const kept =
    shown === null
      ? ''
      : shown.place === place
        ? '; shown below'
        : `; the last one kept, ${frames.numbers[shown.place]}, is shown below`;
  return `${frames.channel}: picture ${frames.numbers[place]} at ${second(t[place]!)}${before}${kept}`;
}

export function frameLanes(
  lanes: readonly FrameLane[],
  pictures: FramePictures,
  span: readonly [number, number],
  full: readonly [number, number],
): Drawing | string {
  const all = [...new Set(lanes.flatMap(({ t }) => t))].sort((a, b) => a - b);
  if (all.length === 0) return 'No pictures.';
  const rows = lanes
    .flatMap((lane, row) => lane.t.map((t, place) => ({ t, row, place, lane })))
    .sort((a, b) => a.t - b.t);
  const kept = lanes.map(({ frames }) => new Set(frames.pictures.map(({ place }) => place)));
  return {
    data: [all, all.map(() => null)] as uPlot.AlignedData,
    series: [{ stroke: 'transparent', width: 0, points: { show: false } }],
    x: { range: () => [span[0], span[1]] },
    y: { range: () => [-0.6, lanes.length - 0.4] },
    xAxis: { values: (_u, splits) => splits.map((at) => moment(sec(at))), space: 70 },
    yAxis: {
      splits: () => lanes.map((_, i) => i),
      values: () => lanes.map(({ frames }) => frames.channel.replace(/\/image$/, '')),
      size: 72,
      grid: { show: false },
    },
    titles: { x: 'time', y: '' },
    legend: [],
    limit: null,
    full,
    log: false,
    draw: (u) => {
      drawLanes(u, lanes, kept);
    },
    describe: (i, u) => {
      // Of the pictures, the last one at the cursor; the nearest one where the cursor is on it.
      const [left, pixel] = [u.cursor.left ?? 0, u.posToVal(1, 'x') - u.posToVal(0, 'x')];
      const at =
        Math.abs(all[i]! - u.posToVal(left, 'x')) <= pixel ? all[i]! : u.posToVal(left, 'x');
      return lanes
        .map((lane, row) => {
          const place = lastAtMost(lane.t, at);
          pictures.show(lanes, row, place);
          return frameWords(lane, place);
        })
        .join(' · ');
    },
    figures: () => ({
      head: ['t_s', 'channel', 'picture', 'is_in_page'],
      rows: rows.map(({ t, row, place, lane: { frames } }) => [
        t,
        frames.channel,
        frames.numbers[place]!,
        kept[row]!.has(place) ? 1 : 0,
      ]),
    }),
    table: {
      caption: 'pictures',
      head: ['time', 'camera', 'picture'],
      rows: thinned(rows, 20).map(({ t, place, lane: { frames } }) => [
        second(t),
        frames.channel,
        count(frames.numbers[place]!),
      ]),
    },
    below: pictures.element,
  };
}

function drawLanes(
  u: uPlot,
  lanes: readonly FrameLane[],
  kept: readonly ReadonlySet<number>[],
): void {
  const { ctx, bbox } = u;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  lanes.forEach(({ t }, row) => {
    const y = u.valToPos(row, 'y', true);
    const half = Math.min(
      9 * devicePixelRatio,
      Math.abs(u.valToPos(0, 'y', true) - u.valToPos(0.3, 'y', true)),
    );
    const { color } = seriesStyle(row);
    let drawn = -1;
    t.forEach((at, place) => {
      const x = Math.round(u.valToPos(at, 'x', true));
      if (x < bbox.left - 8 || x > bbox.left + bbox.width + 8) return;
      // Of marks on one pixel, the first is enough.
      ctx.fillStyle = color;
      if (x !== drawn) ctx.fillRect(x, y - half, devicePixelRatio, 2 * half);
      drawn = x;
      if (!kept[row]!.has(place)) return;
      ctx.fillStyle = ink('ink');
      ctx.beginPath();
      ctx.arc(x + devicePixelRatio / 2, y, 3 * devicePixelRatio, 0, 2 * Math.PI);
      ctx.fill();
    });
  });
  ctx.restore();
}
