//! `backcast limiter`: shows, changes and switches the rate limiter of a ring.

use backcast_core::{Base, LimiterError, NoLearner, NoWriter, RateLimiter};
use serde::Serialize;

use crate::cli::console::Console;
use crate::cli::exit_status::{CommandError, Exit, Fails};
use crate::cli::replay::ring_errors::exit_of;
use crate::objects::find::join;
use crate::objects::ring_report::LimiterReport;
use crate::text::parse::{one_of, whole};

/// Words of `--no-learner` and `--no-writer`.
const ABSENT: [&str; 3] = ["wait", "pass", "error"];
/// Maximum number of transitions that a limiter counts.
const MOST: u64 = (1 << 48) - 1;

/// Show, change or switch off the rate limiter of a ring.
///
/// A change is in force for every process at its next append or draw, and processes that wait
/// decide anew. What was inserted and drawn stays counted, unless --reset-counts is given. What no
/// option names stays as it is: with --min-size alone the ratio stays, and the error band moves
/// with the size.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  backcast limiter pong
  backcast limiter pong --off
  backcast limiter pong --samples-per-insert 8 --min-size 1_000 --error-buffer 800
  backcast limiter pong --min-size 1_000 --on
  backcast limiter pong --reset-counts --on
  backcast limiter pong --ceiling none")]
pub(crate) struct Args {
    /// Name of the ring.
    name: String,
    #[command(flatten)]
    limits: LimitArgs,
    /// Switch it on.
    #[arg(long, conflicts_with = "off")]
    on: bool,
    /// Switch it off: neither side waits until it is switched on.
    #[arg(long)]
    off: bool,
    /// Count anew, as if the rows of the ring, or the first --min-size of them, had just been
    /// inserted: rows of a data set then call for no draws.
    #[arg(long)]
    reset_counts: bool,
    /// Count of inserts at which writers stop, or none: lifts what a learner over several rings
    /// left behind.
    #[arg(long, value_name = "N", value_parser = ceiling())]
    ceiling: Option<Ceiling>,
}

/// Value of `--ceiling`: a count of inserts, or `None` to remove it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ceiling(Option<u64>);

/// Returns the parser of `--ceiling`.
fn ceiling() -> impl Fn(&str) -> Result<Ceiling, String> + Clone + Send + Sync + 'static {
    let count = whole(0..=MOST);
    move |text| match text {
        "none" => Ok(Ceiling(None)),
        _ => count(text).map(|inserts| Ceiling(Some(inserts))).map_err(|why| why + ", or none"),
    }
}

/// Options that describe the limits of a rate limiter.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Rate limiter")]
pub(crate) struct LimitArgs {
    /// Items to be drawn for each transition. Without it draws wait for --min-size alone.
    #[arg(long, value_name = "ITEMS", requires = "error_buffer", allow_negative_numbers = true)]
    pub(crate) samples_per_insert: Option<f64>,
    /// Transitions before the first draw [default: 1].
    #[arg(long, value_name = "N", value_parser = whole(1..=MOST))]
    pub(crate) min_size: Option<u64>,
    /// Items that samplers may be ahead or behind.
    #[arg(
        long,
        value_name = "ITEMS",
        requires = "samples_per_insert",
        allow_negative_numbers = true
    )]
    pub(crate) error_buffer: Option<f64>,
    /// A queue: as many items drawn as transitions inserted, and at most N fewer.
    #[arg(long, value_name = "N", value_parser = whole(1..=MOST),
          conflicts_with_all = ["samples_per_insert", "min_size", "error_buffer"])]
    pub(crate) queue: Option<u64>,
    /// Behaviour of a writer that is held back while no sampler lives: wait, pass or error.
    #[arg(long, value_name = "WHAT", value_parser = one_of::<NoLearner>(&ABSENT))]
    pub(crate) no_learner: Option<NoLearner>,
    /// Behaviour of a draw that is held back while no writer lives: wait, pass or error.
    #[arg(long, value_name = "WHAT", value_parser = one_of::<NoWriter>(&ABSENT))]
    pub(crate) no_writer: Option<NoWriter>,
}

impl LimitArgs {
    /// Returns the limits of a new limiter; `None` if the options give no limits.
    pub(crate) fn limits(&self) -> Option<RateLimiter> {
        self.over(&RateLimiter::min_size(RateLimiter::DEFAULT_MIN_SIZE))
    }

    /// Returns the limits that the options give; `None` if they give none. A ratio without a size
    /// keeps the size of `before`, and a size alone keeps the ratio of `before`.
    #[expect(clippy::cast_precision_loss, reason = "sizes are below 2^48")]
    fn over(&self, before: &RateLimiter) -> Option<RateLimiter> {
        let size = before.min_size_to_sample();
        match (self.samples_per_insert, self.error_buffer, self.queue, self.min_size) {
            (Some(ratio), Some(error), _, least) => {
                Some(RateLimiter::ratio(ratio, least.unwrap_or(size), error))
            }
            (_, _, Some(size), _) => Some(RateLimiter::queue(size)),
            (_, _, _, Some(least)) => {
                // The error band moves with the size. Infinite ends stay infinite.
                let (ratio, (low, high)) = (before.samples_per_insert(), before.error_band());
                let moved = (least as f64 - size as f64) * ratio;
                Some(RateLimiter::band(ratio, least, low + moved, high + moved))
            }
            _ => None,
        }
    }
}

/// JSON of a limiter.
#[derive(Debug, Serialize)]
struct Shown<'a> {
    action: &'static str,
    name: &'a str,
    #[serde(flatten)]
    limiter: &'a LimiterReport,
}

impl Fails for LimiterError {
    fn exit(&self) -> Exit {
        match self {
            LimiterError::Segment(error) => exit_of(error),
            LimiterError::NoLimiter
            | LimiterError::Damaged
            | LimiterError::MinSizeBeforeResize { .. } => Exit::FoundProblems,
            _ => Exit::WrongUsage,
        }
    }
}

pub(crate) fn run(
    args: &Args,
    base: &Base,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    let ring = join(base, &args.name)?;
    let limiter = ring.limiter().ok_or(LimiterError::NoLimiter)?;
    let changed = args.asked(|| limiter.limits())?;
    if let Some(limits) = changed {
        limiter.set(limits)?;
    }
    if args.reset_counts {
        limiter.reset_counts()?;
    }
    if let Some(Ceiling(inserts)) = args.ceiling {
        limiter.set_ceiling(inserts)?;
    }
    let stats = ring.stats().limiter.ok_or(LimiterError::NoLimiter)?;
    let report = LimiterReport::from(&stats);
    if console.json() {
        let changed = changed.is_some() || args.reset_counts || args.ceiling.is_some();
        let action = if changed { "changed" } else { "shown" };
        console.object(&Shown { action, name: &args.name, limiter: &report });
    } else {
        let facts = report.facts().into_iter().map(|(name, value)| vec![name.to_owned(), value]);
        console.facts(&facts.collect::<Vec<_>>());
    }
    Ok(Exit::Done)
}

impl Args {
    /// Returns the limits to set, or `None` if no option changes them. `now` returns the limits in
    /// force; values that no option names are taken from them.
    fn asked(
        &self,
        now: impl FnOnce() -> Result<RateLimiter, LimiterError>,
    ) -> Result<Option<RateLimiter>, LimiterError> {
        let new = self.limits.limits();
        let LimitArgs { no_learner, no_writer, .. } = self.limits;
        let keeps = no_learner.is_none() && no_writer.is_none() && !self.on && !self.off;
        if new.is_none() && keeps {
            return Ok(None);
        }
        let before = match (now(), new) {
            // Damaged limits are replaced.
            (Err(_), Some(new)) => new,
            (before, _) => before?,
        };
        let limits = self.limits.over(&before).unwrap_or(before);
        let limits = limits
            .no_learner(no_learner.unwrap_or(before.no_learner_choice()))
            .no_writer(no_writer.unwrap_or(before.no_writer_choice()));
        Ok(Some(limits.enabled(self.on || (before.is_enabled() && !self.off))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(limits: LimitArgs) -> Args {
        Args {
            name: "pong".to_owned(),
            limits,
            on: false,
            off: false,
            reset_counts: false,
            ceiling: None,
        }
    }

    #[test]
    fn a_ceiling_is_a_count_or_none() {
        let read = ceiling();
        assert_eq!(read("none"), Ok(Ceiling(None)));
        assert_eq!(read("1_000"), Ok(Ceiling(Some(1_000))));
        for bad in ["-1", "off", "281474976710656"] {
            let why = read(bad).unwrap_err();
            assert_eq!(why, "give a whole number from 0 to 281474976710655, or none");
        }
    }

    #[test]
    fn options_change_what_they_name_and_keep_the_rest() {
        let none = LimitArgs::default;
        let now = RateLimiter::ratio(8.0, 100, 80.0).no_learner(NoLearner::Pass).enabled(false);
        let of = |args: Args| args.asked(|| Ok(now)).unwrap();
        assert_eq!(of(args(none())), None);
        assert_eq!(of(Args { on: true, ..args(none()) }), Some(now.enabled(true)));
        assert_eq!(of(Args { off: true, ..args(none()) }), Some(now));
        let error = LimitArgs { no_learner: Some(NoLearner::Error), ..none() };
        assert_eq!(of(args(error)), Some(now.no_learner(NoLearner::Error)));
        let error = LimitArgs { no_writer: Some(NoWriter::Error), ..none() };
        assert_eq!(of(args(error)), Some(now.no_writer(NoWriter::Error)));
        let queue = LimitArgs { queue: Some(5), ..none() };
        let expected = RateLimiter::queue(5).no_learner(NoLearner::Pass);
        assert_eq!(of(Args { on: true, ..args(queue) }), Some(expected));
        let least = LimitArgs { min_size: Some(7), ..none() };
        let expected = RateLimiter::ratio(8.0, 7, 80.0).no_learner(NoLearner::Pass);
        assert_eq!(of(args(least.clone())), Some(expected.enabled(false)));
        let ratio = LimitArgs { samples_per_insert: Some(2.0), error_buffer: Some(9.0), ..none() };
        let expected = RateLimiter::ratio(2.0, 100, 9.0).no_learner(NoLearner::Pass);
        assert_eq!(of(args(ratio)), Some(expected.enabled(false)));
        let without = args(least).asked(|| Ok(RateLimiter::min_size(3))).unwrap();
        assert_eq!(without, Some(RateLimiter::min_size(7)));
        let ratio = LimitArgs { samples_per_insert: Some(2.0), error_buffer: Some(4.0), ..none() };
        let damaged = args(ratio).asked(|| Err(LimiterError::Damaged)).unwrap();
        assert_eq!(damaged, Some(RateLimiter::ratio(2.0, 1, 4.0)));
        let refused = Args { off: true, ..args(none()) }.asked(|| Err(LimiterError::Damaged));
        assert!(matches!(refused, Err(LimiterError::Damaged)));
    }

    #[test]
    fn the_words_offered_are_those_that_are_taken() {
        assert!(ABSENT.iter().all(|word| word.parse::<NoLearner>().is_ok()));
        assert!(ABSENT.iter().all(|word| word.parse::<NoWriter>().is_ok()));
    }
}
