//! What is there: finding objects by name, opening them, and saying what state they are in.

use std::fmt::{self, Display};
use std::io::ErrorKind;
use std::path::PathBuf;

use backcast_core::{Base, Kind, ObjectInfo, Observed, Ring, RingError, RingStats, SegmentError};
use backcast_market::{Panel, PanelError};
use backcast_persist::Store;
use serde::Serialize;

use crate::error::CliError;
use crate::persist::PersistReport;
use crate::serve::{EVICTED, Holder};
use crate::typed::nearest;

/// What can be done with an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    /// Some process has it open.
    Held,
    /// Nobody has it open; it is persistent and stays.
    Idle,
    /// Nobody has it open and it is not persistent: `gc` removes it.
    Orphaned,
    /// Its creator is still at work.
    Building,
    /// An import of it was cut; the same one goes on from there.
    Partial,
    /// Its bytes are not what they should be.
    Damaged,
    /// This user may not open its files, which may be whole.
    Denied,
    /// It is on disk.
    Saved,
    /// A daemon saved it to make room; who attaches through the daemon gets it back.
    Evicted,
}

impl Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Held => "held",
            Self::Idle => "idle",
            Self::Orphaned => "orphaned",
            Self::Building => "building",
            Self::Partial => "partial",
            Self::Damaged => "damaged",
            Self::Denied => "denied",
            Self::Saved => "saved",
            Self::Evicted => "evicted",
        })
    }
}

/// What opening an object showed.
pub(crate) enum Content {
    Ring(Box<RingStats>),
    Panel(Panel),
    /// Why it could not be opened.
    Damaged(String),
    /// Why this user may not open it.
    Denied(String),
    /// Orphaned or being built, or not looked into: not opened, since the last one to close an orphan
    /// removes it.
    Unopened,
}

/// One object, looked at.
pub(crate) struct Entry {
    pub(crate) info: ObjectInfo,
    pub(crate) state: State,
    pub(crate) content: Content,
    /// Of a ring that goes to disk by itself: how that stands.
    pub(crate) persist: Option<PersistReport>,
}

impl Entry {
    /// Open the object as far as its state allows; `None` when it went away meanwhile.
    pub(crate) fn open(base: &Base, info: ObjectInfo) -> Option<Self> {
        let mut persist = None;
        let (state, content) = if info.building && info.held {
            (State::Building, Content::Unopened)
        } else if info.is_partial() {
            (State::Partial, Content::Unopened)
        } else if is_garbage(&info) {
            (State::Orphaned, Content::Unopened)
        } else {
            let opened = match info.kind {
                // Observed, not held: nobody who removes or creates meanwhile meets this look.
                Kind::Ring => Observed::open(base, &info.name)
                    .map(|ring| {
                        persist = PersistReport::read(ring.ring());
                        Content::Ring(Box::new(ring.stats()))
                    })
                    .map_err(|error| Unopenable::of_ring(&error)),
                Kind::Panel => Panel::attach_in(base, &info.name)
                    .map(Content::Panel)
                    .map_err(|error| Unopenable::of_panel(&error)),
            };
            match opened {
                Ok(content) => (if info.held { State::Held } else { State::Idle }, content),
                Err(_) if info.path.symlink_metadata().is_err() => return None,
                Err(Unopenable { why, denied: true }) => (State::Denied, Content::Denied(why)),
                Err(Unopenable { why, .. }) => (State::Damaged, Content::Damaged(why)),
            }
        };
        Some(Self { info, state, content, persist })
    }
}

/// Why an object cannot be opened.
struct Unopenable {
    why: String,
    /// The system or the rule that files are this user's alone refuses, whatever is in them.
    denied: bool,
}

impl Unopenable {
    fn of_ring(error: &RingError) -> Self {
        let denied = matches!(error, RingError::Segment(error) if is_denied(error));
        Self { why: error.to_string(), denied }
    }

    fn of_panel(error: &PanelError) -> Self {
        let denied = matches!(error, PanelError::Segment(error) if is_denied(error));
        Self { why: error.to_string(), denied }
    }
}

/// Whether an error is about who may open a file, not about what is in it.
fn is_denied(error: &SegmentError) -> bool {
    match error {
        SegmentError::Permission { .. } => true,
        SegmentError::Io { source, .. } => source.kind() == ErrorKind::PermissionDenied,
        _ => false,
    }
}

/// Why an object cannot be opened; `None`: it can.
pub(crate) fn damage(base: &Base, info: &ObjectInfo) -> Option<String> {
    let opened = match info.kind {
        Kind::Ring => Observed::open(base, &info.name).map(drop).map_err(|error| error.to_string()),
        Kind::Panel => Panel::attach_in(base, &info.name).map(drop).map_err(|e| e.to_string()),
    };
    opened.err()
}

/// Whether `gc` removes it: nobody holds it, and it is not to be kept, or is a dead creator's, also if
/// somebody may go on with it.
pub(crate) fn is_garbage(info: &ObjectInfo) -> bool {
    !info.held && (info.building || !info.persistent)
}

/// What to call it: a dead creator's remnant has no name yet, only a directory, unless it is known what it
/// was to be.
pub(crate) fn shown_name(info: &ObjectInfo) -> String {
    match info.path.file_name() {
        Some(directory) if info.building && !info.is_partial() => {
            directory.to_string_lossy().into_owned()
        }
        _ => info.name.clone(),
    }
}

/// All objects under `base`, sorted by kind and name.
pub(crate) fn all(base: &Base) -> Result<Vec<ObjectInfo>, CliError> {
    Ok(backcast_core::list(base)?)
}

/// The one object called `name`, of either kind or of the given one.
pub(crate) fn find(base: &Base, name: &str, kind: Option<Kind>) -> Result<ObjectInfo, CliError> {
    let candidates: Vec<ObjectInfo> = all(base)?
        .into_iter()
        .filter(|info| !info.building && kind.is_none_or(|kind| info.kind == kind))
        .collect();
    let suggestion = nearest(name, candidates.iter().map(|info| info.name.as_str()));
    let suggestion = suggestion.map(str::to_owned);
    let mut matches = candidates.into_iter().filter(|info| info.name == name);
    match (matches.next(), matches.next()) {
        (Some(info), None) => Ok(info),
        (Some(_), Some(_)) => Err(CliError::Ambiguous { name: name.to_owned() }),
        (None, _) => Err(match evicted(base, name, kind) {
            Some((store, option)) => CliError::Evicted { name: name.to_owned(), store, option },
            None => CliError::NotFound {
                what: kind.map_or("ring or panel", Kind::as_str),
                name: name.to_owned(),
                dir: base.path().to_owned(),
                suggestion,
            },
        }),
    }
}

/// Returns the store that a ring of that name was evicted to, if one was, and the option that has commands
/// look there. It is the daemon's store, or the user's.
fn evicted(base: &Base, name: &str, kind: Option<Kind>) -> Option<(PathBuf, String)> {
    if kind == Some(Kind::Panel) || name.contains('@') {
        return None;
    }
    let of_daemon = Holder::of(base).and_then(|holder| holder.store);
    let of_user = Store::standard().ok().map(|store| store.path().to_owned());
    let spec = format!("{name}@{EVICTED}");
    let mut stores = of_user.iter().chain(&of_daemon);
    let store = stores.find(|store| Store::at(*store).snapshot(&spec).is_ok())?;
    let option = match &of_user {
        Some(of_user) if of_user == store => String::new(),
        _ => format!(" --store {}", store.display()),
    };
    Some((store.clone(), option))
}

/// Why an orphan cannot be joined: it was not to stay, or its memory did not.
pub(crate) fn orphaned(info: ObjectInfo) -> CliError {
    let ObjectInfo { kind, name, .. } = info;
    if info.memfd && info.path.join("persistent").exists() {
        CliError::MemoryGone { kind, name }
    } else {
        CliError::Orphaned { kind, name }
    }
}

/// The ring called `name`, joined. An orphan is shown by every list, and cannot be joined.
pub(crate) fn join(base: &Base, name: &str) -> Result<Ring, CliError> {
    let info = find(base, name, Some(Kind::Ring))?;
    if is_garbage(&info) {
        return Err(orphaned(info));
    }
    Ok(Ring::attach_in(base, &info.name)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typo_finds_its_name_and_a_stranger_finds_none() {
        let known = ["pong", "breakout", "prices"];
        for (typed, meant) in [
            ("pnog", Some("pong")),
            ("pon", Some("pong")),
            ("brekout", Some("breakout")),
            ("price", Some("prices")),
            ("zzz", None),
        ] {
            assert_eq!(nearest(typed, known), meant, "{typed}");
        }
    }
}
