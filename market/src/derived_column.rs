//! The columns that a table may lack, for loading computes them.

use std::str::FromStr;

use thiserror::Error;

use crate::symbols::PriceColumn;

/// A column that a table lacks and that loading computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum DerivedColumn {
    /// The close of the ticker's row before. Its first row has none and counts as absent, since its
    /// own close is not known when it opens.
    Open,
    /// The larger of open and close.
    High,
    /// The smaller of open and close.
    Low,
    /// Zero.
    Volume,
}

impl DerivedColumn {
    pub(crate) const ALL: [Self; 4] = [Self::Open, Self::High, Self::Low, Self::Volume];

    /// Returns the column that is computed.
    #[must_use]
    pub fn column(self) -> PriceColumn {
        match self {
            Self::Open => PriceColumn::Open,
            Self::High => PriceColumn::High,
            Self::Low => PriceColumn::Low,
            Self::Volume => PriceColumn::Volume,
        }
    }
}

/// A word that names no [`DerivedColumn`].
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("derive has {text:?}; give \"open\", \"high\", \"low\" or \"volume\"")]
pub struct ParseDerivedColumnError {
    /// The word.
    pub text: String,
}

impl FromStr for DerivedColumn {
    type Err = ParseDerivedColumnError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let named = Self::ALL.into_iter().find(|column| column.column().name() == text);
        named.ok_or_else(|| ParseDerivedColumnError { text: text.to_owned() })
    }
}
