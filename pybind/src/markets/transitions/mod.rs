//! `backcast._native.TransitionRing`: the ring behind the buffers of `backcast.finrl`.

mod batch;
mod draw;
mod empty;
mod error;
mod inspect;
mod settings;
mod single;
mod states;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use backcast_core::ArenaPool;
use backcast_market::{
    TransitionBatch, TransitionError, TransitionOptions, TransitionRing as CoreRing,
    TransitionShape,
};
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict};

use self::empty::EmptyRing;
use self::settings::{action_shape_of, names, seed_of, threads_of};
use crate::argument::{Argument, count, count_in, file_of};
use crate::error::{ErrorClass, Failure};
use crate::handle::Handle;
use crate::location::{base_of, exist_of, name_of, persistent_of};
use crate::markets::panel::Panel;
use crate::markets::transitions::batch::BatchNames;
use crate::markets::transitions::states::{ArgumentNames, Arguments, TickerLists, read, sizes_of};

/// Ring of trading transitions behind the buffers of ``backcast.finrl``.
///
/// Use :class:`backcast.finrl.VecReplayBuffer`, which describes arguments and results.
///
/// Parameters
/// ----------
/// panel : Panel
///     The market of the states.
/// tickers : int
///     Tickers of a portfolio, ``T``.
/// action_shape : sequence of int, optional
///     Shape of one action; ``(T,)`` when left out.
/// n_objectives : int, optional
///     Rewards of one transition; by default as many as in the first batch, or 1 in a ring with a
///     name.
/// end : int, optional
///     First day that future windows do not show; all days of the panel are shown when left out.
/// **settings
///     See :class:`backcast.finrl.VecReplayBuffer`.
///
/// Raises
/// ------
/// ArgumentError, ExistsError, SpaceError
///     If a setting is out of its range, the name is taken, or there is no room.
#[pyclass(module = "backcast._native", name = "TransitionRing", frozen)]
pub(crate) struct TransitionRing {
    ring: Handle<CoreRing>,
    /// State behind a lock. Callers hold the lock briefly, possibly with the ring locked, and never
    /// while they wait or run Python code.
    state: Mutex<State>,
    /// Options for making an empty private ring of other sizes.
    empty_ring: Option<EmptyRing>,
    panel: Panel,
    names: Arc<BatchNames>,
    /// Memory of batches that nothing refers to.
    pool: Arc<ArenaPool>,
    /// Days by which the indicators of observations are older than the open.
    lead: usize,
    name: Option<String>,
    path: Option<PathBuf>,
}

/// State that changes from call to call, beside the ring.
struct State {
    shape: Arc<TransitionShape>,
    /// Whether this handle has added and loaded nothing since it was made or last cleared the ring.
    empty: bool,
    /// Scratch memory, lent to the thread that adds; concurrent adders allocate their own.
    memory: Option<Scratch>,
}

/// Scratch memory for reading transitions.
struct Scratch {
    lists: TickerLists,
    batch: TransitionBatch,
}

#[pymethods]
impl TransitionRing {
    #[new]
    #[pyo3(signature = (
        panel, tickers, action_shape=None, n_objectives=None, *, capacity=1_000_000_i64.into(),
        seed=42_i64.into(), macro_tickers=Vec::new(), indicators=None, indicator_lag=None, end=None,
        n_adders=1_i64.into(), threads=1_i64.into(), name=None, exist="error".into(),
        persistent=false.into(), dir=None
    ))]
    #[pyo3(text_signature = "(panel, tickers, action_shape=None, n_objectives=None, *, \
                             capacity=1000000, seed=42, macro_tickers=(), indicators=None, \
                             indicator_lag=None, end=None, n_adders=1, threads=1, name=None, \
                             exist='error', persistent=False, dir=None)")]
    #[expect(
        clippy::too_many_arguments,
        clippy::needless_pass_by_value,
        reason = "the keywords of the Python call"
    )]
    fn new(
        py: Python<'_>,
        panel: &Bound<'_, Panel>,
        tickers: Argument<i128>,
        action_shape: Option<&Bound<'_, PyAny>>,
        n_objectives: Option<Argument<i128>>,
        capacity: Argument<i128>,
        seed: Argument<i128>,
        macro_tickers: Vec<String>,
        indicators: Option<Vec<String>>,
        indicator_lag: Option<usize>,
        end: Option<usize>,
        n_adders: Argument<i128>,
        threads: Argument<i128>,
        name: Option<Argument<String>>,
        exist: Argument<String>,
        persistent: Argument<bool>,
        dir: Option<Argument<PathBuf>>,
    ) -> Result<Self, Failure> {
        let tickers = count(tickers, "tickers", 1, ErrorClass::Argument)? as usize;
        let action = action_shape.map(action_shape_of).transpose()?;
        let objectives = n_objectives
            .map(|given| count_in(given, "n_objectives", 1..=65_535, ErrorClass::Argument))
            .transpose()?;
        let name = name.map(name_of).transpose()?;
        let usual = TransitionOptions::with_capacity(1);
        let options = TransitionOptions {
            indicator_lag: indicator_lag.unwrap_or(usual.indicator_lag),
            capacity: count(capacity, "capacity", 1, ErrorClass::Argument)?.into(),
            lanes: count_in(n_adders, "n_adders", 1..=4096, ErrorClass::Argument)?,
            name: name.clone(),
            exist: exist_of(exist)?,
            persistent: persistent_of(persistent, name.is_some(), "buffer")?,
            base: base_of(dir)?,
            seed: seed_of(py, seed)?,
            threads: threads_of(threads)?,
            end,
        };
        let core = panel.get().get()?;
        let names = names(py, &core, &macro_tickers, indicators)?;
        let shape = TransitionShape {
            tickers,
            action: action.clone().unwrap_or_else(|| vec![tickers]),
            objectives: objectives.unwrap_or(1) as usize,
        };
        // A named ring keeps its sizes, because others may attach to it.
        let empty_ring = name.is_none().then(|| EmptyRing {
            options: options.clone(),
            action: action.is_some(),
            objectives: objectives.is_some(),
        });
        let ring = py.detach(|| CoreRing::create(core, shape, options))?;
        Ok(Self::around(ring, panel.get().again()?, empty_ring, names, None))
    }

    /// Attach to a ring by name.
    #[staticmethod]
    #[pyo3(signature = (
        name, panel=None, *, seed=42_i64.into(), macro_tickers=None, indicators=None,
        indicator_lag=None, end=None, threads=1_i64.into(), dir=None
    ))]
    #[pyo3(text_signature = "(name, panel=None, *, seed=42, macro_tickers=None, indicators=None, \
                             indicator_lag=None, end=None, threads=1, dir=None)")]
    #[expect(clippy::too_many_arguments, reason = "the keywords of the Python call")]
    fn attach(
        py: Python<'_>,
        name: Argument<String>,
        panel: Option<&Bound<'_, Panel>>,
        seed: Argument<i128>,
        macro_tickers: Option<Vec<String>>,
        indicators: Option<Vec<String>>,
        indicator_lag: Option<usize>,
        end: Option<usize>,
        threads: Argument<i128>,
        dir: Option<Argument<PathBuf>>,
    ) -> Result<Self, Failure> {
        let (name, base, seed) = (name_of(name)?, base_of(dir)?, seed_of(py, seed)?);
        let threads = threads_of(threads)?;
        let given = panel.map(|panel| panel.get().get()).transpose()?;
        let ring = py.detach(|| {
            let ring = CoreRing::attach(&base, &name, given, seed, threads)?;
            Ok::<_, TransitionError>(if end.is_some() { ring.until(end) } else { ring })
        })?;
        let core = ring.panel().clone();
        let macro_tickers = macro_tickers.unwrap_or_else(|| {
            let tickers = core.tickers().iter().enumerate();
            tickers.filter(|(at, _)| core.is_macro(*at)).map(|(_, name)| name.clone()).collect()
        });
        let names = names(py, &core, &macro_tickers, indicators)?;
        Ok(Self::around(ring, Panel::of(core), None, names, indicator_lag))
    }

    /// Add transitions. `states` and `next_states` are dicts of arrays with the environments as the
    /// leading axis. `alone` is True for a single transition that the caller gave without that
    /// axis.
    #[pyo3(signature = (states, actions, rewards, next_states, dones, alone=false))]
    fn add<'py>(
        &self,
        states: &Bound<'py, PyDict>,
        actions: &Bound<'py, PyAny>,
        rewards: &Bound<'py, PyAny>,
        next_states: &Bound<'py, PyDict>,
        dones: &Bound<'py, PyAny>,
        alone: bool,
    ) -> Result<(), Failure> {
        let called = if alone { ArgumentNames::ALONE } else { ArgumentNames::MANY };
        let arguments = Arguments { called, states, actions, rewards, next_states, dones };
        // Retries if another thread added first transitions of other sizes.
        while !self.added(&arguments)? {}
        Ok(())
    }

    /// Return the number of transitions stored.
    fn size(&self, py: Python<'_>) -> Result<u64, Failure> {
        py.detach(|| self.ring.with(|ring| Ok(ring.len()?)))
    }

    /// Forget all transitions.
    fn clear(&self, py: Python<'_>) -> Result<(), Failure> {
        let clear = |ring: &mut CoreRing| {
            ring.clear()?;
            self.state().empty = true;
            Ok(())
        };
        py.detach(|| self.ring.with(clear))
    }

    /// Save to a file.
    fn save(&self, py: Python<'_>, path: Argument<PathBuf>) -> Result<(), Failure> {
        let path = file_of(path, "path", "the path of a file")?;
        py.detach(|| self.ring.with(|ring| Ok(ring.save(path)?)))
    }

    /// Replace the stored transitions by those of a file.
    fn load(&self, py: Python<'_>, path: Argument<PathBuf>) -> Result<(), Failure> {
        let path = file_of(path, "path", "the path of a file")?;
        py.detach(|| self.ring.with(|ring| self.load_from(ring, &path)))
    }

    /// Release the lane for other processes.
    fn release(&self, py: Python<'_>) -> Result<(), Failure> {
        py.detach(|| {
            self.ring.with(|ring| {
                ring.release();
                Ok(())
            })
        })
    }

    /// Remove the name. Processes that have the ring open keep it.
    fn unlink(&self, py: Python<'_>) -> Result<(), Failure> {
        let unlink = |ring: &mut CoreRing| {
            ring.ring().unlink().map_err(TransitionError::from)?;
            Ok(())
        };
        py.detach(|| self.ring.with(unlink))
    }

    /// Release the ring.
    fn close(&self, py: Python<'_>) -> Result<(), Failure> {
        py.detach(|| self.ring.close())
    }

    fn __str__(&self) -> String {
        let state = self.ring.describe(|ring| match ring.len() {
            Ok(size) => format!("{size}/{} transitions", ring.capacity()),
            Err(error) => error.to_string(),
        });
        format!("{}, {state}", self.ring.label())
    }
}

impl TransitionRing {
    fn around(
        ring: CoreRing,
        panel: Panel,
        empty_ring: Option<EmptyRing>,
        names: BatchNames,
        indicator_lag: Option<usize>,
    ) -> Self {
        let name = ring.ring().name().map(str::to_owned);
        let path = ring.ring().path().map(ToOwned::to_owned);
        let label = name
            .as_ref()
            .map_or_else(|| "a private buffer".to_owned(), |name| format!("buffer '{name}'"));
        let shape = ring.shape().clone().into();
        Self {
            lead: indicator_lag.unwrap_or(ring.indicator_lag()),
            ring: Handle::new(label, "attach or make it again", ring),
            state: Mutex::new(State { shape, empty: true, memory: None }),
            empty_ring,
            panel,
            names: names.into(),
            pool: Arc::default(),
            name,
            path,
        }
    }

    /// Adds transitions, unless the ring has other sizes by now. Returns whether they were added.
    fn added(&self, arguments: &Arguments<'_, '_>) -> Result<bool, Failure> {
        let py = arguments.states.py();
        let (mut shape, empty, memory) = {
            let mut state = self.state();
            (Arc::clone(&state.shape), state.empty, state.memory.take())
        };
        if let Some(empty_ring) = self.empty_ring.as_ref().filter(|_| empty) {
            let (tickers, objectives) = sizes_of(arguments)?;
            let wanted = empty_ring.shape(&shape, tickers, objectives);
            if wanted != *shape {
                shape = wanted.into();
            }
        }
        let mut memory = match memory {
            Some(memory) => memory,
            None => Scratch {
                lists: TickerLists::new(&self.panel.get()?),
                batch: TransitionBatch::default(),
            },
        };
        let Scratch { lists, batch } = &mut memory;
        let added = read(arguments, &shape, lists, batch).and_then(|()| {
            // The interpreter is kept if the ring is free and need not be replaced.
            let add = |ring: &mut CoreRing| {
                (ring.shape() == &*shape).then(|| self.add_to(ring, &shape, batch))
            };
            let added = self.ring.try_with(add).flatten();
            added.unwrap_or_else(|| {
                py.detach(|| self.ring.with(|ring| self.add_to(ring, &shape, batch)))
            })
        });
        let others = self.state().memory.replace(memory);
        drop(others);
        added
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
