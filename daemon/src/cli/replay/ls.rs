//! `backcast ls`: lists rings, panels, parameters and snapshots, damaged ones included.

use backcast_core::Base;
use backcast_persist::{Listing, Store, StoreError};

use crate::cli::console::{Align, Console};
use crate::cli::exit_status::{CommandError, Exit};
use crate::cli::replay::snapshots::{StoreArg, note_damage};
use crate::objects::catalogue::{Entry, ObjectState, Obstacle};
use crate::objects::evicted::EVICTED;
use crate::objects::listed::{Listed, evicted_in};
use crate::protocol::Holder;
use crate::text::units;

/// List rings, panels, parameters and snapshots.
///
/// HELD BY has the process ids of the holders, as far as this user may see them.
///
/// States: held (a process has it open), idle (no process has; it is persistent), orphaned (no
/// process has; `backcast gc` removes it), building (its creator is filling it), damaged (its files
/// are not valid), other-version (another version of Backcast made it, and reads it), denied (this
/// user may not open its files), unknown (the system could not open its files), saved (a snapshot
/// on disk; its size includes files that it shares with other snapshots), evicted (a daemon saved
/// it to disk to make room; attaching through the daemon restores it). The exit status is 1 if any
/// is damaged, other-version, denied or unknown.
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

/// Adds the snapshots; without a place for a store there are none. If this user may not read the
/// store, warns and returns false, so that the rings are listed all the same.
fn saved(
    store: &StoreArg,
    listed: &mut Vec<Listed>,
    console: &mut Console<'_>,
) -> Result<bool, CommandError> {
    let store = match store.open() {
        Err(StoreError::NoPlace) => return Ok(true),
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
                // A ring in memory is not evicted, even if a killed daemon left its snapshot.
                let gone = !listed.iter().any(|object| object.is_ring(&name));
                listed.extend(snapshots.iter().map(|snapshot| {
                    Listed::on_disk(snapshot, store.path(), gone && snapshot.label == EVICTED)
                }));
            }
            Err(error) => listed.push(Listed::unread(name, path, &error)),
        }
    }
    Ok(true)
}

/// Returns whether an error is about access and not about content.
fn is_denied(error: &StoreError) -> bool {
    Obstacle::of_store(error) == Obstacle::Denied
}

pub(crate) fn run(
    args: &Args,
    base: &Base,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    let objects = backcast_core::list_objects(base)?;
    // Look up the holders first: opening a panel makes this process a holder.
    let holders = backcast_core::object_holders(&objects);
    let mut listed: Vec<Listed> = objects
        .into_iter()
        .zip(holders)
        .filter_map(|(info, pids)| {
            let listed = Entry::open(base, info).map(Listed::from)?;
            Some(Listed { holder_pids: Some(pids), ..listed })
        })
        .collect();
    let mut all_seen = saved(&args.store, &mut listed, console)?;
    // The daemon may use another store than this command.
    if let Some(store) = Holder::of(base).and_then(|holder| holder.store) {
        match evicted_in(&Store::at(store), &listed) {
            Ok(elsewhere) => listed.extend(elsewhere),
            Err(error) => {
                console.note(&format!("warning: evicted rings are left out: {error}"));
                all_seen = false;
            }
        }
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
                ("HELD BY", Align::Left),
                ("", Align::Left),
            ],
            &listed.iter().map(cells).collect::<Vec<_>>(),
        );
    }
    let in_state = |state| listed.iter().filter(move |object| object.state == state);
    let orphaned: u64 = in_state(ObjectState::Orphaned).map(|object| object.size_bytes).sum();
    if in_state(ObjectState::Orphaned).next().is_some() {
        console.note(&format!(
            "{} orphaned ({}): `backcast gc` removes what no process holds",
            in_state(ObjectState::Orphaned).count(),
            units::bytes(orphaned)
        ));
    }
    if in_state(ObjectState::Evicted).next().is_some() {
        console.note(&format!(
            "{} evicted: attaching through the daemon restores one; `backcast rm NAME@{EVICTED}` \
             removes it",
            in_state(ObjectState::Evicted).count()
        ));
    }
    let denied = in_state(ObjectState::Denied).count();
    if denied > 0 {
        console.note(&format!(
            "{denied} denied: have the owner give access; nothing says that they are damaged"
        ));
    }
    let unknown = in_state(ObjectState::Unknown).count();
    if unknown > 0 {
        console.note(&format!(
            "{unknown} unknown: the system could not open them; nothing says that they are damaged"
        ));
    }
    let foreign = in_state(ObjectState::OtherVersion).count();
    if foreign > 0 {
        console.note(&format!(
            "{foreign} of another version of Backcast, which reads them: save them with that \
             version and load them here, or create them anew"
        ));
    }
    // Does not recommend `rm` for damaged snapshots.
    let all_damaged = in_state(ObjectState::Damaged).count();
    let damaged = in_state(ObjectState::Damaged).filter(|object| object.kind != "snapshot").count();
    if damaged > 0 {
        console.note(&format!("{damaged} damaged: `backcast rm NAME` removes one"));
    }
    let fine = all_seen && all_damaged == 0 && denied + unknown + foreign == 0;
    Ok(if fine { Exit::Done } else { Exit::FoundProblems })
}

/// Returns the process ids of the holders. Without any, returns `?` for a held object and `-` for
/// others.
fn held_by(listed: &Listed) -> String {
    let pids: Vec<_> = listed.holder_pids.iter().flatten().map(u32::to_string).collect();
    match (pids.is_empty(), listed.state) {
        (false, _) => pids.join(" "),
        (true, ObjectState::Held) => "?".to_owned(),
        (true, _) => "-".to_owned(),
    }
}

/// Returns the cells of a table row.
fn cells(listed: &Listed) -> Vec<String> {
    let number = |n: Option<u64>| n.map_or_else(|| "-".to_owned(), units::count);
    let note = match (&listed.error, listed.days, listed.tickers) {
        (Some(error), _, _) => error.clone(),
        (None, Some(days), Some(tickers)) => {
            format!("{} days of {tickers} tickers", units::exact(days as u64))
        }
        _ => {
            let version =
                listed.version.map(|version| format!("version {}", units::exact(version)));
            version.unwrap_or_default()
        }
    };
    vec![
        listed.name.clone(),
        listed.kind.to_owned(),
        listed.state.to_string(),
        units::bytes(listed.size_bytes),
        number(listed.lane_count.map(u64::from)),
        number(listed.rows),
        number(listed.transitions),
        held_by(listed),
        note,
    ]
}
