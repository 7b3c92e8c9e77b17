//! Queries and headers; `tests/io/client.rs` has the tests of whole requests.

use http::HeaderMap;
use http::header::RETRY_AFTER;

use super::*;

#[test]
fn queries_are_encoded() {
    assert_eq!(with_query("/a", &[]), "/a");
    assert_eq!(with_query("/a", &[("x", "1"), ("l", "a in (b,é)")]), "/a?x=1&l=a%20in%20%28b%2C%C3%A9%29");
}

#[test]
fn pauses_of_the_server() {
    let asked = |text: &str| {
        let headers = HeaderMap::from_iter([(RETRY_AFTER, text.parse().unwrap())]);
        retry_after(&headers)
    };
    assert_eq!(asked("3"), Some(Duration::from_secs(3)));
    assert_eq!(asked("0.5"), Some(Duration::from_millis(500)));
    assert_eq!(asked("Wed, 21 Oct 2015 07:28:00 GMT"), None);
    assert_eq!(retry_after(&HeaderMap::new()), None);
}
