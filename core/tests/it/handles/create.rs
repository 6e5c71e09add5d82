//! Creating and joining rings: `exist`, persistence, names, directories and space.

use backcast_core::{
    AutoresetMode, Capacity, DType, Exist, NoWriter, ObjectKind, RateLimiter, Ring, RingOptions,
    SamplerOptions, Schema, SegmentError, WriterOptions, collect_garbage, list_objects,
    remove_object,
};

use crate::handles::{Holder, append, fill, make, options, place, schema, segment};

#[test]
fn a_name_that_is_held_is_refused_and_the_ways_out_are_named() {
    let (_dir, base) = place();
    let ring = make(&base, "pong");
    fill(&ring, 5);
    let refused = segment(Ring::create("pong", &schema(), options(&base)).unwrap_err());
    let SegmentError::AlreadyExists { kind: ObjectKind::Ring, name, state } = &refused else {
        panic!("{refused:?}")
    };
    assert_eq!(name, "pong");
    assert!(!cfg!(target_os = "linux") || state.contains("this process"), "{state}");
    let text = refused.to_string();
    for way_out in ["\"attach\"", "\"replace\"", "`backcast rm pong`"] {
        assert!(text.contains(way_out), "{text}");
    }
    assert_eq!(ring.len(), 4, "the ring that was there is untouched");
    assert_eq!(Ring::attach_in(&base, "pong").unwrap().len(), 4);
}

#[test]
fn the_same_ring_is_joined_and_another_one_is_refused_with_both_values() {
    let (_dir, base) = place();
    let attach = || options(&base).exist(Exist::Attach);
    let made = Ring::create("pong", &schema(), attach()).unwrap();
    fill(&made, 5);
    let joined = Ring::create("pong", &schema(), attach()).unwrap();
    assert_eq!(joined.len(), 4, "it is the same memory");

    let column = |name: &str, dtype, shape: &[u32]| {
        Schema::builder()
            .column("obs", DType::F32, &[2])
            .column(name, dtype, shape)
            .build()
            .unwrap()
    };
    let one = Schema::builder().column("obs", DType::F32, &[2]).build().unwrap();
    let rows = |rows: u64| RingOptions::with_capacity(rows).base(base.clone()).exist(Exist::Attach);
    for (id, schema, options, values) in [
        ("dtype", column("action", DType::I64, &[]), attach(), ["i4", "i8"]),
        ("shape", column("action", DType::I32, &[3]), attach(), ["[]", "[3]"]),
        ("name", column("act", DType::I32, &[]), attach(), ["`action`", "`act`"]),
        ("one column less", one, attach(), ["`action`", ""]),
        ("lanes", schema(), attach().lanes(4), ["2", "4"]),
        ("capacity", schema(), rows(300).lanes(2), ["50", "150"]),
    ] {
        let refused = segment(Ring::create("pong", &schema, options).unwrap_err());
        let SegmentError::Different { what, .. } = &refused else { panic!("{id}: {refused}") };
        assert!(values.iter().all(|value| what.contains(value)), "{id}: {refused}");
    }
    drop(made);
    assert_eq!(joined.len(), 4, "no refusal took anything away");
    drop(joined);
    assert!(!base.path().exists());
}

#[test]
fn a_program_that_asks_for_no_limiter_follows_that_of_the_ring() {
    let (_dir, base) = place();
    let attach = || options(&base).exist(Exist::Attach);
    let limits = RateLimiter::ratio(4.0, 10, 40.0);
    let made = Ring::create("pong", &schema(), attach().limiter(limits)).unwrap();
    let joined = Ring::create("pong", &schema(), attach()).unwrap();
    assert_eq!(joined.limiter().unwrap().limits().unwrap(), limits);
    fill(&joined, 5);
    let counts = |ring: &Ring| ring.limiter().unwrap().counts().inserts;
    assert!(counts(&joined) > 0 && counts(&joined) == counts(&made), "it counts for all");
    for (id, other, values) in [
        ("ratio", RateLimiter::ratio(8.0, 10, 80.0), ["4", "8"]),
        ("size", RateLimiter::ratio(4.0, 11, 40.0), ["10", "11"]),
        ("band", RateLimiter::ratio(4.0, 10, 20.0), ["80", "60"]),
        ("absent", limits.no_writer(NoWriter::Error), ["absent", "writers"]),
        ("off", limits.enabled(false), ["on", "off"]),
    ] {
        let refused = Ring::create("pong", &schema(), attach().limiter(other)).unwrap_err();
        let refused = segment(refused);
        let SegmentError::Different { what, .. } = &refused else { panic!("{id}: {refused}") };
        assert!(values.iter().all(|value| what.contains(value)), "{id}: {refused}");
    }
    // A ring without one gets none.
    Ring::create("free", &schema(), attach()).unwrap();
    let free = Ring::create("free", &schema(), attach()).unwrap();
    let refused = segment(Ring::create("free", &schema(), attach().limiter(limits)).unwrap_err());
    assert!(matches!(refused, SegmentError::Different { .. }), "{refused}");
    assert!(free.limiter().is_none());
}

#[test]
fn replacing_a_held_ring_leaves_its_holders_their_memory() {
    let (_dir, base) = place();
    let old = make(&base, "pong");
    let mut old_writer =
        old.writer(WriterOptions::lanes(2).autoreset(AutoresetMode::NextStep)).unwrap();
    append(&mut old_writer, 5);

    let narrow = Schema::builder().column("obs", DType::U8, &[]).build().unwrap();
    let replace = options(&base).exist(Exist::Replace);
    let new = Ring::create("pong", &narrow, replace).unwrap();
    assert_eq!((new.len(), new.schema()), (0, &narrow));
    assert_eq!(
        Ring::attach_in(&base, "pong").unwrap().schema(),
        &narrow,
        "the name is the new one's"
    );
    assert_eq!(
        new.writer(WriterOptions::lanes(2).autoreset(AutoresetMode::NextStep)).unwrap().lanes(),
        [0, 1],
        "lanes of its own"
    );

    append(&mut old_writer, 5);
    assert_eq!(old.len(), 18, "its writer goes on");
    let batch = old.sampler(SamplerOptions::seeded(1)).unwrap().sample(8).unwrap();
    assert_eq!(batch.column::<f32>("next_obs").unwrap().shape(), [8, 2]);
    assert_eq!(old.rows(1, 5..10).unwrap().column::<i32>("action").unwrap(), [0, 1, 2, 3, 4]);
    drop((old_writer, old));
    assert_eq!(Ring::attach_in(&base, "pong").unwrap().schema(), &narrow, "the new one stays");
    drop(new);
    assert!(!base.path().exists());
}

#[test]
fn a_ring_whose_holders_were_killed_counts_as_absent() {
    let narrow = Schema::builder().column("obs", DType::U8, &[]).build().unwrap();
    for exist in [Exist::Error, Exist::Attach, Exist::Replace] {
        let (dir, base) = place();
        Holder::spawn(&dir, false).kill();
        let left = list_objects(&base).unwrap();
        assert_eq!(left.len(), 1);
        assert!(!left[0].held && !left[0].persistent && !left[0].building, "{left:?}");
        let refused = segment(Ring::attach_in(&base, "held").unwrap_err());
        assert!(matches!(refused, SegmentError::NotFound { .. }), "{refused}");
        assert_eq!(list_objects(&base).unwrap(), left, "looking removes nothing");
        let ring = Ring::create("held", &narrow, options(&base).exist(exist)).unwrap();
        assert_eq!((ring.len(), ring.schema()), (0, &narrow), "{exist}: nothing of the old one");
        drop(ring);
        assert!(!base.path().exists());
    }
}

#[test]
fn a_name_that_another_process_holds_is_not_said_to_be_ours() {
    let (dir, base) = place();
    let _holder = Holder::spawn(&dir, false);
    let refused = segment(Ring::create("held", &schema(), options(&base)).unwrap_err());
    let SegmentError::AlreadyExists { state, .. } = refused else { panic!("{refused}") };
    assert!(state.contains("a live process"), "{state}");
}

#[test]
fn a_persistent_ring_stays_without_holders() {
    let (dir, base) = place();
    Holder::spawn(&dir, true).kill();
    let left = list_objects(&base).unwrap();
    assert!(left.len() == 1 && left[0].persistent && !left[0].held, "{left:?}");
    assert_eq!(collect_garbage(&base).unwrap(), [], "it is not collected");
    let refused = segment(Ring::create("held", &schema(), options(&base)).unwrap_err());
    let SegmentError::AlreadyExists { state, .. } = refused else { panic!("{refused}") };
    assert!(state.contains("persistent"), "{state}");
    let found = Ring::attach_in(&base, "held").unwrap();
    assert_eq!(found.len(), 4, "what was published before the kill is there");
    assert!(found.stats().persistent);
    fill(&found, 5);
    drop(found);
    let joined = options(&base).exist(Exist::Attach);
    for persistent in [false, true] {
        let joined = joined.clone().persistent(persistent);
        Ring::create("held", &schema(), joined).expect("who asks for less may have it");
    }
    let joined = Ring::create("held", &schema(), joined).unwrap();
    assert_eq!(joined.len(), 8, "joined by a create that asks for the same");
    drop(joined);
    let replaced = options(&base).exist(Exist::Replace);
    let replaced = Ring::create("held", &schema(), replaced).unwrap();
    assert_eq!(replaced.len(), 0);
    assert!(!replaced.stats().persistent, "as the replacement asked");
    drop(replaced);
    assert!(!base.path().exists());
}

#[test]
fn the_same_name_in_two_places_is_two_rings() {
    let ((_a, a), (_b, b)) = (place(), place());
    let (here, there) = (make(&a, "pong"), make(&b, "pong"));
    fill(&here, 5);
    assert_eq!((here.len(), there.len()), (4, 0));
    assert_eq!(
        here.writer(WriterOptions::lanes(2).autoreset(AutoresetMode::NextStep)).unwrap().lanes(),
        [0, 1]
    );
    drop(here);
    assert!(!a.path().exists());
    assert!(matches!(
        segment(Ring::attach_in(&a, "pong").unwrap_err()),
        SegmentError::NotFound { .. }
    ));
    fill(&there, 3);
    assert_eq!(Ring::attach_in(&b, "pong").unwrap().len(), 2);
}

#[test]
fn more_than_the_memory_there_is_gives_an_error_and_leaves_nothing() {
    let (_dir, base) = place();
    let large = Schema::builder().column("obs", DType::U8, &[1 << 20]).build().unwrap();
    let asked = |capacity: Capacity| RingOptions::with_capacity(capacity).base(base.clone());
    for capacity in [Capacity::Rows(1 << 25), Capacity::Bytes(1 << 45)] {
        let refused = segment(Ring::create("pong", &large, asked(capacity)).unwrap_err());
        let SegmentError::NoSpace { asked, available, .. } = &refused else { panic!("{refused}") };
        assert!(asked > available && *asked >= 1 << 44, "{refused}");
        assert_eq!(refused.to_string().matches("iB").count(), 2, "two sizes: {refused}");
        assert!(!base.path().exists(), "nothing is left behind");
    }
    let refused = Ring::create("pong", &large, asked(Capacity::Rows(1 << 60))).unwrap_err();
    assert!(matches!(segment(refused), SegmentError::Limit { .. }));
    let refused = Ring::create("pong", &large, asked(Capacity::Bytes(1 << 10))).unwrap_err();
    assert!(matches!(segment(refused), SegmentError::Limit { value: 1024, .. }));
    assert!(!base.path().exists());
    let ring = Ring::create("pong", &large, asked(Capacity::Rows(10))).unwrap();
    assert_eq!(ring.lane_capacity(), 10, "the name is free and there is room for less");
}

#[test]
fn a_refused_replacement_leaves_the_ring_that_was_there() {
    let (_dir, base) = place();
    let ring = make(&base, "pong");
    fill(&ring, 5);
    let large = Schema::builder().column("obs", DType::U8, &[1 << 20]).build().unwrap();
    let replace = RingOptions::with_capacity(1 << 25).base(base.clone()).exist(Exist::Replace);
    let refused = segment(Ring::create("pong", &large, replace).unwrap_err());
    assert!(matches!(refused, SegmentError::NoSpace { .. }), "{refused}");
    assert_eq!(Ring::attach_in(&base, "pong").expect("it is still there").len(), 4);
}

#[test]
fn names_that_could_leave_the_place_are_refused_by_every_operation() {
    let (_dir, base) = place();
    for name in ["", "..", "a/b", ".hidden", "a b", "naïve", &"x".repeat(101)] {
        let refused = [
            Ring::create(name, &schema(), options(&base)).map(drop).map_err(segment),
            Ring::attach_in(&base, name).map(drop).map_err(segment),
            remove_object(&base, ObjectKind::Ring, name, true).map(drop),
        ];
        for refused in refused {
            let error = refused.unwrap_err();
            assert!(matches!(error, SegmentError::BadName { .. }), "{name:?}: {error}");
        }
    }
    let refused = segment(Ring::attach_in(&base, "pong").unwrap_err());
    let SegmentError::NotFound { name, base: place, .. } = &refused else { panic!("{refused}") };
    assert_eq!((&**name, &**place), ("pong", base.path()));
    assert!(refused.to_string().contains("`backcast ls`"), "{refused}");
    assert!(!base.path().exists(), "none of them made anything");
}
