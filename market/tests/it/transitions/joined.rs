//! Rings that other handles join by name, and those that they refuse.

use std::{fs, path::Path};

use backcast_core::{Base, Exist, Ring, RingOptions};
use backcast_market::{Panel, TransitionError, TransitionOptions, TransitionRing, TransitionShape};

use super::{data, held, numbered, panel, shape, without_macro};

#[test]
fn joined_rings_keep_the_end_of_futures_unless_another_is_given() {
    let folder = tempfile::tempdir().unwrap();
    let base = Base::at(folder.path());
    let shared = data(1.0).share("prices", &base, Exist::Error, false).unwrap();
    let made = |name: &str, end| {
        let options = TransitionOptions {
            name: Some(name.to_owned()),
            base: base.clone(),
            end,
            ..TransitionOptions::with_capacity(10)
        };
        TransitionRing::create(shared.clone(), shape(), options).unwrap()
    };
    let joined = |name| TransitionRing::attach(&base, name, None, 1, 1).unwrap();
    let (first, all) = (made("trained", Some(25)), made("all", None));
    assert_eq!((first.end(), joined("trained").end()), (25, 25));
    assert_eq!(joined("trained").until(Some(30)).end(), 30);
    assert_eq!((all.end(), joined("all").end()), (40, 40));
}

#[test]
fn joined_rings_keep_the_indicator_lag() {
    let folder = tempfile::tempdir().unwrap();
    let base = Base::at(folder.path());
    let shared = data(1.0).share("prices", &base, Exist::Error, false).unwrap();
    for (name, indicator_lag) in [("fresh", 0), ("usual", 1), ("old", 3)] {
        let options = TransitionOptions {
            name: Some(name.to_owned()),
            base: base.clone(),
            indicator_lag,
            ..TransitionOptions::with_capacity(10)
        };
        let made = TransitionRing::create(shared.clone(), shape(), options).unwrap();
        let joined = || TransitionRing::attach(&base, name, None, 1, 1).unwrap();
        assert_eq!([made.indicator_lag(), joined().indicator_lag()], [indicator_lag; 2]);
        let file = made.ring().path().unwrap().join("transitions.json");
        let whole = fs::read_to_string(&file).unwrap();
        let said = format!(",\"indicator_lag\":{indicator_lag}");
        assert_eq!(whole.contains(&said), indicator_lag != 1, "{whole}");
        fs::write(&file, whole.replace(&said, "")).unwrap();
        assert_eq!(joined().indicator_lag(), 1, "files of earlier versions leave it out");
    }
}

fn named(folder: &Path, capacity: u64, lanes: u32, panel: Panel) -> TransitionRing {
    let options = TransitionOptions {
        name: Some("moves".to_owned()),
        base: Base::at(folder),
        lanes,
        ..TransitionOptions::with_capacity(capacity)
    };
    TransitionRing::create(panel, shape(), options).unwrap()
}

#[test]
fn another_handle_finds_ring_and_panel_by_name_and_adds_in_a_lane_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let base = Base::at(folder.path());
    let shared = data(1.0).share("prices", &base, Exist::Error, false).unwrap();
    let mut first = named(folder.path(), 11, 2, shared);
    let mut second = TransitionRing::attach(&base, "moves", None, 1, 1).unwrap();
    assert_eq!(second.shape(), &shape());
    assert_eq!((second.capacity(), second.len().unwrap()), (11, 0));
    first.add(&numbered(0, 9)).unwrap();
    second.add(&numbered(100, 4)).unwrap();
    // Six places for the first adder, five for the second.
    let all = [6, 7, 8, 3, 4, 5, 100, 101, 102, 103];
    assert_eq!(held(&first), all);
    assert_eq!(held(&second), all);
    second.add(&numbered(104, 2)).unwrap();
    assert_eq!(held(&first), [6, 7, 8, 3, 4, 5, 105, 101, 102, 103, 104]);
    assert_eq!(first.len().unwrap(), 11);

    let refused = first.clear().unwrap_err();
    assert!(
        matches!(&refused, TransitionError::HeldByOthers { held, .. } if held.len() == 1),
        "{refused}"
    );
    let mut third = TransitionRing::attach(&base, "moves", None, 1, 1).unwrap();
    let refused = third.add(&numbered(0, 1)).unwrap_err();
    assert!(matches!(refused, TransitionError::NoPlace { places: 2, .. }), "{refused}");
    assert_eq!(held(&first).len(), 11, "nothing was lost");

    // A released lane continues at its position.
    drop(second);
    third.add(&numbered(200, 1)).unwrap();
    assert_eq!(held(&first), [6, 7, 8, 3, 4, 5, 105, 200, 102, 103, 104]);
    drop(third);
    first.clear().unwrap();
    assert!(first.is_empty().unwrap());
    let last = TransitionRing::attach(&base, "moves", None, 1, 1).unwrap();
    assert!(last.is_empty().unwrap(), "cleared for everybody, before the next is added");
}

#[test]
fn a_ring_of_other_sizes_is_not_joined_as_what_was_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let made = named(folder.path(), 10, 2, panel());
    let joined = |capacity, lanes, shape| {
        let options = TransitionOptions {
            name: Some("moves".to_owned()),
            base: Base::at(folder.path()),
            exist: Exist::Attach,
            lanes,
            ..TransitionOptions::with_capacity(capacity)
        };
        TransitionRing::create(panel(), shape, options)
    };
    assert_eq!(joined(10, 2, shape()).unwrap().capacity(), made.capacity());
    let wide = TransitionShape { tickers: 3, ..shape() };
    for (capacity, lanes, shape, has, asked) in [
        // Every lane has the same number of rows.
        (9, 2, shape(), &["capacity 10"][..], &["capacity 9"][..]),
        (10, 1, shape(), &["n_adders 2"], &["n_adders 1"]),
        (
            30,
            3,
            wide.clone(),
            &["n_adders 2", "capacity 10", "2 tickers", "action_shape [2, 2]", "n_objectives 2"],
            &["n_adders 3", "capacity 30"],
        ),
        (10, 2, wide, &["2 tickers"], &["3 tickers", "action_shape [2, 2]", "n_objectives 2"]),
    ] {
        let refused = joined(capacity, lanes, shape).unwrap_err();
        let TransitionError::Different { name, found, requested } = &refused else {
            panic!("{refused}")
        };
        assert_eq!(name, "moves");
        assert!(has.iter().all(|value| found.contains(value)), "{refused}");
        assert!(asked.iter().all(|value| requested.contains(value)), "{refused}");
    }
}

#[test]
fn rings_of_something_else_or_of_another_panel_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let base = Base::at(folder.path());
    let private = named(folder.path(), 10, 1, panel());
    let refused = TransitionRing::attach(&base, "moves", None, 1, 1).unwrap_err();
    assert!(matches!(refused, TransitionError::NotTransitions { .. }), "{refused}");
    TransitionRing::attach(&base, "moves", Some(panel()), 1, 1).unwrap();
    let refused = TransitionRing::attach(&base, "moves", Some(data(2.0).into_heap()), 1, 1);
    assert!(matches!(refused.unwrap_err(), TransitionError::OtherPanel { .. }));
    let refused = TransitionRing::attach(&base, "moves", Some(without_macro()), 1, 1).unwrap_err();
    assert!(matches!(refused, TransitionError::OtherMacroTickers { .. }), "{refused}");

    let path = private.ring().path().unwrap().join("transitions.json");
    let whole = fs::read_to_string(&path).unwrap();
    for text in [&whole[..9], "{}", &whole.replace("\"capacity\":10", "\"capacity\":900")] {
        fs::write(&path, text).unwrap();
        let refused = TransitionRing::attach(&base, "moves", Some(panel()), 1, 1).unwrap_err();
        assert!(matches!(refused, TransitionError::NotTransitions { .. }), "{refused}");
    }
    let schema = backcast_core::Schema::builder()
        .column("obs", backcast_core::DType::F32, &[2])
        .build()
        .unwrap();
    let options = RingOptions::with_capacity(10).base(base.clone());
    let _other = Ring::create("other", &schema, options).unwrap();
    let refused = TransitionRing::attach(&base, "other", Some(panel()), 1, 1).unwrap_err();
    let TransitionError::NotTransitions { name, what } = &refused else { panic!("{refused}") };
    assert!(name == "other" && what.contains("transitions.json"), "{refused}");
}
