//! Creates rings within the budget.

use backcast_core::{
    Base, Exist, OTHER_VERSION, ObjectInfo, ObjectKind, Observed, Ring, RingError, RingOptions,
    Schema, SegmentError, collect_garbage, list_objects, remove_object,
};
use backcast_persist::PersistMode;

use super::budget::evict::{evicted, forget};
use super::budget::rule::{fits, room_or_less};
use super::budget::{self, WhenFull};
use super::grant::{granted, keep};
use super::restore::bring_back;
use super::shared::{CurrentSettings, Shared, add};
use crate::objects::catalogue::is_garbage;
use crate::objects::persist;
use crate::protocol::{Code, CreateAsk, Granted, Refusal};

/// Creates the requested ring or attaches to it. The returned handle holds the ring until the
/// client does.
pub(crate) fn create(shared: &Shared, ask: &CreateAsk) -> Result<(Granted, Ring), Refusal> {
    let schema = ask.schema()?;
    let options = ask.options().map_err(|why| Refusal::new(Code::BadArgument, why))?;
    let options = options.base(shared.base.clone());
    let persist: Option<PersistMode> = match &ask.persist {
        None => None,
        Some(mode) => Some(mode.parse().map_err(|why| Refusal::new(Code::BadArgument, why))?),
    };
    let asked_bytes = Ring::planned_bytes(&schema, &options)?;
    // One request at a time, so that two rings cannot both claim the same free memory.
    let _turn = shared.turn();
    let live = shared.live();
    let request = RingRequest { name: &ask.name, schema: &schema, options, asked_bytes };
    let (ring, made) = make(shared, live, request)?;
    keep(shared, &ring)?;
    if let Some(dir) = ring.path() {
        if let Some(mode) = persist {
            persist::ask(dir, mode).map_err(|why| Refusal::new(Code::Storage, why))?;
        }
        // Start the follower now and not at the next sweep, before which rows may be published.
        let observed = Observed::open(&shared.base, &ask.name)?;
        if let Err(why) = shared.keeper().tend(&ask.name, &observed, &shared.persist()) {
            tracing::warn!(ring = %ask.name, why, "cannot follow a new ring");
        }
    }
    Ok((granted(&ask.name, &ring, made, asked_bytes), ring))
}

struct RingRequest<'a> {
    name: &'a str,
    schema: &'a Schema,
    options: RingOptions,
    asked_bytes: u64,
}

/// Creates the ring within the budget, or attaches to an existing or evicted one. Returns the ring
/// and whether it was created.
fn make(
    shared: &Shared,
    live: CurrentSettings,
    request: RingRequest<'_>,
) -> Result<(Ring, bool), Refusal> {
    let RingRequest { name, schema, mut options, asked_bytes } = request;
    let base = &shared.base;
    let exist = options.settings().exist;
    let there = find(base, name)?;
    let mut replaced = None;
    if let Some(there) = &there {
        match exist {
            Exist::Error => {
                let state = match Observed::open(base, name) {
                    Err(RingError::Segment(SegmentError::WrongVersion { .. })) => OTHER_VERSION,
                    _ if there.persistent => "it is persistent",
                    _ => "a live process holds it",
                };
                let (kind, name) = (ObjectKind::Ring, name.to_owned());
                return Err(SegmentError::AlreadyExists { kind, name, state }.into());
            }
            // Hold it first: otherwise it could vanish and be created outside the budget.
            Exist::Attach => match Ring::attach_in(base, name) {
                Ok(_held) => return Ok((Ring::create(name, schema, options)?, false)),
                Err(error) if find(base, name)?.is_some() => return Err(error.into()),
                Err(_) => {}
            },
            Exist::Replace => {}
        }
    } else if let Some((store, snapshot)) = evicted(shared, name)? {
        match exist {
            // An evicted ring counts as existing, though it is not in memory.
            Exist::Error => {
                let (kind, name, state) = (ObjectKind::Ring, name.to_owned(), "it is evicted");
                return Err(SegmentError::AlreadyExists { kind, name, state }.into());
            }
            Exist::Attach => {
                let _held = bring_back(shared, name, &store, &snapshot)?;
                return Ok((Ring::create(name, schema, options)?, false));
            }
            Exist::Replace => replaced = Some(store),
        }
    }
    let mut objects = list_objects(base)?;
    let fits = |objects: &[ObjectInfo], more: u64| fits(&live, objects, more);
    if !fits(&objects, asked_bytes) {
        add(&shared.tally.orphans_removed, collect_garbage(base)?.len() as u64);
        objects = list_objects(base)?;
    }
    // A replaced ring keeps its name until the new one is complete if both fit. Otherwise it is
    // removed first if the new one then fits or is shrunk. A held ring always keeps its memory.
    let old = there.filter(|there| exist == Exist::Replace && !there.held).map_or(0, |o| o.bytes);
    if old > 0 && !fits(&objects, asked_bytes) {
        let without = live.budget_bytes.saturating_add(old).saturating_sub(budget::used(&objects));
        if asked_bytes <= without || live.when_full == WhenFull::Shrink {
            remove_object(base, ObjectKind::Ring, name, false)?;
            objects = list_objects(base)?;
        }
    }
    if !fits(&objects, asked_bytes) {
        options = room_or_less(shared, name, (schema, options), &objects)?;
    }
    let memfd = live.memfd || options.settings().memfd;
    let ring = Ring::create(name, schema, options.memfd(memfd))?;
    if let Some(store) = replaced {
        forget(&store, name);
    }
    Ok((ring, true))
}

/// Finds the ring of a name. Ignores a ring that is being created, and one that `gc` would remove.
fn find(base: &Base, name: &str) -> Result<Option<ObjectInfo>, SegmentError> {
    let objects = list_objects(base)?;
    let is_it =
        |info: &ObjectInfo| info.kind == ObjectKind::Ring && !info.building && info.name == name;
    Ok(objects.into_iter().find(|info| is_it(info) && !is_garbage(info)))
}
