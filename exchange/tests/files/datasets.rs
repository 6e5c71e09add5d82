//! Exports and imports of Minari datasets.

use std::fs::{self, File};
use std::path::Path;

use arrow_array::cast::AsArray;
use backcast_core::{Base, DType, FINAL, Ring, Role, Schema};
use backcast_exchange::{
    ExportError, ExportOptions, Format, ImportError, ImportOptions, export, import,
};

use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::made;

type Hurt = fn(&Path);

fn schema() -> Schema {
    Schema::builder()
        .column("obs/image", DType::U8, &[2, 3])
        .column("obs/inner/speed", DType::F32, &[])
        .column("action", DType::I64, &[])
        .column("reward", DType::F32, &[])
        .column("logp", DType::F64, &[])
        .build()
        .unwrap()
}

/// Returns observations, rewards and actions of every episode that ends. `skip_cut` leaves out
/// episodes that lost their first rows.
fn episodes(ring: &Ring, skip_cut: bool) -> Vec<(Vec<u8>, Vec<f32>, Vec<i64>)> {
    let mut found = Vec::new();
    for lane in 0..ring.lanes() {
        let span = ring.lane_span(lane).unwrap();
        let rows = ring.rows(lane, span).unwrap();
        let flags = rows.column::<u32>("flags").unwrap();
        let (obs, reward) =
            (rows.bytes("obs/image").unwrap(), rows.column::<f32>("reward").unwrap());
        let action = rows.column::<i64>("action").unwrap();
        let t = rows.column::<u32>("t").unwrap();
        let mut from = 0;
        for (row, flags) in flags.iter().enumerate() {
            if row > from && t[row] == 0 {
                from = row;
            }
            if flags & FINAL != 0 {
                if !(skip_cut && t[from] > 0) {
                    let all = from..=row;
                    found.push((
                        obs[from * 6..(row + 1) * 6].to_vec(),
                        reward[all.clone()].to_vec(),
                        action[all].to_vec(),
                    ));
                }
                from = row + 1;
            }
        }
    }
    found
}

#[test]
fn episodes_go_out_and_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let base = Base::at(dir.path());
    let ring = made::ring(&base, "walk", &schema(), 200, 2, 30, 5);
    let to = dir.path().join("walk-v0");
    let report = export(&ring, &to, Format::Minari, ExportOptions::default()).unwrap();
    assert_eq!(report.episodes, Some(12));
    assert_eq!(report.rows, 72);
    let options = ImportOptions::named("again").base(base);
    let (again, found) = import(&to, Format::Minari, options).unwrap();
    assert_eq!((found.rows, found.episodes), (72, Some(12)));
    assert_eq!(episodes(&again, false), episodes(&ring, false));
    let column = |name: &str| {
        let column = again.schema().column(name).unwrap();
        (column.dtype(), column.shape().to_vec(), column.role())
    };
    assert_eq!(column("obs/image"), (DType::U8, vec![2, 3], Role::Obs));
    assert_eq!(column("obs/inner/speed"), (DType::F32, vec![], Role::Obs));
    assert_eq!(column("action"), (DType::I64, vec![], Role::Step));
}

#[test]
fn pieces_of_episodes_end_truncated_and_steps_alone_are_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let base = Base::at(dir.path());
    // The oldest episode has lost its beginning, and the newest one is running.
    let ring = made::ring(&base, "walk", &schema(), 40, 1, 68, 10);
    let to = dir.path().join("walk");
    let report = export(&ring, &to, Format::Minari, ExportOptions::default()).unwrap();
    let (again, found) =
        import(&to, Format::Minari, ImportOptions::named("again").base(base)).unwrap();
    assert_eq!(found.rows, report.rows);
    assert_eq!(again.len(), found.rows - found.episodes.unwrap(), "all but the last of each");
    let flags = again.rows(0, 0..found.rows).unwrap();
    let flags = flags.column::<u32>("flags").unwrap();
    let finals = flags.iter().filter(|flags| **flags & FINAL != 0).count() as u64;
    assert_eq!(Some(finals), found.episodes);
    // Episodes are terminated and truncated by turns. The newest one is running, and is truncated
    // at its last step.
    let episodes = usize::try_from(found.episodes.unwrap()).unwrap();
    for number in 0..episodes {
        let (terminations, truncations) = ends(&to, number);
        let (last, before) = truncations.split_last().unwrap();
        assert!(!last, "the row after the last step is none");
        let (last, before) = before.split_last().unwrap();
        let terminated = terminations[before.len()];
        assert!(*last != terminated && before.iter().all(|flag| !flag), "episode {number}");
        assert!(number + 1 < episodes || *last, "the last one was cut");
    }
}

/// Returns the columns `terminations` and `truncations` of the file of an episode.
fn ends(to: &Path, episode: usize) -> (Vec<bool>, Vec<bool>) {
    let file = File::open(to.join(format!("data/{episode}/part-0.parquet"))).unwrap();
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap();
    let batch = reader.map(Result::unwrap).next().unwrap();
    let column = |name: &str| {
        let column = batch.column_by_name(name).unwrap();
        column.as_boolean().values().iter().collect::<Vec<bool>>()
    };
    (column("terminations"), column("truncations"))
}

#[test]
fn rows_that_no_episode_ends_are_truncated_in_the_file_at_their_last_step() {
    let dir = tempfile::tempdir().unwrap();
    let base = Base::at(dir.path());
    // Seven steps, of which the last has no successor, and nothing ended.
    let ring = made::ring(&base, "walk", &schema(), 40, 2, 7, 100);
    let to = dir.path().join("walk");
    export(&ring, &to, Format::Minari, ExportOptions::default()).unwrap();
    for episode in 0..2 {
        let (terminations, truncations) = ends(&to, episode);
        assert_eq!(terminations, [false; 7]);
        assert_eq!(truncations, [false, false, false, false, false, true, false]);
    }
}

#[test]
fn every_column_comes_back_with_its_type_its_shape_and_its_role() {
    let dir = tempfile::tempdir().unwrap();
    let base = Base::at(dir.path());
    for dtype in DType::ALL.into_iter().filter(|dtype| *dtype != DType::BF16) {
        for shape in [&[][..], &[1], &[2, 3]] {
            let mut builder = Schema::builder();
            let number = dtype != DType::Bool;
            builder = builder.column("obs/a", dtype, shape).column("obs/b/c", DType::Bool, &[]);
            builder = builder.column("action/x", dtype, shape).column("action/y", DType::F16, &[]);
            builder = builder.column("reward", if number { dtype } else { DType::F32 }, &[1]);
            builder = builder.column_as("more/state", dtype, shape, Role::Obs);
            let schema = builder.column("more/logp", dtype, shape).build().unwrap();
            let ring = made::ring(&base, "walk", &schema, 100, 1, 30, 6);
            let to = dir.path().join("walk-v0");
            let options = ExportOptions::default().overwrite(true);
            export(&ring, &to, Format::Minari, options).unwrap();
            let options = ImportOptions::named("again").base(base.clone());
            let (again, _) = import(&to, Format::Minari, options).unwrap();
            made::assert_same(&ring, &again);
        }
    }
}

#[test]
fn observations_actions_and_rewards_go_by_other_names_too() {
    let dir = tempfile::tempdir().unwrap();
    let base = Base::at(dir.path());
    let builder = Schema::builder().column_as("observation", DType::F32, &[2], Role::Obs);
    let builder = builder.column("actions", DType::I32, &[]).column("rewards", DType::F64, &[]);
    let ring = made::ring(&base, "walk", &builder.build().unwrap(), 100, 1, 30, 6);
    let to = dir.path().join("walk-v0");
    export(&ring, &to, Format::Minari, ExportOptions::default()).unwrap();
    let options = ImportOptions::named("again").base(base);
    let (again, _) = import(&to, Format::Minari, options).unwrap();
    made::assert_same(&ring, &again);
}

#[test]
fn a_ring_without_rewards_is_no_dataset() {
    let dir = tempfile::tempdir().unwrap();
    let base = Base::at(dir.path());
    for (columns, wanted) in [
        (&["obs"][..], "`action`"),
        (&["obs", "action"], "`reward`"),
        (&["action", "reward"], "`obs`"),
    ] {
        let builder =
            columns.iter().fold(Schema::builder(), |b, name| b.column(name, DType::F32, &[]));
        let ring = made::ring(&base, "x", &builder.build().unwrap(), 20, 1, 4, 2);
        let to = dir.path().join("x");
        let refused = export(&ring, &to, Format::Minari, ExportOptions::default()).unwrap_err();
        assert!(matches!(refused, ExportError::NoColumn { .. }), "{refused}");
        assert!(refused.to_string().contains(wanted), "{refused}");
        assert!(!to.exists());
    }
}

#[test]
fn a_type_that_no_space_has_is_refused_and_parquet_takes_it() {
    let dir = tempfile::tempdir().unwrap();
    let base = Base::at(dir.path());
    let builder = Schema::builder().column("obs", DType::F32, &[]).column("action", DType::U8, &[]);
    let builder = builder.column("reward", DType::F32, &[]).column("state", DType::BF16, &[4]);
    let ring = made::ring(&base, "walk", &builder.build().unwrap(), 100, 1, 30, 6);
    let to = dir.path().join("walk-v0");
    let refused = export(&ring, &to, Format::Minari, ExportOptions::default()).unwrap_err();
    assert!(matches!(refused, ExportError::NoSpace { dtype: DType::BF16, .. }), "{refused}");
    for part in ["`state`", "bfloat16", "parquet"] {
        assert!(refused.to_string().contains(part), "{refused}");
    }
    assert!(!to.exists());
    let to = dir.path().join("walk.parquet");
    export(&ring, &to, Format::Parquet, ExportOptions::default()).unwrap();
    let (again, _) =
        import(&to, Format::Parquet, ImportOptions::named("again").base(base)).unwrap();
    made::assert_same(&ring, &again);
    assert_eq!(again.schema().column("state").unwrap().dtype(), DType::BF16);
}

#[test]
fn a_dataset_that_lacks_something_says_what() {
    let dir = tempfile::tempdir().unwrap();
    let base = Base::at(dir.path());
    let ring = made::ring(&base, "walk", &schema(), 200, 1, 30, 5);
    let to = dir.path().join("walk");
    let cases: [(Hurt, &str); 7] = [
        (|to| fs::remove_file(to.join("data/metadata.json")).unwrap(), "metadata.json"),
        (|to| fs::write(to.join("data/metadata.json"), "{").unwrap(), "metadata"),
        (|to| swap(to, "\"parquet\"", "\"hdf5\""), "\"hdf5\""),
        (|to| swap(to, "\"u1\"", "\"c8\""), "c8"),
        (|to| swap(to, "\"u1\"", "\"u2\""), "u2"),
        (|to| fs::remove_dir_all(to.join("data/3")).unwrap(), "data/3"),
        (
            |to| fs::write(to.join("data/2/part-0.parquet"), b"PAR1PAR1PAR1").unwrap(),
            "part-0.parquet",
        ),
    ];
    for (hurt, part) in cases {
        let _ = fs::remove_dir_all(&to);
        export(&ring, &to, Format::Minari, ExportOptions::default()).unwrap();
        hurt(&to);
        let options = ImportOptions::named("again").base(base.clone());
        let refused: ImportError = import(&to, Format::Minari, options).unwrap_err();
        assert!(refused.to_string().contains(part), "{refused} lacks {part}");
    }
}

fn swap(to: &Path, from: &str, into: &str) {
    let path = to.join("data/metadata.json");
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{text} lacks {from}");
    fs::write(path, text.replace(from, into)).unwrap();
}
