//! Content of a daemon's lock file, for users and for clients that look for the daemon.

use std::path::PathBuf;

use backcast_core::Base;
use backcast_core::plumbing::BaseLock;
use serde::{Deserialize, Serialize};

/// The daemon that holds a base directory's lock.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Holder {
    pub(crate) pid: u32,
    pub(crate) socket: PathBuf,
    /// Maximum bytes of all objects together.
    #[serde(default)]
    pub(crate) budget_bytes: Option<u64>,
    /// Store of its snapshots and of rings that it evicted.
    #[serde(default)]
    pub(crate) store: Option<PathBuf>,
}

impl Holder {
    /// Returns the daemon that serves `base`, if one runs.
    pub(crate) fn of(base: &Base) -> Option<Self> {
        let said = BaseLock::is_held(base).then(|| BaseLock::said(base))??;
        serde_json::from_str(&said).ok()
    }
}
