// Colours. Series follow Okabe and Ito (2008), darkened a little on paper so that a line keeps 3:1 against it;
// each also has a dash and a marker, so that no reader depends on colour. Shades follow cividis (Nuñez et al. 2018).

export type Theme = 'light' | 'dark';
export type Choice = Theme | 'auto';
export type Marker =
  'circle' | 'square' | 'triangle' | 'diamond' | 'cross' | 'down' | 'plus' | 'star';
export interface SeriesStyle {
  color: string;
  dash: number[];
  marker: Marker;
}
export type Rgb = readonly [number, number, number];

const LIGHT = [
  '#0072b2',
  '#c24e00',
  '#008a63',
  '#a8447e',
  '#a86d00',
  '#2b85b8',
  '#16191d',
  '#77700a',
];
const DARK = [
  '#56b4e9',
  '#ff8a45',
  '#2fc79a',
  '#e29bc4',
  '#e69f00',
  '#8fb4ff',
  '#f2f2ee',
  '#f0e442',
];
const DASHES = [[], [7, 3], [2, 2], [9, 3, 2, 3], [12, 4], [4, 4], [6, 2, 2, 2, 2, 2], [1, 3]];
const MARKERS: Marker[] = [
  'circle',
  'square',
  'triangle',
  'diamond',
  'cross',
  'down',
  'plus',
  'star',
];

/** How many cells a chart can distinguish. */
export const STYLES = LIGHT.length;

let chosen: Choice = 'auto';
let forced: Theme | null = null;
const listeners: (() => void)[] = [];
const system = typeof matchMedia === 'function' ? matchMedia('(prefers-color-scheme: dark)') : null;

/** The theme on screen now. */
export const theme = (): Theme =>
  forced ?? (chosen !== 'auto' ? chosen : system?.matches ? 'dark' : 'light');
export const themeChoice = (): Choice => chosen;

function apply(): void {
  document.documentElement.dataset['theme'] = theme();
  listeners.forEach((listener) => listener());
}

/** Chooses a theme and remembers it where the browser allows. */
export function chooseTheme(choice: Choice): void {
  chosen = choice;
  try {
    localStorage.setItem('onbeat-theme', choice);
  } catch {
    /* a page from disk may have no storage: the choice then lasts as long as the page */
  }
  apply();
}

/** Shows the light theme whatever was chosen, or what was chosen again. */
export function forceLight(isForced: boolean): void {
  forced = isForced ? 'light' : null;
  apply();
}

/** Takes up the remembered choice and follows the system. */
export function startTheme(): void {
  try {
    const kept = localStorage.getItem('onbeat-theme');
    if (kept === 'light' || kept === 'dark') chosen = kept;
  } catch {
    /* no storage, see above */
  }
  system?.addEventListener('change', apply);
  apply();
}

export const onTheme = (listener: () => void): void => {
  listeners.push(listener);
};

/** Colour, dash and marker of the place a cell takes in the charts. */
export function seriesStyle(slot: number): SeriesStyle {
  const i = slot % STYLES;
  return { color: (theme() === 'dark' ? DARK : LIGHT)[i]!, dash: DASHES[i]!, marker: MARKERS[i]! };
}

/** A colour of the style sheet, for canvases. */
export const ink = (name: string): string =>
  getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

const byte = (value: number): number => Math.max(0, Math.min(255, Math.round(value)));

/** cividis at 0 (dark blue) … 1 (yellow), as the polynomials of d3-scale-chromatic. */
export function cividis(t: number): Rgb {
  return [
    byte(-4.54 - t * (35.34 - t * (2381.73 - t * (6402.7 - t * (7024.72 - t * 2710.57))))),
    byte(32.49 + t * (170.73 + t * (52.82 - t * (131.46 - t * (176.58 - t * 67.37))))),
    byte(81.24 + t * (442.36 - t * (2482.43 - t * (6167.24 - t * (6614.94 - t * 2475.67))))),
  ];
}

const PAPER: Record<Theme, Rgb> = { light: [255, 255, 255], dark: [24, 27, 31] };

/** More ink the further `t` (0 … 1) goes: cividis from its end that is near the page, let out of the page's own colour. */
export function shade(t: number, on: Theme = theme()): Rgb {
  // The power keeps everything that is well on the page's side, so that what is late stands out.
  const clamped = Math.max(0, Math.min(1, t)) ** 1.4;
  const base = cividis(on === 'light' ? 0.97 - 0.95 * clamped : 0.02 + 0.95 * clamped);
  const strength = Math.min(1, 0.1 + clamped * 1.5);
  return PAPER[on].map((p, i) => byte(p + (base[i]! - p) * strength)) as unknown as Rgb;
}

/** Relative luminance as WCAG 2 defines it. */
export function luminance(rgb: Rgb): number {
  const [r, g, b] = rgb.map((v) =>
    v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4,
  ) as [number, number, number];
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

/** Contrast ratio of two colours, 1 … 21. */
export function contrast(a: Rgb, b: Rgb): number {
  const [x, y] = [luminance(a), luminance(b)];
  return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05);
}

/** Black or white, whichever reads better on `rgb`; one of the two always reaches 4.5:1. */
export const textOn = (rgb: Rgb): Rgb =>
  contrast(rgb, [0, 0, 0]) >= contrast(rgb, [255, 255, 255]) ? [0, 0, 0] : [255, 255, 255];

export const css = (rgb: Rgb): string => `rgb(${rgb.join(' ')})`;
