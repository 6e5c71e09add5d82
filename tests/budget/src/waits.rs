//! Bounds on the waits of tests, and threads that end with their test.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// Time after which a test that waits counts as hung.
pub const WATCHDOG: Duration = Duration::from_secs(120);

/// Yields until `is_so`.
///
/// # Panics
///
/// If that takes longer than [`WATCHDOG`].
#[track_caller]
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < WATCHDOG, "waited in vain: {what}");
        thread::yield_now();
    }
}

/// Sets a flag when dropped, even by a panic, which ends the threads of a test.
#[derive(Debug)]
pub struct Stop<'a>(pub &'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_when_it_is_so() {
        let mut looks = 0;
        until("three looks", || {
            looks += 1;
            looks == 3
        });
        assert_eq!(looks, 3);
    }

    #[test]
    fn a_panic_stops_the_threads() {
        let stop = AtomicBool::new(false);
        let panicked = std::panic::catch_unwind(|| {
            let _stop = Stop(&stop);
            panic!("as a failed assertion does");
        });
        assert!(panicked.is_err() && stop.load(Relaxed));
    }
}
