//! `backcast ls`: every ring, panel and snapshot, damaged ones included.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use backcast_core::{Base, Kind};
use backcast_persist::{Listing, Snapshot, Store, StoreError};
use serde::Serialize;

use crate::catalogue::{self, Content, Entry, State};
use crate::console::{Align, Console};
use crate::error::{CliError, Exit};
use crate::serve::{EVICTED, Holder};
use crate::snapshots::{StoreArg, note_damage};
use crate::units;

/// List rings, panels and snapshots.
///
/// States: held (some process has it open), idle (nobody has; it is persistent), orphaned (nobody
/// has; `backcast gc` removes it), building (its creator is at work), partial (an import was cut; the
/// same one goes on from there), damaged (its bytes are not
/// what they should be; exit status 1), denied (this user may not open its files, which may be whole;
/// exit status 1), saved (a snapshot: on disk; its size is that of all files with
/// rows of it, which snapshots share), evicted (a daemon saved it to make room: on disk; who attaches
/// through the daemon gets it back).
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  backcast ls
  backcast ls --dir /mnt/big
  backcast --json ls | jq 'select(.state == \"orphaned\").name'")]
pub(crate) struct Args {
    #[command(flatten)]
    store: StoreArg,
}

/// JSON of one listed object; keys that do not apply are null.
#[derive(Debug, Serialize)]
pub(crate) struct Listed {
    kind: &'static str,
    name: String,
    path: PathBuf,
    state: State,
    persistent: bool,
    size_bytes: u64,
    lane_count: Option<u32>,
    rows: Option<u64>,
    transitions: Option<u64>,
    days: Option<usize>,
    tickers: Option<usize>,
    error: Option<String>,
}

impl From<Entry> for Listed {
    fn from(Entry { info, state, content, .. }: Entry) -> Self {
        let mut listed = Self {
            kind: info.kind.as_str(),
            name: catalogue::shown_name(&info),
            path: info.path,
            state,
            persistent: info.persistent,
            size_bytes: info.bytes,
            lane_count: None,
            rows: None,
            transitions: None,
            days: None,
            tickers: None,
            error: None,
        };
        match content {
            Content::Ring(stats) => {
                listed.lane_count = Some(stats.lanes);
                listed.rows = Some(stats.lane_stats.iter().map(|lane| lane.rows).sum());
                listed.transitions = Some(stats.transitions);
            }
            Content::Panel(panel) => {
                listed.days = Some(panel.days());
                listed.tickers = Some(panel.tickers().len());
            }
            Content::Damaged(why) | Content::Denied(why) => listed.error = Some(why),
            Content::Unopened => {}
        }
        listed
    }
}

impl Listed {
    fn snapshot(name: String, state: State) -> Self {
        Self {
            kind: "snapshot",
            name,
            path: PathBuf::new(),
            state,
            persistent: true,
            size_bytes: 0,
            lane_count: None,
            rows: None,
            transitions: None,
            days: None,
            tickers: None,
            error: None,
        }
    }

    /// What is on disk: a snapshot, or a ring that was evicted.
    fn on_disk(snapshot: &Snapshot, store: &Path, evicted: bool) -> Self {
        let listed = if evicted {
            let ring = Self::snapshot(snapshot.name.clone(), State::Evicted);
            Self { kind: Kind::Ring.as_str(), ..ring }
        } else {
            Self::snapshot(snapshot.spec(), State::Saved)
        };
        Self {
            path: store.join(&snapshot.name),
            size_bytes: snapshot.bytes,
            lane_count: u32::try_from(snapshot.lanes.len()).ok(),
            rows: Some(snapshot.rows),
            ..listed
        }
    }

    fn is_ring(&self, name: &str) -> bool {
        let whole = !matches!(self.state, State::Building | State::Partial);
        self.kind == Kind::Ring.as_str() && self.name == name && whole
    }

    fn cells(&self) -> Vec<String> {
        let number = |n: Option<u64>| n.map_or_else(|| "-".to_owned(), units::count);
        let note = match (&self.error, self.days, self.tickers) {
            (Some(error), _, _) => error.clone(),
            (None, Some(days), Some(tickers)) => {
                format!("{} days of {tickers} tickers", units::exact(days as u64))
            }
            _ => String::new(),
        };
        vec![
            self.name.clone(),
            self.kind.to_owned(),
            self.state.to_string(),
            units::bytes(self.size_bytes),
            number(self.lane_count.map(u64::from)),
            number(self.rows),
            number(self.transitions),
            note,
        ]
    }
}

/// Adds the snapshots. Without a place for a store there are none. `false`: this user may not look into the
/// store, which is no reason not to list the rings.
fn saved(
    store: &StoreArg,
    listed: &mut Vec<Listed>,
    console: &mut Console<'_>,
) -> Result<bool, CliError> {
    let store = match store.open() {
        Err(CliError::Store(StoreError::NoPlace)) => return Ok(true),
        store => store?,
    };
    let names = match store.names() {
        Err(error) if is_denied(&error) => {
            console.note(&format!("warning: snapshots are left out: {error}"));
            return Ok(false);
        }
        names => names?,
    };
    for name in names {
        let path = store.path().join(&name);
        match store.snapshots(&name) {
            Ok(Listing { snapshots, damages }) => {
                for damage in &damages {
                    note_damage(damage, console);
                }
                // A ring that is in memory is not evicted, whatever a kill left.
                let gone = !listed.iter().any(|object| object.is_ring(&name));
                listed.extend(snapshots.iter().map(|snapshot| {
                    Listed::on_disk(snapshot, store.path(), gone && snapshot.label == EVICTED)
                }));
            }
            Err(error) => listed.push(Listed {
                path,
                error: Some(error.to_string()),
                ..Listed::snapshot(
                    name,
                    if is_denied(&error) { State::Denied } else { State::Damaged },
                )
            }),
        }
    }
    Ok(true)
}

/// Whether an error is about who may read a saved ring, not about what was saved.
fn is_denied(error: &StoreError) -> bool {
    matches!(error, StoreError::Io { source, .. } if source.kind() == ErrorKind::PermissionDenied)
}

/// Rings that were evicted to a store and are not among those listed. One that cannot be read has none.
pub(crate) fn evicted(store: &Store, listed: &[Listed]) -> Vec<Listed> {
    let names = store.names().unwrap_or_default();
    let gone = names.iter().filter(|name| !listed.iter().any(|object| object.is_ring(name)));
    let found = gone.filter_map(|name| store.snapshot(&format!("{name}@{EVICTED}")).ok());
    found.map(|snapshot| Listed::on_disk(&snapshot, store.path(), true)).collect()
}

pub(crate) fn run(args: &Args, base: &Base, console: &mut Console<'_>) -> Result<Exit, CliError> {
    let mut listed: Vec<Listed> = catalogue::all(base)?
        .into_iter()
        .filter_map(|info| Entry::open(base, info).map(Listed::from))
        .collect();
    let all_seen = saved(&args.store, &mut listed, console)?;
    // A daemon may keep them elsewhere.
    if let Some(store) = Holder::of(base).and_then(|holder| holder.store) {
        let elsewhere = evicted(&Store::at(store), &listed);
        listed.extend(elsewhere);
    }
    if console.json() {
        for object in &listed {
            console.object(object);
        }
    } else if listed.is_empty() {
        let snapshots = if all_seen { ", and no snapshots" } else { "" };
        console.note(&format!("no rings or panels in {}{snapshots}", base.path().display()));
    } else {
        console.table(
            &[
                ("NAME", Align::Left),
                ("KIND", Align::Left),
                ("STATE", Align::Left),
                ("SIZE", Align::Right),
                ("LANES", Align::Right),
                ("ROWS", Align::Right),
                ("TRANSITIONS", Align::Right),
                ("", Align::Left),
            ],
            &listed.iter().map(Listed::cells).collect::<Vec<_>>(),
        );
    }
    let in_state = |state| listed.iter().filter(move |object| object.state == state);
    let orphaned: u64 = in_state(State::Orphaned).map(|object| object.size_bytes).sum();
    if in_state(State::Orphaned).next().is_some() {
        console.note(&format!(
            "{} orphaned ({}): `backcast gc` removes what nobody holds",
            in_state(State::Orphaned).count(),
            units::bytes(orphaned)
        ));
    }
    let partial: u64 = in_state(State::Partial).map(|object| object.size_bytes).sum();
    if in_state(State::Partial).next().is_some() {
        console.note(&format!(
            "{} partial ({}): the same `backcast import` goes on from there; `backcast rm NAME` removes \
             one, and `backcast gc` all",
            in_state(State::Partial).count(),
            units::bytes(partial)
        ));
    }
    if in_state(State::Evicted).next().is_some() {
        console.note(&format!(
            "{} evicted: who attaches through the daemon gets them back; `backcast rm NAME@{EVICTED}` \
             removes one",
            in_state(State::Evicted).count()
        ));
    }
    let denied = in_state(State::Denied).count();
    if denied > 0 {
        console.note(&format!(
            "{denied} denied: have the owner give access; nothing says that they are damaged"
        ));
    }
    // Of what is on disk nothing is thrown away.
    let damaged = in_state(State::Damaged).filter(|object| object.kind != "snapshot").count();
    if damaged > 0 {
        console.note(&format!("{damaged} damaged: `backcast rm NAME` removes one"));
    }
    let fine = all_seen && denied == 0 && in_state(State::Damaged).next().is_none();
    Ok(if fine { Exit::Done } else { Exit::FoundProblems })
}
