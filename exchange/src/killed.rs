//! Kills exports and imports at every point, in processes of their own. The collectors remove the
//! files left. The next export or import also succeeds if no collector has run.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use backcast_core::{
    AutoresetMode, Base, DType, Ring, RingOptions, Schema, Step, WriterOptions, collect_garbage,
    list_objects,
};
use rustix::process::{Signal, getpid, kill_process};

use crate::{
    ExportError, ExportOptions, Format, ImportOptions, collect_exports, export, import,
    unfinished_exports,
};

/// `NAME:N`: the process kills itself at the N-th visit of point NAME.
const DIE_AT: &str = "BACKCAST_EXCHANGE_DIE_AT";
/// `WORK DIR FORMAT FILE`: the work of a child.
const WORK: &str = "BACKCAST_EXCHANGE_WORK";
const SUFFIX: &str = ".backcast-partial";
const FORMATS: [Format; 3] = [Format::Parquet, Format::Csv, Format::Minari];

pub(crate) fn point(name: &str) {
    static VISITS: AtomicU64 = AtomicU64::new(0);
    let Ok(at) = env::var(DIE_AT) else { return };
    let (wanted, count) = at.split_once(':').unwrap();
    if wanted == name && VISITS.fetch_add(1, Relaxed) + 1 == count.parse::<u64>().unwrap() {
        kill_process(getpid(), Signal::KILL).unwrap();
    }
}

/// Runs the child with its work; returns whether it was killed at the point.
fn dies(work: &str, point: &str) -> bool {
    let child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "killed::child", "--ignored"])
        .env(WORK, work)
        .env(DIE_AT, point)
        .stdout(Stdio::null())
        .status()
        .unwrap();
    let killed = child.signal() == Some(9);
    assert!(killed || child.success(), "{work} at {point}: {child}");
    killed
}

#[test]
#[ignore = "a role: other tests start it as a process of its own"]
fn child() {
    let work = env::var(WORK).expect("a role, started by the tests below");
    let [work, dir, format, file] = work.split(' ').collect::<Vec<_>>()[..] else {
        panic!("{work}")
    };
    let (base, format, file) = (Base::at(dir), format.parse().unwrap(), Path::new(file));
    let progress = |_: &_| {
        point("rows");
        ControlFlow::Continue(())
    };
    if work == "export" {
        let ring = Ring::attach_in(&base, "walk").unwrap();
        export(&ring, file, format, options().on_progress(progress)).unwrap();
    } else {
        let options = ImportOptions::named("in").base(base).persistent(true);
        import(file, format, options.on_progress(progress)).unwrap();
    }
}

/// Returns a ring of two lanes with episodes of nine steps.
fn ring(base: &Base) -> Ring {
    let builder =
        Schema::builder().column("obs", DType::F32, &[3]).column("action", DType::I32, &[]);
    let schema = builder.column("reward", DType::F32, &[]).build().unwrap();
    let options = RingOptions::with_capacity(400).lanes(2).base(base.clone());
    let ring = Ring::create("walk", &schema, options).unwrap();
    let options = WriterOptions::lanes(2).autoreset(AutoresetMode::SameStep);
    let mut writer = ring.writer(options).unwrap();
    for step in 0..70_u16 {
        let number = f32::from(step * 7);
        let obs: Vec<u8> =
            (0..6_u8).flat_map(|at| (number + f32::from(at)).to_ne_bytes()).collect();
        let action: Vec<u8> = [step; 2].iter().flat_map(|a| i32::from(*a).to_ne_bytes()).collect();
        let reward: Vec<u8> = [number, -number].iter().flat_map(|r| r.to_ne_bytes()).collect();
        let step = Step {
            schema: &schema,
            columns: &[&obs, &action, &reward],
            terminated: &[step % 9 == 8; 2],
            truncated: &[false; 2],
            next_obs: None,
            final_obs: Some(&[&obs]),
        };
        writer.append(step).unwrap();
    }
    ring
}

/// Returns options with small groups, so that there are several.
fn options<'a>() -> ExportOptions<'a> {
    ExportOptions::default().overwrite(true).group_rows(16)
}

/// Returns every file at a path and below it.
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

/// A folder with a ring, and a folder for exports of it.
struct Place {
    folder: tempfile::TempDir,
    ring: Ring,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let ring = ring(&Base::at(folder.path()));
        Self { folder, ring }
    }

    fn base(&self) -> Base {
        Base::at(self.folder.path())
    }

    fn out(&self) -> PathBuf {
        self.folder.path().join("out")
    }

    fn to(&self, format: Format) -> PathBuf {
        self.out().join(name(format))
    }

    /// Empties the folder of exports and puts something there to be replaced.
    fn prepare(&self, format: Format) {
        let to = self.to(format);
        let _ = fs::remove_dir_all(self.out());
        fs::create_dir(self.out()).unwrap();
        if format == Format::Minari {
            fs::create_dir_all(to.join("data")).unwrap();
            fs::write(to.join("data/metadata.json"), "before").unwrap();
        } else {
            fs::write(&to, "before").unwrap();
        }
    }

    fn export_dies(&self, format: Format, point: &str) -> bool {
        let (dir, to) = (self.folder.path().display(), self.to(format));
        dies(&format!("export {dir} {format} {}", to.display()), point)
    }

    /// Exports undisturbed, to the same name elsewhere: a dataset's name is in its metadata.
    fn expected(&self, format: Format) -> BTreeMap<PathBuf, Vec<u8>> {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join(name(format));
        export(&self.ring, &to, format, options()).unwrap();
        content(&to)
    }

    fn entries(&self) -> Vec<String> {
        let entries = fs::read_dir(self.out()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn name(format: Format) -> &'static str {
    match format {
        Format::Minari => "walk",
        Format::Csv => "walk.csv",
        _ => "walk.parquet",
    }
}

/// Points of an export, and whether the path has the new content when the process dies there.
const POINTS: [(&str, bool); 7] = [
    ("rows:1", false),
    ("rows:5", false),
    ("whole:1", false),
    ("moved away:1", false),
    ("renamed:1", true),
    ("cleared:1", true),
    ("unlocked:1", true),
];

#[test]
fn a_killed_export_is_collected_and_leaves_the_old_file_or_the_new_one() {
    let place = Place::new();
    for format in FORMATS {
        let expected = place.expected(format);
        for (point, is_new) in POINTS {
            place.prepare(format);
            let before = content(&place.to(format));
            let killed = place.export_dies(format, point);
            if point == "moved away:1" && format != Format::Minari {
                assert!(!killed, "{format}: a file is replaced in one step");
                continue;
            }
            assert!(killed, "{format} {point}");
            let left = format!("{}{SUFFIX}", name(format));
            assert!(place.entries().contains(&left), "{format} {point}");
            let found = unfinished_exports(&place.out()).unwrap();
            assert_eq!(found.len(), 1, "{format} {point}");
            assert_eq!(found[0].path, place.out().join(&left), "{format} {point}");
            assert!(point != "whole:1" || found[0].bytes > 0, "{format} {point}");
            assert!(place.entries().contains(&left), "{format} {point}: listing removed it");
            assert_eq!(collect_exports(&place.out()).unwrap(), found, "{format} {point}");
            assert_eq!(place.entries(), [name(format)], "{format} {point}");
            let there = content(&place.to(format));
            assert!(there == *if is_new { &expected } else { &before }, "{format} {point}");
            assert_eq!(collect_exports(&place.out()).unwrap(), [], "{format} {point}");
        }
    }
}

#[test]
fn the_next_export_to_the_path_replaces_what_a_killed_one_left() {
    let place = Place::new();
    for format in FORMATS {
        let expected = place.expected(format);
        for (point, _) in POINTS {
            place.prepare(format);
            place.export_dies(format, point);
            export(&place.ring, &place.to(format), format, options()).unwrap();
            assert!(content(&place.to(format)) == expected, "{format} {point}");
            assert_eq!(place.entries(), [name(format)], "{format} {point}");
        }
    }
}

#[test]
fn a_dataset_moved_away_by_a_killed_export_gets_its_name_back_from_a_refused_one() {
    let place = Place::new();
    place.prepare(Format::Minari);
    assert!(place.export_dies(Format::Minari, "moved away:1"));
    let to = place.to(Format::Minari);
    assert!(!to.exists());
    let refused = options().overwrite(false);
    let refused = export(&place.ring, &to, Format::Minari, refused).unwrap_err();
    assert!(matches!(refused, ExportError::Exists { .. }), "{refused}");
    assert_eq!(fs::read(to.join("data/metadata.json")).unwrap(), b"before");
    assert_eq!(place.entries(), ["walk"]);
}

#[test]
fn a_running_export_and_foreign_folders_are_neither_collected_nor_replaced() {
    let place = Place::new();
    let to = place.to(Format::Csv);
    fs::create_dir(place.out()).unwrap();
    let mut seen = None;
    let once = |_: &_| {
        seen.get_or_insert_with(|| {
            let second = export(&place.ring, &to, Format::Csv, options());
            let found = unfinished_exports(&place.out()).unwrap();
            (second.unwrap_err(), found, collect_exports(&place.out()).unwrap())
        });
        ControlFlow::Continue(())
    };
    export(&place.ring, &to, Format::Csv, options().on_progress(once)).unwrap();
    let (second, found, collected) = seen.unwrap();
    assert!(matches!(second, ExportError::Busy { .. }), "{second}");
    assert_eq!((found, collected), (Vec::new(), Vec::new()));
    let folder = place.out().join(format!("walk.csv{SUFFIX}"));
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("mine"), "mine").unwrap();
    fs::write(place.out().join(format!("file{SUFFIX}")), "mine").unwrap();
    let refused = export(&place.ring, &to, Format::Csv, options()).unwrap_err();
    assert!(matches!(refused, ExportError::NotPartial { .. }), "{refused}");
    assert_eq!(collect_exports(&place.out()).unwrap(), []);
    assert_eq!(fs::read(folder.join("mine")).unwrap(), b"mine");
    assert_eq!(place.entries().len(), 3);
}

#[test]
fn a_stopped_export_leaves_nothing() {
    let place = Place::new();
    for format in FORMATS {
        place.prepare(format);
        let before = content(&place.to(format));
        let mut calls = 0;
        let stop = |_: &_| {
            calls += 1;
            if calls < 4 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        let options = options().on_progress(stop);
        let stopped = export(&place.ring, &place.to(format), format, options).unwrap_err();
        assert!(matches!(stopped, ExportError::Interrupted), "{stopped}");
        assert!(content(&place.to(format)) == before, "{format}");
        assert_eq!(place.entries(), [name(format)], "{format}");
    }
}

#[test]
fn a_killed_import_is_collected_and_can_be_repeated() {
    let place = Place::new();
    let target = tempfile::tempdir().unwrap();
    let base = Base::at(target.path());
    for format in [Format::Parquet, Format::Minari] {
        place.prepare(format);
        export(&place.ring, &place.to(format), format, options()).unwrap();
        for point in ["rows:1", "rows:4"] {
            let (dir, from) = (target.path().display(), place.to(format));
            let work = format!("import {dir} {format} {}", from.display());
            assert!(dies(&work, point), "{format} {point}");
            let left = list_objects(&base).unwrap();
            assert!(matches!(&left[..], [one] if one.building && !one.held), "{left:?}");
            assert!(Ring::attach_in(&base, "in").is_err(), "{format} {point}");
            assert_eq!(collect_garbage(&base).unwrap().len(), 1, "{format} {point}");
            assert!(!base.path().exists(), "{format} {point}");
            assert!(dies(&work, point), "{format} {point}");
            let options = ImportOptions::named("in").base(base.clone());
            let (ring, report) = import(&from, format, options).unwrap();
            let rows: u64 = (0..ring.lanes())
                .map(|lane| ring.lane_span(lane).unwrap())
                .map(|span| span.end - span.start)
                .sum();
            assert_eq!(report.rows, rows, "{format} {point}");
            drop(ring);
            assert_eq!(collect_garbage(&base).unwrap().len(), 1, "{format} {point}");
        }
    }
    assert_eq!(list_objects(&place.base()).unwrap().len(), 1);
}
