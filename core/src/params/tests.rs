//! Tests of parameters in one process.

use std::time::Duration;

use backcast_budget::{Deadline, WATCHDOG, sleeps_beyond_watchdog};
use backcast_layout::{Base, DType, Exist, SegmentError};

use super::wait::SLICE;
use super::*;

fn like() -> Vec<ParamsArray> {
    vec![
        ParamsArray::new("w", DType::F32, &[100, 10]).unwrap(),
        ParamsArray::new("mask", DType::Bool, &[7]).unwrap(),
        ParamsArray::new("step", DType::I64, &[]).unwrap(),
    ]
}

fn publish(params: &mut Params, value: u64) -> Result<u64, ParamsError> {
    let mut arrays = params.arrays();
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    arrays.array_mut::<f32>("w")?.fill(value as f32);
    arrays.array_mut::<i64>("step")?.fill(i64::try_from(value).unwrap());
    params.publish(&arrays, None)
}

fn two_handles() -> (tempfile::TempDir, Params, Params) {
    let dir = tempfile::tempdir().unwrap();
    let base = Base::at(dir.path());
    let options = ParamsOptions::default().base(base.clone());
    let learner = Params::create("policy", like(), options).unwrap();
    let actor = Params::attach_in(&base, "policy").unwrap();
    (dir, learner, actor)
}

#[test]
fn a_handle_pulls_each_version_once_and_the_newest() {
    let (_dir, mut learner, mut actor) = two_handles();
    let mut mine = actor.arrays();
    assert_eq!((actor.version(), actor.pull(&mut mine).unwrap()), (0, None));
    for value in 1..=9 {
        assert_eq!(publish(&mut learner, value).unwrap(), value);
    }
    assert_eq!(actor.pull(&mut mine).unwrap(), Some(9));
    assert_eq!(mine.array::<i64>("step").unwrap(), [9]);
    let nine = 9.0_f32.to_bits();
    assert!(mine.array::<f32>("w").unwrap().iter().all(|w| w.to_bits() == nine));
    assert_eq!(actor.pull(&mut mine).unwrap(), None);
    let stats = actor.stats();
    assert_eq!((stats.version, stats.counters.published, stats.counters.pulls), (9, 9, 1));
    assert_eq!(stats.versions, [7, 8, 9]);
    assert!(stats.has_publisher && stats.published_unix_ns.is_some());
}

#[test]
fn a_read_of_the_newest_version_counts_as_pulled_and_one_of_an_older_version_does_not() {
    let (_dir, mut learner, mut actor) = two_handles();
    let mut mine = actor.arrays();
    for value in 1..=3 {
        publish(&mut learner, value).unwrap();
    }
    assert_eq!(actor.read_bytes(&mut mine.all_bytes_mut()).unwrap(), 3);
    assert_eq!((actor.pulled(), actor.pull(&mut mine).unwrap()), (3, None));
    assert_eq!(actor.read_bytes(&mut mine.all_bytes_mut()).unwrap(), 3, "it is read again");
    publish(&mut learner, 4).unwrap();
    actor.read_version(3, &mut mine).unwrap();
    assert_eq!((mine.array::<i64>("step").unwrap(), actor.pulled()), (&[3][..], 3));
    assert_eq!(actor.pull(&mut mine).unwrap(), Some(4));
    assert_eq!((mine.array::<i64>("step").unwrap(), actor.pulled()), (&[4][..], 4));
}

#[test]
fn copies_that_are_made_again_are_counted_whether_or_not_one_becomes_whole() {
    let (_dir, mut learner, actor) = two_handles();
    let mut mine = actor.arrays();
    publish(&mut learner, 1).unwrap();
    let slots = learner.stats().versions_kept + learner.stats().spare_slots;
    let mut pull = |overtaken: u32| {
        let mut left = overtaken;
        actor.copy_newer_with(0, &mut mine.all_bytes_mut(), || {
            if left > 0 {
                left -= 1;
                // The slot of the version that was copied is reused.
                (0..slots).for_each(|_| assert!(publish(&mut learner, 2).is_ok()));
            }
        })
    };
    let counted = || (actor.stats().counters.pulls, actor.stats().counters.retries);
    pull(0).unwrap();
    assert_eq!(counted(), (1, 0));
    pull(3).unwrap();
    assert_eq!(counted(), (2, 3));
    let refused = pull(ATTEMPTS).unwrap_err();
    assert!(matches!(refused, ParamsError::Overtaken { attempts: ATTEMPTS, .. }), "{refused}");
    assert_eq!(counted(), (2, 3 + u64::from(ATTEMPTS) - 1));
}

#[test]
fn versions_rise_and_one_handle_publishes() {
    let (_dir, mut learner, mut actor) = two_handles();
    let arrays = learner.arrays();
    assert_eq!(learner.publish(&arrays, Some(70)).unwrap(), 70);
    assert_eq!(learner.publish(&arrays, None).unwrap(), 71);
    for version in [0, 70, 71, u64::MAX] {
        let refused = learner.publish(&arrays, Some(version)).unwrap_err();
        assert!(matches!(refused, ParamsError::OldVersion { newest: 71, .. }), "{refused}");
    }
    let refused = publish(&mut actor, 1).unwrap_err();
    assert!(matches!(refused, ParamsError::OtherPublisher { .. }), "{refused}");
    if cfg!(target_os = "linux") {
        let pid = std::process::id().to_string();
        assert!(refused.to_string().contains(&pid), "{refused}");
    }
    drop(learner);
    assert_eq!(publish(&mut actor, 1).unwrap(), 72, "the right passes on");
}

#[test]
fn arrays_of_other_parameters_are_refused_although_their_bytes_fit() {
    let (_dir, mut learner, mut actor) = two_handles();
    publish(&mut learner, 1).unwrap();
    let [w, mask, step] = [0, 1, 2].map(|at| like()[at].clone());
    let of = |name, dtype, shape: &[u64]| ParamsArray::new(name, dtype, shape).unwrap();
    let others = [
        (vec![of("w", DType::I32, &[100, 10]), mask.clone(), step.clone()], 0, "`w` (i4[100, 10])"),
        (vec![of("w", DType::F32, &[10, 100]), mask.clone(), step.clone()], 0, "`w` (f4[10, 100])"),
        (vec![w.clone(), of("msk", DType::Bool, &[7]), step.clone()], 1, "`msk` (bool[7])"),
        (vec![w.clone(), mask.clone(), of("step", DType::U64, &[])], 2, "`step` (u8[])"),
        (vec![w.clone(), mask.clone()], 2, ""),
        (vec![w, mask, step, of("more", DType::F32, &[])], 3, "`more` (f4[])"),
    ];
    for (arrays, place, says) in others {
        let mut given = Params::heap(arrays, &ParamsOptions::default()).unwrap().arrays();
        for refused in [
            learner.publish(&given, None).unwrap_err(),
            actor.pull(&mut given).unwrap_err(),
            actor.read_version(1, &mut given).unwrap_err(),
        ] {
            let text = refused.to_string();
            let ParamsError::OtherArrays { at, given, .. } = refused else { panic!("{text}") };
            assert_eq!(at, place, "{text}");
            assert!(says.is_empty() || given == says, "{given} is not {says}");
            assert!(text.contains(&given), "{text}");
        }
        assert_eq!((actor.version(), actor.pulled()), (1, 0), "nothing changed");
    }
    // Other options and another object, with the same arrays.
    let options = ParamsOptions::default().versions_kept(3);
    let mut same = Params::heap(like(), &options).unwrap().arrays();
    assert_eq!(learner.publish(&same, None).unwrap(), 2);
    assert_eq!(actor.pull(&mut same).unwrap(), Some(2));
}

#[test]
fn a_view_keeps_its_version_and_a_publisher_out_of_slots_is_refused() {
    let (_dir, mut learner, mut actor) = two_handles();
    assert!(matches!(actor.view().unwrap_err(), ParamsError::Nothing { .. }));
    publish(&mut learner, 1).unwrap();
    let first = actor.view().unwrap();
    for value in 2..=9 {
        publish(&mut learner, value).unwrap();
    }
    let mut step = [0; 8];
    assert!(first.copy(2, &mut step) && first.version() == 1);
    assert_eq!(i64::from_ne_bytes(step), 1);
    let second = actor.view_version(9).unwrap();
    publish(&mut learner, 10).unwrap();
    let refused = publish(&mut learner, 11).unwrap_err();
    let pid = u64::from(std::process::id());
    let ParamsError::AllPinned { version: 11, spare: 2, pids } = &refused else {
        panic!("{refused}")
    };
    assert_eq!(pids, &[pid]);
    assert_eq!((learner.version(), learner.stats().counters.refused), (10, 1));
    assert_eq!(learner.stats().viewers, [(pid, 2)]);
    drop((first, second));
    assert_eq!(publish(&mut learner, 11).unwrap(), 11);
    let gone = actor.view_version(1).unwrap_err();
    assert!(matches!(gone, ParamsError::NoVersion { version: 1, .. }), "{gone}");
}

#[test]
fn old_versions_are_kept_as_asked() {
    let options = ParamsOptions::default().versions_kept(3).spare_slots(1);
    let mut params = Params::heap(like(), &options).unwrap();
    for value in 1..=9 {
        publish(&mut params, value).unwrap();
        let least = params.versions().len() as u64;
        assert!(least >= value.min(3), "{least} after {value}");
    }
    let mut out = params.arrays();
    params.read_version(7, &mut out).unwrap();
    assert_eq!(out.array::<i64>("step").unwrap(), [7]);
    assert!(params.read_version(1, &mut out).is_err());
}

#[test]
fn a_wait_ends_with_the_version_or_in_time() {
    let (_dir, mut learner, actor) = two_handles();
    let limit = Some(Duration::from_millis(2));
    let late = actor.wait(1, limit).unwrap_err();
    assert!(matches!(late, ParamsError::TimedOut { want: 1, newest: 0, .. }), "{late}");
    let stopped =
        actor.another().interrupted_by(Interrupt::when(|| true)).wait(1, None).unwrap_err();
    assert!(matches!(stopped, ParamsError::Interrupted), "{stopped}");
    let versions = sleeps_beyond_watchdog(SLICE);
    let (tell, told) = std::sync::mpsc::channel();
    let deadline = Deadline::new();
    let waiter = std::thread::spawn(move || {
        for version in 1..=versions {
            assert_eq!(actor.wait(version, Some(deadline.left())).unwrap(), version);
            tell.send(version).unwrap();
        }
        actor
    });
    for version in 1..=versions {
        publish(&mut learner, version).unwrap();
        assert_eq!(told.recv_timeout(deadline.left()), Ok(version));
    }
    let actor = waiter.join().unwrap();
    learner.unlink().unwrap();
    let gone = actor.wait(versions + 1, Some(WATCHDOG)).unwrap_err();
    assert!(matches!(gone, ParamsError::Unlinked), "{gone}");
}

#[test]
fn creating_again_attaches_to_equal_parameters_only() {
    let (dir, mut learner, _actor) = two_handles();
    publish(&mut learner, 1).unwrap();
    let options = || ParamsOptions::default().base(Base::at(dir.path()));
    let taken = Params::create("policy", like(), options()).unwrap_err();
    assert!(matches!(taken, ParamsError::Segment(SegmentError::AlreadyExists { .. })), "{taken}");
    let attach = || options().exist(Exist::Attach);
    assert_eq!(Params::create("policy", like(), attach()).unwrap().version(), 1);
    for (arrays, options) in [
        (like()[..2].to_vec(), attach()),
        (like().into_iter().rev().collect(), attach()),
        (like(), attach().versions_kept(2)),
    ] {
        let other = Params::create("policy", arrays, options).unwrap_err();
        assert!(matches!(other, ParamsError::Segment(SegmentError::Different { .. })), "{other}");
    }
    let new = Params::create("policy", like(), options().exist(Exist::Replace)).unwrap();
    assert_eq!((new.version(), learner.is_unlinked()), (0, true));
}

#[test]
fn restored_parameters_begin_with_their_version() {
    let dir = tempfile::tempdir().unwrap();
    let options = || ParamsOptions::default().base(Base::at(dir.path()));
    let weights: Vec<u8> = (0..4_000_u32).map(|at| (at % 251) as u8).collect();
    let bytes: [&[u8]; 3] = [&weights, &[1, 0, 1, 0, 0, 1, 1], &[9; 8]];
    let restore = |version, options| Params::restore("policy", like(), options, version, &bytes);
    for version in [0, u64::MAX] {
        let refused = restore(version, options()).unwrap_err();
        assert!(matches!(refused, ParamsError::OldVersion { newest: 0, .. }), "{refused}");
    }
    let cut = Params::restore("policy", like(), options(), 1, &bytes[..2]).unwrap_err();
    assert!(matches!(cut, ParamsError::ArrayCount { given: 2, arrays: 3 }), "{cut}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing was made");

    let mut learner = restore(40, options()).unwrap();
    let mut actor = Params::attach_in(&Base::at(dir.path()), "policy").unwrap();
    assert_eq!((actor.versions(), actor.stats().has_publisher), (vec![40], false));
    let mut mine = actor.arrays();
    assert_eq!(actor.pull(&mut mine).unwrap(), Some(40));
    assert_eq!(mine.all_bytes(), bytes);
    assert_eq!(publish(&mut learner, 5).unwrap(), 41);
    assert_eq!(actor.pull(&mut mine).unwrap(), Some(41));
    for exist in [Exist::Error, Exist::Attach] {
        let taken = restore(50, options().exist(exist)).unwrap_err();
        assert!(matches!(taken, ParamsError::Segment(SegmentError::AlreadyExists { .. })));
    }
    let new = restore(3, options().exist(Exist::Replace)).unwrap();
    assert_eq!((new.version(), learner.is_unlinked()), (3, true));
}

#[test]
fn the_last_handle_removes_the_files_and_changed_ones_are_refused() {
    use std::os::unix::fs::FileExt;
    let (dir, learner, actor) = two_handles();
    let path = learner.path().unwrap().to_owned();
    let base = Base::at(dir.path());
    for (name, at) in
        [("params.ctl", 44), ("params.ctl", 300), ("params.dat", 9), ("params.rdr", 9)]
    {
        let file = std::fs::File::options().read(true).write(true).open(path.join(name)).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 1], at).unwrap();
        let refused = Params::attach_in(&base, "policy").unwrap_err();
        assert!(
            matches!(refused, ParamsError::Segment(SegmentError::Corrupt { .. })),
            "{name} {at}: {refused}"
        );
        file.write_all_at(&byte, at).unwrap();
        drop(Params::attach_in(&base, "policy").unwrap());
    }
    drop((learner, actor));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "files are left over");
}

#[test]
fn arrays_of_other_types_and_sizes_are_refused() {
    let (_dir, mut learner, mut actor) = two_handles();
    let count = learner.publish_bytes(&[&[0; 4]], None).unwrap_err();
    assert!(matches!(count, ParamsError::ArrayCount { given: 1, arrays: 3 }), "{count}");
    let bytes = learner.publish_bytes(&[&[0; 4000], &[0; 8], &[0; 8]], None).unwrap_err();
    assert!(matches!(bytes, ParamsError::ArrayBytes { bytes: 7, given: 8, .. }), "{bytes}");
    assert!(!learner.is_publisher(), "nothing has changed");
    let unknown = actor.arrays().array::<f64>("w").unwrap_err();
    assert!(matches!(unknown, ParamsError::NoArray { .. }), "{unknown}");
    publish(&mut learner, 1).unwrap();
    assert!(actor.pull_bytes(&mut []).is_err());
    assert_eq!(actor.pulled(), 0);
}

#[test]
fn parameters_have_every_option_that_they_were_made_with() {
    let dir = tempfile::tempdir().unwrap();
    let base = Base::at(dir.path());
    // Each object replaces the one before it, if that one is persistent.
    let plain = || ParamsOptions::default().base(base.clone()).exist(Exist::Replace);
    let bytes: [&[u8]; 3] = [&[0; 4_000], &[0; 7], &[0; 8]];
    for (options, expected) in [
        (plain(), (false, 1, 2, 64)),
        (plain().persistent(true), (true, 1, 2, 64)),
        (plain().versions_kept(3), (false, 3, 2, 64)),
        (plain().spare_slots(5), (false, 1, 5, 64)),
        (plain().reader_slots(7), (false, 1, 2, 7)),
    ] {
        for is_restored in [false, true] {
            let made = if is_restored {
                Params::restore("policy", like(), options.clone(), 1, &bytes)
            } else {
                Params::create("policy", like(), options.clone())
            };
            let made = made.unwrap();
            let (stats, readers) = (made.stats(), made.shape().reader_slots());
            let found = (stats.persistent, stats.versions_kept, stats.spare_slots, readers);
            assert_eq!(found, expected, "restored: {is_restored}");
            assert!(made.path().unwrap().starts_with(dir.path()));
            drop(made);
            let is_kept = Params::attach_in(&base, "policy").is_ok();
            assert_eq!(is_kept, stats.persistent, "restored: {is_restored}");
        }
    }
}

#[test]
fn as_many_handles_have_views_as_there_are_reader_slots() {
    let options = ParamsOptions::default().reader_slots(2);
    let mut params = Params::heap(like(), &options).unwrap();
    publish(&mut params, 1).unwrap();
    let mut others = [params.another(), params.another()];
    for other in &mut others {
        drop(other.view().unwrap());
    }
    let refused = params.view().unwrap_err();
    assert!(matches!(refused, ParamsError::NoReaderSlot { slots: 2 }), "{refused}");
    drop(others);
    assert_eq!(params.view().unwrap().version(), 1);
}
