//! Pins of one handle of parameters: a reader slot, and the slots that its views keep.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::SegmentError;
use crate::protocol::version::{self, VersionPlace, bit};
use crate::store::params_store::{ParamsReader, ParamsStore};

/// A reader slot of an object of parameters, and the pins it holds.
#[derive(Debug)]
pub struct ParamsPins {
    reader: ParamsReader,
    /// Number of views of each slot.
    held: Mutex<BTreeMap<u32, usize>>,
    /// A forked child has a copy of everything here, and must not release its parent's pins.
    pid: u32,
}

/// A version whose block no publisher overwrites while this lives.
#[derive(Debug)]
pub struct PinnedVersion {
    pins: Arc<ParamsPins>,
    place: VersionPlace,
}

impl ParamsPins {
    /// Claims a reader slot. Returns `None` if all are taken.
    pub fn open(store: &Arc<ParamsStore>) -> Result<Option<Arc<Self>>, SegmentError> {
        let Some(reader) = store.claim_reader()? else { return Ok(None) };
        let (held, pid) = (Mutex::default(), std::process::id());
        Ok(Some(Arc::new(Self { reader, held, pid })))
    }

    /// Pins a version. Returns `None` if it was overwritten meanwhile.
    #[must_use]
    pub fn pin(self: &Arc<Self>, place: VersionPlace) -> Option<PinnedVersion> {
        let mut held = self.held();
        let (store, slot) = (&self.reader.store, self.reader.slot);
        let pinned = mask(&held);
        version::pin_version(store.memory(), &store.pins(), slot, pinned, place)?;
        *held.entry(place.slot).or_default() += 1;
        drop(held);
        Some(PinnedVersion { pins: Arc::clone(self), place })
    }

    fn release(&self, slot: u32) {
        if self.pid != std::process::id() {
            return;
        }
        let mut held = self.held();
        if let Some(views) = held.get_mut(&slot) {
            *views -= 1;
            if *views == 0 {
                held.remove(&slot);
                version::set_pins(&self.reader.store.pins(), self.reader.slot, mask(&held));
            }
        }
    }

    fn held(&self) -> MutexGuard<'_, BTreeMap<u32, usize>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the pins as a word with a bit for each pinned slot.
fn mask(held: &BTreeMap<u32, usize>) -> u64 {
    held.keys().fold(0, |mask, slot| mask | bit(*slot))
}

impl PinnedVersion {
    /// Returns the version.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.place.version
    }

    /// Returns the object.
    #[must_use]
    pub fn store(&self) -> &ParamsStore {
        &self.pins.reader.store
    }

    /// Returns the address of an array's first byte, or `None` if there is no such array. The bytes
    /// do not change while this value lives.
    #[must_use]
    pub fn address(&self, array: usize) -> Option<*const u8> {
        let array = self.store().shape().arrays().get(array)?;
        self.store().memory().address(self.place.slot, array.offset(), array.bytes())
    }

    /// Copies an array. Returns `false` if there is no such array, or `out` has another length.
    #[must_use]
    pub fn copy(&self, array: usize, out: &mut [u8]) -> bool {
        self.store().copy(self.place, array, out)
    }
}

impl Drop for PinnedVersion {
    fn drop(&mut self) {
        self.pins.release(self.place.slot);
    }
}
