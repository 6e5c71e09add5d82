//! `backcast sim facts`: compares a simulated market with the statistics of real ones.

use std::num::NonZero;
use std::thread;

use backcast_sim::Preset;
use backcast_sim::facts::{
    BatteryOptions, FactResult, FactsReport, TICKS_PER_DAY, Verdict, run_preset,
};

use crate::cli::console::{Align, Console};
use crate::cli::exit_status::{CommandError, Exit, Interrupted};
use crate::cli::markets::preset_arg::preset;
use crate::cli::watch::Watch;
use crate::text::parse::whole;
use crate::text::units;

/// Compute the realism battery: returns, volatility, order flow, impact, book.
///
/// Simulates a market for each seed, computes statistics that real markets are known for, and
/// compares each with the band of values found there. A fact passes if its median over the seeds
/// and at least 80 % of the seeds lie in the band. Exit status 1 if a fact misses. The whole
/// battery simulates some 150 million ticks: minutes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  backcast sim facts                          the whole battery
  backcast sim facts --short                  four seeds of one day, seconds
  backcast sim facts --preset flash --seeds 8 --days 3
  backcast --json sim facts > facts.json      with the curves that are plotted")]
pub(crate) struct FactsArgs {
    /// The market to examine.
    #[arg(long, value_name = "NAME", default_value = "normal", value_parser = preset)]
    preset: Preset,
    /// Simulations [default: 20, with --short 4].
    #[arg(long, value_name = "COUNT", value_parser = whole(1_usize..=10_000))]
    seeds: Option<usize>,
    /// Days of 23,400 ticks in each simulation [default: 10, with --short 1].
    #[arg(long, value_name = "COUNT", value_parser = whole(1_usize..=1_000))]
    days: Option<usize>,
    /// The first seed; the others follow it.
    #[arg(long, value_name = "SEED", default_value = "1",
          value_parser = whole(0_u64..=u64::MAX / 2))]
    first_seed: u64,
    /// Leave out impact and the long runs, which take most of the time.
    #[arg(long)]
    short: bool,
    /// Threads; the result does not depend on them [default: one a core].
    #[arg(long, value_name = "COUNT", value_parser = whole(1_usize..=1_024))]
    threads: Option<usize>,
}

impl FactsArgs {
    fn options(&self) -> BatteryOptions {
        let form = if self.short { BatteryOptions::short() } else { BatteryOptions::full() };
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        BatteryOptions {
            first_seed: self.first_seed,
            seeds: self.seeds.unwrap_or(form.seeds),
            ticks: self.days.map_or(form.ticks, |days| days * TICKS_PER_DAY),
            threads: self.threads.unwrap_or(cores),
            ..form
        }
    }
}

pub(crate) fn run(args: &FactsArgs, console: &mut Console<'_>) -> Result<Exit, CommandError> {
    let watch = Watch::start_counting("simulating")?;
    let report = run_preset(args.preset, &args.options(), |done, total| watch.count(done, total));
    let report = watch.end(match report {
        Ok(Some(report)) => Ok(report),
        Ok(None) => Err(CommandError::from(Interrupted)),
        Err(error) => Err(error.into()),
    })?;
    if console.json() {
        console.object(&report);
    } else {
        print(&report, console);
    }
    if report.passed {
        return Ok(Exit::Done);
    }
    console.note(&format!("missed: {}", report.missed().join(", ")));
    Ok(Exit::FoundProblems)
}

fn print(report: &FactsReport, console: &mut Console<'_>) {
    console.text(&format!(
        "{}: {} seeds from {}, {} ticks each",
        report.preset,
        report.seeds,
        report.first_seed,
        units::exact(report.ticks as u64),
    ));
    let columns = [
        ("FACT", Align::Left),
        ("STATISTIC", Align::Left),
        ("BAND", Align::Left),
        ("MEDIAN", Align::Right),
        ("INSIDE", Align::Right),
        ("VERDICT", Align::Left),
    ];
    let rows: Vec<Vec<String>> = report.facts.iter().map(row).collect();
    console.table(&columns, &rows);
}

fn row(fact: &FactResult) -> Vec<String> {
    vec![
        fact.id.to_owned(),
        fact.statistic.to_owned(),
        band(fact.band.low, fact.band.high),
        number(fact.median),
        format!("{:.0} %", 100.0 * fact.share_inside),
        match fact.verdict {
            Verdict::Pass => "pass",
            Verdict::Miss => "MISS",
            Verdict::ReportOnly => "reported",
        }
        .to_owned(),
    ]
}

fn band(low: f64, high: f64) -> String {
    match (low.is_finite(), high.is_finite()) {
        (true, true) => format!("{} .. {}", number(low), number(high)),
        // A bound next to zero stands for every value on that side of zero.
        (true, false) if low > 0.0 && low < 1e-300 => "> 0".to_owned(),
        (true, false) => format!(">= {}", number(low)),
        (false, true) if high < 0.0 && high > -1e-300 => "< 0".to_owned(),
        (false, true) => format!("<= {}", number(high)),
        (false, false) => "any".to_owned(),
    }
}

/// Formats a number with three decimals, without trailing zeros.
fn number(value: f64) -> String {
    if value.is_nan() {
        return "none".to_owned();
    }
    let text = format!("{value:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    // A small negative number is rounded to zero and keeps its sign.
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_and_numbers_are_short() {
        for (low, high, text) in [
            (-0.1, 0.1, "-0.1 .. 0.1"),
            (0.001, 0.03, "0.001 .. 0.03"),
            (0.15, f64::INFINITY, ">= 0.15"),
            (f64::MIN_POSITIVE, f64::INFINITY, "> 0"),
            (f64::NEG_INFINITY, 12.0, "<= 12"),
            (f64::NEG_INFINITY, -f64::MIN_POSITIVE, "< 0"),
            (f64::NEG_INFINITY, -0.0, "<= 0"),
            (f64::NEG_INFINITY, 0.0, "<= 0"),
            (-0.0, f64::INFINITY, ">= 0"),
            (f64::NEG_INFINITY, f64::INFINITY, "any"),
        ] {
            assert_eq!(band(low, high), text);
        }
        assert_eq!(number(f64::NAN), "none");
        assert_eq!(number(10.0), "10");
        assert_eq!([-0.0, -0.000_4, -0.001].map(number), ["0", "0", "-0.001"]);
    }
}
