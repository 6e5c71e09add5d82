//! Lanes of a ring as one handle has them mapped. A relocated lane is mapped again; readers of the
//! old memory keep it as long as they need.

use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use crate::error::SegmentError;
use crate::layout::lane::Lane;
use crate::layout::lane_shape::LaneShapes;
use crate::layout::low_marks::{LowMark, LowMarks};
use crate::layout::superblock::Superblock;
use crate::os::mapping::Access;
use crate::protocol::has_relocated;
use crate::store::object::Object;
use crate::store::ring_files;

/// Maximum attempts to find a lane. It may be relocated again meanwhile, and a faulty peer may mark
/// it as relocated for ever.
const ATTEMPTS: u32 = 4;
/// Pause before a relocated lane that was not found is looked for again: a peer is faulty, or the
/// ring was removed.
const RETRY_PAUSE: Duration = Duration::from_millis(20);

/// Lanes of a ring, in order.
#[derive(Debug)]
pub struct Lanes {
    lanes: Box<[Arc<Lane>]>,
    size: AskedSize,
}

/// Size of a ring as `ring.ctl` states it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AskedSize {
    pub(crate) asked_rows: u64,
    pub(crate) asked_bytes: u64,
    pub(crate) huge_bytes: u64,
}

impl From<&Superblock> for AskedSize {
    fn from(superblock: &Superblock) -> Self {
        let Superblock { asked_rows, asked_bytes, huge_bytes, .. } = *superblock;
        Self { asked_rows, asked_bytes, huge_bytes }
    }
}

impl Lanes {
    pub(crate) fn size(&self) -> AskedSize {
        self.size
    }
}

impl Deref for Lanes {
    type Target = [Arc<Lane>];

    #[inline]
    fn deref(&self) -> &Self::Target {
        &self.lanes
    }
}

/// Lanes that a handle has mapped now.
#[derive(Debug)]
pub(crate) struct MappedLanes {
    now: RwLock<Arc<Lanes>>,
    marks: Arc<LowMarks>,
    /// Earliest time of the next attempt, after a relocated lane was not found.
    not_before: Mutex<Option<Instant>>,
}

impl MappedLanes {
    /// Takes the lanes of a ring, which carry `marks`.
    pub(crate) fn new(lanes: Vec<Arc<Lane>>, marks: Arc<LowMarks>, size: AskedSize) -> Self {
        let now = RwLock::new(Arc::new(Lanes { lanes: lanes.into(), size }));
        Self { now, marks, not_before: Mutex::default() }
    }

    pub(crate) fn marks(&self) -> &Arc<LowMarks> {
        &self.marks
    }

    #[inline]
    pub(crate) fn now(&self) -> Arc<Lanes> {
        Arc::clone(&self.now.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Maps relocated lanes again, and returns whether any was. After a failed attempt it does
    /// nothing for 20 ms.
    pub(crate) fn follow(
        &self,
        object: &Object,
        shapes: &LaneShapes,
    ) -> Result<bool, SegmentError> {
        if !self.now().iter().any(|lane| has_relocated(&**lane)) {
            return Ok(false);
        }
        let mut not_before = self.not_before.lock().unwrap_or_else(PoisonError::into_inner);
        if not_before.is_some_and(|then| Instant::now() < then) {
            return Ok(false);
        }
        // Another thread of this handle may have been faster.
        let before = self.now();
        let (mut moved, mut stuck) = (false, false);
        let lanes = (0..).zip(before.iter()).map(|(number, lane)| {
            if !has_relocated(&**lane) {
                return Ok(Arc::clone(lane));
            }
            let found = current(object, shapes, number, Access::ReadOnly)?;
            // A faulty peer may mark a lane that was not relocated.
            let followed = !has_relocated(&found);
            moved |= followed;
            stuck |= !followed;
            let mark = || LowMark::new(&self.marks, number);
            Ok(if followed { Arc::new(found.with_low(mark())) } else { Arc::clone(lane) })
        });
        let lanes = lanes.collect::<Result<_, SegmentError>>();
        *not_before = (stuck || lanes.is_err()).then(|| Instant::now() + RETRY_PAUSE);
        let lanes = lanes?;
        if moved {
            let size = ring_files::read_ctl(object).map_or(before.size, |(ctl, _)| (&ctl).into());
            let lanes = Lanes { lanes, size };
            let mut now = self.now.write().unwrap_or_else(PoisonError::into_inner);
            *now = Arc::new(lanes);
            object.tidy_memory();
        }
        Ok(moved)
    }
}

/// Opens the current memory of a lane: its file, or the one that is about to take its place.
pub(crate) fn current(
    object: &Object,
    shapes: &LaneShapes,
    number: u32,
    access: Access,
) -> Result<Lane, SegmentError> {
    current_of(number, |name| ring_files::open_lane(object, shapes, number, name, access))
}

/// Opens the current memory of a lane like [`current`]. `open` opens a file by its name.
pub(crate) fn current_of(
    number: u32,
    mut open: impl FnMut(&str) -> Result<Lane, SegmentError>,
) -> Result<Lane, SegmentError> {
    let (file, next) = (ring_files::lane_file(number), ring_files::next_file(number));
    let mut attempts = ATTEMPTS;
    let mut lane = open(&file)?;
    loop {
        attempts -= 1;
        if !has_relocated(&lane) {
            return Ok(lane);
        }
        let found = open(&next);
        // The new file may have taken the name of the lane meanwhile. The file found then belongs
        // to a later resize, which is not announced yet.
        let again = open(&file)?;
        match found {
            Ok(next) if again.resizes() == lane.resizes() && !has_relocated(&next) => {
                return Ok(next);
            }
            _ if attempts > 0 => lane = again,
            // A faulty peer set the mark: the lane was not relocated.
            _ => return Ok(again),
        }
    }
}
