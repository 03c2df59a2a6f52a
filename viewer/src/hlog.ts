// Reads run files: HdrHistogram interval logs with onbeat's notes in their comment lines (docs/format.md).
// Histograms are decoded when they are first asked for, since most charts need only some of them.
import { decodeBase64, without, type Histogram } from './histogram.ts';
import { ns, sec, type Ns, type Sec } from './units.ts';
import type { RunFrames } from './frames.ts';
import type { BusFacts, JointStep, Robot } from './robot.ts';
import type { Summary } from './summary.ts';
import type { WindowNote } from './window.ts';

export interface Moments {
  n: number;
  min_ns: Ns;
  max_ns: Ns;
  mean_ns: Ns;
  m2: number;
}
export interface RunNote {
  schema: string;
  version?: string;
  command?: string[];
  probe?: string;
  started_unix_s?: number;
  host?: Record<string, string | number>;
  cell?: { tuning: string; load: string } | null;
  timing?: Record<string, string | number | null> | null;
  grants?: Grant[];
  /** Tunings that were not as wanted when the run began, the most harmful first; of a bench in its own file alone. */
  findings?: Finding[];
}
/** A tuning of the catalogue that is not as wanted; `mends` are the causes that it removes or reduces. */
export interface Finding {
  id: string;
  title: string;
  effect: number;
  current: string;
  wanted: string;
  takes: string;
  mends: string[];
}
export interface Grant {
  what: string;
  wanted: string;
  granted: boolean;
  why_not: string | null;
  costs: string | null;
  remedy: string | null;
}
export interface Block {
  index: number;
  t: Sec;
  end: Sec;
  load: string;
  own: Sec;
}
export interface IntervalNote {
  t: Sec;
  length: Sec;
  block: number;
  cycles: number;
  skipped: number;
  overruns: number;
  deadline_misses: number;
  lost?: number;
  spikes?: number;
  series?: Record<string, Moments>;
  /** Spikes by main cause; recordings without a flight recorder have none. */
  causes?: Record<string, CauseCount>;
}
export interface CauseCount {
  spikes: number;
  worst_ns: Ns;
  lateness_ns: Ns;
  accounted_ns: Ns;
  culprits?: Record<string, CulpritCount>;
}
export interface CulpritCount {
  spikes: number;
  worst_ns: Ns;
}
export interface Culprit {
  name: string;
  tid?: number;
  prio?: number;
  system_call?: string;
  woken_in?: string;
  work?: string;
}
/** One cause of a spike: how much of its lateness, what shows it, and who it was when that is known. */
export interface Cause {
  kind: string;
  ns: Ns;
  evidence: string;
  culprit?: Culprit;
}
export interface Spike {
  t: Sec;
  index: number;
  block: number;
  wakeup_latency_ns: Ns;
  execution_time_ns: Ns;
  skipped: number;
  stall: string | null;
  /** In no particular order. */
  causes?: Cause[];
  /** Its number in its recording, from 1. */
  number?: number;
  /** Whether the events around it are in the recording: "kept", or why not. */
  window?: string;
}
export interface LoadNote {
  t: Sec;
  load: string;
  event: string;
  detail: string;
}
export interface MaximaNote {
  t: Sec;
  every: Sec;
  series: Record<string, Ns[]>;
}
/** A stretch that is in no figure, because something around the loop changed. */
export interface ExclusionNote {
  t: Sec;
  length: Sec;
  what: string;
  sentence: string;
  samples: number;
}
/** How finely the source of an imported run counted: `step_ns` wide, doubling from `doubles_from` steps on, or in cells of any width. */
export interface Resolution {
  step_ns: Ns;
  doubles_from?: number;
  upper_ends_ns?: Ns[];
  /** Samples past the end of its histogram. */
  beyond?: { from_ns: Ns; to_ns: Ns; count: number };
}
/** The origin of a run that another tool recorded. */
export interface ImportNote {
  format: string;
  period_ns?: Ns | null;
  resolution?: Record<string, Resolution>;
  /** Series with count, extremes and mean only. */
  figures_only?: string[];
  is_closed_by_a_line?: boolean;
}
/** Something that happened on the bus, or to the robot on it; an alarm says that something is wrong. */
export interface EventNote {
  t: Sec;
  cycle: number;
  kind: string;
  device?: string;
  old: number;
  new: number;
  code: number;
  alarm: boolean;
  sentence: string;
}
/** At `t` the run was resumed; `unmeasured_s` before it nothing was measured. */
export interface ResumeNote {
  t: Sec;
  unmeasured_s: Sec;
}
export interface EndNote {
  t: Sec;
  reason: string;
  slots: number;
  cycles: number;
  skipped: number;
  lost: number;
}

/** Upper end of the cell of a source's histogram that a value was counted in. */
export function cellEnd(
  { step_ns: step, doubles_from: doubles, upper_ends_ns: ends, beyond }: Resolution,
  value: Ns,
): Ns {
  if (beyond?.count && value >= beyond.from_ns) return beyond.to_ns;
  if (ends?.length) return ends.find((end) => end >= value) ?? value;
  const steps = value / step;
  const width =
    doubles && steps >= doubles ? step * 2 ** (Math.floor(Math.log2(steps / doubles)) + 1) : step;
  return ns((Math.floor(value / width) + 1) * width - 1);
}

/** Joins the exact moments of intervals (Chan, Golub and LeVeque 1979). */
export function joinMoments(a: Moments, b: Moments): Moments {
  if (a.n === 0) return b;
  if (b.n === 0) return a;
  const n = a.n + b.n;
  const distance = b.mean_ns - a.mean_ns;
  return {
    n,
    min_ns: ns(Math.min(a.min_ns, b.min_ns)),
    max_ns: ns(Math.max(a.max_ns, b.max_ns)),
    mean_ns: ns(a.mean_ns + (distance * b.n) / n),
    m2: a.m2 + b.m2 + (distance * distance * a.n * b.n) / n,
  };
}

/** One histogram line: a series over one interval. */
export class Line {
  private decoded: Histogram | null = null;
  private parts: readonly [Line, Line] | null = null;
  constructor(
    readonly t: Sec,
    readonly length: Sec,
    readonly block: number,
    readonly stated: Ns,
    private text: string,
    readonly problem: (why: string) => void,
  ) {}

  /** What is left of `all` without `part`, a line that is not in the file because it follows from two others. */
  static without(all: Line, part: Line): Line {
    const line = new Line(all.t, all.length, all.block, all.stated, '', all.problem);
    line.parts = [all, part];
    return line;
  }

  /** Its histogram, or null when the line is damaged (which is reported once). */
  histogram(): Histogram | null {
    if (this.decoded === null && this.parts !== null) {
      const [all, part] = this.parts.map((line) => line.histogram());
      this.decoded = all && part ? without(all, part) : null;
      this.parts = null;
    }
    if (this.decoded === null && this.text !== '') {
      try {
        this.decoded = decodeBase64(this.text);
      } catch (error) {
        this.problem(`${(error as Error).message}, at ${this.t} s`);
      }
      this.text = '';
    }
    return this.decoded;
  }
}

/** A run file as it was read. */
export interface RunFile {
  name: string;
  startUnix: number;
  run: RunNote | null;
  blocks: Block[];
  series: Map<string, Line[]>;
  intervals: IntervalNote[];
  maxima: MaximaNote[];
  spikes: Spike[];
  windows: WindowNote[];
  loads: LoadNote[];
  exclusions: ExclusionNote[];
  events: EventNote[];
  /** The robot of the run, what its joints did, and how its bus was last. */
  robot: Robot | null;
  joints: JointStep[];
  devices: BusFacts | null;
  /** Pictures of cameras meanwhile, which the page got from a log. */
  frames: RunFrames[];
  resumes: ResumeNote[];
  end: EndNote | null;
  bench: Record<string, unknown> | null;
  problems: string[];
  imported: ImportNote | null;
}

/** Everything a text holds: run files, and the summary when there is one. */
export interface Unpacked {
  files: RunFile[];
  summary: Summary | null;
}

const newFile = (name: string): RunFile => ({
  name,
  startUnix: 0,
  run: null,
  blocks: [],
  series: new Map(),
  intervals: [],
  maxima: [],
  spikes: [],
  windows: [],
  loads: [],
  exclusions: [],
  events: [],
  robot: null,
  joints: [],
  devices: null,
  frames: [],
  resumes: [],
  end: null,
  bench: null,
  problems: [],
  imported: null,
});

const NOTE = '#[onbeat: ';

/** Reads the page's data, or one dropped file called `name`. Unknown notes and fields are passed over. */
export function readText(text: string, name: string): Unpacked {
  const files: RunFile[] = [];
  let file: RunFile | null = null;
  let summary: Summary | null = null;
  const current = (): RunFile => file ?? (files.push((file = newFile(name))), file);
  for (let at = 0; at < text.length;) {
    let end = text.indexOf('\n', at);
    const whole = end >= 0;
    if (!whole) end = text.length;
    const line = text.slice(at, text[end - 1] === '\r' ? end - 1 : end);
    at = end + 1;
    if (line.startsWith(NOTE)) {
      const note = parseNote(line, whole, current);
      if (note === null) continue;
      if (typeof note.file === 'string') {
        files.push((file = newFile(note.file)));
        continue;
      }
      if (note.summary) {
        summary = note.summary as Summary;
        continue;
      }
      applyNote(current(), note);
    } else if (line.startsWith('#[StartTime:')) {
      current().startUnix = parseFloat(line.slice(12));
    } else if (line !== '' && line[0] !== '#' && line[0] !== '"') {
      histogramLine(current(), line);
    }
  }
  files.forEach(placeBlocks);
  files.forEach(deriveLatencies);
  return { files, summary };
}

function parseNote(
  line: string,
  whole: boolean,
  file: () => RunFile,
): Record<string, unknown> | null {
  const close = line.lastIndexOf(']');
  try {
    return JSON.parse(line.slice(NOTE.length, close)) as Record<string, unknown>;
  } catch {
    file().problems.push(
      whole
        ? 'skipped a note that is not valid JSON'
        : 'the file ends inside a note; the part before it is used',
    );
    return null;
  }
}

function applyNote(file: RunFile, note: Record<string, unknown>): void {
  for (const [kind, value] of Object.entries(note)) {
    switch (kind) {
      case 'run':
        file.run = value as RunNote;
        break;
      case 'import':
        file.imported = value as ImportNote;
        break;
      case 'block': {
        const block = value as { index: number; t: Sec; load: string };
        file.blocks.push({
          index: block.index,
          t: block.t,
          end: block.t,
          load: block.load ?? '',
          own: sec(0),
        });
        break;
      }
      case 'interval':
        file.intervals.push(value as IntervalNote);
        break;
      case 'maxima':
        file.maxima.push(value as MaximaNote);
        break;
      case 'spike':
        file.spikes.push({ ...(value as Spike), number: file.spikes.length + 1 });
        break;
      case 'window':
        file.windows.push(value as WindowNote);
        break;
      case 'load':
        file.loads.push(value as LoadNote);
        break;
      case 'exclusion':
        file.exclusions.push(value as ExclusionNote);
        break;
      case 'event':
        file.events.push(value as EventNote);
        break;
      case 'robot':
        file.robot = value as Robot;
        break;
      case 'joints':
        file.joints.push(...(value as { steps: JointStep[] }).steps);
        break;
      case 'devices':
        file.devices = value as BusFacts;
        break;
      case 'frames':
        file.frames = value as RunFrames[];
        break;
      case 'resume':
        file.resumes.push(value as ResumeNote);
        break;
      case 'end':
        file.end = value as EndNote;
        break;
      case 'bench':
        file.bench = value as Record<string, unknown>;
        break;
      default:
        break;
    }
  }
}

/** What every encoded histogram begins with, whatever its version. */
const COOKIE = 'HIST';

function histogramLine(file: RunFile, line: string): void {
  let at = 0;
  // Of onbeat's own files lines without a tag count every release; other logs do not say what theirs are.
  let tag = file.run === null ? 'untagged' : RELEASES;
  if (line.startsWith('Tag=')) {
    at = line.indexOf(',') + 1;
    tag = line.slice(4, at - 1);
  }
  const a = line.indexOf(',', at);
  const b = line.indexOf(',', a + 1);
  const c = line.indexOf(',', b + 1);
  const t = parseFloat(line.slice(at, a));
  const length = parseFloat(line.slice(a + 1, b));
  const max = parseFloat(line.slice(b + 1, c));
  if (c < 0 || Number.isNaN(t) || Number.isNaN(length) || !line.startsWith(COOKIE, c + 1)) {
    file.problems.push('skipped a line that is not a histogram line');
    return;
  }
  // Logs of other writers may carry wall-clock stamps; a year is far beyond any run's own seconds.
  const since = t > 3e7 && file.startUnix > 0 ? t - file.startUnix : t;
  const list = file.series.get(tag) ?? [];
  if (list.length === 0) file.series.set(tag, list);
  const block = Math.max(0, file.blocks.length - 1);
  list.push(
    new Line(sec(since), sec(length), block, ns(max * 1e6), line.slice(c + 1), (why) =>
      file.problems.push(why),
    ),
  );
}

const RELEASES = 'release_latency';
const SERVED = 'wakeup_latency';
const SKIPPED = 'skipped_latency';

/** Wake-up latency is what is left of release latency without the skipped releases; neither its lines nor the sums of both are in the file. */
function deriveLatencies(file: RunFile): void {
  for (const { series } of file.intervals) {
    const [served, skipped] = [series?.[SERVED], series?.[SKIPPED]];
    const both = served && skipped ? joinMoments(served, skipped) : (served ?? skipped);
    if (series && both && file.series.has(RELEASES)) series[RELEASES] = both;
  }
  const all = file.series.get(RELEASES);
  if (all === undefined || file.series.has(SERVED)) return;
  const key = (line: Line): string => `${line.block} ${line.t} ${line.length}`;
  const skipped = new Map((file.series.get(SKIPPED) ?? []).map((line) => [key(line), line]));
  file.series.set(
    SERVED,
    all.map((line) => {
      const part = skipped.get(key(line));
      return part === undefined ? line : Line.without(line, part);
    }),
  );
}

/** Gives each block its end and its place on the clock that counts only measured time. */
function placeBlocks(file: RunFile): void {
  if (file.blocks.length === 0 && file.series.size > 0) {
    const first = Math.min(...[...file.series.values()].map((lines) => lines[0]!.t));
    file.blocks.push({ index: 0, t: sec(first), end: sec(first), load: '', own: sec(0) });
  }
  for (const lines of file.series.values()) {
    for (const line of lines) {
      const block = file.blocks[line.block]!;
      if (line.t + line.length > block.end) block.end = sec(line.t + line.length);
    }
  }
  let own = 0;
  for (const block of file.blocks) {
    block.own = sec(own);
    own += block.end - block.t;
  }
}
