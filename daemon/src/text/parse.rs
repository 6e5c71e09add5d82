//! Parsers of numbers and words that a user typed. Their messages say what is valid.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use backcast_core::plumbing::closest_name;

/// Returns a parser of whole numbers within limits; `_` may separate digits.
pub(crate) fn whole<T>(
    limits: RangeInclusive<T>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static
where
    T: FromStr + PartialOrd + Display + Clone + Send + Sync + 'static,
{
    move |text| {
        let number = text.replace('_', "").parse().ok().filter(|number| limits.contains(number));
        let (least, most) = (limits.start(), limits.end());
        number.ok_or_else(|| format!("give a whole number from {least} to {most}"))
    }
}

/// Returns a parser of `T`. Its messages list `words`.
pub(crate) fn one_of<T>(
    words: &'static [&'static str],
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static
where
    T: FromStr + Clone + Send + Sync + 'static,
{
    move |text| {
        text.parse().map_err(|_| {
            let near = closest_name(text, words.iter().copied());
            let near = near.map_or_else(String::new, |near| format!("; did you mean {near}?"));
            format!("give {}{near}", choices(words))
        })
    }
}

/// Joins words for a message: `error, attach or replace`.
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
    use backcast_core::Exist;

    #[test]
    fn a_word_nearly_right_finds_the_right_one() {
        let exist = one_of::<Exist>(&["error", "attach", "replace"]);
        assert_eq!(exist("attach"), Ok(Exist::Attach));
        let [near, far] = ["atach", "zzz"].map(|word| exist(word).unwrap_err());
        for word in ["error", "attach", "replace"] {
            assert!(near.contains(word) && far.contains(word), "{near}, {far}");
        }
        assert_eq!((near.matches("attach").count(), far.matches("attach").count()), (2, 1));
    }
}
