//! Settings with a few named values: an enum, the word for each, and an error that lists the words.

use thiserror::Error;

/// Error of parsing a word that names no value of a setting.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{choice} is {word:?}; write {known}")]
pub struct ParseChoiceError {
    /// Name of the setting.
    pub choice: &'static str,
    /// Word that was given.
    pub word: String,
    /// Words of the setting.
    pub known: String,
}

/// Defines an enum whose variants are written as words. An alias of a variant is parsed, and never
/// written.
macro_rules! choice {
    (
        $(#[$doc:meta])* $name:ident, $choice:literal,
        { $($(#[$of:meta])* $variant:ident = $word:literal $(or $alias:literal)?,)+ }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        pub enum $name {
            $($(#[$of])* #[cfg_attr(feature = "serde", serde(rename = $word))] $variant,)+
        }

        impl $name {
            /// All variants, in the order of their definition.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// Returns the word for this variant.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(self.word())
            }
        }

        impl ::std::str::FromStr for $name {
            type Err = $crate::contract::ParseChoiceError;

            fn from_str(word: &str) -> Result<Self, Self::Err> {
                $($(if word == $alias {
                    return Ok(Self::$variant);
                })?)+
                Self::ALL.iter().copied().find(|choice| choice.word() == word).ok_or_else(|| {
                    let known: Vec<String> =
                        Self::ALL.iter().map(|choice| format!("\"{choice}\"")).collect();
                    $crate::contract::ParseChoiceError {
                        choice: $choice,
                        word: word.to_owned(),
                        known: known.join(" or "),
                    }
                })
            }
        }
    };
}

pub(crate) use choice;
