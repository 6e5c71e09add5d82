//! Options of parameters.

use backcast_layout::{Base, Exist};

/// Place, lifetime and number of versions of parameters.
#[derive(Clone, Debug)]
pub struct ParamsOptions {
    pub(super) base: Base,
    pub(super) exist: Exist,
    pub(super) persistent: bool,
    pub(super) versions_kept: u32,
    pub(super) spare_slots: u32,
    pub(super) reader_slots: u32,
}

impl Default for ParamsOptions {
    /// Returns options that keep one version, with two spare slots and reader slots for 64 handles
    /// with views.
    fn default() -> Self {
        Self {
            base: Base::standard(),
            exist: Exist::Error,
            persistent: false,
            versions_kept: 1,
            spare_slots: 2,
            reader_slots: 64,
        }
    }
}

impl ParamsOptions {
    /// Sets the base directory.
    #[must_use]
    pub fn base(self, base: Base) -> Self {
        Self { base, ..self }
    }

    /// Sets the treatment of a taken name.
    #[must_use]
    pub fn exist(self, exist: Exist) -> Self {
        Self { exist, ..self }
    }

    /// Sets whether the parameters stay when no process holds them.
    #[must_use]
    pub fn persistent(self, persistent: bool) -> Self {
        Self { persistent, ..self }
    }

    /// Sets the number of versions that stay readable while another is written, at least, from 1
    /// up. Older ones stay too until their slots are needed.
    #[must_use]
    pub fn versions_kept(self, versions_kept: u32) -> Self {
        Self { versions_kept, ..self }
    }

    /// Sets the number of slots beyond those of the versions kept, from 1 up. A publish fails if
    /// views hold versions in all of them.
    #[must_use]
    pub fn spare_slots(self, spare_slots: u32) -> Self {
        Self { spare_slots, ..self }
    }

    /// Sets the number of handles that can have views at a time.
    #[must_use]
    pub fn reader_slots(self, reader_slots: u32) -> Self {
        Self { reader_slots, ..self }
    }
}
