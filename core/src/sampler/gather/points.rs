//! Points of a gather at which tests change its rows, or the path of its items.

use crate::sampler::points::{DrawPoints, Point};

/// Observer of a gather at the points between its steps, where rows may change under it.
///
/// A sampler passes its [`DrawPoints`], whose calls compile to nothing outside of tests.
pub(in crate::sampler) trait GatherPoints {
    /// Called when the headers of a micro-batch were read, with a bitmask of the items that are to
    /// be copied together. Returns those that are; the others are inspected and copied one by one.
    #[inline]
    fn selected(&mut self, regular: u32) -> u32 {
        regular
    }

    /// Called when rows were copied, before the copies are validated.
    #[inline]
    fn copied(&mut self) {}
}

impl GatherPoints for DrawPoints {
    #[inline]
    fn selected(&mut self, regular: u32) -> u32 {
        self.reach(Point::Selected);
        regular
    }

    #[inline]
    fn copied(&mut self) {
        self.reach(Point::Copied);
    }
}
