// The joints of the live view: charts of one, a table of all.
import { h, section } from '../dom.ts';
import { JOINT_STATES } from '../charts/joint.ts';
import { JointCharts } from '../charts/joint_charts.ts';
import { jointWords } from '../sections/topology.ts';
import type { History, Totals } from './history.ts';
import { AT, type LiveCycles, type LiveRobot, type LiveState } from './stream.ts';

/** Words for the highest state of a mask. */
const stateOf = (mask: number): string => JOINT_STATES.findLast((_, i) => mask & (1 << i)) ?? '';

/** A joint moves when its targets are this far apart. */
const MOVES_RAD = 0.02;

export class JointsPart {
  readonly element: HTMLElement;
  readonly picker: HTMLElement;
  /** Called when another joint is chosen. */
  picked: () => void = () => {};
  private readonly joints: JointCharts;
  private readonly rows: HTMLTableRowElement[];
  private readonly select: HTMLSelectElement;
  /** The place of the joint that is shown. */
  chosen = 0;
  private newest: LiveCycles | null = null;
  private state: LiveState | null = null;
  private shownJoint = -1;
  private isPicked = false;
  /** Lowest and highest target of each joint, until one is shown for it. */
  private readonly moved: [number, number][];

  constructor(private readonly robot: LiveRobot) {
    this.select = h(
      'select',
      {
        'aria-label': 'Joint',
        onchange: () => {
          this.pick(this.select.selectedIndex);
        },
      },
      ...robot.joints.map(({ name }) => h('option', { value: name }, name)),
    );
    this.moved = robot.joints.map(() => [Infinity, -Infinity]);
    this.picker = h('label', { class: 'tick' }, 'Joint ', this.select);
    this.joints = new JointCharts(() => robot.joints[this.chosen]?.name ?? '');
    this.rows = robot.joints.map(({ name }, i) =>
      h(
        'tr',
        {
          onclick: () => {
            this.pick(i);
          },
        },
        h(
          'th',
          { scope: 'row' },
          h(
            'button',
            {
              type: 'button',
              class: 'pick',
              onclick: () => {
                this.pick(i);
              },
            },
            name,
          ),
        ),
        ...Array.from({ length: 6 }, (_, column) =>
          h('td', column === 0 ? {} : { class: 'number' }),
        ),
      ),
    );
    const heads = [
      'joint',
      'state',
      'target, rad',
      'actual, rad',
      'following error, rad',
      'worst, rad',
      'torque, ‰',
    ];
    this.element = section(
      'joints',
      'Joints',
      null,
      robot.joints.length === 0
        ? h('p', { class: 'empty' }, 'This robot has no joints.')
        : h('div', { class: 'joint-charts' }, ...this.joints.charts.map(({ figure }) => figure)),
      h(
        'div',
        { class: 'scroll' },
        h(
          'table',
          { class: 'list plain joints' },
          h(
            'thead',
            {},
            h(
              'tr',
              {},
              ...heads.map((head, i) =>
                h('th', { scope: 'col', ...(i > 1 ? { class: 'number' } : {}) }, head),
              ),
            ),
          ),
          h('tbody', {}, ...this.rows),
        ),
      ),
    );
    this.mark();
  }

  private pick(joint: number): void {
    this.isPicked = true;
    this.chosen = joint;
    this.select.selectedIndex = joint;
    this.forget();
    this.mark();
    this.picked();
  }

  /** Until the reader picks one, the joint that moves is shown: of those that do, the one that moves farthest. */
  private pickMoving({ joints }: LiveCycles): void {
    const widths = this.moved.map((range, i) => {
      range[0] = Math.min(range[0], joints[i]?.[AT.target + 1] ?? Infinity);
      range[1] = Math.max(range[1], joints[i]?.[AT.target + 2] ?? -Infinity);
      return range[1] - range[0];
    });
    const widest = Math.max(...widths);
    if (widest > MOVES_RAD) this.pick(widths.indexOf(widest));
  }

  private mark(): void {
    this.rows.forEach((row, i) => {
      row.classList.toggle('chosen', i === this.chosen);
    });
  }

  /** Forgets zooms. */
  forget(): void {
    this.joints.forget();
    this.shownJoint = -1;
  }

  cycles(cycles: LiveCycles): void {
    this.newest = cycles;
    if (!this.isPicked) this.pickMoving(cycles);
  }
  robotState(state: LiveState): void {
    this.state = state;
  }

  draw(history: History, seconds: number, inFull: boolean): void {
    if (this.robot.joints.length === 0) return;
    const { joints } = this;
    joints.series = history.joint(this.chosen, seconds);
    const newest = joints.series.t[joints.series.t.length - 1] ?? 0;
    joints.span = [Math.max(0, newest - seconds), Math.max(seconds, newest)];
    const isOther = inFull || this.shownJoint !== this.chosen;
    this.shownJoint = this.chosen;
    this.joints.charts.forEach((chart) => {
      if (isOther) chart.redraw();
      else chart.update();
    });
  }

  /** Writes the table of all joints. */
  drawTable(totals: Totals): void {
    const { newest } = this;
    if (newest === null) return;
    const number = (value: number | null | undefined, digits: number): string =>
      value === null || value === undefined ? '–' : value.toFixed(digits);
    this.robot.joints.forEach((joint, i) => {
      const values = newest.joints[i];
      if (values === undefined) return;
      const facts = this.state?.devices[joint.device];
      const isDown = facts !== undefined && facts.reason !== null && facts.reason !== 'none';
      const words = [
        isDown ? jointWords(facts) : stateOf(values[AT.states] ?? 0),
        number(values[AT.target], 3),
        number(values[AT.actual], 3),
        number(values[AT.following], 4),
        number(totals.following[i], 4),
        number(values[AT.torque], 0),
      ];
      const cells = this.rows[i]!.cells;
      words.forEach((word, column) => {
        const cell = cells[column + 1]!;
        if (cell.textContent !== word) cell.textContent = word;
      });
      this.rows[i]!.classList.toggle('down', isDown);
    });
    this.joints.charts.forEach((chart) => {
      chart.describe();
    });
  }
}
