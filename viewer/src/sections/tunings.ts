// The commands beside a remedy: its tunings in full, and what the first is worth here.
import { measureCommand, tuningCommand, type Asked, type Situation } from '../advice.ts';
import { h } from '../dom.ts';

export function tuningLines(cause: Asked, situation: Situation): HTMLElement[] {
  const line = (label: string, command: string): HTMLElement[] =>
    command === '' ? [] : [h('p', { class: 'muted' }, label, h('code', {}, command))];
  return [
    ...line('Tunings: ', tuningCommand(cause, situation)),
    ...line('Worth here: ', measureCommand(cause, situation)),
  ];
}
