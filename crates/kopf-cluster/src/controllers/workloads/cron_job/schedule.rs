//! When a cron job is due: five fields, names for the usual ones, or an interval.

use cronexpr::{Crontab, FallbackTimezoneOption, ParseOptions};
use jiff::{SignedDuration, Timestamp};

/// A schedule in its time zone.
#[derive(Debug)]
pub(crate) enum Schedule {
    /// By the calendar.
    Calendar(Box<Crontab>),
    /// Again and again after a while.
    Every(SignedDuration),
}

const MONTHS: [&str; 12] = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const DAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

impl Schedule {
    pub(crate) fn parse(text: &str, zone: Option<&str>) -> Result<Self, String> {
        let fields = match text.trim() {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            other => match other.strip_prefix("@every ") {
                Some(interval) => return read_interval(interval).map(Self::Every),
                None => other,
            },
        };
        let count = fields.split_whitespace().count();
        if count != 5 {
            return Err(format!("expected exactly 5 fields, found {count}: [{fields}]"));
        }
        // What other dialects of cron know beyond names, is unknown here.
        let words = fields.split(|c: char| !c.is_ascii_alphabetic()).filter(|word| !word.is_empty());
        for word in words {
            let upper = word.to_ascii_uppercase();
            if !MONTHS.contains(&&*upper) && !DAYS.contains(&&*upper) {
                return Err(format!("failed to parse int from {word}"));
            }
        }
        if let Some(unknown) = fields.chars().find(|c| !(c.is_ascii_alphanumeric() || " \t*/,-?".contains(*c))) {
            return Err(format!("failed to parse int from {unknown}"));
        }
        let fields = fields.replace('?', "*");
        let text = match zone {
            Some(zone) => format!("{fields} {zone}"),
            None => fields,
        };
        let mut options = ParseOptions::default();
        options.fallback_timezone_option = FallbackTimezoneOption::UTC;
        let parsed = cronexpr::parse_crontab_with(&text, options).map_err(|error| error.to_string())?;
        Ok(Self::Calendar(Box::new(parsed)))
    }

    /// The first time after another one; there may be none.
    pub(crate) fn next(&self, after: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Calendar(crontab) => Some(crontab.find_next(after).ok()?.timestamp()),
            Self::Every(interval) => after.checked_add(*interval).ok(),
        }
    }

    /// The last time up to now, and after another one.
    pub(crate) fn last(&self, after: Timestamp, now: Timestamp) -> Option<Timestamp> {
        const MINUTE: i64 = 60;
        // Near times are tried first, so that not all of a long time has to be gone through.
        for window in [MINUTE, 60 * MINUTE, 24 * 60 * MINUTE, 31 * 24 * 60 * MINUTE, i64::MAX] {
            let start = now.checked_sub(SignedDuration::from_secs(window)).unwrap_or(Timestamp::MIN).max(after);
            let times = std::iter::successors(self.next(start), |time| self.next(*time));
            if let Some(last) = times.take_while(|time| *time <= now).last() {
                return Some(last);
            }
            if start == after {
                return None;
            }
        }
        None
    }
}

/// `1h30m`, at least a second.
fn read_interval(text: &str) -> Result<SignedDuration, String> {
    let wrong = || format!("failed to parse duration @every {text}");
    let mut rest = text.trim();
    let mut total = 0.0;
    if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).ok_or_else(wrong)?;
        let number: f64 = rest[..end].parse().map_err(|_| wrong())?;
        let unit_end = rest[end..].find(|c: char| c.is_ascii_digit()).map_or(rest.len(), |found| end + found);
        total += number
            * match &rest[end..unit_end] {
                "h" => 3600.0,
                "m" => 60.0,
                "s" => 1.0,
                "ms" => 0.001,
                _ => return Err(wrong()),
            };
        rest = &rest[unit_end..];
    }
    #[allow(clippy::cast_possible_truncation)]
    Ok(SignedDuration::from_secs((total as i64).max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn schedules_have_a_next_time() {
        let check = |schedule: &str, after: &str, expected: &str| {
            let parsed = Schedule::parse(schedule, None).unwrap();
            assert_eq!(parsed.next(at(after)), Some(at(expected)), "{schedule} after {after}");
        };
        check("* * * * *", "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z");
        check("*/15 * * * *", "2026-01-01T00:46:30Z", "2026-01-01T01:00:00Z");
        check("5-10/5 3 * * *", "2026-01-01T03:05:00Z", "2026-01-01T03:10:00Z");
        check("0 9 * * MON-FRI", "2026-01-02T10:00:00Z", "2026-01-05T09:00:00Z");
        check("0 0 1 jan *", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z");
        // If both days are given, either of them matches.
        check("0 0 13 * 5", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z");
        check("@hourly", "2026-01-01T00:00:01Z", "2026-01-01T01:00:00Z");
        check("@weekly", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z");
        check("@every 1h30m", "2026-01-01T00:00:00Z", "2026-01-01T01:30:00Z");
        check("0 0 ? * ?", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z");
    }

    #[test]
    fn schedules_have_zones() {
        let parsed = Schedule::parse("0 9 * * *", Some("Asia/Tokyo")).unwrap();
        assert_eq!(parsed.next(at("2026-01-01T00:00:00Z")), Some(at("2026-01-02T00:00:00Z")));
        assert!(Schedule::parse("0 9 * * *", Some("Nowhere/At_All")).is_err());
    }

    #[test]
    fn wrong_schedules_are_refused() {
        for wrong in
            ["", "* * * *", "* * * * * *", "60 * * * *", "* * L * *", "* * * * 5#2", "@often", "@every x", "a b c d e"]
        {
            assert!(Schedule::parse(wrong, None).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_last_time_is_found() {
        let check = |schedule: &str, after: &str, now: &str, expected: Option<&str>| {
            let parsed = Schedule::parse(schedule, None).unwrap();
            assert_eq!(parsed.last(at(after), at(now)), expected.map(at), "{schedule} {after} {now}");
        };
        check("* * * * *", "2020-01-01T00:00:00Z", "2026-01-01T00:00:30Z", Some("2026-01-01T00:00:00Z"));
        check("0 0 1 1 *", "2020-01-01T00:00:00Z", "2026-06-01T00:00:00Z", Some("2026-01-01T00:00:00Z"));
        check("0 0 1 1 *", "2026-01-01T00:00:00Z", "2026-06-01T00:00:00Z", None);
        check("0 * * * *", "2026-01-01T00:10:00Z", "2026-01-01T01:00:00Z", Some("2026-01-01T01:00:00Z"));
    }
}
