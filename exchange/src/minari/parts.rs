//! Assigns the columns of a ring to a dataset's observations, actions, rewards and infos.

use backcast_core::{Column, DType, Role, Schema};

use super::{ACTIONS, INFOS, OBSERVATIONS, REWARDS};
use crate::error::ExportError;

/// Names of columns that become observations; the first that the ring has is used.
const OBS: [&str; 5] = ["obs", "observation", "observations", "state", "states"];
const ACTION: [&str; 2] = ["action", "actions"];
const REWARD: [&str; 2] = ["reward", "rewards"];

/// Columns of a ring by their part in a dataset; every column has one.
pub(super) struct DatasetParts<'a> {
    pub(super) schema: &'a Schema,
    /// Numbers of the columns called `obs_root` or below it.
    pub(super) obs: Vec<usize>,
    pub(super) obs_root: &'static str,
    pub(super) action: Vec<usize>,
    pub(super) action_root: &'static str,
    pub(super) reward: usize,
    /// All other columns.
    pub(super) infos: Vec<usize>,
}

impl<'a> DatasetParts<'a> {
    pub(super) fn of(schema: &'a Schema) -> Result<Self, ExportError> {
        let columns = schema.columns();
        if let Some(column) = columns.iter().find(|column| column.dtype() == DType::BF16) {
            let (column, dtype) = (column.name().to_owned(), column.dtype());
            return Err(ExportError::NoSpace { column, dtype });
        }
        let lacks = |wanted| {
            let found: Vec<&str> = columns.iter().map(Column::name).collect();
            ExportError::NoColumn { wanted, found: found.join(", ") }
        };
        let below = |roots: &[&'static str]| {
            roots.iter().find_map(|root| {
                let at = columns.iter().enumerate().filter(|(_, c)| is_below(c.name(), root));
                let at: Vec<usize> = at.map(|(at, _)| at).collect();
                (!at.is_empty()).then_some((at, *root))
            })
        };
        let observed = |at: &usize| columns.get(*at).is_some_and(|c| c.role() == Role::Obs);
        let (obs, obs_root) = below(&OBS)
            .filter(|(obs, _)| obs.iter().all(observed))
            .ok_or_else(|| lacks("`obs` (or some below `obs/`) with the role obs"))?;
        let (action, action_root) =
            below(&ACTION).ok_or_else(|| lacks("`action` (or some below `action/`)"))?;
        let reward = REWARD.iter().find_map(|name| {
            columns.iter().position(|column| column.name() == *name && column.items() == 1)
        });
        let reward = reward.ok_or_else(|| lacks("`reward` with one number a step"))?;
        let used = |at: &usize| obs.contains(at) || action.contains(at) || *at == reward;
        let infos = (0..columns.len()).filter(|at| !used(at)).collect();
        Ok(Self { schema, obs, obs_root, action, action_root, reward, infos })
    }

    /// Returns the path of a column in the file of an episode.
    pub(super) fn path(&self, at: usize) -> Vec<&'a str> {
        let name = self.schema.columns().get(at).map_or("", Column::name);
        let names = name.split('/');
        if self.obs.contains(&at) {
            [OBSERVATIONS].into_iter().chain(names.skip(1)).collect()
        } else if self.action.contains(&at) {
            [ACTIONS].into_iter().chain(names.skip(1)).collect()
        } else if at == self.reward {
            vec![REWARDS]
        } else {
            [INFOS].into_iter().chain(names).collect()
        }
    }

    /// Returns whether a column is a scalar integer of observations or actions, whose space is
    /// Discrete.
    pub(super) fn is_choice(&self, at: usize) -> bool {
        let in_space = self.obs.contains(&at) || self.action.contains(&at);
        let integer = |column: &Column| {
            let other = matches!(
                column.dtype(),
                DType::Bool | DType::F16 | DType::BF16 | DType::F32 | DType::F64
            );
            !other && column.shape().is_empty()
        };
        in_space && self.schema.columns().get(at).is_some_and(integer)
    }
}

fn is_below(name: &str, root: &str) -> bool {
    name.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
