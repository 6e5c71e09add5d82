//! Saving and loading for clients: to and from the daemon's store, and within its budget.

use backcast_core::{Base, Exist, Observed, Ring, RingOptions, Schema};
use backcast_persist::{LoadOptions, SaveOptions, Snapshot, Store};

use super::caller::Caller;
use super::create::{granted, keep, note, room};
use super::quota;
use super::shared::Shared;
use crate::error::CliError;
use crate::save::numbered;
use crate::wire::{Code, Granted, LoadAsk, Refusal, SaveAsk, Saved, SavedSnapshot};

fn store(shared: &Shared) -> Result<Store, Refusal> {
    shared.persist().store().map_err(refused)
}

pub(crate) fn refused(error: impl Into<CliError>) -> Refusal {
    error.into().into()
}

/// Saves a ring beside its writers. Nobody else waits meanwhile.
pub(crate) fn save(shared: &Shared, ask: &SaveAsk) -> Result<Saved, Refusal> {
    let store = store(shared)?;
    let observed = Observed::open(&shared.base, &ask.name)?;
    let save = |label: &str| {
        store.save(observed.ring(), label, SaveOptions::default().replace(ask.replace))
    };
    let report = match &ask.label {
        Some(label) => save(label).map_err(refused)?,
        None => numbered(&store, &ask.name, save)?,
    };
    let saved = Saved::from(&report);
    tracing::info!(snapshot = %saved.name, rows = saved.rows, bytes = saved.size_bytes, "save");
    Ok(saved)
}

/// The snapshots of one name, or of all.
pub(crate) fn snapshots(
    shared: &Shared,
    name: Option<&str>,
) -> Result<Vec<SavedSnapshot>, Refusal> {
    let store = store(shared)?;
    let names = match name {
        Some(name) => vec![name.to_owned()],
        None => store.names().map_err(refused)?,
    };
    let mut all = Vec::new();
    for name in names {
        all.extend(store.snapshots(&name).map_err(refused)?.snapshots.iter().map(Into::into));
    }
    Ok(all)
}

/// Makes a ring of a snapshot, if it fits the budget.
pub(crate) fn load(
    shared: &Shared,
    ask: &LoadAsk,
    caller: Caller,
) -> Result<(Granted, Ring), Refusal> {
    let exist: Exist =
        ask.exist.parse().map_err(|why| Refusal::new(Code::BadArgument, format!("{why}")))?;
    if exist == Exist::Attach {
        let why = "exist is `attach`; a snapshot is loaded as a new ring: use error or replace";
        return Err(Refusal::new(Code::BadArgument, why));
    }
    let store = store(shared)?;
    let snapshot = store.snapshot(&ask.snapshot).map_err(refused)?;
    let name = ask.name.as_deref().unwrap_or(&snapshot.name);
    let _turn = shared.turn();
    let ring = loaded(shared, &store, &snapshot, name, (exist, ask.persistent, false), caller)?;
    tracing::info!(ring = %name, snapshot = %snapshot.spec(), "load");
    Ok((granted(name, &ring, true, ring.stats().bytes_allocated), ring))
}

/// The turn is the caller's.
pub(crate) fn loaded(
    shared: &Shared,
    store: &Store,
    snapshot: &Snapshot,
    name: &str,
    (exist, persistent, memfd): (Exist, bool, bool),
    caller: Caller,
) -> Result<Ring, Refusal> {
    let (schema, options) = shape(snapshot, &shared.base)?;
    let asked = Ring::planned_bytes(&schema, &options)?;
    quota::check(shared, caller, name, asked)?;
    room(shared, name, asked)?;
    let options = LoadOptions::default()
        .name(name)
        .base(shared.base.clone())
        .exist(exist)
        .persistent(persistent)
        .memfd(memfd || shared.live().memfd);
    let ring = store.load(&snapshot.spec(), options).map_err(refused)?;
    keep(shared, &ring)?;
    note(&ring, caller);
    Ok(ring)
}

/// What a ring of it takes.
fn shape(snapshot: &Snapshot, base: &Base) -> Result<(Schema, RingOptions), Refusal> {
    let mut schema = Schema::builder();
    for column in &snapshot.columns {
        schema = schema.column_as(column.name(), column.dtype(), column.shape(), column.role());
    }
    let lanes = u32::try_from(snapshot.lanes.len()).unwrap_or(u32::MAX);
    let capacity = snapshot.lane_capacity.saturating_mul(lanes.into());
    let options = RingOptions::with_capacity(capacity).lanes(lanes).base(base.clone());
    Ok((schema.build()?, options))
}
