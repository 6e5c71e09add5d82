//! Models of versions: a copy that is accepted is whole, a pinned block does not change, and the
//! successor of a publisher that was killed publishes each version once; and mutants, each of which
//! must be caught.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64 as Counter, Ordering::SeqCst};

use backcast_layout::protocol::version::{
    VersionFence, VersionPlace, VersionPublisher, VersionWords, VersionWordsMut, find_version,
    is_whole, newer, pin_version, set_pins,
};
use backcast_layout::protocol::{Pins, Unpublishable};
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use loom::thread;

use crate::holds;

const SLOTS: u32 = 2;
/// Words of a block.
const WORDS: usize = 2;

/// A single change of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutant {
    None,
    /// The fence after a cleared stamp is left out.
    NoAnnouncedFence,
    /// That fence is a release fence, which does not order the scan of the pins.
    ReleaseBeforeScan,
    NoPublishedFence,
    NoCopiedFence,
    NoPinnedFence,
    /// The newest version and the stamps are stored without release.
    RelaxedPublish,
    /// The stamp is not cleared before the block is written.
    StampStays,
    /// A copy is accepted without a look at the stamp.
    NotValidated,
    /// A pin is accepted without a look at the stamp.
    PinNotValidated,
    /// The pins are scanned by relaxed loads.
    RelaxedScan,
    /// Pins are cleared without release.
    RelaxedUnpin,
    /// Only the pins known before the stamp was cleared count.
    ScanFirst,
    /// A successor leaves stamps above the newest version.
    StampsNotCleared,
    /// A successor restores the stamp of a block that a killed publisher was writing.
    StampRestored,
}

struct Shared {
    newest: AtomicU64,
    stamps: [AtomicU64; SLOTS as usize],
    words: [[AtomicU64; WORDS]; SLOTS as usize],
    /// Blocks that views read by plain loads.
    cells: [UnsafeCell<u64>; SLOTS as usize],
    pin: AtomicU64,
    mutant: Mutant,
}

#[derive(Clone)]
struct Words {
    shared: Arc<Shared>,
    /// Pins that a `ScanFirst` publisher saw before it cleared the stamp.
    scanned: Arc<Counter>,
}

impl Words {
    fn new(mutant: Mutant) -> Self {
        let word = || AtomicU64::new(0);
        let shared = Shared {
            newest: word(),
            stamps: [word(), word()],
            words: [[word(), word()], [word(), word()]],
            cells: [UnsafeCell::new(0), UnsafeCell::new(0)],
            pin: word(),
            mutant,
        };
        #[expect(clippy::arc_with_non_send_sync, reason = "loom's threads are no threads")]
        Self { shared: Arc::new(shared), scanned: Arc::default() }
    }

    fn is(&self, mutant: Mutant) -> bool {
        self.shared.mutant == mutant
    }

    fn write(&self, slot: u32, word: usize, value: u64) {
        self.shared.words[slot as usize][word].store(value, Ordering::Relaxed);
    }

    fn read(&self, slot: u32) -> [u64; WORDS] {
        [0, 1].map(|word| self.shared.words[slot as usize][word].load(Ordering::Relaxed))
    }

    fn write_cell(&self, slot: u32, value: u64) {
        #[expect(unsafe_code, reason = "loom's cell checks the access that real code does not")]
        // SAFETY: under test; loom panics if another thread may be reading it.
        self.shared.cells[slot as usize].with_mut(|cell| unsafe { *cell = value });
    }

    fn read_cell(&self, slot: u32) -> u64 {
        #[expect(unsafe_code, reason = "loom's cell checks the access that real code does not")]
        // SAFETY: under test; loom panics if another thread may be writing it.
        self.shared.cells[slot as usize].with(|cell| unsafe { *cell })
    }
}

impl VersionWords for Words {
    fn slots(&self) -> u32 {
        SLOTS
    }

    fn load_newest(&self, order: Ordering) -> u64 {
        self.shared.newest.load(order)
    }

    fn load_stamp(&self, slot: u32, order: Ordering) -> u64 {
        self.shared.stamps[slot as usize].load(order)
    }

    fn fence(&self, at: VersionFence) {
        let left_out = match at {
            VersionFence::Announced => Mutant::NoAnnouncedFence,
            VersionFence::Pinned => Mutant::NoPinnedFence,
            VersionFence::Published => Mutant::NoPublishedFence,
            VersionFence::Copied => Mutant::NoCopiedFence,
        };
        if at == VersionFence::Announced && self.is(Mutant::ReleaseBeforeScan) {
            fence(Ordering::Release);
        } else if !self.is(left_out) {
            fence(at.ordering());
        }
    }
}

impl VersionWordsMut for Words {
    fn store_newest(&self, word: u64, order: Ordering) {
        let order = if self.is(Mutant::RelaxedPublish) { Ordering::Relaxed } else { order };
        self.shared.newest.store(word, order);
    }

    fn store_stamp(&self, slot: u32, stamp: u64, order: Ordering) {
        if stamp == 0 {
            let adopting = order == Ordering::Relaxed && self.scanned.load(SeqCst) == ADOPTING;
            let stays = if adopting { Mutant::StampsNotCleared } else { Mutant::StampStays };
            if self.is(stays) {
                return;
            }
        }
        let order = if self.is(Mutant::RelaxedPublish) { Ordering::Relaxed } else { order };
        self.shared.stamps[slot as usize].store(stamp, order);
    }
}

/// Value of `scanned` while a publisher takes over.
const ADOPTING: u64 = u64::MAX;

impl Pins for Words {
    fn slots(&self) -> u32 {
        1
    }

    fn load(&self, _: u32, order: Ordering) -> u64 {
        let order = if self.is(Mutant::RelaxedScan) { Ordering::Relaxed } else { order };
        if self.is(Mutant::ScanFirst) {
            // Two scans per slot: the second repeats what the first one saw.
            let seen = self.scanned.load(SeqCst);
            if seen != 0 {
                self.scanned.store(0, SeqCst);
                return seen >> 1;
            }
            let pins = self.shared.pin.load(order);
            self.scanned.store(pins << 1 | 1, SeqCst);
            return pins;
        }
        self.shared.pin.load(order)
    }

    fn store(&self, _: u32, pin: u64, order: Ordering) {
        let order = if self.is(Mutant::RelaxedUnpin) { Ordering::Relaxed } else { order };
        self.shared.pin.store(pin, order);
    }
}

fn adopt(words: &Words) -> VersionPublisher<Words> {
    words.scanned.store(ADOPTING, SeqCst);
    let publisher = VersionPublisher::adopt(words.clone(), 1).expect("possible words");
    words.scanned.store(0, SeqCst);
    publisher
}

/// Data of a version: other publishers write other data.
fn datum(publisher: u64, version: u64) -> u64 {
    publisher << 32 | version
}

/// Steps after which a publisher is killed: 0 before it reserves, up to all of them.
const STEPS: usize = 5;

/// Publishes a version, up to a number of steps. Returns whether it was reserved.
fn publish(
    words: &Words,
    publisher: &mut VersionPublisher<Words>,
    who: u64,
    version: u64,
    steps: usize,
) -> bool {
    if steps == 0 {
        return true;
    }
    let place = match publisher.reserve(version, words) {
        Ok(place) => place,
        Err(Unpublishable::Pinned(_)) => return false,
        Err(Unpublishable::Version) => panic!("the model is wrong"),
    };
    let value = datum(who, version);
    for (word, after) in [(0, 1), (1, 2)] {
        if steps > after {
            words.write(place.slot, word, value);
        }
    }
    if steps == 4 {
        // Killed between the two stores.
        words.store_stamp(place.slot, version, Ordering::Release);
    }
    if steps >= STEPS {
        publisher.publish(place);
    }
    true
}

#[derive(Default)]
struct Seen {
    executions: Counter,
    accepted: Counter,
    rejected: Counter,
    refused: Counter,
}

/// Copies the newest version if it is above `last`; tries twice.
fn pull(words: &Words, last: u64, seen: &Seen) -> Option<(u64, u64)> {
    for _ in 0..2 {
        let place = newer(words, last).expect("possible words")?;
        assert!(place.version > last, "lost: an older version");
        let [first, second] = words.read(place.slot);
        if is_whole(words, place) || words.is(Mutant::NotValidated) {
            seen.accepted.fetch_add(1, SeqCst);
            assert_eq!(first, second, "torn");
            assert_eq!(first & 0xffff_ffff, place.version, "torn: data of another version");
            return Some((place.version, first));
        }
        seen.rejected.fetch_add(1, SeqCst);
    }
    None
}

/// Runs a publisher of two more versions beside a reader that pulls.
fn copies(mutant: Mutant) -> (bool, Arc<Seen>) {
    let seen = Arc::new(Seen::default());
    let counters = Arc::clone(&seen);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    let passed = holds(&builder, move || {
        counters.executions.fetch_add(1, SeqCst);
        let words = Words::new(mutant);
        let mut publisher = adopt(&words);
        assert!(publish(&words, &mut publisher, 1, 1, STEPS), "the model is wrong");
        let theirs = words.clone();
        let thread = thread::spawn(move || {
            for version in 2..=3 {
                assert!(publish(&theirs, &mut publisher, 1, version, STEPS), "the model is wrong");
            }
        });
        let first = pull(&words, 0, &counters).map_or(0, |(version, _)| version);
        pull(&words, first, &counters);
        thread.join().unwrap();
    });
    (passed, seen)
}

/// Runs a publisher that is killed after some steps of version 2, then its successor, beside a
/// reader. Both publish a version 2, with other data.
fn killed(mutant: Mutant) -> (bool, Arc<Seen>) {
    let seen = Arc::new(Seen::default());
    for steps in 0..STEPS {
        let counters = Arc::clone(&seen);
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        let passed = holds(&builder, move || {
            counters.executions.fetch_add(1, SeqCst);
            let words = Words::new(mutant);
            let mut first = adopt(&words);
            publish(&words, &mut first, 1, 1, STEPS);
            publish(&words, &mut first, 1, 2, STEPS);
            // The reader has a thread of its own and runs last at first: loom then tries every
            // store that its loads may see.
            let (theirs, also) = (words.clone(), Arc::clone(&counters));
            let reader = thread::spawn(move || {
                // Also looks for the version whose block may be half written.
                if let Some(place) = find_version(&theirs, 1) {
                    let [first, second] = theirs.read(place.slot);
                    if is_whole(&theirs, place) {
                        assert_eq!((first, second), (datum(1, 1), datum(1, 1)), "torn");
                    }
                }
                let at = pull(&theirs, 0, &also).map_or(0, |(version, _)| version);
                pull(&theirs, at, &also);
            });
            // The lock orders the successor after the publisher that was killed.
            let mut dies = adopt(&words);
            publish(&words, &mut dies, 2, 3, steps);
            if mutant == Mutant::StampRestored && steps > 0 {
                words.store_stamp(0, 1, Ordering::Release);
            }
            let mut successor = adopt(&words);
            assert_eq!(successor.newest(), 2, "lost: the last whole version");
            publish(&words, &mut successor, 3, 3, STEPS);
            reader.join().unwrap();
            let found = find_version(&words, 3).expect("the successor published it");
            assert_eq!(words.read(found.slot), [datum(3, 3); WORDS], "torn: published twice");
        });
        if !passed {
            return (false, seen);
        }
    }
    (true, seen)
}

/// Runs a publisher of two more versions beside a reader that pins the newest one, and reads it by
/// plain loads.
fn pinned(mutant: Mutant) -> (bool, Arc<Seen>) {
    let seen = Arc::new(Seen::default());
    let counters = Arc::clone(&seen);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    let passed = holds(&builder, move || {
        counters.executions.fetch_add(1, SeqCst);
        let words = Words::new(mutant);
        let mut publisher = adopt(&words);
        let put = |words: &Words, publisher: &mut VersionPublisher<Words>, version| {
            let Ok(place) = publisher.reserve(version, words) else { return false };
            words.write_cell(place.slot, version);
            publisher.publish(place);
            true
        };
        assert!(put(&words, &mut publisher, 1), "the model is wrong");
        let (theirs, also) = (words.clone(), Arc::clone(&counters));
        let thread = thread::spawn(move || {
            for version in 2..=3 {
                if !put(&theirs, &mut publisher, version) {
                    also.refused.fetch_add(1, SeqCst);
                    return;
                }
            }
        });
        let place: VersionPlace = newer(&words, 0).expect("possible words").expect("published");
        let pin = pin_version(&words, &words, 0, 0, place);
        if pin.is_some() || mutant == Mutant::PinNotValidated {
            counters.accepted.fetch_add(1, SeqCst);
            assert_eq!(words.read_cell(place.slot), place.version, "changed under its lease");
            assert_eq!(words.read_cell(place.slot), place.version, "changed under its lease");
            set_pins(&words, 0, 0);
        } else {
            counters.rejected.fetch_add(1, SeqCst);
        }
        thread.join().unwrap();
    });
    (passed, seen)
}

fn show(what: &str, seen: &Seen) -> [u64; 3] {
    let [executions, accepted, rejected, refused] =
        [&seen.executions, &seen.accepted, &seen.rejected, &seen.refused].map(|n| n.load(SeqCst));
    println!(
        "{what}: {executions} executions, {accepted} accepted, {rejected} rejected, {refused}"
    );
    [accepted, rejected, refused]
}

#[test]
fn a_copy_that_is_accepted_is_whole_and_never_older() {
    let (passed, seen) = copies(Mutant::None);
    let [accepted, rejected, _] = show("copies", &seen);
    assert!(passed, "a torn copy was accepted");
    assert!(accepted > 0 && rejected > 0, "the model proves nothing");
}

#[test]
fn the_successor_of_a_killed_publisher_publishes_each_version_once() {
    let (passed, seen) = killed(Mutant::None);
    let [accepted, _, _] = show("killed", &seen);
    assert!(passed, "a version was torn or published twice");
    assert!(accepted > 0 && seen.executions.load(SeqCst) > 100, "the model proves nothing");
}

#[test]
fn a_pinned_version_does_not_change() {
    let (passed, seen) = pinned(Mutant::None);
    let [accepted, rejected, refused] = show("pinned", &seen);
    assert!(passed, "a block changed under its pin");
    assert!(accepted > 0 && rejected > 0 && refused > 0, "the model proves nothing");
}

fn dies_in(model: fn(Mutant) -> (bool, Arc<Seen>), mutants: &[Mutant]) {
    for mutant in mutants {
        let (passed, seen) = model(*mutant);
        println!("{mutant:?}: caught after {} executions", seen.executions.load(SeqCst));
        assert!(!passed, "{mutant:?} was not caught");
    }
}

#[test]
fn every_change_of_the_copy_is_caught() {
    use Mutant::{
        NoAnnouncedFence, NoCopiedFence, NoPublishedFence, NotValidated, RelaxedPublish, StampStays,
    };
    dies_in(
        copies,
        &[
            NoAnnouncedFence,
            NoCopiedFence,
            NoPublishedFence,
            NotValidated,
            RelaxedPublish,
            StampStays,
        ],
    );
}

#[test]
fn every_change_of_the_succession_is_caught() {
    dies_in(killed, &[Mutant::StampsNotCleared, Mutant::StampRestored]);
}

#[test]
fn every_change_of_the_pins_is_caught() {
    use Mutant::{
        NoPinnedFence, PinNotValidated, RelaxedScan, RelaxedUnpin, ReleaseBeforeScan, ScanFirst,
        StampStays,
    };
    dies_in(
        pinned,
        &[
            NoPinnedFence,
            PinNotValidated,
            RelaxedScan,
            RelaxedUnpin,
            ReleaseBeforeScan,
            ScanFirst,
            StampStays,
        ],
    );
}
