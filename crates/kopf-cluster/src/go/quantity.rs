//! Quantities such as `500m`, `1Gi` or `1e3`: read, compared, and written in the server's own form.
//!
//! A real server stores `0.5` as `500m` and `1024Ki` as `1Mi`; `codec/struct_types.rs` does so to every object
//! that comes in, and the rules compare them.

use std::cmp::Ordering;

use serde_json::Value;

/// An amount in billionths, with the sort of suffix that it was written with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quantity {
    nanos: i128,
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// `Ki`, `Mi`, …
    Binary,
    /// `m`, `k`, `M`, … or nothing.
    Decimal,
    /// `e3`.
    Exponent,
}

/// The server's message about malformed quantities.
pub(crate) const PATTERN_PROBLEM: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

const NANO: i128 = 1_000_000_000;
const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
/// From billionths on, in steps of thousand.
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];

impl Quantity {
    /// Reads a quantity out of a text or a number of an object.
    pub(crate) fn of(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => Self::parse(text),
            Value::Number(number) => Self::parse(&number.to_string()),
            _ => None,
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (negative, unsigned) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let length = unsigned.find(|character: char| !character.is_ascii_digit() && character != '.');
        let (digits, suffix) = unsigned.split_at(length.unwrap_or(unsigned.len()));
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return None;
        }
        let (format, factor, exponent) = read_suffix(suffix)?;
        let mut nanos: i128 = 0;
        // The server rounds up digits beyond its range.
        let digits = whole.trim_start_matches('0').to_owned() + fraction;
        if digits.len() > 25 {
            return None;
        }
        for digit in digits.bytes() {
            nanos = nanos.checked_mul(10)?.checked_add(i128::from(digit - b'0'))?;
        }
        let mut power = exponent + 9 - i32::try_from(fraction.len()).ok()?;
        nanos = nanos.checked_mul(factor)?;
        while power > 0 {
            nanos = nanos.checked_mul(10)?;
            power -= 1;
        }
        while power < 0 {
            nanos = nanos / 10 + i128::from(nanos % 10 != 0);
            power += 1;
        }
        let nanos = if negative { -nanos } else { nanos };
        Some(Self { nanos, format })
    }

    pub(crate) fn is_negative(self) -> bool {
        self.nanos < 0
    }

    pub(crate) fn is_zero(self) -> bool {
        self.nanos == 0
    }

    pub(crate) fn is_whole(self) -> bool {
        self.nanos % NANO == 0
    }

    pub(crate) fn zero() -> Self {
        Self { nanos: 0, format: Format::Decimal }
    }

    pub(crate) fn one() -> Self {
        Self { nanos: NANO, format: Format::Decimal }
    }
}

impl std::iter::Sum for Quantity {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::zero(), |sum, amount| Self { nanos: sum.nanos.saturating_add(amount.nanos), ..sum })
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.nanos.partial_cmp(&other.nanos)
    }
}

/// The sort of a suffix, what it multiplies by, and by which power of ten.
fn read_suffix(suffix: &str) -> Option<(Format, i128, i32)> {
    if let Some(position) = BINARY.iter().position(|known| *known == suffix) {
        return Some((Format::Binary, 1 << (10 * (position + 1)), 0));
    }
    if let Some(position) = DECIMAL.iter().position(|known| *known == suffix) {
        return Some((Format::Decimal, 1, 3 * i32::try_from(position).ok()? - 9));
    }
    let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    (exponent.abs() <= 24).then_some((Format::Exponent, 1, exponent))
}

impl std::fmt::Display for Quantity {
    /// The one form that the server writes for the amount.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.nanos == 0 {
            return formatter.write_str("0");
        }
        // Small amounts and fractions have no binary form.
        let binary = self.format == Format::Binary && self.is_whole() && self.nanos.abs() >= 1024 * NANO;
        if binary {
            let mut amount = self.nanos / NANO;
            let mut suffix = "";
            for next in BINARY {
                if amount % 1024 != 0 {
                    break;
                }
                amount /= 1024;
                suffix = next;
            }
            return write!(formatter, "{amount}{suffix}");
        }
        let mut amount = self.nanos;
        let mut step = 0;
        while amount % 1000 == 0 && step + 1 < DECIMAL.len() {
            amount /= 1000;
            step += 1;
        }
        match self.format {
            Format::Exponent if step != 3 => {
                let exponent = 3 * i32::try_from(step).unwrap_or_default() - 9;
                write!(formatter, "{amount}e{exponent}")
            }
            _ => write!(formatter, "{amount}{}", DECIMAL[step]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_written_as_the_server_writes_them() {
        for (text, expected) in [
            ("1", Some("1")),
            ("0.5", Some("500m")),
            ("100m", Some("100m")),
            ("1000m", Some("1")),
            ("1000000", Some("1M")),
            ("1024Ki", Some("1Mi")),
            ("1.5Gi", Some("1536Mi")),
            ("1Gi", Some("1Gi")),
            ("512", Some("512")),
            ("1e3", Some("1e3")),
            ("1e1", Some("10")),
            ("+1", Some("1")),
            ("-1", Some("-1")),
            ("0", Some("0")),
            ("0Gi", Some("0")),
            ("0.5Mi", Some("512Ki")),
            ("1500", Some("1500")),
            ("2k", Some("2k")),
            ("", None),
            ("abc", None),
            ("1.2.3", None),
            ("1Zi", None),
            (".", None),
        ] {
            assert_eq!(Quantity::parse(text).map(|quantity| quantity.to_string()).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn they_compare_by_their_amounts() {
        let parse = |text: &str| Quantity::parse(text).unwrap();
        assert!(parse("1Gi") > parse("1G"));
        assert!(parse("1000m") == parse("1"));
        assert!(parse("1.5").is_whole() == parse("1500m").is_whole());
        assert!(parse("1e3") == parse("1k"));
        assert!(parse("512Mi") < parse("1Gi"));
        assert!(["100m", "1", "1500m"].map(parse).into_iter().sum::<Quantity>() == parse("2600m"));
    }
}
