// Causes of latency: causes by cell, and what would remove each.
import { adviceAgainst, NO_REMEDY, type Situation } from '../advice.ts';
import {
  CAUSES,
  causeWord,
  explained,
  inWords,
  joinCounts,
  LINKS,
  mainCause,
  mostFrequent,
  type Counts,
  type Explained,
} from '../causes.ts';
import { paintBar, saveButtons, type PictureRow } from '../charts/rows.ts';
import type { Figures } from '../charts/save.ts';
import { choice, h, prose, section } from '../dom.ts';
import type { CauseCount, Spike } from '../hlog.ts';
import type { Report } from '../model.ts';
import { count, held, human, ns, percent } from '../units.ts';
import { findingsPart } from './findings.ts';
import { causeKey, dividedBar } from './swatches.ts';
import { tuningLines } from './tunings.ts';

type Measure = 'spikes' | 'lateness';

const spikesWord = (n: number): string => `${count(n)} ${n === 1 ? 'spike' : 'spikes'}`;
const sizeOf = (one: CauseCount, measure: Measure): number =>
  measure === 'spikes' ? one.spikes : one.lateness_ns;
const sizeWord = (one: CauseCount, measure: Measure): string =>
  measure === 'spikes' ? count(one.spikes) : human(one.lateness_ns);

/** The kinds that occur, most first; kinds of equal size in their usual order, time without a name last. */
export function kindsOf(counts: Counts, measure: Measure): string[] {
  const usual = (kind: string): number => {
    const i = CAUSES.findIndex((word) => word.kind === kind);
    return i < 0 ? CAUSES.length : i;
  };
  return Object.keys(counts).sort(
    (a, b) =>
      Number(a === 'unexplained') - Number(b === 'unexplained') ||
      sizeOf(counts[b]!, measure) - sizeOf(counts[a]!, measure) ||
      usual(a) - usual(b),
  );
}

/** How much of the lateness has a name. Rounded down, so that 100 % means all of it. */
export function accounted(counts: Counts): string {
  const all = Object.values(counts);
  const late = all.reduce((sum, one) => sum + one.lateness_ns, 0);
  const named = all.reduce((sum, one) => sum + one.accounted_ns, 0);
  return percent(late > 0 ? Math.floor((Math.min(named, late) / late) * 1000) / 10 : 0);
}

function totalWord({ spikes, analysed, lateness }: Explained, measure: Measure): string {
  if (measure === 'lateness') return human(lateness);
  return `${analysed < spikes ? `${count(analysed)} analysed of ` : ''}${spikesWord(spikes)}`;
}

function chart(
  cells: readonly Explained[],
  kinds: readonly string[],
  measure: Measure,
): HTMLElement {
  return h(
    'div',
    { class: 'cause-chart' },
    ...cells.map((cell) => {
      const pieces = kinds.flatMap((kind) => {
        const one = cell.counts[kind];
        return one === undefined
          ? []
          : [
              {
                kind,
                size: sizeOf(one, measure),
                label: sizeWord(one, measure),
                title: `${causeWord(kind).words}: ${spikesWord(one.spikes)}, total lateness ${human(one.lateness_ns)}, worst ${human(one.worst_ns)}`,
              },
            ];
      });
      return h(
        'div',
        { class: 'cause-row', 'aria-hidden': 'true' },
        h('b', {}, cell.name),
        dividedBar(pieces),
        h('span', { class: 'total' }, totalWord(cell, measure)),
      );
    }),
  );
}

/** The bars as rows of a picture. */
function pictureRows(
  cells: readonly Explained[],
  kinds: readonly string[],
  measure: Measure,
): PictureRow[] {
  return cells.map((cell) => {
    const parts = kinds.flatMap((kind) => {
      const one = cell.counts[kind];
      const { letters, hue, pattern } = causeWord(kind);
      return one === undefined
        ? []
        : [
            {
              size: sizeOf(one, measure),
              hue,
              pattern,
              words: `${letters} ${sizeWord(one, measure)}`,
            },
          ];
    });
    const words = totalWord(cell, measure);
    return { name: cell.name, words, paint: (ctx, box) => paintBar(ctx, box, parts) };
  });
}

/** The exact figures behind the bars: a line for each cause of each cell. */
export function figures(cells: readonly Pick<Explained, 'name' | 'counts'>[]): Figures {
  const rows = cells.flatMap(({ name, counts }) =>
    kindsOf(counts, 'spikes').map((kind) => {
      const { spikes, lateness_ns: lateness, accounted_ns: named, worst_ns: worst } = counts[kind]!;
      return [name, kind, spikes, lateness, named, worst];
    }),
  );
  return { head: ['cell', 'cause', 'spikes', 'lateness_ns', 'accounted_ns', 'worst_ns'], rows };
}

function hiddenTable(cells: readonly Explained[], kinds: readonly string[]): HTMLElement {
  return h(
    'div',
    { class: 'vh' },
    h(
      'table',
      {},
      h('caption', {}, 'Causes by cell: number of spikes and total lateness, by main cause'),
      h(
        'thead',
        {},
        h(
          'tr',
          {},
          ...[
            'cell',
            'spikes',
            'analysed',
            'lateness',
            'accounted for',
            ...kinds.map((kind) => causeWord(kind).words),
          ].map((head) => h('th', { scope: 'col' }, head)),
        ),
      ),
      h(
        'tbody',
        {},
        ...cells.map((cell) =>
          h(
            'tr',
            {},
            h('th', { scope: 'row' }, cell.name),
            ...[
              count(cell.spikes),
              count(cell.analysed),
              human(cell.lateness),
              accounted(cell.counts),
            ].map((text) => h('td', {}, text)),
            ...kinds.map((kind) => {
              const one = cell.counts[kind];
              return h(
                'td',
                {},
                one ? `${spikesWord(one.spikes)}, ${human(one.lateness_ns)}` : 'none',
              );
            }),
          ),
        ),
      ),
    ),
  );
}

/** The situation of the cell with most spikes of a kind. */
function situationFor(kind: string, cells: readonly Explained[]): Situation {
  const spikes = (cell: Explained): number => cell.counts[kind]?.spikes ?? 0;
  return cells.reduce((most, cell) => (spikes(cell) >= spikes(most) ? cell : most)).situation;
}

/** The key to the bars, and against each cause its remedy. */
function remedies(
  all: Counts,
  kinds: readonly string[],
  spikes: readonly Spike[],
  cells: readonly Explained[],
): HTMLElement {
  return h(
    'ul',
    { class: 'remedies' },
    ...kinds.map((kind) => {
      const one = all[kind]!;
      const most = mostFrequent(one);
      // Priorities are not counted with culprits; a kept spike of this one has its own.
      const kept =
        most === null
          ? undefined
          : spikes
              .map((spike) => mainCause(spike.causes))
              .find((main) => main?.kind === kind && inWords(main).endsWith(` ${most.name}`));
      const usual = ns(Math.floor(one.lateness_ns / Math.max(one.spikes, 1)));
      const asked = { kind, ns: usual, ...(kept?.culprit ? { culprit: kept.culprit } : {}) };
      const situation = situationFor(kind, cells);
      const advice = adviceAgainst(asked, situation) || NO_REMEDY;
      const part = most?.spikes === one.spikes ? (one.spikes === 1 ? '' : 'all ') : undefined;
      const by =
        most === null
          ? ''
          : `, ${part ?? `${count(most.spikes)} `}${kind === 'unexplained' ? `not analysed (${most.name})` : `${LINKS[kind]?.trim() ?? 'of'} ${most.name}`}`;
      return h(
        'li',
        {},
        causeKey(kind),
        h(
          'div',
          {},
          h('b', {}, causeWord(kind).words),
          h(
            'span',
            { class: 'muted' },
            held(` ${spikesWord(one.spikes)}${by}, worst ${human(one.worst_ns)}`),
          ),
          h('p', {}, ...prose(advice)),
          ...tuningLines(asked, situation),
        ),
      );
    }),
  );
}

function nothing(report: Report): string {
  const spikes = report.cells.reduce((sum, cell) => sum + (cell.figures.spike_count ?? 0), 0);
  if (report.cells.some((cell) => cell.figures.spike_count === null))
    return 'Causes were not recorded.';
  return spikes === 0
    ? 'No sample exceeded the spike threshold.'
    : 'Not analysed: the flight recorder was disabled, not permitted or not available.';
}

/** The section; only its switch changes it. */
export function causesSection(report: Report): HTMLElement {
  const cells = explained(report.cells);
  if (cells.length === 0)
    return section('causes', 'Causes of latency', nothing(report), findingsPart(report));
  const all = joinCounts(cells.map(({ counts }) => counts));
  const kept = report.cells.flatMap(({ figures }) => figures.spikes);
  const holder = h('div');
  let shown: Measure = 'spikes';
  const draw = (measure: Measure): void => {
    shown = measure;
    const kinds = kindsOf(all, measure);
    holder.replaceChildren(
      chart(cells, kinds, measure),
      hiddenTable(cells, kinds),
      remedies(all, kinds, kept, cells),
    );
  };
  draw('spikes');
  const analysed = cells.reduce((sum, cell) => sum + cell.analysed, 0);
  const spikes = cells.reduce((sum, cell) => sum + cell.spikes, 0);
  const those =
    analysed < spikes
      ? `${count(analysed)} of ${spikesWord(spikes)} were`
      : `${spikesWord(spikes)} ${spikes === 1 ? 'was' : 'were'}`;
  const bars = cells.length > 1 ? 'Each bar is one cell, with its total at the right. ' : '';
  const sentences = report.summary.causes ?? [];
  // The sentences have it for each load.
  const share =
    sentences.length > 0 ? '' : `; causes account for ${accounted(all)} of their lateness`;
  const lead = `${those} analysed${share}. ${bars}Each spike counts under its main cause.`;
  return section(
    'causes',
    'Causes of latency',
    null,
    sentences.length > 0
      ? h(
          'div',
          { class: 'sentences' },
          ...sentences.map((sentence) => h('p', {}, ...prose(held(sentence)))),
        )
      : null,
    h('p', { class: 'lead' }, held(lead)),
    h(
      'div',
      { class: 'rows-head' },
      choice<Measure>(
        'Measure',
        [
          { value: 'spikes', label: 'Number of spikes' },
          { value: 'lateness', label: 'Lateness' },
        ],
        'spikes',
        draw,
      ),
      saveButtons(
        'Causes of latency',
        () => pictureRows(cells, kindsOf(all, shown), shown),
        () => figures(cells),
      ),
    ),
    holder,
    findingsPart(report),
  );
}
