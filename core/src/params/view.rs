//! Views: a version read in place.

use std::sync::Arc;

use backcast_layout::{ParamsArray, ParamsPins, PinnedVersion};

use super::Params;
use crate::error::ParamsError;

/// Attempts to pin the newest version.
const ATTEMPTS: u32 = 1_000;

/// A version of all arrays, in place. No publisher overwrites it while the view lives.
///
/// The version takes one of the spare slots once `versions_kept` newer versions are published.
#[derive(Debug)]
pub struct ParamsView {
    pinned: PinnedVersion,
}

impl Params {
    /// Pins the newest version and returns it in place, without a copy.
    ///
    /// The first call claims a reader slot for this handle.
    pub fn view(&mut self) -> Result<ParamsView, ParamsError> {
        let pins = self.pins()?;
        let mut version = 0;
        for _ in 0..ATTEMPTS {
            let place = self.store.newer(0)?;
            let place = place.ok_or_else(|| ParamsError::Nothing { name: self.called() })?;
            version = place.version;
            if let Some(pinned) = pins.pin(place) {
                return Ok(ParamsView { pinned });
            }
        }
        Err(ParamsError::Overtaken { version, attempts: ATTEMPTS })
    }

    /// Pins a version that can still be read, which need not be the newest.
    pub fn view_version(&mut self, version: u64) -> Result<ParamsView, ParamsError> {
        let pins = self.pins()?;
        let place = self.store.find(version);
        let pinned = place.and_then(|place| pins.pin(place));
        let readable = || self.versions();
        pinned
            .map(|pinned| ParamsView { pinned })
            .ok_or_else(|| ParamsError::NoVersion { version, readable: readable() })
    }

    fn pins(&mut self) -> Result<Arc<ParamsPins>, ParamsError> {
        if let Some(pins) = &self.pins {
            return Ok(Arc::clone(pins));
        }
        let slots = self.shape().reader_slots();
        let pins = ParamsPins::open(&self.store)?.ok_or(ParamsError::NoReaderSlot { slots })?;
        self.pins = Some(Arc::clone(&pins));
        Ok(pins)
    }
}

impl ParamsView {
    /// Returns the version.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.pinned.version()
    }

    /// Returns the arrays, in order.
    #[must_use]
    pub fn arrays(&self) -> &[ParamsArray] {
        self.pinned.store().shape().arrays()
    }

    /// Returns the address of an array's first byte, or `None` if there is no such array. The array
    /// stays as it is while the view lives.
    #[must_use]
    pub fn address(&self, array: usize) -> Option<*const u8> {
        self.pinned.address(array)
    }

    /// Copies an array. Returns `false` if there is no such array, or `out` has another length.
    #[must_use]
    pub fn copy(&self, array: usize, out: &mut [u8]) -> bool {
        self.pinned.copy(array, out)
    }
}
