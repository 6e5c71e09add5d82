//! Options of a ring that is made from files.

use backcast_core::{Base, Exist, RingOptions};

/// Options of a ring made from files that those files do not record: its place and kind of memory,
/// its persistence, and what happens if the name is taken.
#[derive(Clone, Debug)]
pub struct RingPlacement {
    /// Base directory.
    pub base: Base,
    /// Behaviour when the name is taken.
    pub exist: Exist,
    /// Whether the ring stays when no process holds it.
    pub persistent: bool,
    /// Whether huge pages are requested.
    pub huge_pages: bool,
    /// Whether the ring lies in sealed memfds.
    pub memfd: bool,
}

impl Default for RingPlacement {
    /// Returns a placement in the standard base directory, in files, with huge pages. A taken name
    /// is refused, and the ring is removed with its last holder.
    fn default() -> Self {
        Self {
            base: Base::standard(),
            exist: Exist::Error,
            persistent: false,
            huge_pages: true,
            memfd: false,
        }
    }
}

impl RingPlacement {
    /// Sets these options of a ring.
    #[must_use]
    pub fn apply(&self, options: RingOptions) -> RingOptions {
        let Self { base, exist, persistent, huge_pages, memfd } = self;
        options
            .base(base.clone())
            .exist(*exist)
            .persistent(*persistent)
            .huge_pages(*huge_pages)
            .memfd(*memfd)
    }
}
