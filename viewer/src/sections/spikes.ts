// The worst moments: when, how late, and why.
import { grouped, inWords, mainCause, situationOfCell } from '../causes.ts';
import { freshId, h, section } from '../dom.ts';
import type { Spike } from '../hlog.ts';
import { onClock, type Cell, type Report } from '../model.ts';
import { shellWord } from '../shell.ts';
import type { Store } from '../state.ts';
import { count, usCell, type Sec } from '../units.ts';
import { STALLS } from '../words.ts';
import { around } from './around.ts';
import { causeKey } from './swatches.ts';
import { whyLate } from './why.ts';
import type { WindowNote } from '../window.ts';

interface Row {
  cell: Cell;
  spike: Spike;
  at: Sec;
}
/** Of a column, or at first the lateness: wake-up latency and execution time together, as the terminal lists them. */
type Key =
  'lateness' | 'number' | 'at' | 'cell' | 'latency' | 'cause' | 'execution' | 'skipped' | 'stall';

const CHOOSE = ' Choose a cause to show everything that delayed the cycle, and what ran around it.';

const exceeded = (total: number): string =>
  `${count(total)} ${total === 1 ? 'sample' : 'samples'} exceeded the spike threshold; ` +
  'the worst are listed here.';

const COLUMNS: readonly { key: Key; name: string; numeric: boolean }[] = [
  { key: 'number', name: 'spike', numeric: true },
  { key: 'latency', name: 'wake-up latency, µs', numeric: true },
  { key: 'cause', name: 'cause', numeric: false },
  { key: 'at', name: 'at, s', numeric: true },
  { key: 'cell', name: 'cell', numeric: false },
  { key: 'execution', name: 'execution time, µs', numeric: true },
  { key: 'skipped', name: 'skipped before', numeric: true },
  { key: 'stall', name: 'stall', numeric: false },
];

const KEY: Readonly<Record<Key, (row: Row) => number | string>> = {
  lateness: (row) => row.spike.wakeup_latency_ns + row.spike.execution_time_ns,
  number: (row) => row.spike.number ?? 0,
  at: (row) => row.spike.t,
  cell: (row) => row.cell.name,
  latency: (row) => row.spike.wakeup_latency_ns,
  cause: (row) => causeWords(row.spike),
  execution: (row) => row.spike.execution_time_ns,
  skipped: (row) => row.spike.skipped,
  stall: (row) => stallWord(row.spike.stall),
};

/** When a spike was, as the terminal and `onbeat export --list` print it, so that one is found by the other. */
const at = ({ t }: Spike): string => t.toFixed(3);

const stallWord = (stall: string | null): string =>
  stall === null ? '–' : (STALLS[stall] ?? stall.replaceAll('_', ' '));

/** The main cause in words; a dash where it was not analysed. */
export function causeWords(spike: Spike): string {
  const main = mainCause(spike.causes);
  return main === null ? '–' : inWords(main);
}

/** Orders rows by a column; equal ones by latency, largest first. */
export function sorted<T extends Row>(rows: readonly T[], key: Key, down: boolean): T[] {
  return [...rows].sort((a, b) => {
    const [x, y] = [KEY[key](a), KEY[key](b)];
    const order = x < y ? -1 : x > y ? 1 : 0;
    return (down ? -order : order) || b.spike.wakeup_latency_ns - a.spike.wakeup_latency_ns;
  });
}

/** The summary's spikes and those noted in the recording, each once, with its causes from either. */
export function knownSpikes(cell: Pick<Cell, 'figures' | 'file'>): Spike[] {
  const all = new Map<string, Spike>();
  for (const spike of [...cell.figures.spikes, ...(cell.file?.spikes ?? [])]) {
    const key = keyOf(spike);
    const before = all.get(key);
    const causes = spike.causes?.length ? spike.causes : before?.causes;
    all.set(key, { ...before, ...spike, ...(causes ? { causes } : {}) });
  }
  return [...all.values()];
}

const keyOf = ({ block, index }: Spike): string => `${block}/${index}`;
const SHOWN = 15;

const windowOf = ({ cell, spike }: Row): WindowNote | undefined =>
  cell.file?.windows.find(({ block, index }) => block === spike.block && index === spike.index);

/** What writes the events around a spike to a file. */
function command({ cell, spike }: Row): string {
  const of = cell.file?.run?.cell;
  return `onbeat export RUN ${of ? `--cell ${shellWord(`${of.tuning}/${of.load}`)} ` : ''}--spike ${spike.number ?? 1} --perfetto FILE`;
}

/** A row, and when it has causes the row under it with them; that one is filled when it is first opened. */
function rowsOf(
  row: Row,
  columns: readonly (typeof COLUMNS)[number][],
  open: Set<string>,
): HTMLElement[] {
  const { cell, spike } = row;
  const causes = spike.causes ?? [];
  const key = `${cell.key}/${keyOf(spike)}`;
  const id = freshId('why');
  const under = h(
    'tr',
    { id, class: 'under', hidden: !open.has(key) },
    h('td', { colspan: columns.length }),
  );
  const fill = (): void => {
    if (under.firstElementChild!.childElementCount === 0)
      under.firstElementChild!.append(
        whyLate(causes, situationOfCell(row.cell), around(spike, windowOf(row), command(row))),
      );
  };
  const toggle = (event: Event): void => {
    const shown = under.hidden;
    if (shown) {
      open.add(key);
      fill();
    } else open.delete(key);
    under.hidden = !shown;
    (event.currentTarget as HTMLElement).setAttribute('aria-expanded', String(shown));
  };
  if (open.has(key)) fill();
  const main = mainCause(causes);
  const others = grouped(causes).length - 1;
  const words = (of: Key): string =>
    of === 'number'
      ? spike.number === undefined
        ? '–'
        : count(spike.number)
      : of === 'at'
        ? at(spike)
        : of === 'cell'
          ? cell.name
          : of === 'latency'
            ? usCell(spike.wakeup_latency_ns, false)
            : of === 'execution'
              ? usCell(spike.execution_time_ns, false)
              : of === 'skipped'
                ? count(spike.skipped)
                : of === 'stall'
                  ? stallWord(spike.stall)
                  : causeWords(spike);
  const tr = h(
    'tr',
    {},
    ...columns.map(({ key: of, numeric }) =>
      h(
        'td',
        { class: numeric ? 'number' : of === 'cause' ? 'cause' : null },
        of === 'cause' && main !== null
          ? h(
              'button',
              {
                type: 'button',
                class: 'more',
                'data-why': key,
                'aria-expanded': String(open.has(key)),
                'aria-controls': id,
                onclick: toggle,
              },
              causeKey(main.kind),
              h(
                'span',
                {},
                causeWords(spike),
                others > 0 ? h('span', { class: 'muted' }, ` and ${count(others)} more`) : null,
              ),
            )
          : words(of),
      ),
    ),
  );
  return main === null ? [tr] : [tr, under];
}

/** Why there are none: a tool that does not look for spikes has not found that there are none. */
const nothing = (report: Report): string =>
  report.cells.some((cell) => cell.figures.spike_count === null)
    ? 'Spikes were not recorded.'
    : 'No sample exceeded the spike threshold.';

export function spikesSection(store: Store): { element: HTMLElement; redraw: () => void } {
  const { report } = store;
  let [key, down, all, everything]: [Key, boolean, boolean, boolean] = [
    'lateness',
    true,
    false,
    true,
  ];
  const holder = h('div');
  const many = report.cells.length > 1;
  const isAnalysed = report.cells.some((cell) =>
    knownSpikes(cell).some((spike) => spike.causes?.length),
  );
  const open = new Set<string>();
  const total = report.cells.reduce((s, cell) => s + (cell.figures.spike_count ?? 0), 0);
  const element = section(
    'spikes',
    'Worst spikes',
    total === 0 ? nothing(report) : exceeded(total) + (isAnalysed ? CHOOSE : ''),
    total > 0
      ? h(
          'label',
          { class: 'tick' },
          h('input', {
            type: 'checkbox',
            onchange: (event) => {
              everything = !(event.target as HTMLInputElement).checked;
              redraw();
            },
          }),
          ' only the selected cells and time range',
        )
      : null,
    total > 0 ? holder : null,
  );

  const collect = (): Row[] =>
    (everything ? report.cells : store.selected().map(({ cell }) => cell))
      .flatMap((cell) => {
        return knownSpikes(cell).map((spike) => ({
          cell,
          spike,
          at: cell.file
            ? onClock(report, cell.file, cell.file.blocks[spike.block], spike.t, store.state.clock)
            : spike.t,
        }));
      })
      .filter(
        ({ at }) =>
          everything ||
          store.state.range === null ||
          (at >= store.state.range[0] && at <= store.state.range[1]),
      );

  function redraw(): void {
    const rows = sorted(collect(), key, down);
    if (rows.length === 0) {
      holder.replaceChildren(
        h(
          'p',
          { class: 'empty' },
          total === 0 ? '' : 'No spikes in the selected cells and time range.',
        ),
      );
      return;
    }
    const shown = all ? rows : rows.slice(0, SHOWN);
    const columns = COLUMNS.filter(
      (column) => (many || column.key !== 'cell') && (isAnalysed || column.key !== 'cause'),
    );
    const { sort, why } = (document.activeElement as HTMLElement | null)?.dataset ?? {};
    holder.replaceChildren(
      h(
        'div',
        { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Table of the worst spikes' },
        h(
          'table',
          { class: 'list' },
          h('caption', { class: 'vh' }, 'Worst spikes'),
          h(
            'thead',
            {},
            h(
              'tr',
              {},
              ...columns.map((column) =>
                h(
                  'th',
                  {
                    scope: 'col',
                    class: column.numeric ? 'number' : null,
                    'aria-sort': column.key === key ? (down ? 'descending' : 'ascending') : null,
                  },
                  h(
                    'button',
                    {
                      type: 'button',
                      'data-sort': column.key,
                      onclick: () => {
                        [key, down] = [
                          column.key,
                          column.key === key ? !down : column.numeric && column.key !== 'at',
                        ];
                        redraw();
                      },
                    },
                    column.name,
                    h(
                      'span',
                      { 'aria-hidden': 'true' },
                      column.key === key ? (down ? ' ↓' : ' ↑') : '',
                    ),
                  ),
                ),
              ),
            ),
          ),
          h('tbody', {}, ...shown.flatMap((row) => rowsOf(row, columns, open))),
        ),
      ),
      rows.length > SHOWN
        ? h(
            'button',
            {
              type: 'button',
              class: 'quiet',
              onclick: () => {
                all = !all;
                redraw();
              },
            },
            all ? `Show the first ${SHOWN}` : `Show all ${count(rows.length)}`,
          )
        : '',
    );
    const active =
      sort !== undefined
        ? `[data-sort="${sort}"]`
        : why !== undefined
          ? `[data-why="${CSS.escape(why)}"]`
          : null;
    if (active !== null)
      holder.querySelector<HTMLElement>(`button${active}`)?.focus({ preventScroll: true });
  }
  return { element, redraw };
}
