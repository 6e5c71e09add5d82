//! Saves to the daemon's store and loads from it within the budget.

use backcast_core::{Base, Exist, Observed, Ring, RingOptions, Schema};
use backcast_persist::{LoadOptions, SaveOptions, Snapshot, Store};

use super::budget::rule::room;
use super::grant::{granted, keep};
use super::shared::Shared;
use crate::objects::numbered::save_numbered;
use crate::protocol::{Code, Granted, LoadAsk, Refusal, SaveAsk, SaveOutcome, StoredSnapshot};

/// Saves a ring while it is written, without blocking other requests.
pub(crate) fn save(shared: &Shared, ask: &SaveAsk) -> Result<SaveOutcome, Refusal> {
    let store = shared.persist().store()?;
    let observed = Observed::open(&shared.base, &ask.name)?;
    let save = |label: &str| {
        store.save(observed.ring(), label, SaveOptions::default().replace(ask.replace))
    };
    let report = match &ask.label {
        Some(label) => save(label)?,
        None => save_numbered(&store, &ask.name, save)?,
    };
    for left_out in &report.left_out {
        tracing::warn!(ring = %ask.name, "{left_out}");
    }
    let saved = SaveOutcome::from(&report);
    tracing::info!(snapshot = %saved.name, rows = saved.rows, bytes = saved.size_bytes, "save");
    Ok(saved)
}

/// Lists the snapshots of one name or of all.
pub(crate) fn snapshots(
    shared: &Shared,
    name: Option<&str>,
) -> Result<Vec<StoredSnapshot>, Refusal> {
    let store = shared.persist().store()?;
    let names = match name {
        Some(name) => vec![name.to_owned()],
        None => store.names()?,
    };
    let mut all = Vec::new();
    for name in names {
        all.extend(store.snapshots(&name)?.snapshots.iter().map(Into::into));
    }
    Ok(all)
}

/// Loads a snapshot if it fits the budget.
pub(crate) fn load(shared: &Shared, ask: &LoadAsk) -> Result<(Granted, Ring), Refusal> {
    let exist: Exist =
        ask.exist.parse().map_err(|why| Refusal::new(Code::BadArgument, format!("{why}")))?;
    if exist == Exist::Attach {
        let why = "exist is `attach`; a snapshot is loaded as a new ring: use error or replace";
        return Err(Refusal::new(Code::BadArgument, why));
    }
    let store = shared.persist().store()?;
    let snapshot = store.snapshot(&ask.snapshot)?;
    let name = ask.name.as_deref().unwrap_or(&snapshot.name);
    let _turn = shared.turn();
    let ring = loaded(shared, &store, &snapshot, name, (exist, ask.persistent, false))?;
    tracing::info!(ring = %name, snapshot = %snapshot.spec(), "load");
    Ok((granted(name, &ring, true, ring.stats().bytes_allocated), ring))
}

/// Loads a snapshot if it fits the budget. The caller holds the lock of `Shared::turn`.
pub(crate) fn loaded(
    shared: &Shared,
    store: &Store,
    snapshot: &Snapshot,
    name: &str,
    (exist, persistent, memfd): (Exist, bool, bool),
) -> Result<Ring, Refusal> {
    let (schema, options) = shape(snapshot, &shared.base)?;
    let asked = Ring::planned_bytes(&schema, &options)?;
    room(shared, name, asked)?;
    let options = LoadOptions::default()
        .name(name)
        .base(shared.base.clone())
        .exist(exist)
        .persistent(persistent)
        .memfd(memfd || shared.live().memfd);
    let ring = store.load(&snapshot.spec(), options)?;
    keep(shared, &ring)?;
    Ok(ring)
}

/// Returns schema and options of the snapshot's ring, to compute its size.
fn shape(snapshot: &Snapshot, base: &Base) -> Result<(Schema, RingOptions), Refusal> {
    let mut schema = Schema::builder();
    for column in &snapshot.columns {
        schema = schema.column_as(column.name(), column.dtype(), column.shape(), column.role());
    }
    let lanes = u32::try_from(snapshot.lanes.len()).unwrap_or(u32::MAX);
    let capacity = snapshot.lane_capacity.saturating_mul(lanes.into());
    let options = RingOptions::with_capacity(capacity).lanes(lanes).base(base.clone());
    Ok((schema.build_existing()?, options))
}
