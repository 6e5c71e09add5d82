//! Which rings are followed, and how.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use backcast_persist::{FollowOptions, Keep, Mode, Store, StoreError};

use super::span::{Size, Span};
use crate::typed::whole;

/// Keys of `[persist]` and of `[persist.ring.NAME]`, which are the flags' names without `--persist-`.
pub(crate) const RING_KEYS: [&str; 6] =
    ["mode", "every", "newest", "flush", "keep-bytes", "keep-age"];
/// Of `[persist]` alone.
pub(crate) const STORE_KEY: &str = "store";

/// How rings are brought to disk.
#[derive(Clone, Debug, PartialEq)]
pub struct PersistOptions {
    /// Directory of the store; the user's, if left out.
    pub store: Option<PathBuf>,
    /// For every ring that nothing else is said of.
    pub all: FollowOptions,
    /// For rings of these names, whatever their creators asked for.
    pub rings: BTreeMap<String, FollowOptions>,
}

impl Default for PersistOptions {
    /// Rings are followed whose creators asked for it.
    fn default() -> Self {
        let all = FollowOptions { mode: Mode::Off, ..FollowOptions::default() };
        Self { store: None, all, rings: BTreeMap::new() }
    }
}

impl PersistOptions {
    /// The store.
    pub(crate) fn store(&self) -> Result<Store, StoreError> {
        self.store.clone().map_or_else(Store::standard, |dir| Ok(Store::at(dir)))
    }

    /// What is done with a ring whose creator asked for `asked`.
    pub(crate) fn of(&self, name: &str, asked: Option<Mode>) -> FollowOptions {
        let mode = asked.unwrap_or(self.all.mode);
        self.rings.get(name).copied().unwrap_or(FollowOptions { mode, ..self.all })
    }
}

/// Settings, given or not: those of flags, of `[persist]`, or of one ring.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct GivenPersist {
    /// Bring rings to disk by themselves: off, periodic, continuous, or block (continuous, and writers
    /// wait rather than overwrite what is not on disk) [default: what each ring was created with].
    #[arg(long = "persist-mode", value_name = "MODE")]
    pub(crate) mode: Option<Mode>,
    /// Directory that they go to [default: that of `backcast save`].
    #[arg(long = "persist-store", value_name = "DIR")]
    pub(crate) store: Option<PathBuf>,
    /// Time between two periodic snapshots: `90s`, `10min`, `12h` [default: 10min].
    #[arg(long = "persist-every", value_name = "TIME")]
    pub(crate) every: Option<Span>,
    /// Periodic snapshots that are kept, from 1 to 1000 [default: 3].
    #[arg(long = "persist-newest", value_name = "N", value_parser = whole(1..=1000_u16))]
    pub(crate) newest: Option<u16>,
    /// Longest time until a row is on disk, in the modes continuous and block [default: 2s].
    #[arg(long = "persist-flush", value_name = "TIME")]
    pub(crate) flush: Option<Span>,
    /// Keep rows on disk that a ring does not keep any more, while its files have so many bytes.
    #[arg(long = "persist-keep-bytes", value_name = "SIZE")]
    pub(crate) keep_bytes: Option<Size>,
    /// Keep rows on disk that a ring does not keep any more, for so long.
    #[arg(long = "persist-keep-age", value_name = "TIME")]
    pub(crate) keep_age: Option<Span>,
}

impl GivenPersist {
    /// What stands here, or else in `other`.
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

    /// With what `base` says where nothing is given.
    pub(crate) fn over(&self, base: FollowOptions) -> FollowOptions {
        let time = |given: Option<Span>, other: Duration| given.map_or(other, |span| span.0);
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
