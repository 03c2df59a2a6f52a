// The few lines that stand in for a framework.

type Child = Node | string | null | undefined | false;
type Attributes = Record<
  string,
  string | number | boolean | null | undefined | ((event: Event) => void)
>;

function fill(element: Element, attributes: Attributes, children: readonly Child[]): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === 'function') element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? '' : String(value));
  }
  for (const child of children) if (child) element.append(child);
}

/** An HTML element; `onclick` and its like become listeners. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  fill(element, attributes, children);
  return element;
}

/** An SVG element. */
export function svg(tag: string, attributes: Attributes = {}, ...children: Child[]): SVGElement {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
  fill(element, attributes, children);
  return element;
}

let ids = 0;
/** An id no other element has. */
export const freshId = (stem: string): string => `${stem}-${++ids}`;

/** A labelled part of the page. */
export function section(
  id: string,
  title: string,
  lead: string | null,
  ...children: Child[]
): HTMLElement {
  // Nothing to show takes a line.
  const isEmpty = children.every((child) => !child);
  return h(
    'section',
    { id, 'aria-labelledby': `${id}-title`, class: isEmpty ? 'line' : null },
    h('h2', { id: `${id}-title` }, title),
    lead ? h('p', { class: 'lead' }, ...prose(lead)) : null,
    ...children,
  );
}

/** A part of the page that has nothing to show but a sentence, and perhaps what is folded away behind it. */
export function line(id: string, title: string, lead: string, ...folded: Child[]): HTMLElement {
  const element = section(id, title, lead, ...folded);
  element.classList.add('line');
  return element;
}

/** A sentence whose words between backticks are code, and whose options do not break after their hyphens. */
export const prose = (sentence: string): (string | HTMLElement)[] =>
  sentence
    .split(/(`[^`]+`|(?<![\w-])--[a-z][\w-]*)/)
    .map((part, i) =>
      i % 2 === 0
        ? part
        : part.startsWith('`')
          ? h('code', {}, part.slice(1, -1))
          : h('span', { class: 'option' }, part),
    );

/** A sentence where no element can stand: without its backticks. */
export const unquoted = (sentence: string): string => sentence.replace(/`([^`]+)`/g, '$1');

/** A row of radio buttons that look like one switch. */
export function choice<T extends string>(
  legend: string,
  options: readonly { value: T; label: string; title?: string }[],
  chosen: T,
  pick: (value: T) => void,
): HTMLFieldSetElement {
  const name = freshId('choice');
  return h(
    'fieldset',
    { class: 'choice' },
    h('legend', {}, legend),
    ...options.map(({ value, label, title }) =>
      h(
        'label',
        { title },
        h('input', {
          type: 'radio',
          name,
          value,
          checked: value === chosen,
          onchange: () => pick(value),
        }),
        h('span', {}, label),
      ),
    ),
  );
}
