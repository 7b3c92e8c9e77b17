//! Timestamps in stored records: in Python's notation, and within the range of its `datetime`.

use jiff::{SignedDuration, Timestamp, civil};

/// The last moment that both this crate and Python's `datetime` can write and read.
const LAST_MOMENT: &str = "9999-12-30T00:00:00Z";

/// The moment after a number of seconds. Infinite delays, and those beyond the range, end at the last moment; NaN
/// means no delay.
pub(crate) fn after(now: Timestamp, seconds: f64) -> Timestamp {
    let last = LAST_MOMENT.parse().unwrap_or(Timestamp::MAX);
    match SignedDuration::try_from_secs_f64(seconds) {
        Ok(delay) => now.checked_add(delay).map_or(if seconds < 0.0 { now } else { last }, |moment| moment.min(last)),
        Err(_) if seconds > 0.0 => last,
        Err(_) => now,
    }
}

/// Formats a moment as Python does with an aware UTC time: `2026-11-15T12:34:56.000000+00:00`.
pub(crate) fn format_time(moment: Timestamp) -> String {
    let civil = moment.to_zoned(jiff::tz::TimeZone::UTC).datetime();
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}+00:00",
        civil.year(),
        civil.month(),
        civil.day(),
        civil.hour(),
        civil.minute(),
        civil.second(),
        civil.subsec_nanosecond() / 1000,
    )
}

/// Parses a time with an offset; without one, it is UTC.
pub(crate) fn parse_time(text: &str) -> Option<Timestamp> {
    text.parse::<Timestamp>().ok().or_else(|| {
        let civil: civil::DateTime = text.parse().ok()?;
        civil.to_zoned(jiff::tz::TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-11-15T12:34:56.123456Z".parse().unwrap()
    }

    #[test]
    fn stored_times_have_the_notation_of_python() {
        assert_eq!(format_time(now()), "2026-11-15T12:34:56.123456+00:00");
        let table = [
            ("2026-11-15T12:34:56.123456+00:00", Some("2026-11-15T12:34:56.123456+00:00")),
            ("2026-11-15T12:34:56.123456", Some("2026-11-15T12:34:56.123456+00:00")),
            ("2026-11-15T14:34:56+02:00", Some("2026-11-15T12:34:56.000000+00:00")),
            ("2026-11-15T12:34:56Z", Some("2026-11-15T12:34:56.000000+00:00")),
            ("yesterday", None),
        ];
        for (text, expected) in table {
            assert_eq!(parse_time(text).map(format_time).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn delays_never_overflow() {
        let last: Timestamp = LAST_MOMENT.parse().unwrap();
        let table = [
            (1.5, now().checked_add(SignedDuration::from_millis(1500)).unwrap()),
            (0.0, now()),
            (1e12, last),
            (1e300, last),
            (f64::INFINITY, last),
            (f64::NEG_INFINITY, now()),
            (f64::NAN, now()),
        ];
        for (seconds, expected) in table {
            assert_eq!(after(now(), seconds), expected, "{seconds}");
            assert_eq!(parse_time(&format_time(after(now(), seconds))), Some(expected), "{seconds}");
        }
    }
}
