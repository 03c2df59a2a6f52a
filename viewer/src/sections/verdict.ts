// The verdict and its grounds.
import { h, prose } from '../dom.ts';
import { firstRows, type First, type FirstRow } from '../focus.ts';
import { isTruncated, type Report } from '../model.ts';
import { shellWord } from '../shell.ts';
import {
  outcomeOfSweep,
  type CellSummary,
  type DeadlineVerdict,
  type Outcome,
  type Sweep,
} from '../summary.ts';
import { count, duration, held, human, sec } from '../units.ts';
import { loadPhrase, placePhrase, seriesWord, tuningWords, UNSUPPORTED } from '../words.ts';
import { swatch } from './picker.ts';

/** Each outcome as a word, a sign and a class for its colour. */
export const OUTCOMES: Readonly<Record<Outcome, { word: string; sign: string; tone: string }>> = {
  PASS: { word: 'PASS', sign: '✓', tone: 'good' },
  FAIL: { word: 'FAIL', sign: '✕', tone: 'bad' },
  INCONCLUSIVE: { word: 'INCONCLUSIVE', sign: '?', tone: 'open' },
};

export const badge = (outcome: Outcome): HTMLElement => {
  const { word, sign, tone } = OUTCOMES[outcome] ?? { word: outcome, sign: '?', tone: 'open' };
  return h(
    'span',
    { class: `badge ${tone}` },
    h('span', { 'aria-hidden': 'true', class: 'sign' }, sign),
    word,
  );
};

const when = (unix: number): string =>
  unix > 0
    ? new Date(unix * 1000)
        .toLocaleString('en-GB', { dateStyle: 'medium', timeStyle: 'short', timeZone: 'UTC' })
        .replaceAll(' ', '\u00a0')
        .replace(',\u00a0', ', ') + '\u00a0UTC'
    : 'unknown';

function facts(report: Report): [string, string][] {
  const { summary } = report;
  const sum = (of: (cell: Report['cells'][number]['figures']) => number): number =>
    report.cells.reduce((s, cell) => s + of(cell.figures), 0);
  const list: [string, string][] = [
    ['Started', when(summary.started_unix_s)],
    // A source without times has no length.
    [
      'Elapsed',
      (summary.elapsed_s > 0 ? duration(sec(summary.elapsed_s)) : 'unknown') +
        (report.cells.some(isTruncated) ? ', truncated' : ''),
    ],
  ];
  if (summary.period_ns > 0) list.push(['Period', human(summary.period_ns)]);
  if (summary.limit)
    list.push(['Limit', held(`${human(summary.limit.limit_ns)} at ${summary.limit.at} %`)]);
  const loads = summary.loads.filter((load) => load !== '');
  if (loads.length > 0) list.push([loads.length > 1 ? 'Loads' : 'Load', loads.join(', ')]);
  if (summary.order === 'at_once')
    list.push(['CPUs', `${summary.tunings.length}, at the same time`]);
  const together = new Set(
    summary.cells.flatMap((cell) => (cell.cpus ?? []).map(({ cpu }) => cpu)),
  );
  if (together.size > 0) list.push(['CPUs', `${together.size}, at the same time`]);
  if (summary.order !== 'at_once' && report.kind === 'bench' && summary.tunings.length > 1)
    list.push(['Tunings', `${summary.tunings.length}, ${summary.order || 'in turn'}`]);
  // A source that does not count releases says nothing of losses either.
  if (report.cells.some((cell) => cell.figures.import))
    list.push(['Samples', count(sum((cell) => samplesOf(cell)))]);
  else
    list.push(
      ['Releases', count(sum((cell) => cell.slots))],
      ['Samples lost', count(sum((cell) => cell.lost))],
    );
  return list;
}

/** A first clause as a headline: it begins with a capital letter, unless its first word is a name or a figure such as p50. */
export const asHeadline = (clause: string): string =>
  /^[a-z]+(?=[\s,:;])/.test(clause) ? clause[0]!.toUpperCase() + clause.slice(1) : clause;

/** The first clause of a sentence, or of several, and what follows; nothing in parentheses ends it. */
export function firstClause(sentence: string): [clause: string, rest: string] {
  let depth = 0;
  for (let i = 0; i < sentence.length; i++) {
    if (sentence[i] === '(') depth++;
    if (sentence[i] === ')') depth = Math.max(0, depth - 1);
    if (depth === 0 && /^[;.] /.test(sentence.slice(i, i + 2)))
      return [sentence.slice(0, i), sentence.slice(i + 2)];
  }
  return [sentence, ''];
}

/** Samples of the series that a cell is about. */
const samplesOf = (figures: CellSummary): number => {
  const about = figures.about?.[0];
  const series = (about ? figures.series[about] : undefined) ?? Object.values(figures.series)[0];
  return series?.count ?? 0;
};

/** A share as a figure, and what it is of beside it. */
const counted = (text: string): (string | HTMLElement)[] => {
  const at = text.indexOf(' (');
  return at < 0
    ? [text]
    : [text.slice(0, at), ' ', h('span', { class: 'muted' }, text.slice(at + 1))];
};

/** Cells whose figures are side by side. */
const MOST_COLUMNS = 3;

/** Before and after in numbers, or the figures of one run. */
function numbers(report: Report, cells: readonly First[], hasChart: boolean): HTMLElement | null {
  const rows = firstRows(report, cells).filter(({ figures }) =>
    figures.some(({ text }) => text !== '–'),
  );
  const [first] = cells;
  if (first === undefined || rows.length === 0) return null;
  const focus = report.summary.focus;
  const word = seriesWord(first.tag);
  const name = ({ cell }: First): string =>
    focus ? cell.tuning : cells.length > 1 ? cell.name : word.name;
  const isMarked = rows.some(({ figures }) => figures.some(({ supported }) => !supported));
  const nameOf = (one: First, scope: 'col' | 'row'): HTMLElement =>
    h(
      'th',
      {
        scope,
        title: focus ? tuningWords(one.cell.tuning) : null,
        class: name(one).length <= 12 ? 'short' : null,
      },
      hasChart && cells.length > 1 ? swatch(one.slot) : null,
      name(one),
    );
  const figure = ({ text, supported }: FirstRow['figures'][0]): HTMLElement =>
    h(
      'td',
      { class: supported ? null : 'few' },
      ...counted(held(text)),
      supported ? null : h('span', { class: 'degree', title: UNSUPPORTED }, '°'),
    );
  const caption = `${word.name}${placePhrase(focus?.load)}`;
  // Columns for a few, lines for more.
  const isMany = cells.length > MOST_COLUMNS;
  const [head, body] = isMany
    ? [
        rows.map((row) => h('th', { scope: 'col' }, held(row.name))),
        cells.map((one, i) => [nameOf(one, 'row'), ...rows.map((row) => figure(row.figures[i]!))]),
      ]
    : [
        cells.map((one) => nameOf(one, 'col')),
        rows.map((row) => [
          h('th', { scope: 'row' }, held(row.name)),
          ...row.figures.map((one) => figure(one)),
        ]),
      ];
  const table = h(
    'table',
    {},
    h('caption', { class: 'vh' }, caption),
    h('thead', {}, h('tr', {}, h('td', {}), ...head)),
    h('tbody', {}, ...body.map((line) => h('tr', {}, ...line))),
  );
  return h(
    'div',
    { class: isMany ? 'numbers many' : 'numbers' },
    isMany
      ? h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': caption }, table)
      : table,
    isMarked ? h('p', { class: 'muted' }, `° ${UNSUPPORTED}`) : null,
  );
}

/** A tuning in a sentence, where "with none" reads as its opposite. */
const withTuning = (tuning: string): string =>
  tuning === 'none' ? 'without tuning' : `with ${tuning}`;

/** The verdict by the loop's own deadline, as the terminal's first line has it. */
function byDefault({ outcome, words }: DeadlineVerdict, { summary }: Report): string {
  const best = summary.verdict?.best;
  const who = best && summary.tunings.length > 1 ? ` ${withTuning(best.tuning)}` : '';
  return `${outcome === 'FAIL' ? 'fewer than ' : ''}${words}${who} (no --limit given)`;
}

/** A sweep by its jitter, as the terminal's first line has it. */
function bySweep(sweep: Sweep): { outcome: Outcome; words: string } {
  const { outcome, passed, loads } = outcomeOfSweep(sweep);
  const end = sweep.is_default ? ' (default)' : '';
  return {
    outcome,
    words: `jitter within ${human(sweep.allowed_jitter_ns)} at ${passed} of ${loads} loads${end}`,
  };
}

const ORDER: readonly Outcome[] = ['PASS', 'INCONCLUSIVE', 'FAIL'];

/** A sweep where no limit was given, or where a jitter was and came out worse than the limit. */
function decidingSweep(
  sweep: Sweep,
  ofLimit: Outcome | null | undefined,
): ReturnType<typeof bySweep> | null {
  const swept = bySweep(sweep);
  if (!ofLimit) return swept;
  const isWorse = ORDER.indexOf(swept.outcome) > ORDER.indexOf(ofLimit);
  return isWorse && sweep.is_default !== true ? swept : null;
}

export function verdictSection(
  report: Report,
  cells: readonly First[],
  chart: HTMLElement | null,
): HTMLElement {
  const { summary } = report;
  const verdict = summary.verdict;
  const host = Object.entries(summary.host);
  const best = verdict?.best;
  const title =
    verdict?.sentence ??
    (summary.derived
      ? summary.cells.some((cell) => cell.goes_on)
        ? 'Run in progress: figures of what was recorded so far.'
        : 'Recordings without a summary: figures computed from the histograms.'
      : 'No latency limit was given, so this report has no verdict.');
  // The first clause is the headline; the grounds follow it.
  // The badge above says the outcome.
  const stated = /^(PASS|FAIL|INCONCLUSIVE): /.exec(title);
  const answer = title.slice(stated?.[0].length ?? 0);
  // A limit on alarms is a limit: the loop's own deadline decides nothing beside it.
  const deadline = verdict?.outcome ? undefined : verdict?.deadline;
  const [clause, rest] = firstClause(
    summary.comparison ? answer.replace(/\bx (?=\d)/g, '×\u00a0') : answer,
  );
  // Without a limit the loop's own deadline judges, in the terminal's words.
  const swept = deadline || !summary.sweep ? null : decidingSweep(summary.sweep, verdict?.outcome);
  const headline = swept?.words ?? (deadline ? byDefault(deadline, report) : clause);
  // Names of runs keep their letters.
  const isName = summary.tunings.some((name) => headline.startsWith(`${name}: `));
  const derived = report.cells.length === 1 ? (report.cells[0]!.figures.derived ?? []) : [];
  const bases = report.cells
    .filter((cell) => verdict?.outcome && cell.tuning === (best?.tuning ?? cell.tuning))
    .map((cell) => cell.figures.verdict?.basis ?? '');
  const basis = [...new Set([deadline?.basis ?? '', ...bases])]
    .filter((words) => words !== '')
    .slice(0, 1);
  const grounds = [
    ...(deadline ? [deadline.sentence] : []),
    ...(deadline || swept ? [answer] : rest === '' ? [] : [rest]),
    ...derived,
    ...basis,
  ];
  const ground = (words: string): HTMLElement =>
    h('p', { class: 'ground' }, ...prose(held(asHeadline(words))));
  const shown =
    swept?.outcome ?? verdict?.outcome ?? deadline?.outcome ?? (stated?.[1] as Outcome | undefined);
  const single = report.kind === 'single' ? report.cells[0]?.figures.verdict : null;
  return h(
    'section',
    {
      id: 'verdict',
      class: shown ? (OUTCOMES[shown]?.tone ?? 'open') : 'plain',
      'aria-labelledby': 'verdict-title',
    },
    h(
      'div',
      { class: chart === null ? 'hero' : 'hero drawn' },
      h(
        'div',
        { class: 'words' },
        shown ? badge(shown) : null,
        h(
          'h1',
          { id: 'verdict-title' },
          ...prose(held(summary.comparison || isName ? headline : asHeadline(headline))),
        ),
        ...grounds.slice(0, 1).map(ground),
      ),
      chart,
      numbers(report, cells, chart !== null),
    ),
    ...grounds
      .slice(1)
      .map((words) => h('p', { class: 'best' }, ...prose(held(asHeadline(words))))),
    best && (summary.tunings.length > 1 || summary.loads.length > 1) && summary.sweep === undefined
      ? h(
          'p',
          { class: 'best' },
          'Best tuning: ',
          h('b', {}, best.tuning),
          tuningWords(best.tuning) === best.tuning ? '' : ` (${tuningWords(best.tuning)})`,
          `; highest latency ${loadPhrase(best.load)}.`,
        )
      : null,
    single && !verdict?.sentence.includes(single.sentence)
      ? h('p', { class: 'best' }, ...prose(held(single.sentence)))
      : null,
    summary.command.length > 0
      ? h(
          'p',
          { class: 'command' },
          h(
            'code',
            {},
            ...summary.command.flatMap((word) => [h('span', {}, shellWord(word)), ' ']),
          ),
        )
      : null,
    h(
      'dl',
      { class: 'facts' },
      ...facts(report).map(([name, value]) => h('div', {}, h('dt', {}, name), h('dd', {}, value))),
    ),
    summary.power
      ? h('p', { class: 'best power' }, ...prose(held(asHeadline(summary.power))))
      : null,
    host.length > 0
      ? h(
          'details',
          { class: 'host' },
          h(
            'summary',
            {},
            'Host',
            h(
              'span',
              { class: 'muted' },
              ` ${[summary.host['processor'], summary.host['kernel']].filter(Boolean).join(' · ')}`,
            ),
          ),
          h(
            'dl',
            { class: 'pairs' },
            ...host.flatMap(([name, value]) => [
              h('dt', {}, name.replaceAll('_', ' ')),
              h('dd', {}, typeof value === 'object' ? JSON.stringify(value) : String(value)),
            ]),
          ),
        )
      : null,
  );
}
