//! Creates a ring or attaches to it, and computes the memory that it takes.

use std::ops::RangeInclusive;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use backcast_layout::{Base, Geometry, MemfdKeeper, RingSpec, RingStore, page_size};

use super::Ring;
use super::options::{Capacity, RingOptions};
use crate::error::RingError;
use crate::limiter::limits::RateLimiter;
use crate::schema::Schema;

/// Bounds of the number of rows that a writer announces at a time. Within them it is a thousandth
/// of the lane. With 16 rows to a fence, the fence costs a fifth of a small row.
const RESERVE_CHUNK: RangeInclusive<u32> = 16..=1024;
impl Ring {
    /// Creates a ring under a name, or attaches to an equal one if `options` allow it. All memory
    /// of a new ring is allocated now: a full `/dev/shm`, control group or disk is an error here
    /// and never a crash later. O(bytes).
    pub fn create(name: &str, schema: &Schema, options: RingOptions) -> Result<Self, RingError> {
        let spec = spec(schema, &options, page_size())?;
        check_capacity(&spec, options.capacity, page_size())?;
        check_limits(&spec, &options)?;
        let RingOptions { base, exist, persistent, .. } = options;
        let (store, _) = RingStore::create(&base, name, &spec, exist, persistent)?;
        Self::of(store)
    }

    /// Attaches to the ring of that name in the standard base directory. O(lanes × columns), no
    /// copy.
    pub fn attach(name: &str) -> Result<Self, RingError> {
        Self::attach_in(&Base::standard(), name)
    }

    /// Attaches to the ring of that name in another base directory.
    pub fn attach_in(base: &Base, name: &str) -> Result<Self, RingError> {
        Self::of(RingStore::attach(base, name)?)
    }

    /// Attaches to a ring through its directory, which a process that holds it passed
    /// ([`directory`](Self::directory)). Meant for processes that do not see the name of the ring.
    pub fn attach_at(dir: OwnedFd, path: &Path, name: &str) -> Result<Self, RingError> {
        Self::of(RingStore::attach_at(dir, path, name)?)
    }

    /// Returns a descriptor of the directory of the ring, to be sent to another process. `None` on
    /// the heap.
    pub fn directory(&self) -> Result<Option<OwnedFd>, RingError> {
        Ok(self.store().directory()?)
    }

    /// Passes the memory of the ring to a keeper, if it lies in memfds: the ring may then outlive
    /// this handle.
    pub fn keep_by(&self, keeper: &Mutex<MemfdKeeper>) -> Result<(), RingError> {
        Ok(keeper.lock().unwrap_or_else(PoisonError::into_inner).keep(self.store())?)
    }

    /// Returns the bytes that [`create`](Self::create) would allocate. Checks sizes and limits like
    /// [`restore`](Self::restore), which takes lanes of one row and fuller queues.
    pub fn planned_bytes(schema: &Schema, options: &RingOptions) -> Result<u64, RingError> {
        let spec = spec(schema, options, page_size())?;
        if spec.lane_capacity == 0 {
            check_capacity(&spec, options.capacity, page_size())?;
        }
        Ok(Geometry::of(&spec, page_size())?.total_bytes(spec.lanes))
    }

    /// Creates a ring in private memory. Threads of this process share it by cloning.
    #[expect(clippy::needless_pass_by_value, reason = "the same call as `create`")]
    pub fn heap(schema: &Schema, options: RingOptions) -> Result<Self, RingError> {
        let spec = spec(schema, &options, 1)?;
        check_capacity(&spec, options.capacity, 1)?;
        check_limits(&spec, &options)?;
        Self::of(RingStore::heap(&spec)?)
    }
}

pub(crate) fn spec(
    schema: &Schema,
    options: &RingOptions,
    align: u64,
) -> Result<RingSpec, RingError> {
    let mut spec = RingSpec {
        columns: schema.stored().to_vec(),
        lanes: options.lanes,
        lane_capacity: 0,
        reserve_chunk: *RESERVE_CHUNK.start(),
        reader_slots: options.reader_slots,
        asked_rows: 0,
        asked_bytes: 0,
        policy: options.policy,
        huge_pages: options.huge_pages,
        memfd: options.memfd,
        snapshot: options.snapshot,
        snapshot_of: options.snapshot_of.clone(),
        limits: options.limiter.map(RateLimiter::to_bytes),
    };
    match options.capacity {
        Capacity::Rows(rows) => {
            spec.asked_rows = rows;
            spec.lane_capacity = rows.div_ceil(u64::from(options.lanes.max(1)));
            spec.reserve_chunk = reserve_chunk(spec.lane_capacity);
        }
        Capacity::Bytes(bytes) => {
            spec.asked_bytes = bytes;
            let rows = Geometry::lane_capacity_for_bytes(&spec, align, bytes)?;
            // A larger chunk is taken from the capacity, so that the bytes stay the same.
            let chunk = reserve_chunk(rows);
            spec.lane_capacity = rows - u64::from(chunk - spec.reserve_chunk);
            spec.reserve_chunk = chunk;
        }
    }
    if let Some(limits) = options.limiter {
        limits.check(most_transitions(&spec))?;
    }
    Ok(spec)
}

/// Returns the transitions that a ring can hold. The newest row of each lane has no successor.
fn most_transitions(spec: &RingSpec) -> u64 {
    spec.lane_capacity.saturating_sub(1) * u64::from(spec.lanes)
}

/// Refuses limits that a new ring should not have.
fn check_limits(spec: &RingSpec, options: &RingOptions) -> Result<(), RingError> {
    match options.limiter {
        Some(limits) => Ok(limits.check_new(most_transitions(spec))?),
        None => Ok(()),
    }
}

/// Refuses lanes that can never hold a transition.
fn check_capacity(spec: &RingSpec, capacity: Capacity, align: u64) -> Result<(), RingError> {
    /// A transition's own row and its successor's.
    const LEAST: u64 = 2;
    let (lanes, rows) = (spec.lanes, spec.lane_capacity);
    // Zero lanes are refused elsewhere, with their limits.
    if rows >= LEAST || lanes == 0 {
        return Ok(());
    }
    // Errors of other limits come first.
    Geometry::of(&RingSpec { lane_capacity: LEAST, ..spec.clone() }, align)?;
    let (asked, least) = match capacity {
        Capacity::Rows(rows) => {
            (format!("{rows} row(s)"), format!("{} rows", u64::from(lanes) + 1))
        }
        Capacity::Bytes(bytes) => {
            let least = RingSpec { lane_capacity: LEAST, ..spec.clone() };
            let least = Geometry::of(&least, align)?.total_bytes(lanes);
            (format!("{bytes} bytes"), format!("{least} bytes"))
        }
    };
    Err(RingError::TooSmall { asked, lanes, rows, least })
}

/// Returns the rows that a writer announces at a time on a lane of this capacity.
fn reserve_chunk(lane_capacity: u64) -> u32 {
    let thousandth = u32::try_from(lane_capacity / 1024).unwrap_or(u32::MAX);
    thousandth.clamp(*RESERVE_CHUNK.start(), *RESERVE_CHUNK.end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DType, LanePolicy, RingSettings};

    /// Returns the number of a capacity, such as that of `7 rows`.
    fn number_of(capacity: &str) -> u64 {
        capacity.split(' ').next().unwrap().parse().unwrap()
    }

    #[test]
    fn lanes_that_never_hold_a_transition_are_refused_with_the_least_capacity() {
        let schema = Schema::builder().column("obs", DType::F32, &[8]).build().unwrap();
        let make =
            |rows: u64, lanes| Ring::heap(&schema, RingOptions::with_capacity(rows).lanes(lanes));
        for (rows, lanes) in [(0, 1), (0, 7), (1, 1), (10, 16), (16, 16), (1, 4_096)] {
            let refused = make(rows, lanes).unwrap_err();
            let RingError::TooSmall { asked, least, .. } = &refused else { panic!("{refused}") };
            assert!(refused.to_string().contains(asked), "{refused}");
            let [asked, least] = [asked, least].map(|capacity| number_of(capacity));
            assert_eq!(asked, rows, "{refused}");
            assert_eq!(make(least, lanes).unwrap().lane_capacity(), 2, "{refused}");
            assert!(make(least - 1, lanes).is_err(), "{refused}");
            let options = RingOptions::with_capacity(rows).lanes(lanes);
            let planned = Ring::planned_bytes(&schema, &options);
            assert!(planned.is_ok() || rows == 0, "a restored ring may have lanes of one row");
            let planned = planned.err();
            assert!(
                planned.is_none_or(|error| matches!(error, RingError::TooSmall { .. })),
                "{refused}"
            );
        }
    }

    #[test]
    fn bytes_that_leave_one_row_a_lane_are_refused_with_the_least_bytes() {
        let schema = Schema::builder().column("obs", DType::F32, &[8]).build().unwrap();
        let options = |capacity: Capacity, lanes| RingOptions::with_capacity(capacity).lanes(lanes);
        let make = |bytes, lanes| Ring::heap(&schema, options(Capacity::Bytes(bytes), lanes));
        for lanes in [1_u32, 3, 16] {
            let one = spec(&schema, &options(Capacity::Rows(lanes.into()), lanes), 1).unwrap();
            let bytes = Geometry::of(&one, 1).unwrap().total_bytes(lanes);
            let refused = make(bytes, lanes).unwrap_err();
            let RingError::TooSmall { rows: 1, asked, least, .. } = &refused else {
                panic!("{refused}")
            };
            let [asked, least] = [asked, least].map(|capacity| number_of(capacity));
            assert_eq!(asked, bytes, "{refused}");
            assert_eq!(make(least, lanes).unwrap().lane_capacity(), 2, "{refused}");
            let less = make(least - 1, lanes);
            assert!(matches!(less, Err(RingError::TooSmall { rows: 1, .. })), "{less:?}");
        }
    }

    #[test]
    fn a_chunk_is_a_thousandth_of_a_lane_and_comes_out_of_the_bytes_asked_for() {
        let schema = Schema::builder().column("obs", DType::F32, &[8]).build().unwrap();
        let of = |options| spec(&schema, &options, 4_096).unwrap();
        for (rows, chunk) in [(1, 16), (16_384, 16), (102_400, 100), (1 << 30, 1_024)] {
            let spec = of(RingOptions::with_capacity(rows));
            assert_eq!((spec.lane_capacity, spec.reserve_chunk), (rows, chunk));
        }
        for shift in 17..36 {
            let bytes = Capacity::Bytes(1 << shift);
            let spec = of(RingOptions::with_capacity(1).capacity(bytes));
            let Ok(geometry) = Geometry::of(&spec, 4_096) else { panic!("{spec:?}") };
            assert!(geometry.total_bytes(1) <= 1 << shift, "{spec:?}");
            assert_eq!(geometry.slots, spec.lane_capacity + u64::from(spec.reserve_chunk));
            assert!(spec.reserve_chunk >= reserve_chunk(spec.lane_capacity));
        }
    }

    #[test]
    fn a_ring_has_every_option_that_it_was_created_with() {
        let schema = Schema::builder().column("obs", DType::F32, &[8]).build().unwrap();
        let plain = || RingOptions::with_capacity(100);
        let settings = plain().settings();
        let (bytes, lane_policy) = (Capacity::Bytes(1 << 20), LanePolicy::Fail);
        let limits = RateLimiter::queue(9);
        for (options, expected) in [
            (plain(), settings),
            (plain().capacity(bytes), RingSettings { capacity: bytes, ..settings }),
            (plain().lanes(3), RingSettings { lanes: 3, ..settings }),
            (plain().reader_slots(5), RingSettings { reader_slots: 5, ..settings }),
            (plain().lane_policy(lane_policy), RingSettings { lane_policy, ..settings }),
            (plain().huge_pages(false), RingSettings { huge_pages: false, ..settings }),
            (plain().limiter(limits), RingSettings { limiter: Some(limits), ..settings }),
        ] {
            let ring = Ring::heap(&schema, options).unwrap();
            let limiter = ring.limiter().map(|limiter| limiter.limits().unwrap());
            assert_eq!(RingSettings { limiter, ..ring.options().settings() }, expected);
        }
    }
}
