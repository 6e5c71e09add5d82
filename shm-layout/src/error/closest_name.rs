//! Suggestions for misspelt names.

/// Minimum length of a prefix that stands for a longer name.
const MIN_PREFIX: usize = 3;

/// Returns the known name that `name` probably means; `None` if none is similar enough.
///
/// Case is ignored. Names are similar if few edits turn one into the other, or if one has at least
/// 3 bytes and the other begins with it. Few edits are at most a third of the characters of the
/// longer name, but one for 2 to 4 characters and two for 5. The name with the fewest edits is
/// chosen. Of names with as many edits, one that begins with `name` comes first, then one that
/// `name` begins with, then the first in alphabetical order.
#[must_use]
pub fn closest_name<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let given = name.to_lowercase();
    known
        .into_iter()
        .filter_map(|known| {
            let folded = known.to_lowercase();
            let length = folded.chars().count().max(given.chars().count());
            let edits = strsim::damerau_levenshtein(&folded, &given);
            let few = (length / 3).max(if length > 4 { 2 } else { 1 }).min(length / 2);
            let begins = given.len().min(folded.len()) >= MIN_PREFIX
                && (given.starts_with(&folded) || folded.starts_with(&given));
            let rank = (!folded.starts_with(&given), !given.starts_with(&folded));
            (edits <= few || begins).then_some((edits, rank, known))
        })
        .min()
        .map(|(.., known)| known)
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
            ("wong", Some("pong")),
            ("wing", None),
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
        assert_eq!(closest_name("marke", ["mark", "market"]), Some("market"));
        assert_eq!(closest_name("ix", ["ax", "i"]), Some("i"));
    }
}
