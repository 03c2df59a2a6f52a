// What else has to be known to believe the figures, and what the words mean.
import { h, prose, section } from '../dom.ts';
import { isTruncated, type Report } from '../model.ts';
import { count, held, moment, sec } from '../units.ts';
import { GLOSSARY } from '../words.ts';

const EVENTS: Readonly<Record<string, string>> = {
  part_died: 'a part of the load died',
  part_substituted: 'a part of the load was substituted',
  started: 'started',
  stopped: 'stopped',
};

/** All notes: truncated files, losses, dead or substituted load parts, and the cells' own notes. */
export function collectNotes(report: Report): [string, string][] {
  const notes: [string, string][] = [];
  for (const cell of report.cells) {
    if (!cell.figures.permitted)
      notes.push([
        cell.name,
        `not permitted${cell.figures.why_not ? `: ${cell.figures.why_not}` : ''}`,
      ]);
    else if (cell.figures.goes_on)
      notes.push([cell.name, 'run in progress; figures from the part recorded so far']);
    else if (isTruncated(cell))
      notes.push([cell.name, 'truncated; figures from the recorded part']);
    // The notes of a summary say why, which differs between a loop and a program that is watched.
    if (cell.figures.lost > 0 && report.summary.derived)
      notes.push([
        cell.name,
        `${count(cell.figures.lost)} ${cell.figures.lost === 1 ? 'sample was' : 'samples were'} dropped: in no figure`,
      ]);
    for (const note of new Set(cell.figures.notes)) notes.push([cell.name, note]);
    if (cell.figures.permitted && cell.figures.file !== null && cell.file === null)
      notes.push([cell.name, 'recording not in this page; figures only']);
  }
  for (const file of report.files) {
    for (const { t, load, event, detail } of file.loads) {
      if (event === 'part_died' || event === 'part_substituted')
        notes.push([`${load}, ${moment(sec(t))}`, `${EVENTS[event]}: ${detail}`]);
    }
    for (const problem of file.problems) notes.push([file.name, problem]);
  }
  return notes;
}

/** A note with everything it is about, each once, and how often it was found. */
export interface Folded {
  about: string[];
  what: string;
  times: number;
}

/** Folds notes that say the same into one, at the place of the first. */
export function folded(notes: readonly (readonly [string, string])[]): Folded[] {
  const known = new Map<string, Folded>();
  for (const [about, what] of notes) {
    const one = known.get(what) ?? { about: [], what, times: 0 };
    known.set(what, one);
    if (!one.about.includes(about)) one.about.push(about);
    one.times++;
  }
  return [...known.values()];
}

/** Names that stand in full; more are counted. */
const NAMED = 2;

/** "C · idle", "C · idle, MC · idle", "C · idle, MC · idle and 6 more". */
const names = (about: readonly string[]): string =>
  about.length <= NAMED + 1
    ? about.join(', ')
    : `${about.slice(0, NAMED).join(', ')} and ${about.length - NAMED} more`;

function row({ about, what, times }: Folded): HTMLElement[] {
  return [
    h('dt', { title: about.length > NAMED + 1 ? about.join(', ') : null }, names(about)),
    h(
      'dd',
      {},
      ...prose(held(what)),
      times > 1 ? h('span', { class: 'muted' }, ` (${count(times)} times)`) : null,
    ),
  ];
}

export function notesSection(report: Report): HTMLElement {
  const notes = folded(collectNotes(report));
  const events = report.files.flatMap((file) => file.loads);
  return section(
    'notes',
    'Notes',
    notes.length === 0 ? 'Nothing was truncated, lost or substituted.' : null,
    notes.length > 0 ? h('dl', { class: 'pairs' }, ...notes.flatMap(row)) : null,
    events.length > 0
      ? h(
          'details',
          {},
          h('summary', {}, `${count(events.length)} load events`),
          h(
            'dl',
            { class: 'pairs' },
            ...events.flatMap(({ t, load, event, detail }) => [
              h('dt', {}, moment(sec(t))),
              h(
                'dd',
                {},
                ...prose(`${load}: ${EVENTS[event] ?? event}${detail ? `, ${detail}` : ''}`),
              ),
            ]),
          ),
        )
      : null,
  );
}

export const glossarySection = (): HTMLElement =>
  section(
    'glossary',
    'Glossary',
    null,
    h(
      'dl',
      { class: 'pairs glossary' },
      ...GLOSSARY.flatMap(([word, meaning]) => [h('dt', {}, word), h('dd', {}, ...prose(meaning))]),
    ),
  );
