//! Snapshots of rings on disk, saved beside running writers and checked byte for byte.
//!
//! - [`Store`]: a directory of snapshots; [`Store::save`], [`Store::load`],
//!   [`Store::load_params`], [`Store::attach_snapshot`], [`Store::verify`], [`Store::remove`];
//! - [`SnapshotSpec`]: names such as `pong@epoch-10`;
//! - [`Follower`]: a thread that persists a ring, continuously or periodically;
//! - [`sampler_state_json`]: state of a sampler, for [`SaveOptions::state`];
//! - [`Storage`]: operations of a store on a file system.
//!
//! Rows are in Arrow IPC files, which other programs can read. Two manifests, written in turn, name
//! the rows of a snapshot and have checksums of every byte. `docs/snapshot-format.md` has the
//! details.
//!
//! ```
//! use backcast_core::{DType, Ring, RingOptions, Schema, StepColumns, WriterOptions};
//! use backcast_persist::{LoadOptions, SaveOptions, Store};
//!
//! # let dir = tempfile::tempdir()?;
//! # let base = backcast_core::Base::at(dir.path());
//! let schema = Schema::builder().column("reward", DType::F32, &[]).build()?;
//! let options = RingOptions::with_capacity(1_000).base(base.clone());
//! let ring = Ring::create("pong", &schema, options)?;
//! let mut writer = ring.writer(WriterOptions::lanes(1))?;
//! for t in 0..10_u8 {
//!     let reward = [f32::from(t)];
//!     let columns = StepColumns::of(&schema).with("reward", &reward)?;
//!     writer.append(&columns.step(&[false], &[false])?)?;
//! }
//!
//! let store = Store::at(dir.path().join("store"));
//! let report = store.save(&ring, "epoch-1", SaveOptions::default())?;
//! assert_eq!((report.rows, report.rows_lapped), (10, 0));
//! let options = LoadOptions::default().name("again").base(base);
//! let again = store.load("pong@epoch-1", options)?; // in another process, after a reboot
//! assert_eq!(again.rows(0, 0..10)?.column::<f32>("reward")?[9], 9.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod arrow;
mod chunk;
mod clock;
mod copy;
mod damage;
mod error;
mod follow;
mod followed;
mod layout;
mod learned;
mod left_out;
mod load;
mod manifest;
mod params;
mod read_failure;
mod sampler_state;
mod save;
mod slots;
mod spec;
mod storage;
mod store;
mod tables;
mod verify;
mod waiting;

pub use backcast_files::{OnProgress, Progress};
pub use damage::{ChunkPart, Damage, DamageKind};
pub use error::{LoadError, SaveError, StoreError};
pub use follow::{
    BadPersistMode, FollowOptions, FollowState, Follower, Following, Inspection, PersistMode,
};
pub use followed::Keep;
pub use left_out::LeftOutTable;
pub use load::LoadOptions;
pub use manifest::SnapshotParams;
pub use sampler_state::{BadSamplerState, sampler_state, sampler_state_json};
pub use save::{SaveOptions, SaveReport};
pub use spec::SnapshotSpec;
pub use storage::{Disk, LockGuard, LockKind, NewFile, Storage, StoredFile};
pub use store::{Listing, RemoveReport, Snapshot, Store};
pub use verify::VerifyReport;
