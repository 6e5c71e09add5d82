//! Making a ring within the budget.

use backcast_core::{
    Base, Capacity, Exist, Kind, OTHER_VERSION, ObjectInfo, Observed, Ring, RingError, RingOptions,
    Schema, SegmentError, collect, list, remove,
};
use backcast_persist::Mode;

use super::budget::{self, WhenFull};
use super::caller::Caller;
use super::evict::{bring_back, evict_one, evicted, forget};
use super::quota::Share;
use super::shared::{Live, Shared, add};
use crate::catalogue::is_garbage;
use crate::persist;
use crate::wire::{Code, CreateAsk, Granted, Refusal};

/// Makes the ring that is asked for, or joins the one there is. The handle that comes along holds it
/// until the client does.
pub(crate) fn create(
    shared: &Shared,
    ask: &CreateAsk,
    caller: Caller,
) -> Result<(Granted, Ring), Refusal> {
    let schema = ask.schema()?;
    let options = ask.options().map_err(|why| Refusal::new(Code::BadArgument, why))?;
    let options = options.base(shared.base.clone());
    let persist: Option<Mode> = match &ask.persist {
        None => None,
        Some(mode) => Some(mode.parse().map_err(|why| Refusal::new(Code::BadArgument, why))?),
    };
    let asked_bytes = Ring::planned_bytes(&schema, &options)?;
    // One at a time: of two that would each fit alone, the second sees the first.
    let _turn = shared.turn();
    let live = shared.live();
    let wish = Wish { name: &ask.name, schema: &schema, options, asked_bytes, caller };
    let (ring, made) = make(shared, live, wish)?;
    keep(shared, &ring)?;
    if let Some(dir) = ring.path() {
        if let Some(mode) = persist {
            persist::ask(dir, mode).map_err(|why| Refusal::new(Code::Storage, why))?;
        }
        // Now, and not at the next look: rows may be published at once.
        let observed = Observed::open(&shared.base, &ask.name)?;
        if let Err(why) = shared.keeper().tend(&ask.name, &observed, &shared.persist()) {
            tracing::warn!(ring = %ask.name, why, "cannot follow a new ring");
        }
    }
    Ok((granted(&ask.name, &ring, made, asked_bytes), ring))
}

/// What a ring was given.
pub(crate) fn granted(name: &str, ring: &Ring, made: bool, asked_bytes: u64) -> Granted {
    let stats = ring.stats();
    Granted {
        name: name.to_owned(),
        path: stats.path.unwrap_or_default(),
        made,
        allocated_bytes: stats.bytes_allocated,
        asked_bytes,
        capacity_rows: stats.capacity,
    }
}

/// Sees to it that a ring fits, by removing what nobody holds or wants, and by evicting others where the
/// settings say so. The turn is the caller's.
pub(crate) fn room(shared: &Shared, name: &str, asked_bytes: u64) -> Result<(), Refusal> {
    let (base, live) = (&shared.base, shared.live());
    if fits(&live, &list(base)?, asked_bytes) {
        return Ok(());
    }
    add(&shared.tally.orphans_removed, collect(base)?.len() as u64);
    // What would not fit alone has nobody evicted for it.
    if asked_bytes <= live.budget_bytes && live.when_full == WhenFull::Evict {
        while !fits(&live, &list(base)?, asked_bytes) && evict_one(shared, name)? {}
    }
    let objects = list(base)?;
    if fits(&live, &objects, asked_bytes) {
        Ok(())
    } else {
        Err(over(&live, name, asked_bytes, &objects))
    }
}

fn fits(live: &Live, objects: &[ObjectInfo], more: u64) -> bool {
    budget::used(objects).checked_add(more).is_some_and(|sum| sum <= live.budget_bytes)
}

fn over(live: &Live, name: &str, asked_bytes: u64, objects: &[ObjectInfo]) -> Refusal {
    let over = budget::over(live.budget_bytes, asked_bytes, objects);
    let message = budget::explain(&format!("ring `{name}`"), &over);
    Refusal { over_budget: Some(Box::new(over)), ..Refusal::new(Code::OverBudget, message) }
}

struct Wish<'a> {
    name: &'a str,
    schema: &'a Schema,
    options: RingOptions,
    asked_bytes: u64,
    caller: Caller,
}

/// `true`: it was made now.
fn make(shared: &Shared, live: Live, wish: Wish<'_>) -> Result<(Ring, bool), Refusal> {
    let Wish { name, schema, mut options, mut asked_bytes, caller } = wish;
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
                let (kind, name) = (Kind::Ring, name.to_owned());
                return Err(SegmentError::AlreadyExists { kind, name, state }.into());
            }
            // Held before it is compared, so that it cannot go in between and be made anew unpaid.
            Exist::Attach => match Ring::attach_in(base, name) {
                Ok(_held) => return Ok((Ring::create(name, schema, options)?, false)),
                Err(error) if find(base, name)?.is_some() => return Err(error.into()),
                Err(_) => {}
            },
            Exist::Replace => {}
        }
    } else if let Some((store, snapshot)) = evicted(shared, name) {
        match exist {
            // It is there, though not in memory.
            Exist::Error => {
                let (kind, name, state) = (Kind::Ring, name.to_owned(), "it is evicted");
                return Err(SegmentError::AlreadyExists { kind, name, state }.into());
            }
            Exist::Attach => {
                let _held = bring_back(shared, name, &store, &snapshot, caller)?;
                return Ok((Ring::create(name, schema, options)?, false));
            }
            Exist::Replace => replaced = Some(store),
        }
    }
    if let Some(share) = Share::of(shared, caller, name)?
        && asked_bytes > share.left()
    {
        let less = (live.when_full == WhenFull::Shrink)
            .then(|| shrunk(schema, &options, share.left()))
            .flatten();
        (options, asked_bytes) = less.ok_or_else(|| share.refusal(name, asked_bytes))?;
    }
    let mut objects = list(base)?;
    let fits = |objects: &[ObjectInfo], more: u64| fits(&live, objects, more);
    if !fits(&objects, asked_bytes) {
        add(&shared.tally.orphans_removed, collect(base)?.len() as u64);
        objects = list(base)?;
    }
    // What is replaced keeps its name until the new ring is whole, if both fit; if only one does,
    // the old one goes first. One that is held keeps its memory in any case.
    let old = there.filter(|there| exist == Exist::Replace && !there.held).map_or(0, |o| o.bytes);
    if old > 0 && !fits(&objects, asked_bytes) {
        let without = live.budget_bytes.saturating_add(old).saturating_sub(budget::used(&objects));
        if asked_bytes <= without || live.when_full == WhenFull::Shrink {
            remove(base, Kind::Ring, name, false)?;
            objects = list(base)?;
        }
    }
    if !fits(&objects, asked_bytes) && live.when_full != WhenFull::Shrink {
        room(shared, name, asked_bytes)?;
    } else if !fits(&objects, asked_bytes) {
        let refuse = || over(&live, name, asked_bytes, &objects);
        let left = live.budget_bytes.saturating_sub(budget::used(&objects));
        if left == 0 {
            return Err(refuse());
        }
        (options, _) = shrunk(schema, &options, left).ok_or_else(refuse)?;
    }
    let memfd = live.memfd || options.settings().memfd;
    let ring = Ring::create(name, schema, options.memfd(memfd))?;
    note(&ring, caller);
    if let Some(store) = replaced {
        forget(&store, name);
    }
    Ok((ring, true))
}

/// Keeps the memory of a new ring, if no file system does. One that cannot be kept goes with its handle.
pub(crate) fn keep(shared: &Shared, ring: &Ring) -> Result<(), Refusal> {
    Ok(ring.keep_by(shared.memory())?)
}

/// As large as so many bytes allow, and how many of them it takes. `None`: they are too few for a row in
/// each lane, say.
fn shrunk(schema: &Schema, options: &RingOptions, most: u64) -> Option<(RingOptions, u64)> {
    let options = options.clone().capacity(Capacity::Bytes(most));
    let bytes = Ring::planned_bytes(schema, &options).ok()?;
    (bytes <= most).then_some((options, bytes))
}

/// Writes down who asked for a ring. A daemon that is killed before leaves one that counts for nobody.
pub(crate) fn note(ring: &Ring, caller: Caller) {
    if let Some(Err(error)) = ring.path().map(|dir| caller.mark(dir)) {
        tracing::warn!(ring = ring.name(), %error, "cannot write down who asked for a ring");
    }
}

/// A ring of that name that counts as there.
fn find(base: &Base, name: &str) -> Result<Option<ObjectInfo>, SegmentError> {
    let objects = list(base)?;
    let is_it = |info: &ObjectInfo| info.kind == Kind::Ring && !info.building && info.name == name;
    Ok(objects.into_iter().find(|info| is_it(info) && !is_garbage(info)))
}
