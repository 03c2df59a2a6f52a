//! Figures of a probe's own, made of its samples on the cold side.

use onbeat_rt::Sample;

use super::series::Series;

/// The series that a probe counts besides those of every loop.
pub trait Figures: Send {
    /// Its series, none of [`Series::CYCLE`].
    fn series(&self) -> &'static [Series];

    /// Takes the next sample, warm-up cycles left out, and hands its figures to `count`, in
    /// nanoseconds. `before` is the sample before it in this block; `None` at the start and where
    /// samples were lost.
    fn of(&mut self, sample: &Sample, before: Option<&Sample>, count: &mut dyn FnMut(Series, u64));
}

/// The figures of a probe without series of its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFigures;

impl Figures for NoFigures {
    fn series(&self) -> &'static [Series] {
        &[]
    }

    fn of(&mut self, _: &Sample, _: Option<&Sample>, _: &mut dyn FnMut(Series, u64)) {}
}
