//! Differences of an existing ring from the requested one, in terms of transitions rather than
//! lanes, rows and columns.

use std::fmt::Write;

use backcast_core::{Base, Ring, RingError};
use backcast_layout::SegmentError;

use super::{columns::TransitionShape, error::TransitionError, identity::Identity};
use crate::panel::Panel;

/// The requested ring.
pub(crate) struct RequestedRing<'a> {
    pub(crate) name: &'a str,
    pub(crate) panel: &'a Panel,
    pub(crate) shape: &'a TransitionShape,
    pub(crate) capacity: u64,
    pub(crate) lanes: u32,
}

impl RequestedRing<'_> {
    /// Refuses a ring of other sizes.
    pub(crate) fn check(&self, ring: &Ring, identity: &Identity) -> Result<(), TransitionError> {
        let mut found = String::new();
        let mut requested = String::new();
        let mut compare = |what: &str, there: u64, here: u64| {
            if there != here {
                // Writing to a String cannot fail.
                let _ = write!(found, ", {what} {there}");
                let _ = write!(requested, ", {what} {here}");
            }
        };
        compare("n_adders", ring.lanes().into(), self.lanes.into());
        compare("capacity", identity.capacity, self.capacity);
        let shape = TransitionShape::of(ring.schema(), self.panel.tickers().len());
        if let Some(shape) = shape.filter(|shape| shape != self.shape) {
            let _ = write!(found, ", {shape}");
            let _ = write!(requested, ", {}", self.shape);
        }
        if found.is_empty() {
            return Ok(());
        }
        let [found, requested] = [found, requested].map(|list| list[", ".len()..].to_owned());
        Err(TransitionError::Different { name: self.name.to_owned(), found, requested })
    }

    /// Returns the error of a ring that could not be joined: the differing sizes, if they are the
    /// cause.
    pub(crate) fn explain(&self, base: &Base, error: RingError) -> TransitionError {
        if !matches!(error, RingError::Segment(SegmentError::Different { .. })) {
            return error.into();
        }
        let there = Ring::attach_in(base, self.name).ok().and_then(|ring| {
            let identity = Identity::read(ring.path()?, self.name).ok()?;
            Some((ring, identity))
        });
        let Some((ring, identity)) = there else { return error.into() };
        let compared =
            identity.check(self.name, self.panel).and_then(|()| self.check(&ring, &identity));
        compared.err().unwrap_or_else(|| error.into())
    }
}
