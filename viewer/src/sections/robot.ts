// The robot of a run: its joints over time, and its bus as a tree.
import { h, section } from '../dom.ts';
import { JointCharts } from '../charts/joint_charts.ts';
import { JOINT_STATES } from '../charts/joint.ts';
import { Chart } from '../charts/frame.ts';
import { frameLanes, FramePictures, type FrameLane } from '../charts/frames.ts';
import { framesLead } from '../frames.ts';
import { onClock, type Cell, type Range } from '../model.ts';
import { jointSeries, jointWorsts, type JointStep, type JointWorst, type Robot } from '../robot.ts';
import type { Store } from '../state.ts';
import { count, sec, type Sec } from '../units.ts';
import { busWords, topologyTree, treeDevices } from './topology.ts';

/** A cell with a robot that it recorded. */
type RobotCell = Cell & { file: NonNullable<Cell['file']> & { robot: Robot } };

const robotCells = (cells: readonly Cell[]): RobotCell[] =>
  cells.filter((cell): cell is RobotCell => cell.file !== null && cell.file.robot !== null);

const HEADS = [
  'joint',
  'state reached',
  'travel, rad',
  'worst following error, rad',
  'of its limit',
  'largest torque, ‰',
];

/** The states on the way to an enabled drive; those behind them say that something is wrong. */
const ORDINARY = 5;

/** How far a drive came, then every state that was out of the ordinary. */
function stateWords(mask: number): string {
  const occurred = JOINT_STATES.flatMap((word, i) => (mask & (1 << i) ? [{ word, i }] : []));
  const reached = occurred.filter(({ i }) => i < ORDINARY).slice(-1);
  return [...reached, ...occurred.filter(({ i }) => i >= ORDINARY)]
    .map(({ word }) => word)
    .join(', ');
}

// Adding 0 makes a negative zero positive.
const rounded = (value: number, digits: number): string =>
  (Number(value.toFixed(digits)) + 0).toFixed(digits);
const fixed = (value: number | null, digits: number): string =>
  value === null ? '–' : rounded(value, digits);

const share = (part: number): string => `${(100 * part).toFixed(part < 0.1 ? 1 : 0)} %`;

/** The cells of a joint's row. */
export function jointRow(worst: JointWorst, limit: number): string[] {
  const { low, high, following } = worst;
  const travel = low === null || high === null ? '–' : `${rounded(low, 3)} to ${rounded(high, 3)}`;
  return [
    stateWords(worst.states),
    travel,
    fixed(following, 4),
    following === null ? '–' : share(Math.abs(following) / limit),
    fixed(worst.torque, 0),
  ];
}

/** The joints' charts and table, and the bus. Null for a page without a robot. */
export function robotSections(
  store: Store,
): { elements: HTMLElement[]; redraw: () => void } | null {
  const cells = robotCells(store.report.cells);
  if (cells.length === 0) return null;
  const part = new RobotPart(store, cells);
  return {
    elements: part.elements,
    redraw: () => {
      part.redraw();
    },
  };
}

class RobotPart {
  readonly elements: HTMLElement[];
  private readonly joints: JointCharts;
  private readonly pictures = new FramePictures();
  /** Null for a page without pictures. */
  private readonly frames: Chart | null;
  private lanes: FrameLane[] = [];
  private readonly select = h('select', {
    'aria-label': 'Joint',
    onchange: () => {
      this.pick(this.select.selectedIndex);
    },
  });
  private readonly body = h('tbody');
  private readonly bus = h('div');
  /** In the order of the robot; the table has the worst first. */
  private rows: HTMLTableRowElement[] = [];
  private cell: RobotCell;
  private chosen = 0;

  constructor(
    private readonly store: Store,
    private readonly cells: readonly RobotCell[],
  ) {
    this.cell = cells.find((cell) => store.slotOf(cell.key) >= 0) ?? cells[0]!;
    const setRange = (range: readonly [number, number] | null): void => {
      store.set({ range: range === null ? null : ([sec(range[0]), sec(range[1])] as Range) });
    };
    this.joints = new JointCharts(
      () => this.cell.file.robot.joints[this.chosen]?.name ?? '',
      (drawing) => ({ ...drawing, full: this.whole(), onRange: setRange }),
    );
    const framed = cells.flatMap(({ file }) => file.frames);
    this.frames =
      framed.length === 0
        ? null
        : new Chart(
            'frames',
            'Pictures',
            framesLead(framed),
            60 + 40 * Math.max(...cells.map(({ file }) => file.frames.length)),
            () => {
              const drawing = frameLanes(this.lanes, this.pictures, this.joints.span, this.whole());
              return typeof drawing === 'string' ? drawing : { ...drawing, onRange: setRange };
            },
            () => '',
          );
    if (this.frames !== null) {
      // One cursor for joints and pictures.
      const charts = [...this.joints.charts, this.frames];
      charts.forEach((chart) => {
        chart.lead(charts.filter((other) => other !== chart));
      });
    }
    const which = h(
      'select',
      {
        'aria-label': 'Cell of the joints',
        onchange: () => {
          this.cell = this.cells[which.selectedIndex]!;
          this.fill();
        },
      },
      ...cells.map((cell) => h('option', { selected: cell === this.cell }, cell.name)),
    );
    const pickers = h(
      'div',
      { class: 'chart-extra joint-pick' },
      cells.length > 1 ? h('label', { class: 'tick' }, 'Cell ', which) : null,
      h('label', { class: 'tick' }, 'Joint ', this.select),
    );
    const table = h(
      'div',
      { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Table of joints' },
      h(
        'table',
        { class: 'list plain joints' },
        h(
          'thead',
          {},
          h(
            'tr',
            {},
            ...HEADS.map((head, i) =>
              h('th', { scope: 'col', ...(i > 1 ? { class: 'number' } : {}) }, head),
            ),
          ),
        ),
        this.body,
      ),
    );
    this.elements = [
      section(
        'joints',
        'Joints',
        'Lines: last cycle of each step; bands: all cycles of it, so that no extreme is left out.',
        pickers,
        h('div', { class: 'joint-charts' }, ...this.joints.charts.map(({ figure }) => figure)),
        this.frames?.figure,
        table,
      ),
      section(
        'bus',
        'Bus',
        'Devices in the order of the cable; each branch is listed below the device where it starts. A port’s errors occurred on the cable at that port.',
        this.bus,
      ),
    ];
    this.fill();
  }

  private get steps(): readonly JointStep[] {
    return this.cell.file.joints;
  }

  /** Shows another cell, with the joint that followed worst. */
  private fill(): void {
    const { robot, devices } = this.cell.file;
    const worsts = jointWorsts(this.steps, robot.joints.length);
    const error = (i: number): number => Math.abs(worsts[i]?.following ?? 0);
    this.chosen = worsts.reduce((worst, _, i) => (error(i) > error(worst) ? i : worst), 0);
    this.select.replaceChildren(
      ...robot.joints.map(({ name }, i) => h('option', { selected: i === this.chosen }, name)),
    );
    this.rows = robot.joints.map(({ name, following_rad: limit }, i) =>
      h(
        'tr',
        {
          onclick: () => {
            this.pick(i);
          },
        },
        h('th', { scope: 'row' }, h('button', { type: 'button', class: 'pick' }, name)),
        ...jointRow(worsts[i]!, limit).map((words, column) =>
          h('td', column === 0 ? {} : { class: 'number' }, words),
        ),
      ),
    );
    const order = this.rows.map((_, i) => i).sort((a, b) => error(b) - error(a));
    this.body.replaceChildren(...order.map((i) => this.rows[i]!));

    const tree = topologyTree(treeDevices(robot.devices, devices?.devices));
    this.bus.replaceChildren(
      devices === null
        ? h('p', { class: 'link' }, 'States and counts of the devices were not recorded.')
        : h(
            'p',
            { class: 'link' },
            `In cycle ${count(devices.cycle)}, the last one seen: ${busWords(devices)}`,
          ),
      tree.element,
    );
    this.redraw();
  }

  private pick(joint: number): void {
    this.chosen = joint;
    this.select.selectedIndex = joint;
    this.redraw();
  }

  /** The time of a step on the clock in use. */
  private at(t: Sec): Sec {
    const { file } = this.cell;
    return onClock(
      this.store.report,
      file,
      file.blocks.findLast((block) => block.t <= t),
      t,
      this.store.state.clock,
    );
  }

  private whole(): readonly [number, number] {
    const { steps } = this;
    const [first, last] = [steps[0], steps[steps.length - 1]];
    return first === undefined || last === undefined
      ? [0, 1]
      : [Math.min(0, this.at(sec(first.t))), this.at(sec(last.t))];
  }

  redraw(): void {
    this.joints.series = jointSeries(this.steps, this.chosen, ({ t }) => this.at(sec(t)));
    this.joints.span = this.store.state.range ?? this.whole();
    this.lanes = this.cell.file.frames.map((frames) => ({
      frames,
      t: frames.t_us.map((t) => this.at(sec(t / 1e6))),
    }));
    if (this.frames !== null) {
      this.pictures.fill(this.lanes);
      this.frames.redraw();
    }
    this.rows.forEach((row, i) => {
      row.classList.toggle('chosen', i === this.chosen);
    });
    this.joints.charts.forEach((chart) => {
      chart.redraw();
    });
  }
}
