//! Tokenizers as JSON files with a checksum, which is verified before the contents are used.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use backcast_core::IoCause;
use backcast_files::write_atomically;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::tokenizer::{TickerTokenizer, TokenError, UnknownTicker, Vocabulary};

const FORMAT: &str = "backcast-tickers";
const VERSION: u32 = 1;
/// Maximum bytes of a file that are read.
const MAX_BYTES: u64 = 1 << 30;

/// Error of saving or loading a tokenizer. File and tokenizer are unchanged.
#[derive(Debug, Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages show the fields")]
pub enum TokenFileError {
    /// A system call failed.
    #[error(
        "cannot {operation} {}: {source}; {}",
        path.display(),
        IoCause::of(source).remedy_or("check the path and its folder")
    )]
    Io {
        operation: &'static str,
        /// The file.
        path: PathBuf,
        source: io::Error,
    },
    /// The file is not a saved tokenizer.
    #[error(
        "{} is no tokenizer: {problem}; give a file that `save` wrote, or save it again",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        problem: String,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved {
    format: String,
    version: u32,
    frozen: bool,
    unknown: Unknown,
    /// Names from token 1 on.
    tickers: Vec<String>,
    /// BLAKE3 of the fields above, in hex.
    checksum: String,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Unknown {
    Error,
    Unk,
}

impl TickerTokenizer {
    /// Saves the tokenizer as JSON. Replaces the file atomically.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), TokenFileError> {
        let path = path.as_ref();
        let json = self.to_json();
        write_atomically(path, |file| file.write_all(json.as_bytes()))
            .map_err(|source| TokenFileError::Io { operation: "write", path: path.into(), source })
    }

    /// Replaces the state by a saved one. Refuses a file that is truncated, altered, of another
    /// kind, or larger than a gibibyte.
    pub fn load(&self, path: impl AsRef<Path>) -> Result<(), TokenFileError> {
        let path = path.as_ref();
        let io = |source| TokenFileError::Io { operation: "read", path: path.into(), source };
        let damaged = |problem| TokenFileError::Damaged { path: path.into(), problem };
        let bytes = fs::metadata(path).map_err(io)?.len();
        if bytes > MAX_BYTES {
            return Err(damaged(format!("it has {bytes} bytes, the limit is {MAX_BYTES}")));
        }
        let json = fs::read(path).map_err(io)?;
        self.replace(parse(&json).map_err(damaged)?);
        Ok(())
    }

    /// Returns the text that [`save`](Self::save) writes.
    #[must_use]
    pub fn to_json(&self) -> String {
        let vocabulary = self.vocabulary();
        let mut saved = Saved {
            format: FORMAT.to_owned(),
            version: VERSION,
            frozen: vocabulary.is_frozen(),
            unknown: match vocabulary.unknown() {
                UnknownTicker::Error => Unknown::Error,
                UnknownTicker::Unk => Unknown::Unk,
            },
            tickers: vocabulary.names().iter().map(ToString::to_string).collect(),
            checksum: String::new(),
        };
        saved.checksum = saved.sum();
        saved.json()
    }

    /// Returns a tokenizer from the text of [`to_json`](Self::to_json), or the problem with the
    /// text.
    pub fn from_json(json: &str) -> Result<Self, String> {
        parse(json.as_bytes()).map(Self::from)
    }
}

impl Saved {
    fn json(&self) -> String {
        // Strings, numbers and lists always have a JSON form.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    fn sum(&self) -> String {
        let Self { format, version, frozen, unknown, tickers, .. } = self;
        let fields = serde_json::to_vec(&(format, version, frozen, unknown, tickers));
        blake3::hash(&fields.unwrap_or_default()).to_hex().to_string()
    }
}

fn parse(json: &[u8]) -> Result<Vocabulary, String> {
    let saved: Saved = serde_json::from_slice(json).map_err(|error| error.to_string())?;
    let (format, version) = (&saved.format, saved.version);
    if format != FORMAT || version != VERSION {
        return Err(format!(
            "format {format:?} version {version}, where {FORMAT:?} version {VERSION} is known"
        ));
    }
    if saved.checksum != saved.sum() {
        return Err("its tickers do not have the checksum that it tells".to_owned());
    }
    let unknown = match saved.unknown {
        Unknown::Error => UnknownTicker::Error,
        Unknown::Unk => UnknownTicker::Unk,
    };
    Vocabulary::of(&saved.tickers, saved.frozen, unknown)
        .map_err(|error: TokenError| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokenizer() -> TickerTokenizer {
        let names = ["AAPL", "BRK.B", "\"quoted\"", "株"];
        let vocabulary = Vocabulary::of(names, true, UnknownTicker::Unk).unwrap();
        TickerTokenizer::from(vocabulary)
    }

    #[test]
    fn a_saved_one_comes_back_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens.json");
        let saved = tokenizer();
        saved.save(&path).unwrap();
        let loaded = TickerTokenizer::default();
        loaded.encode(&["forgotten"]).unwrap();
        loaded.load(&path).unwrap();
        assert_eq!(loaded.vocabulary(), saved.vocabulary());
        assert_eq!(loaded.encode(&["new", "株"]).unwrap(), [5, 4]);
    }

    #[test]
    fn a_file_cut_or_changed_anywhere_is_refused_and_the_tokenizer_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens.json");
        tokenizer().save(&path).unwrap();
        let whole = fs::read(&path).unwrap();
        let kept = TickerTokenizer::default();
        kept.encode(&["kept"]).unwrap();
        let before = kept.vocabulary();
        let refused = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            match kept.load(&path) {
                Ok(()) => false,
                Err(error) => matches!(error, TokenFileError::Damaged { .. }),
            }
        };
        let json: serde_json::Value = serde_json::from_slice(&whole).unwrap();
        for at in 0..whole.len() - 2 {
            assert!(refused(&whole[..at]), "cut at {at}");
            let mut flipped = whole.clone();
            flipped[at] ^= 1;
            // Accept equal contents in another spelling.
            let same = serde_json::from_slice(&flipped).is_ok_and(|v: serde_json::Value| v == json);
            assert!(same || refused(&flipped), "flipped at {at}");
            if same {
                kept.replace(before.clone());
            }
            assert_eq!(kept.vocabulary(), before);
        }
        assert!(matches!(
            kept.load(folder.path().join("nothing")),
            Err(TokenFileError::Io { operation: "read", .. })
        ));
    }
}
