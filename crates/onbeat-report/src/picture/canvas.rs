//! A picture in memory: letters, lines and areas.

use tiny_skia::{
    Color, FillRule, LineCap, Paint, Path, PathBuilder, Pixmap, Rect, Stroke, StrokeDash, Transform,
};
use ttf_parser::{Face, OutlineBuilder};

use super::PictureError;

// Machines that measure have no fonts: the picture brings its own, with the letters that it uses.
const REGULAR: &[u8] = include_bytes!("../../assets/DejaVuSans.ttf");
const BOLD: &[u8] = include_bytes!("../../assets/DejaVuSans-Bold.ttf");
/// What stands for a letter that the fonts do not have.
const NO_LETTER: char = '\u{fffd}';

/// A colour without transparency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ink(pub u8, pub u8, pub u8);

/// How letters look.
#[derive(Clone, Copy, Debug)]
pub(super) struct Letter {
    /// In pixels.
    pub size: f32,
    pub is_bold: bool,
    pub ink: Ink,
}

/// Where a text stands from its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    Left,
    Middle,
    Right,
}

/// How a line looks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pen {
    pub width: f32,
    pub ink: Ink,
    /// Lengths of dash and gap, in pixels.
    pub dash: Option<(f32, f32)>,
}

/// The picture. Points are pixels from its upper left corner.
pub(super) struct Canvas {
    pixels: Pixmap,
    regular: Face<'static>,
    bold: Face<'static>,
}

impl Canvas {
    pub(super) fn new(width: u32, height: u32, ground: Ink) -> Result<Self, PictureError> {
        let face = |bytes| Face::parse(bytes, 0).map_err(PictureError::Font);
        let (regular, bold) = (face(REGULAR)?, face(BOLD)?);
        let mut pixels = Pixmap::new(width, height).ok_or(PictureError::Size { width, height })?;
        pixels.fill(color(ground));
        Ok(Self { pixels, regular, bold })
    }

    /// The picture as a PNG file.
    pub(super) fn into_png(self) -> Result<Vec<u8>, PictureError> {
        self.pixels.encode_png().map_err(|why| PictureError::Pack(why.to_string()))
    }

    const fn face(&self, is_bold: bool) -> &Face<'static> {
        if is_bold { &self.bold } else { &self.regular }
    }

    /// Width of a text, in pixels.
    pub(super) fn width_of(&self, text: &str, letter: Letter) -> f32 {
        let face = self.face(letter.is_bold);
        let units: u32 = text.chars().map(|c| advance(face, c)).sum();
        units as f32 * scale(face, letter.size)
    }

    /// Writes a text whose baseline is at `y`.
    pub(super) fn text(&mut self, text: &str, (x, y): (f32, f32), letter: Letter, anchor: Anchor) {
        let width = self.width_of(text, letter);
        let left = match anchor {
            Anchor::Left => x,
            Anchor::Middle => x - width / 2.0,
            Anchor::Right => x - width,
        };
        let face = self.face(letter.is_bold);
        let mut outline = Outline {
            builder: PathBuilder::new(),
            at: left,
            base: y,
            scale: scale(face, letter.size),
        };
        for c in text.chars() {
            let glyph = face.glyph_index(c).or_else(|| face.glyph_index(NO_LETTER));
            if let Some(glyph) = glyph {
                face.outline_glyph(glyph, &mut outline);
            }
            outline.at += advance(face, c) as f32 * outline.scale;
        }
        if let Some(path) = outline.builder.finish() {
            self.fill(&path, letter.ink);
        }
    }

    /// The text in lines no wider than `most` pixels, broken between words; a word wider than that
    /// has a line of its own.
    pub(super) fn lines(&self, text: &str, letter: Letter, most: f32) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        for word in text.split_whitespace() {
            let longer = lines.last().map(|line| format!("{line} {word}"));
            match longer.filter(|line| self.width_of(line, letter) <= most) {
                Some(longer) => {
                    lines.pop();
                    lines.push(longer);
                }
                None => lines.push(word.to_owned()),
            }
        }
        lines
    }

    pub(super) fn rectangle(&mut self, (x, y): (f32, f32), (width, height): (f32, f32), ink: Ink) {
        if let Some(rect) = Rect::from_xywh(x, y, width, height) {
            self.fill(&PathBuilder::from_rect(rect), ink);
        }
    }

    pub(super) fn circle(&mut self, (x, y): (f32, f32), radius: f32, ink: Ink) {
        if let Some(path) = PathBuilder::from_circle(x, y, radius) {
            self.fill(&path, ink);
        }
    }

    /// Draws lines from point to point.
    pub(super) fn line(&mut self, points: &[(f32, f32)], pen: Pen) {
        let mut builder = PathBuilder::new();
        for (place, (x, y)) in points.iter().enumerate() {
            if place == 0 { builder.move_to(*x, *y) } else { builder.line_to(*x, *y) }
        }
        let Some(path) = builder.finish() else { return };
        let dash = pen.dash.and_then(|(dash, gap)| StrokeDash::new(vec![dash, gap], 0.0));
        let stroke =
            Stroke { width: pen.width, line_cap: LineCap::Butt, dash, ..Stroke::default() };
        let paint = paint(pen.ink);
        self.pixels.stroke_path(&path, &paint, &stroke, Transform::identity(), None);
    }

    fn fill(&mut self, path: &Path, ink: Ink) {
        let paint = paint(ink);
        self.pixels.fill_path(path, &paint, FillRule::Winding, Transform::identity(), None);
    }
}

fn color(Ink(red, green, blue): Ink) -> Color {
    Color::from_rgba8(red, green, blue, 255)
}

fn paint(ink: Ink) -> Paint<'static> {
    let mut paint = Paint::default();
    paint.set_color(color(ink));
    paint.anti_alias = true;
    paint
}

fn scale(face: &Face<'_>, size: f32) -> f32 {
    size / f32::from(face.units_per_em())
}

fn advance(face: &Face<'_>, c: char) -> u32 {
    let glyph = face.glyph_index(c).or_else(|| face.glyph_index(NO_LETTER));
    glyph.and_then(|glyph| face.glyph_hor_advance(glyph)).map_or(0, u32::from)
}

/// Takes outlines of letters, whose y goes up, to the picture's points.
struct Outline {
    builder: PathBuilder,
    at: f32,
    base: f32,
    scale: f32,
}

impl Outline {
    fn x(&self, x: f32) -> f32 {
        x.mul_add(self.scale, self.at)
    }
    fn y(&self, y: f32) -> f32 {
        y.mul_add(-self.scale, self.base)
    }
}

impl OutlineBuilder for Outline {
    fn move_to(&mut self, x: f32, y: f32) {
        let (x, y) = (self.x(x), self.y(y));
        self.builder.move_to(x, y);
    }
    fn line_to(&mut self, x: f32, y: f32) {
        let (x, y) = (self.x(x), self.y(y));
        self.builder.line_to(x, y);
    }
    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let (x1, y1, x, y) = (self.x(x1), self.y(y1), self.x(x), self.y(y));
        self.builder.quad_to(x1, y1, x, y);
    }
    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let (x1, y1, x2, y2) = (self.x(x1), self.y(y1), self.x(x2), self.y(y2));
        let (x, y) = (self.x(x), self.y(y));
        self.builder.cubic_to(x1, y1, x2, y2, x, y);
    }
    fn close(&mut self) {
        self.builder.close();
    }
}
