//! Points between the steps of a draw, at which tests change the ring.

use std::fmt;

/// Point between two steps of a draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sampler) enum Point {
    /// The ranges of readable rows were read, and no row is chosen.
    Read,
    /// The rows or episodes of a batch are chosen, and none is gathered.
    Chosen,
    /// The headers of a micro-batch were read, and its rows are not copied.
    Selected,
    /// Rows were copied, and the copies are not validated.
    Copied,
    /// All rows are gathered, and the weights are not written.
    Gathered,
    /// The weights are written, and no goal is relabelled.
    Weighed,
    /// The rows of goals are chosen, and none is copied.
    GoalsChosen,
    /// Goals were copied, and the copies are not validated.
    GoalsCopied,
}

/// Points of a sampler's draws.
///
/// Outside of tests it is empty, and its calls compile to nothing. In a test it runs a function of
/// the test at each point.
#[derive(Default)]
pub(in crate::sampler) struct DrawPoints {
    #[cfg(test)]
    run: Option<Box<dyn FnMut(Point) + Send>>,
}

impl DrawPoints {
    /// Marks a point of a draw.
    #[inline]
    #[cfg_attr(not(test), expect(clippy::unused_self, reason = "it is empty outside of tests"))]
    pub(in crate::sampler) fn reach(&mut self, point: Point) {
        #[cfg(test)]
        if let Some(run) = &mut self.run {
            run(point);
        }
        #[cfg(not(test))]
        let _ = point;
    }
}

impl fmt::Debug for DrawPoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DrawPoints")
    }
}

#[cfg(test)]
mod tests;
