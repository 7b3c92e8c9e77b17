//! Amounts such as `500m`, `2Gi` or `1e3`, as far as they have to be compared.

use std::cmp::Ordering;

/// Which of two amounts is more; None if one of them is none.
pub fn compare(one: &str, other: &str) -> Option<Ordering> {
    read(one)?.partial_cmp(&read(other)?)
}

/// The amount as a number. It need not be exact.
pub fn read(text: &str) -> Option<f64> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '+' | '-'))).unwrap_or(text.len());
    let (digits, suffix) = text.split_at(end);
    let number: f64 = digits.parse().ok()?;
    let factor = match suffix {
        "" => 1.0,
        "n" => 1e-9,
        "u" => 1e-6,
        "m" => 1e-3,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "P" => 1e15,
        "E" => 1e18,
        "Ki" => 1024.0,
        "Mi" => 1024_f64.powi(2),
        "Gi" => 1024_f64.powi(3),
        "Ti" => 1024_f64.powi(4),
        "Pi" => 1024_f64.powi(5),
        "Ei" => 1024_f64.powi(6),
        exponent => 10_f64.powi(exponent.strip_prefix(['e', 'E'])?.parse().ok()?),
    };
    Some(number * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_compared() {
        let check = |one: &str, other: &str, expected: Option<Ordering>| {
            assert_eq!(compare(one, other), expected, "{one} {other}");
        };
        check("1Gi", "1G", Some(Ordering::Greater));
        check("1000m", "1", Some(Ordering::Equal));
        check("1e3", "1k", Some(Ordering::Equal));
        check("512Mi", "1Gi", Some(Ordering::Less));
        check("big", "1Gi", None);
    }
}
