//! Datasets that other programs wrote: the parts that are imported, and refusals with their
//! reasons.

use std::collections::HashMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, FixedSizeListArray, Float32Array, Float64Array, Int32Array,
    Int64Array, ListArray, RecordBatch, StringArray, StructArray, types::Float32Type,
};
use arrow_schema::{DataType, Field, Fields};
use backcast_core::{Base, DType, FINAL, Ring, Role, TERMINATED, TRUNCATED, list_objects};
use backcast_exchange::{Format, ImportError, ImportOptions, ImportReport, import};
use parquet::arrow::ArrowWriter;
use serde_json::{Value, json};

struct Folder {
    dir: tempfile::TempDir,
    base: Base,
}

impl Folder {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let base = Base::at(dir.path());
        Self { dir, base }
    }

    fn to(&self) -> PathBuf {
        self.dir.path().join("theirs-v0")
    }

    /// Writes a dataset of these episodes. `change` edits its metadata.
    fn save(&self, episodes: &[Episode], change: impl FnOnce(&mut Value)) {
        let _ = fs::remove_dir_all(self.to());
        let data = self.to().join("data");
        fs::create_dir_all(&data).unwrap();
        for (number, episode) in episodes.iter().enumerate() {
            let folder = data.join(number.to_string());
            fs::create_dir(&folder).unwrap();
            episode.write(&folder.join("part-0.parquet"));
        }
        let steps: usize = episodes.iter().map(|episode| episode.steps).sum();
        let space = json!({"type": "Box", "dtype": "float32", "shape": [2],
            "low": [-1.0, -1.0], "high": [1.0, 1.0]});
        let choices = json!({"type": "Discrete", "dtype": "int64", "start": 0, "n": 9});
        let mut words = json!({
            "dataset_id": "theirs-v0", "minari_version": "0.5.4", "data_format": "parquet",
            "jpeg_encoding": true, "total_episodes": episodes.len(), "total_steps": steps,
            "observation_space": space.to_string(), "action_space": choices.to_string(),
        });
        change(&mut words);
        fs::write(data.join("metadata.json"), words.to_string()).unwrap();
    }

    fn import(&self, leave_out: &[&str]) -> Result<(Ring, ImportReport), ImportError> {
        let options = ImportOptions::named("theirs").base(self.base.clone());
        import(&self.to(), Format::Minari, options.leave_out(leave_out.iter().copied()))
    }

    fn refusal(&self, leave_out: &[&str]) -> ImportError {
        let refused = self.import(leave_out).unwrap_err();
        assert!(!matches!(refused, ImportError::Damaged { .. }), "it is whole: {refused}");
        assert_eq!(list_objects(&self.base).unwrap().len(), 0, "a refused import leaves no ring");
        refused
    }
}

/// Checks that an array is refused for a reason that names `value`, which may be empty.
fn assert_array(refused: &ImportError, expected: &str, value: &str) {
    let ImportError::Array { name, what, .. } = refused else { panic!("{refused:?}") };
    assert!(name == expected && what.contains(value), "{refused}");
}

/// An episode as Minari's own storage writes it.
struct Episode {
    steps: usize,
    terminations: Vec<bool>,
    truncations: Vec<bool>,
    more: Vec<(Field, ArrayRef)>,
}

impl Episode {
    fn of(steps: usize, terminated: bool, truncated: bool) -> Self {
        let last = |flag| (0..=steps).map(|step| flag && step + 1 == steps).collect();
        Self { steps, terminations: last(terminated), truncations: last(truncated), more: vec![] }
    }

    fn with(mut self, field: Field, array: ArrayRef) -> Self {
        self.more.push((field, array));
        self
    }

    fn with_infos(self, infos: Vec<(Field, ArrayRef)>) -> Self {
        let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = infos.into_iter().unzip();
        let fields = Fields::from(fields);
        let array = StructArray::new(fields.clone(), arrays, None);
        self.with(Field::new("infos", DataType::Struct(fields), true), Arc::new(array))
    }

    fn write(&self, path: &Path) {
        let rows = self.steps + 1;
        let numbers = (0..2 * rows).map(|at| f32::from(u16::try_from(at).unwrap()));
        let item = Arc::new(Field::new("item", DataType::Float32, true));
        let obs = Arc::new(Float32Array::from_iter_values(numbers));
        let obs = FixedSizeListArray::new(item, 2, obs, None);
        let actions =
            Int64Array::from_iter_values((0..rows).map(|row| i64::try_from(row % 9).unwrap()));
        let rewards = Float64Array::from_iter_values(
            (0..rows).map(|row| f64::from(u8::try_from(row).unwrap())),
        );
        let mut columns: Vec<(Field, ArrayRef)> = Vec::new();
        let mut add = |name: &str, array: ArrayRef| {
            columns.push((Field::new(name, array.data_type().clone(), true), array));
        };
        add("observations", Arc::new(obs));
        add("actions", Arc::new(actions));
        add("rewards", Arc::new(rewards));
        add("terminations", Arc::new(BooleanArray::from(self.terminations.clone())));
        add("truncations", Arc::new(BooleanArray::from(self.truncations.clone())));
        columns.extend(self.more.iter().cloned());
        let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = columns.into_iter().unzip();
        let schema = Arc::new(arrow_schema::Schema::new(fields));
        let batch = RecordBatch::try_new(Arc::clone(&schema), arrays).unwrap();
        let mut writer = ArrowWriter::try_new(File::create(path).unwrap(), schema, None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
    }
}

fn as_it_is(_: &mut Value) {}

#[test]
fn an_episode_that_does_not_say_how_it_ends_is_truncated() {
    let folder = Folder::new();
    for (terminated, truncated, expected) in [
        (false, false, TRUNCATED),
        (true, false, TERMINATED),
        (false, true, TRUNCATED),
        (true, true, TERMINATED | TRUNCATED),
    ] {
        folder
            .save(&[Episode::of(3, terminated, truncated), Episode::of(1, true, false)], as_it_is);
        let (ring, report) = folder.import(&[]).unwrap();
        assert_eq!((report.rows, report.episodes), (6, Some(2)));
        let rows = ring.rows(0, 0..6).unwrap();
        let flags = rows.column::<u32>("flags").unwrap();
        assert_eq!(flags, [0, 0, expected, FINAL, TERMINATED, FINAL]);
        assert_eq!(rows.column::<f64>("reward").unwrap(), [0., 1., 2., 0., 0., 0.]);
        let obs = rows.column::<f32>("obs").unwrap();
        assert_eq!(obs, [0., 1., 2., 3., 4., 5., 6., 7., 0., 1., 2., 3.]);
    }
}

#[test]
fn flags_of_any_type_are_read_and_one_before_the_end_is_refused() {
    let folder = Folder::new();
    let mut early = Episode::of(4, false, false);
    early.terminations[1] = true;
    folder.save(&[Episode::of(3, true, false), early], as_it_is);
    let refused = folder.refusal(&[]);
    assert!(refused.to_string().contains("`terminations`"), "{refused}");
    assert!(refused.to_string().contains("step 1 of 4"), "{refused}");
    let mut odd = Episode::of(2, true, false);
    // Flags of the dtype i32 in the column `truncations`.
    odd.terminations = vec![false, true, false];
    let ends = Int32Array::from(vec![0, 1, 0]);
    folder.save(&[odd], as_it_is);
    let file = folder.to().join("data/0/part-0.parquet");
    rewrite(
        &file,
        |name, array| if name == "truncations" { Arc::new(ends.clone()) } else { array },
    );
    let (ring, _) = folder.import(&[]).unwrap();
    let rows = ring.rows(0, 0..3).unwrap();
    assert_eq!(rows.column::<u32>("flags").unwrap(), [0, TERMINATED | TRUNCATED, FINAL]);
}

/// Writes a file again with other columns.
fn rewrite(path: &Path, change: impl Fn(&str, ArrayRef) -> ArrayRef) {
    let file = File::open(path).unwrap();
    let reader = parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(file)
        .unwrap()
        .build()
        .unwrap();
    let batch = reader.map(Result::unwrap).next().unwrap();
    let schema = batch.schema();
    let columns = schema.fields().iter().zip(batch.columns());
    let columns = columns.map(|(field, array)| {
        let array = change(field.name(), Arc::clone(array));
        (Field::new(field.name(), array.data_type().clone(), true), array)
    });
    let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = columns.unzip();
    let schema = Arc::new(arrow_schema::Schema::new(fields));
    let batch = RecordBatch::try_new(Arc::clone(&schema), arrays).unwrap();
    let mut writer = ArrowWriter::try_new(File::create(path).unwrap(), schema, None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

fn speeds(rows: usize) -> (Field, ArrayRef) {
    let speeds = (0..rows).map(|row| f32::from(u8::try_from(row).unwrap()) + 0.5);
    let array = Float32Array::from_iter_values(speeds);
    (Field::new("speed", DataType::Float32, true), Arc::new(array))
}

#[test]
fn infos_become_columns_and_the_last_one_is_kept() {
    let folder = Folder::new();
    let rows = 4;
    let item = Arc::new(Field::new("item", DataType::Int32, true));
    let grid = Int32Array::from_iter_values(0..6 * i32::try_from(rows).unwrap());
    let grid = FixedSizeListArray::new(item, 6, Arc::new(grid), None);
    let shape = HashMap::from([("shape".to_owned(), "2,3".to_owned())]);
    let field = Field::new("grid", grid.data_type().clone(), true).with_metadata(shape);
    let infos = vec![speeds(rows), (field, Arc::new(grid) as ArrayRef)];
    folder.save(&[Episode::of(3, true, false).with_infos(infos)], as_it_is);
    let (ring, _) = folder.import(&[]).unwrap();
    let column = |name: &str| {
        let column = ring.schema().column(name).unwrap();
        (column.dtype(), column.shape().to_vec(), column.role())
    };
    assert_eq!(column("infos/speed"), (DType::F32, vec![], Role::Obs));
    assert_eq!(column("infos/grid"), (DType::I32, vec![2, 3], Role::Obs));
    let rows = ring.rows(0, 0..4).unwrap();
    assert_eq!(rows.column::<f32>("infos/speed").unwrap(), [0.5, 1.5, 2.5, 3.5]);
    assert!(rows.column::<i32>("infos/grid").unwrap().iter().copied().eq(0..24));
    let (ring, _) = folder.import_as("less", &["infos/grid", "reward"]);
    let names: Vec<&str> =
        ring.schema().columns().iter().map(backcast_core::Column::name).collect();
    assert_eq!(names, ["obs", "action", "infos/speed"]);
}

impl Folder {
    fn import_as(&self, name: &str, leave_out: &[&str]) -> (Ring, ImportReport) {
        let options = ImportOptions::named(name).base(self.base.clone());
        let options = options.leave_out(leave_out.iter().copied());
        import(&self.to(), Format::Minari, options).unwrap()
    }
}

#[test]
fn unstorable_fields_are_refused_by_name_unless_left_out() {
    let folder = Folder::new();
    let words = StringArray::from(vec!["go", "go", "stop"]);
    let words = (Field::new("goal", DataType::Utf8, true), Arc::new(words) as ArrayRef);
    let paths = ListArray::from_iter_primitive::<Float32Type, _, _>(
        [1, 2, 3].map(|length| Some(vec![Some(1.0); length])),
    );
    let field = Field::new("path", paths.data_type().clone(), true);
    let episode = || Episode::of(2, true, false);
    let found = StringArray::from(vec!["x", "y", "z"]);
    let cases = [
        (episode().with_infos(vec![words.clone()]), "infos/goal", "Utf8"),
        (episode().with_infos(vec![(field, Arc::new(paths))]), "infos/path", ""),
        (
            episode().with(Field::new("notes", DataType::Utf8, true), Arc::new(found)),
            "notes",
            "Utf8",
        ),
    ];
    for (episode, name, value) in cases {
        folder.save(&[episode], as_it_is);
        let refused = folder.refusal(&[]);
        let remedy = format!("`--leave-out {name}` (in Python, `leave_out=[\"{name}\"]`)");
        assert_array(&refused, name, value);
        assert!(refused.to_string().contains(&remedy), "{refused}");
        let (ring, _) = folder.import(&[name]).unwrap();
        assert!(ring.schema().column(name).is_none());
        assert_eq!(ring.len(), 2);
        drop(ring);
        let refused = folder.refusal(&[name, "infos/gaol"]);
        let ImportError::NotThere { name, .. } = &refused else { panic!("{refused:?}") };
        assert_eq!(name, "infos/gaol");
    }
    // A space that no column can hold.
    folder.save(&[episode()], |words| {
        let text = json!({"type": "Text", "max_length": 9, "min_length": 0, "charset": "ab"});
        let box_ = json!({"type": "Box", "dtype": "float32", "shape": [2]});
        let space = json!({"type": "Dict", "subspaces": {"mission": text, "seen": box_}});
        words["observation_space"] = space.to_string().into();
    });
    let file = folder.to().join("data/0/part-0.parquet");
    rewrite(&file, |name, array| {
        if name != "observations" {
            return array;
        }
        let said: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "a"]));
        let fields = Fields::from(vec![
            Field::new("mission", DataType::Utf8, true),
            Field::new("seen", array.data_type().clone(), true),
        ]);
        Arc::new(StructArray::new(fields, vec![said, array], None))
    });
    let refused = folder.refusal(&[]);
    assert_array(&refused, "obs/mission", "\"Text\"");
    let (ring, _) = folder.import(&["obs/mission"]).unwrap();
    assert_eq!(ring.schema().column("obs/seen").unwrap().shape(), [2]);
}

#[test]
fn columns_that_only_some_episodes_have_do_not_vanish() {
    let folder = Folder::new();
    let with = |steps: usize| Episode::of(steps, true, false).with_infos(vec![speeds(steps + 1)]);
    let without = |steps| Episode::of(steps, true, false);
    folder.save(&[with(2), without(3)], as_it_is);
    assert_array(&folder.refusal(&[]), "infos/speed", "");
    folder.save(&[without(2), with(3)], as_it_is);
    let refused = folder.refusal(&[]);
    assert_array(&refused, "infos/speed", "");
    assert!(refused.to_string().contains("data/1/part-0.parquet"), "{refused}");
    let wide = Float64Array::from(vec![1.0; 4]);
    let wide = (Field::new("speed", DataType::Float64, true), Arc::new(wide) as ArrayRef);
    folder.save(&[with(2), without(3).with_infos(vec![wide])], as_it_is);
    assert_array(&folder.refusal(&[]), "infos/speed", "");
    folder.import(&["infos"]).unwrap();
}

#[test]
fn formats_that_are_not_read_are_recognised_and_the_way_out_is_said() {
    let folder = Folder::new();
    let one = || [Episode::of(2, true, false)];
    for format in ["hdf5", "arrow"] {
        folder.save(&one(), |words| words["data_format"] = format.into());
        let refused = folder.refusal(&[]);
        assert_not_read(&refused);
        assert!(refused.to_string().contains(&format!("{format:?}")), "{refused}");
    }
    // Before Minari had other formats than HDF5, its metadata lacked the format or did not exist.
    let hdf5 = b"\x89HDF\r\n\x1a\n and so on";
    let data = folder.to().join("data");
    folder.save(&one(), |words| drop(words.as_object_mut().unwrap().remove("data_format")));
    fs::write(data.join("main_data.hdf5"), hdf5).unwrap();
    assert_not_read(&folder.refusal(&[]));
    fs::remove_file(data.join("metadata.json")).unwrap();
    assert_not_read(&folder.refusal(&[]));
    fs::remove_dir_all(folder.to()).unwrap();
    fs::write(folder.to(), hdf5).unwrap();
    assert_not_read(&folder.refusal(&[]));
}

/// Checks that the way out is a call of Minari that stores Parquet.
fn assert_not_read(refused: &ImportError) {
    assert!(matches!(refused, ImportError::NotRead { .. }), "{refused}");
    let call = "MinariStorage.new(..., data_format=\"parquet\")";
    assert!(refused.to_string().contains(call), "{refused}");
}

#[test]
fn an_environment_need_not_be_known_and_spaces_must_be() {
    let folder = Folder::new();
    let one = || [Episode::of(2, true, false)];
    for spec in [Value::Null, json!("{\"id\": \"Gone-v0\"}")] {
        folder.save(&one(), |words| words["env_spec"] = spec.clone());
        assert_eq!(folder.import(&[]).unwrap().0.len(), 2, "{spec}");
    }
    for key in ["observation_space", "action_space"] {
        folder.save(&one(), |words| {
            words["env_spec"] = Value::Null;
            words.as_object_mut().unwrap().remove(key);
        });
        let refused = folder.refusal(&[]);
        let refused = refused.to_string();
        assert!(refused.contains(key) && refused.contains("Minari 0.5"), "{refused}");
    }
}

#[test]
fn images_that_are_packed_as_jpeg_are_refused_as_what_they_are() {
    let folder = Folder::new();
    folder.save(&[Episode::of(2, true, false)], as_it_is);
    let file = folder.to().join("data/0/part-0.parquet");
    rewrite(&file, |name, array| {
        let packed = arrow_array::BinaryArray::from(vec![&b"\xff\xd8"[..]; 3]);
        if name == "observations" { Arc::new(packed) } else { array }
    });
    let refused = folder.refusal(&[]);
    assert!(refused.to_string().contains("JPEG"), "{refused}");
}
