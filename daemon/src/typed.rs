//! Numbers and words that are typed, and what is said of those that are none.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Words this similar are worth a "did you mean" (Jaro-Winkler, 0 to 1).
const SIMILAR: f64 = 0.75;

/// Reads a whole number within limits, with or without `_` between its digits.
pub(crate) fn whole<T>(
    limits: RangeInclusive<T>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static
where
    T: FromStr + PartialOrd + Display + Clone + Send + Sync + 'static,
{
    move |text| {
        let number = text.replace('_', "").parse().ok().filter(|number| limits.contains(number));
        let (least, most) = (limits.start(), limits.end());
        number.ok_or_else(|| format!("not within {least} to {most}; give a whole number that is"))
    }
}

/// Reads a word that is one of `words`, which are all that `T` has.
pub(crate) fn one_of<T>(
    words: &'static [&'static str],
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static
where
    T: FromStr + Clone + Send + Sync + 'static,
{
    move |text| {
        text.parse().map_err(|_| {
            let near = nearest(text, words.iter().copied());
            let near = near.map_or_else(String::new, |near| format!("; did you mean {near}?"));
            format!("give {}{near}", choices(words))
        })
    }
}

/// Returns the word that is spelt most alike, if one is alike at all.
pub(crate) fn nearest<'a>(
    typed: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    known
        .into_iter()
        .map(|word| (strsim::jaro_winkler(typed, word), word))
        .filter(|(similarity, _)| *similarity >= SIMILAR)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, word)| word)
}

/// `error, attach or replace`.
fn choices(words: &[&str]) -> String {
    match words.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use backcast_core::{Exist, LanePolicy};
    use backcast_market::NanPolicy;
    use backcast_persist::Mode;

    #[test]
    fn a_word_nearly_right_finds_the_right_one() {
        let exist = one_of::<Exist>(&["error", "attach", "replace"]);
        assert_eq!(exist("attach"), Ok(Exist::Attach));
        assert_eq!(
            exist("atach").unwrap_err(),
            "give error, attach or replace; did you mean attach?"
        );
        assert_eq!(exist("zzz").unwrap_err(), "give error, attach or replace");
    }

    #[test]
    fn the_words_offered_are_those_that_are_taken() {
        assert!(crate::create::EXIST.iter().all(|word| word.parse::<Exist>().is_ok()));
        assert!(crate::create::POLICIES.iter().all(|word| word.parse::<LanePolicy>().is_ok()));
        assert!(crate::create::MODES.iter().all(|word| word.parse::<Mode>().is_ok()));
        assert!(crate::panel::NAN.iter().all(|word| word.parse::<NanPolicy>().is_ok()));
    }
}
