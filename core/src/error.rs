//! What can go wrong: one enum per operation.

use backcast_layout::protocol::ImpossibleCounters;
use backcast_layout::{ColumnError, DType, HoldError, SegmentError};
use thiserror::Error;

use crate::options::AutoresetMode;

/// Why columns make no schema.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum SchemaError {
    /// One column is wrong by itself.
    #[error(transparent)]
    Column(#[from] ColumnError),
    /// A schema without columns.
    #[error("the schema has no column; give at least one, such as `obs`")]
    Empty,
    /// More columns than a ring can have.
    #[error("the schema has {asked} columns, the limit is {limit}; merge some into one array")]
    TooManyColumns {
        /// Columns given.
        asked: usize,
        /// Most columns of a user.
        limit: usize,
    },
    /// The name belongs to batches.
    #[error(
        "column name `{name}` is reserved: batches use seq, episode, t, flags, terminated, \
         truncated, mask, index, age, future, future_mask, final_obs, n_reward, n_discount and \
         whatever begins with next_ or n_next; choose another name"
    )]
    Reserved {
        /// Name given.
        name: String,
    },
    /// Two columns of one name, or one inside the other.
    #[error(
        "columns `{name}` and `{other}` collide: a name is used once, and is either an array or \
         a dict of arrays; rename one"
    )]
    Conflict {
        /// Later column.
        name: String,
        /// Earlier column.
        other: String,
    },
    /// A ring's file without our built-in columns.
    #[error("the built-in columns are missing: the segment is not a Backcast ring")]
    NotOurs,
}

/// Why a ring cannot be made or joined.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RingError {
    /// Its files.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// Its schema.
    #[error(transparent)]
    Schema(#[from] SchemaError),
}

/// Why a ring could not be resized.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ResizeError {
    /// The ring itself.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// The caller stopped it before lanes began to move.
    #[error("the resize was stopped before anything moved; the ring is as it was")]
    Cancelled,
}

impl From<SegmentError> for ResizeError {
    fn from(error: SegmentError) -> Self {
        Self::Ring(error.into())
    }
}

/// Why a ring could not be made with rows in it.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// The ring itself.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// A lane that the ring lacks.
    #[error("there is no lane {lane}: the ring has {lanes}; make it with as many as the rows have")]
    NoSuchLane {
        /// Lane given.
        lane: u32,
        /// Lanes of the ring.
        lanes: u32,
    },
    /// More rows than a lane keeps, or none that there can be.
    #[error(
        "lane {lane} cannot have the rows {from}..{to}: it keeps {limit} rows; give its newest          ones, in ascending order and below 2^48, or make the ring larger"
    )]
    BadRange {
        /// Lane.
        lane: u32,
        /// First row.
        from: u64,
        /// One past the last row.
        to: u64,
        /// Rows a lane keeps.
        limit: u64,
    },
    /// A lane that was begun before.
    #[error("lane {lane} was begun twice; it is still to get the rows {from}..{to}")]
    BegunTwice {
        /// Lane.
        lane: u32,
        /// First row missing.
        from: u64,
        /// One past the last row missing.
        to: u64,
    },
    /// Rows of a lane whose range is not known.
    #[error("lane {lane} has no range yet; begin it before its rows are given")]
    NotBegun {
        /// Lane.
        lane: u32,
    },
    /// More rows than were said.
    #[error("{rows} rows are more than lane {lane} lacks, which is {from}..{to}")]
    TooManyRows {
        /// Lane.
        lane: u32,
        /// Rows given.
        rows: u64,
        /// First row missing.
        from: u64,
        /// One past the last row missing.
        to: u64,
    },
    /// Fewer rows than were said.
    #[error("lane {lane} still lacks the rows {from}..{to}; the ring was not made")]
    Incomplete {
        /// Lane.
        lane: u32,
        /// First row missing.
        from: u64,
        /// One past the last row missing.
        to: u64,
    },
    /// A row with another number than the next one has.
    #[error("row {found} of lane {lane} is not the next one, which is {expected}")]
    OutOfOrder {
        /// Lane.
        lane: u32,
        /// Number of the next row.
        expected: u64,
        /// Number found.
        found: u64,
    },
    /// Not a buffer per column.
    #[error("{got} buffers given for {expected} columns, the four built-in ones included")]
    WrongColumnCount {
        /// Buffers given.
        got: usize,
        /// Columns of the ring.
        expected: usize,
    },
    /// A buffer of another size than the rows'.
    #[error("column `{name}` has {got} bytes, not {rows} rows of {width}")]
    WrongSize {
        /// Column.
        name: String,
        /// Rows given.
        rows: u64,
        /// Bytes of a row.
        width: usize,
        /// Bytes given.
        got: usize,
    },
}

impl From<SegmentError> for RestoreError {
    fn from(error: SegmentError) -> Self {
        RingError::from(error).into()
    }
}

/// A lane that another writer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldLane {
    /// The lane.
    pub lane: u32,
    /// Its writer's process, as it says.
    pub pid: u64,
}

/// Why a writer cannot be made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WriterError {
    /// A writer of no lanes.
    #[error("a writer needs at least 1 lane, asked were 0; use one lane per sub-environment")]
    NoLanes,
    /// A ring that nobody writes.
    #[error(
        "{name} is a snapshot, which nobody writes; load it under a name of its own, and write that"
    )]
    Snapshot {
        /// The ring's name.
        name: String,
    },
    /// More lanes than the ring has.
    #[error(
        "asked for {asked} lanes, the ring has {lanes}; create it with lanes={asked} or more \
         (one per sub-environment over all workers)"
    )]
    TooManyLanes {
        /// Lanes asked for.
        asked: u32,
        /// Lanes of the ring.
        lanes: u32,
    },
    /// Too few lanes are free.
    #[error(
        "asked for {asked} lane(s), only {free} of {lanes} are free; {}; \
         stop a holder (the kernel frees its lanes at once), or create the ring with more lanes",
        holders(.held)
    )]
    LanesTaken {
        /// Lanes asked for.
        asked: u32,
        /// Lanes nobody writes.
        free: u32,
        /// Lanes of the ring.
        lanes: u32,
        /// Who holds the others.
        held: Vec<HeldLane>,
    },
    /// Only damaged lanes were left.
    #[error("lane {lane} cannot be adopted: {source}")]
    Damaged {
        /// The lane.
        lane: u32,
        /// What its counters say.
        source: ImpossibleCounters,
    },
    /// The lane's files.
    #[error(transparent)]
    Segment(#[from] SegmentError),
}

fn holders(held: &[HeldLane]) -> String {
    let mut pids: Vec<u64> = held.iter().map(|h| h.pid).collect();
    pids.sort_unstable();
    pids.dedup();
    let named: Vec<String> = pids.iter().take(8).map(u64::to_string).collect();
    let more = if pids.len() > 8 { ", …" } else { "" };
    format!("{} are held by process {}{more}", held.len(), named.join(", "))
}

/// Why a step was not appended. Nothing has changed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum AppendError {
    /// Steps of one call were appended before one of them failed.
    #[error("{appended} of {asked} steps were appended, and then: {source}")]
    After {
        /// Steps that stay.
        appended: usize,
        /// Steps of the call.
        asked: usize,
        /// Why the next one was not.
        source: Box<AppendError>,
    },
    /// A column of the schema is not in the step.
    #[error("column `{name}` is missing from the step; give every column of the schema")]
    MissingColumn {
        /// Column.
        name: String,
    },
    /// The step has a column that the schema lacks.
    #[error("the schema has no column `{name}`; here it takes {}", known.join(", "))]
    UnknownColumn {
        /// Column.
        name: String,
        /// Columns that could stand there.
        known: Vec<String>,
    },
    /// The step has another number of columns than the schema.
    #[error("the step has {got} columns, the schema has {expected}; give each once, in order")]
    WrongColumnCount {
        /// Columns given.
        got: usize,
        /// Columns of the schema.
        expected: usize,
    },
    /// The final observation has another number of columns than the schema has of role obs.
    #[error(
        "`final_obs` has {got} columns, the schema has {expected} of role obs; give each of those \
         once, in order"
    )]
    WrongFinalCount {
        /// Columns given.
        got: usize,
        /// Columns of role obs.
        expected: usize,
    },
    /// A column of another element type.
    #[error("column `{name}` holds {expected}, the step gives {got}; convert it first")]
    WrongDType {
        /// Column.
        name: String,
        /// The schema's type.
        expected: DType,
        /// The step's type.
        got: DType,
    },
    /// A row reserved by a writer whose appends make other than one row.
    #[error(
        "a row is reserved by a writer of 1 lane in next_step mode, this one has {lanes} in {mode} \
         mode; make a writer like that, or append"
    )]
    NotReservable {
        /// Lanes of the writer.
        lanes: usize,
        /// Its mode.
        mode: AutoresetMode,
    },
    /// A column of the reserved row was never asked for.
    #[error("column `{name}` of the reserved row was not written; write every column, or append")]
    NotWritten {
        /// Column.
        name: String,
    },
    /// Elements that the reserved row does not have.
    #[error(
        "{values} elements from element {at} on do not fit a column of {items}; write fewer, or from \
         further left"
    )]
    BeyondColumn {
        /// First element.
        at: usize,
        /// Elements given.
        values: usize,
        /// Elements of the column.
        items: usize,
    },
    /// A column of another size.
    #[error(
        "column `{name}` needs {expected} bytes ({}{lanes} lanes × {width} bytes a row), the step \
         gives {got}; the leading axis is the writer's lanes",
        steps_before(*steps, " steps × ")
    )]
    WrongSize {
        /// Column.
        name: String,
        /// Bytes needed.
        expected: usize,
        /// Bytes given.
        got: usize,
        /// Steps of the call.
        steps: usize,
        /// Lanes of the writer.
        lanes: usize,
        /// Bytes of a row.
        width: usize,
    },
    /// A flag array of another length.
    #[error(
        "`{name}` has {got} flags, the writer has {}{lanes} lane(s); give one per lane",
        steps_before(*steps, " steps of ")
    )]
    WrongFlags {
        /// `terminated`, `truncated` or `lanes`.
        name: &'static str,
        /// Flags given.
        got: usize,
        /// Steps of the call.
        steps: usize,
        /// Lanes of the writer.
        lanes: usize,
    },
    /// A lane ended and its final observation is missing.
    #[error(
        "lane {lane} ended, but `final_obs` is missing; autoreset_mode=\"{mode}\" needs the final \
         observation of every lane that ended (infos[\"final_obs\"] of a same-step environment, \
         the observation itself of a disabled one)"
    )]
    MissingFinalObs {
        /// First lane that ended, as a position in the writer's lanes.
        lane: usize,
        /// The writer's mode.
        mode: AutoresetMode,
    },
    /// A final observation in next-step mode.
    #[error(
        "`final_obs` was given, but in autoreset_mode=\"next_step\" the append after an end brings \
         the final observation; make the writer with autoreset_mode=\"same_step\""
    )]
    UnexpectedFinalObs,
    /// 2^48 rows.
    #[error("lane {lane} has had {rows} rows, the limit; create a new ring")]
    LaneWornOut {
        /// Position in the writer's lanes.
        lane: usize,
        /// Rows published.
        rows: u64,
    },
    /// A lease is in the way, and the ring's lane policy is to fail.
    #[error(
        "lane {lane} cannot take a row: reader slot {slot} (process {pid}) has leased its rows \
         from {start} on, and lane_policy is \"fail\"; let go of the lease, or create the ring with \
         lane_policy=\"block\""
    )]
    Leased {
        /// The lane.
        lane: u32,
        /// Reader slot of the lease's holder.
        slot: u32,
        /// Its process, as it says.
        pid: u64,
        /// First row leased.
        start: u64,
    },
    /// The caller's interrupt, while a lease was in the way.
    #[error("the append was interrupted while it waited {waited_ms} ms for a lease; append again")]
    Interrupted {
        /// How long it waited.
        waited_ms: u128,
    },
}

/// Why rows could not be leased. Nothing is pinned.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LeaseError {
    /// The ring's writers stop for nobody.
    #[error(
        "this ring grants no leases (lane_policy is \"overwrite\"); copy rows with `rows` or \
         `sample`, or create the ring with lane_policy=\"block\""
    )]
    Overwrite,
    /// The ring has fewer lanes.
    #[error("there is no lane {lane}; the ring has lanes 0 to {}", lanes.saturating_sub(1))]
    NoSuchLane {
        /// Lane asked for.
        lane: u64,
        /// Lanes of the ring.
        lanes: u32,
    },
    /// A lease of nothing, or of more than writers can do without.
    #[error(
        "a lease of {asked} rows is not possible, the limits are 1 and {limit} (a quarter of the \
         {lane_capacity} rows of a lane); lease fewer rows, or create the ring with a larger \
         capacity"
    )]
    BadLength {
        /// Rows asked for.
        asked: u64,
        /// Most rows of a lease.
        limit: u64,
        /// Rows of a lane.
        lane_capacity: u64,
    },
    /// Rows that are not published yet, or not any more.
    #[error(
        "rows {from}..{to} of lane {lane} are not readable: it {}",
        holds(*oldest, *head, "lease")
    )]
    NotReadable {
        /// Lane.
        lane: u32,
        /// First row asked for.
        from: u64,
        /// One past the last row asked for.
        to: u64,
        /// Oldest row readable.
        oldest: u64,
        /// One past the newest row readable.
        head: u64,
    },
    /// Rows of a ring in private memory that are not in one piece.
    #[error(
        "rows {from}..{to} of lane {lane} run over the end of a ring in private memory after row \
         {split}; lease up to there, or give the ring a name"
    )]
    Wraps {
        /// Lane.
        lane: u32,
        /// First row asked for.
        from: u64,
        /// One past the last row asked for.
        to: u64,
        /// Last row of the first piece.
        split: u64,
    },
    /// Every reader slot is taken.
    #[error(
        "all {slots} reader slots of the ring are taken; close a sampler or lease in some process, \
         or create the ring with more `reader_slots`"
    )]
    NoSlot {
        /// Reader slots of the ring.
        slots: u32,
    },
    /// The writer was faster, or the handle holds too many.
    #[error(transparent)]
    Hold(#[from] HoldError),
    /// The rows are not the ones that were asked for: somebody else wrote the lane's file.
    #[error("row {seq} of lane {lane} says that it is row {found}; create the ring anew")]
    Damaged {
        /// Lane.
        lane: u32,
        /// Row asked for.
        seq: u64,
        /// What its `seq` column says.
        found: u64,
    },
    /// The reader's slot.
    #[error(transparent)]
    Segment(#[from] SegmentError),
}

/// What a lane holds, and what to do about it.
fn holds(oldest: u64, head: u64, what_to_do: &str) -> String {
    if oldest == head {
        return "holds no row yet; wait for its writer with `wait`".to_owned();
    }
    format!("holds rows {oldest}..{head} now; {what_to_do} some of those")
}

/// Why rows could not be read.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadError {
    /// The ring has fewer lanes.
    #[error("there is no lane {lane}; the ring has lanes 0 to {}", lanes.saturating_sub(1))]
    NoSuchLane {
        /// Lane asked for.
        lane: u64,
        /// Lanes of the ring.
        lanes: u32,
    },
    /// Rows that are not published yet, or not any more.
    #[error(
        "rows {from}..{to} of lane {lane} are not there: it {}",
        holds(*oldest, *head, "ask for")
    )]
    NotReadable {
        /// Lane.
        lane: u32,
        /// First row asked for.
        from: u64,
        /// One past the last row asked for.
        to: u64,
        /// Oldest row readable.
        oldest: u64,
        /// One past the newest row readable.
        head: u64,
    },
    /// Memory for other columns than the ring has.
    #[error(
        "{got} buffers for rows of {expected} columns; give one per column: seq, episode, t, flags, \
         then those of the schema"
    )]
    BadBufferCount {
        /// Buffers given.
        got: usize,
        /// Columns, the built-in ones included.
        expected: usize,
    },
    /// Memory that the rows do not fill, or that does not hold them.
    #[error("the buffer for `{column}` has {got} bytes, the rows have {expected}; give as many")]
    BadBuffer {
        /// Column.
        column: String,
        /// Bytes given.
        got: usize,
        /// Bytes of the rows.
        expected: usize,
    },
    /// The writer passed the reader during the copy.
    #[error(
        "rows {from}..{to} of lane {lane} were overwritten while they were read; \
         read newer or fewer rows, or create the ring with a larger capacity"
    )]
    Lapped {
        /// Lane.
        lane: u32,
        /// First row asked for.
        from: u64,
        /// One past the last row asked for.
        to: u64,
    },
}

/// Why a batch could not be drawn.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SampleError {
    /// A batch of nothing, or of more than counters can tell apart.
    #[error("batch_size is {asked}; give a whole number from 1 to {limit}")]
    BadBatchSize {
        /// Batch size asked for.
        asked: usize,
        /// Largest batch.
        limit: usize,
    },
    /// A batch that does not fit in memory.
    #[error(
        "a batch of {batch} with these windows takes {bytes} bytes, more than can be allocated; \
         draw fewer at a time or ask for shorter windows"
    )]
    TooLarge {
        /// Batch size asked for.
        batch: usize,
        /// Bytes of all its arrays, saturated.
        bytes: usize,
    },
    /// A window of nothing, or longer than a lane.
    #[error(
        "history={history}, future={future} and n_step={n_step} take {rows} rows, the successor \
         included, but a lane keeps {limit}; ask for shorter windows (history and n_step are at \
         least 1), or create the ring with a larger capacity"
    )]
    BadWindow {
        /// History asked for.
        history: u32,
        /// Future asked for.
        future: u32,
        /// Transitions of an n-step return asked for.
        n_step: u32,
        /// Rows of a window, the successor included.
        rows: u64,
        /// Rows of a lane.
        limit: u64,
    },
    /// A discount that is none, is missing, or has nothing to discount.
    #[error("{}", bad_gamma(*.gamma, *.n_step))]
    BadGamma {
        /// Discount asked for.
        gamma: Option<f64>,
        /// Transitions of an n-step return asked for.
        n_step: Option<u32>,
    },
    /// An n-step return of something that is no reward.
    #[error(
        "n_step sums the column `reward`, one f4 or f8 a row; {found}; create the ring with \
         \"reward\": \"f4\""
    )]
    BadReward {
        /// What the schema has instead.
        found: String,
    },
    /// No window lies whole in an episode.
    #[error(
        "no window of history {history} and future {future} lies whole in one episode, as \
         boundary=\"reject\" asks: it takes {needed} transitions in a row, and the longest of the \
         ring's episodes has {longest} now; ask for shorter windows, or for boundary=\"mask\""
    )]
    NoWindow {
        /// History asked for.
        history: u32,
        /// Future asked for.
        future: u32,
        /// Transitions of a whole window.
        needed: u64,
        /// Most transitions in a row that the ring holds.
        longest: u64,
    },
    /// No transition is complete yet.
    #[error(
        "the ring holds no transition yet ({rows} rows published; a transition is complete when \
         the row after it is published); wait for writers with `wait`"
    )]
    Empty {
        /// Rows published over all lanes.
        rows: u64,
    },
    /// Writers are so fast, or lanes so short, that no draw survives.
    #[error(
        "gave up after {attempts} draws for one item: writers overwrite rows faster than they can \
         be copied; create the ring with a larger capacity"
    )]
    Outrun {
        /// Draws tried.
        attempts: u32,
    },
    /// An index that names no transition.
    #[error(
        "index[{position}] = {index} (lane {lane}, row {seq}) is not a transition of this ring: \
         {reason}; gather what a batch of this ring had as its index"
    )]
    BadIndex {
        /// Position in the caller's array.
        position: usize,
        /// The index.
        index: i64,
        /// Its lane.
        lane: u32,
        /// Its sequence number.
        seq: u64,
        /// Why.
        reason: &'static str,
    },
    /// An index whose row is gone.
    #[error(
        "index[{position}] = {index} (lane {lane}, row {seq}) was overwritten: the lane's oldest \
         row is {oldest} now; use indices sooner or create the ring with a larger capacity"
    )]
    Lapped {
        /// Position in the caller's array.
        position: usize,
        /// The index.
        index: i64,
        /// Its lane.
        lane: u32,
        /// Its sequence number.
        seq: u64,
        /// Oldest row readable.
        oldest: u64,
    },
    /// Memory of a batch with other keys, types or shapes.
    #[error(
        "`{key}` of the batch to fill is {got}, this sampler draws {expected}; \
         give a batch that this sampler, or one of equal settings, drew at the same batch size"
    )]
    OtherPlan {
        /// First key that differs.
        key: String,
        /// Type and shape of the memory.
        got: String,
        /// Type and shape that this sampler draws.
        expected: String,
    },
    /// More or fewer indices than the memory has items.
    #[error("{got} indices for memory of {expected} items; give as many indices as it has items")]
    WrongIndexCount {
        /// Indices given.
        got: usize,
        /// Items of the memory.
        expected: usize,
    },
    /// Too many batches to be drawn ahead.
    #[error("prefetch is {asked}, the limit is {limit} batches ahead; ask for fewer")]
    BadPrefetch {
        /// Batches asked for.
        asked: usize,
        /// Most batches.
        limit: usize,
    },
    /// The caller holds all the memory that was to be filled in turn.
    #[error(
        "all {memory} batches that are filled in turn are in use; give one back with `refill` \
         before asking for the next"
    )]
    NothingToFill {
        /// Batches in turn.
        memory: usize,
    },
    /// The system refused a thread.
    #[error("no thread could be started to draw batches ahead ({0}); use prefetch=0")]
    Thread(#[source] std::io::Error),
    /// Caller memory of another shape than the plan's.
    #[error("arena {arena} has {got} bytes, the plan needs {expected}; allocate as it says")]
    BadArena {
        /// Number of the arena (or of arenas, if that differs).
        arena: usize,
        /// Bytes given.
        got: usize,
        /// Bytes needed.
        expected: usize,
    },
    /// The reader's slot.
    #[error(transparent)]
    Segment(#[from] SegmentError),
}

fn bad_gamma(gamma: Option<f64>, n_step: Option<u32>) -> String {
    match (gamma, n_step) {
        (None, Some(n)) => format!("n_step={n} needs the learner's discount; give gamma, 0 to 1"),
        (Some(gamma), None) => {
            format!("gamma={gamma} discounts n-step returns only; give n_step too, or leave it out")
        }
        (gamma, _) => format!("gamma is {}; give 0 to 1", gamma.unwrap_or(f64::NAN)),
    }
}

/// Why a batch has no such column.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum BatchError {
    /// No column of that key.
    #[error("the batch has no column `{key}`; it has {}", known.join(", "))]
    UnknownKey {
        /// Key asked for.
        key: String,
        /// Keys there are.
        known: Vec<String>,
    },
    /// Another element type.
    #[error("column `{key}` holds {holds}, not {asked}; ask for {holds} and convert it")]
    WrongDType {
        /// Key asked for.
        key: String,
        /// Its type.
        holds: DType,
        /// Type asked for.
        asked: DType,
    },
}

/// Why a wait ended without what it waited for.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitError {
    /// Time is up.
    #[error(
        "the ring holds {have} transitions after {waited_ms} ms, waited for {want}; \
         are writers running? `backcast stat` shows them"
    )]
    TimedOut {
        /// Transitions waited for.
        want: u64,
        /// Transitions there are.
        have: u64,
        /// How long it waited.
        waited_ms: u128,
    },
    /// More than the ring can hold.
    #[error(
        "waiting for {want} transitions, a ring of {capacity} rows holds at most {most} (the newest \
         row of each lane has no successor yet); wait for fewer"
    )]
    Never {
        /// Transitions waited for.
        want: u64,
        /// Capacity of the ring, rows.
        capacity: u64,
        /// Most transitions it can hold.
        most: u64,
    },
    /// Time is up before enough rows were published.
    #[error(
        "{have} rows are published after {waited_ms} ms, waited for {want}; \
         are writers running? `backcast stat` shows them"
    )]
    TooFewRows {
        /// Rows waited for.
        want: u64,
        /// Rows published since the ring was made.
        have: u64,
        /// How long it waited.
        waited_ms: u128,
    },
    /// The caller's interrupt.
    #[error("the wait was interrupted")]
    Interrupted,
}

/// How many steps a call has, where it has not one.
fn steps_before(steps: usize, words: &str) -> String {
    if steps == 1 { String::new() } else { format!("{steps}{words}") }
}
