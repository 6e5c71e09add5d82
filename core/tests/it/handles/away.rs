//! The end of rings: unlinked, removed, collected, or dropped by their last holder.

use std::fs::{self, DirBuilder};
use std::ops::ControlFlow;
use std::os::unix::fs::DirBuilderExt;

use backcast_core::{
    Base, DType, Exist, LanePolicy, LearnedOptions, LeaseError, ObjectInfo, ObjectKind, Params,
    ParamsArray, ParamsOptions, PriorityOptions, Ring, RingOptions, SamplerOptions, SegmentError,
    Selector, StepColumns, TableOptions, Writer, WriterError, WriterOptions, collect_garbage,
    list_objects, remove_object,
};

use crate::handles::{Holder, append, fill, make, options, place, schema, segment};

#[test]
fn unlinking_takes_the_name_and_nothing_else() {
    let (_dir, base) = place();
    let old = make(&base, "pong");
    let other = Ring::attach_in(&base, "pong").unwrap();
    let mut writer = other.writer(WriterOptions::lanes(1)).unwrap();
    old.unlink().unwrap();
    assert!(matches!(
        segment(Ring::attach_in(&base, "pong").unwrap_err()),
        SegmentError::NotFound { .. }
    ));
    assert_eq!(list_objects(&base).unwrap(), []);
    append(&mut writer, 5);
    assert_eq!((old.len(), other.len()), (4, 4), "all handles still share it");
    let sampler = old.sampler(SamplerOptions::seeded(3));
    assert_eq!(sampler.unwrap().sample(4).unwrap().len(), 4, "readers come as before");
    let refused = old.writer(WriterOptions::lanes(1)).unwrap_err();
    assert!(matches!(&refused, WriterError::Segment(SegmentError::Unlinked { .. })), "{refused}");

    let new = make(&base, "pong");
    old.unlink().expect("unlinking twice is harmless");
    other.unlink().unwrap();
    drop((writer, other, old));
    assert_eq!(Ring::attach_in(&base, "pong").unwrap().len(), 0, "the name is another ring's now");
    new.unlink().unwrap();
    drop(new);
    assert!(!base.path().exists());
    Ring::heap(&schema(), RingOptions::with_capacity(10)).unwrap().unlink().unwrap();
}

type Way = (&'static str, fn(&Base, &Ring));

/// Returns the ways in which a ring loses its name while it is held.
fn ways() -> [Way; 3] {
    [
        ("unlinked", |_, ring| ring.unlink().unwrap()),
        ("removed", |base, _| drop(remove_object(base, ObjectKind::Ring, "pong", true).unwrap())),
        ("replaced", |base, _| {
            drop(Ring::create("pong", &schema(), options(base).exist(Exist::Replace)).unwrap());
        }),
    ]
}

#[cfg(target_os = "linux")]
#[test]
fn holders_of_a_ring_without_its_name_lease_as_before_and_writers_honour_it() {
    for (way, lose) in ways() {
        let (_dir, base) = place();
        let policy = options(&base).lane_policy(LanePolicy::Fail).reader_slots(2);
        let ring = Ring::create("pong", &schema(), policy).unwrap();
        let other = Ring::attach_in(&base, "pong").unwrap();
        let mut writer = other.writer(WriterOptions::lanes(1)).unwrap();
        append(&mut writer, 20);
        lose(&base, &ring);
        let lease = ring.lease(0, 5..8).unwrap_or_else(|error| panic!("{way}: {error}"));
        let readers = other.stats().readers;
        assert_eq!((readers.len(), readers[0].pid), (1, std::process::id().into()), "{way}");
        // The other handle's writer stops before the leased rows.
        let mut appended = 20;
        let step = |writer: &mut Writer| {
            let columns = StepColumns::of(ring.schema()).with("obs", &[1.0_f32; 2]).unwrap();
            let columns = columns.with("action", &[1_i32]).unwrap();
            writer.append(&columns.step(&[false], &[false]).unwrap()).map(drop)
        };
        while appended < 4_000 && step(&mut writer).is_ok() {
            appended += 1;
        }
        assert!(appended <= ring.slots() + 5, "{way}: {appended} rows beside the lease");
        let mut sampler = ring.sampler(SamplerOptions::seeded(1)).unwrap();
        assert_eq!(sampler.sample(4).unwrap().len(), 4, "{way}");
        assert_eq!(ring.stats().readers.len(), 2, "{way}: the handle of the lease, and a sampler");
        let third = other.lease(0, appended - 9..appended - 5).unwrap_err();
        assert!(matches!(third, LeaseError::NoSlot { slots: 2 }), "{way}: {third}");
        drop(lease);
        step(&mut writer).unwrap();
    }
}

#[test]
fn what_a_ring_without_its_name_cannot_do_says_why() {
    for (way, lose) in ways() {
        let (_dir, base) = place();
        let ring = make(&base, "pong");
        fill(&ring, 20);
        lose(&base, &ring);
        let (seeded, one) = (SamplerOptions::seeded(1), PriorityOptions::alpha(1.0));
        let epoch = Selector::Table(TableOptions::epoch("epoch"));
        let values = LearnedOptions::new("online").column("value", DType::F32);
        let refusals = [
            ("writer", ring.writer(WriterOptions::lanes(1)).map(drop).map_err(boxed)),
            (
                "priorities",
                ring.sampler(seeded.clone().selector(Selector::Priority(one)))
                    .map(drop)
                    .map_err(boxed),
            ),
            ("claims", ring.sampler(seeded.selector(epoch)).map(drop).map_err(boxed)),
            ("learned", ring.learned(&values).map(drop).map_err(boxed)),
            (
                "resize",
                ring.resize(500, None, &mut |_| ControlFlow::Continue(())).map(drop).map_err(boxed),
            ),
        ];
        for (call, outcome) in refusals {
            let error = outcome.expect_err(call);
            assert!(is_unlinked(&error, "Ring", "pong"), "{way}, {call}: {error}");
        }
    }
}

/// Returns whether the error, or one inside it, says that the object lost its name.
fn is_unlinked(error: &dyn std::fmt::Debug, kind: &str, name: &str) -> bool {
    format!("{error:?}").contains(&format!("Unlinked {{ kind: {kind}, name: {name:?} }}"))
}

fn boxed(error: impl std::error::Error + 'static) -> Box<dyn std::error::Error> {
    Box::new(error)
}

#[cfg(target_os = "linux")]
#[test]
fn holders_of_parameters_without_their_name_view_as_before() {
    let (_dir, base) = place();
    let like = || vec![ParamsArray::new("w", DType::F32, &[3]).unwrap()];
    let options = |exist| ParamsOptions::default().base(base.clone()).exist(exist);
    let mut learner = Params::create("policy", like(), options(Exist::Error)).unwrap();
    let mut actor = Params::attach_in(&base, "policy").unwrap();
    learner.publish(&learner.arrays(), None).unwrap();
    let _new = Params::create("policy", like(), options(Exist::Replace)).unwrap();
    let view = actor.view().unwrap();
    assert_eq!((view.version(), learner.stats().viewers.len()), (1, 1));
    learner.publish(&learner.arrays(), None).unwrap();
    drop((view, learner));
    let refused = actor.claim().unwrap_err();
    assert!(is_unlinked(&refused, "Params", "policy"), "{refused}");
}

#[test]
fn writers_and_samplers_hold_the_ring_too() {
    let (_dir, base) = place();
    let ring = make(&base, "pong");
    fill(&ring, 5);
    let writer = ring.writer(WriterOptions::lanes(1)).unwrap();
    let mut sampler = ring.sampler(SamplerOptions::seeded(0)).unwrap();
    let clone = ring.clone();
    drop((ring, writer));
    assert_eq!(list_objects(&base).unwrap().len(), 1);
    drop(clone);
    assert_eq!(sampler.sample(4).unwrap().len(), 4);
    assert!(Ring::attach_in(&base, "pong").is_ok());
    drop(sampler);
    assert!(!base.path().exists());
}

#[test]
fn a_list_shows_what_there_is_and_who_holds_it() {
    let (dir, base) = place();
    assert_eq!(list_objects(&base).unwrap(), [], "a place that does not exist holds nothing");
    let (b, a) = (make(&base, "b"), make(&base, "a"));
    let kept = Ring::create("kept", &schema(), options(&base).persistent(true)).unwrap();
    drop(kept);
    Holder::spawn(&dir, false).kill();
    let found = list_objects(&base).unwrap();
    let seen: Vec<_> =
        found.iter().map(|i| (&*i.name, i.kind, i.held, i.persistent, i.building)).collect();
    assert_eq!(
        seen,
        [
            ("a", ObjectKind::Ring, true, false, false),
            ("b", ObjectKind::Ring, true, false, false),
            ("held", ObjectKind::Ring, false, false, false),
            ("kept", ObjectKind::Ring, false, true, false),
        ]
    );
    for (info, ring) in found.iter().zip([&a, &b]) {
        assert_eq!(Some(&*info.path), ring.path());
        assert!(info.bytes >= ring.stats().bytes_allocated, "{info:?}");
    }
    drop((a, b));
    let names =
        |found: Vec<ObjectInfo>| found.into_iter().map(|info| info.name).collect::<Vec<_>>();
    assert_eq!(
        names(collect_garbage(&base).unwrap()),
        ["held"],
        "what nobody holds and nobody keeps"
    );
    assert_eq!(names(list_objects(&base).unwrap()), ["kept"]);
    assert_eq!(remove_object(&base, ObjectKind::Ring, "kept", false).unwrap().name, "kept");
    assert!(!base.path().exists());
}

#[test]
fn a_held_ring_is_removed_by_force_alone() {
    let (_dir, base) = place();
    let ring = make(&base, "pong");
    fill(&ring, 5);
    let refused = remove_object(&base, ObjectKind::Ring, "pong", false).unwrap_err();
    assert!(matches!(refused, SegmentError::InUse { .. }), "{refused}");
    assert_eq!(collect_garbage(&base).unwrap(), []);
    assert_eq!(Ring::attach_in(&base, "pong").unwrap().len(), 4, "nothing happened");
    let missing = remove_object(&base, ObjectKind::Panel, "pong", true).unwrap_err();
    assert!(matches!(missing, SegmentError::NotFound { .. }), "a panel of that name is another");
    let removed = remove_object(&base, ObjectKind::Ring, "pong", true).unwrap();
    assert!(removed.held && removed.name == "pong");
    assert_eq!(ring.len(), 4, "its holder keeps its memory");
    let again = remove_object(&base, ObjectKind::Ring, "pong", true).unwrap_err();
    assert!(matches!(again, SegmentError::NotFound { .. }), "{again}");
    drop(ring);
    assert!(!base.path().exists());
}

#[test]
fn remnants_of_dead_creators_and_removers_are_collected() {
    let (_dir, base) = place();
    let ring = make(&base, "pong");
    for remnant in [".building-0123", ".dead-4567"] {
        DirBuilder::new().mode(0o700).create(base.path().join(remnant)).unwrap();
        fs::write(base.path().join(remnant).join("ring.ctl"), [1; 5000]).unwrap();
        // Remnants of persistent rings: not complete yet, or already being removed.
        fs::write(base.path().join(remnant).join("persistent"), []).unwrap();
    }
    let found = list_objects(&base).unwrap();
    let seen: Vec<_> = found.iter().map(|i| (&*i.name, i.building, i.held)).collect();
    assert_eq!(seen, [("", true, false), ("", true, false), ("pong", false, true)]);
    assert_eq!(collect_garbage(&base).unwrap().len(), 2);
    assert_eq!(list_objects(&base).unwrap().len(), 1, "the live ring stays");
    drop(ring);
    assert!(!base.path().exists());
}

#[test]
fn creators_and_collectors_at_work_together_never_trip_over_each_other() {
    let (_dir, base) = place();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let creators: Vec<_> = ["a", "b"]
            .into_iter()
            .map(|name| {
                let base = base.clone();
                scope.spawn(move || {
                    for round in 0..300 {
                        let made = Ring::create(name, &schema(), options(&base));
                        let ring = made.unwrap_or_else(|error| panic!("round {round}: {error}"));
                        let joined = Ring::attach_in(&base, name);
                        joined.unwrap_or_else(|error| panic!("round {round}: {error}"));
                        drop(ring);
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                collect_garbage(&base).unwrap();
                list_objects(&base).unwrap();
            }
        });
        let ended: Vec<_> = creators.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(ended.iter().all(Result::is_ok));
    });
    collect_garbage(&base).unwrap();
    assert!(!base.path().exists());
}

#[test]
fn many_creators_of_one_name_end_up_in_one_ring() {
    let (_dir, base) = place();
    for _ in 0..50 {
        let rings: Vec<Ring> = std::thread::scope(|scope| {
            let create = || {
                let attach = options(&base).exist(Exist::Attach);
                Ring::create("pong", &schema(), attach).unwrap()
            };
            let makers: Vec<_> = (0..4).map(|_| scope.spawn(create)).collect();
            makers.into_iter().map(|maker| maker.join().unwrap()).collect()
        });
        fill(&rings[0], 5);
        assert!(rings.iter().all(|ring| ring.len() == 4), "all of them share it");
        drop(rings);
        assert!(!base.path().exists());
    }
}
