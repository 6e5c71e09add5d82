//! Opens objects to read them, and determines their state. Only a panel is held while it is open.

use std::fmt::{self, Display};

use backcast_core::{
    Base, IoCause, ObjectInfo, ObjectKind, Observed, Params, ParamsError, ParamsStats, RingError,
    RingStats, SegmentError,
};
#[cfg(feature = "markets")]
use backcast_market::PanelError;
use backcast_persist::StoreError;
use serde::Serialize;

use super::fleet::FleetReport;
use super::panel_facts::PanelFacts;
use super::persist::PersistReport;
use super::table_distributions::{TableDistributions, TableScan};

/// State of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ObjectState {
    /// A process has it open.
    Held,
    /// No process has it open; it is persistent and stays.
    Idle,
    /// No process has it open and it is not persistent: `gc` removes it.
    Orphaned,
    /// Its creator is filling it.
    Building,
    /// Its files are not valid.
    Damaged,
    /// Another version of Backcast made its files, which that version can read.
    OtherVersion,
    /// This user may not open its files, which may be valid.
    Denied,
    /// The system could not open its files, which may be valid.
    Unknown,
    /// A snapshot on disk.
    Saved,
    /// A daemon saved it to make room. Attaching through the daemon restores it.
    Evicted,
}

impl Display for ObjectState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Held => "held",
            Self::Idle => "idle",
            Self::Orphaned => "orphaned",
            Self::Building => "building",
            Self::Damaged => "damaged",
            Self::OtherVersion => "other-version",
            Self::Denied => "denied",
            Self::Unknown => "unknown",
            Self::Saved => "saved",
            Self::Evicted => "evicted",
        })
    }
}

/// Content of an object.
pub(crate) enum Content {
    Ring(Box<RingStats>),
    Panel(Box<PanelFacts>),
    Params(Box<ParamsStats>),
    /// Obstacle to opening the object, and the error.
    Unopenable(Obstacle, String),
    /// The object was not opened: its creator is filling it, or it is an orphan, which closing
    /// would remove.
    Unopened,
}

/// Obstacle to opening an object or a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// Its files are not valid.
    Damaged,
    /// Another version of Backcast made it.
    OtherVersion,
    /// The system refuses access, or other users have access; the content is unknown.
    Denied,
    /// The system failed for another reason; the content is unknown.
    Unknown,
}

impl Obstacle {
    pub(crate) fn of_segment(error: &SegmentError) -> Self {
        match error {
            SegmentError::WrongVersion { .. } => Self::OtherVersion,
            SegmentError::Permission { .. } => Self::Denied,
            SegmentError::Io { source, .. } => Self::of_cause(IoCause::of(source)),
            _ => Self::Damaged,
        }
    }

    pub(crate) fn of_store(error: &StoreError) -> Self {
        match error {
            StoreError::OtherVersion { .. } => Self::OtherVersion,
            StoreError::Io { source, .. } => Self::of_cause(IoCause::of(source)),
            StoreError::Unreadable { .. }
            | StoreError::Busy { .. }
            | StoreError::NoSpace { .. } => Self::Unknown,
            _ => Self::Damaged,
        }
    }

    fn of_cause(cause: IoCause) -> Self {
        if cause == IoCause::Access { Self::Denied } else { Self::Unknown }
    }

    pub(crate) fn state(self) -> ObjectState {
        match self {
            Self::Damaged => ObjectState::Damaged,
            Self::OtherVersion => ObjectState::OtherVersion,
            Self::Denied => ObjectState::Denied,
            Self::Unknown => ObjectState::Unknown,
        }
    }
}

/// An object, its state and its content.
pub(crate) struct Entry {
    pub(crate) info: ObjectInfo,
    pub(crate) state: ObjectState,
    pub(crate) content: Content,
    /// Report of a ring that is persisted.
    pub(crate) persist: Option<PersistReport>,
    /// Statistics of the fleet whose reports the ring has.
    pub(crate) fleet: Option<FleetReport>,
    /// Counts of the tables of the ring, as far as they were asked for.
    pub(crate) distributions: TableDistributions,
}

impl Entry {
    /// Opens the object as far as its state allows. Returns `None` if it was removed meanwhile.
    pub(crate) fn open(base: &Base, info: ObjectInfo) -> Option<Self> {
        Self::open_counted(base, info, TableScan::Skip)
    }

    /// Opens the object like [`open`](Self::open), and counts the tables of a ring if `scan`
    /// includes it.
    pub(crate) fn open_counted(base: &Base, info: ObjectInfo, scan: TableScan) -> Option<Self> {
        let (mut persist, mut fleet) = (None, None);
        let mut distributions = TableDistributions::default();
        let (state, content) = if info.building && info.held {
            (ObjectState::Building, Content::Unopened)
        } else if is_garbage(&info) {
            (ObjectState::Orphaned, Content::Unopened)
        } else {
            let opened = match info.kind {
                // Observing holds nothing, so it does not disturb a removal or creation.
                ObjectKind::Ring => Observed::open(base, &info.name)
                    .and_then(|ring| {
                        persist = PersistReport::read(ring.ring());
                        fleet = FleetReport::read(&info.path);
                        distributions = TableDistributions::read(&ring, scan)?;
                        Ok(Content::Ring(Box::new(ring.ring().whole_stats()?)))
                    })
                    .map_err(|error| unopenable(&error)),
                ObjectKind::Panel => {
                    PanelFacts::read(base, &info.name).map(|facts| Content::Panel(Box::new(facts)))
                }
                ObjectKind::Params => Params::observe(base, &info.name)
                    .map(|params| Content::Params(Box::new(params.stats())))
                    .map_err(|error| unopenable(&error)),
            };
            match opened {
                Ok(content) => {
                    (if info.held { ObjectState::Held } else { ObjectState::Idle }, content)
                }
                Err(_) if info.path.symlink_metadata().is_err() => return None,
                Err((obstacle, why)) => (obstacle.state(), Content::Unopenable(obstacle, why)),
            }
        };
        Some(Self { info, state, content, persist, fleet, distributions })
    }
}

/// Error of opening an object of a kind.
pub(super) trait OpenFailure: Display {
    /// Returns the error of the object's files, if this error comes from them.
    fn segment(&self) -> Option<&SegmentError>;
}

impl OpenFailure for RingError {
    fn segment(&self) -> Option<&SegmentError> {
        if let Self::Segment(error) = self { Some(error) } else { None }
    }
}

impl OpenFailure for ParamsError {
    fn segment(&self) -> Option<&SegmentError> {
        if let Self::Segment(error) = self { Some(error) } else { None }
    }
}

#[cfg(feature = "markets")]
impl OpenFailure for PanelError {
    fn segment(&self) -> Option<&SegmentError> {
        if let Self::Segment(error) = self { Some(error) } else { None }
    }
}

/// Returns what keeps an object from being opened, and the error.
pub(super) fn unopenable(error: &impl OpenFailure) -> (Obstacle, String) {
    let obstacle = error.segment().map_or(Obstacle::Damaged, Obstacle::of_segment);
    (obstacle, error.to_string())
}

/// Returns what keeps an object from being opened, and the error; `None` if it can be opened.
pub(crate) fn obstacle(base: &Base, info: &ObjectInfo) -> Option<(Obstacle, String)> {
    let opened = match info.kind {
        ObjectKind::Ring => Observed::open(base, &info.name).map(drop).map_err(|e| unopenable(&e)),
        ObjectKind::Panel => PanelFacts::read(base, &info.name).map(drop),
        ObjectKind::Params => {
            Params::observe(base, &info.name).map(drop).map_err(|e| unopenable(&e))
        }
    };
    opened.err()
}

/// Returns whether `gc` removes an object: no process holds it, and it is not persistent or was
/// never completed.
pub(crate) fn is_garbage(info: &ObjectInfo) -> bool {
    !info.held && (info.building || !info.persistent)
}

/// Returns the name to show. An object that was not completed has no name, so its directory is
/// shown.
pub(crate) fn shown_name(info: &ObjectInfo) -> String {
    match info.path.file_name() {
        Some(directory) if info.building => directory.to_string_lossy().into_owned(),
        _ => info.name.clone(),
    }
}
