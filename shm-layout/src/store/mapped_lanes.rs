//! The lanes of a ring as one handle has them mapped. A lane that moved to a larger file is mapped
//! anew; who reads the old memory keeps it as long.

use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use crate::error::SegmentError;
use crate::layout::lane::Lane;
use crate::layout::lane_shape::Shapes;
use crate::layout::superblock::Superblock;
use crate::os::mapping::Access;
use crate::protocol::has_moved;
use crate::store::object::Object;
use crate::store::ring_files;

/// A lane may move again while it is looked for; a peer that lies may say so for ever.
const ATTEMPTS: u32 = 4;
/// A lane that says that it moved, and is nowhere, is looked for again after so long: a peer lies, or
/// the ring is gone.
const AGAIN: Duration = Duration::from_millis(20);

/// Every lane of a ring, in order.
#[derive(Debug)]
pub struct Lanes {
    lanes: Box<[Arc<Lane>]>,
    size: Size,
}

/// What `ring.ctl` says of the size of a ring.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Size {
    pub(crate) asked_rows: u64,
    pub(crate) asked_bytes: u64,
    pub(crate) huge_bytes: u64,
}

impl From<&Superblock> for Size {
    fn from(superblock: &Superblock) -> Self {
        let Superblock { asked_rows, asked_bytes, huge_bytes, .. } = *superblock;
        Self { asked_rows, asked_bytes, huge_bytes }
    }
}

impl Lanes {
    pub(crate) fn size(&self) -> Size {
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

/// What a handle has mapped now.
#[derive(Debug)]
pub(crate) struct Mapped {
    now: RwLock<Arc<Lanes>>,
    /// What moved was not found, and is not looked for until then.
    not_before: Mutex<Option<Instant>>,
}

impl Mapped {
    pub(crate) fn new(lanes: Vec<Arc<Lane>>, size: Size) -> Self {
        let now = RwLock::new(Arc::new(Lanes { lanes: lanes.into(), size }));
        Self { now, not_before: Mutex::default() }
    }

    #[inline]
    pub(crate) fn now(&self) -> Arc<Lanes> {
        Arc::clone(&self.now.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Maps anew what moved. `true`: something did.
    pub(crate) fn follow(&self, object: &Object, shapes: &Shapes) -> Result<bool, SegmentError> {
        if !self.now().iter().any(|lane| has_moved(&**lane)) {
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
            if !has_moved(&**lane) {
                return Ok(Arc::clone(lane));
            }
            let found = current(object, shapes, number, Access::ReadOnly)?;
            // A peer that lies says so of a lane that moved nowhere.
            let followed = !has_moved(&found);
            moved |= followed;
            stuck |= !followed;
            Ok(if followed { Arc::new(found) } else { Arc::clone(lane) })
        });
        let lanes = lanes.collect::<Result<_, SegmentError>>();
        *not_before = (stuck || lanes.is_err()).then(|| Instant::now() + AGAIN);
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

/// A lane's memory as of now: what is in its file, or in the one that is about to take its place.
pub(crate) fn current(
    object: &Object,
    shapes: &Shapes,
    number: u32,
    access: Access,
) -> Result<Lane, SegmentError> {
    current_of(number, |name| ring_files::open_lane(object, shapes, number, name, access))
}

/// The same, of files that `open` opens.
pub(crate) fn current_of(
    number: u32,
    mut open: impl FnMut(&str) -> Result<Lane, SegmentError>,
) -> Result<Lane, SegmentError> {
    let (file, next) = (ring_files::lane_file(number), ring_files::next_file(number));
    let mut attempts = ATTEMPTS;
    let mut lane = open(&file)?;
    loop {
        attempts -= 1;
        if !has_moved(&lane) {
            return Ok(lane);
        }
        let found = open(&next);
        // The new file may have got the lane's name meanwhile, and what was found is of a later resize,
        // which has told nobody yet.
        let again = open(&file)?;
        match found {
            Ok(next) if again.resizes() == lane.resizes() && !has_moved(&next) => return Ok(next),
            _ if attempts > 0 => lane = again,
            // It moved nowhere.
            _ => return Ok(again),
        }
    }
}
