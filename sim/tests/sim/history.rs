//! Recorded order books: files that a plain market writes, and damaged files.

use std::sync::Arc;

use backcast_sim::{
    Differences, History, HistoryError, HistoryPrice, OrderKind, Replay, ReplayRules, Side,
};

/// Numbers of a linear congruential generator.
pub(crate) struct Draws(pub(crate) u64);

impl Draws {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}

/// A market of whole orders in one list, from which files with `levels` levels are written.
#[derive(Default)]
pub(crate) struct Plain {
    /// Id, whether it buys, price, shares; oldest first.
    orders: Vec<(u64, bool, i64, i64)>,
    next_id: u64,
    clock: u64,
    pub(crate) messages: String,
    rows: String,
}

impl Plain {
    fn levels(&self, buys: bool) -> Vec<(i64, i64)> {
        let mut prices: Vec<i64> =
            self.orders.iter().filter(|order| order.1 == buys).map(|order| order.2).collect();
        prices.sort_unstable();
        prices.dedup();
        if buys {
            prices.reverse();
        }
        let shares = |price| {
            self.orders.iter().filter(|o| o.1 == buys && o.2 == price).map(|o| o.3).sum::<i64>()
        };
        prices.into_iter().map(|price| (price, shares(price))).collect()
    }

    fn row(&self, levels: usize) -> String {
        let (asks, bids) = (self.levels(false), self.levels(true));
        let cells: Vec<String> = (0..levels)
            .map(|at| {
                let (ask, ask_shares) = asks.get(at).copied().unwrap_or((9_999_999_999, 0));
                let (bid, bid_shares) = bids.get(at).copied().unwrap_or((-9_999_999_999, 0));
                format!("{ask},{ask_shares},{bid},{bid_shares}")
            })
            .collect();
        cells.join(",")
    }

    /// Changes the market, and writes what a reader of `levels` levels is told.
    fn change(&mut self, draws: &mut Draws, levels: usize, write: bool) {
        let before = self.row(levels);
        self.clock += draws.below(3) as u64;
        let choice = draws.below(10);
        let mut told = None;
        if self.orders.len() < 8 || choice < 5 {
            let buys = draws.below(2) == 0;
            let (best_ask, best_bid) =
                (self.levels(false).first().copied(), self.levels(true).first().copied());
            let centre = 1_000_000;
            let mut price = centre + 100 * (draws.below(12) as i64) * if buys { -1 } else { 1 };
            if buys && let Some((ask, _)) = best_ask {
                price = price.min(ask - 100);
            }
            if !buys && let Some((bid, _)) = best_bid {
                price = price.max(bid + 100);
            }
            self.next_id += 1;
            let shares = 1 + draws.below(50) as i64;
            self.orders.push((self.next_id, buys, price, shares));
            told = Some((1, self.next_id, shares, price, buys, true));
        } else if choice < 8 {
            let at = draws.below(self.orders.len());
            let (id, buys, price, shares) = self.orders[at];
            if choice == 5 && shares > 1 {
                let part = 1 + draws.below(shares as usize - 1) as i64;
                self.orders[at].3 -= part;
                told = Some((2, id, part, price, buys, true));
            } else {
                self.orders.remove(at);
                told = Some((3, id, shares, price, buys, true));
            }
        } else if choice == 8 {
            let buys = draws.below(2) == 0;
            if let Some(&(price, _)) = self.levels(buys).first() {
                let at = self.orders.iter().position(|o| o.1 == buys && o.2 == price).unwrap();
                let (id, _, _, shares) = self.orders[at];
                let part = 1 + draws.below(shares as usize) as i64;
                self.orders[at].3 -= part;
                if self.orders[at].3 == 0 {
                    self.orders.remove(at);
                }
                told = Some((4, id, part, price, buys, false));
            }
        } else {
            told = Some((5, 0, 7, 1_000_000, true, false));
        }
        let row = self.row(levels);
        let Some((kind, id, shares, price, buys, if_shown)) = told else { return };
        if write && (!if_shown || row != before) {
            let direction = if buys { 1 } else { -1 };
            let (seconds, nanos) = (34_200 + self.clock / 1_000, self.clock % 1_000 * 1_000_000);
            let time = format!("{seconds}.{nanos:09}");
            self.messages +=
                &[time, format!(",{kind},{id},{shares},{price},{direction}\n")].concat();
            self.rows += &(row + "\n");
        }
    }

    pub(crate) fn run(seed: u64, levels: usize, before: usize, changes: usize) -> Self {
        let (mut plain, mut draws) = (Self::default(), Draws(seed));
        for change in 0..before + changes {
            plain.change(&mut draws, levels, change >= before);
        }
        plain
    }
}

fn shown(history: &History, messages: usize, levels: usize) -> String {
    let book = history.book_after(messages);
    let side = |side, empty| {
        let found = book.levels(side).map(|(price, level)| (price.0, level.shares()));
        found.chain(std::iter::repeat((empty, 0))).take(levels).collect::<Vec<_>>()
    };
    let (asks, bids) = (side(Side::Sell, 9_999_999_999), side(Side::Buy, -9_999_999_999));
    let cells = asks.iter().zip(&bids).map(|(a, b)| format!("{},{},{},{}", a.0, a.1, b.0, b.1));
    cells.collect::<Vec<_>>().join(",")
}

#[test]
fn the_book_of_the_messages_is_that_of_the_rows_with_few_levels_and_with_all() {
    for seed in 0..8 {
        for (levels, before) in [(1, 60), (3, 60), (5, 200), (64, 0), (64, 100)] {
            let plain = Plain::run(seed, levels, before, 250);
            let (messages, rows) = (plain.messages.as_bytes(), plain.rows.as_bytes());
            let history = History::read_with_book(messages, rows, Differences::Raise)
                .unwrap_or_else(|error| panic!("seed {seed}, {levels} levels: {error}"));
            assert_eq!(history.levels(), Some(levels));
            for (at, row) in plain.rows.lines().enumerate().skip(seed as usize % 7).step_by(7) {
                assert_eq!(shown(&history, at + 1, levels), row, "seed {seed}, line {}", at + 1);
            }
            if before == 0 {
                let alone = History::read(messages).unwrap();
                assert_eq!(shown(&alone, usize::MAX, 64), plain.row(64));
            }
        }
    }
}

/// A changed cell of either file is an error, or the file still says the same about the book.
#[test]
fn a_damaged_byte_is_refused_or_read_without_a_panic() {
    let plain = Plain::run(3, 3, 60, 120);
    let mut draws = Draws(9);
    let (mut refused, mut read) = (0, 0);
    for _ in 0..2_000 {
        let mut files = [plain.messages.clone().into_bytes(), plain.rows.clone().into_bytes()];
        let file = &mut files[draws.below(2)];
        for _ in 0..=draws.below(3) {
            let at = draws.below(file.len());
            match draws.below(4) {
                0 => {
                    file.remove(at);
                }
                1 => file.insert(at, b"0123456789,.-\n\r\0 x"[draws.below(18)]),
                2 => file[at] = draws.below(256) as u8,
                _ => file.truncate(at.max(1)),
            }
        }
        let [messages, rows] = &files;
        for differences in [Differences::Raise, Differences::Follow] {
            match History::read_with_book(&messages[..], &rows[..], differences) {
                Ok(history) => {
                    read += 1;
                    let mut replay =
                        Replay::new(Arc::new(history), ReplayRules::default()).unwrap();
                    let _ = replay.order(Side::Buy, OrderKind::Limit, HistoryPrice(1_000_000), 9);
                    replay.run_until(u64::MAX);
                }
                Err(error) => {
                    refused += 1;
                    let text = error.to_string();
                    assert!(text.contains("line") || text.contains("empty"), "{text}");
                }
            }
        }
        let _ = History::read(&messages[..]);
    }
    assert!(refused > 2_000 && read > 50, "{refused} refused, {read} read");
}

#[test]
fn contradictions_name_the_line_and_the_numbers() {
    for (messages, words) in [
        ("", "the message file is empty"),
        ("1,1,5,10,100,1\n1,1,5,10,100,1", "line 2 of the message file: order 5 is submitted, but"),
        ("1,4,5,10,100,1", "line 1 of the message file: order 5 at 100 is not in the book"),
        (
            "1,1,5,10,100,1\n1,4,5,11,100,1",
            "line 2 of the message file: order 5 has 10 shares left",
        ),
        ("1,1,5,10,100,1\n1,3,5,9,100,1", "order 5 is deleted with 9 shares, but has 10 left"),
        ("1,1,5,10,100,1\n1,2,5,9,101,1", "order 5 rests as a buy at 100, but the message is"),
        ("2,1,5,10,100,1\n1,2,5,9,100,1", "line 2 of the message file: time is `1`, before"),
        ("1,1,5,10,100,1\n\n2,3,5,10,100,1", "line 2 of the message file is empty; only lines"),
        ("\u{feff}1,1,5,10,100,1", "the message file begins with a byte order mark; save it"),
    ] {
        let error = History::read(messages.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(words), "{messages:?}: {error}");
    }
    let two = "1,1,5,10,100,1\n1,1,6,10,99,1\n";
    for (rows, words) in [
        ("9999999999,0,100,10\n", "has 2 lines and the order book file 1"),
        (
            "9999999999,0,100,10\n9999999999,0,100,10\n9999999999,0,100,10\n",
            "2 lines and the order book file 3",
        ),
        ("9999999999,0,100\n", "line 1 of the order book file has 3 columns"),
        (
            "9999999999,0,100,10\n9999999999,0,100,10,1\n",
            "line 2 of the order book file has 5 columns, but must have 4",
        ),
        ("9999999999,1,100,10\n", "ask size 1 is `1`, but must be 0 at an empty level"),
        ("9999999999,0,100,0\n", "bid size 1 is `0`"),
        ("9999999999,0,100,9\n", "has 9 shares at the bid price 100, but the messages leave 10"),
        (
            "9999999999,0,100,10\n9999999999,0,100,11\n",
            "line 2 of the order book file has 11 shares at the bid price 100",
        ),
        ("9999999999,0,99,1,9999999999,0,100,10\n", "bid level 2 has the price 100 after 99"),
        (
            "9999999999,0,-9999999999,0,9999999999,0,100,10\n",
            "bid level 2 has the price 100 after -9999999999",
        ),
    ] {
        let read = History::read_with_book(two.as_bytes(), rows.as_bytes(), Differences::Raise);
        let error = read.unwrap_err().to_string();
        assert!(error.contains(words), "{rows:?}: {error}");
    }
    let zipped = History::read(&[0x1F, 0x8B, 8, 0, b'\n'][..]).unwrap_err().to_string();
    assert_eq!(zipped, "the message file begins with the bytes of gzip; decompress it first");
    let long = vec![b'1'; 70_000];
    assert!(matches!(History::read(&long[..]), Err(HistoryError::LineTooLong { line: 1, .. })));
}

#[test]
fn a_difference_is_followed_and_counted() {
    let messages = "1,1,5,10,100,1\n2,1,6,10,99,1\n3,4,5,4,100,1\n";
    let rows = "9999999999,0,100,10,9999999999,0,-9999999999,0\n\
                9999999999,0,100,11,9999999999,0,99,10\n\
                9999999999,0,100,7,9999999999,0,99,10\n";
    let read =
        |differences| History::read_with_book(messages.as_bytes(), rows.as_bytes(), differences);
    read(Differences::Raise).unwrap_err();
    let history = read(Differences::Follow).unwrap();
    assert_eq!(history.counts().differences, 1);
    assert_eq!(history.book_after(3).level(Side::Buy, HistoryPrice(100)).unwrap().shares(), 7);
}

/// Blank lines may follow the last event of both files.
#[test]
fn blank_lines_may_end_a_file() {
    let (line, row) = ("1,1,5,10,100,1\n\n \n", "9999999999,0,100,10\n\n");
    let read = History::read_with_book(line.as_bytes(), row.as_bytes(), Differences::Raise);
    assert_eq!(read.unwrap().messages().len(), 1);
}
