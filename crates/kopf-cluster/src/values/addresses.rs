//! Which texts are addresses and ranges of them, in the words of the server's validation library.
//!
//! Old fields take what newer fields take only in its canonical form. `values/names.rs` and the rules of
//! network kinds ask here.

use std::net::{IpAddr, Ipv4Addr};

const NO_ADDRESS: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
const NO_RANGE: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";

/// A range of addresses as it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    address: IpAddr,
    bits: u8,
}

impl Range {
    /// Reads a range; leading zeros do no harm.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (address, bits) = text.split_once('/')?;
        let address = parse_old(address)?;
        let plain = !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
        let bits: u8 = bits.parse().ok().filter(|_| plain)?;
        (bits <= width(address)).then_some(Self { address, bits })
    }

    pub(crate) fn is_ipv6(self) -> bool {
        self.address.is_ipv6()
    }

    /// The first address of the range.
    fn base(self) -> IpAddr {
        let keep = |bits: u8, width: u8| u128::MAX.checked_shl(u32::from(width - bits)).unwrap_or_default();
        match self.address {
            IpAddr::V4(address) => {
                let mask = keep(self.bits, 32) as u32;
                IpAddr::V4(Ipv4Addr::from(u32::from(address) & mask))
            }
            IpAddr::V6(address) => IpAddr::V6((u128::from(address) & keep(self.bits, 128)).into()),
        }
    }

    /// Whether it has bits behind its prefix, so that it may be meant as a single address.
    fn is_ambiguous(self) -> bool {
        self.base() != self.address
    }

    /// The canonical form.
    fn canonical(self) -> String {
        format!("{}/{}", self.base(), self.bits)
    }
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// Reads an address as old software did: leading zeros are skipped.
fn parse_old(text: &str) -> Option<IpAddr> {
    if let Ok(address) = text.parse() {
        return Some(address);
    }
    let octets: Vec<&str> = text.split('.').collect();
    let plain = |octet: &&str| !octet.is_empty() && octet.bytes().all(|byte| byte.is_ascii_digit());
    if octets.len() != 4 || !octets.iter().all(plain) {
        return None;
    }
    let short = octets.iter().map(|octet| match octet.trim_start_matches('0') {
        "" => "0",
        rest => rest,
    });
    short.collect::<Vec<_>>().join(".").parse().ok()
}

fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some())
}

/// The problems of an address in a legacy field, which need not be canonical.
pub(crate) fn old_address(text: &str) -> Vec<String> {
    let Some(address) = parse_old(text) else { return vec![NO_ADDRESS.to_owned()] };
    let mut problems = Vec::new();
    if text.parse::<IpAddr>().is_err() {
        problems.push("must not have leading 0s".to_owned());
    }
    if is_mapped(address) {
        problems.push("must not be an IPv4-mapped IPv6 address".to_owned());
    }
    problems
}

/// The problems of an address.
pub(crate) fn address(text: &str) -> Vec<String> {
    let mut problems = old_address(text);
    if let Some(address) = parse_old(text).filter(|address| problems.is_empty() && address.to_string() != text) {
        problems.push(format!("must be in canonical form (\"{address}\")"));
    }
    problems
}

/// The problems of a CIDR in a legacy field, which need not be canonical.
pub(crate) fn old_range(text: &str) -> Vec<String> {
    let Some(range) = Range::parse(text) else { return vec![NO_RANGE.to_owned()] };
    let mut problems = Vec::new();
    if has_leading_zeros(text) {
        problems.push("must not have leading 0s in IP or prefix length".to_owned());
    }
    if is_mapped(range.address) {
        problems.push("must not have an IPv4-mapped IPv6 address".to_owned());
    }
    if range.is_ambiguous() {
        problems.push("must not have bits set beyond the prefix length".to_owned());
    }
    problems
}

/// The problems of a CIDR.
pub(crate) fn range(text: &str) -> Vec<String> {
    let mut problems = old_range(text);
    if let Some(range) = Range::parse(text).filter(|range| problems.is_empty() && range.canonical() != text) {
        problems.push(format!("must be in canonical form (\"{}\")", range.canonical()));
    }
    problems
}

fn has_leading_zeros(range: &str) -> bool {
    let (address, bits) = range.split_once('/').unwrap_or((range, ""));
    address.parse::<IpAddr>().is_err() || (bits.len() > 1 && bits.starts_with('0'))
}

/// The warnings about a CIDR in a legacy field that is accepted nevertheless.
pub(crate) fn warnings_of_range(path: &str, text: &str) -> Vec<String> {
    let canonical = Range::parse(text).filter(|range| range.is_ipv6()).map(Range::canonical);
    let differing = canonical.filter(|canonical| canonical != text);
    differing
        .map(|canonical| {
            format!("{path}: IPv6 CIDR value \"{text}\" should be in RFC 5952 canonical format (\"{canonical}\")")
        })
        .into_iter()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_their_problems() {
        const ZEROS: &str = "must not have leading 0s";
        const MAPPED: &str = "must not be an IPv4-mapped IPv6 address";
        for (text, old, new) in [
            ("10.0.0.1", "", ""),
            ("2001:db8::1", "", ""),
            ("010.0.0.1", ZEROS, ZEROS),
            ("::ffff:1.2.3.4", MAPPED, MAPPED),
            ("2001:DB8::1", "", "must be in canonical form (\"2001:db8::1\")"),
            ("10.0.0", NO_ADDRESS, NO_ADDRESS),
            ("10.0.0.256", NO_ADDRESS, NO_ADDRESS),
            ("Not_valid", NO_ADDRESS, NO_ADDRESS),
        ] {
            assert_eq!(old_address(text).join("; "), old, "{text}");
            assert_eq!(address(text).join("; "), new, "{text}");
        }
    }

    #[test]
    fn ranges_and_their_problems() {
        const BITS: &str = "must not have bits set beyond the prefix length";
        for (text, old, new) in [
            ("10.0.0.0/8", "", ""),
            ("0.0.0.0/0", "", ""),
            ("2001:db8::/64", "", ""),
            ("10.1.0.0/8", BITS, BITS),
            ("2001:DB8::/64", "", "must be in canonical form (\"2001:db8::/64\")"),
            ("10.0.0.0/33", NO_RANGE, NO_RANGE),
            ("10.0.0.0/+8", NO_RANGE, NO_RANGE),
            ("10.0.0.0", NO_RANGE, NO_RANGE),
        ] {
            assert_eq!(old_range(text).join("; "), old, "{text}");
            assert_eq!(range(text).join("; "), new, "{text}");
        }
    }

    #[test]
    fn ranges_in_another_notation_cause_warnings() {
        for (text, expected) in [
            ("10.0.0.0/8", ""),
            ("2001:db8::/64", ""),
            (
                "2001:DB8::/64",
                "p: IPv6 CIDR value \"2001:DB8::/64\" should be in RFC 5952 canonical format (\"2001:db8::/64\")",
            ),
        ] {
            assert_eq!(warnings_of_range("p", text).join("; "), expected);
        }
    }
}
