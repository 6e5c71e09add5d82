//! One line of a message file.
//!
//! The columns are those that LOBSTER documents: time in seconds after midnight, type, order id,
//! shares, price in 1/10,000 dollars, direction. A seventh column, which newer files have, is not
//! read.

use std::fmt;

use super::error::{HistoryError, HistoryFile, shown};
use crate::book::Side;

/// Nanoseconds in a second.
pub const NANOS_PER_SECOND: u64 = 1_000_000_000;
/// Latest time of a message: the end of a day of 24 hours.
const LAST_SECOND: u64 = 86_400;
/// Highest price. The next number marks an empty level of an order book file.
pub(super) const MAX_PRICE: i64 = 9_999_999_998;
/// Maximum number of shares of one message.
pub(super) const MAX_SHARES: i64 = i32::MAX as i64;

/// Price in 1/10,000 dollars.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HistoryPrice(pub i64);

impl HistoryPrice {
    /// Number of units in a dollar.
    pub const PER_DOLLAR: i64 = 10_000;

    /// Returns the price in dollars.
    #[must_use]
    pub const fn dollars(self) -> f64 {
        self.0 as f64 / Self::PER_DOLLAR as f64
    }
}

impl fmt::Display for HistoryPrice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Kind of a message: its `type` in the file and, for a trading halt, its price.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MessageKind {
    /// Type 1: a new limit order.
    Submit,
    /// Type 2: a part of an order is cancelled.
    Cancel,
    /// Type 3: the rest of an order is deleted.
    Delete,
    /// Type 4: a visible order trades.
    Execute,
    /// Type 5: a hidden order trades.
    ExecuteHidden,
    /// Type 6: the total of a cross, such as an auction. Its executions have messages of their own.
    Cross,
    /// Type 7 with price -1: trading halts.
    Halt,
    /// Type 7 with price 0: quoting resumes, trading does not.
    Quote,
    /// Type 7 with price 1: trading resumes.
    Resume,
}

/// One event of a recorded day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Nanoseconds after midnight.
    pub time: u64,
    /// Kind of the event.
    pub kind: MessageKind,
    /// Side of the order that the message is about. A sell that trades was hit by a buyer.
    pub side: Side,
    /// Order id; 0 for hidden orders and halts. Of a cross its kind: -1 at the open, -2 at the
    /// close.
    pub id: i64,
    /// Shares.
    pub shares: i64,
    /// Price; 0 for a halt, and for a cross without shares.
    pub price: HistoryPrice,
}

const _: () = assert!(size_of::<Message>() == 40, "the documents say 40 bytes a message");

/// Bytes of one line and its number, from 1.
#[derive(Clone, Copy)]
pub(super) struct Line<'a> {
    pub(super) file: HistoryFile,
    pub(super) number: u64,
    pub(super) bytes: &'a [u8],
}

impl Line<'_> {
    pub(super) fn bad(&self, column: &str, cell: &[u8], rule: &'static str) -> HistoryError {
        HistoryError::BadValue {
            file: self.file,
            line: self.number,
            column: column.to_owned(),
            value: shown(cell),
            rule,
        }
    }
}

/// Reads a whole number: digits with an optional minus. Returns `None` for anything else, and for a
/// number that exceeds 64 bits.
pub(super) fn whole(cell: &[u8]) -> Option<i64> {
    let (negative, digits) = match cell {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    let value = natural(digits)?;
    let value = i64::try_from(value).ok()?;
    Some(if negative { -value } else { value })
}

fn natural(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |value, digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        value.checked_mul(10)?.checked_add(digit)
    })
}

/// Reads seconds with up to nine decimals as nanoseconds.
fn nanoseconds(cell: &[u8]) -> Option<u64> {
    let mut parts = cell.splitn(2, |byte| *byte == b'.');
    let seconds = natural(parts.next()?)?;
    let nanos = match parts.next() {
        None => 0,
        Some(decimals) if (1..=9).contains(&decimals.len()) => {
            natural(decimals)? * 10_u64.pow(9 - decimals.len() as u32)
        }
        Some(_) => return None,
    };
    let time = seconds.checked_mul(NANOS_PER_SECOND)?.checked_add(nanos)?;
    (time <= LAST_SECOND * NANOS_PER_SECOND).then_some(time)
}

impl Message {
    /// Reads a line of a message file.
    pub(super) fn read(line: Line<'_>) -> Result<Self, HistoryError> {
        let mut cells = [&[][..]; 6];
        let mut found = 0;
        for cell in line.bytes.split(|byte| *byte == b',') {
            if let Some(place) = cells.get_mut(found) {
                *place = cell.trim_ascii();
            }
            found += 1;
        }
        if !(6..=7).contains(&found) {
            let (file, line, expected) = (line.file, line.number, "6".to_owned());
            return Err(HistoryError::Columns { file, line, found, expected });
        }
        let [time, kind, id, shares, price, direction] = cells;
        let at = nanoseconds(time).ok_or_else(|| {
            line.bad("time", time, "seconds after midnight, 0 to 86400 with up to 9 decimals")
        })?;
        let number = whole(price);
        let (kind, halt) = match (kind, number) {
            (b"1", _) => (MessageKind::Submit, false),
            (b"2", _) => (MessageKind::Cancel, false),
            (b"3", _) => (MessageKind::Delete, false),
            (b"4", _) => (MessageKind::Execute, false),
            (b"5", _) => (MessageKind::ExecuteHidden, false),
            (b"6", _) => (MessageKind::Cross, false),
            (b"7", Some(-1)) => (MessageKind::Halt, true),
            (b"7", Some(0)) => (MessageKind::Quote, true),
            (b"7", Some(1)) => (MessageKind::Resume, true),
            (b"7", _) => return Err(line.bad("price", price, "-1, 0 or 1 with type 7, a halt")),
            _ => return Err(line.bad("type", kind, "1 to 7")),
        };
        let cross = kind == MessageKind::Cross;
        let id = whole(id).filter(|id| *id >= 0 || cross).ok_or_else(|| {
            let rule = "a whole number from 0 to 2^63 - 1; negative only with type 6, a cross";
            line.bad("order id", id, rule)
        })?;
        let fewest = i64::from(!halt && !cross);
        let shares =
            whole(shares).filter(|number| (fewest..=MAX_SHARES).contains(number)).ok_or_else(
                || line.bad("size", shares, "1 to 2147483647 shares; 0 only with types 6 and 7"),
            )?;
        let side = match direction {
            b"1" => Side::Buy,
            b"-1" => Side::Sell,
            _ => return Err(line.bad("direction", direction, "1 or -1")),
        };
        let price = if halt {
            0
        } else {
            let lowest = i64::from(!cross || shares > 0);
            number.filter(|number| (lowest..=MAX_PRICE).contains(number)).ok_or_else(|| {
                let rule = "1 to 9999999998, in 1/10,000 dollars; 0 only with a cross of 0 shares";
                line.bad("price", price, rule)
            })?
        };
        Ok(Self { time: at, kind, side, id, shares, price: HistoryPrice(price) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Result<Message, HistoryError> {
        let file = HistoryFile::Messages;
        Message::read(Line { file, number: 7, bytes: text.as_bytes() })
    }

    #[test]
    fn lines_are_read_to_the_nanosecond() {
        for (text, time) in [
            ("34200.000241945,4,15080205,7,31163800,-1", 34_200_000_241_945),
            ("34200.5,1,1,7,31163800,1", 34_200_500_000_000),
            ("34200,1,1,7,31163800,1,null", 34_200_000_000_000),
            (" 0.000000001 , 1 , 1 , 7 , 1 , 1 ", 1),
        ] {
            assert_eq!(line(text).unwrap().time, time, "{text}");
        }
        let halt = line("36023,7,0,0,-1,-1").unwrap();
        assert_eq!((halt.kind, halt.price), (MessageKind::Halt, HistoryPrice(0)));
        assert_eq!(line("36023,7,0,0,0,-1").unwrap().kind, MessageKind::Quote);
        assert_eq!(line("36023,7,0,0,1,-1").unwrap().kind, MessageKind::Resume);
    }

    #[test]
    fn crosses_have_negative_ids_and_may_have_no_shares_and_no_price() {
        for (text, id, shares, price) in [
            ("34200.014,6,-1,1500,2239500,-1", -1, 1_500, 2_239_500),
            ("57600.1,6,-2,900,2230000,1", -2, 900, 2_230_000),
            ("36000,6,-3,10,1,-1", -3, 10, 1),
            ("34200.014,6,0,0,0,-1", 0, 0, 0),
            ("34200.014,6,-1,0,0,-1", -1, 0, 0),
        ] {
            let found = line(text).unwrap();
            assert_eq!(found.kind, MessageKind::Cross, "{text}");
            assert_eq!((found.id, found.shares, found.price.0), (id, shares, price), "{text}");
        }
    }

    #[test]
    fn damaged_lines_name_the_column_the_value_and_the_rule() {
        for (text, words) in [
            ("34200.1,1,1,7,31163800", "has 5 columns, but must have 6"),
            ("34200.1,1,1,7,31163800,1,x,y", "has 8 columns"),
            ("34200.1234567891,1,1,7,1,1", "time is `34200.1234567891`"),
            ("-1,1,1,7,1,1", "time is `-1`"),
            ("86400.000000001,1,1,7,1,1", "0 to 86400"),
            ("NaN,1,1,7,1,1", "time is `NaN`"),
            ("1.,1,1,7,1,1", "time is `1.`"),
            ("1,8,1,7,1,1", "type is `8`, but must be 1 to 7"),
            ("1,01,1,7,1,1", "type is `01`"),
            ("1,1,-1,7,1,1", "order id is `-1`"),
            ("1,1,9223372036854775808,7,1,1", "order id is `9223372036854775808`"),
            ("1,5,-1,7,1,1", "order id is `-1`"),
            ("1,6,-1,7,0,1", "price is `0`"),
            ("1,6,x,0,0,1", "order id is `x`"),
            ("1,1,1,0,1,1", "size is `0`, but must be 1 to 2147483647"),
            ("1,1,1,2147483648,1,1", "size is `2147483648`"),
            ("1,1,1,1e3,1,1", "size is `1e3`"),
            ("1,1,1,1,0,1", "price is `0`, but must be 1 to 9999999998"),
            ("1,1,1,1,9999999999,1", "price is `9999999999`"),
            ("1,7,0,0,2,-1", "price is `2`, but must be -1, 0 or 1"),
            ("1,1,1,1,1,0", "direction is `0`, but must be 1 or -1"),
            ("1,1,1,1,1,\u{7}", "direction is `?`"),
        ] {
            let error = line(text).unwrap_err().to_string();
            assert!(error.contains("line 7 of the message file"), "{text}: {error}");
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
