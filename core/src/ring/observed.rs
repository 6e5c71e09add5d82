//! Observes a ring without holding it, for supervisors.

use backcast_layout::protocol::Pins;
use backcast_layout::{Base, ReaderRecord, RingStore};

use super::Ring;
use super::stats::RingStats;
use crate::error::RingError;

/// A ring that is observed and not held.
///
/// An observer never decides how long a ring lives: the last holder still removes the ring, and a
/// removal or replacement is not refused. Mapped memory stays until the observer is dropped, so
/// observers should be short-lived.
///
/// ```
/// use backcast_core::{Base, DType, Observed, Ring, RingOptions, Schema};
///
/// # let dir = tempfile::tempdir()?;
/// let base = Base::at(dir.path());
/// let schema = Schema::builder().column("obs", DType::F32, &[2]).build()?;
/// let ring = Ring::create("seen", &schema, RingOptions::with_capacity(100).base(base.clone()))?;
/// let observed = Observed::open(&base, "seen")?;
/// assert_eq!(observed.stats().capacity, 100);
/// drop(ring); // its last holder
/// assert!(Observed::open(&base, "seen").is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Observed {
    ring: Ring,
}

impl Observed {
    /// Opens a ring of that name. O(lanes × columns), no copy.
    pub fn open(base: &Base, name: &str) -> Result<Self, RingError> {
        Ok(Self { ring: Ring::of(RingStore::observe(base, name)?)? })
    }

    /// Returns the ring, to be read. Its clones do not hold it either.
    #[must_use]
    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Returns the statistics of the ring. O(lanes × readers).
    #[must_use]
    pub fn stats(&self) -> RingStats {
        self.ring.stats()
    }

    /// Returns the wall clock at creation, nanoseconds since 1970. It tells a ring from its
    /// successor.
    #[must_use]
    pub fn created_unix_ns(&self) -> u64 {
        self.ring.store().created_unix_ns()
    }

    /// Returns the contents of every reader slot that was ever claimed, with its number, whether
    /// its holder lives or not. The counters of a slot restart with each generation.
    #[must_use]
    pub fn readers(&self) -> Vec<(u32, ReaderRecord)> {
        let store = self.ring.store();
        (0..store.spec().reader_slots)
            .filter_map(|slot| store.reader(slot).map(|record| (slot, record)))
            .filter(|(_, record)| record.generation > 0)
            .collect()
    }

    /// Returns the time at which each lane was last claimed, in nanoseconds since 1970; 0 if never.
    #[must_use]
    pub fn writers(&self) -> Vec<u64> {
        self.ring.store().lanes().iter().map(|lane| lane.claimed_unix_ns()).collect()
    }

    /// Finishes a resize whose process was killed, like [`Ring::finish_resize`]. Does nothing for a
    /// snapshot.
    pub fn finish_resize(&self) -> Result<Vec<u32>, RingError> {
        if self.ring.is_snapshot() { Ok(Vec::new()) } else { self.ring.finish_resize() }
    }

    /// Clears the pins of dead readers, and returns how many. Writers that such a pin stops clear
    /// it themselves; this call serves lanes without a writer. O(lanes × readers).
    pub fn clear_dead_pins(&self) -> Result<u64, RingError> {
        use std::sync::atomic::Ordering::Relaxed;
        let store = self.ring.store();
        let pinned = |slot| {
            (0..store.spec().lanes).filter(move |&lane| store.pins(lane).load(slot, Relaxed) != 0)
        };
        let mut cleared = 0;
        for slot in 0..store.spec().reader_slots {
            let pins = pinned(slot).count() as u64;
            if pins > 0 && !store.reader_held(slot) && store.reap_reader(slot)? {
                cleared += pins;
            }
        }
        Ok(cleared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::options::RingOptions;
    use crate::sampler::SamplerOptions;
    use crate::schema::Schema;
    use crate::writer::options::WriterOptions;
    use crate::writer::step::StepColumns;
    use backcast_layout::{DType, SegmentError, collect_garbage, list_objects};

    fn ring(base: &Base, persistent: bool) -> Ring {
        let schema = Schema::builder().column("obs", DType::U64, &[]).build().unwrap();
        let options = RingOptions::with_capacity(1_000).base(base.clone()).persistent(persistent);
        Ring::create("seen", &schema, options).unwrap()
    }

    #[test]
    fn the_last_holder_takes_a_ring_along_although_it_is_observed() {
        let dir = tempfile::tempdir().unwrap();
        let base = Base::at(dir.path());
        let held = ring(&base, false);
        let observed = Observed::open(&base, "seen").unwrap();
        assert!(list_objects(&base).unwrap()[0].held);
        drop(held);
        assert!(list_objects(&base).unwrap().is_empty(), "an observer holds nothing");
        assert_eq!(observed.stats().capacity, 1_000, "what is mapped stays readable");
        drop(observed);
    }

    #[test]
    fn an_observer_is_not_in_the_way_of_removal_and_removes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let base = Base::at(dir.path());
        drop(ring(&base, true));
        let observed = Observed::open(&base, "seen").unwrap();
        assert!(collect_garbage(&base).unwrap().is_empty());
        drop(observed);
        let observed = Observed::open(&base, "seen").unwrap();
        backcast_layout::remove_object(&base, backcast_layout::ObjectKind::Ring, "seen", false)
            .unwrap();
        drop(observed);
        assert!(list_objects(&base).unwrap().is_empty());
    }

    #[test]
    fn a_ring_without_holders_is_removed_only_after_confirmation() {
        use backcast_layout::{ObjectKind, remove_unheld_object};
        let dir = tempfile::tempdir().unwrap();
        let base = Base::at(dir.path());
        let held = ring(&base, true);
        let remove =
            |sure: &dyn Fn() -> bool| remove_unheld_object(&base, ObjectKind::Ring, "seen", sure);
        let refused = remove(&|| panic!("nobody is asked about a ring that is held"));
        assert!(matches!(refused, Err(SegmentError::InUse { .. })));
        drop(held);
        let observed = Observed::open(&base, "seen").unwrap();
        // While the caller decides, no process can attach to it.
        let absent = || Ring::attach_in(&base, "seen").is_err();
        assert_eq!(remove(&|| !absent()).unwrap(), None);
        drop(Ring::attach_in(&base, "seen").unwrap());
        assert_eq!(remove(&absent).unwrap().unwrap().name, "seen");
        assert!(list_objects(&base).unwrap().is_empty());
        assert!(remove(&|| true).is_err());
        assert_eq!(observed.stats().capacity, 1_000, "what is mapped stays readable");
    }

    #[test]
    fn counters_of_a_reader_that_left_can_still_be_read() {
        let dir = tempfile::tempdir().unwrap();
        let base = Base::at(dir.path());
        let held = ring(&base, false);
        let mut writer = held.writer(WriterOptions::lanes(1)).unwrap();
        for t in 0..50_u64 {
            let obs = [t];
            let columns = StepColumns::of(held.schema()).with("obs", &obs).unwrap();
            writer.append(&columns.step(&[false], &[false]).unwrap()).unwrap();
        }
        let mut sampler = held.sampler(SamplerOptions::seeded(1)).unwrap();
        sampler.sample(8).unwrap();
        drop(sampler);
        let observed = Observed::open(&base, "seen").unwrap();
        assert!(observed.stats().readers.is_empty());
        let readers = observed.readers();
        assert_eq!(readers.len(), 1);
        assert_eq!((readers[0].1.sampled_rows, readers[0].1.sampled_batches), (8, 1));
    }

    #[test]
    fn only_pins_of_the_dead_are_cleared() {
        let dir = tempfile::tempdir().unwrap();
        let base = Base::at(dir.path());
        let held = ring(&base, false);
        let mut writer = held.writer(WriterOptions::lanes(1)).unwrap();
        for t in 0..50_u64 {
            let obs = [t];
            let columns = StepColumns::of(held.schema()).with("obs", &obs).unwrap();
            writer.append(&columns.step(&[false], &[false]).unwrap()).unwrap();
        }
        let lease = held.lease(0, 10..20).unwrap();
        let observed = Observed::open(&base, "seen").unwrap();
        assert_eq!(observed.clear_dead_pins().unwrap(), 0, "its holder lives");
        let pins = observed.stats().pins;
        let [pin] = &*pins else { panic!("{pins:?}") };
        assert_eq!((pin.lane, pin.start, pin.slot), (0, 10, lease.slot()));
        assert_eq!(pin.pid, u64::from(std::process::id()));
        drop(lease);
        // A killed reader leaves a pin in a slot whose lock is free.
        held.store().pins(0).store(3, 7, std::sync::atomic::Ordering::Release);
        assert_eq!(observed.clear_dead_pins().unwrap(), 1);
        assert_eq!(observed.clear_dead_pins().unwrap(), 0);
    }
}
