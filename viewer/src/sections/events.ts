// What happened on the bus, and to the robot on it: alarms in sentences, then every event that the recording keeps.
import { h, section } from '../dom.ts';
import type { EventNote } from '../hlog.ts';
import type { Cell, Report } from '../model.ts';
import { count, moment, sec } from '../units.ts';

/** Rows of one table; the recording has all of them. */
const MOST_ROWS = 400;

/** The events of a cell: those of its recording, or where that is not in the page those of its figures. */
export const eventsOf = (cell: Pick<Cell, 'figures' | 'file'>): readonly EventNote[] =>
  cell.file !== null && cell.file.events.length > 0
    ? cell.file.events
    : (cell.figures.events?.listed ?? []);

/** How many of them say that something is wrong, those among them that have no note. */
export function alarmsOf(cell: Pick<Cell, 'figures' | 'file'>): number {
  const counted = cell.figures.events?.alarms;
  return counted
    ? Object.values(counted).reduce((sum, n) => sum + n, 0)
    : eventsOf(cell).filter(({ alarm }) => alarm).length;
}

const lostOf = ({ figures }: Pick<Cell, 'figures'>): number => figures.events?.lost ?? 0;

/** How many were counted without a note. */
export function onlyCounted(cell: Pick<Cell, 'figures' | 'file'>): number {
  const { alarms = {}, others = {} } = cell.figures.events ?? {};
  const all = [...Object.values(alarms), ...Object.values(others)].reduce((sum, n) => sum + n, 0);
  return Math.max(0, all - eventsOf(cell).length);
}

function row(event: EventNote): HTMLElement {
  const kind = event.kind.replaceAll('_', ' ');
  return h(
    'tr',
    {},
    h('td', { class: 'number' }, moment(sec(event.t))),
    h('td', { class: 'number' }, count(event.cycle)),
    h('td', {}, event.alarm ? h('b', {}, kind) : kind),
    h('td', {}, event.sentence),
  );
}

function ofCell(cell: Cell, named: boolean): HTMLElement {
  const events = eventsOf(cell);
  const more = onlyCounted(cell);
  const incidents = cell.figures.events?.incidents ?? [];
  const name = named ? `${cell.name}: ` : '';
  return h(
    'div',
    {},
    incidents.length > 0
      ? h('ul', { 'aria-label': `${name}incidents` }, ...incidents.map((what) => h('li', {}, what)))
      : null,
    events.length === 0 ? null : table(name, events),
    more === 0 ? null : h('p', { class: 'muted' }, `${name}${count(more)} more were only counted.`),
  );
}

function table(name: string, events: readonly EventNote[]): HTMLElement {
  return h(
    'details',
    {},
    h('summary', {}, `${name}${count(events.length)} ${events.length === 1 ? 'event' : 'events'}`),
    h(
      'div',
      { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': `${name}table of events` },
      h(
        'table',
        { class: 'list plain' },
        h(
          'thead',
          {},
          h(
            'tr',
            {},
            ...['time', 'cycle', 'event', 'description'].map((head, i) =>
              h('th', { scope: 'col', class: i < 2 ? 'number' : null }, head),
            ),
          ),
        ),
        h('tbody', {}, ...events.slice(0, MOST_ROWS).map(row)),
      ),
    ),
    events.length > MOST_ROWS
      ? h(
          'p',
          { class: 'muted' },
          `The recording contains ${count(events.length - MOST_ROWS)} more events.`,
        )
      : null,
  );
}

/** How many alarms there are, and how many may have been lost among others. */
export function alarmsInWords(
  cells: readonly Pick<Cell, 'figures' | 'file'>[],
  allowed: number | undefined,
): string {
  const sum = (of: (cell: Pick<Cell, 'figures' | 'file'>) => number): number =>
    cells.reduce((all, cell) => all + of(cell), 0);
  const [alarms, lost] = [sum(alarmsOf), sum(lostOf)];
  const found = alarms === 0 ? 'No alarms' : alarms === 1 ? '1 alarm' : `${count(alarms)} alarms`;
  const events = lost === 1 ? '1 event' : `${count(lost)} events`;
  const unknown = lost === 0 ? '' : `, and ${events} of unknown kind lost before the recorder`;
  return `${found}${unknown}${allowed === undefined ? '' : `; ${count(allowed)} allowed`}.`;
}

export function eventsSection(report: Report): HTMLElement | null {
  const cells = report.cells.filter(
    (cell) => eventsOf(cell).length + onlyCounted(cell) + lostOf(cell) > 0,
  );
  if (cells.length === 0) return null;
  return section(
    'events',
    'Bus and robot events',
    alarmsInWords(cells, report.summary.most_alarms),
    ...cells.map((cell) => ofCell(cell, cells.length > 1)),
  );
}
