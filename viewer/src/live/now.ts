// The head of the live view: what the robot does now, and the worst since the start.
import { h } from '../dom.ts';
import { count, human, moment, ns, sec } from '../units.ts';
import { radians } from '../charts/joint.ts';
import type { Totals } from './history.ts';
import type { LiveCycles, LiveRobot, LiveState } from './stream.ts';

const PHASES = [
  'waits for devices',
  'enables drives',
  'is running',
  'is stopping',
  'disables drives',
  'is at rest',
];
const RUNGS = ['run', 'hold', 'degrade', 'safe stop'];
const STOPPED_BY: Readonly<Record<string, string>> = {
  misses: 'missed cycles',
  joint_down: 'a joint went down',
  commander_lost: 'the commander is lost',
};

type Tone = 'good' | 'open' | 'bad';

/** The facts below the headline, by name; `true` marks one that is red unless it is 0. */
const FACTS = [
  ['Running for', false],
  ['Cycles', false],
  ['Devices in OP', false],
  ['Worst release latency', false],
  ['Worst following error', false],
  ['Skipped releases', true],
  ['Cycles without new inputs', true],
  ['Late replies', true],
  ['Deadline misses', true],
  ['Not shown', true],
] as const;

export class NowPart {
  readonly element: HTMLElement;
  private readonly badge = h('span', { class: 'badge open' });
  private readonly title = h('h1', { id: 'now-title' });
  private readonly ground = h('p', { class: 'ground' });
  private readonly link = h('p', { class: 'note connection', role: 'status' });
  private readonly facts = new Map<string, HTMLElement>();
  private state: LiveState | null = null;
  private newest: LiveCycles | null = null;

  constructor(
    private readonly robot: LiveRobot,
    private readonly pid: number,
  ) {
    this.link.hidden = true;
    for (const [name] of FACTS) this.facts.set(name, h('dd', {}, '–'));
    this.element = h(
      'section',
      { id: 'now', 'aria-labelledby': 'now-title' },
      this.badge,
      this.title,
      this.ground,
      this.link,
      h(
        'dl',
        { class: 'facts' },
        ...FACTS.map(([name]) => h('div', {}, h('dt', {}, name), this.facts.get(name)!)),
      ),
    );
    this.headline();
  }

  cycles(cycles: LiveCycles): void {
    const before = this.newest;
    this.newest = cycles;
    this.link.hidden = true;
    if (before?.phase !== cycles.phase || before.rung !== cycles.rung) this.headline();
  }

  /** Takes a new state of robot and bus. */
  robotState(state: LiveState): void {
    this.state = state;
    this.headline();
  }

  /** Says how the connection is. */
  connection(words: string, tone: Tone): void {
    this.link.hidden = false;
    this.link.className = `note connection ${tone}`;
    this.link.textContent = words;
  }

  private headline(): void {
    const phase = this.newest?.phase ?? this.state?.phase ?? 0;
    const rung = this.newest?.rung ?? this.state?.rung ?? 0;
    const [tone, sign]: [Tone, string] =
      rung === 3
        ? ['bad', '✕']
        : rung > 0 || phase !== 2
          ? ['open', phase === 5 ? '■' : '…']
          : ['good', '✓'];
    this.badge.className = `badge ${tone}`;
    this.badge.replaceChildren(
      h('span', { 'aria-hidden': 'true', class: 'sign' }, sign),
      rung === 0 ? 'run' : (RUNGS[rung] ?? String(rung)),
    );
    this.title.textContent = `${this.robot.name} ${rung === 3 ? 'is in a safe stop' : (PHASES[phase] ?? 'runs')}`;
    this.ground.textContent = this.why();
  }

  private why(): string {
    const { state } = this;
    if (state === null) return '';
    if (state.rung === 3)
      return `Reason: ${STOPPED_BY[state.stopped_by] ?? state.stopped_by}${state.stopped_joint === null ? '' : `, ${state.stopped_joint}`}. Remove the cause, and when all joints are at rest, reset the robot: kill -USR1 ${this.pid}.`;
    if (state.bus.no_answer_ns > 0)
      return `No frame has come back for ${human(ns(state.bus.no_answer_ns))}.`;
    const spike = state.spikes[0];
    const speed =
      state.speed === 1 ? '' : `Trajectory at ${(state.speed * 100).toFixed(0)} % speed. `;
    const misses = `Misses ${state.misses[0]} of ${state.misses[1]}.`;
    if (spike === undefined) return `${speed}${misses}`;
    const late = `${human(ns(spike.late_ns))} late, ${spike.cause}`;
    return `${speed}${misses} Latest spike at ${moment(sec(spike.t))}: ${late}.`;
  }

  /** Writes the figures. */
  draw(totals: Totals): void {
    const { newest, state, robot } = this;
    const release = totals.times.get('release_latency');
    const worst = totals.worst();
    const put = (name: (typeof FACTS)[number][0], words: string, isSome = false): void => {
      const place = this.facts.get(name)!;
      if (place.textContent !== words) place.textContent = words;
      place.classList.toggle('some', isSome);
    };
    const number = (name: (typeof FACTS)[number][0], n: number): void => {
      put(name, count(n), n > 0);
    };
    put('Running for', moment(sec((totals.last * robot.period_ns) / 1e9)));
    put('Cycles', count(totals.cycles));
    const inOp = newest?.in_op ?? 0;
    put('Devices in OP', `${inOp} of ${robot.devices.length}`, inOp < robot.devices.length);
    put(
      'Worst release latency',
      release === undefined || release.largest_ns === 0
        ? '–'
        : `${human(ns(release.largest_ns))} in cycle ${count(release.at_cycle)}`,
    );
    put(
      'Worst following error',
      worst === null ? '–' : `${radians(worst.rad)}, ${robot.joints[worst.joint]!.name}`,
    );
    number('Skipped releases', totals.skipped);
    number('Cycles without new inputs', totals.stale);
    number('Late replies', state?.bus.late ?? 0);
    number('Deadline misses', state?.loop.deadline_misses ?? 0);
    const merged = totals.merged > 0 ? `; ${count(totals.merged)} events merged` : '';
    put('Not shown', `${count(totals.lost)}${merged}`, totals.lost > 0);
    this.facts.get('Not shown')!.title =
      'Cycles that the view could not read in time. Merged events have the extremes of all their cycles.';
  }
}
