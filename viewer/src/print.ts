// Paper: always light, as wide as a page of A4 or Letter between its margins, no chart and no table cut at its edge.
import { forceLight } from './theme.ts';

/** Asks a plot to draw itself again at once, in the width that it has now. */
export const FIT = 'onbeat-fit';

const drawAgain = (): void =>
  document.querySelectorAll('.plot').forEach((plot) => plot.dispatchEvent(new Event(FIT)));

/** Makes tables that are wider than the paper as much smaller as they need to be. */
function fitTables(): void {
  for (const box of document.querySelectorAll<HTMLElement>('.scroll')) {
    const table = box.firstElementChild as HTMLElement | null;
    if (table !== null && box.scrollWidth > box.clientWidth)
      table.style.zoom = String(box.clientWidth / box.scrollWidth);
  }
}

function prepare(): void {
  document.documentElement.classList.add('printing');
  forceLight(true);
  drawAgain();
  fitTables();
}

function back(): void {
  document.documentElement.classList.remove('printing');
  forceLight(false);
  document.querySelectorAll<HTMLElement>('.scroll > *').forEach((table) => {
    table.style.zoom = '';
  });
  drawAgain();
}

/** Prepares the page for paper whenever it is printed. Browsers print what stands when their event returns, so nothing may wait. */
export function startPrint(): void {
  addEventListener('beforeprint', prepare);
  addEventListener('afterprint', back);
}
