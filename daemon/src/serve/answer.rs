//! Answers requests.

use backcast_core::{
    ObjectKind, Observed, Ring, collect_garbage, list_objects, object_holders, remove_object,
};
use serde::Serialize;
use serde_json::Value;

use super::create::create;
use super::grant::granted;
use super::resize::resize;
use super::restore::attach;
use super::shared::{Shared, add, log_removed};
use super::{budget, snapshot};
use crate::objects::catalogue::{Content, Entry, ObjectState, is_garbage, shown_name};
use crate::objects::find::{find, orphaned};
use crate::objects::listed::{Listed, evicted_in, is_of_process};
use crate::objects::persist::PersistReport;
use crate::objects::ring_report::RingReport;
use crate::objects::table_distributions::{TableDistributions, TableScan};
use crate::protocol::{Ask, Code, Gone, Granted, Pong, Refusal};

/// An answer, and the ring whose directory is passed with it. The ring is held until the client
/// holds it.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) value: Value,
    pub(crate) ring: Option<Ring>,
}

impl Reply {
    fn of(value: &impl Serialize) -> Result<Self, Refusal> {
        let value = serde_json::to_value(value).map_err(|e| Refusal::new(Code::Storage, e))?;
        Ok(Self { value, ring: None })
    }
}

/// Returns whether the request may take long, so that progress is reported.
pub(crate) fn is_long(ask: &Ask) -> bool {
    use Ask::{Attach, Create, Gc, Load, Remove, Resize, Save};
    // Attaching to an evicted ring loads it.
    matches!(ask, Create(_) | Gc | Remove { .. } | Resize(_) | Save(_) | Load(_) | Attach { .. })
}

pub(crate) fn answer(shared: &Shared, ask: &Ask) -> Result<Reply, Refusal> {
    match ask {
        Ask::Ping => Reply::of(&ping(shared)?),
        Ask::List => {
            let objects = list_objects(&shared.base)?;
            let holders = object_holders(&objects);
            let mut listed: Vec<Listed> = objects
                .into_iter()
                .zip(holders)
                .filter_map(|(info, pids)| {
                    let listed = look(shared, info).map(Listed::from)?;
                    Some(Listed { holder_pids: Some(pids), ..listed })
                })
                .collect();
            if let Ok(store) = shared.persist().store() {
                match evicted_in(&store, &listed) {
                    Ok(gone) => listed.extend(gone),
                    // Without them the list would not be whole.
                    Err(error) if is_of_process(&error) => return Err(error.into()),
                    Err(error) => tracing::warn!(%error, "evicted rings are left out of a list"),
                }
            }
            Reply::of(&listed)
        }
        Ask::Stats { name } => stats(shared, name),
        Ask::Create(ask) => {
            let (granted, ring) = create(shared, ask)?;
            let Granted { name, made, allocated_bytes, asked_bytes, .. } = &granted;
            tracing::info!(ring = %name, made, bytes = allocated_bytes, asked_bytes, "create");
            Ok(Reply { ring: Some(ring), ..Reply::of(&granted)? })
        }
        Ask::Attach { name } => {
            let ring = attach(shared, name)?;
            let granted = granted(name, &ring, false, ring.stats().bytes_asked);
            Ok(Reply { ring: Some(ring), ..Reply::of(&granted)? })
        }
        Ask::Resize(ask) => Reply::of(&resize(shared, ask)?),
        Ask::Save(ask) => Reply::of(&snapshot::save(shared, ask)?),
        Ask::Load(ask) => {
            let (granted, ring) = snapshot::load(shared, ask)?;
            Ok(Reply { ring: Some(ring), ..Reply::of(&granted)? })
        }
        Ask::Snapshots { name } => Reply::of(&snapshot::snapshots(shared, name.as_deref())?),
        Ask::Remove { name, kind, force } => {
            let kind = match kind.as_deref() {
                None => None,
                Some("ring") => Some(ObjectKind::Ring),
                Some("panel") => Some(ObjectKind::Panel),
                Some("params") => Some(ObjectKind::Params),
                Some(other) => {
                    let why =
                        format!("kind is `{other}`; use ring, panel or params, or leave it out");
                    return Err(Refusal::new(Code::BadArgument, why));
                }
            };
            let info = find(&shared.base, name, kind)?;
            let _turn = shared.turn();
            let removed = remove_object(&shared.base, info.kind, name, *force)?;
            shared.keep_memory()?;
            tracing::info!(kind = %removed.kind, name, bytes = removed.bytes, "remove");
            Reply::of(&gone(&removed))
        }
        Ask::Gc => {
            let removed = collect_garbage(&shared.base)?;
            shared.keep_memory()?;
            add(&shared.tally.orphans_removed, removed.len() as u64);
            log_removed(&removed);
            Reply::of(&removed.iter().map(gone).collect::<Vec<_>>())
        }
    }
}

fn ping(shared: &Shared) -> Result<Pong, Refusal> {
    let live = shared.live();
    Ok(Pong {
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        base: shared.base.path().to_owned(),
        uptime_s: shared.began.elapsed().as_secs_f64(),
        budget_bytes: live.budget_bytes,
        used_bytes: budget::used(&list_objects(&shared.base)?),
        when_full: live.when_full.as_str().to_owned(),
    })
}

/// Returns an object as `ls` shows it. Panels and parameters are not opened: opening a panel would
/// hold it.
fn look(shared: &Shared, info: backcast_core::ObjectInfo) -> Option<Entry> {
    if info.kind == ObjectKind::Ring || info.building || is_garbage(&info) {
        return Entry::open(&shared.base, info);
    }
    let state = if info.held { ObjectState::Held } else { ObjectState::Idle };
    let (content, distributions) = (Content::Unopened, TableDistributions::default());
    Some(Entry { info, state, content, persist: None, fleet: None, distributions })
}

fn stats(shared: &Shared, name: &str) -> Result<Reply, Refusal> {
    let info = find(&shared.base, name, Some(ObjectKind::Ring))?;
    if is_garbage(&info) {
        return Err(orphaned(info).into());
    }
    let state = if info.held { ObjectState::Held } else { ObjectState::Idle };
    let observed = Observed::open(&shared.base, name)?;
    let persist = PersistReport::read(observed.ring());
    let distributions = TableDistributions::read(&observed, TableScan::Whole)?;
    let whole = observed.ring().whole_stats()?;
    let report = RingReport::new(&whole, state, persist, &distributions);
    let holder_pids = object_holders(&[info]).remove(0);
    Reply::of(&RingReport { holder_pids, ..report })
}

fn gone(info: &backcast_core::ObjectInfo) -> Gone {
    Gone { kind: info.kind.as_str().to_owned(), name: shown_name(info), size_bytes: info.bytes }
}
