// Privileges: which were granted, which were not, and the command that grants them.
import { announce } from '../a11y.ts';
import { h, prose, section } from '../dom.ts';
import type { Grant } from '../hlog.ts';

function copyable(line: string): HTMLElement {
  const code = h('code', {}, line);
  const button = h(
    'button',
    { type: 'button', class: 'quiet', 'aria-label': `Copy: ${line}` },
    'Copy',
  );
  button.addEventListener('click', () => {
    const done = (): void => {
      button.textContent = 'Copied';
      announce('Copied');
      setTimeout(() => {
        button.textContent = 'Copy';
      }, 1600);
    };
    const byHand = (): void => {
      getSelection()?.selectAllChildren(code);
      if (document.execCommand('copy')) done();
    };
    if (navigator.clipboard) navigator.clipboard.writeText(line).then(done, byHand);
    else byHand();
  });
  return h('div', { class: 'copy' }, code, button);
}

function rung(grant: Grant): HTMLElement {
  return h(
    'li',
    { class: grant.granted ? 'granted' : 'refused' },
    h(
      'div',
      { class: 'rung' },
      h('span', { class: 'sign', 'aria-hidden': 'true' }, grant.granted ? '✓' : '✕'),
      h('b', {}, grant.what),
      h('span', { class: 'state' }, grant.granted ? 'granted' : 'not granted'),
    ),
    h('p', {}, ...prose(grant.wanted)),
    !grant.granted && grant.why_not
      ? h('p', {}, h('span', { class: 'muted' }, 'Reason: '), ...prose(grant.why_not))
      : null,
    !grant.granted && grant.costs
      ? h('p', {}, h('span', { class: 'muted' }, 'Effect: '), ...prose(grant.costs))
      : null,
    !grant.granted && grant.remedy ? copyable(grant.remedy) : null,
  );
}

export function ladderSection(ladder: readonly Grant[]): HTMLElement {
  if (ladder.length === 0)
    return section('ladder', 'Privileges', 'The run did not record its privileges.');
  const refused = ladder.filter((grant) => !grant.granted);
  const granted = ladder.filter((grant) => grant.granted);
  const lead =
    refused.length === 0
      ? 'All requested privileges were granted.'
      : `${refused.length} of ${ladder.length} privileges ${refused.length === 1 ? 'was' : 'were'} not granted. Each is listed with its effect and, where there is one, the command that grants it.`;
  return section(
    'ladder',
    'Privileges',
    lead,
    refused.length > 0 ? h('ul', { class: 'ladder' }, ...refused.map(rung)) : null,
    granted.length > 0
      ? h(
          'details',
          { open: refused.length === 0 && granted.length < 4 },
          h(
            'summary',
            {},
            `${granted.length} granted`,
            h('span', { class: 'muted' }, ` ${granted.map((grant) => grant.what).join(', ')}`),
          ),
          h('ul', { class: 'ladder' }, ...granted.map(rung)),
        )
      : null,
  );
}
