// Words on canvases: their font, their width, how they are cut to a width, and what stands there instead of a drawing.
import { isFiguresOnly, type Cell } from '../model.ts';
import { seriesWord } from '../words.ts';

const FAMILY = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif';

/** A font of the page for canvases; `ratio` is the pixels of the canvas per pixel of the page. */
export const font = (size: number, ratio = 1, weight = 400): string =>
  `${weight} ${size * ratio}px ${FAMILY}`;

/** Why none of these cells has a distribution of a series to draw. */
export function noSamples(cells: readonly Cell[], tag: string): string {
  const name = seriesWord(tag).name.toLowerCase();
  return cells.some(({ file }) => file !== null && isFiguresOnly(file, tag))
    ? `The source states extremes and mean of ${name} only: there is no distribution to draw.`
    : `No selected cell has samples of ${name} in this time range.`;
}

let measuring: CanvasRenderingContext2D | null = null;

/** Width of words on a canvas, in CSS pixels. */
export function wordsWidth(words: string, size = 12): number {
  measuring ??= document.createElement('canvas').getContext('2d')!;
  measuring.font = font(size);
  return measuring.measureText(words).width;
}

/** Words cut to a width, with dots where something is missing: names of runs often differ at their end alone. */
export function shortened(
  words: string,
  room: number,
  width: (words: string) => number = wordsWidth,
): string {
  if (width(words) <= room) return words;
  const cut = (keep: number): string =>
    `${words.slice(0, Math.ceil(keep / 2))}…${words.slice(words.length - Math.floor(keep / 2))}`;
  let keep = words.length - 1;
  while (keep > 1 && width(cut(keep)) > room) keep--;
  return cut(keep);
}
