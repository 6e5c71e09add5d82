//! Parameters as `backcast stat` shows them.

use std::path::PathBuf;

use backcast_core::{ObjectInfo, ParamsStats};
use serde::Serialize;

use crate::cli::console::Console;
use crate::objects::catalogue::ObjectState;
use crate::objects::geometry::yes_no;
use crate::objects::holders::held_by;
use crate::text::units;

/// JSON of parameters.
#[derive(Debug, Serialize)]
pub(crate) struct ParamsReport {
    kind: &'static str,
    name: String,
    path: PathBuf,
    state: ObjectState,
    holder_pids: Vec<u32>,
    persistent: bool,
    size_bytes: u64,
    created_unix_ns: u64,
    arrays: usize,
    array_bytes: usize,
    version: u64,
    versions: Vec<u64>,
    published_unix_ns: Option<u64>,
    versions_kept: u32,
    spare_slots: u32,
    /// Process id of the publisher, while there is one.
    publisher_pid: Option<u64>,
    published: u64,
    refused: u64,
    pulls: u64,
    retries: u64,
    viewers: Vec<ViewerReport>,
}

/// JSON of a handle with views.
#[derive(Debug, Serialize)]
struct ViewerReport {
    pid: u64,
    versions: u32,
}

impl ParamsReport {
    pub(crate) fn new(
        info: &ObjectInfo,
        state: ObjectState,
        holder_pids: Vec<u32>,
        params: ParamsStats,
    ) -> Self {
        let viewer = |(pid, versions)| ViewerReport { pid, versions };
        Self {
            kind: "params",
            name: info.name.clone(),
            path: info.path.clone(),
            state,
            holder_pids,
            persistent: info.persistent,
            size_bytes: info.bytes,
            created_unix_ns: params.created_unix_ns,
            arrays: params.arrays,
            array_bytes: params.array_bytes,
            version: params.version,
            versions: params.versions,
            published_unix_ns: params.published_unix_ns,
            versions_kept: params.versions_kept,
            spare_slots: params.spare_slots,
            publisher_pid: params.has_publisher.then_some(params.counters.pid),
            published: params.counters.published,
            refused: params.counters.refused,
            pulls: params.counters.pulls,
            retries: params.counters.retries,
            viewers: params.viewers.into_iter().map(viewer).collect(),
        }
    }

    pub(crate) fn print(&self, console: &mut Console<'_>) {
        if console.json() {
            return console.object(self);
        }
        let fact = |name: &str, value: String| vec![name.to_owned(), value];
        let versions: Vec<String> = self.versions.iter().map(|v| units::exact(*v)).collect();
        let readable = if versions.is_empty() { "-".to_owned() } else { versions.join(" ") };
        let viewers: Vec<String> = self
            .viewers
            .iter()
            .map(|viewer| format!("pid {} ({} pinned)", viewer.pid, viewer.versions))
            .collect();
        console.facts(&[
            fact("params", self.name.clone()),
            fact("path", self.path.display().to_string()),
            fact("state", self.state.to_string()),
            fact("held by", held_by(self.state, &self.holder_pids)),
            fact("persistent", yes_no(self.persistent)),
            fact("memory", units::bytes(self.size_bytes)),
            fact("created", units::since(self.created_unix_ns)),
            fact(
                "arrays",
                format!(
                    "{}: {}",
                    units::exact(self.arrays as u64),
                    units::bytes(self.array_bytes as u64)
                ),
            ),
            fact("version", units::exact(self.version)),
            fact("published", self.published_unix_ns.map_or_else(|| "-".to_owned(), units::since)),
            fact("readable", readable),
            fact("slots", format!("{} kept, {} spare", self.versions_kept, self.spare_slots)),
            fact(
                "publisher",
                self.publisher_pid.map_or_else(|| "-".to_owned(), |pid| format!("pid {pid}")),
            ),
            fact(
                "publishes",
                format!(
                    "{} done, {} refused",
                    units::exact(self.published),
                    units::exact(self.refused)
                ),
            ),
            fact(
                "pulls",
                format!(
                    "{} done, {} retries",
                    units::exact(self.pulls),
                    units::exact(self.retries)
                ),
            ),
            fact("views", if viewers.is_empty() { "-".to_owned() } else { viewers.join(", ") }),
        ]);
    }
}
