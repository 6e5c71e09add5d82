//! Orders of agents whose actions are commands, as arrays in infos.

use backcast_gym::StepOrders;
use backcast_sim::OPEN_ORDERS;
use numpy::PyArray1;
use numpy::prelude::*;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::markets::trading::outcome::Choices;

/// Columns of an open order: id, signed shares, price in ticks, tick of arrival.
const COLUMNS: usize = 4;
/// Id in a row without an order.
const NO_ORDER: i64 = -1;

/// Ids of the orders of a step and of refused commands, and the orders that are open after it,
/// symbol by symbol.
pub(super) struct OrderTables {
    ids: Vec<i64>,
    refused: Vec<i64>,
    open: Vec<i64>,
}

impl OrderTables {
    pub(super) fn of(orders: &StepOrders, choices: Choices) -> Self {
        let ids = |ids: &[Option<u64>]| {
            ids.iter().map(|id| id.map_or(NO_ORDER, |id| id as i64)).collect()
        };
        let mut open = [NO_ORDER, 0, 0, 0].repeat(choices.symbols * OPEN_ORDERS);
        let mut filled = vec![0; choices.symbols];
        for order in &orders.open {
            let symbol = usize::from(order.symbol);
            let row = symbol * OPEN_ORDERS + filled[symbol];
            filled[symbol] += 1;
            let shares = order.side.sign() * order.quantity;
            open[row * COLUMNS..][..COLUMNS].copy_from_slice(&[
                order.number as i64,
                shares.into(),
                order.price.into(),
                order.tick as i64,
            ]);
        }
        Self { ids: ids(&orders.ids), refused: ids(&orders.refused), open }
    }
}

/// Returns the tables of several environments; none if their actions are no commands.
pub(super) fn order_tables<'a>(
    choices: Choices,
    orders: impl Iterator<Item = &'a StepOrders>,
) -> Vec<OrderTables> {
    if choices.commands == 0 {
        return Vec::new();
    }
    orders.map(|orders| OrderTables::of(orders, choices)).collect()
}

/// Puts the orders of the environments. An environment without any has zeros, as in the vectors of
/// Gymnasium.
pub(super) fn put_orders<'a>(
    infos: &Bound<'_, PyDict>,
    of: impl Iterator<Item = Option<&'a OrderTables>>,
    choices: Choices,
    many: bool,
) -> PyResult<()> {
    type Column = fn(&OrderTables) -> &Vec<i64>;
    let py = infos.py();
    let of: Vec<_> = of.collect();
    let commands = choices.with_symbols(&[choices.commands]);
    let tables: [(&str, Column, Vec<usize>); 3] = [
        ("order_ids", |tables| &tables.ids, commands.clone()),
        ("refused_ids", |tables| &tables.refused, commands),
        ("open_orders", |tables| &tables.open, choices.with_symbols(&[OPEN_ORDERS, COLUMNS])),
    ];
    for (name, column, shape) in tables {
        let size: usize = shape.iter().product();
        let mut numbers = Vec::with_capacity(size * of.len());
        for tables in &of {
            match tables {
                Some(tables) => numbers.extend(column(tables)),
                None => numbers.resize(numbers.len() + size, 0),
            }
        }
        let shape: Vec<usize> = many.then_some(of.len()).into_iter().chain(shape).collect();
        infos.set_item(name, PyArray1::from_vec(py, numbers).reshape(shape)?)?;
        if many {
            let present = PyArray1::from_iter(py, of.iter().map(Option::is_some));
            infos.set_item(format!("_{name}"), present)?;
        }
    }
    Ok(())
}
