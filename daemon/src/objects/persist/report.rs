//! Report of a ring's follower. The daemon writes it to the ring's directory. `stat` and `top` read
//! it.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use backcast_core::Ring;
use backcast_persist::{FollowState, PersistMode};
use serde::{Deserialize, Serialize};

use super::spec::asked;

/// File in the ring's directory.
const FILE: &str = "persist.json";
/// Maximum bytes of the file.
const MAX_BYTES: u64 = 64 << 10;

/// JSON of a ring's persistence. Readers of the file recount the rows that are behind.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct PersistReport {
    mode: String,
    /// `None` if no daemon has followed the ring yet.
    store: Option<PathBuf>,
    pub(crate) behind_rows: u64,
    pub(crate) behind_s: f64,
    persisted_rows: u64,
    /// Rows that were overwritten or dropped before the ring was followed.
    before_rows: u64,
    pub(crate) lapped_rows: u64,
    written_bytes: u64,
    written_files: u64,
    errors: u64,
    pub(crate) error: Option<String>,
    /// Tables, or the rate limiter, that the last snapshot lacks, and why.
    #[serde(default)]
    left_out: Vec<String>,
    /// Time of the report by the wall clock.
    updated_unix_ns: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    inner: Option<FollowerKey>,
}

/// Fields of the file that are read by the program and not shown.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
struct FollowerKey {
    uuid: String,
    /// Published rows that are not behind.
    done_rows: u64,
}

impl PersistReport {
    pub(crate) fn new(ring: &Ring, store: &Path, state: &FollowState) -> Self {
        Self {
            mode: state.mode.to_string(),
            store: Some(store.to_owned()),
            behind_rows: state.rows_behind,
            behind_s: state.behind_for.as_secs_f64(),
            persisted_rows: state.rows_persisted,
            before_rows: state.rows_before,
            lapped_rows: state.rows_lapped,
            written_bytes: state.bytes_written,
            written_files: state.files_written,
            errors: state.errors,
            error: state.error.clone(),
            left_out: state.left_out.clone(),
            updated_unix_ns: unix_ns(),
            inner: Some(FollowerKey { uuid: uuid(ring), done_rows: state.rows_done }),
        }
    }

    pub(crate) fn write(&self, dir: &Path) -> io::Result<()> {
        backcast_files::write_atomically(&dir.join(FILE), |file| {
            file.write_all(&serde_json::to_vec(self)?)
        })
    }

    /// Removes the report of a ring that is no longer followed.
    pub(crate) fn remove(dir: &Path) {
        // `stat` and `top` go on to show a report that cannot be removed.
        let _ = fs::remove_file(dir.join(FILE));
    }

    /// Reads the report of a ring and updates how far the follower is behind. Returns `None` if the
    /// ring is not persisted.
    pub(crate) fn read(ring: &Ring) -> Option<Self> {
        let dir = ring.path().filter(|_| !ring.is_snapshot())?;
        let published = ring.rows_published();
        let Some((mut report, inner)) = written(dir).filter(|(_, inner)| inner.uuid == uuid(ring))
        else {
            let mode = asked(dir).filter(|mode| *mode != PersistMode::Off)?.to_string();
            return Some(Self { mode, behind_rows: published, ..Self::default() });
        };
        let before = report.behind_rows;
        report.behind_rows = behind_now(published, inner.done_rows);
        let since = unix_ns().saturating_sub(report.updated_unix_ns);
        #[expect(clippy::cast_precision_loss, reason = "seconds, for people")]
        let since_s = since as f64 / 1e9;
        report.behind_s = match (report.behind_rows, before) {
            (0, _) => 0.0,
            // All rows behind were published since the report.
            (_, 0) => since_s,
            _ => report.behind_s + since_s,
        };
        Some(report)
    }

    /// Returns names and values, to be printed.
    pub(crate) fn facts(&self) -> Vec<(&'static str, String)> {
        use crate::text::units;
        let mut facts = vec![("persist", self.mode.clone())];
        let Some(store) = &self.store else {
            facts.push(("on disk", "nothing: no daemon has followed it yet".to_owned()));
            return facts;
        };
        facts.push(("store", store.display().to_string()));
        let lapped = match self.lapped_rows {
            0 => String::new(),
            lapped => format!(", {} lapped", units::exact(lapped)),
        };
        facts.push((
            "on disk",
            format!(
                "{} rows{lapped}, {} behind ({:.1} s)",
                units::exact(self.persisted_rows),
                units::exact(self.behind_rows),
                self.behind_s
            ),
        ));
        facts.extend(self.left_out.iter().map(|table| ("not on disk", table.clone())));
        facts.extend(self.error.clone().map(|error| ("persist error", error)));
        facts
    }
}

/// Returns the number of published rows that a follower has not handled yet, for `stat`, `top` and
/// the metrics.
pub(crate) fn behind_now(published: u64, done: u64) -> u64 {
    published.saturating_sub(done)
}

fn written(dir: &Path) -> Option<(PersistReport, FollowerKey)> {
    let bytes = super::read(&dir.join(FILE), MAX_BYTES)?;
    let mut report: PersistReport = serde_json::from_slice(&bytes).ok()?;
    let inner = report.inner.take()?;
    Some((report, inner))
}

fn uuid(ring: &Ring) -> String {
    format!("{:032x}", u128::from_be_bytes(ring.uuid()))
}

fn unix_ns() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}
