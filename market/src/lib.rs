//! Market panels: prices and indicators by day or by bar, shared once per machine.
//!
//! A [`Panel`] is an immutable table `[ticker, day, column]` of prices and indicators. It is loaded
//! from a long CSV or Parquet file ([`PanelData::from_csv`], [`PanelData::from_parquet`]) or from
//! record batches in memory ([`PanelData::from_batches`]), published as one read-only segment
//! ([`PanelData::share`]) and attached by name from any process ([`Panel::attach`]). Storage is
//! ticker-major, so the days around `(ticker, day)` are one contiguous block and
//! [`Panel::windows_into`] is one copy per (sample, ticker).
//!
//! Rows are labelled with days or, in panels of bars, with instants ([`Panel::calendar`]). What is
//! said of days applies to bars, too.
//!
//! The day itself is in neither half of a window. History is `day-H .. day-1`, future is `day+1 ..
//! day+F`. Of `day` only the open is shown, since nothing else of it is known when a decision is
//! made.
//!
//! ```
//! use backcast_market::{PanelData, PanelOptions};
//!
//! let csv = "\
//! date,tic,open,high,low,close,volume,rsi
//! 2024-01-02,AAPL,10.0,11.0,9.5,10.5,1000,50
//! 2024-01-03,AAPL,10.5,12.0,10.0,11.5,1200,61
//! 2024-01-03,VIX,13.0,13.5,12.5,13.2,0,55
//! ";
//! let options = PanelOptions::default().macro_tickers(["VIX"]);
//! let panel = PanelData::from_reader(csv.as_bytes(), &options)?.into_heap();
//! assert_eq!(panel.tickers(), ["AAPL", "VIX"]);
//! assert_eq!(panel.value(0, 1, 3), Some(11.5)); // AAPL's second close
//! assert_eq!(panel.value(1, 0, 3), None); // VIX is listed a day later
//!
//! let plan = panel.window_shape(1, 2, 1, 0)?; // one sample, two tokens, one day of history
//! let (mut arena, mut mask) = (vec![0.0; plan.arena_len()], vec![false; plan.mask_len()]);
//! let tokens = [1, 2].map(i64::from);
//! panel.windows_into(&[1], &tokens, 2, 1, 0, &mut arena, &mut mask)?;
//! assert_eq!(mask, [true, true, false, true]); // AAPL: both days; VIX: only the day itself
//! assert_eq!(arena[3], 10.5); // yesterday's close of AAPL
//! assert_eq!(arena[6..9], [10.5, 0.0, 0.0]); // of the day itself only the open
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

#[cfg(feature = "parquet")]
mod arrow_column;
mod assemble;
#[cfg(feature = "parquet")]
mod batches;
mod blocks;
mod calendar;
mod chunk;
mod csv_load;
mod date;
mod derive;
mod derived_column;
mod describe;
mod error;
mod gather;
mod header;
mod header_hints;
mod load_error;
mod load_warning;
mod meta;
mod moment;
mod options;
mod panel;
#[cfg(feature = "parquet")]
mod parquet_file;
#[cfg(feature = "parquet")]
mod parquet_write;
mod splits;
mod symbols;
mod tokenizer;
mod tokenizer_file;
mod transitions;
mod windows;
mod zone;

pub use assemble::PanelData;
pub use calendar::Calendar;
pub use derived_column::{DerivedColumn, ParseDerivedColumnError};
pub use describe::{Coverage, PanelSummary};
pub use error::{LookupError, PanelError, WindowError};
pub use gather::ExactRows;
pub use load_error::{
    ColumnRole, FileFormat, FilePart, NumberProblem, PanelLoadError, RowPlace, TimeProblem,
};
pub use load_warning::LoadWarning;
pub use moment::{EpochUnit, ParseEpochUnitError};
pub use options::{NanPolicy, PanelOptions, ParseNanPolicyError};
pub use panel::{Panel, PanelRow, PanelRows};
#[cfg(feature = "parquet")]
pub use parquet_write::{PanelFileWriter, PanelWriteError, TickerDays};
pub use splits::{SplitBars, ToldSplits};
pub use symbols::{CASH, PriceColumn};
pub use tokenizer::{TickerTokenizer, TokenError, UNK, UnknownTicker, Vocabulary};
pub use tokenizer_file::TokenFileError;
pub use transitions::{
    MarketPlan, TransitionBatch, TransitionError, TransitionLayout, TransitionOptions,
    TransitionOutcome, TransitionRing, TransitionSelection, TransitionShape, TransitionSide,
    TransitionWindows,
};
pub use windows::WindowPlan;
