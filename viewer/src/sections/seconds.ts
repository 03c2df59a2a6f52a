// A run second by second, in the rows that Xenomai's latency test is reported with.
import { h, section } from '../dom.ts';
import type { Report } from '../model.ts';
import { count } from '../units.ts';

const us = (value: number): string => (value / 1000).toFixed(3);

export function secondsSection(report: Report): HTMLElement | null {
  const cells = report.cells.flatMap((cell) =>
    cell.figures.by_second
      ? [
          {
            name: cell.name,
            of: cell.figures.by_second,
            all: cell.figures.series['release_latency'],
          },
        ]
      : [],
  );
  if (cells.length === 0) return null;
  const row = (name: string, samples: number, mean: number, sd: number): HTMLElement =>
    h(
      'tr',
      {},
      h('th', { scope: 'row' }, name),
      ...[count(samples), us(mean), us(sd)].map((text) => h('td', { class: 'number' }, text)),
    );
  return section(
    'seconds',
    'Second by second',
    'Mean and standard deviation, over all whole seconds of the run, of the smallest, mean and largest release latency of a second, in µs. Overruns are skipped releases, as in Xenomai.',
    ...cells.map(({ name, of, all }) =>
      h(
        'div',
        { class: 'scroll' },
        h(
          'table',
          { class: 'list plain' },
          h(
            'caption',
            {},
            `${cells.length > 1 ? `${name}: ` : ''}${count(of.seconds)} seconds, ${count(of.overruns)} overruns`,
          ),
          h(
            'thead',
            {},
            h(
              'tr',
              {},
              h('th', { scope: 'col' }, 'per second'),
              ...['samples', 'avg', 'SD'].map((head) =>
                h('th', { scope: 'col', class: 'number' }, head),
              ),
            ),
          ),
          h(
            'tbody',
            {},
            row('min', of.seconds, of.min_mean_ns, of.min_sd_ns),
            row('avg', of.seconds, of.mean_mean_ns, of.mean_sd_ns),
            row('max', of.seconds, of.max_mean_ns, of.max_sd_ns),
            ...(all ? [row('all samples', all.count, all.mean_ns, all.sd_ns)] : []),
          ),
        ),
      ),
    ),
  );
}
