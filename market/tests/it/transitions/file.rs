//! Files of a ring: saved, loaded, damaged.

use std::fs;

use backcast_market::{TransitionError, TransitionOptions, TransitionRing, TransitionShape};

use super::{data, held, numbered, panel, ring, shape, without_macro};

#[test]
fn a_file_brings_back_slots_and_draws() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("moves.bct");
    let mut saved = ring(8);
    saved.add(&numbered(0, 21)).unwrap();
    saved.draw_indices(3).unwrap();
    saved.save(&path).unwrap();

    let mut loaded = ring(8);
    loaded.add(&numbered(50, 3)).unwrap();
    loaded.load(&path).unwrap();
    assert_eq!(held(&loaded), held(&saved));
    assert_eq!(loaded.draw_indices(8).unwrap(), saved.draw_indices(8).unwrap());
    for ring in [&mut loaded, &mut saved] {
        ring.add(&numbered(21, 3)).unwrap();
    }
    assert_eq!(held(&loaded), held(&saved), "overwriting goes on where it stood");

    let mut smaller = ring(3);
    smaller.load(&path).unwrap();
    let mut newest = held(&smaller);
    newest.sort_unstable();
    assert_eq!(newest, [18, 19, 20]);
    let mut larger = ring(30);
    larger.load(&path).unwrap();
    assert_eq!(held(&larger), (13..21).collect::<Vec<_>>());
}

#[test]
fn a_file_cut_or_changed_or_of_something_else_is_refused_and_all_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("moves.bct");
    let mut kept = ring(8);
    kept.add(&numbered(0, 5)).unwrap();
    kept.save(&path).unwrap();
    let whole = fs::read(&path).unwrap();
    let before = held(&kept);
    for at in (0..whole.len()).step_by(7).chain([whole.len() - 1]) {
        fs::write(&path, &whole[..at]).unwrap();
        assert!(matches!(kept.load(&path), Err(TransitionError::BadFile { .. })), "cut at {at}");
        let mut changed = whole.clone();
        changed[at] ^= 4;
        fs::write(&path, changed).unwrap();
        assert!(
            matches!(kept.load(&path), Err(TransitionError::BadFile { .. })),
            "changed at {at}"
        );
    }
    assert_eq!(held(&kept), before);

    fs::write(&path, &whole).unwrap();
    let options = || TransitionOptions::with_capacity(8);
    let other = data(2.0).into_heap();
    let mut elsewhere = TransitionRing::create(other, shape(), options()).unwrap();
    assert!(matches!(elsewhere.load(&path), Err(TransitionError::OtherPanel { .. })));
    let mut untold = TransitionRing::create(without_macro(), shape(), options()).unwrap();
    let refused = untold.load(&path).unwrap_err();
    let TransitionError::OtherMacroTickers { what, expected, found } = &refused else {
        panic!("{refused}")
    };
    assert_eq!(*what, path.display().to_string());
    assert_eq!((&**expected, &**found), (&["VIX".to_owned()][..], &[][..]));
    let shape = TransitionShape { objectives: 3, ..shape() };
    let mut wider = TransitionRing::create(panel(), shape, options()).unwrap();
    assert!(matches!(wider.load(&path), Err(TransitionError::OtherShape { .. })));
    assert!(matches!(kept.load(folder.path()), Err(TransitionError::File { .. })));
    let nowhere = folder.path().join("no").join("folder");
    assert!(matches!(kept.save(nowhere), Err(TransitionError::File { .. })));
    assert_eq!(held(&kept), before);
}
