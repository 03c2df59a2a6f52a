// Conclusions as a run of an hour would have them, for pages of tests.
import type { Conclusions } from '../src/conclusions.ts';
import { ns } from '../src/units.ts';

const US = 1000;
const latency = (us: number): ReturnType<typeof ns> => ns(Math.round(us * US));

/** A level of 15 s every 5 min 18 s, and single late cycles every 5 s with places that no step fell on. */
const modes: Conclusions['modes'] = {
  step_s: 1,
  steps: 3600,
  shortest_s: 0.002,
  longest_s: 900,
  sentence: '2 disturbances come back at their time.',
  found: [
    {
      period_s: 318,
      period_cycles: 318_000,
      size_ns: latency(4),
      lifts: 'most',
      duration_s: 15,
      share: 0.047,
      seen: 11,
      periods: 11,
      first_s: 12,
      tied: 'undecided',
      sentence:
        '+3.99 us for 15.0 s every 5 min 18 s, in 11 of 11 periods, 4.7 % of all samples; this run does not show whether it is periodic in time or in cycles',
      phase: {
        p50_ns: Array.from({ length: 159 }, (_, i) =>
          latency((i >= 16 && i < 24 ? 29 : 25) + ((i * 7) % 5) / 20),
        ),
        p90_ns: Array.from({ length: 159 }, (_, i) =>
          latency((i >= 16 && i < 24 ? 37 : 33) + ((i * 5) % 7) / 10),
        ),
        max_ns: Array.from({ length: 159 }, (_, i) => latency(80 + ((i * 11) % 23))),
      },
    },
    {
      period_s: 5,
      period_cycles: 5000,
      size_ns: latency(185),
      lifts: 'single',
      duration_s: 1,
      share: 0.0002,
      seen: 712,
      periods: 720,
      first_s: 1.5,
      tied: 'time',
      sentence:
        '+185 us in single cycles every 5.0 s, in 712 of 720 periods, at least 0.02 % of all samples; periodic in time, independent of the loop',
      phase: {
        p50_ns: Array.from({ length: 20 }, (_, i) => (i % 4 === 2 ? latency(25) : null)),
        p90_ns: [],
        max_ns: [
          null,
          latency(210),
          null,
          latency(71),
          null,
          latency(70),
          null,
          latency(73),
          null,
          latency(69),
        ],
      },
    },
  ],
};

const edges = Array.from({ length: 41 }, (_, i) => latency(7 * (220 / 7) ** (i / 40)));
const bell = (i: number): number =>
  3_600_000 * 0.12 * Math.exp(-(((edges[i]! / US - 26) / 7) ** 2));

export const concluded: Conclusions = {
  series: 'release_latency',
  modes,
  normal: {
    count: 3_600_000,
    mean_ns: latency(26),
    sd_ns: latency(7),
    max_ns: latency(219),
    tail_ratio: 27.6,
    normal_max_ns: latency(61),
    normal_tail_ratio: 5.03,
    log10_expected_beyond: -161,
    within_one_sd: 0.81,
    sentence:
      "A normal distribution of this mean and SD would end at 61 us (5.03 SD) in 3,600,000 samples; the run's largest wake-up latency is 219 us (27.6 SD), which it would reach once in 10^161 such runs.",
    curve: {
      from_ns: edges,
      count: Array.from({ length: 40 }, (_, i) =>
        Math.round(Math.max(bell(i), 4000 * Math.exp(-i / 4))),
      ),
      normal: Array.from({ length: 40 }, (_, i) => bell(i)),
    },
  },
  extremes: {
    mission_s: 28_800,
    largest_ns: latency(219),
    sentence:
      'In 8 h the worst wake-up latency is estimated at 251 us (95 % interval 214 us to 330 us), from 360 peaks over 88 us in 1 h, of which the largest is 219 us.',
    estimate: {
      mission_s: 28_800,
      worst_ns: latency(251),
      low_ns: latency(214),
      high_ns: latency(330),
      threshold_ns: latency(88),
      peaks: 360,
      stretches_over: 371,
      stretches: 3600,
      stretch_s: 1,
      shape: 0.04,
      shape_above: 0.01,
      scale_ns: latency(15),
      anderson_darling: 0.41,
      critical: 0.78,
      passed_over: 0,
      curve: [50, 200, 800, 3200, 9600, 28_800].map((mission_s, i) => ({
        mission_s,
        worst_ns: latency(112 + 28 * i),
        low_ns: latency(110 + 21 * i),
        high_ns: latency(115 + 43 * i),
      })),
      observed: [7200, 2400, 1440, 1000, 600, 300, 100, 50].map((every_s, i) => ({
        every_s,
        ns: latency(219 - 15 * i),
      })),
    },
  },
  enough: {
    at: 99.999,
    period_ns: ns(1e6),
    releases: 299_572,
    seconds: 299.572,
    over: 0,
    sentence:
      'To show that 99.999 % of the releases are on time takes 299,572 releases with none of them over the limit: 5 min at a period of 1 ms.',
  },
};

/** The same where nothing comes back and no estimate was made. */
export const refused: Conclusions = {
  ...concluded,
  normal: null,
  modes: {
    ...modes,
    found: [],
    sentence: 'Nothing in 600 steps of 100 ms came back with a period between 2 ms and 15.0 s.',
  },
  extremes: {
    mission_s: 600,
    largest_ns: latency(219),
    estimate: null,
    sentence:
      'No estimate of the worst in 10 min: the run has 100 stretches of 100 ms, and 400 are needed; measure for 40.0 s or longer.',
  },
};
