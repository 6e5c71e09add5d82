//! Reads and checks the files of a recorded day.

use std::io::BufRead;

use super::book::{HistoricBook, HistoricLevel, Touched};
use super::error::{HistoryError, HistoryFile, side_word};
use super::lines::Lines;
use super::message::{HistoryPrice, Message, MessageKind};
use super::row::Row;
use crate::book::Side;

/// Maximum number of messages, so that no sum of shares exceeds 64 bits.
const MAX_MESSAGES: u64 = 1 << 28;
/// Fewest messages between two kept copies of the book.
const CHECKPOINT: usize = 1 << 14;
/// Messages between two kept copies for each order and level of the first, so that the copies of a
/// large book take memory in proportion to the messages.
const CHECKPOINT_PER_ENTRY: usize = 2;

/// Treatment of a difference between the two files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Differences {
    /// Is an error. The default.
    #[default]
    Raise,
    /// Is counted, and the level is taken from the order book file.
    Follow,
}

/// A level of which an order book file tells more than the messages: it becomes a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LevelSync {
    /// Number of the message after which it applies.
    message: u32,
    pub(super) side: Side,
    pub(super) price: HistoryPrice,
    pub(super) shares: i64,
}

/// State of the recorded book before a message.
#[derive(Clone, Debug)]
struct Checkpoint {
    /// Number of messages that the book has had.
    messages: usize,
    /// Number of level changes that it has had.
    syncs: usize,
    book: HistoricBook,
}

/// Numbers of a history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HistoryCounts {
    /// Messages of each kind: submissions, cancellations, deletions, executions, hidden executions,
    /// crosses, and all messages of halts.
    pub kinds: [u64; 7],
    /// Shares that traded, hidden executions included. A cross is the total of executions that have
    /// messages of their own.
    pub traded_shares: u64,
    /// Differences between the files, with [`Differences::Follow`].
    pub differences: u64,
}

/// A recorded day of one stock: checked messages, and the orders from before them.
///
/// Takes 40 bytes a message, and copies of the book. Two copies are at least 16,384 messages apart,
/// and two messages for each order and level of the first, so that together they have at most three
/// orders or levels for every two messages.
#[derive(Clone, Debug)]
pub struct History {
    messages: Vec<Message>,
    syncs: Vec<LevelSync>,
    checkpoints: Vec<Checkpoint>,
    levels: Option<usize>,
    counts: HistoryCounts,
    priced: Option<u64>,
}

impl History {
    /// Reads a message file that has all events of the stock since its book was empty.
    ///
    /// # Errors
    /// [`HistoryError`] with the line, the value and its limits.
    pub fn read(messages: impl BufRead) -> Result<Self, HistoryError> {
        Reader::new(Differences::Raise).read(messages, None::<&[u8]>)
    }

    /// Reads a message file and the order book file that belongs to it, line by line.
    ///
    /// The first row has the orders from before the file. Every later row is compared with the book
    /// that the messages make. What the row before did not show, because it is further away than
    /// its levels, is taken from the row.
    ///
    /// # Errors
    /// [`HistoryError`] with the line, the value and its limits. A row that differs from the
    /// messages is an error with [`Differences::Raise`].
    pub fn read_with_book(
        messages: impl BufRead,
        book: impl BufRead,
        differences: Differences,
    ) -> Result<Self, HistoryError> {
        Reader::new(differences).read(messages, Some(book))
    }

    /// Returns the messages in their sequence, which is that of their times.
    #[must_use]
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Returns the times of the first and the last message in nanoseconds after midnight.
    #[must_use]
    pub fn span(&self) -> (u64, u64) {
        let time = |message: Option<&Message>| message.map_or(0, |message| message.time);
        (time(self.messages.first()), time(self.messages.last()))
    }

    /// Returns the time from which there is a price to value a position at: the first message after
    /// which both sides have orders, or the first execution. `None` if there is none.
    #[must_use]
    pub const fn priced_from(&self) -> Option<u64> {
        self.priced
    }

    /// Returns the levels of the order book file; `None` without one.
    #[must_use]
    pub const fn levels(&self) -> Option<usize> {
        self.levels
    }

    /// Returns the numbers of the history.
    #[must_use]
    pub const fn counts(&self) -> &HistoryCounts {
        &self.counts
    }

    /// Returns the book after `messages` messages, or after all. Copies the book and applies
    /// the messages since the copy before, at most 16,384 or two for each of its orders and levels.
    #[must_use]
    pub fn book_after(&self, messages: usize) -> HistoricBook {
        self.cursor(messages).book
    }

    /// Returns the number of messages at or before `time`.
    #[must_use]
    pub fn messages_until(&self, time: u64) -> usize {
        self.messages.partition_point(|message| message.time <= time)
    }

    /// Returns a cursor behind `messages` messages, but not before the orders from before the file
    /// are known.
    pub(super) fn cursor(&self, messages: usize) -> Cursor {
        let wanted = messages.min(self.messages.len());
        let later = self.checkpoints.partition_point(|checkpoint| checkpoint.messages <= wanted);
        let Some(checkpoint) = self.checkpoints.get(later.saturating_sub(1)) else {
            return Cursor::default();
        };
        let Checkpoint { messages, syncs, ref book } = *checkpoint;
        let mut cursor = Cursor { book: book.clone(), messages, syncs };
        while cursor.messages < wanted {
            cursor.advance(self, |_, _| {});
        }
        cursor
    }
}

/// Change of the recorded book.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event<'a> {
    /// A message was applied.
    Applied(&'a Message, Touched),
    /// A level is about to become a block.
    Syncs(&'a LevelSync),
}

/// The recorded book at one place of a history.
#[derive(Clone, Debug, Default)]
pub(super) struct Cursor {
    pub(super) book: HistoricBook,
    /// Number of messages that the book has had.
    pub(super) messages: usize,
    syncs: usize,
}

impl Cursor {
    /// Applies the next message and the changes of levels that follow it. Does nothing at the end.
    ///
    /// A message that the reading ignored, as it did not fit the order book file, is ignored again.
    #[inline]
    pub(super) fn advance(
        &mut self,
        history: &History,
        mut watch: impl FnMut(&mut HistoricBook, Event<'_>),
    ) {
        let Some(message) = history.messages.get(self.messages) else { return };
        if let Ok(place) = self.book.apply(message) {
            watch(&mut self.book, Event::Applied(message, place));
        }
        self.messages += 1;
        while let Some(sync) = history.syncs.get(self.syncs)
            && sync.message as usize <= self.messages
        {
            watch(&mut self.book, Event::Syncs(sync));
            self.book.set_level(sync.side, sync.price, sync.shares);
            self.syncs += 1;
        }
        self.book.keep_mark();
    }
}

struct Reader {
    differences: Differences,
    book: HistoricBook,
    row: Row,
    /// Worst price that the row before showed of each side; `None` if it showed all.
    sight: [Option<HistoryPrice>; 2],
    changes: Vec<LevelSync>,
    /// Number of messages after which the book is copied again.
    next_copy: usize,
    history: History,
}

impl Reader {
    fn new(differences: Differences) -> Self {
        Self {
            differences,
            book: HistoricBook::default(),
            row: Row::default(),
            sight: [None; 2],
            changes: Vec::new(),
            next_copy: CHECKPOINT,
            history: History {
                messages: Vec::new(),
                syncs: Vec::new(),
                checkpoints: Vec::new(),
                levels: None,
                counts: HistoryCounts::default(),
                priced: None,
            },
        }
    }

    fn read(
        mut self,
        messages: impl BufRead,
        book: Option<impl BufRead>,
    ) -> Result<History, HistoryError> {
        let mut lines = Lines::new(HistoryFile::Messages, messages);
        let mut rows = book.map(|book| Lines::new(HistoryFile::Book, book));
        let mut number = 0;
        let mut previous = 0;
        if rows.is_none() {
            self.keep_book();
        }
        while let Some(line) = lines.next()? {
            number = line.number;
            if number > MAX_MESSAGES {
                return Err(HistoryError::TooLong { limit: MAX_MESSAGES });
            }
            let message = Message::read(line)?;
            if message.time < previous {
                let cell = line.bytes.split(|byte| *byte == b',').next().unwrap_or_default();
                let value = super::error::shown(cell.trim_ascii());
                return Err(HistoryError::TimeWentBack { line: number, value });
            }
            previous = message.time;
            self.history.counts.add(&message);
            match &mut rows {
                None => self.apply(&message, number)?,
                Some(rows) => {
                    let Some(row) = rows.next()? else {
                        let (messages, rows) = (lines.count_rest()?, number - 1);
                        return Err(HistoryError::Lengths { messages, rows });
                    };
                    self.row.read(row)?;
                    if number == 1 {
                        self.open(&message)?;
                    } else {
                        self.apply(&message, number)?;
                        self.compare(number)?;
                    }
                }
            }
            self.book.keep_mark();
            if self.history.priced.is_none() {
                self.history.priced = self.book.mark2().map(|_| message.time);
            }
            self.history.messages.push(message);
            let messages = self.history.messages.len();
            if number == 1 && rows.is_some() || messages == self.next_copy {
                self.keep_book();
            }
        }
        if number == 0 {
            return Err(HistoryError::Empty);
        }
        if let Some(mut rows) = rows {
            let rows = rows.count_rest()?;
            if rows != number {
                return Err(HistoryError::Lengths { messages: number, rows });
            }
            self.history.levels = Some(self.row.levels);
        }
        Ok(self.history)
    }

    fn keep_book(&mut self) {
        let apart = CHECKPOINT.max(CHECKPOINT_PER_ENTRY * self.book.entries());
        self.next_copy = self.history.messages.len() + apart;
        self.history.checkpoints.push(Checkpoint {
            messages: self.history.messages.len(),
            syncs: self.history.syncs.len(),
            book: self.book.clone(),
        });
    }

    fn apply(&mut self, message: &Message, line: u64) -> Result<(), HistoryError> {
        match self.book.apply(message) {
            Ok(_) => Ok(()),
            Err(_) if self.differences == Differences::Follow => {
                self.history.counts.differences += 1;
                Ok(())
            }
            Err(reject) => Err(HistoryError::Message { line, reject }),
        }
    }

    /// Makes the book of the first row, which is that after the first message.
    fn open(&mut self, first: &Message) -> Result<(), HistoryError> {
        for side in [Side::Buy, Side::Sell] {
            for &(price, shares) in self.row.side(side) {
                self.book.set_level(side, price, shares);
            }
            self.sight[side as usize] = self.row.sight(side);
        }
        if first.kind == MessageKind::Submit {
            let found = self.book.level(first.side, first.price).map_or(0, HistoricLevel::shares);
            if found >= first.shares {
                self.book.set_level(first.side, first.price, found - first.shares);
                self.apply(first, 1)?;
            } else if self.differences == Differences::Raise {
                return Err(HistoryError::BookDiffers {
                    line: 1,
                    side: side_word(first.side),
                    price: first.price,
                    found,
                    expected: first.shares,
                });
            } else {
                self.history.counts.differences += 1;
            }
        } else if first.kind == MessageKind::Execute {
            self.book.keep_price(first.price);
        } else if first.kind != MessageKind::Cancel && first.kind != MessageKind::Delete {
            self.apply(first, 1)?;
        }
        Ok(())
    }

    /// Compares the book with the row of the same line, and takes over what was out of sight.
    fn compare(&mut self, line: u64) -> Result<(), HistoryError> {
        self.changes.clear();
        for side in [Side::Buy, Side::Sell] {
            self.compare_side(side, line)?;
            self.sight[side as usize] = self.row.sight(side);
        }
        let message = self.history.messages.len() as u32 + 1;
        for change in &self.changes {
            self.book.set_level(change.side, change.price, change.shares);
            self.history.syncs.push(LevelSync { message, ..*change });
        }
        Ok(())
    }

    fn compare_side(&mut self, side: Side, line: u64) -> Result<(), HistoryError> {
        let Self { differences, book, row, sight, changes, history, .. } = self;
        let beyond = |price: HistoryPrice, sight: Option<HistoryPrice>| {
            sight.is_some_and(|worst| match side {
                Side::Buy => price < worst,
                Side::Sell => price > worst,
            })
        };
        let (before, now) = (sight[side as usize], row.sight(side));
        let mut differ = |price, found, expected| {
            if !beyond(price, before) {
                if *differences == Differences::Raise {
                    let side = side_word(side);
                    return Err(HistoryError::BookDiffers { line, side, price, found, expected });
                }
                history.counts.differences += 1;
            }
            changes.push(LevelSync { message: 0, side, price, shares: found });
            Ok(())
        };
        let mut shown = row.side(side).iter().copied().peekable();
        let better = |a: HistoryPrice, b: HistoryPrice| match side {
            Side::Buy => a > b,
            Side::Sell => a < b,
        };
        let mut levels = book.levels(side).peekable();
        loop {
            let own = levels.peek().map(|(price, level)| (*price, level.shares()));
            match (own.filter(|(price, _)| !beyond(*price, now)), shown.peek().copied()) {
                (Some((price, expected)), other)
                    if other.is_none_or(|(found, _)| better(price, found)) =>
                {
                    differ(price, 0, expected)?;
                    levels.next();
                }
                (own, Some((price, found))) => {
                    let expected = own.filter(|own| own.0 == price).map(|own| own.1);
                    if expected != Some(found) {
                        differ(price, found, expected.unwrap_or(0))?;
                    }
                    shown.next();
                    if expected.is_some() {
                        levels.next();
                    }
                }
                (_, None) => break,
            }
        }
        // Levels that have just gone out of sight may change without a message.
        for (price, level) in levels.take_while(|(price, _)| !beyond(*price, before)) {
            if level.block() < level.shares() {
                changes.push(LevelSync { message: 0, side, price, shares: level.shares() });
            }
        }
        Ok(())
    }
}

impl HistoryCounts {
    fn add(&mut self, message: &Message) {
        let kind = match message.kind {
            MessageKind::Submit => 0,
            MessageKind::Cancel => 1,
            MessageKind::Delete => 2,
            MessageKind::Execute => 3,
            MessageKind::ExecuteHidden => 4,
            MessageKind::Cross => 5,
            MessageKind::Halt | MessageKind::Quote | MessageKind::Resume => 6,
        };
        self.kinds[kind] += 1;
        if (3..=4).contains(&kind) {
            self.traded_shares += message.shares as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;

    #[test]
    fn copies_of_a_growing_book_take_memory_in_proportion_to_the_messages() {
        const MESSAGES: usize = 150_000;
        let mut text = String::new();
        for id in 0..MESSAGES {
            writeln!(text, "1,1,{id},1,{},1", 1 + id % 50).unwrap();
        }
        let history = History::read(text.as_bytes()).unwrap();
        let entries = |copy: &Checkpoint| copy.book.entries();
        let copied: usize = history.checkpoints.iter().map(entries).sum();
        assert!(history.checkpoints.len() > 2);
        assert!(copied <= MESSAGES + MESSAGES / 2, "{copied} entries");
        assert_eq!(history.book_after(140_000).known_orders(), 140_000);
    }
}
