//! Schedules of cron jobs: five fields, or a word such as `@daily`.

/// The error in a schedule, in the words of the server.
pub(crate) fn problems(schedule: &str) -> Vec<String> {
    if schedule.contains("TZ") {
        return vec!["cannot use TZ or CRON_TZ in schedule, use timeZone field instead".to_owned()];
    }
    parse(schedule).err().into_iter().collect()
}

/// The fields with their bounds and the names for their values.
const FIELDS: [(u32, u32, &[&str]); 5] = [
    (0, 59, &[]),
    (0, 23, &[]),
    (1, 31, &[]),
    (1, 12, &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]),
    (0, 6, &["sun", "mon", "tue", "wed", "thu", "fri", "sat"]),
];

fn parse(schedule: &str) -> Result<(), String> {
    if let Some(word) = schedule.strip_prefix('@') {
        return match word {
            "yearly" | "annually" | "monthly" | "weekly" | "daily" | "midnight" | "hourly" => Ok(()),
            _ => match word.strip_prefix("every ") {
                Some(duration) => every(schedule, duration),
                None => Err(format!("unrecognized descriptor: {schedule}")),
            },
        };
    }
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        return Err(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")));
    }
    for (field, (low, high, names)) in fields.iter().zip(FIELDS) {
        for part in field.split(',').filter(|part| !part.is_empty()) {
            range(part, low, high, names)?;
        }
    }
    Ok(())
}

fn every(schedule: &str, duration: &str) -> Result<(), String> {
    let is_duration = duration.chars().next().is_some_and(|first| first.is_ascii_digit())
        && duration.chars().last().is_some_and(|last| "smh".contains(last));
    match is_duration {
        true => Ok(()),
        false => Err(format!(
            "failed to parse duration {schedule}: time: invalid duration {}",
            crate::go::go_quote(duration)
        )),
    }
}

/// `*`, `5`, `1-5`, each with `/step`.
fn range(part: &str, low: u32, high: u32, names: &[&str]) -> Result<(), String> {
    let mut pieces = part.split('/');
    let bounds = pieces.next().unwrap_or_default();
    let step = pieces.next();
    if pieces.next().is_some() {
        return Err(format!("too many slashes: {part}"));
    }
    let mut ends = bounds.split('-');
    let first = ends.next().unwrap_or_default();
    let last = ends.next();
    if ends.next().is_some() {
        return Err(format!("too many hyphens: {part}"));
    }
    let (start, mut end) = match first {
        "*" | "?" => (low, high),
        first => {
            let start = number(first, names, low)?;
            (start, last.map_or(Ok(start), |last| number(last, names, low))?)
        }
    };
    if let Some(step) = step {
        let step = number(step, &[], 0)?;
        if last.is_none() && first != "*" {
            end = high;
        }
        if step == 0 {
            return Err(format!("step of range should be a positive number: {part}"));
        }
    }
    if start < low {
        return Err(format!("beginning of range ({start}) below minimum ({low}): {part}"));
    }
    if end > high {
        return Err(format!("end of range ({end}) above maximum ({high}): {part}"));
    }
    if start > end {
        return Err(format!("beginning of range ({start}) beyond end of range ({end}): {part}"));
    }
    Ok(())
}

fn number(text: &str, names: &[&str], low: u32) -> Result<u32, String> {
    let lower = text.to_lowercase();
    if let Some(position) = names.iter().position(|name| *name == lower) {
        return Ok(low + u32::try_from(position).unwrap_or_default());
    }
    text.parse::<u32>().map_err(|_| match text.parse::<i64>() {
        Ok(negative) => format!("negative number ({negative}) not allowed: {text}"),
        Err(_) => format!(
            "failed to parse int from {text}: strconv.Atoi: parsing {}: invalid syntax",
            crate::go::go_quote(text)
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules() {
        for (schedule, expected) in [
            ("* * * * *", None),
            ("*/5 1-3 * JAN MON", None),
            ("0 0 1,15 * ?", None),
            ("@daily", None),
            ("@every 5m", None),
            ("x", Some("expected exactly 5 fields, found 1: [x]")),
            ("61 * * * *", Some("end of range (61) above maximum (59): 61")),
            ("5-1 * * * *", Some("beginning of range (5) beyond end of range (1): 5-1")),
            ("*/0 * * * *", Some("step of range should be a positive number: */0")),
            ("* * 0 * *", Some("beginning of range (0) below minimum (1): 0")),
            ("TZ=UTC * * * * *", Some("cannot use TZ or CRON_TZ in schedule, use timeZone field instead")),
        ] {
            assert_eq!(problems(schedule).first().map(String::as_str), expected, "{schedule}");
        }
    }
}
