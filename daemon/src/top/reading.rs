//! One look at the rings: what they say of themselves, and the room that there is.

use std::time::{Duration, Instant};

use backcast_core::{Base, Kind, RingStats};

use crate::catalogue::{self, Content, Entry, State};
use crate::doctor::{Machine, memory_group};
use crate::error::CliError;
use crate::persist::PersistReport;
use crate::serve::{Holder, used};

/// Everything that was seen at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    /// Since the view began; a clock that nobody sets.
    pub(crate) at: Duration,
    pub(crate) unix_ns: u64,
    pub(crate) rings: Vec<Seen>,
    pub(crate) limits: Vec<Limit>,
}

/// One ring.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) name: String,
    pub(crate) state: State,
    pub(crate) size_bytes: u64,
    /// What it says; `None` where it is not opened or cannot be.
    pub(crate) stats: Option<Box<RingStats>>,
    pub(crate) error: Option<String>,
    /// Of a ring that goes to disk by itself: how that stands.
    pub(crate) persist: Option<PersistReport>,
}

/// Something that bounds the memory of rings.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Limit {
    pub(crate) name: String,
    pub(crate) used: u64,
    pub(crate) most: u64,
}

/// Looks at the rings below a directory, again and again.
pub(crate) struct Observer<'a> {
    base: &'a Base,
    machine: &'a dyn Machine,
    /// These alone; all when empty.
    names: Vec<String>,
    began: Instant,
}

impl<'a> Observer<'a> {
    /// Refuses names that are not there now; later they may go and come back.
    pub(crate) fn new(
        base: &'a Base,
        machine: &'a dyn Machine,
        names: &[String],
    ) -> Result<Self, CliError> {
        for name in names {
            catalogue::find(base, name, Some(Kind::Ring))?;
        }
        Ok(Self { base, machine, names: names.to_vec(), began: Instant::now() })
    }

    /// Opens each ring, copies what it says and closes it: between two looks nothing is held, so a
    /// ring whose processes are gone goes too.
    pub(crate) fn look(&self) -> Result<Reading, CliError> {
        let wanted = |name: &String| self.names.is_empty() || self.names.contains(name);
        let rings = catalogue::all(self.base)?
            .into_iter()
            .filter(|info| info.kind == Kind::Ring && !info.name.is_empty() && wanted(&info.name))
            .filter_map(|info| Entry::open(self.base, info))
            .map(Seen::from)
            .collect();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Ok(Reading {
            at: self.began.elapsed(),
            unix_ns: now.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)),
            rings,
            limits: self.limits(),
        })
    }

    /// What bounds the memory of rings, the tightest last: further bounds are added here.
    fn limits(&self) -> Vec<Limit> {
        let dir = self.base.path().parent().unwrap_or(self.base.path());
        let space = self.machine.space(dir).map(|space| Limit {
            name: dir.display().to_string(),
            used: space.size.saturating_sub(space.free),
            most: space.size,
        });
        let group = memory_group(self.machine).map(|(limit, room)| Limit {
            name: "control group".to_owned(),
            used: limit.saturating_sub(room),
            most: limit,
        });
        let budget = Holder::of(self.base).and_then(|holder| holder.budget_bytes);
        let budget = budget.map(|most| {
            let used = catalogue::all(self.base).map_or(0, |objects| used(&objects));
            Limit { name: "budget".to_owned(), used, most }
        });
        space.into_iter().chain(group).chain(budget).collect()
    }

    pub(crate) fn base(&self) -> &Base {
        self.base
    }
}

impl From<Entry> for Seen {
    fn from(Entry { info, state, content, persist }: Entry) -> Self {
        let (stats, error) = match content {
            Content::Ring(stats) => (Some(stats), None),
            Content::Damaged(why) | Content::Denied(why) => (None, Some(why)),
            Content::Panel(_) | Content::Unopened => (None, None),
        };
        Self { name: info.name, state, size_bytes: info.bytes, stats, error, persist }
    }
}
