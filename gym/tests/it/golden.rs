//! The golden trajectories of an independent environment: every number of every step, drawn prices
//! included.
//!
//! Differences, each a fault of the other side:
//!
//! - With automatic reset, a step that ends an episode shows reward 0, no flag, and the next
//!   episode's first state. Here the last reward, flags and observation survive; what is compared
//!   is `done`, and each episode is replayed from the day that it began on.
//! - The observed indicators are in alphabetical order there, in the order of the file or the list
//!   here.
//! - Windows over missing rows show another row's numbers there; here they are masked (tests of the
//!   panel).
//! - The threshold of the vectorised kind is fixed there, and a setting here; all its cases use
//!   that one.

use std::{fs, path::PathBuf};

use backcast_gym::{
    AutoresetMode, Generator, PortfolioOptions, PortfolioVectorEnv, ResetSeed, StopLossDay,
};
use backcast_market::{Panel, PanelData, PanelOptions};
use serde_json::Value;

/// One recording of one or several environments.
struct Recording<'a> {
    trajectory: &'a Value,
    /// Environments; `None`: a single one, whose values have no axis for it.
    num_envs: Option<usize>,
    /// Steps and values compared.
    compared: (usize, usize),
}

impl<'a> Recording<'a> {
    fn new(trajectory: &'a Value) -> Self {
        let starts = trajectory["start_days"].as_array();
        Self { trajectory, num_envs: starts.map(Vec::len), compared: (0, 0) }
    }

    fn envs(&self) -> usize {
        self.num_envs.unwrap_or(1)
    }

    fn pick(&self, value: &'a Value, env: usize) -> &'a Value {
        self.num_envs.map_or(value, |_| &value[env])
    }

    fn whole(value: &Value) -> usize {
        usize::try_from(value.as_u64().unwrap()).unwrap()
    }

    fn after(&self, field: &str, step: usize, env: usize) -> &'a Value {
        self.pick(&self.trajectory["after_step"][field][step], env)
    }

    fn env(&self, panel: &Panel, macros: &[String]) -> PortfolioVectorEnv {
        let config = &self.trajectory["config"];
        let number = |key: &str| config[key].as_f64().unwrap();
        let word = |key: &str| config[key].as_str().unwrap();
        let names = |value: &Value| -> Vec<String> {
            value.as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect()
        };
        let indicators =
            Some(names(&config["tech_indicator_list"])).filter(|list| !list.is_empty());
        let options = PortfolioOptions {
            initial_amount: number("initial_amount"),
            failure_threshold: number("failure_threshold"),
            hmax: u32::try_from(config["hmax"].as_u64().unwrap()).unwrap(),
            buy_cost_pct: number("buy_cost_pct"),
            sell_cost_pct: number("sell_cost_pct"),
            bidding: word("bidding").parse().unwrap(),
            stop_loss_tolerance: number("stop_loss_tolerance"),
            stop_loss_calculation: word("stop_loss_calculation").parse().unwrap(),
            stop_loss_day: match self.num_envs {
                Some(_) => StopLossDay::Next,
                None => StopLossDay::SameAlways,
            },
            indicators,
            macro_tickers: macros.to_vec(),
            indicator_lag: 0,
            autoreset_mode: AutoresetMode::Disabled,
            play_on: true,
            generator: Generator::Mt19937,
            record: true,
            ..PortfolioOptions::default()
        };
        let tickers: Vec<Vec<String>> = (0..self.envs())
            .map(|env| names(self.pick(&self.trajectory["tickers"], env)))
            .collect();
        PortfolioVectorEnv::with_tickers(panel.clone(), &tickers, options).unwrap()
    }

    /// Resets with the recorded seeds, and compares the drawn start days and the first state.
    fn reset(&mut self, env: &mut PortfolioVectorEnv) {
        let seeds: Vec<Option<u64>> = match self.num_envs {
            Some(_) => {
                self.trajectory["env_seeds"].as_array().unwrap().iter().map(Value::as_u64).collect()
            }
            None => vec![self.trajectory["seed"].as_u64()],
        };
        let shift = self.trajectory["shifted_start"].as_u64().unwrap_or(0);
        env.reset_shifted(ResetSeed::Each(&seeds), None, usize::try_from(shift).unwrap()).unwrap();
        let starts = match self.num_envs {
            Some(_) => self.trajectory["start_days"].clone(),
            None => Value::from(vec![self.trajectory["start_day"].clone()]),
        };
        self.near(env.obs().day.iter().map(|&day| day.into()), &starts, "start days");
        for at in 0..self.envs() {
            self.compare_market(env, &self.trajectory["reset_state"], at, "reset");
            self.compare_portfolio(env, &self.trajectory["reset_state"], at, "reset");
        }
    }

    /// Replays the recorded actions and compares every step.
    fn replay(&mut self, panel: &Panel, macros: &[String]) {
        let mut env = self.env(panel, macros);
        self.reset(&mut env);
        let auto_reset = self.trajectory["auto_reset"] == true;
        for step in 0..Self::whole(&self.trajectory["steps"]) {
            let actions: Vec<f64> = (0..self.envs())
                .flat_map(|at| numbers(self.pick(&self.trajectory["actions"][step], at)))
                .collect();
            env.step(&actions).unwrap();
            self.compared.0 += 1;
            for at in 0..self.envs() {
                let context = format!("{} step {step} environment {at}", self.trajectory["id"]);
                let ended = env.terminated()[at] || env.truncated()[at];
                assert_eq!(Some(ended), self.after("done", step, at).as_bool(), "{context}");
                if ended && auto_reset {
                    let mut starts: Vec<usize> = vec![1; self.envs()];
                    starts[at] = Self::whole(self.after("day", step, at));
                    let mask: Vec<bool> = (0..self.envs()).map(|env| env == at).collect();
                    env.reset(ResetSeed::Keep, Some(&mask), Some(&starts)).unwrap();
                    continue;
                }
                let terminal = self.after("terminal", step, at).as_bool();
                assert_eq!(Some(env.truncated()[at]), terminal, "{context}");
                let state: serde_json::Map<String, Value> = self.trajectory["after_step"]
                    .as_object()
                    .unwrap()
                    .iter()
                    .map(|(field, values)| (field.clone(), values[step].clone()))
                    .collect();
                let state = Value::from(state);
                self.compare_market(&env, &state, at, &context);
                self.compare_portfolio(&env, &state, at, &context);
                let found = env.rewards()[at];
                let reward = self.after("reward", step, at).as_f64().unwrap();
                assert!(
                    (found - reward).abs() <= 1e-12,
                    "{context} reward {found} is not {reward}"
                );
                self.compare_counts(&env, step, at, &context);
            }
        }
    }

    fn field<'b>(&self, state: &'b Value, field: &str, env: usize) -> Option<&'b Value> {
        let value = state.get(field)?;
        let value = self.num_envs.map_or(value, |_| &value[env]);
        (!value.is_null()).then_some(value)
    }

    fn compare_market(
        &mut self,
        env: &PortfolioVectorEnv,
        state: &Value,
        at: usize,
        context: &str,
    ) {
        let row = env.obs().row(at).unwrap();
        for (found, field) in [(&row.open, "open"), (&row.macro_open, "macro_open")] {
            if let Some(expected) = self.field(state, field, at) {
                self.near(found.iter().copied(), expected, &format!("{context} {field}"));
            }
        }
        // The recording has its indicators in another order.
        let Some(names) = self.trajectory["obs_indicator_names"].as_array() else { return };
        let order: Vec<usize> = names
            .iter()
            .map(|name| env.indicators().iter().position(|ours| ours == name.as_str().unwrap()))
            .map(Option::unwrap)
            .collect();
        for (found, field) in
            [(&row.indicators, "indicators"), (&row.macro_indicators, "macro_indicators")]
        {
            let expected = self.field(state, field, at).unwrap();
            let ours = found
                .chunks_exact(order.len())
                .flat_map(|of_ticker| order.iter().map(|&position| of_ticker[position]));
            self.near(ours, expected, &format!("{context} {field}"));
        }
    }

    fn compare_portfolio(
        &mut self,
        env: &PortfolioVectorEnv,
        state: &Value,
        at: usize,
        context: &str,
    ) {
        let row = env.obs().row(at).unwrap();
        let integers = |values: &[i32]| values.iter().map(|&v| v.into()).collect::<Vec<f64>>();
        for (found, field) in [
            (integers(&row.day), "day"),
            (integers(&row.shares), "shares"),
            (row.cash, "cash"),
            (row.avg_buy_price, "avg_buy_price"),
            (row.total_asset, "total_asset"),
            (vec![env.total_asset_at_close()[at]], "total_asset"),
        ] {
            if let Some(expected) = self.field(state, field, at) {
                self.near(found.into_iter(), expected, &format!("{context} {field}"));
            }
        }
    }

    fn compare_counts(&mut self, env: &PortfolioVectorEnv, step: usize, at: usize, context: &str) {
        let metrics = env.metrics_so_far(at).unwrap();
        let (traded, cut) = env.traded(at);
        for (found, field) in [
            (f64::from(metrics.stop_losses), "num_stop_loss"),
            (f64::from(metrics.trades), "episode_orders"),
            (f64::from(u32::try_from(traded).unwrap()), "n_trades"),
            (cut, "loss_cut_amount"),
        ] {
            if self.trajectory["after_step"].get(field).is_some() {
                let expected = self.after(field, step, at);
                self.near(std::iter::once(found), expected, &format!("{context} {field}"));
            }
        }
        let Some(fills) = self.trajectory["after_step"].get("fills") else { return };
        let expected = fills[step].as_object().unwrap();
        let mut found = std::collections::BTreeMap::new();
        let names: Vec<&str> = env.tickers(at).collect();
        for fill in env.fills() {
            found.insert(names[fill.ticker], *fill); // The last fill, as there.
        }
        assert_eq!(found.len(), expected.len(), "{context}");
        for (name, fill) in found {
            let expected = &expected[name];
            let ours = [fill.price, fill.fee, fill.quantity];
            for (ours, key) in ours.into_iter().zip(["fill_price", "cost", "quantity"]) {
                self.near(
                    std::iter::once(ours),
                    &expected[key],
                    &format!("{context} {name} {key}"),
                );
            }
        }
    }

    fn near(&mut self, found: impl Iterator<Item = f64>, expected: &Value, context: &str) {
        let (found, expected): (Vec<f64>, Vec<f64>) = (found.collect(), numbers(expected));
        assert_eq!(found.len(), expected.len(), "{context}");
        for (found, expected) in found.iter().zip(&expected) {
            let near = (found - expected).abs() <= 1e-12 * expected.abs();
            assert!(near, "{context}: {found} is not {expected}");
        }
        self.compared.1 += found.len();
    }
}

/// Returns a number, or all numbers of nested lists.
fn numbers(value: &Value) -> Vec<f64> {
    match value.as_array() {
        Some(list) => list.iter().flat_map(numbers).collect(),
        None => vec![value.as_f64().unwrap()],
    }
}

/// Replays every recording of a case. Returns the numbers of recordings, steps and values compared,
/// so that a test fails if it compares fewer.
fn replay_case(case: &str) -> (usize, usize, usize) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/golden");
    let text = fs::read_to_string(folder.join(format!("{case}.json"))).unwrap();
    let golden: Value = serde_json::from_str(&text).unwrap();
    let macros: Vec<String> = golden["config"]["macro_tickers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|name| name.as_str().unwrap().to_owned())
        .collect();
    let options = PanelOptions::default().macro_tickers(macros.iter().map(String::as_str));
    let panel =
        PanelData::from_csv(folder.join(format!("{case}.csv")), &options).unwrap().into_heap();
    let mut total = (0, 0, 0);
    for trajectory in golden["trajectories"].as_array().unwrap() {
        let mut recording = Recording::new(trajectory);
        recording.replay(&panel, &macros);
        total.0 += 1;
        total.1 += recording.compared.0;
        total.2 += recording.compared.1;
    }
    total
}

#[test]
fn default_settings_and_both_random_fills_reproduce_the_recording() {
    assert_eq!(replay_case("s1_basic"), (6, 235, 12_533));
}

#[test]
fn late_listings_and_gaps_reproduce_the_recording() {
    assert_eq!(replay_case("s2_gaps"), (3, 141, 4_269));
}

#[test]
fn a_crash_with_its_stop_losses_reproduces_the_recording() {
    assert_eq!(replay_case("s3_crash"), (4, 176, 7_212));
}

#[test]
fn binding_cash_equal_orders_and_resets_reproduce_the_recording() {
    assert_eq!(replay_case("s4_cash"), (2, 136, 13_596));
}
