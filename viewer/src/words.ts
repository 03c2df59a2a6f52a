// Names and explanations of what is measured; the same words as in GLOSSARY.md.

/** How a series is called and what it is. */
export interface SeriesWord {
  tag: string;
  name: string;
  short: string;
  meaning: string;
}

export const SERIES: readonly SeriesWord[] = [
  {
    tag: 'release_latency',
    name: 'Release latency',
    short: 'release',
    meaning:
      'From each release to the start of its cycle, s_k − r_k; from a skipped release to the next start.',
  },
  {
    tag: 'wakeup_latency',
    name: 'Wake-up latency',
    short: 'wake-up',
    meaning: 'From a release to the start of its cycle, s_k − r_k; without skipped releases.',
  },
  {
    tag: 'observed_period',
    name: 'Observed period',
    short: 'period',
    meaning: 'From one start to the next, s_k − s_(k−1); the control period of the paper.',
  },
  {
    tag: 'response_time',
    name: 'Response time',
    short: 'response',
    meaning: 'From the release to the end of the work: e_k − r_k.',
  },
  {
    tag: 'execution_time',
    name: 'Execution time',
    short: 'execution',
    meaning: 'Time the work took, e_k − s_k.',
  },
  {
    tag: 'sleep_latency',
    name: 'Sleep latency',
    short: 'sleep',
    meaning: 'Lateness of the return from sleep, before spinning.',
  },
  {
    tag: 'hiccup',
    name: 'Hiccup',
    short: 'hiccup',
    meaning: 'Wake-up latency minus the smallest one so far, as in jHiccup.',
  },
  {
    tag: 'write_interval',
    name: 'Write interval',
    short: 'interval',
    meaning: 'From the return of one write to the output to the return of the next.',
  },
  {
    tag: 'read_write',
    name: 'Edge to output',
    short: 'edge–output',
    meaning: 'From an edge at the input to the return of the write that answers it.',
  },
  {
    tag: 'read_latency',
    name: 'Read latency',
    short: 'read',
    meaning: 'From an edge at the input until the loop reads it.',
  },
  {
    tag: 'chain',
    name: 'Command to output',
    short: 'chain',
    meaning: 'From issuing a command to seeing its effect at the output.',
  },
  {
    tag: 'pickup',
    name: 'Command to cycle',
    short: 'pickup',
    meaning: 'From issuing a command to the start of the cycle that serves it.',
  },
  {
    tag: 'round_trip',
    name: 'Round trip',
    short: 'round trip',
    meaning:
      'From sending a bus frame or a packet to receiving its reply; a lost packet with the age at which it was given up.',
  },
  {
    tag: 'packet_response',
    name: 'Release to answer',
    short: 'release–answer',
    meaning: 'From the release that a packet belongs to, to its answer.',
  },
  {
    tag: 'send_path',
    name: 'Sender’s stack',
    short: 'send',
    meaning: 'Of a round trip: from the program to the kernel’s stamp of the sending.',
  },
  {
    tag: 'network_time',
    name: 'Network',
    short: 'network',
    meaning:
      'Of a round trip: between the kernel’s stamps of sending and receipt, without the device’s own time.',
  },
  {
    tag: 'wire_time',
    name: 'Wire',
    short: 'wire',
    meaning:
      'Of the network: between the network card’s stamps of sending and receipt, without the device’s own time.',
  },
  {
    tag: 'device_time',
    name: 'Device',
    short: 'device',
    meaning: 'Of a round trip: from receipt to answer, by the device’s clock.',
  },
  {
    tag: 'receive_path',
    name: 'Receiver’s stack',
    short: 'receive',
    meaning: 'Of a round trip: from the kernel’s stamp of the receipt to the program.',
  },
  {
    tag: 'network_latency',
    name: 'Board to board',
    short: 'board–board',
    meaning:
      'From the end of the first board’s delay until the second board’s program has the edge.',
  },
  {
    tag: 'output_latency',
    name: 'Output latency',
    short: 'output',
    meaning: 'From the end of the second board’s delay to the return of its write.',
  },
  {
    tag: 'capture_to_user',
    name: 'Capture to user',
    short: 'capture–user',
    meaning:
      'From the capture of a picture to its reader having it; a picture that never came has its age when a later one did.',
  },
  {
    tag: 'capture_to_published',
    name: 'Capture to publication',
    short: 'capture–published',
    meaning: 'Of capture to user: reception, decoding and conversion by the camera’s program.',
  },
  {
    tag: 'published_to_user',
    name: 'Publication to user',
    short: 'published–user',
    meaning: 'Of capture to user: from publication to the reader.',
  },
  {
    tag: 'device_interval',
    name: 'Interval at the devices',
    short: 'at devices',
    meaning: 'Between two frames at the device with the reference clock, by that clock.',
  },
  {
    tag: 'exchange',
    name: 'Exchange',
    short: 'exchange',
    meaning: 'From requesting the exchange of a process image to completing it.',
  },
  {
    tag: 'interrupt_latency',
    name: 'Interrupt latency',
    short: 'interrupt',
    meaning: 'From the programmed expiry of a timer to its interrupt handler.',
  },
  {
    tag: 'return_latency',
    name: 'Return latency',
    short: 'return',
    meaning: 'From the programmed expiry of a timer to the return to user space.',
  },
  {
    tag: 'gap',
    name: 'Gap',
    short: 'gap',
    meaning: 'Time between two clock readings of a loop that does nothing else.',
  },
  {
    tag: 'recorded',
    name: 'Recorded value',
    short: 'recorded',
    meaning: 'Values without a name in the source.',
  },
  {
    tag: 'skipped_latency',
    name: 'Skipped latency',
    short: 'skipped',
    meaning: 'From a skipped release to the next start.',
  },
];

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

/** What a letter of a tuning's name stands for. */
export const TUNING_LETTERS: Readonly<Record<string, string>> = {
  P: 'real-time priority',
  M: 'locked memory',
  C: 'shielded CPU',
  S: 'spinning before the release',
};

/** Loads whose names need words: how they stand in a heading and in a sentence. */
const LOADS: Readonly<Record<string, readonly [heading: string, phrase: string]>> = {
  idle: ['No added load', 'with no added load'],
  paper: ['2009 stress mix (paper)', 'under the 2009 stress mix (paper)'],
};

/** A load as a heading. */
export const loadHeading = (load: string): string =>
  LOADS[load]?.[0] ?? (load === '' ? 'Load not recorded' : `Under ${load}`);

/** A load in a sentence, with its preposition. */
export const loadPhrase = (load: string): string => LOADS[load]?.[1] ?? `under ${load}`;

/** What marks a figure that chance may have made. */
export const UNSUPPORTED = 'fewer than 10 samples beyond this value';

/** "PMC" in words: "real-time priority, locked memory, shielded CPU". */
export function tuningWords(tuning: string): string {
  if (tuning === 'none') return 'no tuning';
  const letters = [...tuning].map((letter) => TUNING_LETTERS[letter]);
  return letters.every((word) => word !== undefined) ? letters.join(', ') : tuning;
}

/** What stalled a spike's cycle, in words. */
export const STALLS: Readonly<Record<string, string>> = {
  rt_throttling: 'real-time throttling',
  fair_server: 'fair server',
  rt_throttling_or_fair_server: 'real-time throttling or fair server',
  stopped: 'process stopped',
};

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
    'A sample beyond the spike threshold. Its stall is the rule of the scheduler, or the signal, that stopped the loop.',
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
    'Of a figure: at least 10 samples are beyond it. Figures with fewer are marked, because chance decides them.',
  ],
  [
    'P · M · C · S',
    'Real-time priority · locked memory · shielded CPU · spinning before the release.',
  ],
];
