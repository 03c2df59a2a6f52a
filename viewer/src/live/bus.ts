// The bus of the live view: its devices as a tree, what was lost on the way, and the latest events.
import { h, section } from '../dom.ts';
import { busWords, topologyTree, treeDevices, type Tree } from '../sections/topology.ts';
import { count } from '../units.ts';
import type { LiveEvent, LiveRobot, LiveState } from './stream.ts';

/** Events shown. */
const MOST_EVENTS = 50;

export class BusPart {
  readonly element: HTMLElement;
  private readonly tree: Tree;
  private readonly link = h('p', { class: 'link' });
  private readonly list = h('ol', {
    class: 'live-events',
    tabindex: 0,
    'aria-label': 'Latest events',
  });
  private leftOut = 0;
  private readonly missing = h('p', { class: 'muted' });

  constructor(private readonly robot: LiveRobot) {
    this.tree = topologyTree(treeDevices(robot.devices, undefined));
    this.missing.hidden = true;
    this.element = h(
      'div',
      {},
      section(
        'bus',
        'Bus',
        'Devices in the order of the cable; each branch is listed below the device where it starts. Counts are since the start of the run; a port’s errors occurred on the cable at that port.',
        this.link,
        this.tree.element,
      ),
      section('events', 'Events', null, this.list, this.missing),
    );
    this.list.append(h('li', { class: 'muted' }, 'No events yet.'));
  }

  robotState(state: LiveState): void {
    const { bus } = state;
    this.link.textContent = busWords(bus);
    this.link.classList.toggle('bad', bus.no_answer_ns > 0);
    this.tree.show(treeDevices(this.robot.devices, state.devices));
  }

  events({ left_out: leftOut, events }: { left_out: number; events: LiveEvent[] }): void {
    if (this.list.querySelector('li.muted') !== null) this.list.replaceChildren();
    for (const { cycle, alarm, words } of events) {
      this.list.prepend(
        h(
          'li',
          alarm ? { class: 'alarm' } : {},
          h('span', { class: 'muted' }, `cycle ${count(cycle)}`),
          ' ',
          alarm ? h('span', { class: 'sign', 'aria-label': 'alarm' }, '▲ ') : '',
          words,
        ),
      );
    }
    this.leftOut += leftOut;
    while (this.list.children.length > MOST_EVENTS) {
      this.list.lastElementChild!.remove();
      this.leftOut++;
    }
    this.missing.hidden = this.leftOut === 0;
    this.missing.textContent = `${count(this.leftOut)} earlier events are in the run file.`;
  }
}
