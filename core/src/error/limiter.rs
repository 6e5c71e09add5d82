//! Errors of rate limiters: invalid limits, and waits that end without permission.

use std::fmt;

use backcast_layout::SegmentError;
use thiserror::Error;

/// Error of reading or setting limits. The limits in force have not changed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LimiterError {
    /// Samples per insert that are not a positive number.
    #[error(
        "samples_per_insert is {samples_per_insert}; give the items to be drawn for each \
         transition, a finite number above 0"
    )]
    BadRatio { samples_per_insert: f64 },
    /// Draws that may begin without any transition.
    #[error("min_size is 0; give at least 1, the transitions before the first draw")]
    NoMinSize,
    /// A minimum size above the transitions that the ring can hold.
    #[error(
        "min_size is {min_size}, and the ring holds at most {most} transitions (the newest row of \
         each lane has no successor), so no draw would ever be allowed; give at most that, or \
         create the ring with a larger capacity"
    )]
    MinSizeBeyondCapacity { min_size: u64, most: u64 },
    /// A minimum size above the transitions that the ring can hold before a resize is finished.
    #[error(
        "min_size is {min_size}, and the ring holds at most {most} transitions until a resize to \
         {after} is finished, which waits for lanes {lanes:?}; let their writers append, or end \
         them and resize again to the same size, and set the limits then, or give at most {most} \
         now"
    )]
    MinSizeBeforeResize { min_size: u64, most: u64, after: u64, lanes: Vec<u32> },
    /// A queue of more transitions than the ring can hold.
    #[error(
        "the queue has {size} places, and the ring holds at most {most} transitions: it would \
         overwrite some that were not drawn; give at most that, or create the ring with a larger \
         capacity"
    )]
    QueueBeyondCapacity { size: f64, most: u64 },
    /// An invalid error band.
    #[error(
        "the error band is {min_diff} to {max_diff}; give its lower end first, or one number of 0 \
         or more as error_buffer"
    )]
    BadBand { min_diff: f64, max_diff: f64 },
    /// An error band in which both sides may wait for each other.
    #[error(
        "the error band {min_diff} to {max_diff} is {} wide, and with samples_per_insert \
         {samples_per_insert} an insert and a draw of one item need {least}: both sides could \
         wait for each other; raise error_buffer to at least {}",
        max_diff - min_diff,
        least / 2.0
    )]
    NarrowBand { min_diff: f64, max_diff: f64, least: f64, samples_per_insert: f64 },
    /// An error band above the difference at which draws begin.
    #[error(
        "the error band begins at {min_diff}, above min_size {min_size} × samples_per_insert = \
         {first}: no draw would be allowed when the first ones should; give a lower end of at \
         most {first}"
    )]
    BandAboveMinSize { min_diff: f64, first: f64, min_size: u64 },
    /// A ring that was created without a limiter.
    #[error(
        "the ring was created without a rate limiter, and its processes do not look for one; \
         create it with a rate limiter, which can be switched off and on"
    )]
    NoLimiter,
    /// Another limit than a process that attaches relies on.
    #[error(
        "{what} is {wanted}, and the ring's limiter has {found}; give that, leave {what} out to \
         take what the ring has, or change it for all processes"
    )]
    OtherLimit { what: &'static str, wanted: String, found: String },
    /// A limiter of a minimum size alone, where a process that attaches relies on a ratio.
    #[error(
        "samples_per_insert is {wanted}, and the ring's limiter has no ratio ({found}); leave \
         samples_per_insert out to take what the ring has, or set one for all processes"
    )]
    NoRatio { wanted: f64, found: String },
    /// Invalid stored limits.
    #[error("the limits in `ring.lim` are damaged; set them again")]
    Damaged,
    /// Error of the ring's files.
    #[error(transparent)]
    Segment(#[from] SegmentError),
}

/// The call that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitedCall {
    /// An append of a writer.
    Append {
        /// First lane of the writer.
        lane: u32,
    },
    /// A draw.
    Draw,
}

/// Description of a wait for the rate limiter.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LimiterWait {
    /// The call that waits.
    pub call: LimitedCall,
    /// Transitions or items that it waits to insert or draw.
    pub wanted: u64,
    /// Items of the batch that are counted already; 0 for an append.
    pub held: u64,
    /// Time waited so far.
    pub waited_ms: u128,
    /// Count of the other side that it waits for.
    pub needed: u64,
    /// Transitions inserted.
    pub inserts: u64,
    /// Items drawn.
    pub samples: u64,
    /// Transitions deleted, which do not count towards `min_size`.
    pub deletes: u64,
    /// Count of inserts at which writers stop, if that is what an append waits for.
    pub ceiling: Option<u64>,
    /// The limits, in words.
    pub limits: String,
    /// Live processes of the other side, by the numbers they registered.
    pub peers: Vec<u64>,
    /// Whether the other side has live processes. Some have no known number.
    pub has_peers: bool,
}

impl fmt::Display for LimiterWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { wanted, waited_ms, needed, inserts, samples, limits, .. } = self;
        let peers = || {
            let mut pids: Vec<String> = self.peers.iter().map(ToString::to_string).collect();
            pids.dedup();
            match (pids.is_empty(), self.has_peers) {
                (false, _) => format!("process {}", pids.join(", ")),
                (true, true) => "some".to_owned(),
                (true, false) => "none".to_owned(),
            }
        };
        let deleted = match (self.deletes, self.call) {
            (0, _) => String::new(),
            (n, LimitedCall::Append { .. }) => format!(", of which {n} were deleted,"),
            (n, LimitedCall::Draw) => format!(" and {n} deleted transitions, which count no more,"),
        };
        let held = match self.held {
            0 => String::new(),
            held => format!(", of which it has {held},"),
        };
        match (self.call, self.ceiling) {
            (LimitedCall::Append { lane }, Some(ceiling)) => write!(
                f,
                "the writer of lane {lane} has waited {waited_ms} ms at the insert ceiling \
                 {ceiling}: to insert {wanted} more transition(s) after {inserts} it needs a \
                 higher one ({limits}, {samples} samples); living samplers: {}",
                peers()
            ),
            (LimitedCall::Append { lane }, None) => write!(
                f,
                "the writer of lane {lane} has waited {waited_ms} ms for samplers to draw: to \
                 insert {wanted} more transition(s) after {inserts}{deleted} it needs {needed} \
                 samples, there are {samples} ({limits}); living samplers: {}",
                peers()
            ),
            (LimitedCall::Draw, _) => write!(
                f,
                "a draw of {wanted} item(s){held} has waited {waited_ms} ms for writers to insert: \
                 after {samples} samples{deleted} it needs {needed} transitions, there are \
                 {inserts} ({limits}); living writers: {}",
                peers()
            ),
        }
    }
}

impl LimiterWait {
    /// Returns what ends such a wait.
    fn remedy(&self) -> &'static str {
        if self.ceiling.is_some() {
            "raise or remove the ceiling with `set_ceiling`, as the process that counts over all \
             shards does, wait longer, or switch the limiter off"
        } else {
            "start the other side, wait longer, or switch the limiter off"
        }
    }
}

/// Error of a wait for the rate limiter. The call had no effect.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum LimitError {
    /// The time-out has passed.
    #[error("{0}; {remedy}", remedy = .0.remedy())]
    TimedOut(Box<LimiterWait>),
    /// No sampler is alive, and the limiter refuses appends then.
    #[error(
        "{0}; no_learner is \"error\": start a learner first, or set the limiter with \
         no_learner \"wait\" or \"pass\""
    )]
    NoLearner(Box<LimiterWait>),
    /// No writer is alive, and the limiter refuses draws then.
    #[error(
        "{0}; no_writer is \"error\": start a writer first, or set the limiter with \
         no_writer \"wait\" or \"pass\""
    )]
    NoWriter(Box<LimiterWait>),
    /// Invalid stored limits.
    #[error("the limits in `ring.lim` are damaged; set them again")]
    Damaged,
    /// The caller interrupted the wait.
    #[error("the wait for the rate limiter was interrupted after {waited_ms} ms; call again")]
    Interrupted { waited_ms: u128 },
    /// The call would have to wait, which it must not. Appends fail with
    /// [`AppendError::WouldWait`](crate::AppendError::WouldWait) then.
    #[error("the rate limiter holds the call back; call again, or make the call that waits")]
    WouldWait,
    /// The ring was removed or replaced, and its handle refuses to go on.
    #[error(
        "the ring was removed or replaced during a wait for its rate limiter; attach again, or \
         attach with on_unlinked \"warn\""
    )]
    Unlinked,
}
