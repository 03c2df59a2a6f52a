// The live view: a robot as it runs, from the events of its own process.
import { announce } from '../a11y.ts';
import { choice, h, section } from '../dom.ts';
import { chooseTheme, onTheme, startTheme, themeChoice } from '../theme.ts';
import { History, Totals } from './history.ts';
import { BusPart } from './bus.ts';
import { FigurePart } from './figure.ts';
import { JointsPart } from './joints.ts';
import { LoopPart } from './loop.ts';
import { NowPart } from './now.ts';
import { follow, type Hello, type LiveState } from './stream.ts';

/** Times between two drawings, ms: of the lines, of figures, of the histogram. */
const DRAW_EVERY = 100;
const FIGURES_EVERY = 250;
const HISTOGRAM_EVERY = 1000;

/** The seconds that the charts over time show. */
const SPANS = [
  { value: '10', label: '10 s' },
  { value: '60', label: '1 min' },
  { value: '300', label: '5 min' },
] as const;

const page = document.getElementById('page')!;

/** A robot on the page, from its greeting to the next one. */
class LivePage {
  private readonly history: History;
  private readonly totals: Totals;
  private readonly now: NowPart;
  private readonly figure: FigurePart;
  private readonly joints: JointsPart;
  private readonly loop: LoopPart;
  private readonly bus: BusPart;
  private readonly bar: HTMLElement;
  private seconds = 10;
  private isPaused = false;
  private drawn = { lines: 0, figures: 0, histogram: 0 };
  private waits = false;

  constructor({ robot, command, pid, total }: Hello) {
    this.history = new History(robot.joints.length);
    this.totals = new Totals({ robot, command, pid, total });
    this.now = new NowPart(robot, pid);
    this.figure = new FigurePart(robot);
    this.joints = new JointsPart(robot);
    this.loop = new LoopPart();
    this.bus = new BusPart(robot);
    const pause = h(
      'button',
      {
        type: 'button',
        class: 'quiet',
        'aria-pressed': 'false',
        onclick: () => {
          this.isPaused = !this.isPaused;
          pause.textContent = this.isPaused ? 'Continue' : 'Pause';
          pause.setAttribute('aria-pressed', String(this.isPaused));
          announce(this.isPaused ? 'Charts paused; counting continues' : 'Charts follow the robot');
          if (!this.isPaused) this.draw(true);
        },
      },
      'Pause',
    );
    this.bar = h(
      'div',
      { class: 'bar', role: 'group', 'aria-label': 'Joint and time range' },
      this.joints.picker,
      choice('Time range', SPANS, '10', (value) => {
        this.seconds = Number(value);
        this.joints.forget();
        this.draw(true);
      }),
      pause,
    );
    document.title = `onbeat: ${robot.name}`;
    page.replaceChildren(
      this.now.element,
      ...(this.figure.element === null ? [] : [this.figure.element]),
      this.bar,
      this.joints.element,
      this.loop.element,
      this.bus.element,
    );
    this.joints.picked = () => {
      this.draw(true);
    };
    onTheme(() => {
      this.draw(true, true);
    });
  }

  cycles(cycles: Parameters<History['add']>[0]): void {
    this.totals.add(cycles);
    this.now.cycles(cycles);
    if (!this.isPaused) this.history.add(cycles);
    this.joints.cycles(cycles);
    this.figure.cycles(cycles);
    if (this.waits) return;
    this.waits = true;
    requestAnimationFrame(() => {
      this.waits = false;
      this.draw(false);
    });
  }

  robot(state: LiveState): void {
    this.now.robotState(state);
    this.joints.robotState(state);
    this.figure.robotState(state);
    this.bus.robotState(state);
  }

  /** Draws what is due, or everything; `inFull` with colours, titles and legends. */
  draw(isAsked: boolean, inFull = false): void {
    const now = performance.now();
    const isDue = (what: keyof LivePage['drawn'], every: number): boolean => {
      if (!isAsked && now - this.drawn[what] < every) return false;
      this.drawn[what] = now;
      return true;
    };
    if (!this.isPaused || isAsked) {
      if (isDue('lines', DRAW_EVERY)) {
        this.joints.draw(this.history, this.seconds, inFull);
        this.figure.draw(this.joints.chosen);
        this.loop.drawLatencies(this.history, this.seconds, inFull);
      }
    }
    if (isDue('figures', FIGURES_EVERY)) {
      this.now.draw(this.totals);
      this.joints.drawTable(this.totals);
    }
    if (isDue('histogram', HISTOGRAM_EVERY)) this.loop.drawHistogram(this.totals);
  }

  events(events: Parameters<BusPart['events']>[0]): void {
    this.bus.events(events);
  }
  say(words: string, tone: 'good' | 'open' | 'bad'): void {
    this.now.connection(words, tone);
  }
}

let shown: LivePage | null = null;

function start(): void {
  startTheme();
  document.getElementById('chrome')!.append(
    choice(
      'Theme',
      [
        { value: 'auto', label: 'Auto' },
        { value: 'light', label: 'Light' },
        { value: 'dark', label: 'Dark' },
      ],
      themeChoice(),
      chooseTheme,
    ),
  );
  page.replaceChildren(
    section('now', 'Waiting for the robot', 'The page fills with the first cycle.'),
  );
  follow({
    hello: (hello) => {
      shown = new LivePage(hello);
    },
    cycles: (cycles) => {
      shown?.cycles(cycles);
    },
    robot: (state) => {
      shown?.robot(state);
    },
    events: (events) => {
      shown?.events(events);
    },
    end: () => {
      shown?.draw(true);
      shown?.say('The run has ended. The page shows its last minutes.', 'open');
      announce('The run has ended');
    },
    lost: () => {
      shown?.say('No connection to the robot’s process; the page tries again.', 'bad');
    },
  });
}

start();
