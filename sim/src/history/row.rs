//! One line of an order book file: the best levels of both sides after a message.
//!
//! Four columns a level: ask price, ask shares, bid price, bid shares. An empty level has the price
//! 9999999999 (ask) or -9999999999 (bid) and no shares.

use super::error::{HistoryError, side_word};
use super::message::{HistoryPrice, Line, MAX_PRICE, whole};
use crate::book::Side;

/// Price that marks an empty level, of asks. Bids have its negative.
const EMPTY_LEVEL: i64 = 9_999_999_999;
/// Maximum number of levels of a file.
const MAX_LEVELS: usize = 1_000;
/// Maximum number of shares at a price.
const MAX_LEVEL_SHARES: i64 = 1 << 50;

/// Occupied levels of one row, best price first.
#[derive(Debug, Default)]
pub(super) struct Row {
    /// Levels of the file on each side; 0 before the first row.
    pub(super) levels: usize,
    sides: [Vec<(HistoryPrice, i64)>; 2],
}

impl Row {
    pub(super) fn side(&self, side: Side) -> &[(HistoryPrice, i64)] {
        &self.sides[side as usize]
    }

    /// Returns the worst price that the row shows of a side, beyond which it says nothing; `None`
    /// if it shows all prices.
    pub(super) fn sight(&self, side: Side) -> Option<HistoryPrice> {
        let shown = self.side(side);
        if shown.len() < self.levels { None } else { shown.last().map(|level| level.0) }
    }

    /// Reads a line over this row. All rows of a file have the levels of the first.
    pub(super) fn read(&mut self, line: Line<'_>) -> Result<(), HistoryError> {
        self.sides.iter_mut().for_each(Vec::clear);
        let found = line.bytes.split(|byte| *byte == b',').count();
        let wrong = |expected: String| HistoryError::Columns {
            file: line.file,
            line: line.number,
            found,
            expected,
        };
        if self.levels == 0 {
            if !found.is_multiple_of(4) || found > 4 * MAX_LEVELS {
                return Err(wrong(format!("four for each level, for at most {MAX_LEVELS} levels")));
            }
            self.levels = found / 4;
        } else if found != 4 * self.levels {
            return Err(wrong(format!("{}, as the first line has", 4 * self.levels)));
        }
        let mut cells = line.bytes.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        let mut ended = [false; 2];
        for level in 1..=self.levels {
            for side in [Side::Sell, Side::Buy] {
                let (Some(price), Some(shares)) = (cells.next(), cells.next()) else {
                    return Err(wrong(format!("{}", 4 * self.levels)));
                };
                let entry = self.entry(line, side, level, price, shares, ended[side as usize])?;
                ended[side as usize] |= entry.is_none();
                self.sides[side as usize].extend(entry);
            }
        }
        Ok(())
    }

    /// Reads one level of one side; `None` if it is empty.
    fn entry(
        &self,
        line: Line<'_>,
        side: Side,
        level: usize,
        price_cell: &[u8],
        shares_cell: &[u8],
        ended: bool,
    ) -> Result<Option<(HistoryPrice, i64)>, HistoryError> {
        let column = |what: &str| format!("{} {what} {level}", side_word(side));
        let empty = if side == Side::Sell { EMPTY_LEVEL } else { -EMPTY_LEVEL };
        let price = whole(price_cell)
            .filter(|price| *price == empty || (1..=MAX_PRICE).contains(price))
            .ok_or_else(|| {
                let rule = "1 to 9999999998, in 1/10,000 dollars; an empty level has 9999999999 \
                            as ask and -9999999999 as bid";
                line.bad(&column("price"), price_cell, rule)
            })?;
        let range = if price == empty { 0..=0 } else { 1..=MAX_LEVEL_SHARES };
        let shares =
            whole(shares_cell).filter(|shares| range.contains(shares)).ok_or_else(|| {
                let rule = if price == empty { "0 at an empty level" } else { "at least 1 share" };
                line.bad(&column("size"), shares_cell, rule)
            })?;
        let previous = self.side(side).last().map(|level| level.0);
        if price == empty {
            return Ok(None);
        }
        let price = HistoryPrice(price);
        let sorted = previous.is_none_or(|previous| match side {
            Side::Sell => price > previous,
            Side::Buy => price < previous,
        });
        if ended || !sorted {
            return Err(HistoryError::Unsorted {
                line: line.number,
                side: side_word(side),
                level,
                price,
                previous: if ended { HistoryPrice(empty) } else { previous.unwrap_or_default() },
            });
        }
        Ok(Some((price, shares)))
    }
}
