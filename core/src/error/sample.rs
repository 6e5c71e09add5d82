//! Errors of drawing a batch.

use backcast_layout::{SegmentError, binary_size};
use thiserror::Error;

use super::form::FormError;
use super::hindsight::HindsightError;
use super::learned::LearnedError;
use super::limiter::LimitError;
use super::priority::PriorityError;
use super::read::{ReadError, holds};
use super::table::TableError;

/// Name of rollouts in the errors of waits, in the place of a selector.
pub(crate) const ROLLOUTS: &str = "rollouts";

/// Error of drawing a batch.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SampleError {
    /// A batch size of 0, or one above the limit.
    #[error("batch_size is {asked}; give a whole number from 1 to {limit}")]
    BadBatchSize { asked: usize, limit: usize },
    /// An index of no transition, or of more than a batch can hold.
    #[error("index names {given} transitions; give from 1 to {limit}")]
    BadIndexCount { given: usize, limit: usize },
    /// A column of a ring of an earlier version has a key that batches use today.
    #[error(
        "the ring has a column `{column}`, and batches of this sampler have something else under \
         the key `{key}`; leave the column out with `columns`"
    )]
    KeyTaken { column: String, key: &'static str },
    /// A batch that does not fit in memory.
    #[error(
        "a batch of {batch} with these windows takes {}, more than can be allocated; draw fewer at \
         a time or ask for shorter windows",
        binary_size(*.bytes as u64)
    )]
    TooLarge { batch: usize, bytes: usize },
    /// A window of no transition.
    #[error("{what} is 0; give at least 1, or leave {what} out")]
    EmptyWindow { what: &'static str },
    /// A window longer than a lane.
    #[error(
        "history {history}, future {future} and n_step {n_step} take {rows} rows, the successor \
         included, but a lane keeps {limit}; ask for shorter windows, or create the ring with a \
         larger capacity"
    )]
    BadWindow { history: u32, future: u32, n_step: u32, rows: u64, limit: u64 },
    /// An age that every item exceeds.
    #[error(
        "max_age is {asked} rows, and the oldest row of an item of this sampler has {needed} newer \
         rows of its lane in any case; give at least {needed}"
    )]
    BadMaxAge { asked: u64, needed: u64 },
    /// Ages in versions of the policy, of a ring without them.
    #[error(
        "the ring has no column `policy_version`, one whole number a row, from which `policy_age` \
         is computed; create the ring with a column `policy_version` of u4, or limit `age`, which \
         counts rows"
    )]
    NoPolicyVersion,
    /// Weights by the smallest priority of a table, some of whose rows are too old to be drawn.
    #[error(
        "normalize \"table\" does not go with max_age: weights would be divided by that of a row \
         that is too old to be drawn; leave normalize out, or leave max_age out"
    )]
    WeightsOfOldRows,
    /// An order by the leaves of a table whose exponent can change.
    #[error(
        "{selector} does not go with an alpha that changes, by which equal leaves may have \
         different priorities; give one number as alpha, such as 1"
    )]
    OrderedByAlpha { selector: String },
    /// All rows are too old.
    #[error(
        "nothing is young enough to be drawn: {rows} readable rows are older than max_age, {}; \
         wait for writers with `wait`, let actors pull newer versions of the policy, or raise \
         max_age",
        max_ages(*.max_age, *.max_policy_age)
    )]
    TooOld { rows: u64, max_age: Option<u64>, max_policy_age: Option<u64> },
    /// A rank that no learner has.
    #[error("rank is {rank} of world_size {world_size}; give 0 to world_size - 1")]
    BadRank { rank: u32, world_size: u32 },
    /// A block of a sampler whose draws are not independent, or have no known mass.
    #[error(
        "blocks do not go with {what}: the items of a block are drawn independently, each with a \
         known mass; draw transitions or sequences, uniformly or by priority, or call `sample`"
    )]
    NoBlocks { what: &'static str },
    /// A stride of 0.
    #[error("stride is 0; give the transitions from one window to the next, at least 1")]
    BadStride,
    /// No transition that may be drawn is at a multiple of the stride.
    #[error(
        "no window lies on the stride: with history {history} and stride {stride} the steps \
         {first}, {}, ... of an episode are drawn, and its last one once it has ended; the longest \
         sequence of transitions in the ring has {longest} now; ask for a smaller stride or a \
         shorter history",
        *.first + *.stride
    )]
    NoStride { history: u32, stride: u64, first: u64, longest: u64 },
    /// A discount that is out of range, missing, given twice, or without n-step returns.
    #[error("{}", bad_gamma(*.gamma, *.discounts, *.n_step))]
    BadGamma { gamma: Option<f64>, discounts: bool, n_step: Option<u32> },
    /// The schema has no column `reward` that n-step returns can sum.
    #[error(
        "n_step sums the column `reward`, one f4 or f8 a row; {found}; create the ring with a \
         column `reward` of f4"
    )]
    BadReward { found: String },
    /// The schema has no column `discount` that n-step returns can use.
    #[error(
        "the discounts of n-step returns come from the column `discount`, one f4 or f8 a row; \
         {found}; create the ring with a column `discount` of f4"
    )]
    BadDiscount { found: String },
    /// A window for a column that the ring lacks.
    #[error("{}", unknown_column(.name, .known, .next_of.as_deref()))]
    UnknownColumn {
        name: String,
        known: Vec<String>,
        /// The observation column, or all below it, that the name is the `next_` counterpart of.
        next_of: Option<String>,
    },
    /// Windows by column that leave out every column.
    #[error(
        "no column is selected; name one at least, or in windows by column \"*\", which stands for \
         all others"
    )]
    NoColumns,
    /// A window for all columns was given together with windows by column.
    #[error(
        "history {history} is the window of all columns, and there are windows by column too; give \
         the history of each column with them"
    )]
    HistoryTwice { history: u32 },
    /// No window lies entirely in one episode.
    #[error(
        "no window of history {history} and future {future} lies whole in one episode, as boundary \
         \"reject\" asks: it takes {needed} transitions in a row, and the longest of the ring's \
         episodes has {longest} now; ask for shorter windows, or for boundary \"mask\""
    )]
    NoWindow { history: u32, future: u32, needed: u64, longest: u64 },
    /// Every transition has lost some of its history to newer rows.
    #[error(
        "no transition has its history of {history}: the beginnings of the ring's episodes were \
         overwritten, at most {longest} transitions in a row are left, and boundary \"clamp\" \
         repeats the first observation of an episode, not one from its middle; ask for a shorter \
         history, or for boundary \"mask\""
    )]
    NoHistory { history: u32, longest: u64 },
    /// No transition is complete yet.
    #[error(
        "the ring holds no transition yet ({rows} rows readable; a transition is complete when \
         the row after it is published); wait for writers with `wait`"
    )]
    Empty { rows: u64 },
    /// Lanes with a weight hold no transition, and lanes without a weight hold some.
    #[error(
        "the lane weights are above 0 for {} only, and no transition is there; there are some in \
         {}: give one of those a weight above 0, or append to the others first",
        lanes_of(.weighted),
        lanes_of(.filled)
    )]
    EmptyLanes { weighted: Vec<usize>, filled: Vec<usize> },
    /// A selector has fewer transitions than a batch.
    #[error(
        "a batch of {wanted} transitions in the order {}, and the ring has {available} for it now; \
         draw fewer at a time, or wait for writers with `wait`",
        order_of(.selector)
    )]
    TooFew { selector: &'static str, wanted: u64, available: u64 },
    /// All that is new was asked for, and the selector draws rows again and again.
    #[error(
        "all that is new was asked for, and {selector} draws each row again and again; give \
         batch_size, or choose consume"
    )]
    NothingIsNew { selector: &'static str },
    /// A batch with more transitions than a table of claims can ever offer to it.
    #[error(
        "a batch of {wanted} transitions of {selector}, and the ring can offer at most {most} at a \
         time, since it holds no more (the newest row of each lane has no successor); draw at most \
         that, or create the ring with a larger capacity"
    )]
    BeyondTable { selector: &'static str, wanted: u64, most: u64 },
    /// A batch with more items than can be young enough together.
    #[error(
        "{} were asked for, and at most {most} can be young enough at a time, since max_age is \
         {max_age} rows of a lane; draw at most {most}, or raise max_age",
        .unit.counted(*.wanted)
    )]
    BeyondMaxAge { unit: ClaimUnit, wanted: u64, most: u64, max_age: u64 },
    /// The time-out has passed before there were enough new transitions.
    #[error(
        "{selector} {} {} for {waited_ms} ms, and {} there: {reason}; `backcast stat` shows the \
         lanes",
        if *.selector == ROLLOUTS { "wait for" } else { "waits for" },
        .unit.counted(*.wanted),
        .unit.are(*.available)
    )]
    TimedOut {
        selector: &'static str,
        unit: ClaimUnit,
        wanted: u64,
        available: u64,
        waited_ms: u128,
        reason: String,
    },
    /// There are too few new transitions, no writer is alive, and the rate limiter is set not to
    /// wait then.
    #[error(
        "{selector} {} {}, {} there, and no writer is alive{claimed}; no_writer is \"{choice}\": \
         start a writer, draw smaller batches, or set the limiter with no_writer \"wait\"",
        if *.selector == ROLLOUTS { "need" } else { "needs" },
        .unit.counted(*.wanted),
        .unit.are(*.available)
    )]
    NoWriter {
        selector: &'static str,
        unit: ClaimUnit,
        wanted: u64,
        available: u64,
        claimed: String,
        choice: &'static str,
    },
    /// A sampler that consumes rows of a ring with a rate limiter has no reader slot.
    #[error(
        "all {slots} reader slots of the ring are taken, and a sampler that consumes rows of a \
         ring with a rate limiter needs one; close a sampler or lease in some process, or create \
         the ring with more reader slots"
    )]
    NoSlot { slots: u32 },
    /// Error of a table of claims.
    #[error(transparent)]
    Table(#[from] TableError),
    /// A selector with a setting out of range.
    #[error(transparent)]
    BadSelector(#[from] BadSelector),
    /// Writers are so fast, or lanes so short, that every draw is overwritten before it is copied.
    #[error(
        "gave up after {attempts} draws for one item: writers overwrite rows faster than they can \
         be copied; create the ring with a larger capacity"
    )]
    Outrun { attempts: u32 },
    /// The boundary accepts the windows of hardly any transition that has a priority.
    #[error(
        "gave up after {attempts} draws by priority for one item: the transitions whose windows \
         the boundary accepts have too small a part of all priorities; ask for shorter windows or \
         for boundary \"mask\", or give those transitions larger priorities"
    )]
    Unlikely { attempts: u32 },
    /// An index that names no transition.
    #[error(
        "index[{position}] = {index} (lane {lane}, row {seq}) is not a transition of this ring: \
         {reason}; gather indices that batches or appends of this ring returned"
    )]
    BadIndex { position: usize, index: i64, lane: u32, seq: u64, reason: &'static str },
    /// An index whose row was overwritten.
    #[error(
        "index[{position}] = {index} (lane {lane}, row {seq}) was overwritten: the lane's oldest \
         row is {oldest} now; use indices sooner or create the ring with a larger capacity"
    )]
    Lapped { position: usize, index: i64, lane: u32, seq: u64, oldest: u64 },
    /// An index whose row was dropped: with all older ones, by a call that drops or clears.
    #[error(
        "index[{position}] = {index} (lane {lane}, row {seq}) was dropped: the lane {}",
        holds(*.oldest, *.head, "gather")
    )]
    Dropped { position: usize, index: i64, lane: u32, seq: u64, oldest: u64, head: u64 },
    /// Memory of a batch with other keys, types or shapes.
    #[error(
        "`{key}` of the batch to fill is {got}, this sampler draws {expected}; \
         give a batch that this sampler, or one of equal settings, drew at the same batch size"
    )]
    OtherPlan { key: String, got: String, expected: String },
    /// More or fewer indices than the memory has items.
    #[error("{got} indices for memory of {expected} items; give {expected} indices")]
    WrongIndexCount { got: usize, expected: usize },
    /// Too many batches to be drawn ahead.
    #[error("prefetch is {asked}, the limit is {limit} batches ahead; ask for fewer")]
    BadPrefetch { asked: usize, limit: usize },
    /// The caller holds all batches whose memory is filled in turn.
    #[error(
        "all {memory} batches that are filled in turn are in use; give one back with `refill` \
         before asking for the next"
    )]
    NothingToFill { memory: usize },
    /// The system refused a thread.
    #[error("no thread could be started to draw batches ahead ({0}); use a prefetch of 0")]
    Thread(#[source] std::io::Error),
    /// Memory of the caller with another number of arenas, or another size of one, than the plan
    /// needs.
    #[error("arena {arena} has {got} bytes, the plan needs {expected}; allocate that many")]
    BadArena { arena: usize, got: usize, expected: usize },
    /// Error of the rate limiter.
    #[error(transparent)]
    Limited(#[from] LimitError),
    /// Error of the learned columns.
    #[error(transparent)]
    Learned(#[from] LearnedError),
    /// Error of the priorities.
    #[error(transparent)]
    Priority(#[from] PriorityError),
    /// Error of drawing whole episodes.
    #[error(transparent)]
    Form(#[from] FormError),
    /// Error of relabelling goals.
    #[error(transparent)]
    Hindsight(#[from] HindsightError),
    /// Error of reading rows.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Error of the reader's slot.
    #[error(transparent)]
    Segment(#[from] SegmentError),
}

/// Unit that a draw of new transitions waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClaimUnit {
    /// Transitions, or those at which a sequence starts.
    Transitions,
    /// Complete episodes.
    Episodes,
    /// Columns of a block of rollouts.
    Columns,
    /// Lanes with a column for a block of rollouts of all that is new.
    Lanes,
}

impl ClaimUnit {
    /// Returns a number of units in words.
    fn counted(self, number: u64) -> String {
        let unit = match self {
            Self::Transitions => "new transition",
            Self::Episodes => "new episode",
            Self::Columns => "column",
            Self::Lanes => "ready lane",
        };
        let end = if number == 1 { "" } else { "s" };
        match self {
            Self::Columns => format!("{number} {unit}{end} of a block"),
            _ => format!("{number} {unit}{end}"),
        }
    }

    /// Counts what can be claimed, with its verb. Of transitions and episodes these are rows, some
    /// of which may not be drawn.
    fn are(self, available: u64) -> String {
        match (self, available) {
            (Self::Columns | Self::Lanes, 1) => "1 is".to_owned(),
            (Self::Columns | Self::Lanes, _) => format!("{available} are"),
            (_, 0) => "0 rows are".to_owned(),
            (_, 1) => "1 row is".to_owned(),
            (Self::Transitions, _) => {
                format!("{available} rows, some of which may start no transition, are")
            }
            (Self::Episodes, _) => {
                format!("{available} rows, some of which may start no complete episode, are")
            }
        }
    }
}

/// A setting of a selector that is out of range.
#[derive(Clone, Debug, Error, PartialEq)]
#[error("{what}; {remedy}")]
#[non_exhaustive]
pub struct BadSelector {
    /// The setting, its value and the limit.
    pub what: String,
    /// Setting to give instead.
    pub remedy: &'static str,
}

/// Names a column that the ring lacks, and what to name.
fn unknown_column(name: &str, known: &[String], next_of: Option<&str>) -> String {
    let known = known.join(", ");
    match next_of {
        Some(of) => format!(
            "`{name}` is no column of the ring, which has {known}; it comes with `{of}`: name that"
        ),
        None => format!(
            "the ring has no column `{name}`; name one of {known}; in windows by column, \"*\" \
             stands for all others"
        ),
    }
}

/// Returns the order of a selector in words.
fn order_of(selector: &str) -> &str {
    match selector {
        "max_priority" => "largest priority first",
        "min_priority" => "smallest priority first",
        other => other,
    }
}

/// Names the limits to the age of rows.
pub(crate) fn max_ages(rows: Option<u64>, versions: Option<u64>) -> String {
    let named = [(rows, "rows"), (versions, "versions of the policy")];
    let named = named.into_iter().filter_map(|(most, what)| Some(format!("{} {what}", most?)));
    named.collect::<Vec<_>>().join(" or ")
}

/// Names some lanes, at most eight of them.
fn lanes_of(lanes: &[usize]) -> String {
    const MOST: usize = 8;
    let named: Vec<String> = lanes.iter().take(MOST).map(ToString::to_string).collect();
    let word = if lanes.len() == 1 { "lane" } else { "lanes" };
    let rest = lanes.len().saturating_sub(MOST);
    let rest = if rest > 0 { format!(" and {rest} more") } else { String::new() };
    format!("{word} {}{rest}", named.join(", "))
}

fn bad_gamma(gamma: Option<f64>, discounts: bool, n_step: Option<u32>) -> String {
    match (gamma, n_step) {
        (Some(gamma), _) if discounts => {
            format!("gamma {gamma} and the column `discount` are two discounts; give one of them")
        }
        (None, Some(n)) => format!("n_step {n} needs the learner's discount; give gamma, 0 to 1"),
        (Some(gamma), None) => {
            format!("gamma {gamma} discounts n-step returns only; give n_step too, or leave it out")
        }
        (None, None) => {
            "the column `discount` discounts n-step returns only; give n_step too, or leave it \
                         out"
            .to_owned()
        }
        (gamma, _) => format!("gamma is {}; give 0 to 1", gamma.unwrap_or(f64::NAN)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_eight_lanes_are_named_and_the_others_are_counted() {
        for (count, words) in [
            (1, "lane 0"),
            (2, "lanes 0, 1"),
            (8, "lanes 0, 1, 2, 3, 4, 5, 6, 7"),
            (9, "lanes 0, 1, 2, 3, 4, 5, 6, 7 and 1 more"),
            (20, "lanes 0, 1, 2, 3, 4, 5, 6, 7 and 12 more"),
        ] {
            assert_eq!(lanes_of(&(0..count).collect::<Vec<_>>()), words);
        }
    }

    #[test]
    fn numbers_of_what_is_claimed_agree_with_their_words() {
        use ClaimUnit::{Columns, Episodes, Lanes, Transitions};
        for (unit, one, two) in [
            (Transitions, "1 new transition", "2 new transitions"),
            (Episodes, "1 new episode", "2 new episodes"),
            (Columns, "1 column of a block", "2 columns of a block"),
            (Lanes, "1 ready lane", "2 ready lanes"),
        ] {
            assert_eq!((unit.counted(1).as_str(), unit.counted(2).as_str()), (one, two));
            let counts_rows = matches!(unit, Transitions | Episodes);
            assert_eq!(unit.are(1), if counts_rows { "1 row is" } else { "1 is" });
            assert_eq!(unit.are(0), if counts_rows { "0 rows are" } else { "0 are" });
            let many = unit.are(2);
            assert!(many.starts_with("2 ") && many.ends_with(" are"), "{many}");
            assert_eq!(many.contains("may start"), counts_rows, "{many}");
        }
    }
}
