//! Settings of persistence.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use backcast_persist::{FollowOptions, Keep, PersistMode, Store, StoreError};

use super::span::{ByteLimit, TimeSpan};
use crate::text::parse::whole;

/// Keys of `[persist]` and `[persist.ring.NAME]`: the names of the flags without `--persist-`.
pub(crate) const RING_KEYS: [&str; 6] =
    ["mode", "every", "newest", "flush", "keep-bytes", "keep-age"];
/// Key of `[persist]` only.
pub(crate) const STORE_KEY: &str = "store";

/// Settings of persistence.
#[derive(Clone, Debug, PartialEq)]
pub struct PersistOptions {
    /// Directory of the store; `None` for the user's.
    pub store: Option<PathBuf>,
    /// Settings of rings without their own. The mode that a ring's creator set takes precedence.
    pub all: FollowOptions,
    /// Settings by name of the ring. They override the mode that the ring's creator set.
    pub rings: BTreeMap<String, FollowOptions>,
}

impl Default for PersistOptions {
    /// Returns settings that persist only rings whose creators set a mode.
    fn default() -> Self {
        let all = FollowOptions { mode: PersistMode::Off, ..FollowOptions::default() };
        Self { store: None, all, rings: BTreeMap::new() }
    }
}

impl PersistOptions {
    /// Returns the store.
    pub(crate) fn store(&self) -> Result<Store, StoreError> {
        self.store.clone().map_or_else(Store::standard, |dir| Ok(Store::at(dir)))
    }

    /// Returns the settings of a ring whose creator set the mode `asked`.
    pub(crate) fn of(&self, name: &str, asked: Option<PersistMode>) -> FollowOptions {
        let mode = asked.unwrap_or(self.all.mode);
        self.rings.get(name).copied().unwrap_or(FollowOptions { mode, ..self.all })
    }
}

/// Optional settings of the flags, of `[persist]`, or of one ring.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct GivenPersist {
    /// Persist rings automatically: off, periodic, continuous, or block (continuous, and writers
    /// wait rather than overwrite rows that are not on disk) [default: as each ring was created].
    #[arg(long = "persist-mode", value_name = "MODE")]
    pub(crate) mode: Option<PersistMode>,
    /// Directory of the snapshots [default: that of `backcast save`].
    #[arg(long = "persist-store", value_name = "DIR")]
    pub(crate) store: Option<PathBuf>,
    /// Time between two periodic snapshots: `90s`, `10min`, `12h` [default: 10min].
    #[arg(long = "persist-every", value_name = "TIME")]
    pub(crate) every: Option<TimeSpan>,
    /// Periodic snapshots to keep, from 1 to 1000 [default: 3].
    #[arg(long = "persist-newest", value_name = "N", value_parser = whole(1..=1000_u16))]
    pub(crate) newest: Option<u16>,
    /// Maximum time until a row is on disk, in the modes continuous and block [default: 2s].
    #[arg(long = "persist-flush", value_name = "TIME")]
    pub(crate) flush: Option<TimeSpan>,
    /// Keep rows on disk that a ring has overwritten, up to this size of its files.
    #[arg(long = "persist-keep-bytes", value_name = "SIZE")]
    pub(crate) keep_bytes: Option<ByteLimit>,
    /// Keep rows on disk that a ring has overwritten, for this time.
    #[arg(long = "persist-keep-age", value_name = "TIME")]
    pub(crate) keep_age: Option<TimeSpan>,
}

impl GivenPersist {
    /// Returns these settings, completed by those of `other`.
    pub(crate) fn or(&self, other: &Self) -> Self {
        Self {
            mode: self.mode.or(other.mode),
            store: self.store.clone().or_else(|| other.store.clone()),
            every: self.every.or(other.every),
            newest: self.newest.or(other.newest),
            flush: self.flush.or(other.flush),
            keep_bytes: self.keep_bytes.or(other.keep_bytes),
            keep_age: self.keep_age.or(other.keep_age),
        }
    }

    /// Returns the options of these settings, completed by those of `base`.
    pub(crate) fn over(&self, base: FollowOptions) -> FollowOptions {
        let time = |given: Option<TimeSpan>, other: Duration| given.map_or(other, |span| span.0);
        FollowOptions {
            mode: self.mode.unwrap_or(base.mode),
            every: time(self.every, base.every),
            newest: self.newest.map_or(base.newest, usize::from),
            flush: time(self.flush, base.flush),
            keep: Keep {
                bytes: self.keep_bytes.map_or(base.keep.bytes, |size| Some(size.0)),
                age: self.keep_age.map_or(base.keep.age, |span| Some(span.0)),
            },
            ..base
        }
    }
}
