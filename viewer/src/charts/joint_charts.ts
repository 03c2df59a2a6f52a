// The four charts of one joint, for live and finished runs.
import { Chart, type Drawing } from './frame.ts';
import { followingErrors, positions, states, torques, type JointSeries } from './joint.ts';

export const NO_STEPS: JointSeries = {
  t: [],
  first: [],
  cycle: [],
  states: [],
  target: { last: [], low: [], high: [] },
  actual: { last: [], low: [], high: [] },
  following: { last: [], low: [], high: [] },
  torque: { last: [], low: [], high: [] },
};

export class JointCharts {
  readonly charts: readonly Chart[];
  series: JointSeries = NO_STEPS;
  /** The stretch of time that is shown, s. */
  span: readonly [number, number] = [0, 10];

  /** `subject` names the joint; `finish` completes each drawing. */
  constructor(subject: () => string, finish: (drawing: Drawing) => Drawing = (drawing) => drawing) {
    const chart = (
      id: string,
      title: string,
      lead: string,
      make: (series: JointSeries, span: readonly [number, number]) => Drawing | string,
    ): Chart =>
      new Chart(
        id,
        title,
        lead,
        220,
        () => {
          const drawing = make(this.series, this.span);
          return typeof drawing === 'string' ? drawing : finish(drawing);
        },
        subject,
      );
    this.charts = [
      chart(
        'position',
        'Position',
        'Target and actual. Lines: last cycle of each step; bands: all cycles of it.',
        positions,
      ),
      chart(
        'following',
        'Following error',
        'Target minus actual position, while the drive follows its target.',
        followingErrors,
      ),
      chart('torque', 'Torque', 'Thousandths of the rated torque.', torques),
      chart(
        'states',
        'States',
        'States of the drive’s power stage: every one that occurred.',
        states,
      ),
    ];
    this.charts.forEach((one, i) => {
      one.lead(this.charts.filter((_, j) => j !== i));
    });
  }

  forget(): void {
    this.charts.forEach((chart) => {
      chart.forget();
    });
  }
}
