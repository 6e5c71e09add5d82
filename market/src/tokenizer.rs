//! Tokenizer: stable small integers for names of tickers, to index an embedding.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use backcast_layout::closest_name;
use thiserror::Error;

use crate::symbols::CASH;

/// Name of the token for all tickers that a frozen tokenizer does not know.
pub const UNK: &str = "<UNK>";

/// Behaviour of a frozen tokenizer on an unknown name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownTicker {
    /// Fails with an error that names the ticker. The default.
    #[default]
    Error,
    /// Uses the token of [`UNK`], which freezing adds after all others.
    Unk,
}

/// Error of encoding or decoding. Except for [`Full`](Self::Full), the vocabulary is unchanged.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages show the fields")]
pub enum TokenError {
    /// A name that is new to a frozen tokenizer.
    #[error(
        "ticker {name:?} is not among the {known} that this frozen tokenizer knows{}; unfreeze \
         it, or \
         make it with unknown \"unk\"",
        near.as_ref().map_or_else(String::new, |near| format!(", did you mean {near:?}?"))
    )]
    UnknownName { name: String, known: usize, near: Option<String> },
    /// A token without a name.
    #[error("token {token} has no name; this tokenizer has tokens 0 (<CASH>) to {last}")]
    UnknownToken { token: i128, last: u32 },
    /// An empty name.
    #[error("ticker {position} has an empty name; leave it out")]
    EmptyName { position: usize },
    /// A name that is listed twice.
    #[error("ticker {name:?} is named twice; name each once")]
    Repeated { name: String },
    /// A reserved name, which belongs to a token that is no ticker.
    #[error("{name:?} is no ticker: it is the name of {meaning}; {}", match *name {
        CASH => "leave it out",
        _ => "leave it out, it has a token when a tokenizer made with unknown \"unk\" is frozen",
    })]
    Reserved { name: &'static str, meaning: &'static str },
    /// More names than a vocabulary can hold. The names that fit were added.
    #[error("a vocabulary holds {limit} names at most; use several tokenizers")]
    Full { limit: usize },
}

/// Maximum number of names in a vocabulary: tokens are int32.
const MOST: usize = i32::MAX as usize;

const NO_TICKER: TokenError = TokenError::Reserved {
    name: UNK,
    meaning: "all tickers that a frozen tokenizer does not know",
};

/// A vocabulary of tickers, shared by threads. Token 0 is [`CASH`]. Tickers have tokens from 1 on,
/// in the order of their first appearance, and keep them.
///
/// ```
/// use backcast_market::{TickerTokenizer, UnknownTicker};
/// let tokenizer = TickerTokenizer::new(UnknownTicker::Error);
/// assert_eq!(tokenizer.encode(&["AAPL", "MSFT", "AAPL", "<CASH>"])?, [1, 2, 1, 0]);
/// tokenizer.freeze();
/// assert!(tokenizer.encode(&["TSLA"]).is_err());
/// assert!(tokenizer.decode(&[0, 2])?.iter().map(AsRef::as_ref).eq(["<CASH>", "MSFT"]));
/// # Ok::<(), backcast_market::TokenError>(())
/// ```
#[derive(Debug, Default)]
pub struct TickerTokenizer(RwLock<Vocabulary>);

/// State of a tokenizer; equal states encode equally.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vocabulary {
    /// Names; the name of token `i + 1` is at `i`.
    names: Vec<Arc<str>>,
    tokens: HashMap<Arc<str>, u32>,
    frozen: bool,
    unknown: UnknownTicker,
}

impl Vocabulary {
    /// Returns a vocabulary of names in order, from token 1 on. Names of a vocabulary that was
    /// frozen with [`UnknownTicker::Unk`] may include [`UNK`]. Refuses empty, repeated and other
    /// reserved names, and more than `i32::MAX` names.
    pub fn of<I>(names: I, frozen: bool, unknown: UnknownTicker) -> Result<Self, TokenError>
    where
        I: IntoIterator<Item: AsRef<str>>,
    {
        let mut made = Self { unknown, ..Self::default() };
        for (position, name) in names.into_iter().enumerate() {
            let name = name.as_ref();
            if name.is_empty() {
                return Err(TokenError::EmptyName { position });
            }
            if name == CASH {
                let meaning = "token 0, which every tokenizer has";
                return Err(TokenError::Reserved { name: CASH, meaning });
            }
            if name == UNK && unknown == UnknownTicker::Error {
                return Err(NO_TICKER);
            }
            if made.find(name).is_some() {
                return Err(TokenError::Repeated { name: name.to_owned() });
            }
            made.add(name)?;
        }
        if frozen {
            made.freeze();
        }
        Ok(made)
    }

    /// Returns the names in the order of their tokens, from token 1 on.
    #[must_use]
    pub fn names(&self) -> &[Arc<str>] {
        &self.names
    }

    /// Returns whether new names are no longer added.
    #[must_use]
    pub fn is_frozen(&self) -> bool {
        self.frozen
    }

    /// Returns the behaviour on unknown names once frozen.
    #[must_use]
    pub fn unknown(&self) -> UnknownTicker {
        self.unknown
    }

    fn find(&self, name: &str) -> Option<u32> {
        if name == CASH { Some(0) } else { self.tokens.get(name).copied() }
    }

    /// Returns the token for a name that a frozen vocabulary does not know, or the error.
    fn of_unknown(&self, name: &str) -> Result<u32, TokenError> {
        if name == UNK {
            return Err(NO_TICKER);
        }
        let unk = (self.unknown == UnknownTicker::Unk).then(|| self.find(UNK)).flatten();
        unk.ok_or_else(|| {
            let near = closest_name(name, self.names.iter().map(AsRef::as_ref));
            let near = near.map(str::to_owned);
            TokenError::UnknownName { name: name.to_owned(), known: self.names.len(), near }
        })
    }

    fn add(&mut self, name: &str) -> Result<u32, TokenError> {
        let token = u32::try_from(self.names.len() + 1)
            .ok()
            .filter(|_| self.names.len() < MOST)
            .ok_or(TokenError::Full { limit: MOST })?;
        let name: Arc<str> = name.into();
        self.names.push(Arc::clone(&name));
        self.tokens.insert(name, token);
        Ok(token)
    }

    fn freeze(&mut self) {
        if self.unknown == UnknownTicker::Unk && self.find(UNK).is_none() {
            // A full vocabulary has no token for `UNK`: it refuses unknown names.
            let _ = self.add(UNK);
        }
        self.frozen = true;
    }
}

impl TickerTokenizer {
    /// Returns an empty tokenizer that adds new names.
    #[must_use]
    pub fn new(unknown: UnknownTicker) -> Self {
        Self::from(Vocabulary { unknown, ..Vocabulary::default() })
    }

    /// Returns the tokens of names, and adds new names unless the tokenizer is frozen. Takes O(1)
    /// per name, and one lock, or two if it adds names.
    ///
    /// Never adds [`UNK`], which has a token only after freezing with [`UnknownTicker::Unk`].
    ///
    /// An error adds nothing, except that [`TokenError::Full`] keeps the names that fit.
    pub fn encode(&self, names: &[impl AsRef<str>]) -> Result<Vec<i32>, TokenError> {
        if let Some(position) = names.iter().position(|name| name.as_ref().is_empty()) {
            return Err(TokenError::EmptyName { position });
        }
        let (mut tokens, complete) = self.encode_known(names)?;
        if !complete {
            // Another thread may have added names or frozen the tokenizer meanwhile.
            let mut vocabulary = self.write();
            if vocabulary.frozen {
                drop(vocabulary);
                return self.encode_known(names).map(|(tokens, _)| tokens);
            }
            if vocabulary.find(UNK).is_none() && names.iter().any(|name| name.as_ref() == UNK) {
                return Err(NO_TICKER);
            }
            tokens.clear();
            for name in names {
                let token = match vocabulary.find(name.as_ref()) {
                    Some(token) => token,
                    None => vocabulary.add(name.as_ref())?,
                };
                tokens.push(token.cast_signed());
            }
        }
        Ok(tokens)
    }

    /// Returns the tokens up to the first name that has to be added, and whether they are complete.
    fn encode_known(&self, names: &[impl AsRef<str>]) -> Result<(Vec<i32>, bool), TokenError> {
        let vocabulary = self.read();
        let mut tokens = Vec::with_capacity(names.len());
        for name in names {
            let token = match vocabulary.find(name.as_ref()) {
                Some(token) => token,
                None if vocabulary.frozen => vocabulary.of_unknown(name.as_ref())?,
                None => return Ok((tokens, false)),
            };
            tokens.push(token.cast_signed());
        }
        Ok((tokens, true))
    }

    /// Returns the names of tokens of any integer type. It is an error if a token has no name.
    pub fn decode<T: Copy + Into<i128>>(&self, tokens: &[T]) -> Result<Vec<Arc<str>>, TokenError> {
        let vocabulary = self.read();
        let cash: Arc<str> = CASH.into();
        let name = |&token: &T| {
            let token = token.into();
            let at = usize::try_from(token).ok();
            let name = match at {
                Some(0) => Some(&cash),
                Some(at) => vocabulary.names.get(at - 1),
                None => None,
            };
            let last = u32::try_from(vocabulary.names.len()).unwrap_or(u32::MAX);
            name.cloned().ok_or(TokenError::UnknownToken { token, last })
        };
        tokens.iter().map(name).collect()
    }

    /// Returns the number of tokens, [`CASH`] included: the rows of an embedding.
    #[must_use]
    pub fn vocab_size(&self) -> usize {
        self.read().names.len() + 1
    }

    /// Returns the token of a known name; `None` for another name, which is not added.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<u32> {
        self.read().find(name)
    }

    /// Freezes the tokenizer: new names are no longer added.
    pub fn freeze(&self) {
        self.write().freeze();
    }

    /// Unfreezes the tokenizer: new names are added again.
    pub fn unfreeze(&self) {
        self.write().frozen = false;
    }

    /// Returns a copy of the state.
    #[must_use]
    pub fn vocabulary(&self) -> Vocabulary {
        self.read().clone()
    }

    /// Replaces the state, atomically for all threads.
    pub fn replace(&self, vocabulary: Vocabulary) {
        *self.write() = vocabulary;
    }

    // A poisoned lock may be used: no panic occurs between two related changes.
    fn read(&self) -> RwLockReadGuard<'_, Vocabulary> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Vocabulary> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<Vocabulary> for TickerTokenizer {
    fn from(vocabulary: Vocabulary) -> Self {
        Self(RwLock::new(vocabulary))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_given_in_order_and_kept() {
        let tokenizer = TickerTokenizer::default();
        assert_eq!(tokenizer.vocab_size(), 1);
        assert_eq!(tokenizer.encode(&["B", "A", "B", CASH]).unwrap(), [1, 2, 1, 0]);
        assert_eq!(tokenizer.encode(&["C", "A"]).unwrap(), [3, 2]);
        assert_eq!(tokenizer.vocab_size(), 4);
        assert_eq!(tokenizer.find("D"), None);
    }

    #[test]
    fn a_refused_batch_adds_nothing() {
        let tokenizer = TickerTokenizer::default();
        assert_eq!(tokenizer.encode(&["A", "", "B"]), Err(TokenError::EmptyName { position: 1 }));
        assert_eq!(tokenizer.vocab_size(), 1);
        tokenizer.encode(&["AAPL"]).unwrap();
        tokenizer.freeze();
        let error = tokenizer.encode(&["AAPL", "APPL"]).unwrap_err().to_string();
        assert!(error.contains("\"APPL\"") && error.contains("mean \"AAPL\"?"), "{error}");
        assert_eq!(tokenizer.vocab_size(), 2);
    }

    #[test]
    fn a_frozen_tokenizer_with_unk_accepts_every_name_without_growing() {
        let tokenizer = TickerTokenizer::new(UnknownTicker::Unk);
        assert_eq!(tokenizer.encode(&["A", "B"]).unwrap(), [1, 2]);
        tokenizer.freeze();
        assert_eq!(tokenizer.vocab_size(), 4);
        assert_eq!(tokenizer.encode(&["Z", "A", "Y", CASH]).unwrap(), [3, 1, 3, 0]);
        assert_eq!(&*tokenizer.decode(&[3]).unwrap()[0], UNK);
        tokenizer.unfreeze();
        assert_eq!(tokenizer.encode(&["Z"]).unwrap(), [4]);
    }

    #[test]
    fn reserved_names_are_no_tickers() {
        let made = |names: &[&str], unknown| Vocabulary::of(names, false, unknown).map(drop);
        let reserved = |name| {
            move |error: TokenError| {
                assert!(matches!(error, TokenError::Reserved { name: found, .. } if found == name));
            }
        };
        for unknown in [UnknownTicker::Error, UnknownTicker::Unk] {
            made(&["A", CASH], unknown).map_err(reserved(CASH)).unwrap_err();
            let tokenizer = TickerTokenizer::new(unknown);
            tokenizer.encode(&["A", UNK]).map_err(reserved(UNK)).unwrap_err();
            assert_eq!(tokenizer.vocab_size(), 1);
        }
        made(&["A", UNK], UnknownTicker::Error).map_err(reserved(UNK)).unwrap_err();
        let strict = TickerTokenizer::default();
        strict.freeze();
        strict.encode(&[UNK]).map_err(reserved(UNK)).unwrap_err();
    }

    #[test]
    fn names_of_a_frozen_one_make_its_equal() {
        let frozen = Vocabulary::of(["A"], true, UnknownTicker::Unk).unwrap();
        let again = Vocabulary::of(frozen.names(), true, UnknownTicker::Unk).unwrap();
        assert_eq!(again, frozen);
        let grows = TickerTokenizer::from(again);
        grows.unfreeze();
        assert_eq!(grows.encode(&[UNK, "B"]).unwrap(), [2, 3]);
    }

    #[test]
    fn threads_that_grow_it_at_once_agree() {
        let tokenizer = TickerTokenizer::default();
        let names: Vec<String> = (0..500).map(|n| format!("T{n}")).collect();
        let encoded: Vec<Vec<i32>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|thread| {
                    let (tokenizer, mut mine) = (&tokenizer, names.clone());
                    mine.rotate_left(thread * 61);
                    scope.spawn(move || {
                        for name in &mine {
                            tokenizer.encode(&[name]).unwrap();
                        }
                    })
                })
                .collect();
            for thread in threads {
                thread.join().unwrap();
            }
            (0..8).map(|_| tokenizer.encode(&names).unwrap()).collect()
        });
        let mut sorted = encoded[0].clone();
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(1..=500), "every name has one token of its own");
        assert!(encoded.iter().all(|tokens| *tokens == encoded[0]));
    }

    #[test]
    fn tokens_that_no_name_has_are_refused_with_the_last_one() {
        let tokenizer = TickerTokenizer::default();
        tokenizer.encode(&["A"]).unwrap();
        for token in [-1, 2, i64::MAX.into(), i64::MIN.into(), 10_i128.pow(30)] {
            assert_eq!(
                tokenizer.decode(&[0, token]),
                Err(TokenError::UnknownToken { token, last: 1 })
            );
        }
    }
}
