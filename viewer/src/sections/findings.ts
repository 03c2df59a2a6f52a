// What of the machine was not as wanted when the run began: what concerns this run's causes first.
import { joinCounts, explained, type Counts } from '../causes.ts';
import { h, prose } from '../dom.ts';
import type { Finding } from '../hlog.ts';
import type { Report } from '../model.ts';
import { count, held, percent } from '../units.ts';

/** Rows that stand open; the others are folded. */
const SHOWN = 8;
const EFFECTS = [
  'hygiene',
  'some µs or rare',
  'tens to hundreds of µs',
  'up to milliseconds',
] as const;

/** A finding with the spikes whose main cause it concerns, and their share of all lateness. */
export interface Weighed {
  finding: Finding;
  spikes: number;
  share: number;
}

/** Sorted by the share of the lateness times the expected effect, each step of which counts tenfold. */
export function weighed(findings: readonly Finding[], counts: Counts): Weighed[] {
  const all = Object.values(counts).reduce((sum, one) => sum + one.lateness_ns, 0);
  const rows = findings.map((finding): Weighed => {
    const mended = finding.mends.flatMap((kind) => counts[kind] ?? []);
    const late = mended.reduce((sum, one) => sum + one.lateness_ns, 0);
    return {
      finding,
      spikes: mended.reduce((sum, one) => sum + one.spikes, 0),
      share: all > 0 ? late / all : 0,
    };
  });
  const weight = ({ finding, share }: Weighed): number => share * 10 ** finding.effect;
  return rows
    .map((row, place) => ({ row, place }))
    .sort(
      (a, b) =>
        weight(b.row) - weight(a.row) ||
        b.row.finding.effect - a.row.finding.effect ||
        a.place - b.place,
    )
    .map(({ row }) => row);
}

function table(rows: readonly Weighed[], spikes: number): HTMLElement {
  const head = ['tuning', 'current → wanted', 'takes', 'expected effect', 'concerns'];
  const concerns = ({ spikes: of, share }: Weighed): string =>
    of === 0
      ? 'no spike of this run'
      : `${count(of)} of ${count(spikes)} spikes, ${percent(Math.round(share * 100))} of their lateness`;
  return h(
    'div',
    { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Tunings not as wanted' },
    h(
      'table',
      { class: 'list plain findings' },
      h('thead', {}, h('tr', {}, ...head.map((text) => h('th', { scope: 'col' }, text)))),
      h(
        'tbody',
        {},
        ...rows.map((row) =>
          h(
            'tr',
            {},
            h(
              'th',
              { scope: 'row' },
              h('code', {}, row.finding.id),
              h('span', { class: 'muted' }, row.finding.title),
            ),
            ...[
              `${row.finding.current} → ${row.finding.wanted}`,
              row.finding.takes,
              EFFECTS[row.finding.effect] ?? '',
              concerns(row),
            ].map((text) => h('td', {}, ...prose(held(text)))),
          ),
        ),
      ),
    ),
  );
}

/** The findings beside the causes; null for recordings without any. */
export function findingsPart(report: Report): HTMLElement | null {
  const findings = report.files.flatMap(({ run }) => run?.findings ?? []);
  if (findings.length === 0) return null;
  const counts = joinCounts(explained(report.cells).map((cell) => cell.counts));
  const rows = weighed([...new Map(findings.map((one) => [one.id, one])).values()], counts);
  const spikes = Object.values(counts).reduce((sum, one) => sum + one.spikes, 0);
  const rest = rows.slice(SHOWN);
  return h(
    'div',
    { id: 'findings' },
    h('h3', {}, 'Not as wanted on this machine'),
    h(
      'p',
      { class: 'lead' },
      held(
        `${count(rows.length)} ${rows.length === 1 ? 'tuning was' : 'tunings were'} not as wanted when the run began. `,
      ),
      h('code', {}, 'onbeat tune check ID'),
      ' shows one in full, with its risk; ',
      h('code', {}, 'onbeat tune measure ID'),
      ' what it is worth here.',
    ),
    table(rows.slice(0, SHOWN), spikes),
    rest.length === 0
      ? null
      : h('details', {}, h('summary', {}, `${count(rest.length)} more`), table(rest, spikes)),
  );
}
