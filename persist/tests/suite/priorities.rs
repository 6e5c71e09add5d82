//! Priorities and rate limits come back with their rows.

use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;

use backcast_core::{
    Alpha, Exist, InitialPriority, NoLearner, NoWriter, PriorityOptions, PriorityOrder,
    RateLimiter, Ring, RingOptions, RowIndex, SamplerOptions, WriterError, WriterOptions,
};
use backcast_files::Progress;
use backcast_persist::{LoadError, LoadOptions, SaveOptions, Store};

use crate::rings::{Place, append, content, heap, schema, writer};

/// Returns the indices and weights of batches drawn by priority.
fn draws(ring: &Ring, options: &PriorityOptions) -> Vec<(Vec<RowIndex>, Vec<u32>)> {
    let options = SamplerOptions::seeded(5).history(3).priority(options.clone());
    let mut sampler = ring.sampler(options).unwrap();
    let mut draw = || {
        let batch = sampler.sample(64).unwrap();
        let weights = batch.column::<f32>("weight").unwrap();
        (batch.index(), weights.iter().map(|weight| weight.to_bits()).collect())
    };
    (0..4).map(|_| draw()).collect()
}

/// Sets every third row's priority to a number that follows from the row.
fn set(ring: &Ring, options: &PriorityOptions) {
    let mut index = Vec::new();
    for lane in 0..ring.lanes() {
        let rows = ring.lane_span(lane).unwrap();
        index.extend(
            rows.step_by(3).filter_map(|seq| i64::try_from(u64::from(lane) << 48 | seq).ok()),
        );
    }
    index.pop();
    let values: Vec<f64> = index.iter().map(|i| f64::from(u8::try_from(i % 17).unwrap())).collect();
    ring.priorities(options).unwrap().update(&index, &values).unwrap();
}

fn load(place: &Place, store: &Store, spec: &str, name: &str) -> Ring {
    let options = LoadOptions::default().name(name).exist(Exist::Replace).huge_pages(false);
    store.load(spec, options.base(place.base())).unwrap()
}

#[test]
fn a_loaded_ring_draws_by_priority_what_the_saved_one_draws() {
    for (lanes, steps) in [(1, 30), (3, 100), (2, 1_000)] {
        let (place, schema) = (Place::new(), schema());
        let (store, ring) = (place.store(), heap(&schema, lanes, 300));
        let options = [
            PriorityOptions::alpha(0.6).beta(0.4),
            PriorityOptions::alpha(1.0).eps(0.5).table("second"),
            PriorityOptions::alpha(0.8).initial(InitialPriority::Held).table("held"),
            PriorityOptions::alpha(0.7).by(PriorityOrder::Rank).table("ranks"),
            PriorityOptions::alpha(Alpha::Table).table("changed"),
            PriorityOptions::alpha(Alpha::Table).initial(InitialPriority::Held).table("both"),
        ];
        let mut writer = writer(&ring);
        append(&mut writer, &schema, lanes, steps, 3);
        for options in &options {
            set(&ring, options);
        }
        for options in &options[4..] {
            ring.priorities(options).unwrap().set_alpha(0.9).unwrap();
        }
        // The second snapshot has other priorities, and rows that learners have not drawn yet.
        store.save(&ring, "a", SaveOptions::default().name("pong").sizes(512, 2_048)).unwrap();
        let before = options.each_ref().map(|options| draws(&ring, options));
        append(&mut writer, &schema, lanes, 20, 4);
        set(&ring, &options[0]);
        append(&mut writer, &schema, lanes, 7, 5);
        store.save(&ring, "b", SaveOptions::default().name("pong")).unwrap();
        let after = options.each_ref().map(|options| draws(&ring, options));
        assert_ne!(before, after);

        for (spec, expected) in [("pong@a", &before), ("pong@b", &after)] {
            let loaded = load(&place, &store, spec, "loaded");
            let again = options.each_ref().map(|options| draws(&loaded, options));
            assert_eq!(again, *expected, "{spec}, {lanes} lanes of {steps} steps");
            for options in &options {
                let (sum, leaves, _) = loaded.priorities(options).unwrap().audit_locked().unwrap();
                assert_eq!(sum, leaves);
            }
            // The priorities came with their powers: another exponent gives the draws of the ring.
            let changed = &options[5];
            if spec == "pong@b" {
                let at_half = |ring: &Ring| {
                    ring.priorities(changed).unwrap().set_alpha(0.5).unwrap();
                    draws(ring, changed)
                };
                assert_eq!(at_half(&loaded), at_half(&ring));
                ring.priorities(changed).unwrap().set_alpha(0.9).unwrap();
            }
        }
        let read_only = LoadOptions::default().base(place.base()).huge_pages(false);
        let attached = store.attach_snapshot("pong@b", read_only).unwrap();
        assert_eq!(draws(&attached, &options[0]), after[0], "drawn from the snapshot itself");

        // Restored rows are overwritten like any others.
        let loaded = load(&place, &store, "pong@a", "loaded");
        append(&mut self::writer(&loaded), &schema, lanes, 400, 6);
        assert_eq!(draws(&loaded, &options[0]).len(), 4);
        let (sum, leaves, _) = loaded.priorities(&options[0]).unwrap().audit_locked().unwrap();
        assert_eq!(sum, leaves);
    }
}

#[test]
fn rows_that_are_overwritten_during_a_save_keep_their_priorities() {
    let (place, schema) = (Place::new(), schema());
    let (store, ring) = (place.store(), heap(&schema, 1, 300));
    let options = PriorityOptions::alpha(1.0);
    let mut writer = writer(&ring);
    append(&mut writer, &schema, 1, 400, 3);
    set(&ring, &options);
    let expected = draws(&ring, &options);
    let overwrites = |done: &Progress| {
        if done.rows == done.total_rows {
            append(&mut writer, &schema, 1, 200, 4);
            draws(&ring, &options);
        }
        ControlFlow::Continue(())
    };
    let saving = SaveOptions::default().name("pong").on_progress(overwrites);
    assert_eq!(store.save(&ring, "a", saving).unwrap().rows_lapped, 0);
    assert_eq!(draws(&load(&place, &store, "pong", "loaded"), &options), expected);
    assert_ne!(draws(&ring, &options), expected, "rows were overwritten");
}

#[test]
fn other_settings_than_the_saved_ones_are_refused() {
    let (place, schema) = (Place::new(), schema());
    let (store, ring) = (place.store(), heap(&schema, 1, 300));
    append(&mut writer(&ring), &schema, 1, 50, 3);
    set(&ring, &PriorityOptions::alpha(0.6));
    store.save(&ring, "a", SaveOptions::default().name("pong")).unwrap();
    let loaded = load(&place, &store, "pong", "loaded");
    let refused = loaded.priorities(&PriorityOptions::alpha(0.7)).unwrap_err().to_string();
    assert!(refused.contains("0.6") && refused.contains("0.7"), "{refused}");
}

#[test]
fn files_of_priorities_go_with_their_snapshot() {
    let (place, schema) = (Place::new(), schema());
    let (store, ring) = (place.store(), heap(&schema, 1, 300));
    append(&mut writer(&ring), &schema, 1, 50, 3);
    set(&ring, &PriorityOptions::alpha(0.6));
    let chunks = store.path().join("pong/chunks");
    let files = || fs::read_dir(&chunks).unwrap().count();
    store.save(&ring, "a", SaveOptions::default().name("pong")).unwrap();
    assert_eq!((files(), store.snapshot("pong@a").unwrap().files.len()), (2, 2));
    // The rows are in a file already; the priorities are saved again.
    let report = store.save(&ring, "b", SaveOptions::default().name("pong")).unwrap();
    assert_eq!((files(), report.rows_written, report.files_written), (3, 0, 1));
    store.remove("pong@a").unwrap();
    assert_eq!(files(), 2);
    load(&place, &store, "pong@b", "loaded");
}

#[test]
fn a_limiter_goes_on_from_its_counts() {
    let (place, schema) = (Place::new(), schema());
    for limits in [
        RateLimiter::min_size(20),
        RateLimiter::ratio(2.0, 10, 30.0)
            .no_learner(NoLearner::Error)
            .no_writer(NoWriter::Pass)
            .enabled(false),
        RateLimiter::band(0.3, 4, f64::NEG_INFINITY, 1e6),
    ] {
        let options = RingOptions::with_capacity(300).lanes(2).limiter(limits.enabled(false));
        let (store, ring) = (place.store(), Ring::heap(&schema, options).unwrap());
        append(&mut writer(&ring), &schema, 2, 40, 3);
        ring.drop_episode(1, None, false).unwrap();
        ring.sampler(SamplerOptions::seeded(1)).unwrap().sample(32).unwrap();
        let limiter = ring.limiter().unwrap();
        limiter.set(limits).unwrap();
        let counts = limiter.counts();
        assert!(counts.inserts > 0 && counts.samples >= 32, "{counts:?}");
        let options = SaveOptions::default().name("pong").replace(true);
        store.save(&ring, "a", options).unwrap();
        let loaded = load(&place, &store, "pong", "loaded");
        let again = loaded.limiter().unwrap();
        assert_eq!((again.limits().unwrap(), again.counts()), (limits, counts));
        assert_eq!(again.inserts_at_last_drop(), counts.inserts);
        assert_eq!(content(&loaded), content(&ring));
        // A snapshot in shared memory has no rate limiter.
        let read_only = LoadOptions::default().base(place.base()).huge_pages(false);
        let attached = store.attach_snapshot("pong@a", read_only).unwrap();
        assert!(attached.limiter().is_none());
        let refused = attached.writer(WriterOptions::lanes(1)).unwrap_err();
        assert!(matches!(refused, WriterError::Snapshot { .. }), "{refused}");
    }
    let none = heap(&schema, 1, 300);
    append(&mut writer(&none), &schema, 1, 40, 3);
    place.store().save(&none, "b", SaveOptions::default().name("pong")).unwrap();
    assert!(load(&place, &place.store(), "pong@b", "loaded").limiter().is_none());
}

#[test]
fn a_manifest_with_impossible_priorities_or_limits_is_damaged() {
    let (place, schema) = (Place::new(), schema());
    let options = RingOptions::with_capacity(300).limiter(RateLimiter::min_size(20));
    let (store, ring) = (place.store(), Ring::heap(&schema, options).unwrap());
    append(&mut writer(&ring), &schema, 1, 50, 3);
    set(&ring, &PriorityOptions::alpha(0.6));
    store.save(&ring, "a", SaveOptions::default().name("pong")).unwrap();
    let slots = ["pong/manifest-0", "pong/manifest-1"].map(|slot| store.path().join(slot));
    let path = slots.into_iter().find(|path| path.exists()).unwrap();
    let good = fs::read_to_string(&path).unwrap();
    let json = good.split_once('\n').unwrap().1;
    for (part, other, reason) in [
        ("\"name\":\"priority\"", "\"name\":\"../up\"", "table"),
        ("\"no_learner\":\"wait\"", "\"no_learner\":\"run\"", "limiter"),
        ("\"no_writer\":\"wait\"", "\"no_writer\":\"run\"", "limiter"),
        ("\"largest\":", "\"largest\":9999999", "leaf"),
        ("\"exponent\":0.6", "\"exponent\":-0.6", "exponent"),
    ] {
        let changed = json.replacen(part, other, 1);
        assert_ne!(changed, json, "{part}");
        let signed = format!("backcast-manifest 1 {} ", changed.len());
        let sum = blake3::hash(format!("{signed}{changed}").as_bytes()).to_hex();
        fs::write(&path, format!("{signed}{sum}\n{changed}")).unwrap();
        let options = LoadOptions::default().name("loaded").base(place.base());
        let refused = store.load("pong", options).unwrap_err();
        let text = refused.to_string();
        assert!(text.contains(reason), "{part}: {text}");
        assert!(!matches!(refused, LoadError::Cancelled));
        assert!(Ring::attach_in(&place.base(), "loaded").is_err(), "{part}: a ring was left");
    }
    fs::write(&path, good).unwrap();
    load(&place, &store, "pong", "loaded");
}

#[test]
fn a_damaged_table_is_left_out_of_a_snapshot_and_said_to_be() {
    let (place, schema) = (Place::new(), schema());
    let options = RingOptions::with_capacity(300).base(place.base());
    let (store, ring) = (place.store(), Ring::create("aim", &schema, options).unwrap());
    append(&mut writer(&ring), &schema, 1, 50, 3);
    set(&ring, &PriorityOptions::alpha(0.6));
    let table = ring.path().unwrap().join("table-priority.dat");
    let good = fs::read(&table).unwrap();
    // A byte of the exponent, which the checksum covers.
    let mut bad = good.clone();
    bad[0x40] ^= 1;
    fs::write(&table, &bad).unwrap();
    let report = store.save(&ring, "a", SaveOptions::default()).unwrap();
    let [left_out] = report.left_out.as_slice() else { panic!("{report:?}") };
    assert_eq!((left_out.table.as_str(), report.rows), ("priority", 50));
    assert!(left_out.reason.contains("table-priority.dat"), "{left_out}");
    assert_eq!(content(&load(&place, &store, "aim@a", "bare")), content(&ring));
    fs::write(&table, good).unwrap();
    assert_eq!(store.save(&ring, "b", SaveOptions::default()).unwrap().left_out, []);
}

#[test]
fn a_damaged_limiter_is_left_out_of_a_snapshot_and_said_to_be() {
    let (place, schema) = (Place::new(), schema());
    let options = RingOptions::with_capacity(300).base(place.base());
    let options = options.limiter(RateLimiter::min_size(20));
    let (store, ring) = (place.store(), Ring::create("aim", &schema, options).unwrap());
    append(&mut writer(&ring), &schema, 1, 50, 3);
    let path = ring.path().unwrap().join("ring.lim");
    let good = fs::read(&path).unwrap();
    // Overwrites both slots of the limits (384..640); either may be in force.
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.write_all_at(&[0xff; 256], 384).unwrap();
    let report = store.save(&ring, "a", SaveOptions::default()).unwrap();
    let [left_out] = report.left_out.as_slice() else { panic!("{report:?}") };
    assert_eq!((left_out.table.as_str(), report.rows), ("ring.lim", 50));
    let bare = load(&place, &store, "aim@a", "bare");
    assert_eq!(content(&bare), content(&ring));
    assert!(bare.limiter().is_none());
    file.write_all_at(&good[384..640], 384).unwrap();
    assert_eq!(store.save(&ring, "b", SaveOptions::default()).unwrap().left_out, []);
}
