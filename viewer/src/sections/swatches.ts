// How causes are painted: colour, pattern and letters, the same in bars, lists and keys.
import { causeWord } from '../causes.ts';
import { h } from '../dom.ts';

/** One piece of a bar. */
export interface Piece {
  kind: string;
  size: number;
  label: string;
  title: string;
}

const paint = (kind: string): string => `paint ${causeWord(kind).hue} ${causeWord(kind).pattern}`;

/** A small field in the cause's colour and pattern with its letters. */
export const causeKey = (kind: string): HTMLElement =>
  h(
    'span',
    { class: `cause-key ${paint(kind)}`, 'aria-hidden': 'true' },
    h('b', {}, causeWord(kind).letters),
  );

/** A bar divided by size; letters and labels show where there is room. What it says must stand elsewhere in words too. */
export function dividedBar(pieces: readonly Piece[]): HTMLElement {
  return h(
    'div',
    { class: 'divided', 'aria-hidden': 'true' },
    ...pieces
      .filter(({ size }) => size > 0)
      .map(({ kind, size, label, title }) => {
        const piece = h(
          'div',
          { class: paint(kind), title },
          h(
            'span',
            {},
            h('b', {}, causeWord(kind).letters),
            label
              ? h('span', { class: label.length <= 4 ? 'amount short' : 'amount' }, ` ${label}`)
              : null,
          ),
        );
        piece.style.flexGrow = String(size);
        return piece;
      }),
  );
}
