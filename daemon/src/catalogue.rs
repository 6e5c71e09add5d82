//! What is there: finding objects by name, opening them, and saying what state they are in.

use std::fmt::{self, Display};

use backcast_core::{Base, Kind, ObjectInfo, Observed, Ring, RingStats};
use backcast_market::Panel;
use serde::Serialize;

use crate::error::CliError;
use crate::persist::PersistReport;

/// Names this similar are worth a "did you mean" (Jaro-Winkler, 0 to 1).
const SIMILAR: f64 = 0.75;

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
                    .map_err(|error| error.to_string()),
                Kind::Panel => Panel::attach_in(base, &info.name)
                    .map(Content::Panel)
                    .map_err(|error| error.to_string()),
            };
            match opened {
                Ok(content) => (if info.held { State::Held } else { State::Idle }, content),
                Err(_) if !info.path.exists() => return None,
                Err(why) => (State::Damaged, Content::Damaged(why)),
            }
        };
        Some(Self { info, state, content, persist })
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
    let suggestion = closest(name, candidates.iter().map(|info| info.name.as_str()));
    let mut matches = candidates.into_iter().filter(|info| info.name == name);
    match (matches.next(), matches.next()) {
        (Some(info), None) => Ok(info),
        (Some(_), Some(_)) => Err(CliError::Ambiguous { name: name.to_owned() }),
        (None, _) => Err(CliError::NotFound {
            what: kind.map_or("ring or panel", Kind::as_str),
            name: name.to_owned(),
            dir: base.path().to_owned(),
            suggestion,
        }),
    }
}

/// The ring called `name`, joined. An orphan is shown by every list, and cannot be joined.
pub(crate) fn join(base: &Base, name: &str) -> Result<Ring, CliError> {
    let info = find(base, name, Some(Kind::Ring))?;
    if is_garbage(&info) {
        return Err(CliError::Orphaned { kind: info.kind, name: info.name });
    }
    Ok(Ring::attach_in(base, &info.name)?)
}

fn closest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    known
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate))
        .filter(|(similarity, _)| *similarity >= SIMILAR)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate.to_owned())
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
            assert_eq!(closest(typed, known.into_iter()).as_deref(), meant, "{typed}");
        }
    }
}
