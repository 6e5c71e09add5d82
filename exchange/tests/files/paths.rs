//! Files at the path of an export before it, and after it fails.

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::thread;

use backcast_core::{Base, DType, Ring, Schema};
use backcast_exchange::{ExportError, ExportOptions, Format, export};

use super::made;

fn ring(base: &Path) -> Ring {
    let builder =
        Schema::builder().column("obs", DType::F32, &[2]).column("action", DType::I64, &[]);
    let schema = builder.column("reward", DType::F32, &[]).build().unwrap();
    made::ring(&Base::at(base), "walk", &schema, 100, 1, 20, 5)
}

fn over<'a>() -> ExportOptions<'a> {
    ExportOptions::default().overwrite(true)
}

/// Returns the files and folders at a path and below it. Folders have no bytes.
fn tree(path: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut found, mut open) = (BTreeMap::new(), vec![path.to_owned()]);
    while let Some(at) = open.pop() {
        let mut bytes = Vec::new();
        if at.is_dir() {
            open.extend(fs::read_dir(&at).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            bytes = fs::read(&at).unwrap();
        }
        found.insert(at.strip_prefix(path).unwrap().to_owned(), bytes);
    }
    found
}

#[test]
fn other_files_than_exports_are_refused_and_kept() {
    let dir = tempfile::tempdir().unwrap();
    let ring = ring(dir.path());
    let dataset = ["data/metadata.json", "data/0/part-0.parquet"];
    let cases: [(&str, Format, &[&str], &str); 11] = [
        ("d", Format::Minari, &["thesis.txt"], "`thesis.txt`"),
        ("d", Format::Minari, &[".git/HEAD"], "`.git`"),
        ("d", Format::Minari, &["data"], "`data`"),
        ("d", Format::Minari, &[dataset[0], dataset[1], "notes.md"], "`notes.md`"),
        ("d", Format::Minari, &[dataset[0], dataset[1], "data/raw/a.bin"], "`data/raw`"),
        ("d", Format::Minari, &[dataset[0], "data/7"], "`data/7`"),
        ("d", Format::Minari, &[dataset[0], "data/main_data.hdf5"], "`data/main_data.hdf5`"),
        ("d", Format::Minari, &["data/2024/photo.jpg"], "data/metadata.json"),
        ("d", Format::Minari, &[], ""),
        ("d.parquet", Format::Parquet, &["thesis.txt"], "parquet"),
        ("d.csv", Format::Csv, dataset.as_slice(), "csv"),
    ];
    for (turn, (name, format, files, why)) in cases.into_iter().enumerate() {
        let folder = dir.path().join(turn.to_string());
        fs::create_dir(&folder).unwrap();
        let to = folder.join(name);
        for file in files {
            let file = to.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "mine").unwrap();
        }
        if files.is_empty() {
            fs::write(&to, "mine").unwrap();
        }
        let before = tree(&folder);
        for options in [over(), ExportOptions::default()] {
            let mut steps = 0;
            let options = options.on_progress(|_| {
                steps += 1;
                ControlFlow::Continue(())
            });
            let refused = export(&ring, &to, format, options).unwrap_err();
            assert!(matches!(refused, ExportError::NotReplaced { .. }), "{turn}: {refused}");
            let said = refused.to_string();
            assert!(said.contains(why) && said.contains(to.to_str().unwrap()), "{turn}: {said}");
            assert_eq!(steps, 0, "{turn}: refused before any work");
            assert!(tree(&folder) == before, "{turn}: changed");
        }
    }
}

#[test]
fn an_empty_folder_and_a_dataset_are_replaced_by_a_dataset() {
    let dir = tempfile::tempdir().unwrap();
    let ring = ring(dir.path());
    let to = dir.path().join("walk-v0");
    fs::create_dir(&to).unwrap();
    let exists = export(&ring, &to, Format::Minari, ExportOptions::default()).unwrap_err();
    let said = exists.to_string();
    assert!(said.contains("`--overwrite`") && said.contains("`overwrite=True`"), "{said}");
    export(&ring, &to, Format::Minari, over()).unwrap();
    let first = tree(&to);
    // A dataset that lost its last episodes is replaced too.
    fs::remove_dir_all(to.join("data/3")).unwrap();
    export(&ring, &to, Format::Minari, over()).unwrap();
    assert!(tree(&to) == first);
}

#[test]
fn a_path_that_ends_in_a_slash_names_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let ring = ring(dir.path());
    let to = PathBuf::from(format!("{}/walk.csv/", dir.path().display()));
    let refused = export(&ring, &to, Format::Csv, over()).unwrap_err();
    assert!(matches!(refused, ExportError::NamesFolder { format: "csv", .. }), "{refused}");
    assert!(refused.to_string().contains("walk.csv/"), "{refused}");
    assert!(!dir.path().join("walk.csv.backcast-partial").exists());
}

#[test]
fn files_that_appear_during_an_export_are_kept() {
    for (name, format) in [("walk.csv", Format::Csv), ("walk", Format::Minari)] {
        let dir = tempfile::tempdir().unwrap();
        let ring = ring(dir.path());
        let out = dir.path().join("out");
        fs::create_dir(&out).unwrap();
        let to = out.join(name);
        let comes = |_: &_| {
            fs::create_dir_all(&to).unwrap();
            fs::write(to.join("thesis.txt"), "mine").unwrap();
            ControlFlow::Continue(())
        };
        let refused = export(&ring, &to, format, over().on_progress(comes)).unwrap_err();
        assert!(matches!(refused, ExportError::NotReplaced { .. }), "{refused}");
        assert_eq!(fs::read(to.join("thesis.txt")).unwrap(), b"mine");
        let left: Vec<_> = fs::read_dir(&out).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left, [name], "{format}");
    }
}

#[test]
fn exports_to_one_path_at_once_are_done_or_wait_for_another_and_none_finds_a_strangers_folder() {
    const AT_ONCE: usize = 8;
    let dir = tempfile::tempdir().unwrap();
    let ring = ring(dir.path());
    let to = dir.path().join("walk.csv");
    let begin = Barrier::new(AT_ONCE);
    let export_often = || {
        begin.wait();
        let mut done = 0;
        for _ in 0..2_000 {
            match export(&ring, &to, Format::Csv, over()) {
                Ok(_) => done += 1,
                Err(ExportError::Busy { .. }) => {}
                Err(other) => panic!("{other}"),
            }
        }
        done
    };
    let done: u32 = thread::scope(|scope| {
        let threads: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(export_often)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert!(done > 0);
    assert!(to.is_file() && !dir.path().join("walk.csv.backcast-partial").exists());
}
