//! Strict calendar dates, so that the order of texts is the order of days.

/// Is `text` exactly `YYYY-MM-DD` and a day that exists (proleptic Gregorian, years 0001-9999)?
pub(crate) fn is_calendar_date(text: &str) -> bool {
    let [y0, y1, y2, y3, b'-', m0, m1, b'-', d0, d1] = *text.as_bytes() else {
        return false;
    };
    let digits = [y0, y1, y2, y3, m0, m1, d0, d1];
    if !digits.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let number = |digits: &[u8]| digits.iter().fold(0, |n, d| n * 10 + u32::from(d - b'0'));
    let (year, month, day) = (number(&[y0, y1, y2, y3]), number(&[m0, m1]), number(&[d0, d1]));
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let last = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        _ => return false,
    };
    year >= 1 && (1..=last).contains(&day)
}

#[cfg(test)]
mod tests {
    use super::is_calendar_date;

    #[test]
    fn only_days_that_exist_in_iso_form_pass() {
        for good in ["2024-02-29", "2000-02-29", "2023-12-31", "0001-01-01", "9999-11-30"] {
            assert!(is_calendar_date(good), "{good}");
        }
        for bad in [
            "2023-02-29",
            "1900-02-29",
            "2024-13-01",
            "2024-00-10",
            "2024-04-31",
            "2024-01-00",
            "2024-1-02",
            "2024/01/02",
            "20240102",
            "2024-01-02 ",
            "2024-01-02T00:00",
            "0000-01-01",
            "",
            "٢٠٢٤-٠١-٠٢",
            "+024-01-02",
            "2024-01-0a",
        ] {
            assert!(!is_calendar_date(bad), "{bad:?}");
        }
    }
}
