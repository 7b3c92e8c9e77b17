//! Which warnings a response carries.
//!
//! Field validation, deprecated versions and webhooks produce warnings; `http/service.rs` sends those that a
//! real server would send.

/// If all warnings together exceed this length, each of them is truncated.
const MAX_LENGTH_OF_ALL: usize = 4096;
const MAX_LENGTH_OF_EACH: usize = 256;

/// The warnings to send: without duplicates and control characters, and limited in length.
pub(super) fn limited(warnings: &[String]) -> Vec<String> {
    let mut unique: Vec<&String> = Vec::new();
    for warning in warnings {
        if !warning.is_empty() && !warning.contains(char::is_control) && !unique.contains(&warning) {
            unique.push(warning);
        }
    }
    let length = |text: &str| text.chars().count();
    if unique.iter().map(|warning| length(warning)).sum::<usize>() <= MAX_LENGTH_OF_ALL {
        return unique.into_iter().cloned().collect();
    }
    let mut written = 0;
    let shortened = unique.into_iter().map(|warning| warning.chars().take(MAX_LENGTH_OF_EACH).collect::<String>());
    shortened
        .take_while(|warning| {
            written += length(warning);
            written <= MAX_LENGTH_OF_ALL
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_warnings_are_shortened_and_cut() {
        let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        assert_eq!(limited(&texts(&["a", "", "b", "a", "c\nd"])), texts(&["a", "b"]));
        let long: Vec<String> = (10..30).map(|number| format!("{number}{}", "x".repeat(498))).collect();
        let sent = limited(&long);
        assert_eq!((sent.len(), sent[0].len()), (16, 256));
        assert_eq!(limited(&long[..8]), long[..8]);
    }
}
