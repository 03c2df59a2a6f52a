// What else has to be known to believe the figures, and what the words mean.
import { h, section } from '../dom.ts';
import type { Report } from '../model.ts';
import { moment, sec } from '../units.ts';
import { GLOSSARY } from '../words.ts';

const EVENTS: Readonly<Record<string, string>> = { part_died: 'a part of the load died', part_substituted: 'a part of the load was substituted', started: 'started', stopped: 'stopped' };

/** Everything worth a line: cut-off files, losses, dead or substituted load parts, and the cells' own notes. */
export function collectNotes(report: Report): [string, string][] {
  const notes: [string, string][] = [];
  for (const cell of report.cells) {
    if (!cell.figures.permitted) notes.push([cell.name, `not permitted${cell.figures.why_not ? `: ${cell.figures.why_not}` : ''}`]);
    else if (!cell.figures.complete || (cell.file !== null && cell.file.run !== null && cell.file.end === null)) notes.push([cell.name, 'the recording was cut off; what is there is used']);
    if (cell.figures.lost > 0) notes.push([cell.name, `${cell.figures.lost} samples did not fit between the loop and the recorder and are missing`]);
    for (const note of new Set(cell.figures.notes)) notes.push([cell.name, note]);
    if (cell.figures.permitted && cell.file === null) notes.push([cell.name, 'its recording is not in this page; only its figures are']);
  }
  for (const file of report.files) {
    for (const { t, load, event, detail } of file.loads) {
      if (event === 'part_died' || event === 'part_substituted') notes.push([`${load}, ${moment(sec(t))}`, `${EVENTS[event]}: ${detail}`]);
    }
    for (const [problem, times] of tally(file.problems)) notes.push([file.name, times > 1 ? `${problem} (${times} times)` : problem]);
  }
  return notes;
}

function tally(lines: readonly string[]): Map<string, number> {
  const result = new Map<string, number>();
  lines.forEach((line) => result.set(line, (result.get(line) ?? 0) + 1));
  return result;
}

export function notesSection(report: Report): HTMLElement {
  const notes = collectNotes(report);
  const events = report.files.flatMap((file) => file.loads.map((note) => ({ ...note })));
  return section('notes', 'Notes', notes.length === 0 ? 'Nothing was cut off, lost or substituted.' : null,
    notes.length > 0 ? h('dl', { class: 'pairs' }, ...notes.flatMap(([who, what]) => [h('dt', {}, who), h('dd', {}, what)])) : null,
    events.length > 0 ? h('details', {}, h('summary', {}, `${events.length} load events`), h('dl', { class: 'pairs' }, ...events.flatMap(({ t, load, event, detail }) =>
      [h('dt', {}, moment(sec(t))), h('dd', {}, `${load}: ${EVENTS[event] ?? event}${detail ? `, ${detail}` : ''}`)]))) : null);
}

export const glossarySection = (): HTMLElement => section('glossary', 'The words', null,
  h('dl', { class: 'pairs glossary' }, ...GLOSSARY.flatMap(([word, meaning]) => [h('dt', {}, word), h('dd', {}, meaning)])));
