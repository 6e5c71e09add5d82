//! Writers stop at a ceiling, whatever else happens to the ring and its limits.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use backcast_budget::until;

use crate::error::LimitError;
use crate::limiter::absent::NoLearner;
use crate::limiter::limits::RateLimiter;
use crate::{
    AppendError, Base, DType, Interrupt, Limiter, Ring, RingOptions, SamplerOptions, Schema,
    Selector, StepColumns, TableOptions, Writer, WriterOptions,
};

fn schema() -> Schema {
    Schema::builder().column("obs", DType::U8, &[]).build().unwrap()
}

fn ring(limits: RateLimiter) -> (Ring, Limiter) {
    let ring = Ring::heap(&schema(), RingOptions::with_capacity(60).limiter(limits)).unwrap();
    let limiter = ring.limiter().unwrap();
    (ring, limiter)
}

fn writer(ring: &Ring) -> Writer {
    ring.writer(WriterOptions::lanes(1)).unwrap()
}

fn try_append(writer: &mut Writer) -> Result<(), AppendError> {
    let schema = writer.schema().clone();
    let columns = StepColumns::of(&schema).with("obs", &[7_u8]).unwrap();
    writer.try_append(&columns.step(&[false], &[false]).unwrap()).map(drop)
}

/// Appends until the writer would wait, at most 40 times. Returns the count of inserts.
fn fill(writer: &mut Writer, limiter: &Limiter) -> u64 {
    let held = (0..40).find_map(|_| try_append(writer).err());
    assert!(held.is_none_or(|held| held == AppendError::WouldWait));
    limiter.counts().inserts
}

#[test]
fn writers_stop_at_the_ceiling_and_go_on_when_it_is_raised_or_removed() {
    let (ring, limiter) = ring(RateLimiter::min_size(50));
    let mut writer = writer(&ring);
    limiter.set_ceiling(Some(0)).unwrap();
    assert_eq!(fill(&mut writer, &limiter), 0, "the first row is no transition");
    assert_eq!(writer.rows_written(), 1);
    for (ceiling, inserts) in [(1, 1), (5, 5), (9, 9), (2, 9), (9, 9), (0, 9), (10, 10)] {
        limiter.set_ceiling(Some(ceiling)).unwrap();
        assert_eq!(fill(&mut writer, &limiter), inserts, "ceiling {ceiling}");
        let stats = ring.stats().limiter.unwrap();
        assert_eq!((stats.ceiling, stats.may_insert), (Some(ceiling), Some(0)));
    }
    limiter.set_ceiling(Some(12)).unwrap();
    try_append(&mut writer).unwrap();
    // A lower ceiling ends the bound that the writer has.
    limiter.set_ceiling(Some(3)).unwrap();
    assert_eq!((fill(&mut writer, &limiter), limiter.ceiling()), (11, Some(3)));
    limiter.set_ceiling(None).unwrap();
    assert_eq!((fill(&mut writer, &limiter), limiter.ceiling()), (51, None));
    assert_eq!(ring.stats().limiter.unwrap().may_insert, None);
}

#[test]
fn a_ceiling_stays_while_limits_change_and_rows_are_dropped() {
    let (ring, limiter) = ring(RateLimiter::queue(20));
    let mut writer = writer(&ring);
    limiter.set_ceiling(Some(8)).unwrap();
    assert_eq!(fill(&mut writer, &limiter), 8);
    for limits in [RateLimiter::min_size(3), RateLimiter::ratio(2.0, 5, 40.0)] {
        limiter.set(limits).unwrap();
        assert_eq!((fill(&mut writer, &limiter), limiter.ceiling()), (8, Some(8)));
    }
    ring.clear().unwrap();
    assert_eq!((fill(&mut writer, &limiter), limiter.ceiling()), (8, Some(8)));
    // Off, writers do not wait; on again, they do.
    limiter.set_enabled(false).unwrap();
    try_append(&mut writer).unwrap();
    limiter.set_enabled(true).unwrap();
    assert_eq!((fill(&mut writer, &limiter), limiter.ceiling()), (9, Some(8)));
    // The count begins anew, and the ceiling does not.
    limiter.reset_counts().unwrap();
    assert_eq!((fill(&mut writer, &limiter), limiter.ceiling()), (8, Some(8)));
}

#[test]
fn the_limits_hold_below_the_ceiling_and_draws_are_not_held() {
    let (ring, limiter) = ring(RateLimiter::queue(4));
    let mut writer = writer(&ring);
    limiter.set_ceiling(Some(6)).unwrap();
    assert_eq!(fill(&mut writer, &limiter), 4);
    let mut sampler = ring.sampler(SamplerOptions::seeded(1)).unwrap();
    sampler.sample(4).unwrap();
    assert_eq!(fill(&mut writer, &limiter), 6);
    sampler.sample(2).unwrap();
    sampler.set_timeout(Some(Duration::ZERO));
    assert!(sampler.sample(1).is_err());
    assert_eq!(fill(&mut writer, &limiter), 6);
}

#[test]
fn a_sampler_that_awaits_rows_lets_no_writer_pass_the_ceiling() {
    let (ring, limiter) = ring(RateLimiter::min_size(1));
    let mut writer = writer(&ring);
    limiter.set_ceiling(Some(3)).unwrap();
    fill(&mut writer, &limiter);
    let queue = SamplerOptions::seeded(1).selector(Selector::Table(TableOptions::consume("q")));
    let mut sampler = ring.sampler(queue).unwrap();
    sampler.set_timeout(Some(backcast_budget::WATCHDOG));
    thread::scope(|scope| {
        let drawn = scope.spawn(move || sampler.sample(5).map(|batch| batch.len()));
        until("a sampler that waits", || {
            ring.store().limiter().unwrap().sampler_mark(0).awaits_rows
        });
        assert_eq!(fill(&mut writer, &limiter), 3);
        limiter.set_ceiling(Some(9)).unwrap();
        assert_eq!(fill(&mut writer, &limiter), 9);
        assert_eq!(drawn.join().unwrap().unwrap(), 5);
    });
}

#[test]
fn a_writer_that_waits_says_that_the_ceiling_holds_it_and_goes_on_when_it_is_raised() {
    let (ring, limiter) = ring(RateLimiter::min_size(1));
    let mut held = writer(&ring);
    limiter.set_ceiling(Some(2)).unwrap();
    fill(&mut held, &limiter);
    let schema = schema();
    let columns = || StepColumns::of(&schema).with("obs", &[7_u8]).unwrap();
    held.set_timeout(Some(Duration::ZERO));
    let refused = held.append(&columns().step(&[false], &[false]).unwrap()).unwrap_err();
    let AppendError::Limited(LimitError::TimedOut(wait)) = &refused else { panic!("{refused}") };
    assert_eq!((wait.ceiling, wait.inserts, wait.wanted), (Some(2), 2, 1));
    let text = refused.to_string();
    assert!(text.contains("ceiling 2") && text.contains("set_ceiling"), "{text}");
    held.set_timeout(Some(backcast_budget::WATCHDOG));
    let waits = || ring.stats().limiter.unwrap().writers.waiting;
    for raise in [Some(3), None] {
        thread::scope(|scope| {
            let held = &mut held;
            let append =
                scope.spawn(|| held.append(&columns().step(&[false], &[false]).unwrap()).is_ok());
            until("a writer that waits", || waits() == 1);
            limiter.set_ceiling(raise).unwrap();
            assert!(append.join().unwrap());
        });
    }
    assert_eq!(limiter.counts().inserts, 4);
}

#[test]
fn without_a_sampler_writers_do_at_the_ceiling_what_the_limiter_says() {
    let limits = RateLimiter::min_size(1);
    let (ring, limiter) = ring(limits.no_learner(NoLearner::Error));
    let mut writer = writer(&ring);
    limiter.set_ceiling(Some(0)).unwrap();
    try_append(&mut writer).unwrap();
    let refused = try_append(&mut writer).unwrap_err();
    let AppendError::Limited(LimitError::NoLearner(wait)) = refused else { panic!("{refused}") };
    assert_eq!(wait.ceiling, Some(0));
    limiter.set(limits.no_learner(NoLearner::Pass)).unwrap();
    try_append(&mut writer).unwrap();
    let _sampler = ring.sampler(SamplerOptions::seeded(1)).unwrap();
    assert_eq!(fill(&mut writer, &limiter), 1);
}

#[test]
fn a_ceiling_stays_through_a_resize() {
    let dir = tempfile::tempdir().unwrap();
    let options = RingOptions::with_capacity(60).limiter(RateLimiter::min_size(1));
    let options = options.base(Base::at(dir.path()));
    let ring = Ring::create("resized", &schema(), options).unwrap();
    let limiter = ring.limiter().unwrap();
    let mut first = writer(&ring);
    limiter.set_ceiling(Some(4)).unwrap();
    assert_eq!(fill(&mut first, &limiter), 4);
    drop(first);
    let mut go_on = |_| ControlFlow::Continue(());
    ring.resize(4 * ring.capacity(), None, &mut go_on).unwrap();
    let again = Ring::attach_in(&Base::at(dir.path()), "resized").unwrap();
    assert_eq!(again.limiter().unwrap().ceiling(), Some(4));
    let mut next = writer(&again);
    assert_eq!(fill(&mut next, &limiter), 4);
}

/// Writers never pass the ceiling by more than one append each, while it is raised in small steps.
#[test]
fn several_writers_pass_a_ceiling_that_is_raised_by_at_most_an_append_each() {
    const WRITERS: u64 = 3;
    let options = RingOptions::with_capacity(600).lanes(3).limiter(RateLimiter::min_size(1));
    let done = std::sync::Arc::new(AtomicBool::new(false));
    let interrupt = Interrupt::when({
        let done = done.clone();
        move || done.load(SeqCst)
    });
    let ring = Ring::heap(&schema(), options).unwrap().interrupted_by(interrupt);
    let limiter = ring.limiter().unwrap();
    limiter.set_ceiling(Some(0)).unwrap();
    thread::scope(|scope| {
        for _ in 0..WRITERS {
            let mut writer = writer(&ring);
            scope.spawn(move || {
                let schema = writer.schema().clone();
                loop {
                    let columns = StepColumns::of(&schema).with("obs", &[7_u8]).unwrap();
                    match writer.append(&columns.step(&[false], &[false]).unwrap()) {
                        Ok(_) => {}
                        Err(AppendError::Limited(LimitError::Interrupted { .. })) => return,
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
        for step in 1..=backcast_budget::budget(2_000).max(100) {
            let ceiling = 5 * step;
            limiter.set_ceiling(Some(ceiling)).unwrap();
            let inserts = || limiter.counts().inserts;
            until("writers that reach the ceiling", || inserts() >= ceiling);
            // An append of one lane inserts one transition here.
            assert!(inserts() < ceiling + WRITERS, "{} of {ceiling}", inserts());
        }
        done.store(true, SeqCst);
    });
}
