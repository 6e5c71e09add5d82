//! Opens objects without holding them, and determines their state.

use std::fmt::{self, Display};
use std::io::ErrorKind;

use backcast_core::{
    Base, Kind, ObjectInfo, Observed, Params, ParamsError, ParamsStats, RingError, RingStats,
    SegmentError,
};
use backcast_market::{Panel, PanelError};
use serde::Serialize;

use super::fleet::FleetReport;
use super::persist::PersistReport;
use super::table_distributions::{TableDistributions, TableScan};

/// State of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
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
    /// This user may not open its files, which may be valid.
    Denied,
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
            Self::Denied => "denied",
            Self::Saved => "saved",
            Self::Evicted => "evicted",
        })
    }
}

/// Content of an object.
pub(crate) enum Content {
    Ring(Box<RingStats>),
    Panel(Panel),
    Params(Box<ParamsStats>),
    /// Error of opening the object.
    Damaged(String),
    /// Reason why this user may not open the object.
    Denied(String),
    /// The object was not opened, since closing it would remove an orphan.
    Unopened,
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

    /// Opens the object like [`open`](Self::open), and counts the tables of a ring.
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
                Kind::Ring => Observed::open(base, &info.name)
                    .map(|ring| {
                        persist = PersistReport::read(ring.ring());
                        fleet = FleetReport::read(&info.path);
                        distributions = TableDistributions::read(&ring, scan);
                        Content::Ring(Box::new(ring.stats()))
                    })
                    .map_err(|error| Unopenable::of_ring(&error)),
                Kind::Panel => Panel::attach_in(base, &info.name)
                    .map(Content::Panel)
                    .map_err(|error| Unopenable::of_panel(&error)),
                Kind::Params => Params::observe(base, &info.name)
                    .map(|params| Content::Params(Box::new(params.stats())))
                    .map_err(|error| Unopenable::of_params(&error)),
            };
            match opened {
                Ok(content) => {
                    (if info.held { ObjectState::Held } else { ObjectState::Idle }, content)
                }
                Err(_) if info.path.symlink_metadata().is_err() => return None,
                Err(Unopenable { why, denied: true }) => {
                    (ObjectState::Denied, Content::Denied(why))
                }
                Err(Unopenable { why, .. }) => (ObjectState::Damaged, Content::Damaged(why)),
            }
        };
        Some(Self { info, state, content, persist, fleet, distributions })
    }
}

/// Error of an object that cannot be opened.
struct Unopenable {
    why: String,
    /// True if the system refuses access, or other users have access; the content is then unknown.
    denied: bool,
}

impl Unopenable {
    fn of_ring(error: &RingError) -> Self {
        let denied = matches!(error, RingError::Segment(error) if is_denied(error));
        Self { why: error.to_string(), denied }
    }

    fn of_params(error: &ParamsError) -> Self {
        let denied = matches!(error, ParamsError::Segment(error) if is_denied(error));
        Self { why: error.to_string(), denied }
    }

    fn of_panel(error: &PanelError) -> Self {
        let denied = matches!(error, PanelError::Segment(error) if is_denied(error));
        Self { why: error.to_string(), denied }
    }
}

/// Returns whether an error is about access and not about content.
fn is_denied(error: &SegmentError) -> bool {
    match error {
        SegmentError::Permission { .. } => true,
        SegmentError::Io { source, .. } => source.kind() == ErrorKind::PermissionDenied,
        _ => false,
    }
}

/// Returns why an object cannot be opened; `None` if it can.
pub(crate) fn damage(base: &Base, info: &ObjectInfo) -> Option<String> {
    let opened = match info.kind {
        Kind::Ring => Observed::open(base, &info.name).map(drop).map_err(|error| error.to_string()),
        Kind::Panel => Panel::attach_in(base, &info.name).map(drop).map_err(|e| e.to_string()),
        Kind::Params => Params::observe(base, &info.name).map(drop).map_err(|e| e.to_string()),
    };
    opened.err()
}

/// Returns whether `gc` removes an object: no process holds it, and it is not persistent or was
/// never completed.
pub(crate) fn is_garbage(info: &ObjectInfo) -> bool {
    !info.held && (info.building || !info.persistent)
}

/// Returns the name to show. The remnant of a dead creator has no name, so its directory is shown.
pub(crate) fn shown_name(info: &ObjectInfo) -> String {
    match info.path.file_name() {
        Some(directory) if info.building => directory.to_string_lossy().into_owned(),
        _ => info.name.clone(),
    }
}
