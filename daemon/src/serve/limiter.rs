//! Limits the number of connections, and closes an idle one to admit another.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Function that closes a connection from another thread.
type Close = Box<dyn Fn() + Send>;

/// The connections of one listener.
pub(crate) struct ConnectionLimiter {
    limit: usize,
    inside: Mutex<Inside>,
    left: Condvar,
}

struct Inside {
    next: u64,
    closed: bool,
    /// Connections by number, and so by age, since numbers only grow.
    places: BTreeMap<u64, Place>,
}

struct Place {
    close: Close,
    working: bool,
}

/// Admission of a connection, released on drop.
pub(crate) struct Admission {
    limiter: Arc<ConnectionLimiter>,
    number: u64,
}

impl ConnectionLimiter {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        let inside = Inside { next: 0, closed: false, places: BTreeMap::new() };
        Arc::new(Self { limit, inside: Mutex::new(inside), left: Condvar::new() })
    }

    /// Admits a connection. At the limit, closes the oldest idle one. Returns `None` if all are
    /// busy or the limiter is closed.
    pub(crate) fn enter(self: &Arc<Self>, close: impl Fn() + Send + 'static) -> Option<Admission> {
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
        Some(Admission { limiter: Arc::clone(self), number })
    }

    /// Returns the number of connections.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.lock().places.len()
    }

    /// Closes idle connections, refuses new ones, and waits until all have ended.
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

impl Admission {
    /// Marks the connection as busy, so that it is not closed for another one. Returns false if the
    /// limiter or the connection is closed already.
    pub(crate) fn begin_work(&self) -> bool {
        let mut inside = self.limiter.lock();
        let closed = inside.closed;
        match inside.places.get_mut(&self.number) {
            Some(place) if !closed => {
                place.working = true;
                true
            }
            _ => false,
        }
    }

    /// Marks the connection as idle.
    pub(crate) fn end_work(&self) {
        let mut inside = self.limiter.lock();
        let closed = inside.closed;
        if let Some(place) = inside.places.get_mut(&self.number) {
            place.working = false;
            // The answer is in the kernel's buffer by now.
            if closed {
                (place.close)();
            }
        }
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.limiter.lock().places.remove(&self.number);
        self.limiter.left.notify_all();
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
        let limiter = ConnectionLimiter::new(2);
        let closed = Arc::new(AtomicUsize::new(0));
        let first = limiter.enter(closes(&closed)).unwrap();
        let second = limiter.enter(closes(&closed)).unwrap();
        assert!(first.begin_work());
        let third = limiter.enter(closes(&closed)).unwrap();
        assert_eq!((closed.load(SeqCst), limiter.len()), (1, 2), "the second went");
        assert!(!second.begin_work(), "it is out");
        assert!(third.begin_work());
        assert!(limiter.enter(|| ()).is_none(), "all are at work");
        first.end_work();
        assert!(limiter.enter(|| ()).is_some());
    }

    #[test]
    fn a_closed_limiter_waits_for_busy_connections_and_admits_none() {
        let limiter = ConnectionLimiter::new(4);
        let closed = Arc::new(AtomicUsize::new(0));
        let working = limiter.enter(closes(&closed)).unwrap();
        assert!(working.begin_work());
        let ending = std::thread::spawn({
            let limiter = Arc::clone(&limiter);
            move || limiter.close()
        });
        while limiter.enter(|| ()).is_some() {
            std::thread::yield_now();
        }
        assert!(!ending.is_finished());
        drop(working);
        ending.join().unwrap();
    }
}
