// Follows a run that is being measured: the lines of its files as they are written, and its summary now and then
// (crates/onbeat-cli/src/cmd/view).
import { deriveSummary } from './derive.ts';
import { readText, type Unpacked } from './hlog.ts';
import { isMeasured } from './model.ts';
import type { Summary } from './summary.ts';

/** Time between two drawings, ms: at least, and as many times what the last one took. */
const EVERY_MS = 1000;
const TIMES = 20;

/** How it stands with the run. */
export type Following = 'live' | 'lost' | 'ended';

/** The lines of files as they came, and the newest summary. */
export class GrowingRun {
  private texts = new Map<string, string>();
  private summary: Summary | null = null;

  /** A new connection sends everything again. */
  reset(): void {
    this.texts.clear();
  }

  add(file: string, text: string): void {
    this.texts.set(file, (this.texts.get(file) ?? '') + text);
  }

  summarise(summary: Summary): void {
    this.summary = summary;
  }

  /** Everything so far; null before the first samples. A summary is of the lines before it: figures in it may be some seconds old. */
  unpacked(): Unpacked | null {
    const text = [...this.texts]
      .map(([name, lines]) => `#[onbeat: ${JSON.stringify({ file: name })}]\n${lines}`)
      .join('');
    const { files } = readText(text, 'run');
    if (!files.some((file) => file.series.size > 0)) return null;
    // One of before the first samples says that there are none.
    if (this.summary !== null && isMeasured(this.summary)) return { files, summary: this.summary };
    const summary = deriveSummary(files);
    for (const cell of summary.cells) cell.goes_on = !cell.complete;
    return { files, summary };
  }
}

/** Follows the run at the address that the page came from. */
export function followRun(
  show: (unpacked: Unpacked) => void,
  state: (following: Following) => void,
): void {
  const run = new GrowingRun();
  const source = new EventSource('events');
  let due: ReturnType<typeof setTimeout> | undefined;
  let pause = EVERY_MS;
  const draw = (): void => {
    due = undefined;
    const began = performance.now();
    const unpacked = run.unpacked();
    if (unpacked !== null) show(unpacked);
    pause = Math.max(EVERY_MS, TIMES * (performance.now() - began));
  };
  const later = (): void => {
    due ??= setTimeout(draw, pause);
  };
  const on = (name: string, take: (data: unknown) => void): void =>
    source.addEventListener(name, (event) => {
      take(JSON.parse((event as MessageEvent<string>).data));
      later();
    });
  source.addEventListener('open', () => {
    run.reset();
    state('live');
  });
  on('lines', (data) => {
    const { file, text } = data as { file: string; text: string };
    run.add(file, text);
  });
  on('summary', (data) => run.summarise(data as Summary));
  source.addEventListener('end', () => {
    source.close();
    clearTimeout(due);
    draw();
    state('ended');
  });
  source.addEventListener('error', () => state('lost'));
}
