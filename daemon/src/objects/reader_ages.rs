//! Ages of the transitions that a reader has drawn, as JSON and in words.

use backcast_core::AgeBin;
use serde::Serialize;

use crate::text::units;

/// JSON of the drawn transitions whose ages are within a factor of 2.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct AgeBinReport {
    pub(crate) from: u64,
    pub(crate) rows: u64,
}

impl AgeBinReport {
    pub(crate) fn all_of(bins: &[AgeBin]) -> Vec<Self> {
        bins.iter().map(|&AgeBin { from, rows }| Self { from, rows }).collect()
    }
}

/// Describes ages by upper bounds for shares of the drawn transitions: `half <= 15, 90% <= 127, all
/// <= 255`.
pub(crate) fn ages_in_words(bins: &[AgeBinReport]) -> String {
    // Counts come from shared memory and may have any value. 128 bits hold 100 times the sum of all
    // bins.
    let total: u128 = bins.iter().map(|bin| u128::from(bin.rows)).sum();
    if total == 0 {
        return "-".to_owned();
    }
    let within = |percent: u128| {
        let mut rows = 0;
        let bin = bins.iter().find(|bin| {
            rows += u128::from(bin.rows);
            rows * 100 >= total * percent
        });
        let last = bin.map_or(0, |bin| bin.from.saturating_mul(2).saturating_sub(1));
        units::exact(last)
    };
    format!("half <= {}, 90% <= {}, all <= {}", within(50), within(90), within(100))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_the_rows_are_bounded_by_the_ends_of_bins() {
        for (rows, expected) in [
            (&[][..], "-"),
            (&[0, 0], "-"),
            (&[3], "half <= 0, 90% <= 0, all <= 0"),
            (&[1, 1], "half <= 0, 90% <= 1, all <= 1"),
            (&[0, 4, 0, 5, 1], "half <= 7, 90% <= 7, all <= 15"),
            (&[0, 0, 0, 89, 2, 0, 0, 0, 0, 0, 0, 9], "half <= 7, 90% <= 15, all <= 2,047"),
        ] {
            assert_eq!(ages_in_words(&bins(rows)), expected, "{rows:?}");
        }
    }

    #[test]
    fn any_counts_have_words() {
        let words = ages_in_words(&bins(&[u64::MAX; 50]));
        assert!(words.starts_with("half <= 16,777,215, 90% <= "), "{words}");
    }

    fn bins(rows: &[u64]) -> Vec<AgeBinReport> {
        let bin = |(at, rows): (usize, &u64)| AgeBinReport {
            from: if at == 0 { 0 } else { 1 << (at - 1) },
            rows: *rows,
        };
        rows.iter().enumerate().map(bin).collect()
    }
}
