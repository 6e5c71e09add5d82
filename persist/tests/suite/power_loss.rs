//! If any operation fails, or is the last one before the power fails, snapshots that a save had
//! confirmed load as they were, and the next save works.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::sync::Arc;

use backcast_core::{Exist, Ring, Schema};
use backcast_persist::{LoadOptions, SaveOptions, Store};

use crate::power::{Crash, Fault, Power};
use crate::rings::{Content, Place, append, content, heap, schema, writer};

/// Expected contents of each label after an interrupted run.
#[derive(Clone, Debug, Default)]
struct Known {
    /// Saves that returned without an error, and were not removed or replaced since.
    confirmed: BTreeMap<String, Content>,
    /// Further possible contents, after saves, removals and replacements that returned an error.
    possible: BTreeMap<String, Vec<Content>>,
}

impl Known {
    fn saved(&mut self, label: &str, is: Content, whole: bool) {
        if whole {
            self.possible.remove(label);
            self.confirmed.insert(label.to_owned(), is);
        } else {
            let before = self.confirmed.remove(label);
            let possible = self.possible.entry(label.to_owned()).or_default();
            possible.push(is);
            possible.extend(before);
        }
    }

    fn removed(&mut self, label: &str, whole: bool) {
        let before = self.confirmed.remove(label);
        if whole {
            self.possible.remove(label);
        } else if let Some(before) = before {
            self.possible.entry(label.to_owned()).or_default().push(before);
        }
    }
}

struct Run<'a> {
    place: &'a Place,
    schema: Schema,
}

impl Run<'_> {
    fn store(power: &Power) -> Store {
        Store::with_storage("/data/store", Arc::new(power.clone()))
    }

    fn options<'o>() -> SaveOptions<'o> {
        SaveOptions::default().name("pong").sizes(1_500, 4_000)
    }

    fn load(&self, store: &Store, spec: &str) -> Result<Ring, backcast_persist::LoadError> {
        let options = LoadOptions::default().name("loaded").exist(Exist::Replace);
        store.load(spec, options.base(self.place.base()).huge_pages(false))
    }

    /// Runs the saves, loads, replacements and removals of one process.
    fn life(&self, power: &Power) -> (Known, Ring) {
        let (store, mut known) = (Self::store(power), Known::default());
        let ring = heap(&self.schema, 2, 60);
        let mut writer = writer(&ring);
        let mut save = |known: &mut Known, label: &str, steps: u64, replace: bool| {
            append(&mut writer, &self.schema, 2, steps, steps);
            let saved = store.save(&ring, label, Self::options().replace(replace));
            known.saved(label, content(&ring), saved.is_ok());
        };
        save(&mut known, "a", 25, false);
        save(&mut known, "b", 7, false);
        save(&mut known, "latest", 9, false);
        if let Ok(loaded) = self.load(&store, "pong@a") {
            assert!(
                known
                    .confirmed
                    .get("a")
                    .into_iter()
                    .chain(known.possible.get("a").into_iter().flatten())
                    .any(|c| *c == content(&loaded))
            );
        }
        let removed = store.remove("pong@a").is_ok();
        known.removed("a", removed);
        save(&mut known, "latest", 30, true);
        save(&mut known, "latest", 8, true);
        let removed = store.remove("pong@b").is_ok();
        known.removed("b", removed);
        save(&mut known, "c", 3, false);
        drop(writer);
        (known, ring)
    }

    /// Checks the state that the next process finds.
    fn check(&self, power: &Power, known: &Known, ring: &Ring, context: &str) {
        let store = Self::store(power);
        let listing = store.snapshots("pong").unwrap_or_else(|e| panic!("{context}: {e}"));
        assert!(listing.damages.is_empty(), "{context}: {:?}", listing.damages);
        let labels: Vec<&str> = listing.snapshots.iter().map(|s| s.label.as_str()).collect();
        for label in known.confirmed.keys() {
            assert!(labels.contains(&label.as_str()), "{context}: {label} is lost; {labels:?}");
        }
        for label in &labels {
            let loaded = self.load(&store, &format!("pong@{label}"));
            let loaded = content(&loaded.unwrap_or_else(|e| panic!("{context}: {label}: {e}")));
            let fits = known.confirmed.get(*label).is_some_and(|c| *c == loaded)
                || known.possible.get(*label).is_some_and(|all| all.contains(&loaded));
            assert!(fits, "{context}: {label} holds something else");
        }
        if !labels.is_empty() {
            let verified = store.verify("pong", |_| ControlFlow::Continue(())).expect(context);
            assert!(verified.is_whole(), "{context}: {:?}", verified.damages);
        }
        // The next save works, and leaves no unused file after a removal.
        let saved =
            store.save(ring, "after", Self::options()).unwrap_or_else(|e| panic!("{context}: {e}"));
        assert_eq!(saved.rows_lapped, 0);
        let loaded = self.load(&store, "pong@after").expect(context);
        assert_eq!(content(&loaded), content(ring), "{context}");
        store.remove("pong").expect(context);
        let left: Vec<_> =
            power.files().into_iter().filter(|f| !f.ends_with("store.lck")).collect();
        assert_eq!(left.len(), 2, "{context}: {left:?}");
    }
}

/// Breaks every operation of a life in turn, each once, and checks the states after it.
fn break_everywhere(fault: Fault, crashes: impl Fn(u64) -> Vec<Crash>) {
    let place = Place::new();
    let run = Run { place: &place, schema: schema() };
    let whole = Power::new();
    let (known, ring) = run.life(&whole);
    let operations = whole.operations();
    assert!(
        known.possible.is_empty() && known.confirmed.len() == 2,
        "{:?}",
        known.confirmed.keys()
    );
    run.check(&whole.after(Crash::LosesAll), &known, &ring, "unbroken");
    assert!(operations >= 200, "{operations}");
    let mut worlds = 0;
    for at in 0..operations {
        let power = Power::new();
        power.break_at(at, fault);
        let (known, ring) = run.life(&power);
        for crash in crashes(at) {
            let context = format!("operation {at} of {operations} {fault:?}, {crash:?}");
            run.check(&power.after(crash), &known, &ring, &context);
            worlds += 1;
        }
    }
    println!("{operations} operations broken in turn, {worlds} worlds after them");
}

#[test]
fn any_operation_may_be_the_last_one() {
    break_everywhere(Fault::Ends, |at| {
        vec![Crash::OfProcess, Crash::LosesAll, Crash::Random(at), Crash::Random(!at)]
    });
}

#[test]
fn any_operation_may_find_the_disk_full() {
    break_everywhere(Fault::Fails(ErrorKind::StorageFull), |at| {
        vec![Crash::LosesAll, Crash::Random(at)]
    });
}

#[test]
fn any_operation_may_fail() {
    break_everywhere(Fault::Fails(ErrorKind::Other), |at| vec![Crash::LosesAll, Crash::Random(at)]);
}

#[test]
fn bytes_that_were_not_forced_to_disk_would_be_missed() {
    // Test the model itself: the cases that the test above relies on occur.
    use backcast_persist::Storage;
    let power = Power::new();
    power.make_dir("/d".as_ref()).unwrap();
    power.sync_dir("/".as_ref()).unwrap();
    let mut file = power.create("/d/x".as_ref()).unwrap();
    file.write_all(b"bytes").unwrap();
    assert_eq!(power.after(Crash::OfProcess).files().len(), 1);
    assert_eq!(power.after(Crash::LosesAll).files().len(), 0, "its name was not forced");
    power.sync_dir("/d".as_ref()).unwrap();
    let after = power.after(Crash::LosesAll);
    assert_eq!(after.open("/d/x".as_ref()).unwrap().bytes().unwrap(), 0, "its bytes were not");
    file.sync().unwrap();
    let after = power.after(Crash::LosesAll);
    assert_eq!(after.open("/d/x".as_ref()).unwrap().bytes().unwrap(), 5);
    power.rename("/d/x".as_ref(), "/d/y".as_ref()).unwrap();
    assert!(power.after(Crash::LosesAll).open("/d/y".as_ref()).is_err());
    assert!(power.after(Crash::OfProcess).open("/d/y".as_ref()).is_ok());
}
