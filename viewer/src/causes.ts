// Why cycles were late: words of each cause (the same as `onbeat::cause`), which one gives a spike its name,
// and how many spikes each cell has of each.
import { isRealTime, situationOf, type Situation } from './advice.ts';
import type { Cause, CauseCount, Culprit, RunFile, Spike } from './hlog.ts';
import type { Cell } from './model.ts';
import type { CellSummary } from './summary.ts';
import { ns, type Ns } from './units.ts';
import { CAUSES, LINKS, type CauseWord } from './vocabulary.ts';

export { CAUSES, LINKS, type CauseWord } from './vocabulary.ts';

/** The words for a kind; one this page does not know keeps its own name. */
export const causeWord = (kind: string): CauseWord =>
  CAUSES.find((word) => word.kind === kind) ?? {
    kind,
    words: kind.replaceAll('_', ' '),
    letters: '·',
    hue: 'black',
    pattern: 'dots',
  };

/** The program that a thread belongs to, as `Culprit::program` in Rust: its name without the number that distinguishes its threads. */
export function program({ name, tid }: Culprit): string {
  if (tid === undefined) return name;
  if (name.startsWith('kworker/')) return 'kworker';
  return /^(.+)[/.:_#-]\d+$/.exec(name)?.[1] ?? name;
}

const who = (culprit: Culprit): string => {
  const call = culprit.system_call ?? culprit.work;
  return `${program(culprit)}${call === undefined ? '' : `/${call}`}`;
};

/** A cause in words: "kernel section in dd/write", "softirq NET_RX". */
export function inWords({ kind, culprit }: Cause): string {
  const { words } = causeWord(kind);
  // The reason why nothing was looked for is in the place of the culprit.
  if (kind === 'unexplained' && culprit?.name) return `not analysed (${culprit.name})`;
  // Files of older versions name the ordinary thread that ran meanwhile.
  const isOlder = (kind === 'rt_throttling' || kind === 'fair_server') && !isRealTime(culprit);
  return culprit?.name ? `${words}${isOlder ? '' : (LINKS[kind] ?? '')} ${who(culprit)}` : words;
}

/** Who made most of these spikes late, where that is known. */
export function mostFrequent({ culprits }: CauseCount): { name: string; spikes: number } | null {
  const [most] = Object.entries(culprits ?? {}).sort(
    ([a, x], [b, y]) => y.spikes - x.spikes || y.worst_ns - x.worst_ns || (a < b ? 1 : -1),
  );
  return most === undefined ? null : { name: most[0], spikes: most[1].spikes };
}

/** Who it was, as the kernel has it: "dd [17594], nice 0", "irq/24-nvme [88], real-time priority 50"; null when the culprit is not known. */
export function thread({ culprit }: Cause): string | null {
  if (!culprit?.name || (culprit.tid === undefined && culprit.prio === undefined)) return null;
  const { name, tid, prio } = culprit;
  const rank =
    prio === undefined
      ? ''
      : prio < 0
        ? ', deadline'
        : prio < 100
          ? `, real-time priority ${99 - prio}`
          : `, nice ${prio - 120}`;
  return `${name}${tid === undefined ? '' : ` [${tid}]`}${rank}`;
}

/** Longest first, time without a name last. */
export const ordered = (causes: readonly Cause[]): Cause[] =>
  [...causes].sort(
    (a, b) => Number(a.kind === 'unexplained') - Number(b.kind === 'unexplained') || b.ns - a.ns,
  );

/** Causes of one kind by one culprit: the 656 threads of one program are one group. Members are ordered, longest first. */
export interface CauseGroup {
  kind: string;
  words: string;
  ns: Ns;
  members: readonly Cause[];
}

/** Groups causes by kind and culprit, longest first, time without a name last. */
export function grouped(causes: readonly Cause[]): CauseGroup[] {
  const groups = new Map<string, Cause[]>();
  for (const cause of ordered(causes)) {
    const words = inWords(cause);
    const group = groups.get(words);
    if (group === undefined) groups.set(words, [cause]);
    else group.push(cause);
  }

  const size = (members: readonly Cause[]): Ns =>
    ns(members.reduce((sum, cause) => sum + cause.ns, 0));
  return [...groups]
    .map(([words, members]) => ({ kind: members[0]!.kind, words, ns: size(members), members }))
    .sort(
      (a, b) => Number(a.kind === 'unexplained') - Number(b.kind === 'unexplained') || b.ns - a.ns,
    );
}

/** Times added up by key, longest first; equal ones in their order. */
function totals<K>(times: readonly (readonly [K, number])[]): [K, number][] {
  const sums = new Map<K, number>();
  for (const [key, time] of times) sums.set(key, (sums.get(key) ?? 0) + time);
  return [...sums].sort(([, a], [, b]) => b - a);
}

/**
 * The cause that gives the spike its name, as `Explanation::main` decides, so that this list agrees with the counts: kinds are
 * compared by all of their time, and within the kind programs by all of theirs. What every wake-up costs gives the name only
 * when no other kind has a quarter of the lateness; time without a name only when it is the longest and more than half of all.
 */
export function mainCause(causes: readonly Cause[] | undefined): Cause | null {
  const list = ordered(causes ?? []);
  const all = list.reduce((sum, cause) => sum + cause.ns, 0);
  const kinds = totals(list.map((cause) => [cause.kind, cause.ns] as const));
  const withName = kinds.filter(([kind]) => kind !== 'unexplained');
  const named =
    withName.find(([kind, size]) => kind !== 'wake_up_path' && size >= Math.floor(all / 4)) ??
    withName[0];
  const rest = kinds.find(([kind]) => kind === 'unexplained');
  const chosen =
    named === undefined || rest === undefined
      ? (named ?? rest)
      : rest[1] > all / 2 && rest[1] > named[1]
        ? rest
        : named;
  if (chosen === undefined) return null;
  const ofKind = list.filter(({ kind }) => kind === chosen[0]);
  const programOf = ({ culprit }: Cause): string | null =>
    culprit === undefined ? null : program(culprit);
  const [longest] = totals(ofKind.map((cause) => [programOf(cause), cause.ns] as const));
  return ofKind.find((cause) => programOf(cause) === longest![0]) ?? null;
}

/** The situation of a cell: the summary's, or its recording's where that has none. */
export const situationOfCell = ({
  figures,
  file,
}: {
  figures: Pick<CellSummary, 'situation'>;
  file: Cell['file'];
}): Situation => figures.situation ?? situationOf(file?.run ?? null);

/** Spikes by main cause. */
export type Counts = Record<string, CauseCount>;

/** Adds counts up. */
export function joinCounts(all: Iterable<Counts | undefined>): Counts {
  const sum: Counts = {};
  for (const counts of all) {
    for (const [kind, one] of Object.entries(counts ?? {})) {
      const old = sum[kind] ?? {
        spikes: 0,
        worst_ns: ns(0),
        lateness_ns: ns(0),
        accounted_ns: ns(0),
      };
      const culprits = { ...old.culprits };
      for (const [name, { spikes, worst_ns }] of Object.entries(one.culprits ?? {})) {
        const known = culprits[name] ?? { spikes: 0, worst_ns: ns(0) };
        culprits[name] = {
          spikes: known.spikes + spikes,
          worst_ns: ns(Math.max(known.worst_ns, worst_ns)),
        };
      }
      sum[kind] = {
        spikes: old.spikes + one.spikes,
        worst_ns: ns(Math.max(old.worst_ns, one.worst_ns)),
        lateness_ns: ns(old.lateness_ns + one.lateness_ns),
        accounted_ns: ns(old.accounted_ns + one.accounted_ns),
        ...(Object.keys(culprits).length > 0 ? { culprits } : {}),
      };
    }
  }
  return sum;
}

/** Counts of the spikes that were kept, for files whose intervals have none. */
export function countKept(spikes: readonly Spike[]): Counts {
  return joinCounts(
    spikes.map((spike): Counts | undefined => {
      const main = mainCause(spike.causes);
      if (main === null) return undefined;
      const sum = (of: readonly Cause[]): Ns => ns(of.reduce((all, cause) => all + cause.ns, 0));
      const late = sum(spike.causes!);
      const culprits = main.culprit
        ? { culprits: { [who(main.culprit)]: { spikes: 1, worst_ns: late } } }
        : {};
      return {
        [main.kind]: {
          spikes: 1,
          worst_ns: late,
          lateness_ns: late,
          accounted_ns: sum(spike.causes!.filter(({ kind }) => kind !== 'unexplained')),
          ...culprits,
        },
      };
    }),
  );
}

/** A recording's counts: its intervals', or where they have none those of the spikes that were kept. */
export function countsOfFile(file: Pick<RunFile, 'intervals' | 'spikes'>): Counts {
  const counts = joinCounts(file.intervals.map((note) => note.causes));
  return Object.keys(counts).length > 0 ? counts : countKept(file.spikes);
}

/** A cell with spikes that were analysed, or not for a reason that is known. */
export interface Explained {
  name: string;
  counts: Counts;
  spikes: number;
  /** Without those of which no cause was looked for; the reason is in the place of the culprit. */
  analysed: number;
  lateness: Ns;
  situation: Situation;
}

/** The cells that have causes, in the order of the report. */
export function explained(
  cells: readonly {
    name: string;
    figures: Pick<CellSummary, 'causes' | 'spikes' | 'spike_count' | 'situation'>;
    file: Cell['file'];
  }[],
): Explained[] {
  return cells.flatMap(({ name, figures, file }) => {
    const counts =
      figures.causes !== undefined && Object.keys(figures.causes).length > 0
        ? figures.causes
        : file
          ? countsOfFile(file)
          : countKept(figures.spikes);
    const all = Object.values(counts);
    const counted = all.reduce((sum, one) => sum + one.spikes, 0);
    const reasons = Object.values(counts['unexplained']?.culprits ?? {});
    return counted === 0
      ? []
      : [
          {
            name,
            counts,
            spikes: Math.max(figures.spike_count ?? 0, counted),
            analysed: reasons.reduce((rest, { spikes }) => rest - spikes, counted),
            lateness: ns(all.reduce((sum, one) => sum + one.lateness_ns, 0)),
            situation: situationOfCell({ figures, file }),
          },
        ];
  });
}
