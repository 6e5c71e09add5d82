//! The short form of the realism battery on the default preset.

use std::ops::ControlFlow;

use backcast_sim::{
    Preset,
    facts::{BatteryOptions, run_preset},
};

/// Facts that the preset is known to miss: its mid-price trends for seconds to minutes.
const KNOWN_MISSES: [&str; 6] = [
    "signature_2s",
    "signature_5s",
    "signature_10s",
    "signature_20s",
    "signature_60s",
    "signature_300s",
];

#[test]
fn the_normal_preset_passes_the_short_battery_but_for_its_signature_plot() {
    let options = BatteryOptions::short();
    let report = run_preset(Preset::Normal, &options, |_, _| ControlFlow::Continue(()));
    let report = report.unwrap().unwrap();
    assert_eq!(report.missed(), KNOWN_MISSES);
}
