//! Draws from rings with a rate limiter: waits, and counts of items.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::*;
use crate::error::LimitedCall;
use crate::limiter::limits::{LimiterCounts, RateLimiter};
use crate::sampler::batch::BatchBuffers;
use crate::{
    AutoresetMode, BatchesOptions, Boundary, DType, PriorityOptions, Ring, RingOptions,
    SamplerOptions, Schema, Selector, StepColumns, TableOptions, Writer, WriterOptions,
};

fn ring(limiter: RateLimiter) -> Ring {
    let schema = Schema::builder().column("obs", DType::U8, &[]).build().unwrap();
    Ring::heap(&schema, RingOptions::with_capacity(200).limiter(limiter)).unwrap()
}

/// Appends `transitions` transitions of one episode.
fn fill(ring: &Ring, transitions: u64) {
    let mut writer = ring.writer(WriterOptions::lanes(1)).unwrap();
    for _ in 0..=transitions {
        let columns = StepColumns::of(ring.schema()).with("obs", &[7_u8]).unwrap();
        writer.append(&columns.step(&[false], &[false]).unwrap()).unwrap();
    }
}

/// Appends a row, unless that needs a wait. Returns whether it was appended.
fn try_append(writer: &mut Writer) -> bool {
    let schema = writer.schema().clone();
    let columns = StepColumns::of(&schema).with("obs", &[7_u8]).unwrap();
    writer.try_append(&columns.step(&[false], &[false]).unwrap()).is_ok()
}

fn consumes() -> SamplerOptions {
    let table = Selector::Table(TableOptions::consume("queue"));
    SamplerOptions::seeded(1).selector(table)
}

fn counts(ring: &Ring) -> LimiterCounts {
    ring.limiter().unwrap().counts()
}

#[test]
fn a_sampler_that_is_held_back_says_for_what_it_waits() {
    let ring = ring(RateLimiter::ratio(4.0, 50, 40.0));
    let mut sampler = ring.sampler(SamplerOptions::seeded(1)).unwrap();
    sampler.set_timeout(Some(Duration::ZERO));
    fill(&ring, 49);
    let state = sampler.state();
    let refused = sampler.sample(8).unwrap_err();
    let SampleError::Limited(LimitError::TimedOut(wait)) = refused else { panic!("{refused}") };
    assert_eq!(
        (wait.call, wait.wanted, wait.inserts, wait.samples, wait.needed),
        (LimitedCall::Draw, 8, 49, 0, 50)
    );
    assert_eq!((sampler.state(), counts(&ring).samples), (state, 0));
    fill(&ring, 1);
    for drawn in 1..=5 {
        sampler.sample(8).unwrap();
        assert_eq!(counts(&ring).samples, 8 * drawn);
    }
    let SampleError::Limited(LimitError::TimedOut(wait)) = sampler.sample(8).unwrap_err() else {
        panic!("the band is used up");
    };
    assert_eq!((wait.samples, wait.needed), (40, 52));
    let counted = ring.stats().limiter.unwrap();
    assert_eq!(
        (counted.samplers.waits, counted.samplers.waiting, counted.has_sampler),
        (0, 0, true)
    );
    drop(sampler);
    assert!(!ring.stats().limiter.unwrap().has_sampler);
}

#[test]
fn a_batch_beyond_the_error_band_is_counted_item_by_item() {
    let ring = ring(RateLimiter::ratio(4.0, 50, 40.0));
    fill(&ring, 50);
    let mut sampler = ring.sampler(SamplerOptions::seeded(1)).unwrap();
    std::thread::scope(|scope| {
        let actor = scope.spawn(|| {
            let mut writer =
                ring.writer(WriterOptions::lanes(1).timeout(Duration::from_secs(60))).unwrap();
            for _ in 0..=50 {
                let columns = StepColumns::of(ring.schema()).with("obs", &[7_u8]).unwrap();
                writer.append(&columns.step(&[false], &[false]).unwrap()).unwrap();
            }
        });
        sampler.set_timeout(Some(Duration::from_secs(60)));
        sampler.sample(200).unwrap();
        actor.join().unwrap();
    });
    assert_eq!((counts(&ring).inserts, counts(&ring).samples), (100, 200));
    // Items that a wait has counted are shown, and given back when it ends.
    sampler.set_timeout(Some(Duration::from_millis(1)));
    let refused = sampler.sample(81).unwrap_err();
    let SampleError::Limited(LimitError::TimedOut(wait)) = refused else { panic!("{refused}") };
    assert_eq!((wait.wanted, wait.held, wait.samples, wait.needed), (81, 40, 240, 111));
    let text = wait.to_string();
    for value in ["81", "40", "240", "111"] {
        assert!(text.contains(value), "{text} lacks {value}");
    }
    assert_eq!(counts(&ring).samples, 200);
    sampler.sample(40).unwrap();
}

#[test]
fn a_draw_of_a_ring_that_was_emptied_waits() {
    let ring = ring(RateLimiter::ratio(1.0, 20, 30.0));
    let mut sampler = ring.sampler(SamplerOptions::seeded(1)).unwrap();
    let mut writer = ring.writer(WriterOptions::lanes(1)).unwrap();
    let mut append = || {
        let columns = StepColumns::of(ring.schema()).with("obs", &[7_u8]).unwrap();
        writer.try_append(&columns.step(&[false], &[false]).unwrap()).map(drop)
    };
    // Lap the ring, and go on until the writer is held back.
    for t in 0..1_000 {
        append().unwrap();
        if t > 30 {
            sampler.sample(1).unwrap();
        }
    }
    assert!((0..1_000).any(|_| append().is_err()), "the writer is never held back");
    for _ in 0..3 {
        ring.clear().unwrap();
        sampler.set_timeout(Some(Duration::ZERO));
        let refused = sampler.sample(4).unwrap_err();
        assert!(matches!(refused, SampleError::Limited(LimitError::TimedOut(_))), "{refused}");
        for _ in 0..20 {
            append().unwrap();
            assert!(sampler.sample(4).is_err(), "of {} transitions", ring.len());
        }
        append().unwrap();
        assert_eq!(ring.len(), 20);
        sampler.sample(4).unwrap();
    }
}

/// A choice that lets draws through without a writer ends them on an empty ring.
#[test]
fn a_draw_of_an_emptied_ring_waits_where_a_writer_may_come() {
    let limiter = RateLimiter::min_size(1);
    for (limiter, has_writer, waits) in [
        (limiter.no_writer(NoWriter::Wait), true, true),
        (limiter.no_writer(NoWriter::Wait), false, true),
        (limiter.no_writer(NoWriter::Pass), true, true),
        (limiter.enabled(false), true, false),
        (limiter.enabled(false), false, false),
        (limiter.enabled(false).no_writer(NoWriter::Pass), true, false),
    ] {
        let ring = ring(limiter);
        let mut writer = ring.writer(WriterOptions::lanes(1)).unwrap();
        assert!((0..6).all(|_| try_append(&mut writer)));
        let mut sampler = ring.sampler(SamplerOptions::seeded(1)).unwrap();
        sampler.sample(4).unwrap();
        let _writer = has_writer.then_some(writer);
        ring.clear().unwrap();
        sampler.set_timeout(Some(Duration::ZERO));
        let case = format!("{limiter:?}, a writer: {has_writer}");
        let refused = sampler.sample(4).unwrap_err();
        let waited = matches!(refused, SampleError::Limited(LimitError::TimedOut(_)));
        let is_empty = matches!(refused, SampleError::Empty { .. });
        assert_eq!((waited, is_empty), (waits, !waits), "{case}: {refused}");
        assert_eq!(sampler.gate.holds_empty_ring(&ring), waits, "{case}");
    }
}

/// The ring holds at most 199 transitions. The first one inserted after the clear has lost its row.
#[test]
fn every_draw_of_a_filled_ring_is_allowed_though_a_counted_transition_was_dropped() {
    let ring = ring(RateLimiter::min_size(199));
    let mut writer = ring.writer(WriterOptions::lanes(1)).unwrap();
    assert!((0..5).all(|_| try_append(&mut writer)));
    ring.clear().unwrap();
    assert!((0..198).all(|_| try_append(&mut writer)));
    let mut sampler = ring.sampler(SamplerOptions::seeded(1)).unwrap();
    sampler.set_timeout(Some(Duration::ZERO));
    let refused = sampler.sample(4).unwrap_err();
    assert!(matches!(refused, SampleError::Limited(LimitError::TimedOut(_))), "{refused}");
    assert!(try_append(&mut writer));
    assert_eq!((counts(&ring).inserts, counts(&ring).deletes, ring.len()), (203, 4, 198));
    for _ in 0..3 {
        sampler.sample(4).unwrap();
    }
}

#[test]
fn an_idle_sampler_is_alive_from_its_first_draw_on() {
    let ring = ring(RateLimiter::min_size(1));
    fill(&ring, 5);
    let has_sampler = || ring.stats().limiter.unwrap().has_sampler;
    let mut idle = ring.idle_sampler(SamplerOptions::seeded(1)).unwrap();
    idle.gather(&[0, 3]).unwrap();
    assert!(!has_sampler(), "a gather is no draw");
    idle.sample(4).unwrap();
    assert!(has_sampler());
    drop(idle);
    assert!(!has_sampler());
}

/// Rows that begin an episode insert no transition and overwrite those of others.
#[test]
fn a_draw_waits_once_rows_without_transitions_have_overwritten_too_many() {
    let ring = ring(RateLimiter::min_size(100));
    fill(&ring, 150);
    let mut sampler = ring.sampler(SamplerOptions::seeded(1)).unwrap();
    sampler.set_timeout(Some(Duration::ZERO));
    for rows in 0..120 {
        assert_eq!(sampler.sample(4).is_ok(), ring.len() >= 100, "after {rows} rows");
        fill(&ring, 0);
    }
    assert!(ring.len() < 100 && counts(&ring).inserts == 150);
    assert!(matches!(sampler.sample(4), Err(SampleError::Limited(LimitError::TimedOut(_)))));
}

#[test]
fn a_refused_draw_gives_all_items_back_though_the_ratio_grew_since_a_clear() {
    let limits = |ratio| RateLimiter::band(ratio, 1, 0.0, 100.0);
    let ring = ring(limits(1.0));
    fill(&ring, 20);
    ring.clear().unwrap();
    ring.limiter().unwrap().set(limits(4.0)).unwrap();
    fill(&ring, 2);
    assert_eq!((counts(&ring).inserts, counts(&ring).samples), (22, 20));
    let mut sampler = ring.sampler(SamplerOptions::seeded(1)).unwrap();
    sampler.set_timeout(Some(Duration::ZERO));
    let refused = sampler.sample(100).unwrap_err();
    let SampleError::Limited(LimitError::TimedOut(wait)) = refused else { panic!("{refused}") };
    assert_eq!((wait.held, counts(&ring).samples), (68, 20));
}

#[test]
fn writers_go_on_only_while_a_draw_whose_batch_is_counted_awaits_rows() {
    // With 4 transitions 7 items may be drawn, and the next transition waits for all of them.
    let limits = RateLimiter::band(2.0, 1, 1.0, 3.0);
    let ring = ring(limits.enabled(false));
    let mut writer = ring.writer(WriterOptions::lanes(1)).unwrap();
    assert!((0..5).all(|_| try_append(&mut writer)));
    ring.limiter().unwrap().set(limits).unwrap();
    assert!(!try_append(&mut writer), "no item is drawn yet");
    let writer = Arc::new(Mutex::new(writer));
    // The draw asks for its interrupt once it waits: that appends the two rows that it lacks.
    let appends = Arc::clone(&writer);
    let interrupt = Interrupt::when(move || {
        let mut writer = appends.lock().unwrap();
        !(try_append(&mut writer) && try_append(&mut writer))
    });
    let mut sampler = ring.clone().interrupted_by(interrupt).sampler(consumes()).unwrap();
    assert_eq!(sampler.sample(6).unwrap().index(), [0, 1, 2, 3, 4, 5]);
    assert_eq!((counts(&ring).inserts, counts(&ring).samples), (6, 6));
    assert!(!try_append(&mut writer.lock().unwrap()), "the draw has its rows");
}

#[test]
fn a_draw_that_waits_for_the_limiter_and_then_for_rows_is_reported_once() {
    let ring = ring(RateLimiter::min_size(5));
    let writer = Mutex::new(ring.writer(WriterOptions::lanes(1)).unwrap());
    let seen = Arc::new(Mutex::new((0, 0)));
    let counted = Arc::clone(&seen);
    // Each check of a wait appends six rows: the first check lets the limiter pass, a later one
    // fills the batch.
    let interrupt = Interrupt::told(move |report| {
        let mut seen = counted.lock().unwrap();
        seen.0 += 1;
        seen.1 += u32::from(matches!(report, Some(WaitReport::Long(_))));
        let mut writer = writer.lock().unwrap();
        !(0..6).all(|_| try_append(&mut writer))
    });
    let mut sampler = ring.clone().interrupted_by(interrupt).sampler(consumes()).unwrap();
    let plan = sampler.plan(8).unwrap();
    let mut batch = sampler.blank(8).unwrap();
    let long_ago = Instant::now().checked_sub(Duration::from_secs(60)).unwrap();
    let since = Some(WaitStart::at(long_ago));
    sampler.sample_into_since(&plan, &mut batch.buffers(), since).unwrap();
    let (checks, reports) = *seen.lock().unwrap();
    assert!(checks >= 2, "it waits for the limiter, and then for rows");
    assert_eq!(reports, 1);
}

#[test]
fn no_draw_of_a_ring_that_is_cleared_again_and_again_finds_it_empty() {
    let priority = || PriorityOptions::alpha(0.6);
    let selectors = [
        Selector::Uniform,
        Selector::Priority(priority()),
        Selector::MaxPriority(priority()),
        Selector::Recency { half_life: 9.0 },
        Selector::LaneWeights(vec![1.0]),
        Selector::LaneStrata,
        Selector::Lifo,
        Selector::Table(TableOptions::epoch("epoch")),
        Selector::Table(TableOptions::consume("queue")),
    ];
    for selector in selectors {
        let ring = ring(RateLimiter::min_size(1));
        let mut writer = ring.writer(WriterOptions::lanes(1)).unwrap();
        let mut append = || {
            let columns = StepColumns::of(ring.schema()).with("obs", &[7_u8]).unwrap();
            writer.append(&columns.step(&[false], &[false]).unwrap()).unwrap();
        };
        let name = selector.to_string();
        let mut sampler = ring.sampler(SamplerOptions::seeded(1).selector(selector)).unwrap();
        sampler.set_timeout(Some(Duration::from_secs(60)));
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let learner = scope.spawn(|| {
                while !stop.load(Relaxed) {
                    sampler.sample(1).unwrap_or_else(|error| panic!("{name}: {error}"));
                }
            });
            for _ in 0..backcast_budget::budget(5_000) {
                ring.clear().unwrap();
                append();
                append();
            }
            // The learner waits if it has drawn all that is left. Without the clear, rows would be
            // overwritten faster than a learner that is not run can copy them.
            while !learner.is_finished() {
                stop.store(true, Relaxed);
                ring.clear().unwrap();
                append();
                append();
            }
            learner.join().unwrap();
        });
    }
}

#[test]
fn items_of_transitions_that_were_dropped_meanwhile_are_not_given_back() {
    let room = |ring: &Ring| {
        let mut writer = ring.writer(WriterOptions::lanes(1)).unwrap();
        let mut append = || {
            let columns = StepColumns::of(ring.schema()).with("obs", &[7_u8]).unwrap();
            writer.try_append(&columns.step(&[false], &[false]).unwrap()).is_ok()
        };
        (0..1_000).take_while(|_| append()).count()
    };
    let untouched = ring(RateLimiter::queue(20));
    fill(&untouched, 20);
    untouched.clear().unwrap();
    let expected = room(&untouched);
    // Batches that were drawn ahead.
    let ahead = ring(RateLimiter::queue(20));
    fill(&ahead, 20);
    let sampler = ahead.sampler(SamplerOptions::seeded(1)).unwrap();
    let mut batches = sampler.batches(4, BatchesOptions::prefetch(3)).unwrap();
    batches.next().unwrap().unwrap();
    ahead.clear().unwrap();
    drop(batches);
    assert_eq!(room(&ahead), expected, "{:?}", counts(&ahead));
    // A batch of which a part is counted.
    let stop = Arc::new(AtomicBool::new(false));
    let stops = Arc::clone(&stop);
    let interrupt = Interrupt::when(move || stops.load(Relaxed));
    let waits = ring(RateLimiter::queue(20)).interrupted_by(interrupt);
    fill(&waits, 20);
    std::thread::scope(|scope| {
        let mut sampler = waits.sampler(SamplerOptions::seeded(1)).unwrap();
        let draw = scope.spawn(move || sampler.sample(30).unwrap_err());
        let began = Instant::now();
        while counts(&waits).samples < 20 {
            assert!(began.elapsed() < Duration::from_secs(60), "it counts what is allowed");
            std::thread::yield_now();
        }
        waits.clear().unwrap();
        stop.store(true, Relaxed);
        let refused = draw.join().unwrap();
        assert!(
            matches!(refused, SampleError::Limited(LimitError::Interrupted { .. })),
            "{refused}"
        );
    });
    stop.store(false, Relaxed);
    assert_eq!(room(&waits), expected, "{:?}", counts(&waits));
}

#[test]
fn a_draw_of_an_empty_ring_ends_where_the_limiter_passes_without_a_writer() {
    let ring = ring(RateLimiter::min_size(1).no_writer(NoWriter::Pass));
    fill(&ring, 5);
    let mut sampler = ring.sampler(SamplerOptions::seeded(1)).unwrap();
    sampler.sample(4).unwrap();
    ring.clear().unwrap();
    // A call that does not wait says so once no writer has lived for 100 ms.
    for timeout in [Some(Duration::ZERO), None] {
        sampler.set_timeout(timeout);
        let began = Instant::now();
        let refused = loop {
            match sampler.sample(4).unwrap_err() {
                SampleError::Limited(LimitError::TimedOut(_)) if timeout.is_some() => {
                    assert!(began.elapsed() < Duration::from_secs(60));
                }
                refused => break refused,
            }
        };
        assert!(matches!(refused, SampleError::Empty { .. }), "{refused}");
    }
    assert_eq!(counts(&ring).samples, 4, "what it counted is given back");
}

#[test]
fn a_wait_for_rows_ends_without_a_writer_if_the_limiter_waits_for_none() {
    for choice in [NoWriter::Pass, NoWriter::Error] {
        let ring = ring(RateLimiter::min_size(1).no_writer(choice));
        fill(&ring, 10);
        let is_right = |refused: &SampleError| match refused {
            SampleError::NoWriter { wanted, available, choice: told, .. } => {
                (*wanted, *available, *told) == (6, 0, choice.as_str())
            }
            _ => false,
        };
        let mut sampler = ring.sampler(consumes()).unwrap();
        sampler.sample(8).unwrap();
        // A call that does not wait says so once no writer has lived for 100 ms.
        for timeout in [Some(Duration::ZERO), None] {
            sampler.set_timeout(timeout);
            let began = Instant::now();
            let refused = loop {
                match sampler.sample(8).unwrap_err() {
                    SampleError::TimedOut { .. } if timeout.is_some() => {
                        assert!(began.elapsed() < Duration::from_secs(60));
                    }
                    refused => break refused,
                }
            };
            assert!(is_right(&refused), "{timeout:?}: {refused}");
        }
        for prefetch in [0, 2] {
            let mut batches = sampler.batches(8, BatchesOptions::prefetch(prefetch)).unwrap();
            let refused = batches.next().unwrap().unwrap_err();
            assert!(is_right(&refused), "{prefetch} ahead: {refused}");
            sampler = batches.into_sampler();
        }
        assert_eq!(counts(&ring).samples, 8);
        // A writer that lives is waited for.
        let _writer = ring.writer(WriterOptions::lanes(1)).unwrap();
        sampler.set_timeout(Some(Duration::from_millis(150)));
        let refused = sampler.sample(8).unwrap_err();
        assert!(matches!(refused, SampleError::TimedOut { .. }), "{refused}");
    }
}

#[test]
fn a_sampler_that_consumes_rows_of_a_limited_ring_needs_a_reader_slot() {
    let schema = Schema::builder().column("obs", DType::U8, &[]).build().unwrap();
    for (is_limited, refuses) in [(false, false), (true, true)] {
        let options = RingOptions::with_capacity(200).reader_slots(1);
        let options = if is_limited { options.limiter(RateLimiter::queue(9)) } else { options };
        let ring = Ring::heap(&schema, options).unwrap();
        let _first = ring.sampler(SamplerOptions::seeded(1)).unwrap();
        ring.sampler(SamplerOptions::seeded(1)).unwrap();
        let refused = ring.sampler(consumes()).err();
        let is_refused = matches!(refused, Some(SampleError::NoSlot { slots: 1 }));
        assert_eq!((is_refused, refused.is_some()), (refuses, refuses));
    }
}

#[test]
fn a_draw_that_fails_gives_back_what_it_took() {
    let ring = ring(RateLimiter::min_size(1));
    fill(&ring, 5);
    let options = SamplerOptions::seeded(1).history(9).boundary(Boundary::Reject);
    let mut sampler = ring.sampler(options).unwrap();
    let refused = sampler.sample(4).unwrap_err();
    assert!(matches!(refused, SampleError::NoWindow { .. }), "{refused}");
    assert_eq!(counts(&ring).samples, 0);
    // Named rows do not count as drawn.
    let mut sampler = ring.sampler(SamplerOptions::seeded(1)).unwrap();
    let index = sampler.sample(4).unwrap().index();
    sampler.gather(&index).unwrap();
    assert_eq!(counts(&ring).samples, 4);
}

#[test]
fn a_batch_is_counted_once_if_a_transform_panics_or_it_is_taken_back() {
    let ring = ring(RateLimiter::min_size(1));
    fill(&ring, 50);
    let mut plain = ring.sampler(SamplerOptions::seeded(1)).unwrap();
    let expected = plain.sample(8).unwrap().index();
    let before = counts(&ring).samples;
    let mut fails = true;
    let sampler = ring.sampler(SamplerOptions::seeded(1)).unwrap();
    let mut sampler = sampler.transform(move |_| assert!(!std::mem::take(&mut fails)));
    let draw = std::panic::AssertUnwindSafe(|| sampler.sample(8).map(|_| ()));
    assert!(std::panic::catch_unwind(draw).is_err());
    assert_eq!((counts(&ring).samples - before, sampler.next_batch()), (0, 0));
    for _ in 0..2 {
        assert!(!sampler.take_back(0), "it is not drawn");
        assert_eq!(sampler.sample(8).unwrap().index(), expected);
        assert_eq!((counts(&ring).samples - before, sampler.next_batch()), (8, 1));
        assert!(!sampler.take_back(1) && sampler.take_back(0) && !sampler.take_back(0));
        assert_eq!((counts(&ring).samples - before, sampler.next_batch()), (0, 0));
    }
}

#[test]
fn batches_that_were_drawn_ahead_and_not_returned_are_given_back() {
    let ring = ring(RateLimiter::min_size(1));
    fill(&ring, 50);
    let sampler = ring.sampler(SamplerOptions::seeded(1)).unwrap();
    let mut batches = sampler.batches(8, BatchesOptions::prefetch(4)).unwrap();
    for _ in 0..3 {
        batches.next().unwrap().unwrap();
    }
    let mut sampler = batches.into_sampler();
    assert_eq!(counts(&ring).samples, 24);
    sampler.sample(8).unwrap();
    assert_eq!(counts(&ring).samples, 32);
}

#[test]
fn an_iterator_that_waits_is_stopped_and_times_out() {
    let ring = ring(RateLimiter::min_size(10));
    for prefetch in [0, 2] {
        let mut sampler = ring.sampler(SamplerOptions::seeded(1)).unwrap();
        sampler.set_timeout(Some(Duration::from_millis(30)));
        let mut batches = sampler.batches(8, BatchesOptions::prefetch(prefetch)).unwrap();
        let refused = batches.next().unwrap().unwrap_err();
        let SampleError::Limited(LimitError::TimedOut(wait)) = refused else {
            panic!("{refused}");
        };
        assert!(wait.waited_ms >= 30);
        let mut sampler = batches.into_sampler();
        sampler.set_timeout(None);
        let mut batches = sampler.batches(8, BatchesOptions::prefetch(prefetch)).unwrap();
        assert!(batches.next_within(Duration::from_millis(1)).is_pending());
        assert!(batches.next_within(Duration::from_millis(1)).is_pending());
        drop(batches);
    }
    assert_eq!(counts(&ring).samples, 0);
}

#[test]
fn the_interrupt_of_the_ring_ends_a_call_of_an_iterator_that_waits() {
    for prefetch in [0, 2] {
        let stop = Arc::new(AtomicBool::new(true));
        let stops = Arc::clone(&stop);
        let ring = ring(RateLimiter::min_size(10))
            .interrupted_by(Interrupt::when(move || stops.load(Relaxed)));
        let sampler = ring.sampler(SamplerOptions::seeded(1)).unwrap();
        let mut batches = sampler.batches(8, BatchesOptions::prefetch(prefetch)).unwrap();
        let ended = batches.next().unwrap().unwrap_err();
        let is_interrupted = matches!(ended, SampleError::Limited(LimitError::Interrupted { .. }));
        assert!(is_interrupted, "{prefetch} ahead: {ended}");
        assert_eq!(counts(&ring).samples, 0);
        stop.store(false, Relaxed);
        fill(&ring, 10);
        batches.next().unwrap().unwrap();
    }
}

#[test]
fn rows_that_do_not_suffice_never_begin_the_timeout_of_a_draw_anew() {
    let schema = Schema::builder().column("obs", DType::U8, &[]).build().unwrap();
    for limiter in [None, Some(RateLimiter::min_size(1))] {
        let options = RingOptions::with_capacity(200);
        let options = limiter.map_or(options.clone(), |limiter| options.limiter(limiter));
        let ring = Ring::heap(&schema, options).unwrap();
        let options = WriterOptions::lanes(1).autoreset(AutoresetMode::NextStep);
        let mut writer = ring.writer(options).unwrap();
        let end = |writer: &mut Writer| {
            let schema = writer.schema().clone();
            // An episode of one transition has no window of three.
            for ends in [true, false] {
                let columns = StepColumns::of(&schema).with("obs", &[7_u8]).unwrap();
                writer.append(&columns.step(&[ends], &[false]).unwrap()).unwrap();
            }
        };
        end(&mut writer);
        let (writer, since) = (Mutex::new(writer), Instant::now());
        // Every check of the wait finds new rows. A wait that does not time out is ended.
        let interrupt = Interrupt::when(move || {
            end(&mut writer.lock().unwrap());
            since.elapsed() > backcast_budget::WATCHDOG / 2
        });
        let options = consumes().history(3).boundary(Boundary::Reject);
        let mut sampler = ring.interrupted_by(interrupt).sampler(options).unwrap();
        sampler.set_timeout(Some(Duration::from_millis(150)));
        let ended = sampler.sample(1).unwrap_err();
        assert!(matches!(ended, SampleError::TimedOut { .. }), "{ended}");
    }
}
