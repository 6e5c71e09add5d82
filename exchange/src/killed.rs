//! Exports that are killed at every point there is, in processes of their own, and gone on with: the bytes
//! are those of an export that nobody disturbed, and nothing else is left.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use backcast_core::{AutoresetMode, Base, DType, Ring, RingOptions, Schema, Step, WriterOptions};
use rustix::process::{Signal, getpid, kill_process};

use crate::{BeganAnew, ExportError, ExportOptions, ExportReport, Format, export};

/// `NAME:N`: the process dies when it comes to the point NAME for the N-th time.
const DIE_AT: &str = "BACKCAST_EXCHANGE_DIE_AT";
/// `DIR FORMAT TO`: what a child exports, and where the ring is.
const EXPORT: &str = "BACKCAST_EXCHANGE_EXPORT";
/// Few, so that there are many units.
pub(crate) const UNIT_ROWS: u64 = 16;

pub(crate) fn point(name: &str) {
    static CAME: AtomicU64 = AtomicU64::new(0);
    let Ok(at) = env::var(DIE_AT) else { return };
    let (wanted, count) = at.split_once(':').unwrap();
    if wanted == name && CAME.fetch_add(1, Relaxed) + 1 == count.parse::<u64>().unwrap() {
        kill_process(getpid(), Signal::KILL).unwrap();
    }
}

/// Runs a test that is a child's in a process that dies at a point; `variable` tells it what to do.
/// `false`: it did not come there, and is done.
pub(crate) fn dies(test: &str, variable: &str, what: &str, point: &str) -> bool {
    let child = Command::new(env::current_exe().unwrap())
        .args(["--exact", test, "--ignored"])
        .env(variable, what)
        .env(DIE_AT, point)
        .stdout(Stdio::null())
        .status()
        .unwrap();
    let killed = child.signal() == Some(9);
    assert!(killed || child.success(), "{what} at {point}: {child}");
    killed
}

fn schema() -> Schema {
    let builder =
        Schema::builder().column("obs", DType::F32, &[3]).column("action", DType::I32, &[]);
    builder.column("reward", DType::F32, &[]).build().unwrap()
}

pub(crate) fn ring(base: &Base, salt: u32) -> Ring {
    let options = RingOptions::with_capacity(400).lanes(2).base(base.clone());
    let ring = Ring::create("walk", &schema(), options).unwrap();
    append(&ring, 70, salt);
    ring
}

/// Episodes of nine steps, the last of which has not ended.
pub(crate) fn append(ring: &Ring, steps: u32, salt: u32) {
    let options = WriterOptions::lanes(2).autoreset(AutoresetMode::SameStep);
    let mut writer = ring.writer(options).unwrap();
    for step in 0..steps {
        let number = f32::from(u16::try_from(step * 7 + salt).unwrap());
        let obs: Vec<u8> =
            (0..6_u8).flat_map(|at| (number + f32::from(at)).to_ne_bytes()).collect();
        let action: Vec<u8> = [step, step + salt].iter().flat_map(|a| a.to_ne_bytes()).collect();
        let reward: Vec<u8> = [number, -number].iter().flat_map(|r| r.to_ne_bytes()).collect();
        let ends = step % 9 == 8;
        let step = Step {
            columns: &[&obs, &action, &reward],
            terminated: &[ends; 2],
            truncated: &[false; 2],
            next_obs: None,
            final_obs: Some(&[&obs]),
        };
        writer.append(&step).unwrap();
    }
}

fn options<'a>() -> ExportOptions<'a> {
    ExportOptions::default().overwrite(true).group_rows(UNIT_ROWS)
}

/// Every file at a path and below it.
fn content(path: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![path.to_owned()];
    while let Some(at) = open.pop() {
        if at.is_dir() {
            open.extend(fs::read_dir(&at).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            found.insert(at.strip_prefix(path).unwrap().to_owned(), fs::read(&at).unwrap());
        }
    }
    found
}

/// A folder with a ring, and what an undisturbed export of it gives in every format.
struct Place {
    folder: tempfile::TempDir,
    ring: Ring,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let ring = ring(&Base::at(folder.path()), 0);
        Self { folder, ring }
    }

    /// The same name, elsewhere: a dataset's name is among its words.
    fn undisturbed(&self, format: Format) -> (BTreeMap<PathBuf, Vec<u8>>, ExportReport) {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join(name(format));
        let report = export(&self.ring, &to, format, options()).unwrap();
        assert_eq!((report.rows_resumed, report.began_anew), (0, None), "{format}");
        (content(&to), report)
    }

    fn to(&self, format: Format) -> PathBuf {
        self.folder.path().join("out").join(name(format))
    }

    /// Something that is there before.
    fn prepare(&self, format: Format) {
        let to = self.to(format);
        let _ = fs::remove_dir_all(self.folder.path().join("out"));
        fs::create_dir(self.folder.path().join("out")).unwrap();
        if format == Format::Minari {
            fs::create_dir_all(to.join("data")).unwrap();
            fs::write(to.join("data/metadata.json"), "before").unwrap();
        } else {
            fs::write(&to, "before").unwrap();
        }
    }

    /// Exports in a process that dies at a point. `false`: it did not come there, and is done.
    fn dies(&self, format: Format, point: &str) -> bool {
        let to = self.to(format);
        let what = format!("{} {format} {}", self.folder.path().display(), to.display());
        dies("killed::a_child_exports", EXPORT, &what, point)
    }

    fn finish(&self, format: Format) -> ExportReport {
        export(&self.ring, &self.to(format), format, options()).unwrap()
    }

    fn assert_same(&self, format: Format, expected: &BTreeMap<PathBuf, Vec<u8>>, when: &str) {
        assert!(content(&self.to(format)) == *expected, "{format} {when}: other bytes");
        let beside = fs::read_dir(self.folder.path().join("out")).unwrap();
        let beside: Vec<_> = beside.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(beside, [name(format)], "{format} {when}");
    }
}

fn name(format: Format) -> &'static str {
    match format {
        Format::Minari => "walk",
        Format::Csv => "walk.csv",
        _ => "walk.parquet",
    }
}

const FORMATS: [Format; 3] = [Format::Parquet, Format::Csv, Format::Minari];

/// Only in a child.
#[test]
#[ignore = "a child of the tests beside it"]
fn a_child_exports() {
    let Ok(what) = env::var(EXPORT) else { return };
    let [dir, format, to] = what.split(' ').collect::<Vec<_>>()[..] else { panic!("{what}") };
    let ring = Ring::attach_in(&Base::at(dir), "walk").unwrap();
    export(&ring, Path::new(to), format.parse().unwrap(), options()).unwrap();
}

#[test]
fn an_export_killed_at_any_point_goes_on_and_gives_the_same_bytes() {
    let place = Place::new();
    for format in FORMATS {
        let (expected, whole) = place.undisturbed(format);
        for point in ["bytes:1", "unit:1", "bytes:4", "unit:4", "unit:9", "whole:1", "moved away:1"]
            .into_iter()
            .chain(["named:1", "cleared:1", "unlocked:1"])
        {
            place.prepare(format);
            let killed = place.dies(format, point);
            assert!(killed || (point == "moved away:1" && format != Format::Minari), "{point}");
            let report = place.finish(format);
            place.assert_same(format, &expected, point);
            assert_eq!(report.began_anew, None, "{format} {point}");
            let expected = match point {
                "bytes:1" | "moved away:1" | "cleared:1" | "unlocked:1" => report.rows_resumed,
                "unit:1" => UNIT_ROWS,
                "bytes:4" => 3 * UNIT_ROWS,
                "unit:4" => 4 * UNIT_ROWS,
                "unit:9" => 9 * UNIT_ROWS,
                _ => 154,
            };
            assert_eq!(report.rows_resumed, expected, "{format} {point}");
            let same = ExportReport { rows_resumed: 0, ..report };
            assert_eq!(same, whole, "{format} {point}");
        }
    }
}

#[test]
fn an_export_killed_at_every_unit_in_turn_gets_there_all_the_same() {
    let place = Place::new();
    for format in FORMATS {
        let (expected, _) = place.undisturbed(format);
        place.prepare(format);
        let mut kills = 0;
        // Each process does one unit; what it found is not counted.
        while place.dies(format, "unit:1") {
            kills += 1;
        }
        assert_eq!(kills, 10, "{format}");
        place.assert_same(format, &expected, "after all");
    }
}

#[test]
fn an_old_dataset_has_its_name_again_when_the_export_that_replaced_it_was_killed() {
    let place = Place::new();
    place.prepare(Format::Minari);
    assert!(place.dies(Format::Minari, "moved away:1"));
    let to = place.to(Format::Minari);
    assert!(!to.exists());
    // Something else to export: what was begun is dropped, and what was there before is not.
    append(&place.ring, 1, 3);
    let refused = options().overwrite(false);
    let refused = export(&place.ring, &to, Format::Minari, refused).unwrap_err();
    assert!(matches!(refused, ExportError::Exists { .. }), "{refused}");
    assert_eq!(fs::read(to.join("data/metadata.json")).unwrap(), b"before");
}

#[test]
fn another_ring_other_rows_and_other_options_begin_anew_and_say_why() {
    for format in FORMATS {
        type Change = fn(&mut Place, &Path) -> ExportOptions<'static>;
        let cases: [(BeganAnew, Change); 5] = [
            (BeganAnew::Rows, |place, _| {
                append(&place.ring, 1, 0);
                options()
            }),
            // As many rows under the same numbers, and others.
            (BeganAnew::Rows, |place, _| {
                place.ring.unlink().unwrap();
                place.ring = ring(&Base::at(place.folder.path()), 1);
                options()
            }),
            (BeganAnew::Options, |_, _| options().group_rows(UNIT_ROWS + 1)),
            (BeganAnew::Build, |_, partial| {
                let plan = fs::read_to_string(partial.join("plan.json")).unwrap();
                let plan = plan.replace(env!("CARGO_PKG_VERSION"), "0.0.1");
                fs::write(partial.join("plan.json"), plan).unwrap();
                options()
            }),
            (BeganAnew::Damaged, |_, partial| {
                fs::remove_dir_all(partial.join("new"))
                    .or_else(|_| fs::remove_file(partial.join("new")))
                    .unwrap();
                options()
            }),
        ];
        for (why, change) in cases {
            let mut place = Place::new();
            place.prepare(format);
            assert!(place.dies(format, "unit:5"));
            let to = place.to(format);
            let partial = to.with_file_name(format!("{}.partial", name(format)));
            let options = change(&mut place, &partial);
            let report = export(&place.ring, &to, format, options).unwrap();
            assert_eq!((report.began_anew, report.rows_resumed), (Some(why), 0), "{format}");
            if why != BeganAnew::Options {
                let (expected, _) = place.undisturbed(format);
                place.assert_same(format, &expected, &why.to_string());
            }
        }
    }
}

/// Cut and changed at many places: what is still true is kept, and the bytes are right in any case.
#[test]
fn what_is_left_is_not_believed() {
    let place = Place::new();
    for format in FORMATS {
        let (expected, _) = place.undisturbed(format);
        for turn in 0..16 {
            place.prepare(format);
            assert!(place.dies(format, "unit:6"));
            let to = place.to(format);
            let partial = to.with_file_name(format!("{}.partial", name(format)));
            let files: Vec<PathBuf> = content(&partial).into_keys().collect();
            let file = partial.join(&files[turn % files.len()]);
            let mut bytes = fs::read(&file).unwrap();
            let at = bytes.len() * (turn + 1) / 18;
            match (turn % 3, bytes.get_mut(at)) {
                (0, Some(byte)) => *byte ^= 1 << (turn % 8),
                (1, Some(byte)) => *byte = b'9',
                _ => bytes.truncate(at),
            }
            fs::write(&file, bytes).unwrap();
            place.finish(format);
            place.assert_same(format, &expected, &format!("with {} changed", file.display()));
        }
    }
}

#[test]
fn two_exports_to_one_path_and_a_folder_of_somebody_elses_are_refused() {
    let place = Place::new();
    let to = place.to(Format::Csv);
    fs::create_dir(to.parent().unwrap()).unwrap();
    let mut refused = None;
    let once = |_: &_| {
        let second = export(&place.ring, &to, Format::Csv, options());
        refused.get_or_insert_with(|| second.unwrap_err());
        ControlFlow::Continue(())
    };
    export(&place.ring, &to, Format::Csv, options().on_progress(once)).unwrap();
    assert!(matches!(refused, Some(ExportError::Busy { .. })), "{refused:?}");
    let folder = to.with_file_name("walk.csv.partial");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("mine"), "mine").unwrap();
    let refused = export(&place.ring, &to, Format::Csv, options()).unwrap_err();
    assert!(matches!(refused, ExportError::NotPartial { .. }), "{refused}");
    assert_eq!(fs::read(folder.join("mine")).unwrap(), b"mine");
}

#[test]
fn an_export_that_is_stopped_leaves_what_it_has_and_says_so() {
    let place = Place::new();
    for format in FORMATS {
        place.prepare(format);
        let (expected, _) = place.undisturbed(format);
        let mut calls = 0;
        let stop = |_: &_| {
            calls += 1;
            if calls < 4 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        let to = place.to(format);
        let stopped = export(&place.ring, &to, format, options().on_progress(stop)).unwrap_err();
        let ExportError::Interrupted { partial: Some(left) } = &stopped else {
            panic!("{stopped}")
        };
        assert!(stopped.to_string().contains("goes on") && left.is_dir(), "{stopped}");
        assert!(content(&to).values().all(|bytes| bytes == b"before"), "{format}");
        assert_eq!(place.finish(format).rows_resumed, 3 * UNIT_ROWS, "{format}");
        place.assert_same(format, &expected, "stopped");
    }
}
