//! Versions: the newest whole version of a block of arrays, of one publisher, for any number of
//! readers.
//!
//! An object has a few slots, each with a block and a stamp. A stamp is the version in the block,
//! or 0 while the block is empty or being written. One word holds the newest version and its slot.
//!
//! The publisher ([`VersionPublisher`]) takes the slot with the oldest version that it need not
//! keep:
//!
//! 1. `stamp = 0` (relaxed), then [`VersionFence::Announced`];
//! 2. a scan of the pins (acquire). If a pin holds the slot, the stamp is restored and the next
//!    slot is tried;
//! 3. the words of the block (relaxed);
//! 4. `stamp = version` (release), then `newest = (version, slot)` (release).
//!
//! A reader copies ([`newer`], [`is_whole`]) or pins ([`pin_version`]):
//!
//! - Copy: load `newest` (relaxed). If its version is not above the reader's, there is nothing to
//!   do: one load and a compare. Otherwise issue [`VersionFence::Published`] (acquire), copy the
//!   block, issue [`VersionFence::Copied`] (acquire), and accept the copy iff the stamp is the
//!   version.
//! - Pin: set the slot's bit in the reader's word (release), issue [`VersionFence::Pinned`], and
//!   accept iff the stamp is the version. Until the bit is cleared, the block does not change.
//!
//! An accepted copy is whole. It is not older: the release store of `newest` and the acquire fence
//! order the block's words before the reader's loads. It is not newer: a word of a later version
//! was stored after the fence that follows `stamp = 0`. A reader that saw such a word and issued
//! its own fence sees that stamp or a later one, which is 0 or a later version. A stamp is restored
//! only if no word was stored since it was cleared.
//!
//! A pinned block does not change. The publisher stores the stamp, then loads the pins; a reader
//! stores its pin, then loads the stamp. A sequentially consistent fence is between both steps, so
//! at least one side sees the other's store.
//!
//! A publisher that is killed leaves `newest`, whose slot it never writes. Its own slot has the
//! stamp 0, or a version above `newest` if it was killed between the two stores of step 4.
//! [`VersionPublisher::adopt`] clears the stamps above `newest`, so that a version is published
//! once. Kernel locks decide who is the publisher.

use std::sync::atomic::Ordering;

use super::pin::Pins;

/// Bits of the newest word that hold the slot.
const SLOT_BITS: u32 = 8;
/// Largest version.
pub const MAX_VERSION: u64 = (1 << (64 - SLOT_BITS)) - 1;

/// Fences of the protocol, named by the place of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionFence {
    /// Publisher, between clearing a stamp and scanning the pins. Sequentially consistent, which
    /// includes release.
    Announced,
    /// Reader, between pinning a slot and reading its stamp. Sequentially consistent.
    Pinned,
    /// Reader, between loading the newest word or a stamp and copying the block. Acquire.
    Published,
    /// Reader, between copying a block and reading its stamp. Acquire.
    Copied,
}

impl VersionFence {
    /// Returns the ordering of the fence at this place.
    #[must_use]
    pub fn ordering(self) -> Ordering {
        match self {
            // ORDERING: `Announced` and `Pinned` pair with each other: of "stamp, then pins" and
            // "pin, then stamp" at least one side sees the other's store. `Announced` pairs with
            // `Copied` too: a reader that saw a word stored after it sees the cleared stamp.
            Self::Announced | Self::Pinned => Ordering::SeqCst,
            // ORDERING: `Published` pairs with the release stores in `VersionPublisher::publish`.
            Self::Published | Self::Copied => Ordering::Acquire,
        }
    }
}

/// Words of an object, as a reader needs them.
pub trait VersionWords {
    /// Returns the number of slots.
    fn slots(&self) -> u32;
    /// Loads the newest version and its slot, in one word.
    fn load_newest(&self, order: Ordering) -> u64;
    /// Loads the stamp of a slot.
    fn load_stamp(&self, slot: u32, order: Ordering) -> u64;
    /// Issues a fence.
    fn fence(&self, at: VersionFence);
}

/// Words of an object, as its one publisher needs them.
pub trait VersionWordsMut: VersionWords {
    /// Stores the newest version and its slot.
    fn store_newest(&self, word: u64, order: Ordering);
    /// Stores the stamp of a slot.
    fn store_stamp(&self, slot: u32, stamp: u64, order: Ordering);
}

/// A version and the slot that holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionPlace {
    /// The version, from 1 up.
    pub version: u64,
    /// Slot that holds the version.
    pub slot: u32,
}

impl VersionPlace {
    /// Returns the word that names this version as the newest.
    pub(crate) fn word(self) -> u64 {
        self.version << SLOT_BITS | u64::from(self.slot)
    }
}

/// Words that no publisher of this protocol leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the words of the parameters are impossible (version {version} in slot {slot} of {slots}); \
     create them again"
)]
pub struct ImpossibleVersion {
    /// Newest version according to the object.
    pub version: u64,
    /// Slot that holds the version.
    pub slot: u64,
    /// Slots of the object.
    pub slots: u32,
}

/// Returns the newest version. 0 before the first one. One relaxed load.
#[inline]
pub fn newest_version<W: VersionWords>(words: &W) -> u64 {
    words.load_newest(Ordering::Relaxed) >> SLOT_BITS
}

/// Returns the newest version and its slot if it is above `last`. One relaxed load and a compare if
/// it is not.
#[inline]
pub fn newer<W: VersionWords>(
    words: &W,
    last: u64,
) -> Result<Option<VersionPlace>, ImpossibleVersion> {
    // ORDERING: relaxed load and acquire fence rather than an acquire load: only relaxed loads are
    // defined on read-only pages.
    let word = words.load_newest(Ordering::Relaxed);
    if word >> SLOT_BITS <= last {
        return Ok(None);
    }
    let place = unpack(word, words.slots())?;
    words.fence(VersionFence::Published);
    Ok(Some(place))
}

/// Returns the place of a version, or `None` if no slot holds it or it is not published. O(slots).
pub fn find_version<W: VersionWords>(words: &W, version: u64) -> Option<VersionPlace> {
    if version == 0 || version > newest_version(words) {
        return None;
    }
    // A dead publisher may have left a stamp above the newest version of its time. Its successor
    // cleared that before it published a newer one.
    words.fence(VersionFence::Published);
    let slot =
        (0..words.slots()).find(|slot| words.load_stamp(*slot, Ordering::Relaxed) == version);
    let place = slot.map(|slot| VersionPlace { version, slot });
    words.fence(VersionFence::Published);
    place
}

/// Returns the versions that can be read, oldest first. O(slots).
pub fn readable_versions<W: VersionWords>(words: &W) -> Vec<u64> {
    let newest = newest_version(words);
    words.fence(VersionFence::Published);
    let stamps = (0..words.slots()).map(|slot| words.load_stamp(slot, Ordering::Relaxed));
    let mut versions: Vec<u64> = stamps.filter(|stamp| (1..=newest).contains(stamp)).collect();
    versions.sort_unstable();
    versions
}

/// Returns whether a block copied from `place` was not overwritten during the copy.
#[inline]
pub fn is_whole<W: VersionWords>(words: &W, place: VersionPlace) -> bool {
    words.fence(VersionFence::Copied);
    // ORDERING: relaxed; the fence above orders it after the copy.
    words.load_stamp(place.slot, Ordering::Relaxed) == place.version
}

/// Sets a slot's bit in the pins of `reader`, whose pins are `held`. Returns the new pins, or
/// `None` if the version is gone: then the pins are as before.
pub fn pin_version<W: VersionWords, P: Pins>(
    words: &W,
    pins: &P,
    reader: u32,
    held: u64,
    place: VersionPlace,
) -> Option<u64> {
    let pinned = held | bit(place.slot);
    // ORDERING: release, for earlier pins of the reader: a publisher may find this word without
    // having seen the one before it.
    pins.store(reader, pinned, Ordering::Release);
    words.fence(VersionFence::Pinned);
    if words.load_stamp(place.slot, Ordering::Relaxed) == place.version {
        return Some(pinned);
    }
    set_pins(pins, reader, held);
    None
}

/// Stores the pins that a reader still needs.
pub fn set_pins<P: Pins>(pins: &P, reader: u32, left: u64) {
    // ORDERING: pairs with the acquire load in `pinning_readers`: a publisher that no longer finds
    // the bit stores after the reader's last plain load.
    pins.store(reader, left, Ordering::Release);
}

/// Returns the readers that pin a slot. O(readers).
pub fn pinning_readers<P: Pins>(pins: &P, slot: u32) -> impl Iterator<Item = u32> + '_ {
    // ORDERING: pairs with the release store in `set_pins`.
    (0..pins.slots()).filter(move |reader| pins.load(*reader, Ordering::Acquire) & bit(slot) != 0)
}

/// Returns the bit of a slot in a reader's pins.
#[must_use]
pub fn bit(slot: u32) -> u64 {
    1_u64.checked_shl(slot).unwrap_or(0)
}

fn unpack(word: u64, slots: u32) -> Result<VersionPlace, ImpossibleVersion> {
    let (version, slot) = (word >> SLOT_BITS, word & ((1 << SLOT_BITS) - 1));
    match u32::try_from(slot) {
        Ok(slot) if slot < slots => Ok(VersionPlace { version, slot }),
        _ => Err(ImpossibleVersion { version, slot, slots }),
    }
}

/// Reason why no version can be published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unpublishable {
    /// The version is not above the newest one, or above [`MAX_VERSION`].
    Version,
    /// Readers pin every slot that could be written: these slots.
    Pinned(Vec<u32>),
}

/// The one publisher of an object. Its newest version is a private copy: the shared word is only
/// written.
#[derive(Debug)]
pub struct VersionPublisher<W> {
    words: W,
    newest: u64,
    kept: usize,
}

impl<W: VersionWordsMut> VersionPublisher<W> {
    /// Takes over an object without a publisher, new or left by a dead one. `kept` versions stay
    /// readable while another is written.
    pub fn adopt(words: W, kept: u32) -> Result<Self, ImpossibleVersion> {
        // ORDERING: relaxed is enough. The publisher's lock, taken before, orders this process
        // after its last holder. Values that a faulty peer stored are checked here.
        let word = words.load_newest(Ordering::Relaxed);
        let place = unpack(word, words.slots())?;
        let slots = words.slots();
        if place.version > 0 && words.load_stamp(place.slot, Ordering::Relaxed) != place.version {
            let (version, slot) = (place.version, place.slot.into());
            return Err(ImpossibleVersion { version, slot, slots });
        }
        for slot in 0..slots {
            if words.load_stamp(slot, Ordering::Relaxed) > place.version {
                words.store_stamp(slot, 0, Ordering::Relaxed);
            }
        }
        Ok(Self { words, newest: place.version, kept: kept as usize })
    }

    /// Returns the newest version. 0 before the first one.
    pub fn newest(&self) -> u64 {
        self.newest
    }

    /// Returns the words.
    pub fn words(&self) -> &W {
        &self.words
    }

    /// Takes a slot for a version. The caller writes the slot's whole block before
    /// [`publish`](Self::publish), and nothing of it afterwards.
    pub fn reserve<P: Pins>(
        &mut self,
        version: u64,
        pins: &P,
    ) -> Result<VersionPlace, Unpublishable> {
        if version <= self.newest || version > MAX_VERSION {
            return Err(Unpublishable::Version);
        }
        let mut pinned = Vec::new();
        for (stamp, slot) in self.writable() {
            let is_pinned = || pinning_readers(pins, slot).next().is_some();
            // Leave the stamp of a slot that is known to be pinned.
            if is_pinned() {
                pinned.push(slot);
                continue;
            }
            self.words.store_stamp(slot, 0, Ordering::Relaxed);
            self.words.fence(VersionFence::Announced);
            if !is_pinned() {
                return Ok(VersionPlace { version, slot });
            }
            pinned.push(slot);
            // No word of the block was stored since the stamp was cleared. A slot of a publisher
            // that was killed while it wrote has the stamp 0, which stays.
            // ORDERING: release, as in `publish`.
            self.words.store_stamp(slot, stamp, Ordering::Release);
        }
        Err(Unpublishable::Pinned(pinned))
    }

    /// Makes a reserved version, whose block is written, the newest one.
    pub fn publish(&mut self, place: VersionPlace) {
        // ORDERING: both pair with `VersionFence::Published`: a reader that sees the stamp or the
        // version sees the block.
        self.words.store_stamp(place.slot, place.version, Ordering::Release);
        self.words.store_newest(place.word(), Ordering::Release);
        self.newest = place.version;
    }

    /// Returns the slots that may be written, those with the oldest versions first, with their
    /// stamps.
    fn writable(&self) -> Vec<(u64, u32)> {
        let stamp = |slot| self.words.load_stamp(slot, Ordering::Relaxed);
        let mut slots: Vec<(u64, u32)> =
            (0..self.words.slots()).map(|slot| (stamp(slot), slot)).collect();
        slots.sort_unstable();
        let whole = slots.iter().filter(|(stamp, _)| *stamp > 0).count();
        slots.truncate(slots.len() - whole.min(self.kept));
        slots
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    /// Words of an object of three slots, and the pins of two readers.
    #[derive(Debug, Default)]
    struct Words {
        newest: Cell<u64>,
        stamps: [Cell<u64>; 3],
        pins: [Cell<u64>; 2],
        /// Pins set by reader 1 at the next announcement.
        meanwhile: Cell<u64>,
        fences: RefCell<Vec<VersionFence>>,
    }

    impl VersionWords for &Words {
        fn slots(&self) -> u32 {
            3
        }

        fn load_newest(&self, _: Ordering) -> u64 {
            self.newest.get()
        }

        fn load_stamp(&self, slot: u32, _: Ordering) -> u64 {
            self.stamps[slot as usize].get()
        }

        fn fence(&self, at: VersionFence) {
            self.fences.borrow_mut().push(at);
            if at == VersionFence::Announced {
                self.pins[1].set(self.pins[1].get() | self.meanwhile.take());
            }
        }
    }

    impl VersionWordsMut for &Words {
        fn store_newest(&self, word: u64, _: Ordering) {
            self.newest.set(word);
        }

        fn store_stamp(&self, slot: u32, stamp: u64, _: Ordering) {
            self.stamps[slot as usize].set(stamp);
        }
    }

    impl Pins for &Words {
        fn slots(&self) -> u32 {
            2
        }

        fn load(&self, slot: u32, _: Ordering) -> u64 {
            self.pins[slot as usize].get()
        }

        fn store(&self, slot: u32, pin: u64, _: Ordering) {
            self.pins[slot as usize].set(pin);
        }
    }

    fn publish(publisher: &mut VersionPublisher<&Words>, version: u64) -> Option<u32> {
        let words = *publisher.words();
        let place = publisher.reserve(version, &words).ok()?;
        publisher.publish(place);
        Some(place.slot)
    }

    #[test]
    fn versions_go_round_and_the_oldest_slot_is_taken() {
        let words = Words::default();
        let mut publisher = VersionPublisher::adopt(&words, 1).unwrap();
        let slots: Vec<_> = (1..=5).filter_map(|v| publish(&mut publisher, v)).collect();
        assert_eq!(slots, [0, 1, 2, 0, 1]);
        assert_eq!(readable_versions(&&words), [3, 4, 5]);
        assert_eq!(newer(&&words, 4), Ok(Some(VersionPlace { version: 5, slot: 1 })));
        assert_eq!(newer(&&words, 5), Ok(None));
        assert_eq!(find_version(&&words, 4), Some(VersionPlace { version: 4, slot: 0 }));
        assert_eq!(find_version(&&words, 2), None);
    }

    #[test]
    fn nothing_new_is_one_load_without_a_fence() {
        let words = Words::default();
        let mut publisher = VersionPublisher::adopt(&words, 1).unwrap();
        publish(&mut publisher, 7);
        words.fences.borrow_mut().clear();
        assert_eq!(newer(&&words, 7), Ok(None));
        assert_eq!(*words.fences.borrow(), []);
    }

    #[test]
    fn versions_that_do_not_rise_are_refused() {
        let words = Words::default();
        let mut publisher = VersionPublisher::adopt(&words, 1).unwrap();
        assert_eq!(publisher.reserve(0, &&words), Err(Unpublishable::Version));
        publish(&mut publisher, 9);
        for version in [0, 8, 9, MAX_VERSION + 1] {
            assert_eq!(publisher.reserve(version, &&words), Err(Unpublishable::Version));
        }
        assert!(publish(&mut publisher, MAX_VERSION).is_some());
    }

    #[test]
    fn a_pinned_slot_is_passed_over_and_its_stamp_is_restored() {
        let words = Words::default();
        let mut publisher = VersionPublisher::adopt(&words, 1).unwrap();
        for version in 1..=3 {
            publish(&mut publisher, version);
        }
        // Slot 0 holds version 1. A reader pins it after the scan that skips known pins.
        words.meanwhile.set(bit(0));
        assert_eq!(publish(&mut publisher, 4), Some(1));
        assert_eq!(words.stamps[0].get(), 1);
        let first = VersionPlace { version: 1, slot: 0 };
        assert_eq!(pin_version(&&words, &&words, 0, 0, first), Some(1));
        // Version 2 is gone; the pins are as before.
        let second = VersionPlace { version: 2, slot: 1 };
        assert_eq!(pin_version(&&words, &&words, 0, bit(2), second), None);
        assert_eq!(words.pins[0].get(), bit(2));
        // Slots 0 and 2 are pinned, slot 1 has the newest version.
        let refused = publisher.reserve(5, &&words);
        assert_eq!(refused, Err(Unpublishable::Pinned(vec![0, 2])));
        assert_eq!(publisher.newest(), 4);
    }

    #[test]
    fn a_successor_keeps_the_newest_version_and_clears_one_that_was_not_announced() {
        let words = Words::default();
        let mut dies = VersionPublisher::adopt(&words, 1).unwrap();
        publish(&mut dies, 1);
        let place = dies.reserve(2, &&words).unwrap();
        // It is killed between the two stores of `publish`.
        (&&words).store_stamp(place.slot, 2, Ordering::Release);
        assert_eq!(find_version(&&words, 2), None, "it is not published");
        assert_eq!((newest_version(&&words), readable_versions(&&words)), (1, vec![1]));
        let mut successor = VersionPublisher::adopt(&words, 1).unwrap();
        assert_eq!((successor.newest(), words.stamps[place.slot as usize].get()), (1, 0));
        assert!(publish(&mut successor, 2).is_some());
        assert_eq!(readable_versions(&&words), [1, 2]);
    }

    #[test]
    fn impossible_words_are_refused() {
        let words = Words::default();
        words.newest.set(3 << SLOT_BITS | 3);
        let error = ImpossibleVersion { version: 3, slot: 3, slots: 3 };
        assert_eq!(newer(&&words, 0), Err(error));
        assert_eq!(VersionPublisher::adopt(&words, 1).unwrap_err(), error);
        // The slot holds another version.
        words.newest.set(3 << SLOT_BITS | 2);
        assert!(VersionPublisher::adopt(&words, 1).is_err());
        words.newest.set(u64::MAX);
        assert!(newer(&&words, 0).is_err());
    }
}
