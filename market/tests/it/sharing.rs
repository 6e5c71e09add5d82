//! Shared panels: attached by name, equal in every process, removed with the last holder.

use backcast_layout::{Base, Exist, SegmentError, list_objects};
use backcast_market::{Panel, PanelData, PanelError, PanelOptions};

fn data(close: f64) -> PanelData {
    let csv = format!(
        "date,tic,open,high,low,close,volume,rsi\n2024-01-02,A,1,9,1,{close},10,5\n\
         2024-01-03,A,2,9,2,3,10,5\n2024-01-03,VIX,4,5,4,5,10,5\n"
    );
    let options = PanelOptions::default().macro_tickers(["VIX"]);
    PanelData::from_reader(csv.as_bytes(), &options).unwrap()
}

fn base() -> (tempfile::TempDir, Base) {
    let dir = tempfile::tempdir().unwrap();
    let base = Base::at(dir.path());
    (dir, base)
}

#[test]
fn a_panel_attached_by_name_equals_the_one_that_was_shared() {
    let (_dir, base) = base();
    let private = data(2.5).into_heap();
    let shared = data(2.5).share("prices", &base, Exist::Error, false).unwrap();
    let attached = Panel::attach_in(&base, "prices").unwrap();
    assert_eq!(
        (private.name(), shared.name(), attached.name()),
        (None, Some("prices"), Some("prices"))
    );
    for panel in [&shared, &attached] {
        assert_eq!(panel.tickers(), private.tickers());
        assert_eq!(panel.dates(), private.dates());
        assert_eq!(panel.columns(), private.columns());
        assert_eq!(panel.values(), private.values());
        assert_eq!(panel.mask(), private.mask());
        assert_eq!(panel.fingerprint(), private.fingerprint());
        assert!(panel.is_macro(1) && !panel.is_macro(0));
        assert_eq!((panel.first_day(0), panel.first_day(1)), (Some(0), Some(1)));
    }
}

#[test]
fn the_last_holder_takes_a_panel_with_it_unless_it_is_persistent() {
    let (_dir, base) = base();
    let first = data(2.5).share("prices", &base, Exist::Error, false).unwrap();
    let second = first.clone();
    drop(first);
    assert_eq!(list_objects(&base).unwrap().len(), 1);
    drop(second);
    assert!(list_objects(&base).unwrap().is_empty());

    drop(data(2.5).share("kept", &base, Exist::Error, true).unwrap());
    let kept = Panel::attach_in(&base, "kept").unwrap();
    kept.unlink().unwrap();
    assert!(list_objects(&base).unwrap().is_empty());
    assert_eq!(kept.value(0, 0, 3), Some(2.5), "a holder keeps what it holds");
}

#[test]
fn sharing_twice_follows_the_exist_rule_and_looks_at_the_numbers() {
    let (_dir, base) = base();
    let share = |close, exist| data(close).share("prices", &base, exist, false);
    let first = share(2.5, Exist::Error).unwrap();
    assert!(matches!(
        share(2.5, Exist::Error),
        Err(PanelError::Segment(SegmentError::AlreadyExists { .. }))
    ));
    assert_eq!(share(2.5, Exist::Attach).unwrap().fingerprint(), first.fingerprint());
    // One different close makes another panel, though names and sizes are equal.
    assert!(matches!(
        share(2.6, Exist::Attach),
        Err(PanelError::Segment(SegmentError::Different { .. }))
    ));
    assert_eq!(first.value(0, 0, 3), Some(2.5));
}

#[test]
fn a_name_without_a_panel_is_not_found() {
    let (_dir, base) = base();
    assert!(matches!(
        Panel::attach_in(&base, "nothing"),
        Err(PanelError::Segment(SegmentError::NotFound { .. }))
    ));
}
