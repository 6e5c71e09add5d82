//! Hints for files in other layouts: probable origin and how to load them.

use crate::derived_column::DerivedColumn;

/// Names that pandas gives to an index without a name: empty or `Unnamed: 0` in CSV,
/// `__index_level_0__` in Parquet, and `index` or `level_0` as a column.
const NAMELESS: [&str; 5] = ["", "Unnamed: 0", "__index_level_0__", "index", "level_0"];

/// Returns whether the first two lines look like a header row of fields and one of tickers, as
/// yfinance and pandas write them.
pub(crate) fn is_two_headers(first: &[String], second: &[String]) -> bool {
    let named = |cell: &String| !cell.is_empty() && cell.parse::<f64>().is_err();
    let fields = first.iter().filter(|name| {
        let name = name.split('.').next().unwrap_or_default();
        ["open", "high", "low", "close", "volume"]
            .iter()
            .any(|known| name.eq_ignore_ascii_case(known))
    });
    // In the second row every cell but the first names a ticker.
    first.len() > 1
        && first.len() == second.len()
        && fields.count() > 1
        && second[1..].iter().all(named)
}

/// Returns a hint to read the days from a column without a name if the column `date` is missing;
/// otherwise nothing.
pub(crate) fn nameless_index(missing: &[String], found: &[String]) -> String {
    let nameless = found.iter().find(|name| NAMELESS.contains(&name.as_str()));
    match nameless.filter(|_| missing.iter().any(|name| name == "date")) {
        Some(name) => format!(
            "; the column {name:?} is an index that was written without a name: if it holds the \
             days, load with columns {{{name:?}: \"date\"}}, and with \"timestamp\" if it holds \
             instants"
        ),
        None => String::new(),
    }
}

/// Returns how options of loading make up for missing columns; otherwise nothing. `in_memory`:
/// whether the table is a frame.
pub(crate) fn missing_options(missing: &[String], in_memory: bool) -> String {
    let lacks = |name: &str| missing.iter().any(|other| other == name);
    let mut hints = String::new();
    if lacks("timestamp") {
        hints += "; call the column \"date\" instead if it holds days";
    }
    if lacks("tic") {
        hints += "; for a table of one ticker set `ticker` to its name";
    }
    let derivable = DerivedColumn::ALL.map(|derived| derived.column().name());
    let derivable: Vec<String> =
        derivable.iter().filter(|name| lacks(name)).map(|name| format!("{name:?}")).collect();
    if !derivable.is_empty() && !lacks("close") {
        hints += "; for closes alone set `derive` to [";
        hints += &derivable.join(", ");
        hints += "]";
    }
    if in_memory && lacks("tic") && lacks("close") {
        hints += "; a frame with a column of closes for each ticker, such as df[\"Close\"] of \
                  yfinance, needs the name of the field too: give df[[\"Close\"]], or \
                  pandas.concat({\"Close\": frame}, axis=1), with `derive` set to [\"open\", \
                  \"high\", \"low\", \"volume\"]";
    }
    hints
}

/// Returns a hint for text in a column of numbers: a time of day, a decimal comma, or how to leave
/// the column out.
pub(crate) fn number_hint(column: &str, text: &str) -> String {
    let leave_out = format!("leave the column out with columns {{{column:?}: \"\"}}");
    if is_clock(text) {
        return format!(
            "; it is a time of day: {leave_out}, or call the column \"time\" for a panel of bars"
        );
    }
    comma_hint(text).unwrap_or_else(|| format!("; or {leave_out}"))
}

/// Returns a hint for a number in which characters stand between thousands or before decimals.
fn comma_hint(text: &str) -> Option<String> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let thousands = |text: &str, between: char| {
        let mut groups = text.split(between);
        let first = groups.next().is_some_and(|group| group.len() <= 3 && is_digits(group));
        let (mut rest, many) = (groups.clone(), groups.next().is_some());
        first && many && rest.all(|group| group.len() == 3 && is_digits(group))
    };
    // Before and behind a decimal point or comma.
    let parts = |mark: char| {
        let (whole, rest) = digits.rsplit_once(mark).unwrap_or((digits, "0"));
        is_digits(rest).then_some(whole)
    };
    let is_grouped =
        |mark: char, between: char| parts(mark).is_some_and(|whole| thousands(whole, between));
    let is_decimal = digits.split_once(',').is_some_and(|(a, b)| is_digits(a) && is_digits(b));
    let without = "write numbers without it (pandas.read_csv takes thousands=\",\")";
    let point = "write numbers with a point (pandas.read_csv takes decimal=\",\")";
    if is_decimal && thousands(digits, ',') {
        return Some(format!(
            "; its comma separates thousands or decimals: if thousands, {without}; if decimals, \
             {point}"
        ));
    }
    if is_decimal {
        return Some(format!("; it has a decimal comma: {point}"));
    }
    if is_grouped('.', ',') {
        return Some(format!("; its comma separates thousands: {without}"));
    }
    if is_grouped(',', '.') {
        return Some(format!(
            "; it has a decimal comma, and points between thousands: {point}, and \
             without what separates thousands"
        ));
    }
    let others = [' ', '\u{a0}', '\u{202f}', '\'', '\u{2019}', '_'];
    let other =
        others.into_iter().find(|&other| is_grouped('.', other) || is_grouped(',', other))?;
    Some(format!(
        "; it has {other:?} between thousands: write numbers without it, and decimals \
         behind a point"
    ))
}

/// Returns a hint if text in the column of days looks like a Unix time; otherwise nothing.
pub(crate) fn date_hint(text: &str) -> String {
    let (unit, factor) = match text.len() {
        9..=10 => ("s", "seconds"),
        12..=13 => ("ms", "milliseconds"),
        15..=16 => ("us", "microseconds"),
        18..=19 => ("ns", "nanoseconds"),
        _ => return String::new(),
    };
    if !is_digits(text) {
        return String::new();
    }
    format!("; it looks like {factor} since 1970: set the unit {unit:?}")
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_clock(text: &str) -> bool {
    let mut parts = text.split(':');
    let all = parts.clone().count();
    (2..=3).contains(&all)
        && parts.all(|part| !part.is_empty() && part.len() <= 2 && is_digits(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        text.split(',').map(str::to_owned).collect()
    }

    #[test]
    fn two_header_rows_are_distinguished_from_a_header_and_a_row() {
        assert!(is_two_headers(&names("Price,Close,High,Low"), &names("Ticker,AAPL,AAPL,AAPL")));
        assert!(is_two_headers(&names(",Close,Close.1"), &names(",AAPL,MSFT")));
        assert!(!is_two_headers(&names("Date,Close,High"), &names("2024-01-02,1.5,2")));
        assert!(!is_two_headers(&names("Date,Ticker,Close"), &names("2024-01-02,AAPL,2")));
    }

    #[test]
    fn hints_know_what_they_see() {
        let [time, comma, other] = [("time", "09:30:00"), ("close", "10,5"), ("sector", "Energy")]
            .map(|(column, text)| number_hint(column, text));
        assert!(time != comma && time != other && comma != other, "{time}, {comma}, {other}");
        for (text, words) in [
            ("3,505", &["thousands=\",\"", "decimal=\",\"", "if thousands", "if decimals"][..]),
            ("-103,505", &["if thousands", "if decimals"]),
            ("10,5", &["decimal comma", "point"]),
            ("3505,125", &["decimal comma", "point"]),
            ("1,234,567", &["separates thousands: write numbers without it"]),
            ("1,234.5", &["separates thousands: write numbers without it"]),
            ("1.234,5", &["decimal comma, and points between thousands"]),
            ("3 505", &["' ' between thousands"]),
            ("3'505.25", &["between thousands"]),
        ] {
            let hint = number_hint("volume", text);
            assert!(words.iter().all(|word| hint.contains(word)), "{text}: {hint}");
            assert!(!hint.contains("leave the column out"), "{text}: {hint}");
        }
        for text in ["1,23,456", "1,2345.5", ",505", "3,", "1 2", "N,A", "12:30,5"] {
            let hint = number_hint("volume", text);
            assert!(hint.contains("leave the column out"), "{text}: {hint}");
        }
        assert!(other.contains("columns {\"sector\": \"\"}"), "{other}");
        assert!(date_hint("1704153600").contains("unit \"s\""));
        assert!(date_hint("1704153600000000000").contains("unit \"ns\""));
        assert_eq!(date_hint("01/02/2024"), "");
    }
}
