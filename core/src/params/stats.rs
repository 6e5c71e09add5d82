//! Statistics of parameters.

use backcast_layout::ParamsCounters;

use super::Params;

/// Properties and counters of parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParamsStats {
    /// Newest version; 0 before the first one.
    pub version: u64,
    /// Versions that can be read, oldest first.
    pub versions: Vec<u64>,
    /// Time at which the newest version was published, in nanoseconds since 1970. `None` before the
    /// first one.
    pub published_unix_ns: Option<u64>,
    /// Time at which the parameters were created, in nanoseconds since 1970.
    pub created_unix_ns: u64,
    /// Number of arrays.
    pub arrays: usize,
    /// Bytes of one version's arrays.
    pub array_bytes: usize,
    /// Bytes of all files.
    pub bytes: u64,
    /// Versions that stay readable while another is written.
    pub versions_kept: u32,
    /// Slots beyond those of the versions kept.
    pub spare_slots: u32,
    /// Whether the parameters stay when no process holds them.
    pub persistent: bool,
    /// Whether some handle is the publisher.
    pub has_publisher: bool,
    /// Handles with views: the process id of each, and the number of versions that it pins.
    pub viewers: Vec<(u64, u32)>,
    /// Counters of all handles.
    pub counters: ParamsCounters,
}

impl Params {
    /// Returns the statistics. O(slots × readers).
    #[must_use]
    pub fn stats(&self) -> ParamsStats {
        let (store, shape) = (&self.store, self.shape());
        let version = self.version();
        ParamsStats {
            version,
            versions: store.versions(),
            published_unix_ns: store.published_unix_ns(version),
            created_unix_ns: store.created_unix_ns(),
            arrays: shape.arrays().len(),
            array_bytes: shape.array_bytes(),
            bytes: store.bytes(),
            versions_kept: shape.versions_kept(),
            spare_slots: shape.spare_slots(),
            persistent: store.persistent(),
            has_publisher: store.has_publisher(),
            viewers: store.viewers(),
            counters: store.counters(),
        }
    }
}
