// One spike's causes: how its lateness divides among them, and what shows each.
import { adviceAgainst, tuningCommand, type Situation } from '../advice.ts';
import { causeWord, inWords, ordered, thread } from '../causes.ts';
import { h, prose } from '../dom.ts';
import type { Cause } from '../hlog.ts';
import { count, held, human, ns, percent } from '../units.ts';
import { causeKey, dividedBar } from './swatches.ts';

/** A share in percent with as many digits as a reader needs. */
const share = (part: number): string => (part > 0 && part < 0.001 ? 'below 0.1 %' : percent(Number((part * 100).toFixed(part < 0.1 ? 1 : 0))));

/** Causes that stand open; one late cycle among hundreds of threads has a cause for each of them. */
const SHOWN = 8;

function item(cause: Cause, all: number, situation: Situation): HTMLElement {
  const who = thread(cause);
  const advice = adviceAgainst(cause, situation);
  const command = tuningCommand(cause, situation);
  return h('li', {}, causeKey(cause.kind), h('div', {},
    h('b', {}, inWords(cause)), ' ', held(human(cause.ns)), h('span', { class: 'muted' }, held(`, ${share(all > 0 ? cause.ns / all : 0)}`)),
    cause.evidence ? h('p', {}, ...prose(held(cause.evidence))) : null,
    who && !cause.evidence.includes(who) ? h('p', { class: 'muted' }, who) : null,
    advice ? h('p', { class: 'muted' }, `To reduce it: ${advice}`) : null,
    command ? h('p', { class: 'muted' }, 'Tunings: ', h('code', {}, command)) : null));
}

/** The rest of a long list: how many, how much together, and the list itself when it is opened. */
function folded(rest: readonly Cause[], all: number, situation: Situation): HTMLElement {
  const together = rest.reduce((sum, cause) => sum + cause.ns, 0);
  const holder = h('ol', { start: SHOWN + 1 });
  const fill = (): void => { if (holder.childElementCount === 0) holder.append(...rest.map((cause) => item(cause, all, situation))); };
  return h('details', { ontoggle: fill }, h('summary', {}, held(`${count(rest.length)} more causes, ${human(ns(together))} together`)), holder);
}

/** What the bar shows: as many pieces as are listed, and the rest of each kind as one. */
function pieces(list: readonly Cause[]): { kind: string; size: number; label: string; title: string }[] {
  const shown = list.slice(0, SHOWN).map((cause) => ({ kind: cause.kind, size: cause.ns, label: human(cause.ns), title: `${inWords(cause)}: ${human(cause.ns)}` }));
  const rest = new Map<string, number>();
  for (const cause of list.slice(SHOWN)) rest.set(cause.kind, (rest.get(cause.kind) ?? 0) + cause.ns);
  return [...shown, ...[...rest].map(([kind, size]) => ({ kind, size, label: human(ns(size)), title: `more ${causeWord(kind).words}: ${human(ns(size))}` }))];
}

/** The divided lateness and the list under it, longest first. */
export function whyLate(causes: readonly Cause[], situation: Situation, lanes: HTMLElement | null = null): HTMLElement {
  const list = ordered(causes);
  const all = list.reduce((sum, cause) => sum + cause.ns, 0);
  return h('div', { class: 'why' },
    h('p', {}, held(`${human(ns(all))} of lateness, by cause:`)),
    dividedBar(pieces(list)),
    lanes,
    h('ol', {}, ...list.slice(0, SHOWN).map((cause) => item(cause, all, situation))),
    list.length > SHOWN ? folded(list.slice(SHOWN), all, situation) : null);
}
