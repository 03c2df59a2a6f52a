// A stick figure of a humanoid, from the side and from the front, by the names of its joints.
import { h, section, svg } from '../dom.ts';
import { AT, type LiveCycles, type LiveRobot, type LiveState } from './stream.ts';

/** A joint's place among the robot's, `null` for one that it has not. */
type JointIndex = number | null;
type Side = 'left' | 'right';
const SIDES: readonly Side[] = ['left', 'right'];

interface Limb {
  side: Side;
  pitch: JointIndex;
  roll: JointIndex;
  /** Knee or elbow. */
  middle: JointIndex;
  /** Ankle; arms have none here. */
  end: JointIndex;
}
export interface Body {
  waist: { pitch: JointIndex; roll: JointIndex };
  neck: { pitch: JointIndex; roll: JointIndex };
  legs: Limb[];
  arms: Limb[];
}

/** Lengths as parts of a human's height: Winter, Biomechanics and Motor Control of Human Movement (2009), figure 4.1. */
const LENGTH = {
  thigh: 0.245,
  shank: 0.246,
  foot: 0.152,
  trunk: 0.288,
  upperArm: 0.186,
  forearm: 0.146,
  head: 0.13,
  hip: 0.0955,
  shoulder: 0.1295,
};
/** Height of the pelvis when the legs are straight. */
const PELVIS = LENGTH.thigh + LENGTH.shank + 0.04;

export type Point = readonly [number, number];
/** A part of the body; `joint` is the one at its beginning. */
export interface Stick {
  from: Point;
  to: Point;
  side: Side | 'middle' | 'head';
  joint: JointIndex;
}

/**
 * The joints of a body: those with the words of its parts in their names, as the gait of `onbeat robot run` finds them. `null` without a leg
 * or an arm of two joints.
 */
export function bodyOf(names: readonly string[]): Body | null {
  const find = (part: string, isRoll: boolean, side: Side | ''): JointIndex => {
    const place = names.findIndex((name) => {
      const words = name.toLowerCase();
      const isOfAxis = isRoll ? words.includes('roll') : !/roll|yaw/.test(words);
      return words.includes(part) && words.includes(side) && isOfAxis;
    });
    return place < 0 ? null : place;
  };
  const limb = (side: Side, [upper, middle, end]: readonly [string, string, string]): Limb => ({
    side,
    pitch: find(upper, false, side),
    roll: find(upper, true, side),
    middle: find(middle, false, side),
    end: find(end, false, side),
  });
  const isThere = ({ pitch, middle }: Limb): boolean => pitch !== null && middle !== null;
  const of = (words: readonly [string, string, string]): Limb[] =>
    SIDES.map((side) => limb(side, words)).filter(isThere);
  const legs = of(['hip', 'knee', 'ankle']);
  const arms = of(['shoulder', 'elbow', 'wrist']);
  if (legs.length + arms.length === 0) return null;
  const both = (part: string): Body['waist'] => ({
    pitch: find(part, false, ''),
    roll: find(part, true, ''),
  });
  return { waist: both('waist'), neck: both('neck'), legs, arms };
}

type Angle = (joint: JointIndex) => number;
/** The end of a stick that hangs at an angle, positive to the right. */
const hung = ([x, y]: Point, angle: number, length: number, seen = 1): Point => [
  x + length * Math.sin(angle),
  y - length * Math.cos(angle) * seen,
];

/**
 * From its right side, looking to the right: positive angles move hips, shoulders and elbows forward, knees back and toes up.
 *
 *     neck •        arm: shoulder − waist, then + elbow
 *          |        leg: hip, then − knee; the foot + ankle
 *     pelvis
 */
export function fromTheSide({ waist, neck, legs, arms }: Body, angle: Angle): Stick[] {
  const pelvis: Point = [0, PELVIS];
  const lean = angle(waist.pitch);
  const shoulders: Point = [LENGTH.trunk * Math.sin(lean), PELVIS + LENGTH.trunk * Math.cos(lean)];
  const nod = lean + angle(neck.pitch);
  const crown: Point = [
    shoulders[0] + LENGTH.head * Math.sin(nod),
    shoulders[1] + LENGTH.head * Math.cos(nod),
  ];
  const sticks: Stick[] = [
    { from: pelvis, to: shoulders, side: 'middle', joint: waist.pitch },
    { from: shoulders, to: crown, side: 'head', joint: neck.pitch },
  ];
  for (const { side, pitch, middle, end } of legs) {
    const thigh = angle(pitch);
    const shank = thigh - angle(middle);
    const foot = shank + angle(end);
    const knee = hung(pelvis, thigh, LENGTH.thigh);
    const ankle = hung(knee, shank, LENGTH.shank);
    const toe: Point = [
      ankle[0] + LENGTH.foot * Math.cos(foot),
      ankle[1] + LENGTH.foot * Math.sin(foot),
    ];
    sticks.push({ from: pelvis, to: knee, side, joint: pitch });
    sticks.push({ from: knee, to: ankle, side, joint: middle });
    sticks.push({ from: ankle, to: toe, side, joint: end });
  }
  for (const { side, pitch, middle } of arms) {
    const upper = angle(pitch) - lean;
    const elbow = hung(shoulders, upper, LENGTH.upperArm);
    const hand = hung(elbow, upper + angle(middle), LENGTH.forearm);
    sticks.push({ from: shoulders, to: elbow, side, joint: pitch });
    sticks.push({ from: elbow, to: hand, side, joint: middle });
  }
  return sticks;
}

/** From the front, its left hand on the right: positive rolls move limbs to its left (REP 103); what is bent forward looks shorter. */
export function fromTheFront({ waist, neck, legs, arms }: Body, angle: Angle): Stick[] {
  const pelvis: Point = [0, PELVIS];
  const lean = angle(waist.roll);
  const up = ([x, y]: Point, roll: number, length: number): Point => [
    x - length * Math.sin(roll),
    y + length * Math.cos(roll),
  ];
  const shoulders = up(pelvis, lean, LENGTH.trunk);
  const crown = up(shoulders, lean + angle(neck.roll), LENGTH.head);
  const sticks: Stick[] = [
    { from: pelvis, to: shoulders, side: 'middle', joint: waist.roll },
    { from: shoulders, to: crown, side: 'head', joint: neck.roll },
  ];
  const add = (
    limb: Limb,
    from: Point,
    turned: number,
    upper: number,
    lower: number,
    bent: number,
  ): void => {
    const { side, pitch, middle } = limb;
    const roll = angle(limb.roll) + turned;
    const joint = hung(from, roll, upper, Math.cos(angle(pitch)));
    const end = hung(joint, roll, lower, Math.cos(angle(pitch) + bent));
    sticks.push({ from, to: joint, side, joint: limb.roll });
    sticks.push({ from: joint, to: end, side, joint: middle });
  };
  const out = (side: Side): number => (side === 'left' ? 1 : -1);
  for (const leg of legs) {
    const hip: Point = [out(leg.side) * LENGTH.hip, PELVIS];
    sticks.push({ from: pelvis, to: hip, side: leg.side, joint: null });
    add(leg, hip, 0, LENGTH.thigh, LENGTH.shank, -angle(leg.middle));
  }
  for (const arm of arms) {
    const width = out(arm.side) * LENGTH.shoulder;
    const shoulder: Point = [
      shoulders[0] + width * Math.cos(lean),
      shoulders[1] + width * Math.sin(lean),
    ];
    sticks.push({ from: shoulders, to: shoulder, side: arm.side, joint: null });
    add(arm, shoulder, lean, LENGTH.upperArm, LENGTH.forearm, angle(arm.middle));
  }
  return sticks;
}

const VIEWS = [
  { title: 'from its right side', sticks: fromTheSide },
  { title: 'from the front', sticks: fromTheFront },
] as const;

/** Both views of a robot that runs. */
export class FigurePart {
  /** `null` for a robot whose joints have no names of a body. */
  readonly element: HTMLElement | null;
  private readonly views: { group: SVGElement; sticks: (typeof VIEWS)[number]['sticks'] }[] = [];
  private newest: LiveCycles | null = null;
  private state: LiveState | null = null;
  private readonly body: Body | null;

  constructor(private readonly robot: LiveRobot) {
    this.body = bodyOf(robot.joints.map(({ name }) => name));
    this.element = this.body === null ? null : this.built();
  }

  private built(): HTMLElement {
    const figures = VIEWS.map(({ title, sticks }) => {
      const group = svg('g', {});
      this.views.push({ group, sticks });
      return h(
        'figure',
        {},
        svg(
          'svg',
          { viewBox: '-50 -100 100 106', role: 'img', 'aria-label': `The robot ${title}` },
          svg('line', { class: 'floor', x1: -50, x2: 50, y1: 0, y2: 0 }),
          group,
        ) as unknown as HTMLElement,
        h('figcaption', {}, title),
      );
    });
    return section(
      'figure',
      'Pose',
      'Drawn from the actual angles of joints whose names have the words of a body, with the lengths of a human. The chosen joint has a ring; a joint that is down is red; the left side is lighter.',
      h('div', { class: 'figures' }, ...figures),
    );
  }

  cycles(cycles: LiveCycles): void {
    this.newest = cycles;
  }
  robotState(state: LiveState): void {
    this.state = state;
  }

  draw(chosen: number): void {
    const { body, newest, robot, state } = this;
    if (body === null || newest === null) return;
    // A joint whose angle is not known is drawn straight.
    const angle: Angle = (joint) => (joint === null ? 0 : (newest.joints[joint]?.[AT.actual] ?? 0));
    const isDown = (joint: JointIndex): boolean => {
      const device = joint === null ? undefined : robot.joints[joint]?.device;
      const facts = device === undefined ? undefined : state?.devices[device];
      return facts !== undefined && facts.reason !== null && facts.reason !== 'none';
    };
    for (const { group, sticks } of this.views) {
      const marks: SVGElement[] = [];
      const lines = sticks(body, angle).map(({ from, to, side, joint }) => {
        const [x1, y1, x2, y2] = [from[0], -from[1], to[0], -to[1]].map((n) =>
          (n * 100).toFixed(1),
        );
        if (joint !== null && (joint === chosen || isDown(joint)))
          marks.push(
            svg('circle', {
              cx: x1!,
              cy: y1!,
              r: joint === chosen ? 3 : 2,
              class: isDown(joint) ? 'down' : 'chosen',
            }),
          );
        if (side === 'head')
          marks.push(svg('ellipse', { cx: x2!, cy: Number(y2) + 4, rx: 3, ry: 4 }));
        return svg('line', {
          x1: x1!,
          y1: y1!,
          x2: x2!,
          y2: y2!,
          class: `${side}${isDown(joint) ? ' down' : ''}`,
        });
      });
      group.replaceChildren(...lines, ...marks);
    }
  }
}
