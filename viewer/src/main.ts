// Puts the page together: data in, sections out, and again when files are dropped.
import { announce } from './a11y.ts';
import { buildCharts, firstChart, isTimed } from './charts/all.ts';
import { deriveSummary } from './derive.ts';
import { choice, h, section, unquoted } from './dom.ts';
import type { RunFile, Unpacked } from './hlog.ts';
import { firstCells, type First } from './focus.ts';
import { keysDialog } from './keys.ts';
import { followRun, type Following } from './live_run.ts';
import { availableSeries, buildReport, isMeasured, type Report } from './model.ts';
import { fragment, readPlace } from './place.ts';
import { startPrint } from './print.ts';
import { fromFiles, fromTag } from './source.ts';
import { firstState, Store, type State } from './state.ts';
import { chooseTheme, onTheme, startTheme, themeChoice } from './theme.ts';
import { duration, moment, sec } from './units.ts';
import { SERIES, seriesWord } from './words.ts';
import { causesSection } from './sections/causes.ts';
import { comparedSection } from './sections/compared.ts';
import { Contents } from './sections/contents.ts';
import { effectsSection } from './sections/effects.ts';
import { cpusSection } from './sections/cpus.ts';
import { eventsSection } from './sections/events.ts';
import { extremesSection } from './sections/extremes.ts';
import { ladderSection } from './sections/ladder.ts';
import { matrixSection } from './sections/matrix.ts';
import { modesSection } from './sections/modes.ts';
import { normalSection } from './sections/normal.ts';
import { glossarySection, notesSection } from './sections/notes.ts';
import { chainSection } from './sections/chain.ts';
import { packetsSection } from './sections/packets.ts';
import { robotSections } from './sections/robot.ts';
import { picker } from './sections/picker.ts';
import { secondsSection } from './sections/seconds.ts';
import { spikesSection } from './sections/spikes.ts';
import { sweepSection } from './sections/sweep.ts';
import { verdictSection } from './sections/verdict.ts';

const page = document.getElementById('page')!;
let redrawAll: () => void = () => {};
let held: RunFile[] = [];
let shown: Unpacked | null = null;
/** Takes what a growing run has now into the page that is shown; false where it needs a new page. */
let refresh: ((unpacked: Unpacked) => boolean) | null = null;

/** The bar that stays in sight: which series, which stretch of time. */
function controlBar(store: Store): { element: HTMLElement; redraw: () => void } {
  const tags = availableSeries(
    store.report,
    SERIES.map((word) => word.tag),
  );
  const range = h('div', { class: 'range' });
  const element = h(
    'div',
    { class: 'bar', role: 'group', 'aria-label': 'Series and time range' },
    choice(
      'Series',
      tags.map((tag) => ({
        value: tag,
        label: seriesWord(tag).name,
        title: seriesWord(tag).meaning,
      })),
      store.state.tag,
      (tag) => store.set({ tag }),
    ),
    range,
  );
  const redraw = (): void => {
    const now = store.state.range;
    range.replaceChildren(
      now === null
        ? h('span', { class: 'muted' }, 'whole recording')
        : h(
            'span',
            {},
            `${moment(now[0])} to ${moment(now[1])} `,
            h('span', { class: 'muted' }, `(${duration(sec(now[1] - now[0]))})`),
          ),
      now === null
        ? ''
        : h(
            'button',
            {
              type: 'button',
              class: 'quiet',
              onclick: () => {
                store.set({ range: null });
                announce('Whole recording shown');
              },
            },
            'Show all',
          ),
    );
  };
  // Links to sections leave as much room above as the bar takes.
  new ResizeObserver(() =>
    document.documentElement.style.setProperty('--bar', `${element.offsetHeight}px`),
  ).observe(element);
  return { element, redraw };
}

/** How long after a change the address follows: some browsers refuse to be asked more often. */
const ADDRESS_AFTER_MS = 250;

/** Belongs to the current page; listeners of a previous page are removed. */
let following: ReturnType<typeof setTimeout> | undefined;
let addressOf: (section: string) => string = () => '';

/** Keeps the address beside what is shown, and the list of contents beside both. */
function keepPlace(store: Store, first: State, start: string): Contents {
  const { report } = store;
  clearTimeout(following);
  let section = start;
  const address = (of: string): string => fragment(of, report, store.state, first);
  const later = (): void => {
    clearTimeout(following);
    following = setTimeout(() => {
      const place = address(section);
      // The top of an untouched page needs no place.
      try {
        history.replaceState(
          null,
          '',
          place === '#verdict' ? location.href.replace(/#.*/s, '') : place,
        );
      } catch {
        /* a browser that forbids it loses the place, nothing else */
      }
    }, ADDRESS_AFTER_MS);
  };
  const contents = new Contents((seen) => {
    section = seen;
    later();
  }, address);
  // A link that is followed at once has to have what was chosen just now.
  store.onChange(() => {
    contents.refresh();
    later();
  });
  addressOf = address;
  return contents;
}

const scrollToPart = (section: string): void => document.getElementById(section)?.scrollIntoView();

/** Goes to a section again when the charts above it have their height, unless the reader has scrolled since. */
function scrollWhenSettled(section: string): () => void {
  let hasMoved = section === '';
  for (const what of ['wheel', 'touchstart', 'pointerdown', 'keydown'])
    addEventListener(
      what,
      () => {
        hasMoved = true;
      },
      { once: true, passive: true },
    );
  scrollToPart(section);
  return () => {
    if (!hasMoved) scrollToPart(section);
    hasMoved = true;
  };
}

/** What the charts are, in a sentence or two. */
function chartsLead(report: Report, isRecorded: boolean): string {
  if (!isMeasured(report.summary)) return 'No samples were recorded, so there are no charts.';
  if (!isRecorded)
    return 'This page does not contain the recordings, so it has no charts. The figures above are complete.';
  const choose =
    report.cells.length > 1
      ? 'Choose the cells to overlay. A cell has the same line, marker and colour in every chart and table. '
      : '';
  return `${choose}Point at a chart, or focus it and use the arrow keys, to read values. Drag to zoom in; double-click to show everything.`;
}

function show(unpacked: Unpacked): void {
  shown = unpacked;
  const { files, summary } = unpacked;
  const report = buildReport(summary ?? deriveSummary(files), files);
  document.title = report.summary.verdict
    ? `onbeat: ${unquoted(report.summary.verdict.sentence).split(/; |\. /)[0]}`
    : 'onbeat report';
  const first = firstState(report);
  const { section: start, choices } = readPlace(location.hash, report, first);
  const store = new Store(report, { ...first, ...choices });

  const contents = keepPlace(store, first, start);
  const bar = controlBar(store);
  const compared = comparedSection(store);
  const matrix = matrixSection(store);
  const cells = picker(store);
  let spikes = spikesSection(store);
  const robot = robotSections(store);
  const hasSamples = isMeasured(report.summary);
  const isRecorded = hasSamples && report.cells.some((cell) => cell.file !== null);
  let settled = (): void => {};
  const firsts = (): First[] => firstCells(report, first);
  const top = isRecorded ? firstChart(store, firsts) : null;
  const charts = buildCharts(
    store,
    top,
    () => performance.mark('onbeat-first-chart'),
    () => settled(),
  );
  const parts: (HTMLElement | null | undefined)[] = [
    verdictSection(report, firsts(), top?.figure ?? null),
    contents.element,
    cpusSection(report),
    sweepSection(report.summary.sweep, report.summary.limit),
    secondsSection(report),
    chainSection(report),
    packetsSection(report),
    eventsSection(report),
    hasSamples || robot ? bar.element : null,
    ...(robot?.elements ?? []),
    compared?.element,
    section(
      'charts',
      'Charts',
      chartsLead(report, isRecorded),
      isRecorded && report.cells.length > 1 ? cells.element : null,
      isRecorded ? h('div', { class: 'charts' }, ...charts.figures) : null,
      isRecorded && !isTimed(report)
        ? h('p', { class: 'note' }, 'The source gives no times of its samples.')
        : null,
    ),
    hasSamples ? matrix.element : null,
    causesSection(report),
    spikes.element,
    report.kind === 'bench' && report.summary.sweep === undefined
      ? effectsSection(report.summary.effects)
      : null,
    ...(hasSamples ? [modesSection(report), normalSection(report), extremesSection(report)] : []),
    report.summary.derived && report.summary.ladder.length === 0
      ? null
      : ladderSection(report.summary.ladder),
    notesSection(report),
    glossarySection(),
  ];
  page.replaceChildren(...parts.filter((part) => part !== null && part !== undefined));

  const pieces = [bar, ...(robot ? [robot] : []), ...(compared ? [compared] : []), matrix, cells];
  redrawAll = () => {
    pieces.forEach((piece) => piece.redraw());
    spikes.redraw();
    if (isRecorded) charts.redraw();
  };
  store.onChange((what) => {
    if (what.has('range')) bar.redraw();
    if (what.has('range') || what.has('clock')) robot?.redraw();
    if (what.has('tag')) compared?.redraw();
    if (what.has('slots') || what.has('tag')) {
      matrix.redraw();
      cells.redraw();
    }
    if (what.has('slots') || what.has('range') || what.has('clock')) spikes.redraw();
    if (isRecorded) charts.changed(what);
  });
  refresh = (unpacked) => {
    const next = buildReport(unpacked.summary ?? deriveSummary(unpacked.files), unpacked.files);
    const keys = (of: Report): string =>
      [of.kind, ...of.cells.map(({ key, file }) => `${key}${file === null}`)].join('\n');
    if (
      keys(next) !== keys(report) ||
      // Its charts are not on the page yet.
      isMeasured(next.summary) !== hasSamples ||
      Boolean(next.summary.focus) !== Boolean(report.summary.focus)
    )
      return false;
    shown = unpacked;
    Object.assign(report, next);
    const replace = (id: string, make: () => HTMLElement | null): void => {
      const old = document.getElementById(id);
      // What is read by keyboard, or opened, stays as it is until the reader leaves it.
      const isRead =
        old?.contains(document.activeElement) ||
        old?.querySelector('[aria-expanded="true"], details[open]');
      if (!old || isRead) return;
      const made = make();
      if (made) old.replaceWith(made);
    };
    replace('verdict', () => verdictSection(report, firsts(), top?.figure ?? null));
    replace('cpus', () => cpusSection(report));
    replace('causes', () => causesSection(report));
    replace('spikes', () => (spikes = spikesSection(store)).element);
    replace('effects', () => effectsSection(report.summary.effects));
    replace('notes', () => notesSection(report));
    redrawAll();
    return true;
  };
  redrawAll();
  contents.fill(page);
  settled = scrollWhenSettled(start);
}

/** Follows an address that was typed, pasted or gone back to. */
function followAddress(event: HashChangeEvent): void {
  if (shown === null) return;
  // Not the address as it is now: what was chosen just before may have changed it since.
  const { hash } = new URL(event.newURL);
  const [section = ''] = hash.slice(1).split('?');
  if (!hash.includes('?') || hash === addressOf(section)) {
    scrollToPart(section);
    return;
  }
  history.replaceState(null, '', hash);
  show(shown);
}

function showEmpty(why: string): void {
  page.replaceChildren(
    h(
      'section',
      { id: 'verdict', class: 'plain', 'aria-labelledby': 'verdict-title' },
      h('h1', { id: 'verdict-title' }, why),
      h(
        'p',
        { class: 'best' },
        'Drop run files here (',
        h('code', {}, '.onbeat.hlog'),
        ', ',
        h('code', {}, '.hlog'),
        '), or open them.',
      ),
      h(
        'button',
        {
          type: 'button',
          class: 'quiet',
          onclick: () => document.getElementById('files')!.click(),
        },
        'Open files',
      ),
    ),
  );
}

async function take(list: FileList | null | undefined): Promise<void> {
  if (!list || list.length === 0) return;
  const found = await fromFiles([...list]);
  if (found.files.length > 0 || found.summary !== null) {
    const names = new Set(found.files.map((file) => file.name));
    held = found.summary
      ? found.files
      : [...held.filter((file) => !names.has(file.name)), ...found.files];
    try {
      show({ files: held, summary: found.summary });
    } catch (error) {
      held = [];
      return showEmpty(`The files could not be shown: ${(error as Error).message}`);
    }
  }
  const read = `${found.files.length} ${found.files.length === 1 ? 'file' : 'files'} read`;
  document.getElementById('refused')?.remove();
  if (found.refused.length === 0) return announce(read);
  // Beside the page that is open: a file of the wrong kind does not take it away.
  const words = `Not read: ${found.refused.join(', ')}. Results of other tools are converted by onbeat import.`;
  page.prepend(h('p', { id: 'refused', class: 'note' }, words));
  scrollTo(0, 0);
  announce(found.files.length > 0 ? `${read}. ${words}` : words);
}

function chrome(): void {
  const bar = document.getElementById('chrome')!;
  const input = h('input', {
    type: 'file',
    id: 'files',
    multiple: true,
    hidden: true,
    accept: '.hlog,.gz,.log,.txt',
    onchange: () => void take(input.files),
  });
  const dialog = keysDialog();
  bar.append(
    input,
    h('button', { type: 'button', class: 'quiet', onclick: () => input.click() }, 'Open files'),
    h(
      'button',
      {
        type: 'button',
        class: 'quiet',
        'aria-label': 'Keys',
        title: 'Keys (?)',
        onclick: () => dialog.showModal(),
      },
      '?',
    ),
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
  document.body.append(dialog);
  addEventListener('dragover', (event) => {
    event.preventDefault();
    document.body.classList.add('dropping');
  });
  addEventListener('dragleave', (event) => {
    if (event.relatedTarget === null) document.body.classList.remove('dropping');
  });
  addEventListener('drop', (event) => {
    event.preventDefault();
    document.body.classList.remove('dropping');
    void take(event.dataTransfer?.files);
  });
}

/** Shows what a growing run has now; the reader's place and choices stay. */
function grow(unpacked: Unpacked): void {
  if (shown !== null && refresh?.(unpacked)) return;
  const at = scrollY;
  show(unpacked);
  scrollTo(0, at);
}

const FOLLOWING: Readonly<Record<Following, readonly [string, string]>> = {
  live: ['open', 'live'],
  lost: ['bad', 'connection lost'],
  ended: ['good', 'run ended'],
};

/** How it stands with the run that is followed, beside the page's name. */
function showFollowing(following: Following): void {
  const [tone, words] = FOLLOWING[following];
  const chip =
    document.getElementById('run-state') ?? h('span', { id: 'run-state', role: 'status' });
  chip.className = `badge ${tone}`;
  chip.textContent = words;
  document.querySelector('header .mark')!.after(chip);
}

async function start(): Promise<void> {
  startTheme();
  chrome();
  onTheme(() => redrawAll());
  startPrint();
  // The place is in the address; the browser's own memory of pixels is of a page that was not drawn yet.
  history.scrollRestoration = 'manual';
  addEventListener('hashchange', followAddress);
  try {
    const tag = document.getElementById('data');
    if (tag?.textContent?.trim() === 'live') {
      showEmpty('Waiting for the first samples of the run.');
      followRun(grow, showFollowing);
      return;
    }
    const found = await fromTag(tag);
    performance.mark('onbeat-unpacked');
    if (found === null) {
      showEmpty('No recording in this page yet.');
      return;
    }
    held = found.files;
    show(found);
  } catch (error) {
    showEmpty(`The page’s data could not be read: ${(error as Error).message}`);
  }
}

void start();
