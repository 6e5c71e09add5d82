//! A row that is reserved: its arrays, and how they are taken back from Python.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use backcast_core::plumbing::LaneAlias;
use backcast_core::{Column, Suspended};
use numpy::PyUntypedArray;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict};

use crate::array::view::is_unshared;
use crate::error::{ErrorClass, Failure};
use crate::replay::writer::Writer;
use crate::replay::writer::state::{SuspendedRow, WriterState};

/// A reserved row until it is published or abandoned. Its writer shares it, and abandons it when
/// the writer is closed.
pub(crate) type Opened = Mutex<Option<Open>>;

/// A row that is neither published nor abandoned.
pub(crate) struct Open {
    pub(super) columns: Vec<ReservedColumn>,
    pub(super) dict: Py<PyDict>,
    pub(super) window: Option<Arc<LaneAlias>>,
    pub(super) slot: u64,
    pub(super) ends: (bool, bool),
    pub(super) next_obs: Option<Observed>,
    pub(super) final_obs: Option<Observed>,
    pub(super) is_final: bool,
}

/// An observation as the caller gave it, and the bytes of its columns.
pub(super) struct Observed {
    pub(super) given: Py<PyAny>,
    pub(super) columns: Vec<Vec<u8>>,
}

impl Observed {
    pub(super) fn rows(&self) -> Vec<&[u8]> {
        self.columns.iter().map(Vec::as_slice).collect()
    }
}

impl Open {
    /// Returns the names of the columns below `name`.
    pub(super) fn names_below(&self, name: &str) -> Vec<String> {
        let below = |column: &str| column.strip_prefix(name).is_some_and(|s| s.starts_with('/'));
        let names = self.columns.iter().map(|column| column.column.name());
        names.filter(|name| below(name)).map(str::to_owned).collect()
    }
}

/// A column of a reserved row and its array.
pub(super) struct ReservedColumn {
    pub(super) column: Column,
    pub(super) array: Py<PyUntypedArray>,
    /// Whether the array is the ring's memory. Otherwise its bytes are copied when the row is
    /// published. A FINAL row ignores them unless the column is an observation.
    pub(super) in_place: bool,
    /// Whether the caller requested the array.
    pub(super) asked: bool,
}

/// A row that the core has reserved, before its arrays exist.
pub(super) struct Reservation {
    pub(super) places: Vec<Option<usize>>,
    pub(super) window: Option<Arc<LaneAlias>>,
    pub(super) slot: u64,
    pub(super) is_final: bool,
}

impl Reservation {
    /// Reserves the next row and looks up the addresses of its columns. Needs no interpreter.
    pub(super) fn of(state: &mut WriterState) -> Result<Self, Failure> {
        let row = state.free()?.reserve()?.suspend();
        if state.window.as_ref().is_none_or(|window| !state.writer.is_aliased_by(window)) {
            let window = state.writer.alias().map_err(|error| {
                let text = format!("cannot map the lane again: {error}; append the row instead");
                Failure::new(ErrorClass::Storage, text)
            })?;
            state.window = window.map(Arc::new);
        }
        let WriterState { writer, window, .. } = state;
        let columns = writer.schema().columns().len();
        let Some(mut reserved) = writer.resume(&row) else {
            return Err(Failure::new(ErrorClass::Append, "the row is gone; reserve another"));
        };
        let mut place = |at| Some(reserved.place(window.as_deref()?, at)?.expose_provenance());
        let places = (0..columns).map(&mut place).collect();
        let (slot, is_final) = (reserved.slot(), reserved.is_final());
        let reservation = Self { places, window: window.clone(), slot, is_final };
        let fast_arguments = state.fast_arguments.take();
        state.reserved = Some(SuspendedRow { row, fast_arguments });
        Ok(reservation)
    }
}

/// Ends the reservation of a writer and returns the suspended row.
pub(super) fn unreserve(state: &mut WriterState) -> Option<Suspended> {
    let SuspendedRow { row, fast_arguments } = state.reserved.take()?;
    state.fast_arguments = fast_arguments;
    Some(row)
}

pub(super) fn lock(opened: &Opened) -> MutexGuard<'_, Option<Open>> {
    opened.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes the row and makes its arrays read-only. Moves arrays that the caller kept to private
/// memory. Returns `None` if the row was published or abandoned before.
pub(super) fn withdraw(
    py: Python<'_>,
    writer: &Writer,
    opened: &Opened,
) -> Result<Option<Open>, Failure> {
    let Some(open) = lock(opened).take() else { return Ok(None) };
    let cut = (|| {
        empty(open.dict.bind(py))?;
        for column in &open.columns {
            column.array.bind(py).getattr("flags")?.setattr("writeable", false)?;
        }
        Ok::<_, PyErr>(())
    })();
    let shared = |column: &ReservedColumn| column.in_place && !is_unshared(column.array.bind(py));
    let kept = cut.is_err() || open.columns.iter().any(shared);
    if let Some(window) = open.window.as_ref().filter(|_| kept) {
        if let Err(error) = window.detach(open.slot) {
            *lock(opened) = Some(open);
            let text = format!(
                "cannot move the arrays that were kept out of the ring's memory: {error}; drop \
                 them, or free memory, and try again"
            );
            return Err(Failure::new(ErrorClass::Storage, text));
        }
        // Fails in a forked child, where the window belongs to the parent.
        let _ = writer.handle.with_uninterrupted(|state| {
            state.window = None;
            Ok(())
        });
    }
    Ok(Some(open))
}

/// Discards the row and lets the writer continue.
pub(crate) fn give_up(py: Python<'_>, writer: &Writer, opened: &Opened) -> Result<(), Failure> {
    if withdraw(py, writer, opened)?.is_some() {
        // Fails if the writer was closed meanwhile, or belongs to the parent of a forked child.
        let _ = py.detach(|| {
            writer.handle.with_uninterrupted(|state| {
                unreserve(state);
                Ok(())
            })
        });
    }
    Ok(())
}

/// Empties a dict and the dicts within it, which the caller may have kept.
fn empty(dict: &Bound<'_, PyDict>) -> PyResult<()> {
    for inner in dict.values() {
        if let Ok(inner) = inner.cast_into::<PyDict>() {
            empty(&inner)?;
        }
    }
    dict.clear();
    Ok(())
}
