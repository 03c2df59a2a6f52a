// What stands on the page outside of its canvases, measured: words wider than their box, words cut at an edge, words over others.
import type { Page } from 'playwright-core';

/** What is drawn from left to right in a box of its own, or is there for assistive technology only. */
const OWN_RULES = '.vh, .plot, .choice legend, .matrix caption, noscript, .skip';

/** Faults of the layout as it is now, in words; to be called with the page at its top. */
export const faults = (page: Page): Promise<string[]> =>
  page.evaluate((ownRules) => {
    const found = new Set<string>();
    const round = (value: number): number => Math.round(value * 10) / 10;
    const named = (element: Element): string =>
      `${element.tagName.toLowerCase()}.${element.getAttribute('class') ?? ''} “${(element.textContent ?? '').trim().slice(0, 40)}”`;
    const isMeasured = (element: Element): boolean =>
      element.closest(ownRules) === null && !element.matches('input') && element.checkVisibility();
    const everything = [
      ...document.querySelectorAll('header *, main *, footer *, dialog[open] *'),
    ].filter(isMeasured);

    const over = (element: Element): boolean =>
      element.clientWidth > 0 && element.scrollWidth > element.clientWidth + 1;
    const mayScroll = (element: Element): boolean =>
      element.matches('.scroll') || getComputedStyle(element).textOverflow === 'ellipsis';
    for (const element of everything) {
      if (
        element.namespaceURI !== document.documentElement.namespaceURI ||
        element.matches('.track, .stretch') ||
        mayScroll(element)
      )
        continue;
      // The innermost box is the one to mend.
      if (over(element) && ![...element.children].some(over))
        found.add(
          `${named(element)} needs ${element.scrollWidth} px and has ${element.clientWidth}`,
        );
      const isClipped =
        getComputedStyle(element).overflowY === 'hidden' &&
        element.scrollHeight > element.clientHeight + 1;
      if (isClipped)
        found.add(
          `${named(element)} is ${element.scrollHeight} px high and has ${element.clientHeight}`,
        );
    }

    // The column of the page: what runs out of it is on its way over the edge.
    const main = document.querySelector('main')!;
    const { paddingLeft, paddingRight } = getComputedStyle(main);
    const box = main.getBoundingClientRect();
    const [left, right] = [
      box.left + parseFloat(paddingLeft),
      box.right - parseFloat(paddingRight),
    ];
    for (const element of main.querySelectorAll('*')) {
      if (
        !isMeasured(element) ||
        element.closest('.scroll > *, svg *, .contents') !== null ||
        element.matches('.bar')
      )
        continue;
      const { left: from, right: to, width } = element.getBoundingClientRect();
      if (width > 0 && (from < left - 1 || to > right + 1))
        found.add(
          `${named(element)} is from ${round(from)} to ${round(to)} px, and the column from ${round(left)} to ${round(right)}`,
        );
    }
    for (const element of everything) {
      const { left: from, right: to, width } = element.getBoundingClientRect();
      if (
        width > 0 &&
        element.closest('.scroll > *') === null &&
        (from < -1 || to > innerWidth + 1)
      )
        found.add(`${named(element)} is from ${round(from)} to ${round(to)} px of ${innerWidth}`);
    }

    // Every line of words, as far as the boxes around it show it.
    interface Words {
      text: string;
      left: number;
      right: number;
      top: number;
      bottom: number;
      own: Node;
    }
    const lines: Words[] = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
      const parent = node.parentElement!;
      if (
        node.textContent!.trim() === '' ||
        parent.closest('script, style, option, dialog:not([open])') !== null ||
        !isMeasured(parent)
      )
        continue;
      let edge = { left: -Infinity, right: Infinity, top: -Infinity, bottom: Infinity };
      for (
        let around: Element | null = parent;
        around !== null && around !== document.body;
        around = around.parentElement
      ) {
        if (getComputedStyle(around).overflowX === 'visible') continue;
        const clip = around.getBoundingClientRect();
        edge = {
          left: Math.max(edge.left, clip.left),
          right: Math.min(edge.right, clip.right),
          top: Math.max(edge.top, clip.top),
          bottom: Math.min(edge.bottom, clip.bottom),
        };
      }
      const range = document.createRange();
      range.selectNodeContents(node);
      for (const line of range.getClientRects()) {
        const shown = {
          left: Math.max(line.left, edge.left),
          right: Math.min(line.right, edge.right),
          top: Math.max(line.top, edge.top),
          bottom: Math.min(line.bottom, edge.bottom),
        };
        if (shown.right - shown.left > 1 && shown.bottom - shown.top > 1)
          lines.push({ ...shown, text: node.textContent!.trim().slice(0, 40), own: node });
      }
    }
    lines.sort((a, b) => a.top - b.top);
    lines.forEach((a, i) => {
      for (let k = i + 1; k < lines.length && lines[k]!.top < a.bottom; k++) {
        const b = lines[k]!;
        // Boxes of lines are higher than their letters.
        const high = Math.min(a.bottom, b.bottom) - b.top;
        const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        if (a.own !== b.own && wide > 1.5 && high > 5)
          found.add(
            `“${a.text}” and “${b.text}” are over each other by ${round(wide)} × ${round(high)} px`,
          );
      }
    });
    return [...found];
  }, OWN_RULES);
