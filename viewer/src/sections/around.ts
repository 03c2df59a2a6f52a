// What a CPU did around one spike, the one that its first cause names: a lane each for tasks, interrupts, softirqs and idle time.
import { announce } from '../a11y.ts';
import { grouped, mainCause } from '../causes.ts';
import { paintMarks, paintPart, saveButtons, type Paint, type PictureRow } from '../charts/rows.ts';
import type { Figures } from '../charts/save.ts';
import { choice, freshId, h } from '../dom.ts';
import type { Spike } from '../hlog.ts';
import { ink } from '../theme.ts';
import { count, held, human, ns } from '../units.ts';
import {
  cpusOf,
  LANES,
  nearest,
  ticks,
  timeline,
  type Lane,
  type Stretch,
  type Timeline,
  type WindowNote,
} from '../window.ts';

type View = 'spike' | 'all';
type Coat = Pick<Paint, 'hue' | 'pattern'>;
const COATS: Readonly<Record<Lane, Coat>> = {
  tasks: { hue: 'blue', pattern: 'solid' },
  interrupts: { hue: 'orange', pattern: 'solid' },
  softirqs: { hue: 'orange', pattern: 'hatch' },
  idle: { hue: 'sky', pattern: 'dots' },
};
/** How near to a stretch the pointer may be to mean it, in pixels. */
const REACH = 6;

const instant = (at: number): string =>
  at < 0 ? `${human(ns(-at))} before` : at === 0 ? 'at' : `${human(ns(at))} after`;

/** A distance from the programmed expiry, on an axis. */
const distance = (at: number): string =>
  at === 0 ? '0' : `${at < 0 ? '−' : ''}${human(ns(Math.abs(at)))}`;

/** One slice in a sentence. */
export const inWords = ({ lane, from, to, name, detail }: Stretch): string =>
  [
    lane === 'softirqs' ? 'softirq ' : '',
    name,
    detail && detail !== 'softirq' ? ` (${detail})` : '',
    `: ${count(to - from)} ns, starting ${instant(from)} the programmed expiry`,
  ].join('');

/** Every slice of a window as it was recorded; times since the programmed expiry. */
export const figures = ({ stretches }: Timeline): Figures => ({
  head: ['lane', 'name', 'detail', 'from_ns', 'to_ns'],
  rows: stretches.map(({ lane, name, detail, from, to }) => [lane, name, detail, from, to]),
});

/** The stretch of time that is shown: the spike with some room on either side, or everything. */
export function viewOf(line: Timeline, view: View): readonly [number, number] {
  if (view === 'all') return [line.from, line.to];
  const late = Math.max(line.start, line.end - line.start, 1000);
  const end = Math.max(line.start, line.end);
  return [
    Math.max(line.from, -Math.max(late * 0.12, 15_000)),
    Math.min(line.to, end + Math.max(late * 0.12, 15_000)),
  ];
}

class Around {
  readonly element: HTMLElement;
  private view: readonly [number, number];
  private readonly lanes = h('div', { class: 'lanes' });
  private readonly readout = h('p', { class: 'readout' });
  private readonly words = h('p', { id: freshId('around') });
  private at: Stretch | null = null;
  private line: Timeline;
  private range: View = 'spike';

  /** The CPU that is shown first is the one that the first cause names. */
  constructor(
    private readonly note: WindowNote,
    private cpu: number | null,
    cpus: readonly number[],
    private readonly culprit: number | null,
    spike: Spike,
  ) {
    this.line = timeline(note, cpu);
    this.view = viewOf(this.line, 'spike');
    const { id } = this.words;
    const left =
      note.left_out > 0
        ? ` ${count(note.left_out)} events farther away were dropped (buffer full).`
        : '';
    this.lanes.tabIndex = 0;
    this.lanes.setAttribute('role', 'application');
    this.lanes.setAttribute('aria-labelledby', id);
    this.lanes.setAttribute('aria-describedby', `${id}-keys`);
    this.lanes.addEventListener('keydown', (event) => this.key(event));
    this.lanes.addEventListener('pointermove', (event) => this.point(event));
    this.lanes.addEventListener('pointerleave', () => this.choose(null, false));
    this.element = h(
      'div',
      { class: 'around' },
      h(
        'div',
        { class: 'around-head' },
        this.words,
        cpus.length > 1
          ? choice<string>(
              'CPU',
              cpus.map((one) => ({ value: String(one), label: `CPU ${one}` })),
              String(cpu),
              (chosen) => {
                this.cpu = Number(chosen);
                this.line = timeline(note, this.cpu);
                this.view = viewOf(this.line, this.range);
                this.say(left);
                this.draw();
              },
            )
          : null,
        choice<View>(
          'Time range',
          [
            { value: 'spike', label: 'Spike' },
            { value: 'all', label: 'All events' },
          ],
          'spike',
          (view) => {
            this.range = view;
            this.view = viewOf(this.line, view);
            this.draw();
          },
        ),
      ),
      this.lanes,
      this.readout,
      h(
        'p',
        { class: 'vh', id: `${id}-keys` },
        'Arrow keys select the next or the previous slice.',
      ),
      saveButtons(
        `CPU ${cpu ?? '?'} around spike ${spike.number ?? 1}`,
        () => this.pictureRows(),
        () => figures(this.line),
      ),
      spike.causes?.some(({ kind }) => kind === 'hypervisor_steal')
        ? h(
            'p',
            { class: 'muted' },
            'The hypervisor counts steal time without reporting when it occurred, so steal has no lane.',
          )
        : null,
    );
    this.say(left);
    this.draw();
  }

  private say(left: string): void {
    const loop =
      this.cpu === this.note.cpu ? '' : `; the loop began on CPU ${this.note.cpu ?? '?'}`;
    this.words.textContent = held(
      `CPU ${this.cpu ?? '?'} around the spike: ${human(ns(this.line.start))} from the programmed expiry to the loop’s first instruction (shaded)${loop}.${left}`,
    );
  }

  private percent(at: number): number {
    const [from, to] = this.view;
    return Math.max(0, Math.min(100, ((at - from) / (to - from)) * 100));
  }

  private place(element: HTMLElement, from: number, to: number): HTMLElement {
    element.style.left = `${this.percent(from)}%`;
    element.style.width = `${Math.max(0, this.percent(to) - this.percent(from))}%`;
    return element;
  }

  private shown(): Stretch[] {
    return this.line.stretches.filter(({ from, to }) => to >= this.view[0] && from <= this.view[1]);
  }

  private draw(): void {
    const shown = this.shown();
    const { start } = this.line;
    const rows = LANES.map((lane) =>
      h(
        'div',
        { class: 'lane', 'data-lane': lane },
        h('span', { class: 'lane-name' }, lane),
        h(
          'div',
          { class: 'track' },
          start > 0 ? this.place(h('i', { class: 'late' }), 0, start) : null,
          ...(lane === 'tasks'
            ? this.line.gaps.map((gap) =>
                this.place(
                  h('i', {
                    class: 'gap',
                    title: `${gap.count === null ? 'events' : `${count(gap.count)} events`} missing`,
                  }),
                  gap.from,
                  gap.to,
                ),
              )
            : []),
          ...shown
            .filter((one) => one.lane === lane)
            .map((one, i) => this.stretch(one, i % 2 === 1)),
        ),
      ),
    );
    const axis = h(
      'div',
      { class: 'lane axis', 'aria-hidden': 'true' },
      h('span', { class: 'lane-name' }),
      h(
        'div',
        { class: 'track' },
        ...ticks(this.view[0], this.view[1], 5).map((at) =>
          this.place(h('span', { class: this.side(at) }, distance(at)), at, at),
        ),
      ),
    );
    this.lanes.replaceChildren(...rows, axis);
    this.at = null;
    this.choose(null, false);
  }

  /** Labels at the ends stand inside of the axis. */
  private side(at: number): string {
    const percent = this.percent(at);
    return percent > 92 ? 'at last' : percent < 8 ? 'at first' : 'at';
  }

  /** The colour of a slice: the loop and the culprit have their own. */
  private coat({ lane, tid }: Stretch): Coat {
    if (tid === this.note.tid) return { hue: 'green', pattern: 'solid' };
    return tid !== null && tid > 0 && tid === this.culprit
      ? { hue: 'vermilion', pattern: 'solid' }
      : COATS[lane];
  }

  /** The lanes as rows of a picture, with the axis below. */
  private pictureRows(): PictureRow[] {
    const at = (box: { x: number; width: number }, time: number): number =>
      box.x + (box.width * this.percent(time)) / 100;
    const lanes = LANES.map((lane): PictureRow => ({
      name: lane,
      words: '',
      paint: (ctx, box) => {
        ctx.globalAlpha = 0.13;
        ctx.fillStyle = ink('bad');
        ctx.fillRect(at(box, 0), box.y - 6, at(box, this.line.start) - at(box, 0), box.height + 12);
        ctx.globalAlpha = 1;

        for (const one of this.shown().filter((slice) => slice.lane === lane)) {
          const [from, to] = [at(box, one.from), at(box, one.to)];
          paintPart(
            ctx,
            { ...box, x: from, width: Math.max(to - from, 2) },
            { ...this.coat(one), words: one.name },
          );
        }
      },
    }));
    const marks = ticks(this.view[0], this.view[1], 5);
    return [
      ...lanes,
      {
        name: '',
        words: 'since the programmed expiry',
        paint: (ctx, box) =>
          paintMarks(
            ctx,
            box,
            marks.map((time) => [at(box, time), distance(time)]),
          ),
      },
    ];
  }

  /** Neighbours differ a little, so that each is seen to begin and end. */
  private stretch(one: Stretch, second: boolean): HTMLElement {
    const { hue, pattern } = this.coat(one);
    const element = this.place(
      h(
        'div',
        { class: `stretch paint ${hue} ${pattern}${second ? ' second' : ''}` },
        h('b', {}, one.name),
      ),
      one.from,
      one.to,
    );
    element.dataset['stretch'] = String(this.line.stretches.indexOf(one));
    return element;
  }

  private point(event: PointerEvent): void {
    const lane = (event.target as HTMLElement).closest<HTMLElement>('[data-lane]');
    const track = lane?.querySelector<HTMLElement>('.track')?.getBoundingClientRect();
    if (lane === null || track === undefined || track.width === 0) {
      this.choose(null, false);
      return;
    }
    const per = (this.view[1] - this.view[0]) / track.width;
    const at = this.view[0] + (event.clientX - track.left) * per;
    this.choose(nearest(this.shown(), lane.dataset['lane'] as Lane, at, REACH * per), false);
  }

  private key(event: KeyboardEvent): void {
    const steps: Readonly<Record<string, number>> = {
      ArrowRight: 1,
      ArrowDown: 1,
      ArrowLeft: -1,
      ArrowUp: -1,
    };
    const shown = this.shown();
    const step = steps[event.key];
    if (shown.length === 0 || (step === undefined && event.key !== 'Home' && event.key !== 'End'))
      return;
    event.preventDefault();
    const place = this.at === null ? -1 : shown.indexOf(this.at);
    // The first key goes to what ran when the loop should have.
    const first = Math.max(
      0,
      shown.findIndex(({ from, to }) => from <= 0 && to > 0),
    );
    const next =
      event.key === 'Home'
        ? 0
        : event.key === 'End'
          ? shown.length - 1
          : place < 0
            ? first
            : place + step!;
    this.choose(shown[Math.max(0, Math.min(shown.length - 1, next))]!, true);
  }

  private choose(one: Stretch | null, say: boolean): void {
    // What the keyboard has chosen stays when the pointer leaves.
    if (
      (one === this.at && one !== null) ||
      (one === null && this.at !== null && !say && document.activeElement === this.lanes)
    )
      return;
    this.at = one;
    this.lanes.querySelector('.stretch.at')?.classList.remove('at');
    if (one !== null)
      this.lanes
        .querySelector(`[data-stretch="${this.line.stretches.indexOf(one)}"]`)
        ?.classList.add('at');
    this.readout.textContent =
      one === null
        ? 'Point at a slice, or focus the lanes and use the arrow keys, to show what ran and for how long.'
        : inWords(one);
    if (one !== null && say) announce(inWords(one));
  }
}

/** The CPU that a spike's first cause names, where the window has events of it; otherwise the loop's. */
export function cpuOfFirstCause(
  spike: Spike,
  note: WindowNote,
  cpus: readonly number[],
): number | null {
  const evidence = grouped(spike.causes ?? [])[0]?.members[0]?.evidence ?? '';
  const named = /\bCPU (\d+)/.exec(evidence)?.[1];
  return named !== undefined && cpus.includes(Number(named)) ? Number(named) : note.cpu;
}

/** Why the events around a spike are not there. */
const GONE: Readonly<Record<string, string>> = {
  kept: 'The events around this spike are in the run file; this page has those of the worst spikes.',
  not_among_worst: 'The events around this spike were not kept: 32 earlier spikes were worse.',
  no_room: 'The events around this spike were dropped (buffer full).',
  no_events: 'The flight recorder has no events of the loop’s CPU.',
};

/** The lanes, or a line that says why there are none; null where it was not analysed. */
export function around(
  spike: Spike,
  note: WindowNote | undefined,
  command: string,
): HTMLElement | null {
  if (note === undefined)
    return spike.window !== undefined && spike.window in GONE
      ? h(
          'p',
          { class: 'muted' },
          GONE[spike.window]!,
          ...(spike.window === 'kept' ? [' ', h('code', {}, command)] : []),
        )
      : null;
  try {
    const cpus = cpusOf(note);
    const { element } = new Around(
      note,
      cpuOfFirstCause(spike, note, cpus),
      cpus,
      mainCause(spike.causes)?.culprit?.tid ?? null,
      spike,
    );
    element.append(
      h('p', { class: 'muted' }, 'To export all of its events: ', h('code', {}, command)),
    );
    return element;
  } catch (error) {
    return h(
      'p',
      { class: 'muted' },
      `The events around this spike cannot be read: ${(error as Error).message}`,
    );
  }
}
