//! Plain steps from NumPy's archives: the imported episodes, and refusals.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use backcast_core::{Base, Column, FINAL, GAP, Ring, TERMINATED, TRUNCATED, list_objects};
use backcast_exchange::{Format, ImportError, ImportOptions, ImportReport, import};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

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

    fn path(&self) -> PathBuf {
        self.dir.path().join("steps.npz")
    }

    /// Writes an archive of arrays, each with its name, NumPy's code of its dtype, its shape and
    /// its bytes.
    fn save(&self, arrays: &[(&str, &str, &str, &[u8])]) {
        let files = arrays.iter().map(|(name, descr, shape, bytes)| {
            (format!("{name}.npy"), array(descr, "False", shape, bytes))
        });
        self.save_files(files);
    }

    fn save_files(&self, files: impl IntoIterator<Item = (String, Vec<u8>)>) {
        let mut zip = ZipWriter::new(File::create(self.path()).unwrap());
        let methods = [CompressionMethod::Stored, CompressionMethod::Deflated];
        for ((name, bytes), method) in files.into_iter().zip(methods.into_iter().cycle()) {
            let options = SimpleFileOptions::default().compression_method(method);
            zip.start_file(name, options).unwrap();
            zip.write_all(&bytes).unwrap();
        }
        zip.finish().unwrap();
    }

    fn import(&self) -> Result<(Ring, ImportReport), ImportError> {
        let options = ImportOptions::named("steps").base(self.base.clone());
        import(&self.path(), Format::Npz, options)
    }

    fn refusal(&self) -> String {
        let refused = self.import().unwrap_err().to_string();
        assert_eq!(list_objects(&self.base).unwrap().len(), 0, "a refused import leaves no ring");
        refused
    }
}

/// Returns an array in the `.npy` format. `turned` is the text of `fortran_order`.
fn array(descr: &str, turned: &str, shape: &str, bytes: &[u8]) -> Vec<u8> {
    let mut header = String::new();
    write!(header, "{{'descr': '{descr}', 'fortran_order': {turned}, 'shape': {shape}, }}")
        .unwrap();
    while !(10 + header.len() + 1).is_multiple_of(64) {
        header.push(' ');
    }
    header.push('\n');
    let length = u16::try_from(header.len()).unwrap().to_le_bytes();
    [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), bytes].concat()
}

#[test]
fn arrays_as_other_programs_save_them_are_taken() {
    let folder = Folder::new();
    // Three steps: flags of one column, elements in Fortran order, and numbers of another byte
    // order.
    let turned = floats([1., 3., 5., 2., 4., 6.]);
    let swapped: Vec<u8> = [7_i32, 8, 9].iter().flat_map(|value| value.to_be_bytes()).collect();
    let flags = [0_i64, 0, 1].map(i64::to_le_bytes).concat();
    folder.save_files([
        ("observations.npy".to_owned(), array("<f4", "True", "(3, 2)", &turned)),
        ("actions.npy".to_owned(), array(">i4", "False", "(3,)", &swapped)),
        ("terminals.npy".to_owned(), array("<i8", "False", "(3, 1)", &flags)),
        ("timeouts.npy".to_owned(), array("|b1", "True", "(3, 1)", &[NO, NO, NO])),
    ]);
    let (ring, report) = folder.import().unwrap();
    assert_eq!(report, ImportReport { rows: 4, episodes: Some(1), ..ImportReport::default() });
    let rows = ring.rows(0, 0..3).unwrap();
    assert_eq!(rows.column::<f32>("obs").unwrap(), [1., 2., 3., 4., 5., 6.]);
    assert_eq!(rows.column::<i32>("action").unwrap(), [7, 8, 9]);
    assert_eq!(rows.column::<u32>("flags").unwrap(), [0, 0, TERMINATED]);
}

#[test]
fn truncated_episodes_without_next_obs_keep_their_last_step_and_it_starts_no_transition() {
    let folder = Folder::new();
    let obs = floats([1., 2., 3., 4., 5., 6.]);
    folder.save(&[
        ("observations", "<f4", "(6, 1)", &obs),
        ("rewards", "<f4", "(6,)", &obs),
        ("terminals", "|b1", "(6,)", &[NO, NO, NO, NO, YES, NO]),
        ("timeouts", "|b1", "(6,)", &[NO, NO, YES, NO, NO, NO]),
    ]);
    let (ring, report) = folder.import().unwrap();
    let expected = ImportReport { rows: 7, episodes: Some(3), ..ImportReport::default() };
    assert_eq!(report, ImportReport { rows_without_successor: 2, ..expected });
    let rows = ring.rows(0, 0..7).unwrap();
    assert_eq!(rows.column::<f32>("reward").unwrap(), [1., 2., 3., 4., 5., 0., 6.]);
    assert_eq!(rows.column::<f32>("obs").unwrap(), [1., 2., 3., 4., 5., 0., 6.]);
    let flags = [0, 0, TRUNCATED, GAP, TERMINATED, FINAL, 0];
    assert_eq!(rows.column::<u32>("flags").unwrap(), flags);
    assert_eq!(ring.len(), 4, "the third step and the last one have no successor");
}

#[test]
fn unstorable_arrays_are_left_out_by_name() {
    let folder = Folder::new();
    let two = floats([1., 2.]);
    let arrays: &[(&str, &str, &str, &[u8])] = &[
        ("observations", "<f4", "(2,)", &two),
        ("infos/goal", "<U1", "(2,)", &[0; 8]),
        ("metadata/algorithm", "<U1", "()", &[0; 4]),
        ("metadata/policy", "<f4", "(3,)", &[0; 12]),
        ("metadata/seed", "<f4", "()", &[0; 4]),
    ];
    folder.save(arrays);
    let import = |leave_out: &[&str]| {
        let options = ImportOptions::named("steps").base(folder.base.clone());
        import(&folder.path(), Format::Npz, options.leave_out(leave_out.iter().copied()))
    };
    for (leave_out, array, value) in [
        (&[][..], "infos/goal", "<U1"),
        (&["infos"], "metadata/algorithm", "`--leave-out metadata/algorithm`"),
        (&["infos", "metadata/algorithm"], "metadata/policy", "3"),
        (&["infos", "metadata/algorithm", "metadata/policy"], "metadata/seed", ""),
    ] {
        let refused = import(leave_out).unwrap_err();
        let ImportError::Array { name, what, .. } = &refused else { panic!("{refused:?}") };
        assert!(name == array && what.contains(value), "{refused}");
    }
    let refused = import(&["infos", "metadata", "notes"]).unwrap_err();
    let ImportError::NotThere { name, .. } = &refused else { panic!("{refused:?}") };
    assert_eq!(name, "notes");
    let (ring, _) = import(&["infos", "metadata"]).unwrap();
    assert_eq!(ring.schema().columns().len(), 1);
    drop(ring);
    // The ring's name works as well as the file's.
    folder.save(&[("observations", "<f4", "(2,)", &two), ("rew", "<f4", "(2,)", &two)]);
    let (ring, _) = import(&["reward"]).unwrap();
    assert_eq!(ring.schema().columns().len(), 1);
}

fn floats(values: impl IntoIterator<Item = f32>) -> Vec<u8> {
    values.into_iter().flat_map(f32::to_le_bytes).collect()
}

type Arrays<'a> = &'a [(&'a str, &'a str, &'a str, &'a [u8])];

const NO: u8 = 0;
const YES: u8 = 1;

#[test]
fn steps_become_episodes_with_their_final_observations() {
    let folder = Folder::new();
    // A terminated episode of three steps, a truncated one of two, and one step of a running one.
    let obs = floats([0., 1., 2., 10., 11., 20.]);
    let next = floats([1., 2., 3., 11., 12., 21.]);
    let reward = floats([0., 0., 1., 0., 0., 0.]);
    let action: Vec<u8> = (0_i64..6).flat_map(i64::to_le_bytes).collect();
    folder.save(&[
        ("observations", "<f4", "(6, 1)", &obs),
        ("actions", "<i8", "(6,)", &action),
        ("rewards", "<f4", "(6,)", &reward),
        ("terminals", "|b1", "(6,)", &[NO, NO, YES, NO, NO, NO]),
        ("timeouts", "|b1", "(6,)", &[NO, NO, NO, NO, YES, NO]),
        ("next_observations", "<f4", "(6, 1)", &next),
    ]);
    let (ring, report) = folder.import().unwrap();
    assert_eq!(report, ImportReport { rows: 9, episodes: Some(3), ..ImportReport::default() });
    let rows = ring.rows(0, 0..9).unwrap();
    let obs = rows.column::<f32>("obs").unwrap();
    assert_eq!(obs, [0., 1., 2., 3., 10., 11., 12., 20., 21.]);
    let episodes = rows.column::<u64>("episode").unwrap();
    assert_eq!(episodes, [0, 0, 0, 0, 1, 1, 1, 2, 2]);
    assert_eq!(rows.column::<u32>("t").unwrap(), [0, 1, 2, 3, 0, 1, 2, 0, 1]);
    let ends = [0, 0, TERMINATED, FINAL, 0, TRUNCATED, FINAL, TRUNCATED, FINAL];
    assert_eq!(rows.column::<u32>("flags").unwrap(), ends);
    assert_eq!(rows.column::<i64>("action").unwrap(), [0, 1, 2, 0, 3, 4, 0, 5, 0]);
    assert_eq!(ring.len(), 6, "every step is a transition");
}

#[test]
fn steps_that_lead_elsewhere_than_the_next_one_begins_end_their_episode_there() {
    let folder = Folder::new();
    // The second step leads to 99, but the third begins at 10. The fifth step leads to 7 in
    // `obs/y`, but the sixth begins at 5.
    let obs = floats([0., 1., 10., 11., f32::NAN, 30.]);
    let next = floats([1., 99., 11., f32::NAN, 30., 31.]);
    let other: Vec<u8> = vec![0, 1, 2, 3, 4, 5];
    let next_other = vec![1, 2, 3, 4, 7, 6];
    for (flag, cut, flags) in [
        (NO, 2, [0, TRUNCATED, FINAL, 0, 0, TRUNCATED, FINAL, TRUNCATED, FINAL]),
        (YES, 1, [0, TERMINATED, FINAL, 0, 0, TRUNCATED, FINAL, TRUNCATED, FINAL]),
    ] {
        folder.save(&[
            ("obs/x", "<f4", "(6,)", &obs),
            ("obs/y", "|u1", "(6,)", &other),
            ("terminated", "|b1", "(6,)", &[NO, flag, NO, NO, NO, NO]),
            ("next_obs/x", "<f4", "(6,)", &next),
            ("next_obs/y", "|u1", "(6,)", &next_other),
        ]);
        let (ring, report) = folder.import().unwrap();
        let expected = ImportReport { rows: 9, episodes: Some(3), ..ImportReport::default() };
        assert_eq!(report, ImportReport { episodes_cut: cut, ..expected });
        assert_eq!(ring.len(), 6, "every step is a transition");
        let rows = ring.rows(0, 0..9).unwrap();
        assert_eq!(rows.column::<u32>("flags").unwrap(), flags);
        let obs: Vec<u32> =
            rows.column::<f32>("obs/x").unwrap().iter().map(|value| value.to_bits()).collect();
        let stored = [0., 1., 99., 10., 11., f32::NAN, 30., 30., 31.];
        assert_eq!(obs, stored.map(f32::to_bits));
        assert_eq!(rows.column::<u8>("obs/y").unwrap(), [0, 1, 2, 2, 3, 4, 7, 5, 6]);
    }
    folder
        .save(&[("obs", "|u1", "(6,)", &other), ("next_obs", "|u1", "(6,)", &[1, 2, 3, 4, 5, 6])]);
    assert_eq!(folder.import().unwrap().1.episodes_cut, 0);
}

#[test]
fn without_next_observations_an_end_needs_none_and_the_last_step_has_no_successor() {
    let folder = Folder::new();
    let obs = floats([1., 2., 3.]);
    folder.save(&[
        ("obs", "<f4", "(3, 1)", &obs),
        ("reward", "<f4", "(3,)", &obs),
        ("done", "|u1", "(3,)", &[NO, YES, NO]),
    ]);
    let (ring, report) = folder.import().unwrap();
    let open_end = ImportReport { rows: 4, rows_without_successor: 1, ..ImportReport::default() };
    assert_eq!(report, ImportReport { episodes: Some(2), ..open_end });
    let rows = ring.rows(0, 0..4).unwrap();
    assert_eq!(rows.column::<f32>("obs").unwrap(), [1., 2., 0., 3.]);
    assert_eq!(ring.len(), 2);
}

#[test]
fn dicts_of_observations_and_other_columns_are_kept_under_their_names() {
    let folder = Folder::new();
    let two = floats([1., 2.]);
    folder.save(&[
        ("observations/speed", "<f4", "(2,)", &two),
        ("observations/image", "|u1", "(2, 2, 2)", &[1, 2, 3, 4, 5, 6, 7, 8]),
        ("logp", "<f4", "(2,)", &two),
        ("rew", "<f4", "(2,)", &two),
    ]);
    let (ring, report) = folder.import().unwrap();
    assert_eq!(report.episodes, Some(1));
    let names: Vec<&str> = ring.schema().columns().iter().map(Column::name).collect();
    assert_eq!(names, ["logp", "obs/image", "obs/speed", "reward"]);
    assert_eq!(ring.schema().column("obs/image").unwrap().shape(), [2, 2]);
}

#[test]
fn invalid_arrays_are_refused_with_the_reason() {
    let folder = Folder::new();
    let two = floats([1., 2.]);
    let none: &[u8] = &[];
    let obs = ("obs", "<f4", "(2,)", &*two);
    let cases: &[(Arrays<'_>, &str)] = &[
        (&[], ""),
        (&[obs, ("reward", "<f4", "(1,)", &two[..4])], "`reward`"),
        (&[obs, ("states", "<f4", "(2,)", &two)], "`obs`"),
        (&[obs, ("next_obs", "<f8", "(2,)", &[0; 16])], "`obs`"),
        (&[obs, ("next_obs/x", "<f4", "(2,)", &two)], "next_obs"),
        (&[obs, ("terminated", "|b1", "(2, 2)", &[NO, YES, NO, NO])], "`terminated`"),
        (&[("obs", "|O", "(2,)", &two)], "|O"),
        (&[("obs", "<U3", "(2,)", &two)], "<U3"),
        (&[("obs", "<f4", "()", &two[..4])], "`obs`"),
        (&[("obs", "<f4", "(2, 1000000000000)", &two)], "obs"),
        (&[("obs", "<f4", "(3,)", &two)], "12"),
        (&[("obs", "<f4", "(-3,)", &two)], "shape"),
        (&[("episode", "<f4", "(2,)", &two)], "reserved"),
        (
            &[
                ("obs", "<f4", "(0,)", none),
                ("next_obs", "<f4", "(0,)", none),
                ("x", "<c8", "(0,)", none),
            ],
            "<c8",
        ),
    ];
    for (arrays, part) in cases {
        folder.save(arrays);
        let refused = folder.refusal();
        assert!(refused.contains(part), "{refused} lacks {part}");
        assert!(refused.contains("steps.npz"), "{refused} does not name the file");
    }
    std::fs::write(folder.path(), b"no archive").unwrap();
    assert!(folder.refusal().contains("the archive"));
    let missing = import(Path::new("/no/such.npz"), Format::Npz, ImportOptions::named("x"));
    assert!(matches!(missing.unwrap_err(), ImportError::Read { .. }));
}

#[test]
fn a_damaged_archive_never_ends_the_process() {
    let folder = Folder::new();
    let obs = floats((0..40_u8).map(f32::from));
    folder.save(&[("obs", "<f4", "(40,)", &obs), ("reward", "<f4", "(40,)", &obs)]);
    let whole = std::fs::read(folder.path()).unwrap();
    let mut refused = 0;
    for at in 0..whole.len() {
        let mut hurt = whole.clone();
        hurt[at] ^= 0xff;
        std::fs::write(folder.path(), &hurt).unwrap();
        refused += u32::from(folder.import().is_err());
        std::fs::write(folder.path(), &whole[..at]).unwrap();
        assert!(folder.import().is_err(), "cut at {at}");
    }
    assert!(refused > 100, "{refused}");
}
