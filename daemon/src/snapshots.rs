//! Snapshots as the commands see them: which store, and how one is shown.

use std::path::PathBuf;

use backcast_persist::{Damage, Snapshot, Store};
use serde::Serialize;

use crate::console::Console;
use crate::error::CliError;
use crate::geometry::ColumnRow;
use crate::units;

/// `--store`.
#[derive(Debug, clap::Args)]
pub(crate) struct StoreArg {
    /// Directory that holds the snapshots (default: `BACKCAST_STORE`, else
    /// ~/.local/share/backcast).
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,
}

impl StoreArg {
    pub(crate) fn open(&self) -> Result<Store, CliError> {
        Ok(self.store.clone().map_or_else(Store::standard, |dir| Ok(Store::at(dir)))?)
    }
}

/// Whether a name is that of a snapshot: `pong@epoch-10`.
pub(crate) fn is_snapshot(name: &str) -> bool {
    name.contains('@')
}

/// Says what is wrong with the manifests of a name, `NAME` or `NAME@LABEL`, if the other one counts.
pub(crate) fn note_damages(store: &Store, snapshot: &str, console: &mut Console<'_>) {
    let name = snapshot.split('@').next().unwrap_or_default();
    // What cannot be read at all is the command's error, which tells it.
    for damage in store.snapshots(name).unwrap_or_default().damages {
        note_damage(&damage, console);
    }
}

/// A manifest that is damaged, where the other one counts.
pub(crate) fn note_damage(damage: &Damage, console: &mut Console<'_>) {
    console.note(&format!(
        "warning: {damage}; the other manifest is used, which is one save older: what was saved last \
         may be missing"
    ));
}

/// JSON of a snapshot in full.
#[derive(Debug, Serialize)]
pub(crate) struct SnapshotReport {
    kind: &'static str,
    name: String,
    label: String,
    state: &'static str,
    saved_unix_ns: u64,
    ring_uuid: String,
    lane_count: usize,
    lane_capacity_rows: u64,
    rows: u64,
    size_bytes: u64,
    files: Vec<PathBuf>,
    columns: Vec<ColumnRow>,
    lanes: Vec<LaneRow>,
    saved_state: serde_json::Value,
}

/// JSON of the rows of a lane.
#[derive(Debug, Serialize)]
struct LaneRow {
    lane: usize,
    first_seq: u64,
    head_seq: u64,
    rows: u64,
}

impl From<Snapshot> for SnapshotReport {
    fn from(snapshot: Snapshot) -> Self {
        Self {
            kind: "snapshot",
            name: snapshot.spec(),
            state: "saved",
            saved_unix_ns: snapshot.saved_unix_ns,
            ring_uuid: snapshot.ring_uuid,
            lane_count: snapshot.lanes.len(),
            lane_capacity_rows: snapshot.lane_capacity,
            rows: snapshot.rows,
            size_bytes: snapshot.bytes,
            files: snapshot.files,
            columns: snapshot.columns.iter().map(ColumnRow::from).collect(),
            lanes: snapshot
                .lanes
                .iter()
                .enumerate()
                .map(|(lane, rows)| LaneRow {
                    lane,
                    first_seq: rows.start,
                    head_seq: rows.end,
                    rows: rows.end - rows.start,
                })
                .collect(),
            saved_state: snapshot.state,
            label: snapshot.label,
        }
    }
}

impl SnapshotReport {
    pub(crate) fn print(&self, console: &mut Console<'_>) {
        if console.json() {
            return console.object(self);
        }
        let fact = |name: &str, value: String| vec![name.to_owned(), value];
        console.facts(&[
            fact("name", self.name.clone()),
            fact("saved", units::since(self.saved_unix_ns)),
            fact("ring", self.ring_uuid.clone()),
            fact("rows", units::exact(self.rows)),
            fact("lanes", self.lane_count.to_string()),
            fact("lane capacity", format!("{} rows", units::exact(self.lane_capacity_rows))),
            fact("files", format!("{}, {}", self.files.len(), units::bytes(self.size_bytes))),
            fact("state", self.saved_state.to_string()),
        ]);
        console.text("");
        crate::geometry::print_columns(&self.columns, console);
        console.text("");
        let right = crate::console::Align::Right;
        let rows: Vec<Vec<String>> = self
            .lanes
            .iter()
            .map(|lane| {
                let numbers = [lane.first_seq, lane.head_seq, lane.rows].map(units::exact);
                [vec![lane.lane.to_string()], numbers.to_vec()].concat()
            })
            .collect();
        console
            .table(&[("LANE", right), ("FIRST", right), ("HEAD", right), ("ROWS", right)], &rows);
    }
}
