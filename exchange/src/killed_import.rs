//! Imports that are killed at every point there is, in processes of their own, and gone on with: the ring
//! is that of an import that nobody disturbed, and nothing else is left.

use std::env;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use backcast_core::{
    Base, Exist, Kind, Ring, SamplerOptions, collect, collect_orphans, list, remove,
};

use crate::killed::{UNIT_ROWS, append, dies, ring};
use crate::{
    BeganAnew, ExportOptions, Format, ImportError, ImportOptions, ImportReport, export, import,
};

/// `DIR FORMAT FROM`: what a child imports, and where the ring is to be.
const IMPORT: &str = "BACKCAST_EXCHANGE_IMPORT";
const FORMATS: [Format; 2] = [Format::Parquet, Format::Minari];
/// Rows of the ring that is exported, and how many of them a dataset has: those of whole steps.
const TABLE_ROWS: u64 = 154;

fn options<'a>(base: &Base) -> ImportOptions<'a> {
    // Every row group, or episode, by itself.
    ImportOptions::named("in").base(base.clone()).persistent(true).unit_bytes(1)
}

/// All that a ring has: the rows of every lane, and what a seed draws of them.
fn content(ring: &Ring) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    for lane in 0..ring.lanes() {
        let span = ring.lane_span(lane).unwrap();
        found.push(format!("{span:?} of {}", ring.lane_capacity()).into_bytes());
        let rows = ring.rows(lane, span).unwrap();
        found.extend(rows.columns().iter().map(|c| rows.bytes(c.name()).unwrap().to_vec()));
        // The file behind its header, which names the ring.
        let file = ring.path().unwrap().join(format!("lane-{lane:04}.dat"));
        found.push(fs::read(file).unwrap().split_off(512));
    }
    let mut sampler = ring.sampler(SamplerOptions::seeded(5).history(3)).unwrap();
    let batch = sampler.sample(64).unwrap();
    let drawn = batch.column::<f32>("obs").unwrap();
    found.push(drawn.iter().flat_map(|value| value.to_ne_bytes()).collect());
    found
}

/// A folder with files that a ring was exported to, and a base directory for rings.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self { folder: tempfile::tempdir().unwrap() };
        place.export(0);
        place
    }

    fn export(&self, salt: u32) {
        let made = tempfile::tempdir().unwrap();
        let ring = ring(&Base::at(made.path()), salt);
        for format in FORMATS {
            let options = ExportOptions::default().overwrite(true).group_rows(UNIT_ROWS);
            export(&ring, &self.from(format), format, options).unwrap();
        }
    }

    fn base(&self) -> Base {
        Base::at(self.folder.path())
    }

    fn from(&self, format: Format) -> PathBuf {
        self.folder.path().join(if format == Format::Minari { "walk" } else { "walk.parquet" })
    }

    fn partial(&self) -> PathBuf {
        self.base().path().join(".partial-in.ring")
    }

    /// What a call gives that nobody disturbs.
    fn undisturbed(&self, format: Format) -> (Vec<Vec<u8>>, ImportReport) {
        let elsewhere = tempfile::tempdir().unwrap();
        let (ring, report) =
            import(&self.from(format), format, options(&Base::at(elsewhere.path()))).unwrap();
        assert_eq!((report.rows_resumed, report.began_anew), (0, None), "{format}");
        (content(&ring), report)
    }

    /// Imports in a process that dies at a point. `false`: it did not come there, and is done.
    fn dies(&self, format: Format, point: &str) -> bool {
        let what =
            format!("{} {format} {}", self.folder.path().display(), self.from(format).display());
        dies("killed_import::a_child_imports", IMPORT, &what, point)
    }

    fn finish(&self, format: Format) -> (Ring, ImportReport) {
        import(&self.from(format), format, options(&self.base())).unwrap()
    }

    /// The ring is there, the same, and alone; takes it away.
    fn assert_same(&self, ring: Ring, expected: &[Vec<u8>], when: &str) {
        assert!(content(&ring) == expected, "{when}: other rows");
        drop(ring);
        let there = list(&self.base()).unwrap();
        let names: Vec<_> = there.iter().map(|info| (&*info.name, info.building)).collect();
        assert_eq!(names, [("in", false)], "{when}");
        remove(&self.base(), Kind::Ring, "in", false).unwrap();
        assert!(!self.base().path().exists(), "{when}: something is left");
    }
}

/// Only in a child.
#[test]
#[ignore = "a child of the tests beside it"]
fn a_child_imports() {
    let Ok(what) = env::var(IMPORT) else { return };
    let [dir, format, from] = what.split(' ').collect::<Vec<_>>()[..] else { panic!("{what}") };
    import(Path::new(from), format.parse().unwrap(), options(&Base::at(dir))).unwrap();
}

/// Rows of the first parts, by the progress of an undisturbed import, a call for each part.
fn rows_after(place: &Place, format: Format, parts: usize) -> u64 {
    let elsewhere = tempfile::tempdir().unwrap();
    let mut rows = Vec::new();
    let note = |progress: &backcast_files::Progress| {
        rows.push(progress.rows);
        ControlFlow::Continue(())
    };
    let options = options(&Base::at(elsewhere.path())).on_progress(note);
    import(&place.from(format), format, options).unwrap();
    rows[parts - 1]
}

#[test]
fn an_import_killed_at_any_point_goes_on_and_gives_the_same_ring() {
    let place = Place::new();
    for format in FORMATS {
        let (expected, whole) = place.undisturbed(format);
        for (point, parts) in [
            ("stored:1", 0),
            ("unit:1", 1),
            ("stored:4", 3),
            ("unit:4", 4),
            ("unit:9", 9),
            ("whole:1", usize::MAX),
            ("named:1", usize::MAX),
        ] {
            assert!(place.dies(format, point), "{format} {point}");
            let (ring, report) = place.finish(format);
            let resumed = match parts {
                0 => 0,
                usize::MAX => whole.rows,
                parts => rows_after(&place, format, parts),
            };
            assert_eq!(
                (report.rows_resumed, report.began_anew),
                (resumed, None),
                "{format} {point}"
            );
            assert_eq!(ImportReport { rows_resumed: 0, ..report }, whole, "{format} {point}");
            place.assert_same(ring, &expected, point);
        }
    }
}

#[test]
fn an_import_killed_at_every_unit_in_turn_gets_there_all_the_same() {
    let place = Place::new();
    for (format, units) in FORMATS.into_iter().zip([TABLE_ROWS.div_ceil(UNIT_ROWS), 16]) {
        let (expected, _) = place.undisturbed(format);
        let mut kills = 0;
        // Each process stores one unit; were it to do one twice, it would not get there in as many.
        while place.dies(format, "unit:1") {
            kills += 1;
        }
        assert_eq!(kills, units, "{format}");
        let ring = Ring::attach_in(&place.base(), "in").unwrap();
        place.assert_same(ring, &expected, "after all");
    }
}

#[test]
fn a_ring_that_was_named_before_anybody_held_it_is_gone_on_with() {
    let place = Place::new();
    let (expected, whole) = place.undisturbed(Format::Parquet);
    assert!(place.dies(Format::Parquet, "named:1"));
    // As if it had not been asked to persist: it counts as absent once its maker is dead.
    fs::remove_file(place.base().path().join("in.ring/persistent")).unwrap();
    let (ring, report) = place.finish(Format::Parquet);
    assert_eq!(report.rows_resumed, whole.rows);
    place.assert_same(ring, &expected, "taken back");
}

#[test]
fn a_ring_that_was_written_since_it_was_named_is_not_the_imports_any_more() {
    let place = Place::new();
    assert!(place.dies(Format::Parquet, "named:1"));
    let ring = Ring::attach_in(&place.base(), "in").unwrap();
    append(&ring, 1, 0);
    let refused = import(&place.from(Format::Parquet), Format::Parquet, options(&place.base()));
    assert!(refused.unwrap_err().to_string().contains("already exists"));
    let replaced = options(&place.base()).exist(Exist::Replace);
    let (new, report) = import(&place.from(Format::Parquet), Format::Parquet, replaced).unwrap();
    assert_eq!((report.rows_resumed, new.uuid() == ring.uuid()), (0, false));
}

#[test]
fn another_file_and_other_options_begin_anew_and_say_why() {
    for format in FORMATS {
        type Change = fn(&Place) -> ImportOptions<'static>;
        let cases: [(BeganAnew, Change); 6] = [
            // The same rows, in a file that was written anew.
            (BeganAnew::Source, |place| {
                place.export(0);
                options(&place.base())
            }),
            (BeganAnew::Source, |place| {
                place.export(3);
                options(&place.base())
            }),
            (BeganAnew::Options, |place| options(&place.base()).capacity(5_000)),
            (BeganAnew::Build, |place| {
                let path = place.partial().join("plan.json");
                let plan = fs::read_to_string(&path).unwrap();
                fs::write(path, plan.replace(env!("CARGO_PKG_VERSION"), "0.0.1")).unwrap();
                options(&place.base())
            }),
            (BeganAnew::Restarted, |place| {
                let path = place.partial().join("plan.json");
                let mut plan: serde_json::Value =
                    serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
                plan["boot"] = 1.into();
                fs::write(path, plan.to_string()).unwrap();
                options(&place.base())
            }),
            (BeganAnew::Damaged, |place| {
                fs::remove_dir_all(place.partial().join("ring")).unwrap();
                options(&place.base())
            }),
        ];
        for (why, change) in cases {
            let place = Place::new();
            assert!(place.dies(format, "unit:5"));
            let options = change(&place);
            let (ring, report) = import(&place.from(format), format, options).unwrap();
            assert_eq!((report.began_anew, report.rows_resumed), (Some(why), 0), "{format}");
            if why != BeganAnew::Options {
                place.assert_same(ring, &place.undisturbed(format).0, &why.to_string());
            }
        }
    }
}

/// Every file that is left is cut or changed at many places: what is still true is kept, and the rows are
/// right in any case.
#[test]
fn what_is_left_is_not_believed() {
    let place = Place::new();
    for format in FORMATS {
        let (expected, _) = place.undisturbed(format);
        for turn in 0..24 {
            assert!(place.dies(format, "unit:6"));
            let ring = place.partial().join("ring");
            let mut files =
                vec![place.partial().join("journal"), place.partial().join("plan.json")];
            files.extend(["ring.ctl", "ring.rdr"].map(|name| ring.join(name)));
            // Where the rows are is most likely where something happens to them.
            files.extend(["lane-0000.dat"; 4].map(|name| ring.join(name)));
            let file = &files[turn % files.len()];
            let mut bytes = fs::read(file).unwrap();
            let at = match bytes.len() {
                // In a lane, of which the rows are the least part: at the header, or among the rows.
                long if long > 4096 => [64, 300, 4096 + 8 * turn][turn % 3],
                short => short * (turn + 1) / 26,
            };
            match (turn % 5, bytes.get_mut(at)) {
                (4, _) => bytes.truncate(at),
                (_, Some(byte)) => *byte ^= 1 << (turn % 8),
                (_, None) => bytes.clear(),
            }
            fs::write(file, bytes).unwrap();
            let (ring, _) = place.finish(format);
            place.assert_same(ring, &expected, &format!("{turn}: {} changed", file.display()));
        }
    }
}

#[test]
fn a_changed_row_costs_its_unit_and_those_after_it() {
    let place = Place::new();
    let (expected, _) = place.undisturbed(Format::Parquet);
    assert!(place.dies(Format::Parquet, "unit:3"));
    let lane = place.partial().join("ring/lane-0000.dat");
    let mut bytes = fs::read(&lane).unwrap();
    // The sequence number of row 20, which is in the second unit: the built-in columns come first.
    let marks = (0..bytes.len() / 8).map(|at| at * 8).find(|at| {
        let word = |row: usize| bytes.get(at + 24 * row..at + 24 * row + 8).map(<[u8]>::to_vec);
        (0_u64..30).zip(0..).all(|(seq, row)| word(row) == Some(seq.to_ne_bytes().to_vec()))
    });
    bytes[marks.unwrap() + 24 * 20] ^= 1;
    fs::write(&lane, bytes).unwrap();
    let (ring, report) = place.finish(Format::Parquet);
    assert_eq!((report.rows_resumed, report.began_anew), (UNIT_ROWS, None));
    place.assert_same(ring, &expected, "one row changed");
}

#[test]
fn parts_make_a_unit_together_until_it_is_large_enough() {
    let place = Place::new();
    for (format, parts) in [(Format::Parquet, 3), (Format::Minari, 4)] {
        let (expected, _) = place.undisturbed(format);
        let rows = rows_after(&place, format, parts);
        let mut calls = 0;
        let stop = |_: &_| {
            calls += 1;
            if calls < parts + 2 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        let row_bytes = 24 + 20;
        let units = || options(&place.base()).unit_bytes(rows * row_bytes);
        let stopped = import(&place.from(format), format, units().on_progress(stop)).unwrap_err();
        assert!(matches!(stopped, ImportError::Interrupted { partial: Some(_) }), "{stopped}");
        let (ring, report) = import(&place.from(format), format, units()).unwrap();
        assert_eq!(report.rows_resumed, rows, "{format}");
        place.assert_same(ring, &expected, "after a stop");
    }
}

#[test]
fn an_import_that_is_stopped_leaves_what_it_has_and_says_so() {
    let place = Place::new();
    for format in FORMATS {
        let (expected, _) = place.undisturbed(format);
        let mut calls = 0;
        let stop = |_: &_| {
            calls += 1;
            if calls < 4 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        let options = options(&place.base()).on_progress(stop);
        let stopped = import(&place.from(format), format, options).unwrap_err();
        let ImportError::Interrupted { partial: Some(left) } = &stopped else {
            panic!("{stopped}")
        };
        assert!(stopped.to_string().contains("goes on") && *left == place.partial(), "{stopped}");
        let (ring, report) = place.finish(format);
        assert_eq!(report.rows_resumed, rows_after(&place, format, 3), "{format}");
        place.assert_same(ring, &expected, "stopped");
    }
}

#[test]
fn what_was_left_goes_with_its_name_and_stays_while_somebody_is_at_it() {
    let place = Place::new();
    let base = place.base();
    assert!(place.dies(Format::Parquet, "unit:5"));
    let there = list(&base).unwrap();
    let [left] = &there[..] else { panic!("{there:?}") };
    assert_eq!(
        (&*left.name, left.is_partial(), left.building, left.held),
        ("in", true, true, false)
    );
    assert!(left.bytes > 4096, "with the ring that is in it: {left:?}");
    assert_eq!(collect_orphans(&base).unwrap(), [], "somebody may come back to it");
    assert!(Ring::attach_in(&base, "in").is_err());
    let mut seen = None;
    let look = |_: &_| {
        seen.get_or_insert_with(|| {
            let second = import(&place.from(Format::Minari), Format::Minari, options(&base));
            (second.map(drop), collect(&base).unwrap(), list(&base).unwrap())
        });
        ControlFlow::Continue(())
    };
    let first = options(&base).on_progress(look);
    let (ring, _) = import(&place.from(Format::Parquet), Format::Parquet, first).unwrap();
    let (second, collected, listed) = seen.unwrap();
    assert!(matches!(second, Err(ImportError::Busy { .. })), "{second:?}");
    assert!(collected.is_empty() && listed[0].held && listed[0].is_partial(), "{listed:?}");
    drop(ring);
    remove(&base, Kind::Ring, "in", false).unwrap();
    assert!(place.dies(Format::Parquet, "unit:5"));
    assert_eq!(collect(&base).unwrap().len(), 1);
    assert!(!base.path().exists());
}

#[test]
fn an_error_leaves_nothing_and_a_taken_name_leaves_what_was_there() {
    let place = Place::new();
    let base = place.base();
    let from = place.from(Format::Parquet);
    let whole = fs::read(&from).unwrap();
    // The footer is as it was, and so is the first row group: of what is packed, the middle is not.
    let mut bytes = whole.clone();
    let packed: Vec<usize> =
        (0..bytes.len()).filter(|at| bytes[*at..].starts_with(&[0x28, 0xb5, 0x2f, 0xfd])).collect();
    bytes[packed[packed.len() / 2]] ^= 1;
    fs::write(&from, bytes).unwrap();
    let damaged = import(&from, Format::Parquet, options(&base)).unwrap_err();
    assert!(matches!(damaged, ImportError::Damaged { .. }), "{damaged}");
    assert!(!base.path().exists());
    fs::write(&from, whole).unwrap();
    assert!(place.dies(Format::Parquet, "unit:5"));
    let in_the_way = ring(&Base::at(place.folder.path()), 0);
    let taken = ImportOptions::named("walk").base(base.clone()).unit_bytes(1);
    let taken = import(&from, Format::Parquet, taken);
    assert!(taken.unwrap_err().to_string().contains("already exists"));
    let names: Vec<_> = list(&base).unwrap().into_iter().map(|info| info.name).collect();
    assert_eq!(names, ["in", "walk"], "no partial ring of that name");
    drop(in_the_way);
    assert!(place.finish(Format::Parquet).1.rows_resumed > 0);
}

#[test]
fn a_ring_that_is_replaced_stays_until_the_new_one_is_whole() {
    let place = Place::new();
    let (base, from) = (place.base(), place.from(Format::Parquet));
    let (old, _) = place.finish(Format::Parquet);
    append(&old, 1, 0);
    let (uuid, before) = (old.uuid(), content(&old));
    drop(old);
    let stop = |_: &_| ControlFlow::Break(());
    let mut calls = 0;
    let later = |_: &_| {
        calls += 1;
        if calls < 4 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    let replacing = || options(&base).exist(Exist::Replace);
    let stopped = import(&from, Format::Parquet, replacing().on_progress(stop)).unwrap_err();
    assert!(matches!(stopped, ImportError::Interrupted { partial: None }), "{stopped}");
    let stopped = import(&from, Format::Parquet, replacing().on_progress(later)).unwrap_err();
    assert!(matches!(stopped, ImportError::Interrupted { partial: Some(_) }), "{stopped}");
    let old = Ring::attach_in(&base, "in").unwrap();
    assert!(old.uuid() == uuid && content(&old) == before);
    drop(old);
    let (new, report) = import(&from, Format::Parquet, replacing()).unwrap();
    assert_eq!(report.rows_resumed, 3 * UNIT_ROWS);
    place.assert_same(new, &place.undisturbed(Format::Parquet).0, "replaced");
}
