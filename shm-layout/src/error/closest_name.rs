//! Suggestions for misspelt names.

/// Minimum length of a prefix that stands for a longer name.
const MIN_PREFIX: usize = 3;

/// Returns the known name that `name` probably means; `None` if none is similar enough.
///
/// Case is ignored. If the longer of both names has `n` characters, they are similar if `max(2, n /
/// 3)` edits, but at most `n / 2`, turn one into the other, or if one begins with the other. Of
/// equally similar names, the first in alphabetical order is returned.
#[must_use]
pub fn closest_name<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let given = name.to_lowercase();
    known
        .into_iter()
        .filter_map(|known| {
            let folded = known.to_lowercase();
            let length = folded.chars().count().max(given.chars().count());
            let edits = strsim::damerau_levenshtein(&folded, &given);
            let similar = edits <= (length / 3).max(2).min(length / 2);
            let begins = given.len().min(folded.len()) >= MIN_PREFIX
                && (given.starts_with(&folded) || folded.starts_with(&given));
            (similar || begins).then_some((edits, known))
        })
        .min()
        .map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_name_finds_its_own_and_a_strange_one_finds_none() {
        let known = ["pong", "breakout", "prices", "obs", "render_mode", "Date", "xy", "i"];
        for (typed, meant) in [
            ("pnog", Some("pong")),
            ("pon", Some("pong")),
            ("PONG", Some("pong")),
            ("date", Some("Date")),
            ("brekout", Some("breakout")),
            ("price", Some("prices")),
            ("obz", Some("obs")),
            ("observation", Some("obs")),
            ("xz", Some("xy")),
            ("yx", Some("xy")),
            ("ix", Some("i")),
            ("ab", None),
            ("abs", Some("obs")),
            ("art", None),
            ("autoreset_mode", None),
            ("zzz", None),
            ("", None),
        ] {
            assert_eq!(closest_name(typed, known), meant, "{typed}");
        }
    }

    #[test]
    fn fewer_edits_come_first_and_then_the_order_of_text() {
        assert_eq!(closest_name("epoch-2", ["epoch-100", "epoch-3", "epoch-1"]), Some("epoch-1"));
        assert_eq!(closest_name("epoch-10", ["epoch", "epoch-100"]), Some("epoch-100"));
    }
}
