//! Finds objects by name, and explains a failure.

use std::path::PathBuf;

use backcast_core::plumbing::closest_name;
use backcast_core::{
    Base, ObjectInfo, ObjectKind, Params, ParamsError, Ring, RingError, SegmentError, list_objects,
};
use backcast_persist::Store;
use thiserror::Error;

use super::catalogue::is_garbage;
use super::evicted;
use crate::protocol::Holder;

/// Error of finding an object or attaching to it.
#[derive(Debug, Error)]
pub(crate) enum FindError {
    #[error(
        "{what} `{name}` does not exist in {}{}",
        dir.display(),
        hint(*other, suggestion.as_deref())
    )]
    NotFound {
        what: &'static str,
        name: String,
        dir: PathBuf,
        /// Another kind of object that has the name.
        other: Option<ObjectKind>,
        suggestion: Option<String>,
    },
    #[error(
        "`{name}` names objects of two kinds; choose one with --kind ring, --kind panel or --kind \
         params"
    )]
    Ambiguous { name: String },
    #[error(
        "{kind} `{name}` is orphaned: it is not persistent and no process holds it any more; \
         `backcast gc` removes it, and one that is made persistent stays"
    )]
    Orphaned { kind: ObjectKind, name: String },
    #[error(
        "ring `{name}` is not in memory: a daemon evicted it to make room, and its rows are in {}; \
         attaching through the daemon restores it (in Python `ReplayBuffer.attach(\"{name}\", \
         daemon=Client.connect())`), and so does `backcast load {spec}{option}`; `backcast stat \
         {spec}{option}` shows its state",
        store.display(),
        spec = evicted::spec(name)
    )]
    Evicted { name: String, store: PathBuf, option: String },
    #[error(
        "the memory of {kind} `{name}` is gone: it was sealed memory, and the daemon and all \
         processes that had it have ended; `backcast gc` removes what is left, then create it \
         again (`--persist continuous` if a ring has to survive)"
    )]
    MemoryGone { kind: ObjectKind, name: String },
    #[error(transparent)]
    Segment(#[from] SegmentError),
    #[error(transparent)]
    Ring(#[from] RingError),
    #[error(transparent)]
    Params(#[from] ParamsError),
}

fn hint(other: Option<ObjectKind>, suggestion: Option<&str>) -> String {
    match (other, suggestion) {
        (Some(ObjectKind::Params), _) => "; that name has parameters (`backcast stat`)".to_owned(),
        (Some(kind), _) => format!("; that name has a {kind} (`backcast stat`)"),
        (None, Some(name)) => format!("; did you mean `{name}`?"),
        (None, None) => "; `backcast ls` lists what exists".to_owned(),
    }
}

/// Returns the object called `name`, of the given kind or of any.
pub(crate) fn find(
    base: &Base,
    name: &str,
    kind: Option<ObjectKind>,
) -> Result<ObjectInfo, FindError> {
    let named: Vec<ObjectInfo> =
        list_objects(base)?.into_iter().filter(|info| !info.building).collect();
    let (candidates, others): (Vec<_>, Vec<_>) =
        named.into_iter().partition(|info| kind.is_none_or(|kind| info.kind == kind));
    let other = others.iter().find(|info| info.name == name).map(|info| info.kind);
    let suggestion = closest_name(name, candidates.iter().map(|info| info.name.as_str()));
    let suggestion = suggestion.map(str::to_owned);
    let mut matches = candidates.into_iter().filter(|info| info.name == name);
    match (matches.next(), matches.next()) {
        (Some(info), None) => Ok(info),
        (Some(_), Some(_)) => Err(FindError::Ambiguous { name: name.to_owned() }),
        (None, _) => Err(match evicted_to(base, name, kind) {
            Some((store, option)) => FindError::Evicted { name: name.to_owned(), store, option },
            None => FindError::NotFound {
                what: kind.map_or("ring, panel or parameters", ObjectKind::as_str),
                name: name.to_owned(),
                dir: base.path().to_owned(),
                other,
                suggestion,
            },
        }),
    }
}

/// Returns the store that a ring was evicted to, the daemon's or the user's, and the option with
/// which commands look there.
fn evicted_to(base: &Base, name: &str, kind: Option<ObjectKind>) -> Option<(PathBuf, String)> {
    if kind.is_some_and(|kind| kind != ObjectKind::Ring) || name.contains('@') {
        return None;
    }
    let of_daemon = Holder::of(base).and_then(|holder| holder.store);
    let of_user = Store::standard().ok().map(|store| store.path().to_owned());
    let spec = evicted::spec(name);
    let mut stores = of_user.iter().chain(&of_daemon);
    let store = stores.find(|store| Store::at(*store).snapshot(&spec).is_ok())?;
    let option = match &of_user {
        Some(of_user) if of_user == store => String::new(),
        _ => format!(" --store {}", store.display()),
    };
    Some((store.clone(), option))
}

/// Returns why no process can attach to an orphan: it was not persistent, or its memory is gone.
pub(crate) fn orphaned(info: ObjectInfo) -> FindError {
    let ObjectInfo { kind, name, .. } = info;
    if info.memfd && info.path.join("persistent").exists() {
        FindError::MemoryGone { kind, name }
    } else {
        FindError::Orphaned { kind, name }
    }
}

/// Attaches to the ring called `name`. Refuses orphans, which lists still show.
pub(crate) fn join(base: &Base, name: &str) -> Result<Ring, FindError> {
    let info = find(base, name, Some(ObjectKind::Ring))?;
    if is_garbage(&info) {
        return Err(orphaned(info));
    }
    Ok(Ring::attach_in(base, &info.name)?)
}

/// Attaches to parameters by name.
pub(crate) fn join_params(base: &Base, name: &str) -> Result<Params, FindError> {
    let info = find(base, name, Some(ObjectKind::Params))?;
    if is_garbage(&info) {
        return Err(orphaned(info));
    }
    Ok(Params::attach_in(base, &info.name)?)
}
