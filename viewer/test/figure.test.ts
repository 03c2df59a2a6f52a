import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { bodyOf, fromTheFront, fromTheSide, type Body, type Stick } from '../src/live/figure.ts';

const NAMES = [
  'waist yaw',
  'waist roll',
  'waist pitch',
  'left shoulder pitch',
  'left shoulder roll',
  'left elbow',
  'right shoulder pitch',
  'right elbow',
  'neck pitch',
  'left hip yaw',
  'left hip roll',
  'left hip pitch',
  'left knee',
  'left ankle pitch',
  'right_hip_pitch',
  'right_knee',
];
const body = bodyOf(NAMES)!;
const at = (angles: Readonly<Record<string, number>>) => (joint: number | null) =>
  joint === null ? 0 : (angles[NAMES[joint]!] ?? 0);
/** The end of the stick that begins at a joint. */
const end = (sticks: readonly Stick[], name: string): readonly [number, number] =>
  sticks.find(({ joint }) => joint !== null && NAMES[joint] === name)!.to;
const length = ({ from, to }: Stick): number => Math.hypot(to[0] - from[0], to[1] - from[1]);

describe('the stick figure of a robot', () => {
  test('a body is found by the words of its joints, whatever parts them', () => {
    assert.deepEqual(
      [body.waist, body.neck],
      [
        { pitch: 2, roll: 1 },
        { pitch: 8, roll: null },
      ],
    );
    assert.deepEqual(body.legs, [
      { side: 'left', pitch: 11, roll: 10, middle: 12, end: 13 },
      { side: 'right', pitch: 14, roll: null, middle: 15, end: null },
    ] satisfies Body['legs']);
    assert.equal(body.arms.length, 2);
  });

  test('a robot that is no body has no figure', () => {
    for (const names of [[], ['joint 1', 'joint 2'], ['left hip pitch'], ['shoulder', 'elbow']])
      assert.equal(bodyOf(names), null, names.join());
  });

  test('one leg or one arm is enough', () => {
    assert.equal(bodyOf(['left shoulder', 'left elbow'])!.arms.length, 1);
    assert.equal(bodyOf(['Right Hip', 'Right Knee'])!.legs.length, 1);
  });

  test('straight, it stands on the floor and is as tall as its parts', () => {
    for (const view of [fromTheSide, fromTheFront]) {
      const heights = view(body, () => 0).flatMap(({ from, to }) => [from[1], to[1]]);
      assert.ok(Math.abs(Math.min(...heights) - 0.04) < 1e-9, view.name);
      assert.ok(Math.abs(Math.max(...heights) - 0.949) < 1e-9, view.name);
    }
  });

  test('from the side, no angle changes the length of a part', () => {
    const straight = fromTheSide(body, () => 0).map(length);
    for (const seed of [0.3, -1.1, 2.7]) {
      const bent = fromTheSide(body, (joint) => (joint === null ? 0 : seed * (joint % 5))).map(
        length,
      );
      bent.forEach((n, i) => {
        assert.ok(Math.abs(n - straight[i]!) < 1e-9);
      });
    }
  });

  test('a hip swings its leg forward, a knee bends back, an ankle that undoes both keeps the foot level', () => {
    const sticks = fromTheSide(
      body,
      at({ 'left hip pitch': 0.5, 'left knee': 0.8, 'left ankle pitch': 0.3 }),
    );
    const knee = end(sticks, 'left hip pitch');
    const ankle = end(sticks, 'left knee');
    const toe = end(sticks, 'left ankle pitch');
    assert.ok(knee[0] > 0.1 && ankle[0] < knee[0]);
    assert.ok(Math.abs(toe[1] - ankle[1]) < 1e-9);
    assert.equal(end(sticks, 'right_knee')[0], 0, 'the other leg stands');
  });

  test('from the front, a roll moves the left foot to its left, and a bent knee is shorter', () => {
    const straight = end(fromTheFront(body, at({})), 'left knee');
    const rolled = end(fromTheFront(body, at({ 'left hip roll': 0.2 })), 'left knee');
    const bent = end(fromTheFront(body, at({ 'left knee': 1 })), 'left knee');
    assert.ok(rolled[0] > straight[0]);
    assert.ok(bent[1] > straight[1] && Math.abs(bent[0] - straight[0]) < 1e-9);
  });
});
