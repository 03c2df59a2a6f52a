// What a reader who does not see the charts gets: a live line for the cursor, and a table behind every chart.
import { h } from './dom.ts';

const region = (): HTMLElement | null => document.getElementById('live');
let timer: ReturnType<typeof setTimeout> | undefined;

/** Says `text` once the reader has stopped moving. */
export function announce(text: string): void {
  clearTimeout(timer);
  timer = setTimeout(() => {
    const live = region();
    if (live) live.textContent = text;
  }, 180);
}

/** Cells of a hidden table. */
export interface Table {
  caption: string;
  head: string[];
  rows: string[][];
}

/** A table that only assistive technology shows. */
export function hiddenTable({ caption, head, rows }: Table): HTMLElement {
  return h(
    'div',
    { class: 'vh' },
    h(
      'table',
      {},
      h('caption', {}, caption),
      h('thead', {}, h('tr', {}, ...head.map((cell) => h('th', { scope: 'col' }, cell)))),
      h(
        'tbody',
        {},
        ...rows.map((row) =>
          h(
            'tr',
            {},
            ...row.map((cell, i) =>
              i === 0 ? h('th', { scope: 'row' }, cell) : h('td', {}, cell),
            ),
          ),
        ),
      ),
    ),
  );
}

/** At most `most` of the rows, spread evenly, for tables behind long charts. */
export function thinned<T>(rows: readonly T[], most: number): T[] {
  if (rows.length <= most) return [...rows];
  return Array.from(
    { length: most },
    (_, i) => rows[Math.round((i * (rows.length - 1)) / (most - 1))]!,
  );
}
