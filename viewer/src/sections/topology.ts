// The devices of a bus as a tree: a chain of devices in a row, branches below each other.
import { h } from '../dom.ts';
import { count } from '../units.ts';

/** A device, the one its cable comes from, what is shown of it, and whether something is wrong. */
export interface TreeDevice {
  name: string;
  kind: string;
  after: number | null;
  state: string;
  tone: 'good' | 'open' | 'bad';
  counts: string;
}

const SIGNS = { good: '●', open: '◐', bad: '▲' } as const;

/** The tree's element, and how to show new states on it. */
export interface Tree {
  element: HTMLElement;
  show: (devices: readonly TreeDevice[]) => void;
}

/** Builds the tree of devices in the order of the cable. */
export function topologyTree(devices: readonly TreeDevice[]): Tree {
  const children = devices.map((_, place) =>
    devices.flatMap(({ after }, i) => (after === place ? [i] : [])),
  );
  const chips = devices.map(({ name, kind }) =>
    h(
      'li',
      { class: 'device', title: kind },
      h('span', { class: 'sign', 'aria-hidden': 'true' }),
      h('b', {}, name),
      h('span', { class: 'state' }),
      h('span', { class: 'counts' }),
    ),
  );

  const chain = (start: number): HTMLElement[] => {
    const row: HTMLElement[] = [];
    let at = start;
    for (;;) {
      row.push(chips[at]!);
      const next = children[at]!;
      if (next.length !== 1) {
        const list = h('ul', { class: 'chain' }, ...row);
        return next.length === 0
          ? [list]
          : [
              list,
              h(
                'ul',
                { class: 'branches' },
                ...next.map((branch) => h('li', {}, ...chain(branch))),
              ),
            ];
      }
      at = next[0]!;
    }
  };
  const roots = devices.flatMap(({ after }, i) => (after === null ? [i] : []));
  const element = h('div', { class: 'tree' }, ...roots.flatMap(chain));
  const shown: string[] = devices.map(() => '');
  const show = (now: readonly TreeDevice[]): void =>
    now.forEach(({ state, tone, counts }, i) => {
      const key = `${state}/${tone}/${counts}`;
      if (shown[i] === key) return;
      shown[i] = key;
      const [sign, , words, errors] = [...chips[i]!.children] as HTMLElement[];
      chips[i]!.className = `device ${tone}`;
      sign!.textContent = SIGNS[tone];
      words!.textContent = state;
      errors!.textContent = counts;
    });
  show(devices);
  return { element, show };
}

const AL_STATES: Readonly<Record<number, string>> = { 1: 'INIT', 2: 'PREOP', 4: 'SAFEOP', 8: 'OP' };
const JOINT_WORDS: Readonly<Record<string, string>> = {
  not_ready: 'not ready',
  switch_on_disabled: 'off',
  ready_to_switch_on: 'ready',
  switched_on: 'switched on',
  operation_enabled: 'enabled',
  quick_stop_active: 'quick stop',
  fault_reaction: 'fault reaction',
  fault: 'fault',
};
const REASONS: Readonly<Record<string, string>> = {
  drive_fault: 'down: fault',
  left_operation: 'down: disabled',
  following_error: 'down: following',
  not_enabled: 'not enabled',
  other_mode: 'down: mode',
};

/** What an error counter of a device has counted since the bus came up; a counter of 8 bits that is full makes it a lower bound. */
export interface CountedErrors {
  counter: string;
  port: number | null;
  count: number;
  at_least: boolean;
}

/** What is known of a device at one instant. */
export interface DeviceFacts {
  errors?: CountedErrors[];
  al_state: number | null;
  al_status_code: number;
  joint_state: string | null;
  reason: string | null;
  lost: number;
  fell_back: number;
  other_alarms: number;
}

/** A joint's state in words: the reason for being down comes before the drive's state. */
export const jointWords = ({ joint_state: state, reason }: DeviceFacts): string =>
  (reason !== null && REASONS[reason]) || (state === null ? '' : (JOINT_WORDS[state] ?? state));

/** A device and where its cable comes from. */
interface CabledDevice {
  name: string;
  kind: string;
  after: number | null;
  port: number | null;
}

const COUNTERS: Readonly<Record<string, string>> = {
  invalid_frames: 'invalid frames',
  rx_errors: 'RX errors',
  lost_links: 'lost links',
  processing_unit_errors: 'processing unit errors',
  pdi_errors: 'PDI errors',
};

/** The device at the far end of a port's cable, in words. */
function farEnd(devices: readonly CabledDevice[], place: number, port: number): string {
  const { after } = devices[place]!;
  if (port === 0) return after === null ? ' from MainDevice' : ` from ${devices[after]!.name}`;
  const next = devices.find((device) => device.after === place && device.port === port);
  return next === undefined ? '' : ` to ${next.name}`;
}

/** The errors of a device, port by port: an error that a port counts arose on the cable at it. */
export function errorWords(
  devices: readonly CabledDevice[],
  place: number,
  errors: readonly CountedErrors[],
): string[] {
  const ports = [...new Set(errors.map(({ port }) => port))];
  return ports.map((port) => {
    const counts = errors
      .filter((error) => error.port === port)
      .map(
        ({ counter, count: n, at_least: atLeast }) =>
          `${atLeast ? '≥ ' : ''}${count(n)} ${COUNTERS[counter] ?? counter}`,
      );
    return `${port === null ? '' : `port ${port}${farEnd(devices, place, port)}: `}${counts.join(', ')}`;
  });
}

/** All devices of the tree with their states. */
export const treeDevices = (
  devices: readonly CabledDevice[],
  facts: readonly DeviceFacts[] | undefined,
): TreeDevice[] => devices.map((_, place) => treeDevice(devices, place, facts?.[place]));

/** A device of the tree with its state. Devices with `device_lost` events before now are marked. */
function treeDevice(
  devices: readonly CabledDevice[],
  place: number,
  facts: DeviceFacts | undefined,
): TreeDevice {
  const device = devices[place]!;
  const shown = { name: device.name, kind: device.kind, after: device.after };
  if (facts === undefined) return { ...shown, state: '', tone: 'open', counts: '' };
  const { al_state: al, al_status_code: code, reason } = facts;
  const state =
    al === null
      ? 'no answer'
      : `${AL_STATES[al] ?? `AL state ${al}`}${code === 0 ? '' : ` 0x${code.toString(16).padStart(4, '0')}`}`;
  const joint = jointWords(facts);
  const isDown = reason !== null && reason !== 'none';
  const tone = al === null || code !== 0 || isDown ? 'bad' : al === 8 ? 'good' : 'open';
  const counts = [
    [facts.lost, 'lost'],
    [facts.fell_back, 'fell back'],
    [facts.other_alarms, 'alarms'],
  ] as const;
  return {
    ...shown,
    tone,
    state: [state, joint].filter((word) => word !== '').join(' · '),
    counts: [
      counts
        .filter(([n]) => n > 0)
        .map(([n, word]) => `${word} ${n}×`)
        .join(', '),
      ...errorWords(devices, place, facts.errors ?? []),
    ]
      .filter((words) => words !== '')
      .join('; '),
  };
}

const many = (n: number, word: string, one = '', more = 's'): string =>
  `${count(n)} ${word}${n === 1 ? one : more}`;

/** What was counted on the bus as a whole, in words. */
export const busWords = ({
  working_counter: now,
  expected,
  lost,
  late,
  strange,
}: {
  working_counter: number;
  expected: number;
  lost: number;
  late: number;
  strange: number;
}): string =>
  `MainDevice: working counter ${now} of ${expected}; ${many(lost, 'cycle')} without a complete reply, ${many(late, 'late repl', 'y', 'ies')}, ${many(strange, 'damaged, duplicate or foreign frame')}.`;
