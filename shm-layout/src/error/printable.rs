//! Makes foreign text safe to show.

/// Replaces control characters, except line feeds, by U+FFFD.
///
/// Names and messages may come from files that other programs wrote. An escape sequence in them
/// must not reach a terminal.
#[must_use]
pub fn printable(text: &str) -> String {
    let shown = |c: char| if c.is_control() && c != '\n' { char::REPLACEMENT_CHARACTER } else { c };
    text.chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_replaced_and_line_breaks_are_kept() {
        let hostile = "a\u{1b}[31mred\u{7}\r\n\u{9b}b\tü";
        assert_eq!(printable(hostile), "a\u{fffd}[31mred\u{fffd}\u{fffd}\n\u{fffd}b\u{fffd}ü");
    }
}
