// Names and explanations of what is measured; the same words as in GLOSSARY.md.
import { LOADS, SERIES, TUNING_LETTERS, type SeriesWord } from './vocabulary.ts';

export { SERIES, STALLS, TUNING_LETTERS, type SeriesWord } from './vocabulary.ts';

/** Tags in the order of the glossary, those of other tools behind. */
export const inOrder = (tags: Iterable<string>): string[] => {
  const present = new Set(tags);
  const known = SERIES.map(({ tag }) => tag).filter((tag) => present.delete(tag));
  return [...known, ...present];
};

/** The word for a tag; a tag of another tool keeps its own name. */
export const seriesWord = (tag: string): SeriesWord =>
  SERIES.find((word) => word.tag === tag) ?? {
    tag,
    name: tag === 'untagged' ? 'Recorded values' : tag.replaceAll('_', ' '),
    short: tag,
    meaning: '',
  };

/** A load as a heading. */
export const loadHeading = (load: string): string =>
  LOADS[load]?.[0] ?? (load === '' ? 'Load not recorded' : `Under ${load}`);

/** A load in a sentence, with its preposition. */
export const loadPhrase = (load: string): string => LOADS[load]?.[1] ?? `under ${load}`;

/** The same behind a name; nothing where it is not known. */
export const placePhrase = (load: string | undefined): string =>
  load === undefined || load === 'unknown' ? '' : ` ${loadPhrase(load)}`;

/** What marks a figure that chance may have made. */
export const UNSUPPORTED = 'fewer than 10 samples beyond this value';

/** "PMC" in words: "real-time priority, locked memory, shielded CPU". */
export function tuningWords(tuning: string): string {
  if (tuning === 'none') return 'no tuning';
  const letters = [...tuning].map((letter) => TUNING_LETTERS[letter]);
  return letters.every((word) => word !== undefined) ? letters.join(', ') : tuning;
}

/** The glossary at the foot of the page. */
export const GLOSSARY: readonly (readonly [string, string])[] = [
  [
    'release',
    'The instant at which a cycle should start: r_k = r_0 + k·T. A skipped cycle never moves the grid.',
  ],
  ['loop period T', 'The time between two releases.'],
  [
    'release latency',
    'From each release to the start of its cycle, s_k − r_k; from a skipped release to the next start.',
  ],
  [
    'wake-up latency',
    'From a release to the first instant of its cycle, s_k − r_k; served releases only.',
  ],
  ['observed period', 'From one start to the next: s_k − s_(k−1).'],
  ['execution time', 'The time the work took: e_k − s_k.'],
  ['response time', 'From the release to the end of the work: e_k − r_k.'],
  ['deadline miss', 'A response time longer than the deadline D (by default D = T).'],
  [
    'overrun, skipped',
    'A cycle that ended after the next release; the releases that it passed over, each of them counted.',
  ],
  ['jitter', 'Largest minus smallest value of the stated samples (peak to peak).'],
  ['Low q', 'Figures of the lowest q percent of the samples, without the largest values.'],
  ['cell', 'One tuning under one load.'],
  [
    'spike',
    'A sample beyond the spike threshold. Its stall is the scheduler rule or the signal that stopped the loop.',
  ],
  [
    'cause',
    'What made a spike late, with the time it accounts for and its evidence. The main cause accounts for most of the lateness.',
  ],
  [
    'lateness',
    'From the programmed expiry of the timer to the first instant of the cycle; for a spike in the work, the time beyond the planned work.',
  ],
  [
    'supported',
    'Of a figure: at least 10 samples are beyond it. Figures with fewer are marked, because they vary by chance.',
  ],
  [
    'P · M · C · S',
    'Real-time priority · locked memory · shielded CPU · spinning before the release.',
  ],
];
