// Charts that the page lays out as rows of elements (cause bars, forest plots), painted on a canvas for saving.
import { h } from '../dom.ts';
import { ink } from '../theme.ts';
import { fileName, saveCsv, savePng, type Figures } from './save.ts';
import { font, shortened, wordsWidth } from './text.ts';

/** A rectangle in CSS pixels. */
export interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

/** One row: its name at the left, its figures at the right, and what is painted between them. */
export interface PictureRow {
  name: string;
  words: string;
  paint: (ctx: CanvasRenderingContext2D, box: Box) => void;
}

/** Size of a picture in CSS pixels; it is saved with twice as many. */
const WIDTH = 960;
const ROW = 40;
const MARGIN = 12;
const NAME = 200;
const WORDS = 220;
const RATIO = 2;

/** Rows below each other, on the page's own colour. */
export function rowsPicture(rows: readonly PictureRow[]): HTMLCanvasElement {
  const canvas = document.createElement('canvas');
  canvas.width = WIDTH * RATIO;
  canvas.height = (rows.length * ROW + MARGIN) * RATIO;

  const ctx = canvas.getContext('2d')!;
  ctx.scale(RATIO, RATIO);
  ctx.fillStyle = ink('surface');
  ctx.fillRect(0, 0, WIDTH, rows.length * ROW + MARGIN);

  rows.forEach(({ name, words, paint }, i) => {
    const y = i * ROW;
    ctx.textBaseline = 'middle';
    ctx.textAlign = 'left';
    ctx.font = font(13, 1, 560);
    ctx.fillStyle = ink('ink');
    ctx.fillText(shortened(name, NAME - 12), MARGIN, y + ROW / 2);

    ctx.textAlign = 'right';
    ctx.font = font(12);
    ctx.fillStyle = ink('muted');
    ctx.fillText(shortened(words, WORDS - 12), WIDTH - MARGIN, y + ROW / 2);

    ctx.save();
    paint(ctx, {
      x: MARGIN + NAME,
      y: y + 6,
      width: WIDTH - 2 * MARGIN - NAME - WORDS,
      height: ROW - 12,
    });
    ctx.restore();
  });
  return canvas;
}

/** How something is painted, and the words on it. */
export interface Paint {
  hue: string;
  pattern: 'solid' | 'hatch' | 'dots' | 'bars';
  words: string;
}

/** A part of a bar, with its share of the bar. */
export interface BarPart extends Paint {
  size: number;
}

/** Paints a bar divided by the sizes of its parts, in the colours and patterns of the page. */
export function paintBar(ctx: CanvasRenderingContext2D, box: Box, parts: readonly BarPart[]): void {
  const all = parts.reduce((sum, { size }) => sum + size, 0);
  let x = box.x;
  for (const part of parts) {
    const width = (part.size / Math.max(all, 1)) * box.width;
    paintPart(ctx, { ...box, x, width: Math.max(width - 1, 1) }, part);
    x += width;
  }
}

/** Paints one part of a bar into a box, with its words where they fit. */
export function paintPart(
  ctx: CanvasRenderingContext2D,
  { x, y, width, height }: Box,
  { hue, pattern, words }: Paint,
): void {
  const color = ink(hue);
  ctx.save();
  ctx.beginPath();
  ctx.rect(x, y, width, height);
  ctx.clip();
  ctx.fillStyle = pattern === 'solid' ? color : ink('surface');
  ctx.fillRect(x, y, width, height);

  ctx.strokeStyle = color;
  ctx.fillStyle = color;
  if (pattern === 'hatch') {
    ctx.lineWidth = 3;
    ctx.beginPath();
    for (let at = x - height; at < x + width; at += 8) {
      ctx.moveTo(at, y + height);
      ctx.lineTo(at + height, y);
    }
    ctx.stroke();
  }
  for (let dotX = x + 3; pattern === 'dots' && dotX < x + width; dotX += 6) {
    for (let dotY = y + 3; dotY < y + height; dotY += 6) ctx.fillRect(dotX - 1, dotY - 1, 2, 2);
  }

  for (let barX = x + 3; pattern === 'bars' && barX < x + width; barX += 8)
    ctx.fillRect(barX, y, 3, height);

  ctx.lineWidth = 3;
  ctx.strokeRect(x, y, width, height);
  const room = wordsWidth(words);
  if (room + 8 < width) {
    ctx.fillStyle = ink('surface');
    ctx.fillRect(x + (width - room) / 2 - 3, y + height / 2 - 8, room + 6, 16);
    ctx.fillStyle = ink('ink');
    ctx.font = font(12);
    ctx.textAlign = 'center';
    ctx.textBaseline = 'middle';
    ctx.fillText(words, x + width / 2, y + height / 2);
  }
  ctx.restore();
}

/** Paints a ratio with its interval on a log axis between `bounds`, and the line at 1. */
export function paintInterval(
  ctx: CanvasRenderingContext2D,
  { x, y, width, height }: Box,
  { ratio, low, high }: { ratio: number; low: number; high: number },
  bounds: readonly [number, number],
  color: string,
): void {
  const at = (value: number): number =>
    x +
    (width * Math.log(Math.max(value, bounds[0]) / bounds[0])) / Math.log(bounds[1] / bounds[0]);
  const middle = y + height / 2;
  const stroke = (from: readonly [number, number], to: readonly [number, number]): void => {
    ctx.beginPath();
    ctx.moveTo(...from);
    ctx.lineTo(...to);
    ctx.stroke();
  };

  ctx.strokeStyle = ink('muted');
  ctx.lineWidth = 1;
  ctx.setLineDash([2, 3]);
  stroke([at(1), y - 6], [at(1), y + height + 6]);

  ctx.setLineDash([]);
  ctx.strokeStyle = color;
  ctx.fillStyle = color;
  ctx.lineWidth = 2.5;
  stroke([at(low), middle], [at(high), middle]);
  for (const end of low < high ? [low, high] : [])
    stroke([at(end), middle - 6], [at(end), middle + 6]);

  ctx.beginPath();
  ctx.arc(at(ratio), middle, 5, 0, 2 * Math.PI);
  ctx.fill();
}

/** Paints labelled stops of a log axis between `bounds`. */
export function paintStops(
  ctx: CanvasRenderingContext2D,
  box: Box,
  stops: readonly number[],
  bounds: readonly [number, number],
): void {
  const at = (stop: number): number =>
    box.x + (box.width * Math.log(stop / bounds[0])) / Math.log(bounds[1] / bounds[0]);
  paintMarks(
    ctx,
    box,
    stops.map((stop) => [at(stop), `× ${stop}`]),
  );
}

/** Paints words at their places along an axis. */
export function paintMarks(
  ctx: CanvasRenderingContext2D,
  { y }: Box,
  marks: readonly (readonly [x: number, words: string])[],
): void {
  ctx.fillStyle = ink('muted');
  ctx.font = font(12);
  ctx.textAlign = 'center';
  ctx.textBaseline = 'top';
  for (const [x, words] of marks) ctx.fillText(words, x, y);
}

/** The buttons that save a chart of rows as a picture and as its exact figures. */
export function saveButtons(
  title: string,
  rows: () => readonly PictureRow[],
  figures: () => Figures,
): HTMLElement {
  const name = fileName('onbeat', title);
  const button = (kind: string, what: string, act: () => void): HTMLElement =>
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
  return h(
    'div',
    { class: 'zoom' },
    button('PNG', 'as a picture', () => savePng(name, title, rowsPicture(rows()), RATIO)),
    button('CSV', 'with its exact figures', () => saveCsv(name, figures())),
  );
}
