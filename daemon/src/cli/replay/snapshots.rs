//! Parts of commands on snapshots: the option `--store`, reports, errors.

use std::path::PathBuf;

use backcast_core::{ParamsError, RestoreError};
use backcast_persist::{Damage, LoadError, SaveError, Snapshot, SnapshotParams, Store, StoreError};
use serde::Serialize;

use crate::cli::column_table::print_columns;
use crate::cli::console::{Align, Console};
use crate::cli::exit_status::{CommandError, Exit, Fails, Interrupted};
use crate::cli::replay::ring_errors::{EXIST_REPLACE, MakingOptions, of_restore};
use crate::objects::geometry::ColumnRow;
use crate::text::units;

/// Option `--store`.
#[derive(Debug, clap::Args)]
pub(crate) struct StoreArg {
    /// Directory that holds the snapshots (default: `BACKCAST_STORE`, else
    /// ~/.local/share/backcast).
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,
}

impl StoreArg {
    pub(crate) fn open(&self) -> Result<Store, StoreError> {
        self.store.clone().map_or_else(Store::standard, |dir| Ok(Store::at(dir)))
    }
}

impl Fails for StoreError {
    fn exit(&self) -> Exit {
        match self {
            Self::NotFound { .. } => Exit::NoSuchObject,
            Self::BadName { .. } | Self::NoPlace => Exit::WrongUsage,
            _ => Exit::FoundProblems,
        }
    }
}

/// Returns the exit status of an error of a save.
fn exit_of_save(error: &SaveError) -> Exit {
    match error {
        SaveError::Store(error) => error.exit(),
        SaveError::LabelReserved { .. } => Exit::WrongUsage,
        _ => Exit::FoundProblems,
    }
}

impl From<SaveError> for CommandError {
    fn from(error: SaveError) -> Self {
        match error {
            SaveError::Cancelled => Interrupted.into(),
            error => CommandError::plain(error, exit_of_save),
        }
    }
}

/// Remedies for loading a ring. Its size is the saved one, so no option asks for less.
const OPTIONS: MakingOptions =
    MakingOptions { less: None, rename: "give another name with --as, ", replace: EXIST_REPLACE };

/// Remedies for loading parameters. No option gives them another name.
const PARAMS_OPTIONS: MakingOptions = MakingOptions { rename: "", ..OPTIONS };

/// Returns the exit status of an error of a load.
fn exit_of_load(error: &LoadError) -> Exit {
    match error {
        LoadError::Store(error) => error.exit(),
        LoadError::NoParams { .. } => Exit::NoSuchObject,
        _ => Exit::FoundProblems,
    }
}

impl From<LoadError> for CommandError {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::Cancelled => Interrupted.into(),
            LoadError::Ring(error) => of_filling(error.into(), OPTIONS),
            LoadError::Params(ParamsError::Segment(error)) => {
                of_filling(error.into(), PARAMS_OPTIONS)
            }
            LoadError::Restore(error) => of_filling(error, OPTIONS),
            error => CommandError::plain(error, exit_of_load),
        }
    }
}

/// Converts an error of creating the ring or the parameters of a snapshot.
fn of_filling(error: RestoreError, options: MakingOptions) -> CommandError {
    of_restore(error, options)
        .unwrap_or_else(|error| CommandError::plain(LoadError::Restore(error), exit_of_load))
}

/// Returns whether a name looks like that of a snapshot, such as `pong@epoch-10`.
pub(crate) fn is_snapshot(name: &str) -> bool {
    name.contains('@')
}

/// Warns about a damaged manifest of the name in `NAME` or `NAME@LABEL` if the other manifest is
/// valid.
pub(crate) fn note_damages(store: &Store, snapshot: &str, console: &mut Console<'_>) {
    let name = snapshot.split('@').next().unwrap_or_default();
    // If no manifest can be read, the command itself fails.
    for damage in store.snapshots(name).unwrap_or_default().damages {
        note_damage(&damage, console);
    }
}

/// Warns about a damaged manifest beside a valid one.
pub(crate) fn note_damage(damage: &Damage, console: &mut Console<'_>) {
    console.note(&format!(
        "warning: {damage}; the other manifest is used, which is one save older: the last save may \
         be missing"
    ));
}

/// JSON of parameters in a snapshot.
#[derive(Debug, Serialize)]
pub(crate) struct ParamsRow {
    name: String,
    version: u64,
    arrays: usize,
    size_bytes: u64,
}

impl From<&SnapshotParams> for ParamsRow {
    fn from(saved: &SnapshotParams) -> Self {
        let SnapshotParams { ref name, version, arrays, bytes } = *saved;
        Self { name: name.clone(), version, arrays, size_bytes: bytes }
    }
}

impl std::fmt::Display for ParamsRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: version {}", self.name, units::exact(self.version))
    }
}

/// JSON of a snapshot.
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
    lanes: Vec<SavedLane>,
    params: Vec<ParamsRow>,
    saved_state: serde_json::Value,
}

/// JSON of the rows of a lane.
#[derive(Debug, Serialize)]
struct SavedLane {
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
                .map(|(lane, rows)| SavedLane {
                    lane,
                    first_seq: rows.start,
                    head_seq: rows.end,
                    rows: rows.end - rows.start,
                })
                .collect(),
            params: snapshot.params.iter().map(ParamsRow::from).collect(),
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
            fact(
                "params",
                match &*self.params {
                    [] => "-".to_owned(),
                    all => all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
                },
            ),
            fact("state", self.saved_state.to_string()),
        ]);
        console.text("");
        print_columns(&self.columns, console);
        console.text("");
        let right = Align::Right;
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
