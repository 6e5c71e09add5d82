//! Models of reader slots: two holders died and left pins on two lanes; the pins stop the lanes'
//! writers while new readers claim the slots, lease rows, and die in their turn.

use std::convert::Infallible;
use std::sync::Arc;

use backcast_layout::protocol::{
    LaneWriter, ReaderSlots, claim, freeze, oldest, readable, reap, thaw,
};
use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::atomic::Ordering;
use shuttle::thread;

use crate::lane::{Lane, Mutant};
use crate::machine::{Weak, Word};
use crate::{Seen, dies, holds};

const LANE_ROWS: u64 = 3;
const LANES: usize = 2;
const READERS: u32 = 2;
const LEASES: usize = 2;
const ROWS: usize = 7;
const SEEN: [&str; 7] = ["reaped", "kept", "taken", "leased", "refused", "died_pinned", "written"];

#[derive(Clone)]
struct Ring {
    lanes: Arc<Vec<Lane<Weak>>>,
    locks: Arc<Vec<Word>>,
}

/// Lock of a slot, held until its holder ends.
struct Held(Word);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Release);
    }
}

impl Ring {
    fn lock(&self, slot: u32) -> &Word {
        &self.locks[slot as usize]
    }
}

impl ReaderSlots for Ring {
    type Claim = Held;
    type Error = Infallible;

    fn is_held(&self, slot: u32) -> bool {
        self.lock(slot).load(Ordering::Relaxed) != 0
    }

    fn try_claim(&self, slot: u32) -> Result<Option<Held>, Infallible> {
        // Like the kernel's lock: taking it sees what was done before it was released.
        let taken = self.lock(slot).update(Ordering::Acquire, |held| (held == 0).then_some(1));
        Ok(taken.is_ok().then(|| Held(self.lock(slot).clone())))
    }

    fn clear_pins(&self, slot: u32) {
        for lane in self.lanes.iter() {
            thaw(lane, slot, None);
        }
    }
}

/// Handles a pin that stops a writer. Returns `true` if its holder is dead.
fn take_away(ring: &Ring, slot: u32, mutant: Mutant) -> bool {
    match mutant {
        Mutant::NoLock => {
            ring.clear_pins(slot);
            true
        }
        Mutant::LookOnly => {
            let free = !ring.is_held(slot);
            if free {
                ring.clear_pins(slot);
            }
            free
        }
        Mutant::LockLetGoEarly => {
            let claimed = ring.try_claim(slot).unwrap().is_some();
            if claimed {
                ring.clear_pins(slot);
            }
            claimed
        }
        _ => reap(ring, slot).unwrap(),
    }
}

/// Appends to a lane. Drops a row if the pin of a living holder stops it.
fn write(ring: &Ring, number: usize, mutant: Mutant, seen: &Seen) {
    let lane = &ring.lanes[number];
    let mut writer = LaneWriter::adopt(lane.for_writer(), 1).unwrap();
    for _ in 0..ROWS {
        let mut may_write = !writer.reserve(1);
        if !may_write {
            writer.announced_to_pins();
            // Up to one pin per slot may block the writer, one after the other.
            for _ in 0..=READERS {
                let pin = oldest(lane);
                may_write = writer.settle(pin.map(|pin| pin.start), 1);
                let Some(pin) = pin.filter(|_| !may_write) else { break };
                let gone = take_away(ring, pin.slot, mutant);
                seen.count(if gone { "reaped" } else { "kept" });
            }
        }
        if may_write {
            writer.write(0, 0, &lane.row(writer.head()));
            writer.publish(1);
            seen.count("written");
        } else {
            thread::yield_now();
        }
    }
}

/// Claims a slot, leases rows of a lane and reads them by plain loads. Dies at times before it ends
/// the lease.
fn lease(ring: &Ring, mutant: Mutant, seen: &Seen) {
    let slot = thread_rng().gen_range(0..READERS);
    let clears_late = mutant == Mutant::ClearedLate;
    let claimed = if clears_late { ring.try_claim(slot) } else { claim(ring, slot) };
    let Some(_held) = claimed.unwrap() else { return seen.count("taken") };
    let lane = &ring.lanes[thread_rng().gen_range(0..LANES)];
    let rows = readable(lane, LANE_ROWS);
    let granted = !rows.is_empty() && freeze(lane, lane, slot, rows.start, None).is_ok();
    if clears_late {
        ring.clear_pins(slot);
    }
    if !granted {
        return seen.count("refused");
    }
    seen.count("leased");
    for seq in rows {
        lane.read_in_place(seq);
    }
    if thread_rng().gen_bool(0.5) {
        return seen.count("died_pinned");
    }
    thaw(lane, slot, None);
}

fn model(mutant: Mutant, seen: &Seen) {
    let machine = Weak::new();
    // A dead holder's pin on row 0, in every slot of both lanes.
    let lane = |_| Lane::of_cells(&machine, LANE_ROWS, (READERS as usize, 1), mutant);
    let ring = Ring {
        lanes: Arc::new((0..LANES).map(lane).collect()),
        locks: Arc::new((0..READERS).map(|_| machine.word(0)).collect()),
    };
    let writers = (0..LANES).map(|lane| {
        let (ring, seen) = (ring.clone(), seen.clone());
        machine.spawn(move || write(&ring, lane, mutant, &seen))
    });
    let mut threads: Vec<_> = writers.collect();
    threads.extend((0..READERS).map(|_| {
        let (ring, seen) = (ring.clone(), seen.clone());
        machine.spawn(move || (0..LEASES).for_each(|_| lease(&ring, mutant, &seen)))
    }));
    for thread in threads {
        thread.join();
    }
}

#[test]
fn the_pins_of_the_dead_go_and_those_of_the_living_stay() {
    holds("slots", &SEEN, |seen| model(Mutant::None, seen));
}

fn caught(mutant: Mutant) {
    dies(&format!("{mutant:?}"), &SEEN, move |seen| model(mutant, seen));
}

#[test]
fn a_reaper_without_the_lock_takes_a_living_readers_pin() {
    caught(Mutant::NoLock);
}

#[test]
fn a_reaper_that_only_looks_at_the_lock_takes_a_living_readers_pin() {
    caught(Mutant::LookOnly);
}

#[test]
fn a_reaper_that_lets_go_of_the_lock_first_takes_a_living_readers_pin() {
    caught(Mutant::LockLetGoEarly);
}

#[test]
fn a_holder_that_clears_the_slot_late_clears_its_own_pin() {
    caught(Mutant::ClearedLate);
}
