// One spike's causes: how its lateness divides among them, and what shows each.
import { causeWord, inWords, ordered, thread } from '../causes.ts';
import { h } from '../dom.ts';
import type { Cause } from '../hlog.ts';
import { held, human, ns, percent } from '../units.ts';
import { causeKey, dividedBar } from './swatches.ts';

/** A share in percent with as many digits as a reader needs. */
const share = (part: number): string => (part > 0 && part < 0.001 ? 'below 0.1 %' : percent(Number((part * 100).toFixed(part < 0.1 ? 1 : 0))));

/** The divided lateness and the list under it, longest first. */
export function whyLate(causes: readonly Cause[], lanes: HTMLElement | null = null): HTMLElement {
  const list = ordered(causes);
  const all = list.reduce((sum, cause) => sum + cause.ns, 0);
  return h('div', { class: 'why' },
    h('p', {}, held(`${human(ns(all))} of lateness, by cause:`)),
    dividedBar(list.map((cause) => ({ kind: cause.kind, size: cause.ns, label: human(cause.ns), title: `${inWords(cause)}: ${human(cause.ns)}` }))),
    lanes,
    h('ol', {}, ...list.map((cause) => {
      const who = thread(cause);
      return h('li', {}, causeKey(cause.kind), h('div', {},
        h('b', {}, inWords(cause)), ' ', held(human(cause.ns)), h('span', { class: 'muted' }, held(`, ${share(all > 0 ? cause.ns / all : 0)}`)),
        cause.evidence ? h('p', {}, held(cause.evidence)) : null,
        who && !cause.evidence.includes(who) ? h('p', { class: 'muted' }, who) : null,
        causeWord(cause.kind).advice ? h('p', { class: 'muted' }, `Against it: ${causeWord(cause.kind).advice}`) : null));
    })));
}
