//! Models of marks: no reader finds a correct mark above the head, and no mark falls.

use std::sync::Arc;

use backcast_layout::protocol::low_mark::{MarkWord, load_mark, raise_mark};
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use loom::thread;

use crate::holds;

/// A mark with the orderings of the protocol, or with weaker ones.
struct Mark {
    word: AtomicU64,
    fenced: bool,
    exchange: Ordering,
}

impl MarkWord for Mark {
    fn load(&self, order: Ordering) -> u64 {
        self.word.load(order)
    }

    fn fence(&self, order: Ordering) {
        if self.fenced {
            fence(order);
        }
    }

    fn compare_exchange(&self, from: u64, to: u64, order: Ordering) -> bool {
        let order = if self.exchange == Ordering::Relaxed { Ordering::Relaxed } else { order };
        self.word.compare_exchange(from, to, order, Ordering::Relaxed).is_ok()
    }
}

/// Loads a head as readers of rows do.
fn load_head(head: &AtomicU64) -> u64 {
    let rows = head.load(Ordering::Relaxed);
    fence(Ordering::Acquire);
    rows
}

/// A writer publishes two rows, one or two processes clear the lane, and a reader looks.
fn model(clearers: u64, fenced: bool, exchange: Ordering) -> bool {
    holds(&loom::model::Builder::new(), move || {
        let mark = Mark { word: AtomicU64::new(0), fenced, exchange };
        let lane = Arc::new((AtomicU64::new(0), mark));
        let clearing: Vec<_> = (0..clearers)
            .map(|_| {
                let lane = Arc::clone(&lane);
                thread::spawn(move || {
                    let (head, mark) = &*lane;
                    let row = load_head(head);
                    let before = raise_mark(mark, row, || load_head(head));
                    assert!(load_mark(mark) >= row.max(before), "lost: the mark fell");
                })
            })
            .collect();
        let reader = (clearers == 1).then(|| {
            let lane = Arc::clone(&lane);
            thread::spawn(move || {
                let (head, mark) = &*lane;
                let mark = load_mark(mark);
                assert!(mark <= load_head(head), "lost: a correct mark is above the head");
            })
        });
        let (head, mark) = &*lane;
        head.store(1, Ordering::Release);
        head.store(2, Ordering::Release);
        for thread in clearing.into_iter().chain(reader) {
            thread.join().unwrap();
        }
        assert!(load_mark(mark) <= 2, "lost: a mark that no process stored");
    })
}

#[test]
fn a_correct_mark_is_not_above_the_head_that_is_loaded_after_it() {
    assert!(model(1, true, Ordering::Release));
}

#[test]
fn a_mark_rises_whichever_process_is_late() {
    assert!(model(2, true, Ordering::Release));
}

#[test]
fn without_the_fence_after_the_mark_it_seems_to_be_above_the_head() {
    assert!(!model(1, false, Ordering::Release));
}

#[test]
fn with_a_relaxed_exchange_the_mark_seems_to_be_above_the_head() {
    assert!(!model(1, true, Ordering::Relaxed));
}
