#![forbid(unsafe_code)]
//! Experience replay in shared memory: rings of transitions, their writers and samplers.
//!
//! - [`Schema`]: the columns of a row; [`Ring`]: one replay, created once, attached by name;
//! - [`Writer`]: appends steps of `n` lanes, with all three autoreset modes and FINAL rows;
//!   [`Writer::reserve`]: writes a row in place;
//! - [`Sampler`]: seeded draws, uniform or by a [`Selector`], with history and future windows,
//!   n-step returns, masks and `next_*`; [`Hindsight`]: goals relabelled; [`Batches`]: batches
//!   drawn ahead by a thread; [`SamplerState`]: a sampler's position;
//! - [`gae`], [`lambda_returns`], [`discounted_returns`], [`vtrace`], [`retrace`]: returns over
//!   windows;
//! - [`RateLimiter`]: samples per insert within an error band; both sides wait; [`Limiter`]: the
//!   rate limiter of a ring, to be read, changed and switched off;
//! - [`TransitionOrder`]: the order of all transitions, without gaps;
//! - [`LearnedValues`]: values that learners attach to rows, joined to batches;
//! - [`Ring::restore`]: a ring that continues where a saved one stopped;
//! - [`Params`]: the newest version of a policy's weights, from the learner to its actors;
//! - [`Lease`]: rows read in place, which no writer overwrites during the lease;
//! - [`Batch`], [`BatchPlan`]: the result of a draw, in its own or in the caller's memory.
//!
//! ```
//! use backcast_core::{
//!     DType, Ring, RingOptions, SamplerOptions, Schema, StepColumns, WriterOptions,
//! };
//!
//! let schema = Schema::builder()
//!     .column("obs", DType::F32, &[2])
//!     .column("action", DType::I32, &[])
//!     .build()?;
//! let ring = Ring::heap(&schema, RingOptions::with_capacity(1_000))?; // `create` gives it a name
//! let mut writer = ring.writer(WriterOptions::lanes(1))?;
//! for t in 0..10_i16 {
//!     let (obs, action) = ([f32::from(t), 0.0], [i32::from(t)]);
//!     let columns = StepColumns::of(&schema).with("obs", &obs)?.with("action", &action)?;
//!     writer.append(&columns.step(&[false], &[false])?)?;
//! }
//! let mut sampler = ring.sampler(SamplerOptions::seeded(7).history(4))?;
//! let batch = sampler.sample(32)?;
//! assert_eq!(batch.column::<f32>("obs")?.shape(), [32, 4, 2]);
//! assert_eq!(batch.column::<f32>("next_obs")?.shape(), [32, 4, 2]);
//! assert_eq!(batch.column::<bool>("mask")?.shape(), [32, 4]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod autoreset;
mod batch_key;
mod element;
mod error;
mod index;
mod lease;
mod limiter;
mod params;
pub mod plumbing;
mod priority;
mod reader;
mod returns;
mod ring;
mod row_flags;
mod row_header;
mod sampler;
mod schema;
mod table;
mod table_lock;
mod variant_words;
mod wait;
mod writer;

pub use autoreset::{AutoresetMode, BadAutoresetMode};
pub use backcast_layout::protocol::claim::ClaimPass;
pub use backcast_layout::{
    AgeCounts, BadExist, BadLanePolicy, Base, BehindTree, ClaimSettings, ClaimTableInfo,
    ClaimTableState, Column, ColumnError, DType, Exist, IoCause, LanePolicy, LearnedColumn,
    LearnedCounters, LearnedTableInfo, MAX_LANES, MAX_READER_SLOTS, NamedTable, OTHER_VERSION,
    ObjectInfo, ObjectKind, ParamsArray, ParamsCounters, ParamsShape, ParamsShapeError,
    ReaderPinsError, ReaderRecord, Role, SegmentError, SpaceLimits, TableCounters, TableInfo,
    TableSettings, UnreadableTable, collect_garbage, list_objects, object_holders, remove_object,
    remove_unheld_object,
};
pub use element::Element;
pub use error::{
    AppendError, BadRowIndex, BadSelector, BatchError, ClaimUnit, DropError, FormError, HeldLane,
    HindsightError, LearnedError, LeaseError, LimitError, LimitedCall, LimiterError, LimiterWait,
    LockError, ParamsError, PriorityError, ReadError, ResizeError, RestoreError, ReturnsError,
    RingError, SampleError, SchemaError, TableError, WaitError, WriterError,
};
pub use index::{AsRowIndex, RowIndex};
pub use lease::Lease;
pub use lease::retention::RetentionPin;
pub use limiter::Limiter;
pub use limiter::absent::{BadNoLearner, BadNoWriter, NoLearner, NoWriter};
pub use limiter::limits::{LimiterCounts, RateLimiter};
pub use limiter::require::RequiredLimits;
pub use limiter::stats::{LimiterSideStats, LimiterStats, LimiterWaiter};
/// Arrays of this version are what [`Batch::column`] returns.
pub use ndarray;
pub use params::{Params, ParamsArrays, ParamsOptions, ParamsStats, ParamsView};
pub use priority::{
    Alpha, BadInitialPriority, BadPriorityOrder, BadWeightNorm, Beta, InitialPriority, LaneLeaves,
    Priorities, PriorityBin, PriorityDistribution, PriorityOptions, PriorityOrder, TableState,
    WeightNorm, sequence_priorities,
};
pub use reader::Rows;
pub use returns::{
    Discount, Real, ReturnSteps, VTraceOptions, discounted_returns, gae, lambda_returns, retrace,
    vtrace,
};
pub use ring::Ring;
pub use ring::ages::AgeBin;
pub use ring::claim_stats::ClaimStats;
pub use ring::notices::{Notice, NoticeKind};
pub use ring::observed::Observed;
pub use ring::options::{BadCapacity, Capacity, RingOptions, RingSettings};
pub use ring::resize::{ResizeProgress, Resized};
pub use ring::restore::Filling;
pub use ring::stats::{LaneStats, PinStats, ReaderStats, RingStats};
pub use ring::tables::LockedTable;
pub use ring::unlinked::{BadOnUnlinked, OnUnlinked};
pub use row_flags::{FINAL, GAP, TERMINATED, TRUNCATED};
pub use sampler::{
    Arena, ArenaBlock, ArenaPool, Axis, BadBoundary, Batch, BatchBuffers, BatchMut, BatchPlan,
    Batches, BatchesOptions, Block, Boundary, ColumnWindow, ColumnWindows, CounterRng,
    EpisodeLayout, Form, GatherTarget, GoalStrategy, Goals, Hindsight, MAX_BATCH, PolicyVersion,
    Rollout, Sampler, SamplerOptions, SamplerState, SamplerStats, SamplerTotals, Selector,
    Sequence, TransitionOrder, View, WholeEpisodes, WindowSteps,
};
pub use schema::{Schema, SchemaBuilder};
pub use table::{
    LaneValues, LearnedOptions, LearnedState, LearnedValues, Table, TableOptions, TimesBin,
};
pub use wait::{Interrupt, Wait, WaitEnd, WaitReport, processes_in_words};
pub use writer::lease_backoff::Stall;
pub use writer::options::WriterOptions;
pub use writer::step::{ObsBytes, Step, StepColumns, TypedStep};
pub use writer::{
    ColumnMut, Ends, Reserved, ResetHint, Suspended, Writer, WriterCounts, WriterWarning,
};
