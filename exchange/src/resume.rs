//! Imports that go on where an earlier one was cut.
//!
//! ```text
//! .partial-pong.ring/   in the base directory
//!   ring.lck            held by whoever is importing; the kernel lets go of it with the process
//!   plan.json           what is imported, of which file, and how
//!   journal             a line for every unit of rows that is stored
//!   ring/               the ring so far
//! ```
//!
//! A unit is the row groups or episodes of some megabytes. It counts if the file is the same, and if its
//! rows in the ring still have the hash that the journal has of them.

use std::io;
use std::ops::Range;

use backcast_core::{
    Leftover, PartialRing, RestoreError, Ring, RingError, RingOptions, Schema, SegmentError,
    boot_id_hash,
};
use serde::{Deserialize, Serialize};

use crate::error::ImportError;
use crate::export::Format;
use crate::import::ImportOptions;
use crate::journal::{self, Found, Inode, Journal};
use crate::partial::point;
use crate::plan::BeganAnew;
use crate::sink::{Sink, Unit};

/// Version of the notes beside the ring.
const FORMAT: u32 = 1;

/// What is to be imported: a file by its parts, which come in the same order every time.
#[derive(Debug)]
pub(crate) struct Task<'a> {
    pub(crate) format: Format,
    /// Hash of what tells the file from others and from itself before a change.
    pub(crate) source: String,
    pub(crate) schema: &'a Schema,
    pub(crate) ring: RingOptions,
    /// Rows that each lane gets.
    pub(crate) spans: &'a [Range<u64>],
    /// Row groups, or episodes.
    pub(crate) parts: u64,
}

impl Task<'_> {
    fn rows(&self) -> u64 {
        self.spans.iter().map(|span| span.end - span.start).sum()
    }
}

/// What an earlier import had done.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Resumed {
    pub(crate) rows: u64,
    pub(crate) began_anew: Option<BeganAnew>,
}

/// What an import does: two of the same plan store the same rows in the same places.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Plan {
    format: u32,
    build: String,
    boot: u64,
    from: String,
    source: String,
    capacity: Option<u64>,
    huge_pages: bool,
    unit_bytes: u64,
}

impl Plan {
    fn of(task: &Task<'_>, options: &ImportOptions<'_>) -> Self {
        Self {
            format: FORMAT,
            build: env!("CARGO_PKG_VERSION").to_owned(),
            boot: boot_id_hash(),
            from: task.format.as_str().to_owned(),
            source: task.source.clone(),
            capacity: options.capacity,
            huge_pages: options.huge_pages,
            unit_bytes: options.unit_bytes,
        }
    }

    /// Why what was done by the plan `before` is of no use to this one.
    fn differs(&self, before: &Self) -> Option<BeganAnew> {
        if (self.format, &self.build) != (before.format, &before.build) {
            Some(BeganAnew::Build)
        } else if self.boot != before.boot {
            Some(BeganAnew::Restarted)
        } else if (&self.from, &self.source) != (&before.from, &before.source) {
            Some(BeganAnew::Source)
        } else {
            (self != before).then_some(BeganAnew::Options)
        }
    }
}

/// Makes the ring. `put` stores the rows of a part.
pub(crate) fn restore(
    task: &Task<'_>,
    mut options: ImportOptions<'_>,
    put: impl FnMut(u64, &mut Sink<'_, '_, '_>) -> Result<(), ImportError>,
) -> Result<(Ring, Resumed), ImportError> {
    let plan = Plan::of(task, &options);
    let (base, name) = (options.base.clone(), options.name.clone());
    let partial = PartialRing::claim(&base, &name).map_err(|error| match error {
        SegmentError::BeingFilled { name } => ImportError::Busy { name },
        error => of_segment(error),
    })?;
    let mut work = match Work::begin(&partial, &plan) {
        Ok(work) => work,
        Err(error) => {
            let _ = partial.remove();
            return Err(error);
        }
    };
    let made = options.of_ring(task.ring.clone());
    if let Some(inode) = work.whole
        && let Some(ring) = named(&partial, inode, task.spans)?
    {
        let _ = partial.remove();
        return Ok((ring, Resumed { rows: task.rows(), began_anew: None }));
    }
    let (mut on_progress, mut put) = (options.progress.take(), put);
    let unit_bytes = plan.unit_bytes;
    let made = Ring::restore_in(&partial, task.schema, made, |filling| {
        for (lane, span) in (0..).zip(task.spans) {
            filling.begin(lane, span.clone())?;
        }
        work.look_at(filling.leftover());
        let mut sink = Sink::new(filling, task.schema, task.rows(), &mut on_progress);
        sink = sink.in_units(task.schema);
        work.take_up(&mut sink)?;
        let noted = |source| note_failed(&partial, source);
        let mut journal = Journal::of(partial.path(), &work.units).map_err(noted)?;
        for part in work.parts()..task.parts {
            put(part, &mut sink)?;
            if sink.unit_is_full(unit_bytes) || part + 1 == task.parts {
                point("stored");
                let unit = sink.end_unit(part + 1);
                journal.add(&unit).map_err(noted)?;
                work.units.push(unit);
                point("unit");
            }
        }
        if let Some(inode) = partial.ring_inode() {
            journal.end(inode).map_err(noted)?;
        }
        point("whole");
        Ok(())
    });
    match made {
        Ok(ring) => {
            point("named");
            // Should that fail, `backcast gc` removes it.
            let _ = partial.remove();
            let rows = work.resumed_rows.unwrap_or(0);
            Ok((ring, Resumed { rows, began_anew: work.began_anew }))
        }
        Err(error) => Err(work.give_up(partial, error)),
    }
}

/// What is done, and how much of it was when this call began.
struct Work {
    units: Vec<Unit>,
    /// The ring of an earlier call that had all of them.
    whole: Option<Inode>,
    /// Known once the rows were looked at.
    resumed_rows: Option<u64>,
    began_anew: Option<BeganAnew>,
}

impl Work {
    fn begin(partial: &PartialRing, plan: &Plan) -> Result<Self, ImportError> {
        let noted = |source| note_failed(partial, source);
        let found = journal::find::<Plan, Unit>(partial.path()).map_err(noted)?;
        let Found { plan: before, mut units, mut whole } = found;
        let differs = before.map_or(Some(BeganAnew::Damaged), |before| plan.differs(&before));
        let began_anew = differs.filter(|_| !units.is_empty());
        if differs.is_some() {
            (units, whole) = (Vec::new(), None);
        }
        if units.is_empty() {
            partial.clear().map_err(of_segment)?;
            journal::write_plan(partial.path(), plan).map_err(noted)?;
        }
        Ok(Self { units, whole, resumed_rows: None, began_anew })
    }

    /// Units are worth what the ring is that they are of.
    fn look_at(&mut self, leftover: &Leftover) {
        let why = match leftover {
            Leftover::Ring => return,
            Leftover::Useless(SegmentError::WrongVersion { .. }) => BeganAnew::Build,
            Leftover::Useless(SegmentError::Different { .. }) => BeganAnew::Options,
            Leftover::Nothing | Leftover::Useless(_) => BeganAnew::Damaged,
        };
        // A whole ring that was named, and is gone again, was cut by nobody.
        if !self.units.is_empty() && self.whole.is_none() {
            self.began_anew = Some(why);
        }
        self.units.clear();
    }

    /// Keeps those units whose rows are there.
    fn take_up(&mut self, sink: &mut Sink<'_, '_, '_>) -> Result<(), ImportError> {
        let is_true = sink.check(&self.units)?;
        if is_true == 0 && !self.units.is_empty() {
            self.began_anew = Some(BeganAnew::Damaged);
        }
        self.units.truncate(is_true);
        sink.keep(&self.units)?;
        self.resumed_rows.get_or_insert(self.units.iter().map(Unit::rows).sum());
        Ok(())
    }

    /// Parts that are done.
    fn parts(&self) -> u64 {
        self.units.last().map_or(0, |unit| unit.parts)
    }

    /// Ends without a ring, with the words for what is left.
    fn give_up(&self, partial: PartialRing, error: ImportError) -> ImportError {
        let taken = matches!(&error, ImportError::Restore(RestoreError::Taken { .. }));
        let asked = matches!(error, ImportError::Interrupted { .. });
        if (asked || taken) && !self.units.is_empty() {
            if asked {
                return ImportError::Interrupted { partial: Some(partial.path().to_owned()) };
            }
            return error;
        }
        // What cannot be removed is told of when the name is next imported to.
        let _ = partial.remove();
        error
    }
}

/// The ring that an earlier call made and gave its name, before it was killed. `None`: it is to be made.
fn named(
    partial: &PartialRing,
    inode: Inode,
    spans: &[Range<u64>],
) -> Result<Option<Ring>, ImportError> {
    // Nobody held it: it would go away like any other.
    if partial.take_back(inode).map_err(of_segment)? {
        return Ok(None);
    }
    let Ok(ring) = Ring::attach_in(partial.base(), partial.name()) else { return Ok(None) };
    let same = ring.path().and_then(journal::inode) == Some(inode);
    // Rows may have been written since.
    let spans = (0..).zip(spans).all(|(lane, span)| ring.lane_span(lane).as_ref() == Some(span));
    Ok((same && spans).then_some(ring))
}

fn of_segment(error: SegmentError) -> ImportError {
    RestoreError::from(RingError::from(error)).into()
}

fn note_failed(partial: &PartialRing, source: io::Error) -> ImportError {
    let (operation, path) = ("write to", partial.path().to_owned());
    of_segment(SegmentError::Io { operation, path, source })
}
