//! Rings in sealed memfds: finding their memory, keeping it, and attacks of a peer.

use std::fs::{self, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use backcast_budget::until;
use backcast_core::plumbing::MemfdKeeper;
use backcast_core::{
    AutoresetMode, Base, DType, Exist, Interrupt, LearnedOptions, ObjectKind, PriorityOptions,
    ResizeError, Ring, RingError, RingOptions, Sampler, SamplerOptions, SegmentError, Selector,
    TableOptions, Wait, WriterOptions, collect_garbage, list_objects, remove_object,
};

use crate::handles::{append, fill, options, place, schema, segment};

fn in_memfds(base: &Base) -> RingOptions {
    options(base).memfd(true)
}

fn make(base: &Base, persistent: bool) -> Ring {
    let ring = Ring::create("pong", &schema(), in_memfds(base).persistent(persistent)).unwrap();
    assert!(ring.stats().memfd);
    ring
}

/// Returns the links of a ring and their targets.
fn links(base: &Base) -> Vec<(PathBuf, String)> {
    let entries = fs::read_dir(base.path().join("pong.ring")).unwrap();
    let mut links: Vec<_> = entries
        .map(|entry| entry.unwrap().path())
        .filter_map(|path| Some((path.clone(), fs::read_link(&path).ok()?)))
        .map(|(path, text)| (path, text.into_os_string().into_string().unwrap()))
        .collect();
    links.sort();
    links
}

/// Returns the path of the descriptor that a link names.
fn descriptor(text: &str) -> PathBuf {
    let mut parts = text.rsplit(':');
    let (number, pid) = (parts.next().unwrap(), parts.next().unwrap());
    Path::new("/proc").join(pid).join("fd").join(number)
}

/// Replaces a link.
fn lead(path: &Path, text: &str) {
    fs::remove_file(path).unwrap();
    symlink(text, path).unwrap();
}

#[test]
fn it_is_a_ring_like_any_other() {
    let (_dir, base) = place();
    let ring = make(&base, false);
    let mut writer =
        ring.writer(WriterOptions::lanes(2).autoreset(AutoresetMode::NextStep)).unwrap();
    append(&mut writer, 60);
    let other = Ring::attach_in(&base, "pong").unwrap();
    assert_eq!((other.len(), other.stats().memfd), (2 * 49, true));
    let mut sampler = other.sampler(SamplerOptions::seeded(1).history(3)).unwrap();
    assert_eq!(sampler.sample(32).unwrap().len(), 32);
    let lease = other.lease(0, 50..60).unwrap();
    append(&mut writer, 10);
    drop(lease);
    assert_eq!(links(&base).len(), 5, "ring.ctl, ring.rdr, ring.low and two lanes");
    let info = &list_objects(&base).unwrap()[0];
    assert!(info.memfd && info.held && !info.persistent);
    assert!(info.bytes >= ring.stats().bytes_allocated, "{} bytes", info.bytes);
    drop((ring, writer, other, sampler));
    assert!(!base.path().exists(), "the last handle takes the name away");
}

fn by_priority() -> SamplerOptions {
    let options = PriorityOptions::alpha(0.6).table("p");
    SamplerOptions::seeded(1).selector(Selector::Priority(options))
}

/// Uses a table of priorities, one of claims and one of learned columns.
fn use_tables(ring: &Ring) -> Sampler {
    let mut sampler = ring.sampler(by_priority()).unwrap();
    let index = sampler.sample(8).unwrap().index();
    let options = PriorityOptions::alpha(0.6).table("p");
    ring.priorities(&options).unwrap().update(&index, &[2.5; 8]).unwrap();
    ring.table(&TableOptions::consume("c")).unwrap();
    ring.learned(&LearnedOptions::new("l").column("value", DType::F32)).unwrap();
    sampler
}

#[test]
fn its_tables_are_sealed_and_counted_too() {
    let (_dir, base) = place();
    let ring = make(&base, false);
    fill(&ring, 20);
    let bytes = list_objects(&base).unwrap()[0].bytes;
    let mut sampler = use_tables(&ring);
    let tables = fs::read_dir(base.path().join("pong.ring")).unwrap();
    let tables = tables.map(|entry| entry.unwrap().path());
    let tables: Vec<_> = tables.filter(|path| path.to_string_lossy().contains("table-")).collect();
    assert_eq!(tables.len(), 3);
    for path in &tables {
        assert!(path.is_symlink(), "{} is a file, which can be cut", path.display());
        let cut = OpenOptions::new().write(true).open(path).and_then(|file| file.set_len(0));
        assert!(cut.is_err(), "{}", path.display());
    }
    assert!(list_objects(&base).unwrap()[0].bytes > bytes, "their memory counts");
    sampler.sample(8).unwrap();
    let other = Ring::attach_in(&base, "pong").unwrap();
    assert_eq!(other.stats().tables.len(), 1);
    assert_eq!(other.stats().tables[0].counters.updated, 8);
}

#[test]
fn the_tables_of_processes_that_ended_begin_anew() {
    let (_dir, base) = place();
    let ring = make(&base, false);
    fill(&ring, 20);
    let learner = Ring::attach_in(&base, "pong").unwrap();
    drop((use_tables(&learner), learner));
    assert!(links(&base).iter().any(|(path, _)| path.ends_with("table-p.dat")));
    // They lead nowhere now: absent for all who look, and no obstacle for a keeper.
    assert!(ring.whole_stats().unwrap().tables.is_empty());
    assert!(ring.claim_states().unwrap().is_empty());
    let mut keeper = MemfdKeeper::default();
    assert_eq!((keeper.look(&base).unwrap().len(), keeper.rings()), (0, 1));
    let mut sampler = use_tables(&ring);
    assert_eq!(ring.stats().tables[0].counters.updated, 8);
    // Tables that a keeper has outlive the learner.
    assert!(keeper.look(&base).unwrap().is_empty());
    sampler.sample(8).unwrap();
    drop(sampler);
    let heir = Ring::attach_in(&base, "pong").unwrap();
    drop(ring);
    heir.sampler(by_priority()).unwrap().sample(8).unwrap();
    assert_eq!(heir.stats().tables[0].counters.updated, 8, "begun anew although it was kept");
}

#[test]
fn a_loaded_ring_has_sealed_tables() {
    let (_dir, base) = place();
    let source = Ring::create("source", &schema(), options(&base)).unwrap();
    fill(&source, 20);
    use_tables(&source);
    let never = Interrupt::never();
    let mut wait = Wait::new(None, &never);
    let states = source.table_states(&mut wait).unwrap();
    let states: Vec<_> = states.map(|(_, state)| state.unwrap()).collect();
    let spans: Vec<_> = (0..2).map(|lane| source.lane_span(lane).unwrap()).collect();
    let ring = Ring::restore("pong", &schema(), in_memfds(&base), |filling| {
        for (lane, span) in (0..).zip(&spans) {
            filling.begin(lane, span.clone())?;
            let rows = source.rows(lane, span.clone()).unwrap();
            let columns = rows.columns().iter().map(|c| rows.bytes(c.name()).unwrap());
            filling.rows(lane, span.end - span.start, &columns.collect::<Vec<_>>())?;
        }
        states.iter().try_for_each(|state| filling.table(state))
    })
    .unwrap();
    assert!(links(&base).iter().any(|(path, _)| path.ends_with("table-p.dat")));
    ring.sampler(by_priority()).unwrap().sample(8).unwrap();
}

#[test]
fn no_process_can_truncate_or_extend_it() {
    let (_dir, base) = place();
    let ring = make(&base, false);
    fill(&ring, 20);
    let mut sampler = use_tables(&ring);
    for (path, text) in links(&base) {
        let file = OpenOptions::new().read(true).write(true).open(descriptor(&text)).unwrap();
        let is = file.metadata().unwrap().len();
        for len in [0, is - 1, is + 1] {
            let refused = file.set_len(len).unwrap_err();
            assert_eq!(refused.raw_os_error(), Some(libc::EPERM), "{} to {len}", path.display());
        }
        assert!(file.write_at(&[0], is).is_err(), "beyond its end");
    }
    assert_eq!(ring.rows(0, 0..20).unwrap().len(), 20);
    sampler.sample(8).unwrap();
}

#[test]
fn a_holder_renews_the_link_after_its_creator_ended() {
    let (_dir, base) = place();
    let made = make(&base, false);
    fill(&made, 20);
    let heir = Ring::attach_in(&base, "pong").unwrap();
    drop(made);
    let (_, text) = links(&base).remove(0);
    assert!(!descriptor(&text).exists(), "its maker's descriptor is closed");
    let found = Ring::attach_in(&base, "pong").unwrap();
    assert_eq!(found.len(), 19);
    fill(&found, 5);
    assert_eq!(heir.len(), 19 + 4);
    drop((heir, found));
    assert!(list_objects(&base).unwrap().is_empty());
}

#[test]
fn persistent_rings_need_a_keeper() {
    let (_dir, base) = place();
    // Without a keeper the ring is removed with its last holder.
    drop(make(&base, true));
    assert!(list_objects(&base).unwrap().is_empty());

    let ring = make(&base, true);
    fill(&ring, 20);
    let mut keeper = MemfdKeeper::default();
    assert!(keeper.look(&base).unwrap().is_empty());
    drop(ring);
    assert!(collect_garbage(&base).unwrap().is_empty(), "it is kept");
    let info = &list_objects(&base).unwrap()[0];
    assert!(info.persistent && !info.held);
    assert_eq!(Ring::attach_in(&base, "pong").unwrap().len(), 19);
    // A second keeper finds the memory in the first one.
    let mut second = MemfdKeeper::default();
    assert!(second.look(&base).unwrap().is_empty());
    drop(keeper);
    assert_eq!(Ring::attach_in(&base, "pong").unwrap().len(), 19);
    drop(second);
    // Memory without a holder is lost, even if the ring was to persist.
    assert!(!list_objects(&base).unwrap()[0].persistent);
    let error = segment(Ring::attach_in(&base, "pong").unwrap_err());
    let SegmentError::MemoryGone { path, pid } = &error else { panic!("{error}") };
    assert!(path.ends_with("ring.ctl") && *pid == std::process::id(), "{error}");
    assert!(!base.path().exists(), "who finds that out takes the name away");
}

#[test]
fn a_keeper_holds_no_ring_and_gives_back_what_is_removed() {
    let (_dir, base) = place();
    let ring = make(&base, true);
    let mut keeper = MemfdKeeper::default();
    keeper.look(&base).unwrap();
    drop(ring);
    assert_eq!(keeper.rings(), 1);
    // The links name the keeper, which now has the memory.
    assert!(links(&base).iter().all(|(_, text)| descriptor(text).exists()));
    remove_object(&base, ObjectKind::Ring, "pong", false).unwrap();
    keeper.look(&base).unwrap();
    assert_eq!(keeper.rings(), 0);
}

#[test]
fn a_link_that_leads_elsewhere_is_refused() {
    use SegmentError::{Corrupt, MemoryGone, Permission};
    type IsRight = fn(&SegmentError) -> bool;
    let (_dir, base) = place();
    let ring = make(&base, false);
    let other = Ring::create("other", &schema(), options(&base).memfd(true)).unwrap();
    let of_other = |name: &str| {
        fs::read_link(base.path().join("other.ring").join(name)).unwrap().into_os_string()
    };
    let unsealed = rustix::fs::memfd_create(
        "backcast-memfd:00000000000000ab",
        rustix::fs::MemfdFlags::CLOEXEC,
    )
    .unwrap();
    let number = unsealed.as_raw_fd();
    let unsealed_link = format!("backcast-memfd:00000000000000ab:{}:{number}", std::process::id());
    rustix::fs::fchmod(&unsealed, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
    for (path, was) in links(&base) {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let other = of_other(&name);
        let links: [(&str, IsRight); 6] = [
            ("/etc/passwd", |error| matches!(error, Permission { .. })),
            ("/proc/self/fd/0", |error| matches!(error, Permission { .. })),
            ("backcast-memfd:zz:1:1", |error| matches!(error, Permission { .. })),
            ("backcast-memfd:00000000000000cd:1:1", |error| matches!(error, MemoryGone { .. })),
            (&unsealed_link, |error| matches!(error, Permission { .. })),
            // The ring.ctl of another ring is valid by itself, so the error names what contradicts
            // it.
            (other.to_str().unwrap(), |error| matches!(error, Corrupt { .. })),
        ];
        for (text, is_right) in links {
            lead(&path, text);
            let error = Ring::attach_in(&base, "pong");
            let error = segment(error.expect_err(&format!("{name} -> {text}")));
            assert!(is_right(&error), "{name} -> {text}: {error:?}");
        }
        lead(&path, &was);
    }
    assert_eq!(Ring::attach_in(&base, "pong").unwrap().len(), 0);
    drop((ring, other));
}

#[test]
fn only_its_keeper_resizes_it() {
    let (_dir, base) = place();
    let ring = make(&base, true);
    let mut on = |_| std::ops::ControlFlow::Continue(());
    let refused = ring.resize(1_000, None, &mut on).unwrap_err();
    let ResizeError::Ring(RingError::Segment(SegmentError::NotItsKeeper { name })) = &refused
    else {
        panic!("{refused}")
    };
    assert_eq!(name, "pong");
    let keeper = Mutex::new(MemfdKeeper::default());
    keeper.lock().unwrap().look(&base).unwrap();
    let mut writer = ring.writer(WriterOptions::lanes(1)).unwrap();
    append(&mut writer, 70);
    let span = ring.lane_span(0).unwrap();
    let before = links(&base);
    std::thread::scope(|scope| {
        let (growing, keeper) = (ring.clone(), &keeper);
        let resized = scope.spawn(move || {
            growing.resize_kept(keeper, 1_000, None, &mut |_| std::ops::ControlFlow::Continue(()))
        });
        until("the resize is done", || {
            append(&mut writer, 1);
            resized.is_finished()
        });
        assert!(resized.join().unwrap().unwrap().lanes_waiting.is_empty());
    });
    let now = ring.lane_span(0).unwrap();
    assert!(ring.capacity() >= 1_000 && now.end >= span.end, "{span:?} {now:?}");
    ring.rows(0, now).unwrap();
    keeper.lock().unwrap().look(&base).unwrap();
    drop((ring, writer));
    // All rows are in the larger memory, and the smaller one was freed.
    let again = Ring::attach_in(&base, "pong").unwrap();
    assert!(again.stats().memfd && again.lane_span(0).unwrap().end > 70);
    for ((path, was), (_, is)) in before.iter().zip(links(&base)) {
        assert!(*was != is || path.ends_with("ring.rdr"), "{}", path.display());
    }
}

#[test]
fn joining_a_ring_in_files_as_memfd_is_refused() {
    let (_dir, base) = place();
    let ring = Ring::create("pong", &schema(), options(&base)).unwrap();
    let asked = in_memfds(&base).exist(Exist::Attach);
    let error = segment(Ring::create("pong", &schema(), asked).unwrap_err());
    let SegmentError::Different { what, .. } = &error else { panic!("{error}") };
    assert!(what.contains("memfd"), "{what}");
    drop(ring);
    let ring = make(&base, false);
    // Joining without asking for memfds is allowed.
    let joined = Ring::create("pong", &schema(), options(&base).exist(Exist::Attach)).unwrap();
    assert!(joined.stats().memfd);
    fill(&ring, 3);
    let replaced = Ring::create("pong", &schema(), in_memfds(&base).exist(Exist::Replace)).unwrap();
    assert_eq!((ring.len(), replaced.len()), (2, 0), "its holders keep it, under no name");
}
