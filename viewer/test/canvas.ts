// What is written on the page's canvases: every text of the last drawing with its box.
import type { Page } from 'playwright-core';

/** A text on a chart's canvas, in CSS pixels from the canvas' corner. */
export interface Written {
  chart: string;
  text: string;
  left: number;
  right: number;
  top: number;
  bottom: number;
  width: number;
  height: number;
  isUpright: boolean;
}

/** Has the page note what it writes; to be called before the page is opened. */
export async function noteWriting(page: Page): Promise<void> {
  await page.addInitScript(() => {
    const written = new WeakMap<HTMLCanvasElement, unknown[]>();
    (globalThis as unknown as { written: typeof written }).written = written;
    const { fillText, clearRect } = CanvasRenderingContext2D.prototype;
    CanvasRenderingContext2D.prototype.clearRect = function (...box) {
      written.delete(this.canvas);
      clearRect.apply(this, box);
    };
    CanvasRenderingContext2D.prototype.fillText = function (text, x, y, ...rest) {
      const size = this.measureText(text);
      const matrix = this.getTransform();
      const corners = [
        [x - size.actualBoundingBoxLeft, y - size.actualBoundingBoxAscent],
        [x + size.actualBoundingBoxRight, y + size.actualBoundingBoxDescent],
      ].map(([a, b]) => matrix.transformPoint(new DOMPoint(a, b)));
      const box = {
        text,
        left: Math.min(corners[0]!.x, corners[1]!.x),
        right: Math.max(corners[0]!.x, corners[1]!.x),
        top: Math.min(corners[0]!.y, corners[1]!.y),
        bottom: Math.max(corners[0]!.y, corners[1]!.y),
        isUpright: matrix.b !== 0,
      };
      if (String(text).trim() !== '')
        written.set(this.canvas, [...(written.get(this.canvas) ?? []), box]);
      fillText.call(this, text, x, y, ...rest);
    };
  });
}

/** What stands on the charts now. */
export const writing = (page: Page): Promise<Written[]> =>
  page.evaluate(() => {
    const { written } = globalThis as unknown as { written: WeakMap<HTMLCanvasElement, object[]> };
    return [...document.querySelectorAll<HTMLCanvasElement>('.plot canvas')].flatMap((canvas) =>
      (written.get(canvas) ?? []).map((box) => ({
        chart: canvas.closest('figure')!.id,
        width: canvas.width,
        height: canvas.height,
        ...box,
      })),
    ) as unknown as Written[];
  });

/** Texts of one canvas that run into each other or over its edge, in words. */
export function collisions(all: readonly Written[]): string[] {
  const faults: string[] = [];
  for (const [i, a] of all.entries()) {
    if (a.left < -0.5 || a.top < -0.5 || a.right > a.width + 0.5 || a.bottom > a.height + 0.5)
      faults.push(`${a.chart}: “${a.text}” is cut off`);
    for (const b of all.slice(i + 1)) {
      if (
        a.chart === b.chart &&
        Math.min(a.right, b.right) - Math.max(a.left, b.left) > 0.5 &&
        Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 0.5
      )
        faults.push(`${a.chart}: “${a.text}” and “${b.text}”`);
    }
  }
  return faults;
}
