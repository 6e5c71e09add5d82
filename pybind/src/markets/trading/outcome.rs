//! Results of a reset or step of trading environments: infos, metrics, final observations.

use backcast_gym::{
    ActionScheme, EpisodeMetrics, ExternalAgentConfig, MultiAgentTradingEnv, StepInfo,
    TradingVectorEnv as CoreEnv,
};
use numpy::prelude::*;
use numpy::{Element, PyArray1};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict};

use crate::error::Failure;
use crate::markets::contract::metrics::{self, StopLosses};
use crate::markets::trading::fill::Fills;
use crate::markets::trading::observation::row_of;
use crate::markets::trading::orders::{OrderTables, order_tables, put_orders};

/// Choices of an action: number of symbols, and of choices for each. A continuous scheme has none.
#[derive(Clone, Copy)]
pub(super) struct Choices {
    pub(super) symbols: usize,
    pub(super) each: usize,
    /// Number of commands for each symbol; 0 in other schemes.
    pub(super) commands: usize,
}

impl Choices {
    /// Numbers of one command.
    pub(super) const NUMBERS: usize = 4;

    pub(super) fn of(agent: &ExternalAgentConfig, symbols: usize) -> Self {
        let has_commands = agent.actions == ActionScheme::LimitOrders;
        let commands = if has_commands { agent.commands as usize } else { 0 };
        Self { symbols, each: agent.actions.choices().unwrap_or(0), commands }
    }

    /// Returns the shape of the commands of one environment. A single symbol has no axis.
    pub(super) fn command_shape(self) -> Vec<usize> {
        self.with_symbols(&[self.commands, Self::NUMBERS])
    }

    pub(super) fn with_symbols(self, shape: &[usize]) -> Vec<usize> {
        let symbols = (self.symbols > 1).then_some(self.symbols);
        symbols.into_iter().chain(shape.iter().copied()).collect()
    }

    pub(super) fn count(self) -> usize {
        self.symbols * self.each
    }

    /// Returns the shape of the mask of one environment. A single symbol has no axis.
    fn shape(self) -> Vec<usize> {
        self.with_symbols(&[self.each])
    }
}

/// Last observation of an episode, and details, fills, action mask and orders of its last step, if
/// it ended.
type Final = Option<(Vec<f32>, StepInfo, Fills, Vec<bool>, OrderTables)>;

/// Results of a call, copied while the environment was locked.
pub(super) struct TradingOutcome {
    /// Reward and flags of the first environment, or of the agent.
    pub(super) first: (f64, bool, bool),
    infos: Vec<StepInfo>,
    fills: Vec<Fills>,
    masks: Vec<bool>,
    /// Orders of commands; empty in other schemes.
    orders: Vec<OrderTables>,
    /// Metrics of the episodes that ended, if any did.
    ends: Option<Vec<Option<EpisodeMetrics>>>,
    /// Last observations and details of the episodes that ended, in same-step mode.
    finals: Option<Vec<Final>>,
}

impl TradingOutcome {
    /// Copies the results of the last call.
    pub(super) fn of(
        env: &CoreEnv,
        choices: Choices,
        results: Option<[&mut [u8]; 3]>,
    ) -> Result<Self, Failure> {
        let (num_envs, width) = (env.num_envs(), env.observation_size());
        let ended = env.ended();
        let any = ended.contains(&true);
        if let Some([rewards, terminated, truncated]) = results {
            rewards.copy_from_slice(bytemuck::cast_slice(env.rewards()));
            terminated.copy_from_slice(bytemuck::cast_slice(env.terminated()));
            truncated.copy_from_slice(bytemuck::cast_slice(env.truncated()));
        }
        let mut masks = vec![false; num_envs * choices.count()];
        env.action_mask_into(&mut masks)?;
        // An environment that ended and began in one step was in same-step mode.
        let market = env.market(0).config();
        let restarted = |at: usize| ended[at] && env.began()[at];
        let last = |at: usize| {
            restarted(at).then(|| {
                let row = &env.final_observations()[at * width..(at + 1) * width];
                let fills = Fills::of(env.final_fills(at), market);
                let mask = env.final_action_mask(at).to_vec();
                let orders = OrderTables::of(env.final_orders(at), choices);
                (row.to_vec(), env.final_infos()[at], fills, mask, orders)
            })
        };
        let same_step = any && (0..num_envs).any(restarted);
        Ok(Self {
            first: (env.rewards()[0], env.terminated()[0], env.truncated()[0]),
            infos: (0..num_envs).map(|at| *env.info(at)).collect(),
            fills: (0..num_envs).map(|at| Fills::of(env.fills(at), market)).collect(),
            masks,
            orders: order_tables(choices, (0..num_envs).map(|at| env.orders(at))),
            ends: any
                .then(|| (0..num_envs).map(|at| ended[at].then(|| env.metrics()[at])).collect()),
            finals: same_step.then(|| (0..num_envs).map(last).collect()),
        })
    }

    /// Copies the results of one agent of several in the last call, in which it acted.
    pub(super) fn of_agent(env: &MultiAgentTradingEnv, agent: usize, choices: Choices) -> Self {
        let first = (env.rewards()[agent], env.terminated()[agent], env.truncated()[agent]);
        let ended = first.1 || first.2;
        Self {
            first,
            infos: vec![*env.info(agent)],
            fills: vec![Fills::of(env.fills(agent), env.market().config())],
            masks: if choices.each > 0 { env.action_mask(agent) } else { Vec::new() },
            orders: order_tables(choices, std::iter::once(env.orders(agent))),
            ends: ended.then(|| vec![Some(env.metrics(agent))]),
            finals: None,
        }
    }

    /// Returns the infos. `many` chooses the form of vector environments.
    pub(super) fn infos<'py>(
        &self,
        py: Python<'py>,
        choices: Choices,
        many: bool,
    ) -> Result<Bound<'py, PyDict>, Failure> {
        let infos = PyDict::new(py);
        let all: Vec<Option<StepInfo>> = self.infos.iter().copied().map(Some).collect();
        put(&infos, &all, many)?;
        put_fills(&infos, self.fills.iter().map(Some), many)?;
        if choices.each > 0 {
            put_masks(&infos, &self.masks, &all, choices, many)?;
        }
        if choices.commands > 0 {
            put_orders(&infos, self.orders.iter().map(Some), choices, many)?;
        }
        if let Some(ends) = &self.ends {
            metrics::add(&infos, ends, many, StopLosses::None)?;
            if let Some(finals) = &self.finals {
                add_finals(&infos, finals, ends, choices)?;
            }
        }
        Ok(infos)
    }
}

/// Adds final observations and infos in the form of Gymnasium's vector environments.
fn add_finals(
    infos: &Bound<'_, PyDict>,
    finals: &[Final],
    ends: &[Option<EpisodeMetrics>],
    choices: Choices,
) -> Result<(), Failure> {
    let py = infos.py();
    let rows = finals
        .iter()
        .map(|last| match last {
            Some((row, ..)) => Ok(row_of(py, row)?.into_any().unbind()),
            None => Ok(py.None()),
        })
        .collect::<Result<Vec<Py<PyAny>>, Failure>>()?;
    let last: Vec<Option<StepInfo>> =
        finals.iter().map(|last| last.as_ref().map(|(_, info, ..)| *info)).collect();
    let details = PyDict::new(py);
    put(&details, &last, true)?;
    let fills = finals.iter().map(|last| last.as_ref().map(|(_, _, fills, ..)| fills));
    put_fills(&details, fills, true)?;
    if choices.each > 0 {
        let masks: Vec<bool> = finals
            .iter()
            .flat_map(|last| match last {
                Some((_, _, _, mask, _)) => mask.clone(),
                None => vec![false; choices.count()],
            })
            .collect();
        put_masks(&details, &masks, &last, choices, true)?;
    }
    if choices.commands > 0 {
        let orders = finals.iter().map(|last| last.as_ref().map(|(.., orders)| orders));
        put_orders(&details, orders, choices, true)?;
    }
    metrics::add(&details, ends, true, StopLosses::None)?;
    infos.set_item("final_obs", PyArray1::from_vec(py, rows))?;
    infos.set_item("_final_obs", present(py, &last))?;
    infos.set_item("final_info", details)?;
    infos.set_item("_final_info", present(py, &last))?;
    Ok(())
}

/// Puts the action masks of the environments that `of` has details of.
fn put_masks(
    infos: &Bound<'_, PyDict>,
    masks: &[bool],
    of: &[Option<StepInfo>],
    choices: Choices,
    many: bool,
) -> PyResult<()> {
    let py = infos.py();
    let mask = PyArray1::from_iter(py, masks.iter().map(|&flag| i8::from(flag)));
    let shape: Vec<usize> = many.then_some(of.len()).into_iter().chain(choices.shape()).collect();
    infos.set_item("action_mask", mask.reshape(shape)?)?;
    if many {
        infos.set_item("_action_mask", present(py, of))?;
    }
    Ok(())
}

/// Puts the fills of steps: a tuple for the single environment, else an array of tuples with a
/// mask.
fn put_fills<'a>(
    infos: &Bound<'_, PyDict>,
    of: impl Iterator<Item = Option<&'a Fills>>,
    many: bool,
) -> PyResult<()> {
    let py = infos.py();
    let tuple = |fills: Option<&Fills>| match fills {
        Some(fills) => Ok(fills.tuple(py)?.into_any().unbind()),
        None => Ok(py.None()),
    };
    let fills = of.map(tuple).collect::<PyResult<Vec<Py<PyAny>>>>()?;
    if !many {
        return infos.set_item("fill_records", fills.into_iter().next());
    }
    let present = PyArray1::from_iter(py, fills.iter().map(|fills| !fills.is_none(py)));
    infos.set_item("fill_records", PyArray1::from_vec(py, fills))?;
    infos.set_item("_fill_records", present)
}

/// Puts the details of steps: arrays with masks, or plain numbers for the single environment.
fn put(infos: &Bound<'_, PyDict>, of: &[Option<StepInfo>], many: bool) -> PyResult<()> {
    let put = Put { infos, of, many };
    put.one("tick", |info| info.tick as i64)?;
    put.one("decisions", |info| info.decisions as i64)?;
    put.one("equity", |info| info.equity)?;
    put.one("pnl", |info| info.pnl)?;
    put.one("realized_pnl", |info| info.realized_pnl)?;
    put.one("mid_price", |info| info.mid_price)?;
    put.one("position", |info| i64::from(info.position))?;
    put.one("fees", |info| info.fees)?;
    put.one("borrowing", |info| info.borrowing)?;
    put.one("fills", |info| info.fills as i64)?;
    put.one("refused", |info| info.refused as i64)?;
    put.one("masked", |info| i64::from(info.masked))?;
    put.one("margin_call", |info| info.margin_call)?;
    put.unsigned("episode_seed", |info| info.episode_seed)?;
    if of.iter().flatten().any(|info| info.snapshot.is_some()) {
        put.one("snapshot", |info| i64::from(info.snapshot.unwrap_or_default()))?;
    }
    Ok(())
}

struct Put<'a, 'py> {
    infos: &'a Bound<'py, PyDict>,
    of: &'a [Option<StepInfo>],
    many: bool,
}

impl<'py> Put<'_, 'py> {
    fn one<V>(&self, name: &str, value: impl Fn(&StepInfo) -> V) -> PyResult<()>
    where
        V: Element + Default + Copy + IntoPyObject<'py>,
    {
        let py = self.infos.py();
        let values = self.of.iter().map(|info| info.as_ref().map(&value).unwrap_or_default());
        if !self.many {
            let lone = values.into_iter().next().unwrap_or_default();
            return self.infos.set_item(name, lone);
        }
        self.infos.set_item(name, PyArray1::from_iter(py, values))?;
        self.infos.set_item(format!("_{name}"), present(py, self.of))
    }

    /// Puts unsigned 64-bit numbers. The single environment has a NumPy scalar, since Gymnasium
    /// cannot gather Python integers of that size.
    fn unsigned(&self, name: &str, value: impl Fn(&StepInfo) -> u64) -> PyResult<()> {
        if self.many {
            return self.one(name, value);
        }
        let py = self.infos.py();
        let lone = self.of.iter().flatten().map(value).next().unwrap_or_default();
        let scalar = PyArray1::from_vec(py, vec![lone]).into_bound_py_any(py)?.get_item(0)?;
        self.infos.set_item(name, scalar)
    }
}

fn present<'py>(py: Python<'py>, of: &[Option<StepInfo>]) -> Bound<'py, PyArray1<bool>> {
    PyArray1::from_iter(py, of.iter().map(Option::is_some))
}
