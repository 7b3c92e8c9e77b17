//! The string formats that the API checks, by its own rules.
//!
//! The rules are those of the server's library, which are often laxer than the standards that
//! they are named after: what the server accepts must be accepted here.

use std::net::IpAddr;
use std::sync::LazyLock;

use regex::Regex;

/// Whether the API checks this format at all. Dashes in names do not matter.
pub(super) fn is_known(format: &str) -> bool {
    check_of(&normalised(format)).is_some()
}

/// Whether a text has the format; texts of unknown formats always have it.
pub(super) fn matches(format: &str, text: &str) -> bool {
    check_of(&normalised(format)).is_none_or(|check| check(text))
}

fn normalised(format: &str) -> String {
    format.replace('-', "")
}

type FormatCheck = fn(&str) -> bool;

fn check_of(format: &str) -> Option<FormatCheck> {
    Some(match format {
        "bsonobjectid" => |text| text.len() == 24 && text.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "uri" => is_uri,
        "email" => is_email,
        "hostname" => is_hostname,
        "ipv4" => |text| text.contains('.') && parse_ip(text).is_some(),
        "ipv6" => |text| text.contains(':') && parse_ip(text).is_some(),
        "cidr" => is_cidr,
        "mac" => is_mac,
        "uuid" => |text| UUID.is_match(text),
        "uuid3" => |text| UUID3.is_match(text),
        "uuid4" => |text| UUID4.is_match(text),
        "uuid5" => |text| UUID5.is_match(text),
        "isbn" => |text| is_isbn10(text) || is_isbn13(text),
        "isbn10" => is_isbn10,
        "isbn13" => is_isbn13,
        "creditcard" => is_credit_card,
        "ssn" => |text| text.len() == 11 && SSN.is_match(text),
        "hexcolor" => |text| HEX_COLOR.is_match(text),
        "rgbcolor" => |text| RGB_COLOR.is_match(text),
        "byte" => |text| BASE64.is_match(text),
        "password" => |_| true,
        "date" => is_date,
        "duration" => is_duration,
        "datetime" => is_date_time,
        "k8sshortname" => is_short_name,
        "k8slongname" => is_long_name,
        _ => return None,
    })
}

macro_rules! expression {
    ($name:ident, $source:expr) => {
        // The sources are constants, each covered by a test: an impossible one would match nothing.
        static $name: LazyLock<Matcher> = LazyLock::new(|| Matcher(Regex::new($source).ok()));
    };
}

/// An expression that matches nothing if it could not be compiled.
struct Matcher(Option<Regex>);

impl Matcher {
    fn is_match(&self, text: &str) -> bool {
        self.0.as_ref().is_some_and(|expression| expression.is_match(text))
    }
}

expression!(UUID, "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$");
expression!(UUID3, "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}$");
expression!(UUID4, "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$");
expression!(UUID5, "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$");
expression!(SSN, "^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$");
expression!(HEX_COLOR, "^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$");
expression!(
    RGB_COLOR,
    r"^rgb\(\s*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])\s*(,\s*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])\s*){2}\)$"
);
expression!(BASE64, r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$");
expression!(
    CREDIT_CARD,
    r"^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11})$"
);
expression!(
    HOSTNAME,
    r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$"
);
expression!(TIME, r"^([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$");
expression!(DURATION, r"^[-+]?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$");
expression!(
    DURATION_IN_WORDS,
    r"(?i)([0-9]+)\s*(ns|nano[a-zµ]*|us|µs|micro[a-zµ]*|ms|milli[a-zµ]*|s|sec[a-zµ]*|m|min[a-zµ]*|h|hr|hour[a-zµ]*|d|day[a-zµ]*|w|wk|week[a-zµ]*)([^A-Za-zµ]|$)"
);
expression!(SHORT_NAME, "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$");
expression!(LONG_NAME, r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$");

fn is_short_name(text: &str) -> bool {
    text.len() <= 63 && SHORT_NAME.is_match(text)
}

fn is_long_name(text: &str) -> bool {
    text.len() <= 253 && LONG_NAME.is_match(text)
}

fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    let has_form = bytes.len() == 10
        && bytes.iter().enumerate().all(|(position, byte)| match position {
            4 | 7 => *byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    has_form && is_day(text[0..4].parse().ok(), text[5..7].parse().ok(), text[8..10].parse().ok())
}

fn is_day(year: Option<u32>, month: Option<u32>, day: Option<u32>) -> bool {
    let (Some(year), Some(month), Some(day)) = (year, month, day) else { return false };
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        4 | 6 | 9 | 11 => 30,
        2 => 28 + u32::from(is_leap),
        1..=12 => 31,
        _ => return false,
    };
    (1..=days).contains(&day)
}

fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    is_date(date) && TIME.is_match(time)
}

fn is_duration(text: &str) -> bool {
    DURATION.is_match(text) || DURATION_IN_WORDS.is_match(text)
}

/// An absolute URI or an absolute path, without a fragment.
fn is_uri(text: &str) -> bool {
    if text.is_empty() || text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) || !has_valid_escapes(text) {
        return false;
    }
    if text == "*" || text.starts_with('/') {
        return true;
    }
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    let mut letters = scheme.chars();
    let is_scheme = letters.next().is_some_and(|first| first.is_ascii_alphabetic())
        && letters.all(|letter| letter.is_ascii_alphanumeric() || "+-.".contains(letter));
    if !is_scheme {
        return false;
    }
    match rest.strip_prefix("//") {
        Some(location) => is_authority(location.split(['/', '?']).next().unwrap_or_default()),
        None => rest.starts_with('/'),
    }
}

fn is_authority(authority: &str) -> bool {
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    if host.contains([' ', '<', '>', '"', '\\', '^', '`', '{', '|', '}']) {
        return false;
    }
    let port = match host.strip_prefix('[') {
        Some(address) => match address.split_once(']') {
            Some((_, port)) => port.strip_prefix(':').or(port.is_empty().then_some("")),
            None => None,
        },
        None => Some(host.rsplit_once(':').map_or("", |(_, port)| port)),
    };
    port.is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
}

fn has_valid_escapes(text: &str) -> bool {
    let path = text.split('?').next().unwrap_or_default();
    path.split('%').skip(1).all(|rest| rest.len() >= 2 && rest.bytes().take(2).all(|byte| byte.is_ascii_hexdigit()))
}

/// An address, possibly with a name around it: `Ann <ann@example.com>`.
fn is_email(text: &str) -> bool {
    let text = text.trim();
    let address = match text.strip_suffix('>').and_then(|text| text.rsplit_once('<')) {
        Some((_, address)) => address,
        None => text,
    };
    let Some((local, domain)) = address.rsplit_once('@') else { return false };
    let is_atom = |text: &str| {
        !text.is_empty()
            && text.split('.').all(|atom| {
                !atom.is_empty()
                    && atom.chars().all(|character| {
                        character.is_ascii_alphanumeric()
                            || "!#$%&'*+-/=?^_`{|}~".contains(character)
                            || !character.is_ascii()
                    })
            })
    };
    let is_quoted = local.len() >= 2 && local.starts_with('"') && local.ends_with('"');
    let is_literal = domain.starts_with('[') && domain.ends_with(']');
    (is_atom(local) || is_quoted) && (is_atom(domain) || is_literal)
}

fn is_hostname(text: &str) -> bool {
    HOSTNAME.is_match(text) && text.len() <= 255 && text.split('.').all(|label| label.len() <= 63)
}

/// An address of either family; leading zeros are tolerated in the old one.
fn parse_ip(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        return text.parse().ok();
    }
    let octets: Vec<Option<u8>> = text
        .split('.')
        .map(|octet| match octet.len() {
            1..=4 if octet.bytes().all(|byte| byte.is_ascii_digit()) => octet.parse().ok(),
            _ => None,
        })
        .collect();
    match octets.as_slice() {
        [Some(first), Some(second), Some(third), Some(fourth)] => {
            Some(IpAddr::from([*first, *second, *third, *fourth]))
        }
        _ => None,
    }
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let Some(address) = parse_ip(address) else { return false };
    let is_number = !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
    let most: u32 = if address.is_ipv4() { 32 } else { 128 };
    is_number && bits.parse::<u32>().is_ok_and(|bits| bits <= most)
}

fn is_mac(text: &str) -> bool {
    let (separator, width) = match text.as_bytes().get(2) {
        Some(b':') => (':', 2),
        Some(b'-') => ('-', 2),
        _ => ('.', 4),
    };
    let groups: Vec<&str> = text.split(separator).collect();
    let octets = groups.len() * width / 2;
    let is_group = |group: &&str| group.len() == width && group.bytes().all(|byte| byte.is_ascii_hexdigit());
    matches!(octets, 6 | 8 | 20) && groups.iter().all(is_group)
}

fn is_isbn10(text: &str) -> bool {
    let digits: Vec<u32> = without_spaces(text)
        .chars()
        .map(|digit| if digit == 'X' { 10 } else { digit.to_digit(10).unwrap_or(99) })
        .collect();
    let is_form = digits.len() == 10
        && digits.iter().enumerate().all(|(place, digit)| *digit < 10 || (place == 9 && *digit == 10));
    is_form && digits.iter().zip(1..).map(|(digit, factor)| digit * factor).sum::<u32>().is_multiple_of(11)
}

fn is_isbn13(text: &str) -> bool {
    let digits: Vec<u32> = without_spaces(text).chars().map(|digit| digit.to_digit(10).unwrap_or(99)).collect();
    let is_form = digits.len() == 13 && digits.iter().all(|digit| *digit < 10);
    is_form
        && digits
            .iter()
            .zip([1, 3].iter().cycle())
            .map(|(digit, factor)| digit * factor)
            .sum::<u32>()
            .is_multiple_of(10)
}

fn without_spaces(text: &str) -> String {
    text.chars().filter(|character| !character.is_whitespace() && *character != '-').collect()
}

fn is_credit_card(text: &str) -> bool {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let sum: u32 = digits
        .chars()
        .rev()
        .filter_map(|digit| digit.to_digit(10))
        .enumerate()
        .map(|(place, digit)| match place % 2 {
            0 => digit,
            _ => digit * 2 / 10 + digit * 2 % 10,
        })
        .sum();
    CREDIT_CARD.is_match(&digits) && sum.is_multiple_of(10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_accept_what_the_server_accepts() {
        for (format, good, bad) in [
            (
                "date-time",
                vec!["2020-01-01T00:00:00Z", "2020-01-01t00:00:00.5+01:00"],
                vec!["2020-01-01", "2020-01-01T25:00:00Z", "x", "2021-02-29T00:00:00Z"],
            ),
            ("date", vec!["2020-02-29"], vec!["2021-02-29", "2020-1-1", "größe-0-1"]),
            ("duration", vec!["1h30m", "22 ns", "5 days", "0", "1.5s"], vec!["", "abc", "5"]),
            ("ipv4", vec!["10.0.0.1", "010.0.0.1"], vec!["10.0.0", "::1", "10.0.0.256"]),
            ("ipv6", vec!["::1", "fe80::1"], vec!["10.0.0.1", ":::"]),
            ("cidr", vec!["10.0.0.0/8", "fe80::/64"], vec!["10.0.0.0", "10.0.0.0/33"]),
            ("mac", vec!["01:23:45:67:89:ab", "0123.4567.89ab"], vec!["01:23", "0g:23:45:67:89:ab"]),
            ("uuid", vec!["123e4567-e89b-12d3-a456-426614174000"], vec!["x"]),
            ("uri", vec!["http://example.com/a", "/path", "urn:/x"], vec!["", "example.com", "http://a b/"]),
            ("email", vec!["ann@example.com", "Ann <ann@example.com>"], vec!["ann", "@example.com", "ann@"]),
            ("hostname", vec!["example.com", "a"], vec!["-a", "a..b"]),
            ("byte", vec!["aGVsbG8="], vec!["aGVsbG8", "*"]),
            ("isbn", vec!["0321751043", "978-0321751041"], vec!["0321751044"]),
            ("creditcard", vec!["4111 1111 1111 1111"], vec!["4111 1111 1111 1112"]),
            ("ssn", vec!["123-45-6789"], vec!["123456789"]),
            ("hexcolor", vec!["#fff", "a0b1c2"], vec!["#ffff"]),
            ("rgbcolor", vec!["rgb(1, 2,3)"], vec!["rgb(1,2)"]),
            ("bsonobjectid", vec!["507f1f77bcf86cd799439011"], vec!["507f"]),
            ("password", vec!["", "anything"], vec![]),
            ("k8s-short-name", vec!["a-b"], vec!["A", "a.b", "-a"]),
            ("k8s-long-name", vec!["a.b-c"], vec!["a..b", "A"]),
        ] {
            assert!(is_known(format), "{format}");
            good.iter().for_each(|text| assert!(matches(format, text), "{format} accepts {text}"));
            bad.iter().for_each(|text| assert!(!matches(format, text), "{format} refuses {text}"));
        }
        assert!(!is_known("int-or-string") && matches("nonsense", "x"));
    }
}
