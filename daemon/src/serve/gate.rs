//! How many connections there are at a time, and which one goes when there is no room for another.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Ends a connection from outside; its thread then finds it closed.
type Close = Box<dyn Fn() + Send>;

/// The connections of one listener.
pub(crate) struct Gate {
    limit: usize,
    inside: Mutex<Inside>,
    left: Condvar,
}

struct Inside {
    next: u64,
    closed: bool,
    /// By age: numbers only grow.
    places: BTreeMap<u64, Place>,
}

struct Place {
    close: Close,
    working: bool,
}

/// A connection's place; dropping it makes room.
pub(crate) struct Entered {
    gate: Arc<Gate>,
    number: u64,
}

impl Gate {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        let inside = Inside { next: 0, closed: false, places: BTreeMap::new() };
        Arc::new(Self { limit, inside: Mutex::new(inside), left: Condvar::new() })
    }

    /// Room for one more. Where there is none, the oldest connection that is not at work goes: a
    /// silent one has no right to keep others out. `None`: all are at work, or the gate is closed.
    pub(crate) fn enter(self: &Arc<Self>, close: impl Fn() + Send + 'static) -> Option<Entered> {
        let mut inside = self.lock();
        if inside.closed {
            return None;
        }
        if inside.places.len() >= self.limit {
            let (&oldest, place) = inside.places.iter().find(|(_, place)| !place.working)?;
            (place.close)();
            inside.places.remove(&oldest);
        }
        let number = inside.next;
        inside.next += 1;
        inside.places.insert(number, Place { close: Box::new(close), working: false });
        Some(Entered { gate: Arc::clone(self), number })
    }

    /// Connections now.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.lock().places.len()
    }

    /// Ends every connection that is not at work, lets nobody in any more, and waits for the others.
    pub(crate) fn close(&self) {
        let mut inside = self.lock();
        inside.closed = true;
        for place in inside.places.values().filter(|place| !place.working) {
            (place.close)();
        }
        while !inside.places.is_empty() {
            inside = self.left.wait(inside).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entered {
    /// Whether the connection is at work: such a one is not closed to make room. `false`: it must not
    /// begin, the gate is closed or it was put out already.
    pub(crate) fn begin_work(&self) -> bool {
        let mut inside = self.gate.lock();
        let closed = inside.closed;
        match inside.places.get_mut(&self.number) {
            Some(place) if !closed => {
                place.working = true;
                true
            }
            _ => false,
        }
    }

    /// The work is done: what follows may be cut off.
    pub(crate) fn end_work(&self) {
        let mut inside = self.gate.lock();
        let closed = inside.closed;
        if let Some(place) = inside.places.get_mut(&self.number) {
            place.working = false;
            // Not before the answer is out, which is in the kernel's hands by now.
            if closed {
                (place.close)();
            }
        }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.gate.lock().places.remove(&self.number);
        self.gate.left.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use super::*;

    fn closes(count: &Arc<AtomicUsize>) -> impl Fn() + Send + 'static {
        let count = Arc::clone(count);
        move || {
            count.fetch_add(1, SeqCst);
        }
    }

    #[test]
    fn a_silent_connection_makes_room_and_a_working_one_does_not() {
        let gate = Gate::new(2);
        let closed = Arc::new(AtomicUsize::new(0));
        let first = gate.enter(closes(&closed)).unwrap();
        let second = gate.enter(closes(&closed)).unwrap();
        assert!(first.begin_work());
        let third = gate.enter(closes(&closed)).unwrap();
        assert_eq!((closed.load(SeqCst), gate.len()), (1, 2), "the second went");
        assert!(!second.begin_work(), "it is out");
        assert!(third.begin_work());
        assert!(gate.enter(|| ()).is_none(), "all are at work");
        first.end_work();
        assert!(gate.enter(|| ()).is_some());
    }

    #[test]
    fn a_closed_gate_waits_for_those_at_work_and_lets_nobody_in() {
        let gate = Gate::new(4);
        let closed = Arc::new(AtomicUsize::new(0));
        let working = gate.enter(closes(&closed)).unwrap();
        assert!(working.begin_work());
        let ending = std::thread::spawn({
            let gate = Arc::clone(&gate);
            move || gate.close()
        });
        while gate.enter(|| ()).is_some() {
            std::thread::yield_now();
        }
        assert!(!ending.is_finished());
        drop(working);
        ending.join().unwrap();
    }
}
