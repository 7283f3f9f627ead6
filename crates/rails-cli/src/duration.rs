//! Durations as people and reports write them.

use serde::Serializer;
use std::time::Duration;

/// Reads `19ms`, `1.5s`, `250us` or `0`: a number and its unit; only 0 needs none.
///
/// # Errors
/// The fault of the text.
pub fn parse(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number: f64 = number.parse().map_err(|_| format!("`{text}` does not begin with a number"))?;
    let scale = match unit.trim() {
        "s" => 1.0,
        "ms" => 1e-3,
        "us" => 1e-6,
        "ns" => 1e-9,
        "" if number == 0.0 => 1.0,
        "" => return Err(format!("`{text}` has no unit; try {text}ms or {text}s")),
        unit => return Err(format!("`{unit}` is no unit of time; try us, ms or s")),
    };
    Duration::try_from_secs_f64(number * scale).map_err(|_| format!("`{text}` is more than fits"))
}

/// Microseconds.
pub fn microseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// Writes whole nanoseconds.
pub fn nanoseconds<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(time.as_nanos() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_are_read_with_their_units() {
        for (text, nanos) in [("19ms", 19_000_000), ("1.5 s", 1_500_000_000), ("250us", 250_000), ("7ns", 7), ("0", 0)]
        {
            assert_eq!(parse(text), Ok(Duration::from_nanos(nanos)), "{text}");
        }
    }

    #[test]
    fn wrong_durations_with_the_reason() {
        for (text, reason) in [
            ("", "number"),
            ("ms", "number"),
            ("-1s", "number"),
            ("19", "try 19ms or 19s"),
            ("1 fortnight", "no unit of time"),
            ("99999999999999999999s", "more than fits"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "\\PC{0,20}") {
            let _ = parse(&text);
        }

        #[test]
        fn a_printed_duration_is_read_back(micros in 1_u64..100_000_000) {
            let written = Duration::from_micros(micros);
            let text = format!("{written:?}").replace('µ', "u");
            prop_assert!(parse(&text).unwrap().abs_diff(written) < Duration::from_nanos(100), "{}", text);
        }
    }
}
