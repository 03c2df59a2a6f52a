// The legend inside a chart, drawn on its canvas, so that a saved picture has it too.
import { ink, type SeriesStyle } from '../theme.ts';
import { marker } from './marks.ts';
import { font, shortened, wordsWidth } from './text.ts';

/** What stands in a legend: words behind a line with its marker, or behind a strip of colours, or alone. */
export interface Entry {
  words: string;
  style?: SeriesStyle;
  strip?: (share: number) => string;
}
/** An entry in its place, CSS pixels from the legend's left and top ends. */
export interface Placed {
  x: number;
  row: number;
}

const ROW = 19;
const GAP = 18;
const SIGN = { line: 34, strip: 96, none: 0 } as const;

const signWidth = (entry: Entry): number =>
  entry.style ? SIGN.line : entry.strip ? SIGN.strip : SIGN.none;

/** Puts entries of these widths into rows no wider than `room`; one that is wider than a row has it to itself. */
export function inRows(widths: readonly number[], room: number): Placed[] {
  let x = 0;
  let row = 0;
  return widths.map((width) => {
    if (x > 0 && x + width > room) {
      x = 0;
      row++;
    }
    const place = { x, row };
    x += width + GAP;
    return place;
  });
}

/** A legend laid out for a chart's width. */
export class Legend {
  readonly height: number;
  private readonly places: readonly Placed[];
  private readonly words: readonly string[];

  constructor(
    private readonly entries: readonly Entry[],
    room: number,
  ) {
    this.words = entries.map((entry) => shortened(entry.words, room - signWidth(entry)));
    this.places = inRows(
      entries.map((entry, i) => signWidth(entry) + wordsWidth(this.words[i]!)),
      room,
    );
    const rows = entries.length > 0 ? this.places[this.places.length - 1]!.row + 1 : 0;
    this.height = rows * ROW + (rows > 0 ? 6 : 0);
  }

  /** Draws it with its upper left corner at (left, top), canvas pixels. */
  draw(ctx: CanvasRenderingContext2D, left: number, top: number, ratio: number): void {
    ctx.save();
    ctx.textAlign = 'left';
    ctx.textBaseline = 'middle';
    this.entries.forEach((entry, i) => {
      const { x, row } = this.places[i]!;
      const from = left + x * ratio;
      const middle = top + (row + 0.5) * ROW * ratio;
      sign(ctx, entry, from, middle, ratio);
      ctx.fillStyle = ink('ink');
      ctx.font = font(12, ratio);
      ctx.fillText(this.words[i]!, from + signWidth(entry) * ratio, middle);
    });
    ctx.restore();
  }
}

function sign(
  ctx: CanvasRenderingContext2D,
  { style, strip }: Entry,
  x: number,
  y: number,
  ratio: number,
): void {
  if (style) {
    ctx.strokeStyle = style.color;
    ctx.lineWidth = 2 * ratio;
    ctx.setLineDash(style.dash.map((length) => length * 0.8 * ratio));
    ctx.beginPath();
    ctx.moveTo(x, y);
    ctx.lineTo(x + 28 * ratio, y);
    ctx.stroke();
    marker(ctx, style.marker, x + 14 * ratio, y, 3.6 * ratio, style.color, false);
  }
  const width = (SIGN.strip - 8) * ratio;
  for (let at = 0; strip && at < width; at++) {
    ctx.fillStyle = strip(at / width);
    ctx.fillRect(Math.round(x) + at, y - 5 * ratio, 1, 10 * ratio);
  }
}
