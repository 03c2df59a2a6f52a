// The list of contents, and which part of the page is in sight.
import { h } from '../dom.ts';

/** The parts that the list names: sections, and the charts with a place of their own. */
const PARTS = 'section[id], section:not(#verdict) figure.chart[id]';
const titleOf = (part: Element): string =>
  part.querySelector('h2, h3')?.firstChild?.textContent?.trim() ?? '';

/** The list; `seen` is called with the part that scrolls into view, `address` gives the fragment of a part. */
export class Contents {
  readonly element = h('nav', { class: 'contents', 'aria-label': 'Contents' });
  private links = new Map<string, HTMLAnchorElement>();
  private current = '';

  constructor(
    private readonly seen: (section: string) => void,
    private readonly address: (section: string) => string,
  ) {}

  /** Lists what stands on the page now. */
  fill(page: HTMLElement): void {
    const parts = [...page.querySelectorAll<HTMLElement>(PARTS)].filter(
      (part) => part.id !== 'verdict' && titleOf(part) !== '',
    );
    this.links = new Map(parts.map((part) => [part.id, h('a', {}, titleOf(part))]));
    this.element.replaceChildren(
      h(
        'ul',
        {},
        ...parts.map((part) =>
          h('li', { class: part.matches('figure') ? 'inner' : null }, this.links.get(part.id)!),
        ),
      ),
    );
    this.refresh();

    // What crosses a line a quarter below the top is what is read.
    const observer = new IntersectionObserver(
      (entries) => {
        for (const { target, isIntersecting } of entries) if (isIntersecting) this.show(target.id);
      },
      { rootMargin: '-25% 0px -74.9% 0px' },
    );
    page.querySelectorAll(PARTS).forEach((part) => observer.observe(part));
  }

  /** Gives every link the address of its part with what is chosen now. */
  refresh(): void {
    this.links.forEach((link, section) => {
      link.href = this.address(section);
    });
  }

  private show(section: string): void {
    if (section === this.current) return;
    this.links.get(this.current)?.removeAttribute('aria-current');
    this.links.get(section)?.setAttribute('aria-current', 'true');
    this.current = section;
    this.seen(section);
  }
}
