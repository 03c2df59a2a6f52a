//! A summary as one picture: the verdict, the percentiles of the page's first chart, and their
//! figures.

mod canvas;
mod curve;

use super::cell::CellSummary;
use super::closing;
use super::file_facts::cell_of;
use super::imported::{UNKNOWN, as_headline};
use super::summary::Summary;
use super::units::{Letters, capital, in_letters, spoken, time_ns, under};
use super::verdict::Outcome;
use canvas::{Anchor, Canvas, Ink, Letter, Pen};
use curve::{Curve, CurvePoint, curve};
use onbeat_record::{RunFile, Series};

const WIDTH: u32 = 1200;
const HEIGHT: u32 = 675;
const MARGIN: f32 = 40.0;
/// The chart's frame: left, top, right, bottom.
const CHART: (f32, f32, f32, f32) = (118.0, 222.0, 752.0, 580.0);
const TABLE_LEFT: f32 = 790.0;
/// Cells that have a curve and a column; of more, the first.
const MOST_CELLS: usize = 4;

const GROUND: Ink = Ink(255, 255, 255);
const TEXT: Ink = Ink(25, 28, 32);
const MUTED: Ink = Ink(90, 97, 105);
const RULE: Ink = Ink(222, 223, 217);
const BAD: Ink = Ink(179, 38, 30);
/// Those of the page, which a reader tells apart without colour by their dashes.
const CURVES: [(Ink, Option<(f32, f32)>); MOST_CELLS] = [
    (Ink(0, 114, 178), None),
    (Ink(0, 138, 99), Some((9.0, 4.0))),
    (Ink(194, 78, 0), Some((3.0, 3.0))),
    (Ink(168, 68, 126), Some((12.0, 3.0))),
];

/// The picture could not be made.
#[derive(Debug, thiserror::Error)]
pub enum PictureError {
    /// There is nothing to draw.
    #[error("no cell of the run has a distribution, so there is no chart to draw")]
    NoSamples,
    /// The letters that it brings cannot be read.
    #[error("the font of the picture cannot be read: {0}")]
    Font(ttf_parser::FaceParsingError),
    /// There is no room for it.
    #[error("a picture of {width} x {height} pixels has no room in memory")]
    Size {
        /// In pixels.
        width: u32,
        /// In pixels.
        height: u32,
    },
    /// It could not be packed.
    #[error("the picture cannot be packed as PNG: {0}")]
    Pack(String),
}

/// One curve with its name.
struct Shown<'s> {
    cell: &'s CellSummary,
    name: String,
    curve: Curve,
}

/// The picture as a PNG file of 1,200 x 675 pixels. `runs` are the run files of the summary.
///
/// # Errors
/// [`PictureError`].
pub fn picture(summary: &Summary, runs: &[RunFile]) -> Result<Vec<u8>, PictureError> {
    let (series, shown) = shown(summary, runs).ok_or(PictureError::NoSamples)?;
    let mut canvas = Canvas::new(WIDTH, HEIGHT, GROUND)?;
    head(&mut canvas, summary);
    chart(&mut canvas, summary, series, &shown);
    table(&mut canvas, summary, &shown);
    foot(&mut canvas, summary);
    canvas.into_png()
}

/// The cells to draw, with the curves of their main series.
fn shown<'s>(summary: &'s Summary, runs: &[RunFile]) -> Option<(Series, Vec<Shown<'s>>)> {
    let cells = summary.first_cells();
    let series = cells.iter().find_map(|cell| cell.main())?.0;
    let of = |cell: &&'s CellSummary| {
        let run = runs.iter().find(|run| runs.len() == 1 || cell_of(run) == cell.cell())?;
        let figures = cell.series.get(&series).filter(|_| !run.is_figures_only(series))?;
        let curve = curve(&run.distribution(series), figures.max_ns)?;
        let is_run = summary.cells.len() == 1;
        let name = if is_run { capital(series.words()) } else { cell.tuning.clone() };
        Some(Shown { cell, name, curve })
    };
    let shown: Vec<Shown<'s>> = cells.iter().filter_map(of).take(MOST_CELLS).collect();
    (!shown.is_empty()).then_some((series, shown))
}

const fn plain(size: f32, ink: Ink) -> Letter {
    Letter { size, is_bold: false, ink }
}
const fn bold(size: f32, ink: Ink) -> Letter {
    Letter { size, is_bold: true, ink }
}

const fn tone(outcome: Outcome) -> (Ink, Ink) {
    match outcome {
        Outcome::Pass => (Ink(0, 105, 77), Ink(227, 242, 236)),
        Outcome::Fail => (BAD, Ink(251, 233, 230)),
        Outcome::Inconclusive => (Ink(122, 82, 0), Ink(251, 240, 218)),
    }
}

/// The outcome, and the first clause of the verdict in as many lines as it takes.
fn head(canvas: &mut Canvas, summary: &Summary) {
    let deadline = summary.verdict.deadline.as_ref();
    let outcome = summary.outcome().or(deadline.map(|deadline| deadline.outcome));
    let mut base = 66.0;
    if let Some(outcome) = outcome {
        let (ink, wash) = tone(outcome);
        let letter = bold(20.0, ink);
        let width = canvas.width_of(outcome.words(), letter);
        canvas.rectangle((MARGIN, 30.0), (width + 28.0, 36.0), wash);
        canvas.text(outcome.words(), (MARGIN + 14.0, 55.0), letter, Anchor::Left);
        base = 106.0;
    }

    let sentence = closing::verdict_of(summary);
    let answer = outcome.map_or(sentence.as_str(), |outcome| {
        sentence.strip_prefix(&format!("{}: ", outcome.words())).unwrap_or(&sentence)
    });
    let clause = in_letters(answer, Letters::Unicode);
    let clause = as_headline(summary, &clause);
    let most = WIDTH as f32 - 2.0 * MARGIN;
    let sizes = [30.0, 26.0, 22.0, 18.0, 14.0, 11.0];
    let fits =
        |size: f32| canvas.lines(&clause, bold(size, TEXT), most).len() as f32 * size <= 66.0;
    let size = sizes.into_iter().find(|size| fits(*size)).unwrap_or(11.0);
    for line in canvas.lines(&clause, bold(size, TEXT), most) {
        canvas.text(&line, (MARGIN, base), bold(size, TEXT), Anchor::Left);
        base += size * 1.2;
    }
}

/// Round stops of a logarithmic axis between two values.
fn decades(low: f64, high: f64) -> Vec<f64> {
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let is_short = (high / low).log10() < 3.0;
    let steps: &[f64] = if is_short { &[1.0, 2.0, 5.0] } else { &[1.0] };
    (first..=last)
        .flat_map(|power| steps.iter().map(move |step| step * 10_f64.powi(power)))
        .filter(|at| *at >= low * 0.999 && *at <= high * 1.001)
        .collect()
}

/// Where values stand in the chart.
struct Axes {
    x: (f64, f64),
    y: (f64, f64),
}

impl Axes {
    fn of(shown: &[Shown<'_>], limit_ns: Option<u64>) -> Self {
        let points = || shown.iter().flat_map(|one| &one.curve.points);
        let values = || points().map(|point| point.value_ns.max(1) as f64);
        let limit = limit_ns.map(|ns| ns as f64);
        let low = values().chain(limit).fold(f64::INFINITY, f64::min);
        let high = values().chain(limit).fold(1.0, f64::max);
        let most = points().map(|point| point.x).fold(10.0, f64::max);
        Self { x: (1.0, most * 1.15), y: (low / 1.4, high * 1.4) }
    }

    fn place(&self, x: f64, ns: f64) -> (f32, f32) {
        let (left, top, right, bottom) = CHART;
        let part = |(low, high): (f64, f64), at: f64| {
            ((at.max(low) / low).ln() / (high / low).ln()) as f32
        };
        (left + part(self.x, x) * (right - left), bottom - part(self.y, ns) * (bottom - top))
    }
}

fn chart(canvas: &mut Canvas, summary: &Summary, series: Series, shown: &[Shown<'_>]) {
    let limit = summary.limit.filter(|limit| limit.on == series && limit.limit_ns > 0);
    let axes = Axes::of(shown, limit.map(|limit| limit.limit_ns));
    let load = &shown[0].cell.load;
    let place = match shown.iter().all(|one| one.cell.load == *load) && load != UNKNOWN {
        true => format!(" {}", under(load).replace('`', "")),
        false => String::new(),
    };
    let title = format!("Percentiles of {}{place}", series.words());
    canvas.text(&title, (MARGIN, 180.0), plain(17.0, MUTED), Anchor::Left);
    grid(canvas, &axes);
    for (one, (ink, dash)) in shown.iter().zip(CURVES) {
        draw(canvas, &axes, &one.curve, Pen { width: 2.6, ink, dash });
    }
    legend(canvas, shown);
    if let Some(limit) = limit {
        let (left, _, right, _) = CHART;
        let (_, y) = axes.place(1.0, limit.limit_ns as f64);
        let pen = Pen { width: 2.0, ink: BAD, dash: Some((8.0, 5.0)) };
        canvas.line(&[(left, y), (right, y)], pen);
        let words = format!("limit {}", time_ns(limit.limit_ns, Letters::Unicode));
        let width = canvas.width_of(&words, bold(14.0, BAD));
        let x = free_place(&axes, shown, (y, width));
        canvas.text(&words, (x, y - 7.0), bold(14.0, BAD), Anchor::Left);
    }
}

/// Where words of a width have room above a line at `y`: where no curve is, from the left.
fn free_place(axes: &Axes, shown: &[Shown<'_>], (y, width): (f32, f32)) -> f32 {
    let (left, _, right, _) = CHART;
    let points: Vec<(f32, f32)> = shown
        .iter()
        .flat_map(|one| &one.curve.points)
        .map(|point| axes.place(point.x, point.value_ns.max(1) as f64))
        .collect();
    let is_free = |x: &f32| {
        let beside = x - 8.0..x + width + 8.0;
        // A step leads from one point to the next: both sides of the words count as well.
        let near = points.iter().filter(|(at, _)| beside.contains(at));
        let (low, high) =
            near.fold((f32::MAX, f32::MIN), |(low, high), (_, at)| (low.min(*at), high.max(*at)));
        high < y - 26.0 || low > y + 4.0
    };
    let last = right - width - 8.0;
    let places = (0..).map(|step| (step as f32).mul_add(12.0, left + 8.0));
    places.take_while(|x| *x <= last).find(is_free).unwrap_or(left + 8.0)
}

fn grid(canvas: &mut Canvas, axes: &Axes) {
    let (left, top, right, bottom) = CHART;
    let pen = Pen { width: 1.0, ink: RULE, dash: None };
    let letter = plain(14.0, MUTED);
    for at in decades(axes.y.0, axes.y.1) {
        let (_, y) = axes.place(1.0, at);
        canvas.line(&[(left, y), (right, y)], pen);
        let words = time_ns(at.round() as u64, Letters::Unicode);
        canvas.text(&words, (left - 10.0, y + 5.0), letter, Anchor::Right);
    }
    let nines = (1..12).map(|power| 10_f64.powi(power));
    let stops = [1.0, 2.0].into_iter().chain(nines).filter(|x| *x <= axes.x.1);
    let mut free_from = f32::MIN;
    for x in stops {
        let (at, _) = axes.place(x, axes.y.0);
        canvas.line(&[(at, top), (at, bottom)], pen);
        let share = 100.0 * (1.0 - 1.0 / x);
        let words = format!("{} %", (share * 1e9).round() / 1e9);
        let width = canvas.width_of(&words, letter);
        if at - width / 2.0 > free_from {
            canvas.text(&words, (at, bottom + 22.0), letter, Anchor::Middle);
            free_from = at + width / 2.0 + 8.0;
        }
    }
    canvas.text("of samples", (right, bottom + 42.0), letter, Anchor::Right);
}

/// The curve in steps; where fewer than ten samples are beyond a value it is thin and dotted.
fn draw(canvas: &mut Canvas, axes: &Axes, curve: &Curve, pen: Pen) {
    let steps = |points: &[CurvePoint]| {
        let mut line: Vec<(f32, f32)> = Vec::new();
        for point in points {
            let (x, y) = axes.place(point.x, point.value_ns.max(1) as f64);
            if let Some((_, before)) = line.last().copied() {
                line.push((x, before));
            }
            line.push((x, y));
        }
        line
    };
    let border = curve.points.iter().take_while(|point| point.supported).count();
    canvas.line(&steps(&curve.points[..border]), pen);
    let open = &curve.points[border.saturating_sub(1)..];
    canvas.line(&steps(open), Pen { width: 1.6, dash: Some((2.0, 4.0)), ..pen });
    // The largest value is an observation.
    if let Some(last) = curve.points.last() {
        canvas.circle(axes.place(last.x, last.value_ns.max(1) as f64), 5.0, pen.ink);
    }
}

fn legend(canvas: &mut Canvas, shown: &[Shown<'_>]) {
    let mut x = CHART.0;
    for (one, (ink, dash)) in shown.iter().zip(CURVES) {
        canvas.line(&[(x, 203.0), (x + 34.0, 203.0)], Pen { width: 2.6, ink, dash });
        let letter = plain(15.0, TEXT);
        canvas.text(&one.name, (x + 42.0, 208.0), letter, Anchor::Left);
        x += 42.0 + canvas.width_of(&one.name, letter) + 26.0;
    }
}

/// The figures beside the chart; what is of something stands below its share.
fn table(canvas: &mut Canvas, summary: &Summary, shown: &[Shown<'_>]) {
    let right = WIDTH as f32 - MARGIN;
    let label = 84.0;
    let column = (right - TABLE_LEFT - label) / shown.len() as f32;
    let end = |place: usize| TABLE_LEFT + label + column * (place + 1) as f32;
    let mut base = 240.0;
    let heads = bold(if shown.len() > 2 { 14.0 } else { 16.0 }, TEXT);
    for (place, one) in shown.iter().enumerate() {
        canvas.text(&one.name, (end(place), base), heads, Anchor::Right);
    }
    let size = if shown.len() > 2 { 12.5 } else { 16.0 };
    let cells = summary.first_cells();
    let places: Vec<usize> = shown
        .iter()
        .filter_map(|one| cells.iter().position(|cell| std::ptr::eq(*cell, one.cell)))
        .collect();
    let mut is_marked = false;
    for row in summary.first_rows(Letters::Unicode) {
        base += 10.0;
        let pen = Pen { width: 1.0, ink: RULE, dash: None };
        canvas.line(&[(TABLE_LEFT, base), (right, base)], pen);
        base += 24.0;
        // Its figures take two lines as well.
        for (line, part) in row.name.split_inclusive("or ").enumerate() {
            let at = (line as f32).mul_add(16.0, base);
            canvas.text(part.trim_end(), (TABLE_LEFT, at), plain(15.0, MUTED), Anchor::Left);
        }
        let mut is_double = false;
        for (column, place) in places.iter().enumerate() {
            let figure = &row.figures[*place];
            let (text, of) = figure.text.split_once(" (").unwrap_or((&figure.text, ""));
            let sign = if figure.supported { "" } else { "~" };
            is_marked |= !figure.supported;
            let letter = if figure.supported { bold(size, TEXT) } else { plain(size, MUTED) };
            canvas.text(&format!("{sign}{text}"), (end(column), base), letter, Anchor::Right);
            if !of.is_empty() {
                is_double = true;
                let of = of.trim_end_matches(')');
                let letter = plain(size - 3.5, MUTED);
                canvas.text(of, (end(column), base + 16.0), letter, Anchor::Right);
            }
        }
        base += if is_double { 16.0 } else { 0.0 };
    }
    if is_marked {
        let words = "~ fewer than 10 samples beyond it";
        canvas.text(words, (TABLE_LEFT, base + 28.0), plain(12.5, MUTED), Anchor::Left);
    }
}

fn foot(canvas: &mut Canvas, summary: &Summary) {
    let host = ["processor", "kernel"].iter().filter_map(|fact| summary.host.fact(fact));
    let mut words: Vec<String> = vec![format!("onbeat {}", summary.version)];
    words.extend(host.map(ToOwned::to_owned));
    // A source without times has no length.
    words.extend((summary.elapsed_s > 0.0).then(|| spoken(summary.elapsed_s)));
    let letter = plain(13.0, MUTED);
    let most = WIDTH as f32 - 2.0 * MARGIN;
    // Of what does not fit in a line, the last parts have none.
    let mut text = words.join("  ·  ");
    while canvas.width_of(&text, letter) > most && words.pop().is_some() {
        text = words.join("  ·  ");
    }
    canvas.text(&text, (MARGIN, HEIGHT as f32 - 22.0), letter, Anchor::Left);
}
