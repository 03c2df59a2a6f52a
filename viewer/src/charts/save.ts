// Charts as files: a picture with title and legend, and the exact figures with units in the first line.
import { ink } from '../theme.ts';
import { font } from './text.ts';

/** Exact figures: the names of the columns carry their units. */
export interface Figures {
  head: readonly string[];
  rows: Iterable<readonly (string | number)[]>;
}

const field = (value: string | number): string => {
  const text = String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};

/** Comma-separated values (RFC 4180, with plain line ends), the names of the columns first. */
export function csv({ head, rows }: Figures): string {
  const lines = [head.map(field).join(',')];
  for (const row of rows) lines.push(row.map(field).join(','));
  return `${lines.join('\n')}\n`;
}

/** Words as a part of a file's name: "C · paper" becomes "c-paper". */
export const fileName = (...words: readonly string[]): string =>
  words
    .map((word) =>
      word
        .toLowerCase()
        .replace(/[^a-z0-9]+/g, '-')
        .replace(/^-|-$/g, ''),
    )
    .filter((word) => word !== '')
    .join('-');

/** Hands a file to the reader's downloads. */
export function save(name: string, content: Blob): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  // The browser reads it after this turn.
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

export const saveCsv = (name: string, figures: Figures): void =>
  save(`${name}.csv`, new Blob([csv(figures)], { type: 'text/csv' }));

/** Saves a drawing under its title, on the page's own colour. */
export function savePng(
  name: string,
  title: string,
  picture: CanvasImageSource & { width: number; height: number },
  ratio: number,
): void {
  const head = 34 * ratio;
  const whole = document.createElement('canvas');
  whole.width = picture.width;
  whole.height = picture.height + head;

  const ctx = whole.getContext('2d')!;
  ctx.fillStyle = ink('surface');
  ctx.fillRect(0, 0, whole.width, whole.height);
  ctx.fillStyle = ink('ink');
  ctx.font = font(15, ratio, 620);
  ctx.textBaseline = 'middle';
  ctx.fillText(title, 12 * ratio, head / 2);
  ctx.drawImage(picture, 0, head);

  whole.toBlob((blob) => {
    if (blob !== null) save(`${name}.png`, blob);
  }, 'image/png');
}

/** What a style sheet gives a drawing, and a file of its own has to carry. */
const CARRIED = [
  'fill',
  'stroke',
  'stroke-width',
  'stroke-dasharray',
  'stroke-dashoffset',
  'stroke-linecap',
  'stroke-linejoin',
  'opacity',
  'font-size',
  'font-family',
  'font-weight',
  'text-anchor',
];

/** Saves a drawing by vectors as a picture of twice its size. */
export async function saveSvg(name: string, title: string, drawing: SVGSVGElement): Promise<void> {
  const copy = drawing.cloneNode(true) as SVGSVGElement;
  const from = [drawing, ...drawing.querySelectorAll('*')];
  const to = [copy, ...copy.querySelectorAll('*')];
  from.forEach((element, i) => {
    const style = getComputedStyle(element);
    CARRIED.forEach((property) => to[i]!.setAttribute(property, style.getPropertyValue(property)));
  });
  copy.setAttribute('width', String(drawing.clientWidth * 2));
  copy.setAttribute('height', String(drawing.clientHeight * 2));

  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(copy))}`;
  await image.decode();
  savePng(name, title, image, 2);
}
