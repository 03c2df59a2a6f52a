// Swatches and the choice of cells: legend and control in one.
import { h, svg } from '../dom.ts';
import type { Cell } from '../model.ts';
import type { Store } from '../state.ts';
import { seriesStyle, type Marker } from '../theme.ts';

const SHAPES: Readonly<Record<Marker, string>> = {
  circle: 'M14 3a4 4 0 1 0 .01 0z',
  square: 'M10.4 3.4h7.2v7.2h-7.2z',
  triangle: 'M14 2.4l4.4 8h-8.8z',
  diamond: 'M14 2l5 5-5 5-5-5z',
  cross: 'M10 3l8 8M18 3l-8 8',
  down: 'M14 11.6l4.4-8h-8.8z',
  plus: 'M14 2v10M9 7h10',
  star: 'M14 1.6l1.5 3.6 3.9.3-3 2.5.9 3.8-3.3-2-3.3 2 .9-3.8-3-2.5 3.9-.3z',
};

/** A line with its dash and marker, as the cell is drawn in the charts. */
export function swatch(slot: number): SVGElement {
  const { color, dash, marker } = seriesStyle(slot);
  const open = marker === 'cross' || marker === 'plus';
  return svg(
    'svg',
    { class: 'swatch', viewBox: '0 0 28 14', width: 28, height: 14, 'aria-hidden': 'true' },
    svg('path', {
      d: 'M0 7h28',
      stroke: color,
      'stroke-width': 2,
      'stroke-dasharray': dash.map((d) => d * 0.8).join(' ') || null,
      fill: 'none',
    }),
    svg('path', {
      d: SHAPES[marker],
      fill: open ? 'none' : color,
      stroke: color,
      'stroke-width': open ? 2 : 0,
    }),
  );
}

function chip(store: Store, cell: Cell, label: string): HTMLElement {
  const slot = store.slotOf(cell.key);
  const possible = cell.figures.permitted && cell.file !== null;
  return h(
    'label',
    {
      class: `chip${slot >= 0 ? ' on' : ''}${possible ? '' : ' off'}`,
      title: possible ? null : (cell.figures.why_not ?? 'no recording'),
    },
    h('input', {
      type: 'checkbox',
      checked: slot >= 0,
      disabled: !possible,
      'data-cell': cell.key,
      onchange: () => store.toggle(cell.key),
    }),
    slot >= 0 ? swatch(slot) : null,
    h('span', {}, label),
  );
}

/** Checkboxes for all cells, a row per load. */
export function picker(store: Store): { element: HTMLElement; redraw: () => void } {
  const element = h('div', { class: 'picker' });
  const redraw = (): void => {
    const { report } = store;
    const active = (document.activeElement as HTMLElement | null)?.closest('.picker')
      ? (document.activeElement as HTMLElement).dataset['cell']
      : undefined;
    const loads = report.kind === 'bench' ? report.summary.loads : [null];
    element.replaceChildren(
      ...loads.map((load) =>
        h(
          'fieldset',
          {},
          h('legend', {}, load === null ? 'Runs' : load || 'cells'),
          ...report.cells
            .filter((cell) => load === null || cell.load === load)
            .map((cell) => chip(store, cell, load === null ? cell.name : cell.tuning)),
        ),
      ),
    );
    if (active !== undefined)
      element
        .querySelector<HTMLElement>(`input[data-cell="${CSS.escape(active)}"]`)
        ?.focus({ preventScroll: true });
  };
  return { element, redraw };
}
