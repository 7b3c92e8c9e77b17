//! The tests of `selector.rs`.

use super::*;

fn label<'a>(labels: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<&'a str> + 'a {
    |key| labels.iter().find(|(name, _)| *name == key).map(|(_, value)| *value)
}

#[test]
fn labels_match() {
    let labels = [("app", "web"), ("tier", "front"), ("size", "5"), ("empty", "")];
    for (selector, expected) in [
        ("", true),
        ("app=web", true),
        ("app==web", true),
        ("app=db", false),
        ("app!=db", true),
        ("app!=web", false),
        ("nope!=web", true),
        ("app", true),
        ("!app", false),
        ("!nope", true),
        ("nope", false),
        ("app in (web, db)", true),
        ("app in (db)", false),
        ("app notin (db)", true),
        ("nope notin (db)", true),
        ("nope in (db)", false),
        ("app=web,tier=front", true),
        ("app=web , tier=back", false),
        ("size>4", true),
        ("size>5", false),
        ("size<6", true),
        ("app>4", false),
        ("empty=", true),
        ("empty in ()", true),
        ("app=", false),
    ] {
        let parsed = LabelSelector::parse(selector).unwrap_or_else(|error| panic!("{selector}: {error}"));
        assert_eq!(parsed.matches(label(&labels)), expected, "{selector}");
    }
}

#[test]
fn wrong_label_selectors_are_refused_in_the_words_of_the_server() {
    for (selector, expected) in [
        ("a===b", "unable to parse requirement: found '=', expected: identifier"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("a,,b", "found ',', expected: identifier after ','"),
        ("a,", "found '', expected: identifier after ','"),
        ("=b", "found '=', expected: !, identifier, or 'end of string'"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
    ] {
        let error = LabelSelector::parse(selector).unwrap_err();
        assert_eq!(error.to_string(), expected, "{selector}");
    }
}

#[test]
fn fields_match() {
    let field = |name: &str| match name {
        "metadata.name" => "a,b".to_owned(),
        "status.phase" => "Running".to_owned(),
        _ => String::new(),
    };
    for (selector, expected) in [
        ("", true),
        ("status.phase=Running", true),
        ("status.phase!=Running", false),
        ("status.phase==Failed", false),
        ("metadata.name=a\\,b,status.phase=Running", true),
        ("nope=", true),
    ] {
        assert_eq!(FieldSelector::parse(selector).unwrap().matches(field), expected, "{selector}");
    }
    assert_eq!(FieldSelector::parse("ab").unwrap_err().to_string(), "invalid selector: 'ab'; can't understand 'ab'");
}
