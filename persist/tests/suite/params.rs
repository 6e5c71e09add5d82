//! Parameters come back with the snapshot that they were saved with, or not at all.

use std::fs;
use std::ops::ControlFlow;

use backcast_budget::Stop;
use backcast_core::{DType, Exist, Params, ParamsArray, ParamsOptions};
use backcast_persist::{LoadError, LoadOptions, SaveError, SaveOptions, SnapshotParams, Store};

use crate::rings::{Place, append, heap, schema, writer};

fn like() -> Vec<ParamsArray> {
    [
        ("body/weight", DType::F32, &[7, 3][..]),
        ("body/mask", DType::Bool, &[11][..]),
        ("empty", DType::F64, &[2, 0][..]),
        ("half", DType::BF16, &[5][..]),
        ("step", DType::I64, &[][..]),
    ]
    .map(|(name, dtype, shape)| ParamsArray::new(name, dtype, shape).unwrap())
    .to_vec()
}

/// Returns parameters of every kind that files store differently.
fn policy(place: &Place, name: &str) -> Params {
    let options = ParamsOptions::default().base(place.base()).versions_kept(2).spare_slots(3);
    Params::create(name, like(), options.reader_slots(9)).unwrap()
}

/// Returns the bytes of every array, different for every version.
fn bytes(version: u64) -> Vec<Vec<u8>> {
    let byte = |at: usize| u8::try_from((at as u64 * 31 + version * 7) % 251).unwrap();
    let of = |array: ParamsArray| match array.dtype() {
        DType::Bool => (0..array.bytes()).map(|at| byte(at) % 2).collect(),
        _ => (0..array.bytes()).map(byte).collect(),
    };
    like().into_iter().map(of).collect()
}

fn publish(params: &mut Params, version: u64) {
    let bytes = bytes(version);
    let slices: Vec<&[u8]> = bytes.iter().map(Vec::as_slice).collect();
    params.publish_bytes(&slices, Some(version)).unwrap();
}

/// Returns the newest version and the bytes of every array.
fn content(params: &mut Params) -> (u64, Vec<Vec<u8>>) {
    let mut found: Vec<Vec<u8>> = like().iter().map(|array| vec![9; array.bytes()]).collect();
    let mut out: Vec<&mut [u8]> = found.iter_mut().map(Vec::as_mut_slice).collect();
    let version = params.read_bytes(&mut out).unwrap();
    (version, found)
}

fn placed(place: &Place) -> LoadOptions<'static> {
    LoadOptions::default().base(place.base()).exist(Exist::Replace)
}

/// Returns a store with `pong@a`, `pong@b`, `pong@c`: parameters of versions 40, 41, and none.
fn stocked() -> (Place, Store) {
    let (place, schema) = (Place::new(), schema());
    let (store, ring) = (place.store(), heap(&schema, 1, 300));
    append(&mut writer(&ring), &schema, 1, 20, 3);
    let (mut policy, target) = (policy(&place, "policy"), self::policy(&place, "target"));
    let save = |label: &str, params: &[&Params]| {
        let options = SaveOptions::default().name("pong").params(params.iter().copied());
        store.save(&ring, label, options).unwrap().params
    };
    publish(&mut policy, 40);
    let saved = save("a", &[&policy, &target]);
    let named = saved.iter().map(|p| (p.name.as_str(), p.version, p.arrays)).collect::<Vec<_>>();
    assert_eq!(named, [("policy", 40, 5), ("target", 0, 5)]);
    assert!(saved[0].bytes > 0 && saved[1].bytes == 0);
    publish(&mut policy, 41);
    assert_eq!(save("b", &[&policy])[0].version, 41);
    assert_eq!(save("c", &[]), []);
    assert_eq!(store.snapshot("pong@a").unwrap().params, saved);
    (place, store)
}

#[test]
fn the_version_and_every_byte_come_back() {
    let (place, store) = stocked();
    for version in [40, 41] {
        let spec = if version == 40 { "pong@a" } else { "pong@b" };
        let mut loaded = store.load_params(spec, "policy", placed(&place)).unwrap();
        assert_eq!(content(&mut loaded), (version, bytes(version)));
        let shape = loaded.shape();
        let slots = (shape.versions_kept(), shape.spare_slots(), shape.reader_slots());
        assert_eq!((slots, loaded.name()), ((2, 3, 9), Some("policy")));
        // Another handle publishes on, and readers see the next version.
        let mut learner = loaded.another();
        publish(&mut learner, version + 1);
        assert_eq!(content(&mut loaded).0, version + 1);
    }
    let named = placed(&place).name("old").persistent(true);
    drop(store.load_params("pong@a", "policy", named).unwrap());
    let mut old = Params::attach_in(&place.base(), "old").unwrap();
    assert_eq!(content(&mut old), (40, bytes(40)));
    let none = store.load_params("pong@a", "target", placed(&place)).unwrap();
    assert_eq!((none.version(), none.shape().arrays().len()), (0, 5));
}

#[test]
fn a_file_is_read_by_other_programs_and_goes_with_its_snapshot() {
    let (_place, store) = stocked();
    let files = store.snapshot("pong@a").unwrap().files;
    let file = fs::File::open(files.last().unwrap()).unwrap();
    let mut reader = arrow_ipc::reader::FileReader::try_new(file, None).unwrap();
    let batch = reader.next().unwrap().unwrap();
    let names: Vec<_> = batch.schema().fields().iter().map(|f| f.name().clone()).collect();
    let arrays = ["body/weight", "body/mask", "empty", "half", "step"];
    assert_eq!(names, [&["/lane", "/version"], &arrays[..]].concat());
    assert_eq!((batch.num_rows(), batch.column(0).null_count()), (1, 0));
    let version = arrow_array::cast::AsArray::as_primitive::<arrow_array::types::UInt64Type>(
        batch.column(1).as_ref(),
    );
    assert_eq!(version.value(0), 40);
    let before = store.snapshot("pong@b").unwrap().files;
    assert!(store.remove("pong@a").unwrap().bytes_freed > 0);
    assert!(!files.last().unwrap().exists());
    assert!(before.iter().all(|file| file.exists()));
}

#[test]
fn every_byte_counts() {
    let (place, store) = stocked();
    let path = store.snapshot("pong@b").unwrap().files.pop().unwrap();
    let good = fs::read(&path).unwrap();
    let load = || store.load_params("pong@b", "policy", placed(&place));
    let verify = || store.verify("pong@b", |_| ControlFlow::Continue(())).unwrap();
    assert!(verify().is_whole());
    let mut refused = 0;
    let mut check = |context: &str| {
        let found = verify();
        assert_eq!(found.damages.first().map(|d| &d.file), Some(&path), "{context}: not found");
        match load() {
            Err(LoadError::Damaged { snapshot, damage }) => {
                assert_eq!((snapshot.as_str(), &damage.file), ("pong@b", &path), "{context}");
                refused += 1;
            }
            Err(error) => panic!("{context}: {error}"),
            // A byte around the arrays, which a load does not need.
            Ok(mut loaded) => assert_eq!(content(&mut loaded), (41, bytes(41)), "{context}"),
        }
    };
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1 << (at % 8);
        fs::write(&path, &bad).unwrap();
        check(&format!("byte {at} flipped"));
        if at % 16 == 0 {
            fs::write(&path, &good[..at]).unwrap();
            check(&format!("cut at {at}"));
        }
    }
    fs::remove_file(&path).unwrap();
    check("removed");
    assert!(refused > 448, "padding and arrays are 7 blocks of 64 bytes: {refused}");
    fs::write(&path, good).unwrap();
    assert_eq!(content(&mut load().unwrap()), (41, bytes(41)));
}

#[test]
fn what_cannot_be_saved_or_loaded_is_refused_and_nothing_changes() {
    let (place, store) = stocked();
    let ring = heap(&schema(), 1, 300);
    let policy = policy(&place, "policy");
    let private = Params::heap(like(), &ParamsOptions::default()).unwrap();
    let count = || (store.snapshots("pong").unwrap(), fs::read_dir(store.path()).unwrap().count());
    let before = count();
    let save = |params: &[&Params]| {
        let options = SaveOptions::default().name("pong").params(params.iter().copied());
        store.save(&ring, "d", options).unwrap_err()
    };
    let nameless = save(&[&policy, &private]);
    assert!(matches!(nameless, SaveError::NamelessParams), "{nameless}");
    let twice = save(&[&policy, &policy.another()]);
    assert!(matches!(&twice, SaveError::ParamsTwice { name } if name == "policy"), "{twice}");
    assert_eq!(count(), before);

    let load = |spec: &str, name: &str| {
        store.load_params(spec, name, LoadOptions::default().base(place.base())).unwrap_err()
    };
    for (spec, name, snapshot, saved) in [
        ("pong@a", "polcy", "pong@a", &["policy", "target"][..]),
        ("pong", "policy", "pong@c", &[]),
    ] {
        let refused = load(spec, name);
        let LoadError::NoParams { snapshot: of, name: given, known } = &refused else {
            panic!("{refused}")
        };
        assert_eq!((&**of, &**given), (snapshot, name));
        assert_eq!(known, saved);
    }
    assert!(matches!(load("pong@z", "policy"), LoadError::Store(_)));
    let taken = load("pong@a", "policy");
    assert!(matches!(taken, LoadError::Params(_)), "{taken}");
    assert_eq!(policy.version(), 0, "the one that has the name stays");
}

#[test]
fn a_manifest_with_impossible_parameters_is_refused() {
    let (place, schema) = (Place::new(), schema());
    let (store, ring) = (place.store(), heap(&schema, 1, 300));
    append(&mut writer(&ring), &schema, 1, 20, 3);
    let mut policy = policy(&place, "policy");
    publish(&mut policy, 40);
    store.save(&ring, "a", SaveOptions::default().name("pong").params([&policy])).unwrap();
    let path = store.path().join("pong/manifest-0");
    let good = fs::read_to_string(&path).unwrap();
    let json = good.split_once('\n').unwrap().1;
    for (part, other) in [
        ("\"name\":\"policy\"", "\"name\":\"../up\""),
        ("\"version\":40", "\"version\":0"),
        ("\"versions_kept\":2", "\"versions_kept\":99"),
        ("\"shape\":[7,3]", "\"shape\":[70,3]"),
        ("\"shape\":[7,3]", "\"shape\":[7,4294967296]"),
        ("\"shape\":[7,3]", "\"shape\":[18446744073709551615,3]"),
        ("\"dtype\":\"i8\"", "\"dtype\":\"i16\""),
        ("\"name\":\"step\"", "\"name\":\"empty\""),
    ] {
        let changed = json.replacen(part, other, 1);
        assert_ne!(changed, json, "{part}");
        let signed = format!("backcast-manifest 1 {} ", changed.len());
        let sum = blake3::hash(format!("{signed}{changed}").as_bytes()).to_hex();
        fs::write(&path, format!("{signed}{sum}\n{changed}")).unwrap();
        let found = store.load_params("pong", "policy", placed(&place).name("bad"));
        assert!(found.is_err(), "{part} {other}");
        assert!(Params::attach_in(&place.base(), "bad").is_err(), "{part}: something was left");
    }
    fs::write(&path, good).unwrap();
    let mut loaded = store.load_params("pong", "policy", placed(&place)).unwrap();
    assert_eq!(content(&mut loaded), (40, bytes(40)));
}

/// A save of parameters beside a publisher at full speed has one version, whole.
#[test]
fn a_save_beside_a_publisher_is_whole() {
    let (place, schema) = (Place::new(), schema());
    let (store, ring) = (place.store(), heap(&schema, 1, 300));
    append(&mut writer(&ring), &schema, 1, 20, 3);
    let mut learner = policy(&place, "policy");
    publish(&mut learner, 1);
    let actor = learner.another();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut version = 2;
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                publish(&mut learner, version);
                version += 1;
            }
        });
        let _stop = Stop(&done);
        let mut last = 1;
        for _ in 0..50 {
            let options = SaveOptions::default().name("pong").replace(true).params([&actor]);
            let saved: Vec<SnapshotParams> = store.save(&ring, "a", options).unwrap().params;
            let named = placed(&place).name("again");
            let (version, found) =
                content(&mut store.load_params("pong", "policy", named).unwrap());
            assert_eq!((version, found), (saved[0].version, bytes(version)));
            assert!(version >= last, "{version} after {last}");
            last = version;
        }
    });
}
