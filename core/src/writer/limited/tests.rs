//! Appends wait for the rate limiter, and are counted in transitions.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use backcast_layout::WaitMark;

use super::*;
use crate::error::LimitedCall;
use crate::limiter::absent::NoLearner;
use crate::limiter::limits::RateLimiter;
use crate::{
    AutoresetMode, DType, Interrupt, Ring, RingOptions, SamplerOptions, Schema, WaitReport,
    WriterOptions,
};

fn ring(lanes: u32, limiter: RateLimiter) -> Ring {
    let schema = Schema::builder().column("obs", DType::U8, &[]).build().unwrap();
    let options = RingOptions::with_capacity(400).lanes(lanes).limiter(limiter);
    Ring::heap(&schema, options).unwrap()
}

fn writer(ring: &Ring, lanes: u32, mode: AutoresetMode) -> Writer {
    ring.writer(WriterOptions::lanes(lanes).autoreset(mode)).unwrap()
}

/// Appends a step without a wait.
fn append(writer: &mut Writer, ends: &[bool], next: Option<u8>) -> Result<(), AppendError> {
    let lanes = ends.len();
    let (obs, next) = (vec![7_u8; lanes], next.map(|next| vec![next; lanes]));
    let (columns, last) = ([&obs[..]], [&obs[..]]);
    let next = next.as_ref().map(|next| [&next[..]]);
    let finals = ends.contains(&true) && writer.mode != AutoresetMode::NextStep;
    let schema = writer.schema().clone();
    let step = Step {
        schema: &schema,
        columns: &columns,
        terminated: ends,
        truncated: &vec![false; lanes],
        next_obs: next.as_ref().map(|next| &next[..]),
        final_obs: finals.then_some(&last),
    };
    writer.try_append(step).map(drop)
}

/// Makes a step of one lane that ends nothing.
fn with_step<R>(ring: &Ring, work: impl FnOnce(&Step<'_>) -> R) -> R {
    work(&Step {
        schema: ring.schema(),
        columns: &[&[7_u8][..]],
        terminated: &[false],
        truncated: &[false],
        next_obs: None,
        final_obs: None,
    })
}

fn inserts(ring: &Ring) -> u64 {
    ring.limiter().unwrap().counts().inserts
}

#[test]
fn a_mark_of_a_killed_sampler_ends_with_the_next_holder_of_its_slot() {
    let ring = ring(1, RateLimiter::queue(1));
    let mut writer = writer(&ring, 1, AutoresetMode::Disabled);
    for _ in 0..2 {
        append(&mut writer, &[false], None).unwrap();
    }
    let is_held_back = |writer: &mut Writer| append(writer, &[false], None).is_err();
    assert!(is_held_back(&mut writer));
    // A sampler that is killed while it awaits rows leaves its mark.
    let mark = WaitMark { awaits_rows: true, ..WaitMark::default() };
    ring.store().limiter().unwrap().mark_sampler(0, mark);
    let _lease = ring.lease(0, 0..1).unwrap();
    assert!(is_held_back(&mut writer));
}

#[test]
fn inserts_are_the_transitions_that_can_be_drawn() {
    let open = RateLimiter::min_size(1);
    for (mode, lanes) in [
        (AutoresetMode::NextStep, 1),
        (AutoresetMode::NextStep, 3),
        (AutoresetMode::SameStep, 1),
        (AutoresetMode::SameStep, 3),
        (AutoresetMode::Disabled, 1),
    ] {
        let ring = ring(lanes, open);
        let mut dice = 1_u64;
        for round in 0..3 {
            let mut writer = writer(&ring, lanes, mode);
            for step in 0..20 {
                dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let ends: Vec<bool> =
                    (0..lanes).map(|lane| (dice >> (60 - lane)).trailing_zeros() >= 2).collect();
                let next = (round == 1).then_some(if step % 7 == 0 { 9 } else { 7 });
                let before = (writer.wanted_of(&ends), inserts(&ring));
                append(&mut writer, &ends, next).unwrap();
                assert_eq!(inserts(&ring) - before.1, before.0, "{mode} {lanes} {step}");
                if step % 9 == 8 {
                    writer.restart(&vec![true; lanes as usize]).unwrap();
                }
            }
            drop(writer);
            assert_eq!(inserts(&ring), ring.len(), "{mode} {lanes} {round}");
        }
    }
}

impl Writer {
    fn wanted_of(&self, ends: &[bool]) -> u64 {
        self.wanted(&Step {
            schema: self.schema(),
            columns: &[],
            terminated: ends,
            truncated: &vec![false; ends.len()],
            next_obs: None,
            final_obs: None,
        })
    }
}

#[test]
fn many_steps_at_once_and_reserved_rows_are_counted_and_held_back_alike() {
    let ring = ring(1, RateLimiter::queue(10)).interrupted_by(Interrupt::when(|| true));
    let mut writer = writer(&ring, 1, AutoresetMode::NextStep);
    let (obs, flags) = ([7_u8; 30], [false; 30]);
    let columns = [&obs[..]];
    let step = Step {
        schema: ring.schema(),
        columns: &columns,
        terminated: &flags,
        truncated: &flags,
        next_obs: None,
        final_obs: None,
    };
    let refused = writer.extend(step).unwrap_err();
    let AppendError::After { appended: 11, asked: 30, source } = refused else {
        panic!("{refused}");
    };
    assert!(matches!(*source, AppendError::Limited(LimitError::Interrupted { .. })));
    assert_eq!((inserts(&ring), ring.len()), (10, 10));
    let mut sampler = ring.sampler(SamplerOptions::seeded(1)).unwrap();
    sampler.sample(3).unwrap();
    for _ in 0..3 {
        let mut row = writer.reserve().unwrap();
        row.column("obs").unwrap().fill(3_u8);
        row.commit(false, false).unwrap();
    }
    assert_eq!((inserts(&ring), ring.len()), (13, 13));
    let refused = writer.reserve().unwrap_err();
    assert!(matches!(refused, AppendError::Limited(LimitError::Interrupted { .. })));
}

#[test]
fn a_writer_that_is_held_back_says_for_what_it_waits() {
    let ring = ring(1, RateLimiter::ratio(2.0, 5, 4.0));
    let mut writer = writer(&ring, 1, AutoresetMode::NextStep);
    // The first row begins an episode: 5 more transitions are free, and 2 are in the band.
    for _ in 0..8 {
        append(&mut writer, &[false], None).unwrap();
    }
    assert_eq!(writer.appended().len(), 1);
    assert_eq!(append(&mut writer, &[false], None), Err(AppendError::WouldWait));
    assert!(writer.appended().is_empty());
    writer.set_timeout(Some(Duration::ZERO));
    let refused = with_step(&ring, |step| writer.append(step).map(drop)).unwrap_err();
    let AppendError::Limited(LimitError::TimedOut(wait)) = refused else { panic!("{refused}") };
    assert_eq!(
        (wait.call, wait.wanted, wait.inserts, wait.samples, wait.needed),
        (LimitedCall::Append { lane: 0 }, 1, 7, 0, 2)
    );
    assert!(!wait.has_peers && wait.peers.is_empty());
    let stats = ring.stats().limiter.unwrap();
    assert_eq!((stats.may_insert, stats.may_sample), (Some(0), Some(8)));
    assert_eq!((stats.writers.waits, stats.writers.waiting, stats.has_sampler), (0, 0, false));
    assert_eq!(ring.len(), 7);
}

#[test]
fn a_wait_lasts_as_long_as_the_options_of_the_writer_say() {
    // The interrupt ends a wait that has time left.
    let ring = ring(1, RateLimiter::queue(1)).interrupted_by(Interrupt::when(|| true));
    for (options, times_out) in [
        (WriterOptions::lanes(1), false),
        (WriterOptions::lanes(1).timeout(Duration::from_secs(60)), false),
        (WriterOptions::lanes(1).timeout(Duration::ZERO), true),
    ] {
        let mut writer = ring.writer(options).unwrap();
        assert!((0..9).any(|_| append(&mut writer, &[false], None).is_err()));
        let ended = with_step(&ring, |step| writer.append(step).map(drop)).unwrap_err();
        let AppendError::Limited(ended) = ended else { panic!("{ended}") };
        assert_eq!(matches!(ended, LimitError::TimedOut(_)), times_out, "{ended}");
        assert_eq!(matches!(ended, LimitError::Interrupted { .. }), !times_out, "{ended}");
    }
}

#[test]
fn a_long_wait_is_reported_once() {
    let ring = ring(1, RateLimiter::queue(1));
    let mut writer = writer(&ring, 1, AutoresetMode::NextStep);
    append(&mut writer, &[false], None).unwrap();
    append(&mut writer, &[false], None).unwrap();
    let reports = RefCell::new(Vec::new());
    let looks = Cell::new(0);
    let described = RefCell::new(String::new());
    let ends = |report: Option<WaitReport<'_>>| {
        if looks.get() > 0 {
            let stats = ring.stats().limiter.unwrap();
            let waiter = stats.waiters[0];
            assert_eq!((stats.writers.waiting, waiter.lane), (1, Some(0)));
            assert_eq!((waiter.wanted, waiter.needed), (1, 1));
            *described.borrow_mut() =
                stats.describe(&waiter, waiter.since_unix_ms, Vec::new()).to_string();
        }
        reports.borrow_mut().extend(report.map(|report| report.text().to_owned()));
        looks.set(looks.get() + 1);
        looks.get() == 3
    };
    let wait = Some(Wait::ended_by(None, &ends).report_after(Duration::ZERO));
    let (unlinked, drawable) = (|_: Option<&mut Wait<'_>>| false, || ring.len());
    let mut caller = Caller { wait, unlinked: &unlinked, drawable: &drawable };
    let waited = writer.gate.as_mut().unwrap().pass(1, &mut caller);
    assert!(matches!(waited, Err(LimitError::Interrupted { .. })));
    let reports = reports.into_inner();
    assert_eq!(reports.len(), 1);
    assert!(reports[0].contains("lane 0"), "{}", reports[0]);
    // Another process sees the wait in the same words.
    let described = described.into_inner();
    let words = described.split_once(" ms for ").unwrap().1;
    assert!(reports[0].contains(words), "{described}, {}", reports[0]);
    let stats = ring.stats().limiter.unwrap();
    assert_eq!((stats.waiters.len(), stats.writers.waits), (0, 1));
    assert!(stats.writers.waited > Duration::ZERO);
}

#[test]
fn the_interrupt_of_the_ring_ends_a_wait_and_nothing_is_appended() {
    let asked = Arc::new(AtomicU32::new(0));
    let interrupt = Interrupt::when({
        let asked = Arc::clone(&asked);
        move || asked.fetch_add(1, Relaxed) == 1
    });
    let ring = ring(1, RateLimiter::queue(1)).interrupted_by(interrupt);
    let mut writer = writer(&ring, 1, AutoresetMode::NextStep);
    append(&mut writer, &[false], None).unwrap();
    append(&mut writer, &[false], None).unwrap();
    assert_eq!(append(&mut writer, &[false], None), Err(AppendError::WouldWait));
    assert_eq!(asked.load(Relaxed), 0, "asked only by a call that waits");
    let ended = with_step(&ring, |step| writer.append(step).map(drop)).unwrap_err();
    assert!(matches!(ended, AppendError::Limited(LimitError::Interrupted { .. })), "{ended}");
    assert_eq!((asked.load(Relaxed), inserts(&ring), writer.rows_written()), (2, 1, 2));
}

#[test]
fn without_a_sampler_writers_do_what_the_limiter_says() {
    let ring = ring(1, RateLimiter::queue(1).no_learner(NoLearner::Pass));
    let mut writer = writer(&ring, 1, AutoresetMode::NextStep);
    for _ in 0..5 {
        append(&mut writer, &[false], None).unwrap();
    }
    let limiter = ring.limiter().unwrap();
    limiter.set(RateLimiter::queue(1).no_learner(NoLearner::Error)).unwrap();
    let refused = append(&mut writer, &[false], None).unwrap_err();
    assert!(matches!(refused, AppendError::Limited(LimitError::NoLearner(_))), "{refused}");
    let mut sampler = ring.sampler(SamplerOptions::seeded(1)).unwrap();
    let waits = append(&mut writer, &[false], None).unwrap_err();
    assert_eq!(waits, AppendError::WouldWait);
    sampler.sample(4).unwrap();
    append(&mut writer, &[false], None).unwrap();
}

#[test]
fn an_append_is_admitted_whole_when_one_more_transition_is_allowed() {
    let ring = ring(8, RateLimiter::queue(5));
    let mut writer = writer(&ring, 8, AutoresetMode::SameStep);
    // The first rows begin episodes.
    for inserts_after in [0, 8] {
        append(&mut writer, &[false; 8], None).unwrap();
        assert_eq!(inserts(&ring), inserts_after);
    }
    let refused = append(&mut writer, &[false; 8], None).unwrap_err();
    assert_eq!(refused, AppendError::WouldWait);
    let mut sampler = ring.sampler(SamplerOptions::seeded(1)).unwrap();
    sampler.sample(3).unwrap();
    assert!(append(&mut writer, &[false; 8], None).is_err(), "5 are ahead");
    sampler.sample(1).unwrap();
    // An append that ends episodes inserts two transitions of each lane.
    append(&mut writer, &[true; 8], None).unwrap();
    assert_eq!((inserts(&ring), ring.len()), (24, 24));
}

#[test]
fn changed_limits_are_in_force_at_the_next_append() {
    let ring = ring(1, RateLimiter::queue(100));
    let mut writer = writer(&ring, 1, AutoresetMode::NextStep);
    let limiter = ring.limiter().unwrap();
    for _ in 0..4 {
        append(&mut writer, &[false], None).unwrap();
    }
    assert!(writer.room() > 90);
    limiter.set(RateLimiter::queue(2)).unwrap();
    assert_eq!(writer.room(), 0);
    assert!(append(&mut writer, &[false], None).is_err());
    limiter.set_enabled(false).unwrap();
    for _ in 0..4 {
        append(&mut writer, &[false], None).unwrap();
    }
    limiter.set_enabled(true).unwrap();
    assert!(append(&mut writer, &[false], None).is_err());
    assert_eq!((inserts(&ring), limiter.limits().unwrap()), (7, RateLimiter::queue(2)));
    // Make many changes, so that the generation wraps around.
    for _ in 0..1 << 15 {
        limiter.set(RateLimiter::queue(2)).unwrap();
    }
    assert!(append(&mut writer, &[false], None).is_err());
    assert_eq!(inserts(&ring), 7);
}
