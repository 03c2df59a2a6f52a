// Keys: what they do to a chart's stretch of x, and the dialog that lists them.
import { h } from './dom.ts';

type Stretch = readonly [number, number];

/**
 * The stretch a key leads to: + and w zoom in, - and s zoom out, a and d move, 0 and Escape show everything (null).
 * `undefined` when the key means nothing here. On a log axis zooming is even in the logarithm.
 */
export function zoomKey(
  key: string,
  now: Stretch,
  full: Stretch,
  log: boolean,
  around: number | null,
): Stretch | null | undefined {
  const to = log ? Math.log : (v: number): number => v;
  const back = log ? Math.exp : (v: number): number => v;
  const [lo, hi, min, max] = [to(now[0]), to(now[1]), to(full[0]), to(full[1])];
  const width = hi - lo;
  const centre = around === null ? (lo + hi) / 2 : to(around);
  const kept = (a: number, b: number): Stretch | null => {
    const size = Math.min(b - a, max - min);
    const start = Math.max(min, Math.min(a, max - size));
    return size >= (max - min) * 0.999 ? null : [back(start), back(start + size)];
  };
  switch (key.toLowerCase()) {
    case '+':
    case '=':
    case 'w': {
      const share = (centre - lo) / width;
      return kept(centre - (width / 2) * share, centre + (width / 2) * (1 - share));
    }
    case '-':
    case 's':
      return kept(centre - width, centre + width);
    case 'a':
      return kept(lo - width / 4, hi - width / 4);
    case 'd':
      return kept(lo + width / 4, hi + width / 4);
    case '0':
    case 'escape':
      return null;
    default:
      return undefined;
  }
}

const KEYS: readonly (readonly [string, string])[] = [
  ['?', 'show or hide this list'],
  ['Tab', 'go to the next control or chart'],
  ['← →', 'move the cursor in a chart (with Shift: ten values)'],
  ['Home, End', 'go to the first or last value in a chart'],
  ['+ or W', 'zoom in'],
  ['− or S', 'zoom out'],
  ['A, D', 'move left, right'],
  ['0 or Esc', 'show everything'],
  ['Enter', 'on a column of the matrix: show or hide its cell in the charts'],
];

/** The dialog behind `?`, and the key that opens it anywhere but in a text field. */
export function keysDialog(): HTMLDialogElement {
  const dialog = h(
    'dialog',
    { 'aria-labelledby': 'keys-title' },
    h('h2', { id: 'keys-title' }, 'Keys'),
    h('p', {}, 'Cursor and zoom keys act on the chart that has the focus.'),
    h(
      'dl',
      { class: 'keys' },
      ...KEYS.flatMap(([key, what]) => [h('dt', {}, h('kbd', {}, key)), h('dd', {}, what)]),
    ),
    h('form', { method: 'dialog' }, h('button', { class: 'quiet' }, 'Close')),
  );
  document.addEventListener('keydown', (event) => {
    const target = event.target as HTMLElement;
    if (
      event.key !== '?' ||
      (/^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName) &&
        (target as HTMLInputElement).type !== 'radio' &&
        (target as HTMLInputElement).type !== 'checkbox')
    )
      return;
    event.preventDefault();
    if (dialog.open) dialog.close();
    else dialog.showModal();
  });
  return dialog;
}
