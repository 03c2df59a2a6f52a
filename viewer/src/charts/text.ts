// Words on canvases: their font, their width, and how they are cut to a width.

const FAMILY = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif';

/** A font of the page for canvases; `ratio` is the pixels of the canvas per pixel of the page. */
export const font = (size: number, ratio = 1, weight = 400): string =>
  `${weight} ${size * ratio}px ${FAMILY}`;

let measuring: CanvasRenderingContext2D | null = null;

/** Width of words on a canvas, in CSS pixels. */
export function wordsWidth(words: string, size = 12): number {
  measuring ??= document.createElement('canvas').getContext('2d')!;
  measuring.font = font(size);
  return measuring.measureText(words).width;
}

/** Words cut to a width, with dots where something is missing. */
export function shortened(
  words: string,
  room: number,
  width: (words: string) => number = wordsWidth,
): string {
  if (width(words) <= room) return words;
  let keep = words.length - 1;
  while (keep > 1 && width(`${words.slice(0, keep)}…`) > room) keep--;
  return `${words.slice(0, keep)}…`;
}
