//! Words of enums: options that configurations, the shell and Python write as text.

/// Implements `as_str`, `Display` and `FromStr` for an enum, and defines the error of a word that
/// names no variant. A list that lacks a variant does not compile.
///
/// List the variants in the order of their definition: stored numbers are positions in `ALL`.
macro_rules! variant_words {
    (
        $(#[$as_str:meta])*
        $name:ident { $($variant:ident = $word:literal),+ $(,)? }

        $(#[$error:meta])*
        $bad:ident($public:vis String)
    ) => {
        impl $name {
            /// All variants, in the order of the list.
            pub(crate) const ALL: &[Self] = &[$(Self::$variant),+];

            $(#[$as_str])*
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        #[derive(Clone, Debug, ::thiserror::Error, PartialEq, Eq)]
        $(#[$error])*
        pub struct $bad($public String);

        impl ::std::str::FromStr for $name {
            type Err = $bad;

            fn from_str(text: &str) -> Result<Self, $bad> {
                let found = Self::ALL.iter().copied().find(|choice| choice.as_str() == text);
                found.ok_or_else(|| $bad(text.to_owned()))
            }
        }
    };
}
pub(crate) use variant_words;
