// One spike's causes: how its lateness divides among them, and what shows each.
import { adviceAgainst, type Situation } from '../advice.ts';
import { causeWord, grouped, thread, type CauseGroup } from '../causes.ts';
import { h, prose } from '../dom.ts';
import type { Cause } from '../hlog.ts';
import { count, held, human, ns, percent } from '../units.ts';
import { causeKey, dividedBar } from './swatches.ts';
import { tuningLines } from './tunings.ts';

/** A share in percent with as many digits as a reader needs. */
const share = (part: number): string =>
  part > 0 && part < 0.001
    ? 'below 0.1 %'
    : percent(Number((part * 100).toFixed(part < 0.1 ? 1 : 0)));

/** Groups of causes that stand open; the others are folded. */
const SHOWN = 8;

/** What shows a group: the evidence of its longest member, and how many there are. */
function evidence({ members }: CauseGroup): HTMLElement[] {
  const [longest] = members as [Cause, ...Cause[]];
  const who = thread(longest);
  const many =
    members.length > 1 ? `${count(members.length)} times, ${human(longest.ns)} at most` : '';
  const words = [many, longest.evidence].filter((part) => part !== '').join(': ');
  return [
    ...(words === '' ? [] : [h('p', {}, ...prose(held(words)))]),
    ...(who !== null && !longest.evidence.includes(who) ? [h('p', { class: 'muted' }, who)] : []),
  ];
}

/** Every member of a group, filled when it is opened: one late cycle among hundreds of threads has a cause for each of them. */
function each({ members }: CauseGroup): HTMLElement | null {
  if (members.length === 1) return null;
  const list = h('ol', { class: 'each' });
  const row = (cause: Cause): HTMLElement =>
    h(
      'li',
      {},
      h('span', {}, thread(cause) ?? cause.evidence),
      h('span', {}, held(human(cause.ns))),
    );
  const fill = (): void => {
    if (list.childElementCount === 0) list.append(...members.map(row));
  };
  return h('details', { ontoggle: fill }, h('summary', {}, `All ${count(members.length)}`), list);
}

function item(group: CauseGroup, all: number, situation: Situation): HTMLElement {
  const [longest] = group.members as [Cause, ...Cause[]];
  const advice = adviceAgainst(longest, situation);
  return h(
    'li',
    {},
    causeKey(group.kind),
    h(
      'div',
      {},
      h('b', {}, group.words),
      ' ',
      held(human(group.ns)),
      h('span', { class: 'muted' }, held(`, ${share(all > 0 ? group.ns / all : 0)}`)),
      ...evidence(group),
      advice ? h('p', { class: 'muted' }, 'To reduce it: ', ...prose(advice)) : null,
      ...tuningLines(longest, situation),
      each(group),
    ),
  );
}

/** The rest of a long list: how many, how much together, and the list itself when it is opened. */
function folded(rest: readonly CauseGroup[], all: number, situation: Situation): HTMLElement {
  const together = rest.reduce((sum, group) => sum + group.ns, 0);
  const holder = h('ol', { start: SHOWN + 1 });
  const fill = (): void => {
    if (holder.childElementCount === 0)
      holder.append(...rest.map((group) => item(group, all, situation)));
  };
  return h(
    'details',
    { ontoggle: fill },
    h(
      'summary',
      {},
      held(
        `${count(rest.length)} more ${rest.length === 1 ? 'cause' : 'causes'}, ${human(ns(together))} together`,
      ),
    ),
    holder,
  );
}

/** What the bar shows: as many pieces as are listed, and the rest of each kind as one. */
function pieces(
  list: readonly CauseGroup[],
): { kind: string; size: number; label: string; title: string }[] {
  const shown = list.slice(0, SHOWN).map(({ kind, words, ns: size }) => ({
    kind,
    size,
    label: human(size),
    title: `${words}: ${human(size)}`,
  }));
  const rest = new Map<string, number>();
  for (const { kind, ns: size } of list.slice(SHOWN)) rest.set(kind, (rest.get(kind) ?? 0) + size);
  return [
    ...shown,
    ...[...rest].map(([kind, size]) => ({
      kind,
      size,
      label: human(ns(size)),
      title: `more ${causeWord(kind).words}: ${human(ns(size))}`,
    })),
  ];
}

/** The divided lateness and the list under it, longest first. */
export function whyLate(
  causes: readonly Cause[],
  situation: Situation,
  lanes: HTMLElement | null = null,
): HTMLElement {
  const list = grouped(causes);
  const all = list.reduce((sum, group) => sum + group.ns, 0);
  return h(
    'div',
    { class: 'why' },
    h('p', {}, held(`${human(ns(all))} of lateness, by cause:`)),
    dividedBar(pieces(list)),
    lanes,
    h('ol', {}, ...list.slice(0, SHOWN).map((group) => item(group, all, situation))),
    list.length > SHOWN ? folded(list.slice(SHOWN), all, situation) : null,
  );
}
