//! The short form of the realism battery on the default preset.

use std::ops::ControlFlow;

use backcast_sim::{
    Preset,
    facts::{BatteryOptions, run_preset},
};

#[test]
fn the_normal_preset_passes_the_short_battery() {
    let options = BatteryOptions::short();
    let report = run_preset(Preset::Normal, &options, |_, _| ControlFlow::Continue(()));
    let report = report.unwrap().unwrap();
    assert!(report.passed, "{:?}", report.missed());
}
