//! Settings, resets and actions that the portfolio environment refuses.

use backcast_gym::{Actions, Margin, PortfolioOptions, PortfolioVectorEnv, ResetSeed, Reward};

use crate::refusals::stage::Stage;
use crate::refusals::{Refusal, Row, refusal, row};

pub(crate) const ROWS: &[Row] = &[
    row("no portfolio", |s| made(s, 0, |_| {}), "BadNumEnvs", &["is 0", "1 to "]),
    row(
        "more portfolios than memory holds",
        |s| made(s, 1_000_000_000, |_| {}),
        "BadNumEnvs",
        &["is 1000000000", "1 to ", "1 tickers", "gibibyte"],
    ),
    row(
        "more history than memory should hold",
        |s| made(s, 1_000_000, |o| o.history = 1_000),
        "TooMuchHistory",
        &["`history` is 1000 days", "1000000 portfolio(s)", "make at most", "gibibyte"],
    ),
    row(
        "no money",
        |s| made(s, 1, |o| o.initial_amount = 0.0),
        "BadOption",
        &["`initial_amount` is 0", "above 0"],
    ),
    row(
        "a threshold above the start",
        |s| made(s, 1, |o| o.failure_threshold = 40_000.0),
        "BadOption",
        &["`failure_threshold` is 40000", "below `initial_amount`"],
    ),
    row("no shares", |s| made(s, 1, |o| o.hmax = 0), "BadOption", &["`hmax` is 0", "between 1"]),
    row(
        "a fee in percent",
        |s| made(s, 1, |o| o.buy_cost_pct = 1.0),
        "BadOption",
        &["`buy_cost_pct` is 1", "one percent is 0.01"],
    ),
    row(
        "days beyond the panel",
        |s| made(s, 1, |o| o.days = Some((0, 11))),
        "BadDays",
        &["0..11", "0..10", "two days"],
    ),
    row(
        "no ticker",
        |s| made(s, 1, |o| o.tickers = Some(Vec::new())),
        "NoTickers",
        &["empty", "at least one"],
    ),
    row(
        "a ticker of another panel",
        |s| made(s, 1, |o| o.tickers = Some(vec!["AAB".to_owned()])),
        "UnknownTicker",
        &["\"AAB\"", "2 tickers", "\"AAA\""],
    ),
    row(
        "a macro ticker to trade",
        |s| made(s, 1, |o| o.tickers = Some(vec!["VIX".to_owned()])),
        "MacroTicker",
        &["\"VIX\"", "leave it out"],
    ),
    row(
        "other fees in percent",
        |s| made(s, 1, |o| o.ticker_costs = [("AAA".to_owned(), (1.5, 0.0))].into()),
        "BadOption",
        &["`ticker_costs` is 1.5", "one percent is 0.01"],
    ),
    row(
        "fees of a ticker of another panel",
        |s| made(s, 1, |o| o.ticker_costs = [("AAB".to_owned(), (0.5, 0.0))].into()),
        "UnknownTicker",
        &["\"AAB\"", "2 tickers"],
    ),
    row(
        "a fee that pays",
        |s| made(s, 1, |o| o.fixed_fee = -1.0),
        "BadOption",
        &["`fixed_fee` is -1", "at least 0"],
    ),
    row(
        "slippage of everything",
        |s| made(s, 1, |o| o.slippage_bps = 10_000.0),
        "BadOption",
        &["`slippage_bps` is 10000", "one percent is 100"],
    ),
    row(
        "a stop loss of short positions",
        |s| {
            made(s, 1, |o| {
                (o.stop_loss_tolerance, o.margin) = (0.9, Some(Margin::default()));
            })
        },
        "Together",
        &["`stop_loss_tolerance`", "margin", "leave one of them out"],
    ),
    row(
        "one column for dividends and splits",
        |s| {
            made(s, 1, |o| {
                (o.dividends, o.splits) = (Some("rsi".to_owned()), Some("rsi".to_owned()));
            })
        },
        "Together",
        &["`dividends`", "splits of the same column", "column for each"],
    ),
    row(
        "a leverage without a margin",
        |s| made(s, 1, |o| o.actions = Actions::Weights { leverage: 2.0 }),
        "BadOption",
        &["`Weights.leverage` is 2", "1 / Margin.initial"],
    ),
    row(
        "dividends that the panel lacks",
        |s| made(s, 1, |o| o.dividends = Some("paid".to_owned())),
        "UnknownColumn",
        &["`dividends` is \"paid\""],
    ),
    row(
        "a benchmark that the panel lacks",
        |s| made(s, 1, |o| o.reward = Reward::Excess { ticker: "SPY".to_owned() }),
        "UnknownBenchmark",
        &["\"SPY\"", "name one of those"],
    ),
    row(
        "a stop loss in percent",
        |s| made(s, 1, |o| o.stop_loss_tolerance = 80.0),
        "BadOption",
        &["`stop_loss_tolerance` is 80", "[0, 1]"],
    ),
    row(
        "more tickers than there are",
        |s| made(s, 1, |o| o.num_tickers = 2),
        "TooManyTickers",
        &["`num_tickers` is 2", "at most 1"],
    ),
    row(
        "tickers of unequal number",
        |s| {
            let each = [vec![], vec!["AAA".to_owned()], vec![]];
            let panel = s.panel.clone();
            let uneven = [vec!["AAA".to_owned()], vec!["AAA".to_owned(), "AAA".to_owned()]];
            let fine =
                PortfolioVectorEnv::with_tickers(panel.clone(), &each, PortfolioOptions::default());
            assert!(fine.is_ok());
            refusal(PortfolioVectorEnv::with_tickers(panel, &uneven, PortfolioOptions::default()))
        },
        "DuplicateTicker",
        &["\"AAA\"", "positions 0 and 1 of `tickers`", "keep one"],
    ),
    row(
        "an ordinary ticker shown as macro",
        |s| made(s, 1, |o| o.macro_tickers = vec!["AAA".to_owned()]),
        "NotMacro",
        &["\"AAA\"", "where the panel is loaded"],
    ),
    row(
        "a macro ticker shown twice",
        |s| made(s, 1, |o| o.macro_tickers = vec!["VIX".to_owned(); 2]),
        "DuplicateTicker",
        &["\"VIX\"", "positions 0 and 1 of `macro_tickers`", "keep one"],
    ),
    row(
        "an indicator of another panel",
        |s| made(s, 1, |o| o.indicators = Some(vec!["adx".to_owned()])),
        "UnknownIndicator",
        &["\"adx\"", "name some of"],
    ),
    row(
        "an observed history of many panels",
        |s| made(s, 1, |o| o.history = 1_000_000_000),
        "Window",
        &["`history` is 1000000000 days", "has 10", "at most 4136"],
    ),
    row(
        "a mask of another panel",
        |s| made(s, 1, |o| o.tradable = Some(vec![true; 3])),
        "Episode(BadLength",
        &["`tradable` holds 3", "20"],
    ),
    row(
        "a start beyond all starts",
        |s| refusal(s.env.reset_shifted(ResetSeed::Keep, None, 50)),
        "ShiftTooLarge",
        &["`shifted_start` is 50", "shift by less"],
    ),
    row(
        "a mask of nobody",
        |s| reset(s, Some(&[false; 2]), None),
        "Episode(EmptyMask",
        &["2", "at least one"],
    ),
    row(
        "a first reset of some",
        |s| {
            let new = PortfolioVectorEnv::new(s.panel.clone(), 2, PortfolioOptions::default());
            refusal(new.and_then(|mut env| env.reset(ResetSeed::Keep, Some(&[true, false]), None)))
        },
        "Episode(LeftOut",
        &["environment 1", "all of them first"],
    ),
    row(
        "a start beyond the days",
        |s| reset(s, None, Some(&[1, 99])),
        "BadStartDay",
        &["99", "1 to 8"],
    ),
    row(
        "starts left out",
        |s| reset(s, None, Some(&[1])),
        "Episode(BadLength",
        &["`start_day`", "1", "2"],
    ),
    row(
        "actions left out",
        |s| refusal(s.env.step(&[0.0])),
        "Episode(BadLength",
        &["`actions`", "1", "2"],
    ),
    row(
        "an action too large",
        |s| refusal(s.env.step(&[0.0, 1.5])),
        "BadAction",
        &["environment 1", "\"AAA\"", "1.5", "[-1, 1]"],
    ),
    row(
        "an action that is no number",
        |s| refusal(s.env.step(&[f64::NAN, 0.0])),
        "BadAction",
        &["environment 0", "NaN", "[-1, 1]"],
    ),
    row(
        "a step before the reset",
        |s| {
            let panel = s.panel.clone();
            let env = PortfolioVectorEnv::new(panel, 1, PortfolioOptions::default());
            refusal(env.unwrap().step(&[0.0]))
        },
        "Episode(NotReset",
        &["environment 0", "call reset"],
    ),
];

fn made(stage: &Stage, envs: usize, change: fn(&mut PortfolioOptions)) -> Option<Refusal> {
    let mut options = PortfolioOptions::default();
    change(&mut options);
    refusal(PortfolioVectorEnv::new(stage.panel.clone(), envs, options))
}

fn reset(stage: &mut Stage, mask: Option<&[bool]>, days: Option<&[usize]>) -> Option<Refusal> {
    refusal(stage.env.reset(ResetSeed::One(9), mask, days))
}
