//! The golden trajectories of an independent environment, up to each one's first stop loss or end.

use std::{fs, path::PathBuf};

use backcast_gym::{PortfolioOptions, PortfolioVectorEnv, ResetSeed};
use backcast_market::{Panel, PanelData, PanelOptions};
use serde_json::Value;

/// One environment of one recording.
struct Recording<'a> {
    trajectory: &'a Value,
    /// Position in the recording's batch; `None` for a single environment.
    env: Option<usize>,
}

impl<'a> Recording<'a> {
    fn pick(&self, value: &'a Value) -> &'a Value {
        self.env.map_or(value, |env| &value[env])
    }

    fn tickers(&self) -> Vec<String> {
        let tickers = self.pick(&self.trajectory["tickers"]).as_array().unwrap();
        tickers.iter().map(|ticker| ticker.as_str().unwrap().to_owned()).collect()
    }

    fn start_day(&self) -> usize {
        let day = match self.env {
            Some(env) => &self.trajectory["start_days"][env],
            None => &self.trajectory["start_day"],
        };
        usize::try_from(day.as_u64().unwrap()).unwrap()
    }

    fn actions(&self, step: usize) -> Vec<f64> {
        numbers(self.pick(&self.trajectory["actions"][step]))
    }

    fn after(&self, field: &str, step: usize) -> &'a Value {
        self.pick(&self.trajectory["after_step"][field][step])
    }

    /// Compare step by step; returns the number of steps compared.
    fn replay(&self, panel: &Panel) -> usize {
        let config = &self.trajectory["config"];
        let number = |key: &str| config[key].as_f64().unwrap();
        let options = PortfolioOptions {
            initial_amount: number("initial_amount"),
            failure_threshold: number("failure_threshold"),
            hmax: u32::try_from(config["hmax"].as_u64().unwrap()).unwrap(),
            buy_cost_pct: number("buy_cost_pct"),
            sell_cost_pct: number("sell_cost_pct"),
            tickers: Some(self.tickers()),
            indicator_lag: 0,
            ..PortfolioOptions::default()
        };
        let mut env = PortfolioVectorEnv::new(panel.clone(), 1, options).unwrap();
        env.reset(ResetSeed::Keep, None, Some(&[self.start_day()])).unwrap();
        let reset = &self.trajectory["reset_state"];
        assert_close(&env.obs().open, self.pick(&reset["open"]), "open after reset");
        if self.env.is_some() {
            self.compare_indicators(&env, self.pick(&reset["indicators"]));
        }

        let steps = usize::try_from(self.trajectory["steps"].as_u64().unwrap()).unwrap();
        for step in 0..steps {
            env.step(&self.actions(step)).unwrap();
            if self.after("num_stop_loss", step).as_u64() != Some(0) {
                return step;
            }
            let context = format!("{} {:?} step {step}", self.trajectory["id"], self.env);
            let ended = env.terminated()[0] || env.truncated()[0];
            assert_eq!(Some(ended), self.after("done", step).as_bool(), "{context}");
            if ended && self.trajectory["auto_reset"].as_bool() == Some(true) {
                return step; // Here the recording shows its next episode; `done` is all it says.
            }
            assert_eq!(
                Some(env.truncated()[0]),
                self.after("terminal", step).as_bool(),
                "{context}"
            );
            assert_eq!(
                Some(i64::from(env.obs().day[0])),
                self.after("day", step).as_i64(),
                "{context}"
            );
            let shares: Vec<f64> = env.obs().shares.iter().map(|&held| f64::from(held)).collect();
            assert_eq!(shares, numbers(self.after("shares", step)), "{context}");
            for (found, field) in [
                (&env.obs().cash, "cash"),
                (&env.obs().avg_buy_price, "avg_buy_price"),
                (&env.obs().open, "open"),
                (&env.total_asset_at_close().to_vec(), "total_asset"),
            ] {
                assert_close(found, self.after(field, step), &format!("{context} {field}"));
            }
            let reward = self.after("reward", step).as_f64().unwrap();
            assert!((env.rewards()[0] - reward).abs() <= 1e-12, "{context} reward");
            if self.env.is_some() {
                self.compare_indicators(&env, self.after("indicators", step));
            }
            if ended {
                return step + 1;
            }
        }
        steps
    }

    /// The recording has its indicators in another order.
    fn compare_indicators(&self, env: &PortfolioVectorEnv, expected: &Value) {
        let names = self.trajectory["obs_indicator_names"].as_array().unwrap();
        let width = env.indicators().len();
        for ticker in 0..env.n_tickers() {
            for (position, name) in names.iter().enumerate() {
                let ours =
                    env.indicators().iter().position(|other| other == name.as_str().unwrap());
                let found = env.obs().indicators[ticker * width + ours.unwrap()];
                let expected = expected[ticker][position].as_f64().unwrap();
                assert_eq!(found.to_bits(), expected.to_bits(), "{name}");
            }
        }
    }
}

/// A number or a list of them.
fn numbers(value: &Value) -> Vec<f64> {
    match value.as_array() {
        Some(list) => list.iter().map(|number| number.as_f64().unwrap()).collect(),
        None => vec![value.as_f64().unwrap()],
    }
}

fn assert_close(found: &[f64], expected: &Value, context: &str) {
    let expected = numbers(expected);
    assert_eq!(found.len(), expected.len(), "{context}");
    for (found, expected) in found.iter().zip(expected) {
        let near = (found - expected).abs() <= 1e-12 * expected.abs();
        assert!(near, "{context}: {found} is not {expected}");
    }
}

/// Replay every recording with fills at the close; returns steps compared and environments replayed, so that
/// a test notices when it compares less than it did.
fn replay_case(case: &str) -> (usize, usize) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/golden");
    let text = fs::read_to_string(folder.join(format!("{case}.json"))).unwrap();
    let golden: Value = serde_json::from_str(&text).unwrap();
    let macros = golden["config"]["macro_tickers"].as_array().unwrap();
    let options =
        PanelOptions::default().macro_tickers(macros.iter().map(|name| name.as_str().unwrap()));
    let panel =
        PanelData::from_csv(folder.join(format!("{case}.csv")), &options).unwrap().into_heap();
    let (mut steps, mut envs) = (0, 0);
    for trajectory in golden["trajectories"].as_array().unwrap() {
        if trajectory["config"]["bidding"] != "default" {
            continue;
        }
        let n = (trajectory["kind"] == "vec")
            .then(|| trajectory["start_days"].as_array().unwrap().len());
        for env in 0..n.unwrap_or(1) {
            let recording = Recording { trajectory, env: n.map(|_| env) };
            let compared = recording.replay(&panel);
            assert!(compared > 0, "{} {env} compared nothing", trajectory["id"]);
            steps += compared;
            envs += 1;
        }
    }
    (steps, envs)
}

#[test]
fn default_settings_reproduce_the_recording() {
    assert_eq!(replay_case("s1_basic"), (377, 8));
}

#[test]
fn late_listings_and_gaps_reproduce_the_recording() {
    assert_eq!(replay_case("s2_gaps"), (207, 4));
}

#[test]
fn a_crash_reproduces_the_recording_up_to_its_first_stop_loss() {
    assert_eq!(replay_case("s3_crash"), (96, 7));
}

#[test]
fn binding_cash_and_equal_orders_reproduce_the_recording() {
    assert_eq!(replay_case("s4_cash"), (179, 4));
}
