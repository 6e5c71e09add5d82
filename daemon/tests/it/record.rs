//! `backcast record`: simulated markets in a ring and in a Parquet panel, in real processes.

use std::fs;
use std::process::Child;

use crate::shelf::{Shelf, Started};
use backcast_budget::{BoundedChild, until};
use backcast_core::{Ring, SamplerOptions};
use backcast_gym::{PortfolioOptions, PortfolioVectorEnv, ResetSeed};
use backcast_market::{PanelData, PanelOptions};
use backcast_sim::{FeatureSet, Market, NormalisedFeatures, Preset};
use rustix::process::{Pid, Signal, kill_process};

/// Small enough for a test: 40 candles of 30 ticks, two seeds, two symbols.
const SMALL: [&str; 12] = [
    "--seeds",
    "2",
    "--first-seed",
    "9",
    "--symbols",
    "2",
    "--ticks",
    "1_200",
    "--interval",
    "30",
    "--warm-up",
    "100",
];

fn record(shelf: &Shelf, args: &[&str]) -> crate::shelf::Ran {
    shelf.run(&[&["record"], args].concat())
}

/// Returns the recorded market of a seed, after its warm-up of four candles.
fn market(seed: u64) -> Market {
    let mut config = Preset::Normal.config();
    config.symbols = 2;
    config.slots.clear();
    config.features.candle_ticks = 30;
    let mut market = Market::new(&config, seed).unwrap();
    market.run(120);
    market
}

#[test]
#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "as recorded")]
fn a_ring_has_the_candles_and_features_of_every_market() {
    let shelf = Shelf::new();
    let ran = record(&shelf, &[&["--ring", "sim"], &SMALL[..]].concat()).expect(0);
    assert!(ran.out.starts_with("recorded 2 simulations of normal as ring sim: 160 rows"));
    assert!(ran.err.is_empty(), "no progress where there is no terminal: {}", ran.err);
    let ring = Ring::attach_in(&shelf.base(), "sim").unwrap();
    assert_eq!((ring.lanes(), ring.len()), (4, 4 * 39));
    for lane in 0..4 {
        let rows = ring.rows(lane, 0..40).unwrap();
        let candles = rows.column::<f32>("obs/candle").unwrap();
        let features = rows.column::<f32>("obs/features").unwrap();
        let seed = 9 + u64::from(lane / 2);
        let seeds = rows.column::<u64>("seed").unwrap();
        assert!(seeds[..39].iter().all(|&stored| stored == seed) && seeds[39] == 0);
        let symbol = (lane % 2) as u16;
        let mut market = market(seed);
        for at in 0..40 {
            market.run(30);
            let candle = market.candles(symbol).last();
            let price = |ticks: i32| (f64::from(ticks) * 0.01) as f32;
            let expected = [
                price(candle.open),
                price(candle.high),
                price(candle.low),
                price(candle.close),
                candle.volume as f32,
            ];
            assert_eq!(candles[at * 5..(at + 1) * 5], expected, "lane {lane}, candle {at}");
            let mut observed = [0.0; 40];
            NormalisedFeatures.observe(&market, symbol, &mut observed).unwrap();
            assert_eq!(features[at * 40..(at + 1) * 40], observed, "lane {lane}, candle {at}");
        }
    }
}

#[test]
fn history_and_future_windows_work_on_a_recording() {
    let shelf = Shelf::new();
    let args = [&["--ring", "sim"], &SMALL[..], &["--features", "none"]].concat();
    record(&shelf, &args).expect(0);
    let ring = Ring::attach_in(&shelf.base(), "sim").unwrap();
    let options = SamplerOptions::seeded(3).history(5).future(2);
    let batch = ring.sampler(options).unwrap().sample(64).unwrap();
    let rows: Vec<_> = (0..4)
        .map(|lane| ring.rows(lane, 0..40).unwrap().column::<f32>("obs/candle").unwrap().to_vec())
        .collect();
    let history = batch.column::<f32>("obs/candle").unwrap();
    let mask = batch.column::<bool>("mask").unwrap();
    for (sample, index) in batch.index().into_iter().enumerate() {
        let lane = &rows[usize::try_from(index.lane()).unwrap()];
        let seq = usize::try_from(index.seq()).unwrap();
        for place in 0..5 {
            let window: Vec<f32> = (0..5).map(|number| history[[sample, place, number]]).collect();
            match (seq + place + 1).checked_sub(5) {
                Some(at) => {
                    assert!(mask[[sample, place]]);
                    assert_eq!(window, lane[at * 5..(at + 1) * 5]);
                }
                None => assert!(!mask[[sample, place]] && window == [0.0; 5]),
            }
        }
    }
}

#[test]
fn a_panel_of_simulated_markets_is_loaded_and_traded() {
    let shelf = Shelf::new();
    let path = shelf.path().join("sim.parquet");
    let file = path.to_str().unwrap();
    let args = [&["--panel", file], &SMALL[..]].concat();
    let ran = record(&shelf, &args).expect(0);
    assert!(ran.out.contains("160 rows"), "{}", ran.out);
    let panel = PanelData::from_file(&path, &PanelOptions::default()).unwrap().into_heap();
    assert_eq!(panel.tickers(), ["seed09-0", "seed09-1", "seed10-0", "seed10-1"]);
    assert_eq!((panel.days(), panel.indicators().len()), (40, 40));
    assert_eq!(panel.dates()[39], "2000-02-09");
    let mut market = market(10);
    for day in 0..40 {
        market.run(30);
        let close = f64::from(market.candles(1).last().close) / 100.0;
        let stored = panel.value(3, day, 3).unwrap();
        assert!((stored - close).abs() < 1e-9, "day {day}: {stored} {close}");
    }
    // The portfolio environment trades on it to the end of its days.
    let mut env = PortfolioVectorEnv::new(panel, 1, PortfolioOptions::default()).unwrap();
    env.reset(ResetSeed::One(1), None, None).unwrap();
    let mut bought = 0;
    for steps in 1.. {
        env.step(&[0.5_f32, -0.5, 0.25, 0.0]).unwrap();
        bought = bought.max(env.obs().shares[0]);
        if env.truncated()[0] {
            assert!(steps >= 5, "{steps}");
            break;
        }
        assert!(!env.terminated()[0]);
    }
    assert!(bought > 0);
    let shown = shelf.run(&["panel", "stat", file]).expect(0);
    assert!(shown.out.contains("4 tradable"), "{}", shown.out);
}

#[test]
fn a_recording_does_not_depend_on_the_threads() {
    let shelf = Shelf::new();
    let mut files = Vec::new();
    for threads in ["1", "2"] {
        let file = shelf.path().join(format!("{threads}.parquet"));
        let args = ["--panel", file.to_str().unwrap(), "--threads", threads];
        record(&shelf, &[&args, &SMALL[..]].concat()).expect(0);
        files.push(fs::read(file).unwrap());
    }
    assert!(files[0] == files[1]);
}

#[test]
fn wrong_usage_is_one_clear_error_and_leaves_nothing() {
    let shelf = Shelf::new();
    let taken = shelf.file("taken.parquet", "kept");
    for (args, status, named) in [
        (&["--ring", "sim", "--preset", "norml"][..], 2, "normal?"),
        (&["--ring", "sim", "--preset", "x"], 2, "teaching"),
        (&[], 2, "--ring"),
        (&["--ring", "sim", "--panel", "x.parquet"], 2, "--panel"),
        (&["--ring", "sim", "--ticks", "100"], 2, "100"),
        (&["--ring", "sim", "--seeds", "100", "--symbols", "64"], 2, "6400 lanes"),
        (&["--ring", "sim", "--ticks", "1_000_000_000", "--interval", "1"], 2, "268435456"),
        (&["--ring", "no/name"], 2, "no/name"),
        (&["--panel", "nowhere/sim.parquet"], 1, "nowhere/sim.parquet"),
        (&["--panel", &taken], 1, "--replace"),
    ] {
        let ran = record(&shelf, args).expect(status);
        assert!(ran.err.contains(named) && ran.out.is_empty(), "{args:?}: {}", ran.err);
    }
    assert_eq!(shelf.states(), []);
    assert_eq!(fs::read_to_string(&taken).unwrap(), "kept");
    let names = fs::read_dir(shelf.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let names: Vec<_> = names.filter(|name| name.to_string_lossy().contains("parquet")).collect();
    assert_eq!(names, ["taken.parquet"]);
}

#[test]
fn a_ring_is_replaced_only_if_asked() {
    let shelf = Shelf::new();
    record(&shelf, &[&["--ring", "sim"], &SMALL[..]].concat()).expect(0);
    let again = record(&shelf, &[&["--ring", "sim"], &SMALL[..]].concat()).expect(1);
    assert!(again.err.contains("`sim`"), "{}", again.err);
    let args = ["--ring", "sim", "--replace", "--ticks", "120", "--features", "none"];
    record(&shelf, &args).expect(0);
    let ring = Ring::attach_in(&shelf.base(), "sim").unwrap();
    assert_eq!((ring.lanes(), ring.len()), (1, 1));
    let file = shelf.file("old.parquet", "old");
    let args = ["--panel", &file, "--replace", "--ticks", "120"];
    record(&shelf, &args).expect(0);
    PanelData::from_file(&file, &PanelOptions::default()).unwrap();
}

/// Starts a recording that does not end, and waits until it writes.
fn begin(shelf: &Shelf, into: [&str; 2]) -> Started {
    let endless = ["record", "--replace", "--ticks", "1_000_000_000", "--interval", "10_000"];
    let mut command = shelf.command();
    command.args(endless).args(into).args(["--features", "none"]);
    let mut running = Started::spawn(command);
    // The command handles signals before the files of its recording exist.
    until("the recording begins", || {
        assert!(running.child().try_wait().unwrap().is_none(), "it ended by itself");
        !written(shelf, into).is_empty()
    });
    running
}

/// Returns the unfinished files or directories of a recording.
fn written(shelf: &Shelf, into: [&str; 2]) -> Vec<String> {
    let name = if into[0] == "--ring" { "building" } else { ".backcast.tmp" };
    let entries = |path| fs::read_dir(path).into_iter().flatten().flatten();
    let all = entries(shelf.path().to_owned()).chain(entries(shelf.base().path().to_owned()));
    let names = all.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|entry| entry.contains(name)).collect()
}

fn send(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

#[test]
fn an_interrupted_recording_leaves_nothing() {
    for into in [["--ring", "sim"], ["--panel", "sim.parquet"]] {
        for (signal, status) in [(Signal::INT, 130), (Signal::TERM, 143)] {
            let shelf = Shelf::new();
            let old = shelf.file("sim.parquet", "old");
            let mut running = begin(&shelf, into);
            send(running.child(), signal);
            let ended = running.ended().expect(status);
            assert!(ended.err.starts_with("error: ") && ended.err.lines().count() == 1);
            assert_eq!(shelf.states(), []);
            assert!(written(&shelf, into).is_empty(), "{into:?}");
            assert_eq!(fs::read_to_string(&old).unwrap(), "old");
        }
    }
}

#[test]
fn what_a_killed_recording_leaves_is_collected() {
    for (into, kind) in [(["--ring", "sim"], "ring"), (["--panel", "sim.parquet"], "file")] {
        let shelf = Shelf::new();
        let mut running = begin(&shelf, into);
        let folder = shelf.path().display().to_string();
        let collected = shelf.json(&["gc", &folder]);
        assert!(collected.is_empty(), "{into:?}: the recording runs: {collected:?}");
        running.child().kill().unwrap();
        running.child().wait_bounded().unwrap();
        let [left] = &written(&shelf, into)[..] else { panic!("{into:?} left nothing") };
        let would = shelf.json(&["gc", "--dry-run", &folder]);
        assert_eq!(
            (&would[0]["action"], &would[0]["kind"]),
            (&"would_remove".into(), &kind.into())
        );
        assert!(would[0]["path"].as_str().unwrap().ends_with(left.as_str()), "{would:?}");
        assert_eq!(shelf.json(&["gc", &folder]).len(), 1);
        assert!(written(&shelf, into).is_empty(), "{into:?}");
        assert!(shelf.json(&["gc", &folder]).is_empty());
    }
}
