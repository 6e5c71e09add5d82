//! Reads the statistics of rings and parameters, and the limits of memory.

use std::time::{Duration, Instant};

use backcast_core::{Base, ObjectKind, RingStats};

use super::params::ParamsReading;
use crate::cli::exit_status::CommandError;
use crate::cli::replay::doctor::{MachineFacts, memory_group};
use crate::objects::catalogue::{Content, Entry, ObjectState};
use crate::objects::find::find;
use crate::objects::fleet::FleetReport;
use crate::objects::persist::PersistReport;
use crate::objects::table_distributions::{TableDistributions, TableScan};
use crate::protocol::Holder;
use crate::serve::used;

/// Reading of the observed rings and parameters, and of the limits of memory.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    /// Monotonic time since the view began.
    pub(crate) at: Duration,
    pub(crate) unix_ns: u64,
    pub(crate) rings: Vec<RingReading>,
    pub(crate) params: Vec<ParamsReading>,
    pub(crate) limits: Vec<Limit>,
}

/// Reading of a ring.
#[derive(Clone, Debug)]
pub(crate) struct RingReading {
    pub(crate) name: String,
    pub(crate) state: ObjectState,
    pub(crate) size_bytes: u64,
    /// Statistics; `None` if the ring was not opened.
    pub(crate) stats: Option<Box<RingStats>>,
    pub(crate) error: Option<String>,
    /// Report of a ring that is persisted.
    pub(crate) persist: Option<PersistReport>,
    /// Statistics of the fleet whose reports the ring has.
    pub(crate) fleet: Option<FleetReport>,
    /// Counts of its tables; empty if it is too large to be counted repeatedly.
    pub(crate) distributions: TableDistributions,
}

/// A limit of the memory of rings, and the memory in use, in bytes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Limit {
    pub(crate) name: String,
    pub(crate) used: u64,
    pub(crate) most: u64,
}

/// Reads the rings and parameters of a directory repeatedly.
pub(crate) struct Observer<'a> {
    base: &'a Base,
    machine: &'a dyn MachineFacts,
    /// Names of the rings and parameters to read; empty for all.
    names: Vec<String>,
    began: Instant,
}

impl<'a> Observer<'a> {
    /// Creates an observer, and refuses names that no ring has. Later the rings may vanish and come
    /// back.
    pub(crate) fn new(
        base: &'a Base,
        machine: &'a dyn MachineFacts,
        names: &[String],
    ) -> Result<Self, CommandError> {
        for name in names {
            find(base, name, Some(ObjectKind::Ring))?;
        }
        Ok(Self { base, machine, names: names.to_vec(), began: Instant::now() })
    }

    /// Opens each ring, copies its statistics and closes it. The observer holds nothing between two
    /// readings, so rings are still removed with their last holders.
    pub(crate) fn look(&self) -> Result<Reading, CommandError> {
        let wanted = |name: &String| self.names.is_empty() || self.names.contains(name);
        let listed = backcast_core::list_objects(self.base)?;
        let open = |kind: ObjectKind| {
            let of_kind = listed.iter().filter(move |info| info.kind == kind);
            of_kind.filter(|info| !info.name.is_empty() && wanted(&info.name)).filter_map(|info| {
                Entry::open_counted(self.base, info.clone(), TableScan::Repeated)
            })
        };
        let rings = open(ObjectKind::Ring).map(RingReading::from).collect();
        let params = open(ObjectKind::Params).map(ParamsReading::from).collect();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Ok(Reading {
            at: self.began.elapsed(),
            unix_ns: now.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)),
            rings,
            params,
            limits: self.limits(),
        })
    }

    /// Returns the limits of the memory of rings.
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
            let used = backcast_core::list_objects(self.base).map_or(0, |objects| used(&objects));
            Limit { name: "budget".to_owned(), used, most }
        });
        space.into_iter().chain(group).chain(budget).collect()
    }

    pub(crate) fn base(&self) -> &Base {
        self.base
    }
}

impl From<Entry> for RingReading {
    fn from(entry: Entry) -> Self {
        let Entry { info, state, content, persist, fleet, distributions } = entry;
        let (stats, error) = match content {
            Content::Ring(stats) => (Some(stats), None),
            Content::Unopenable(_, why) => (None, Some(why)),
            Content::Panel(_) | Content::Params(_) | Content::Unopened => (None, None),
        };
        let (name, size_bytes) = (info.name, info.bytes);
        Self { name, state, size_bytes, stats, error, persist, fleet, distributions }
    }
}
