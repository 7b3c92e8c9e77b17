//! Compiles CEL expressions of others, with bounds: the rules of schemas, the conditions of webhooks.
//!
//! The parser and the interpreter call themselves for every level of an expression, so that a
//! hostile one could take the stack of the whole process. A real server has bounds, too.

use kube_cel::cel::Program;

/// How many brackets may be open, and signs may stand in a row.
const MAX_DEPTH: usize = 50;

/// How many operators one expression may have; chains of them are as deep as they are long.
const MAX_OPERATORS: usize = 250;

/// The parser takes tens of kilobytes for each level.
const PARSER_STACK_BYTES: usize = 32 * 1024 * 1024;

/// Compiles an expression; the error is for people.
pub fn compile(source: &str) -> Result<Program, String> {
    check(source)?;
    std::thread::scope(|scope| {
        let parser = std::thread::Builder::new().name("cel".into()).stack_size(PARSER_STACK_BYTES);
        let parsed = parser.spawn_scoped(scope, || Program::compile(source)).map_err(|error| error.to_string())?;
        match parsed.join() {
            Ok(compiled) => compiled.map_err(|error| error.to_string()),
            // The parser panics on some input that makes no sense; nobody else must suffer from that.
            Err(_) => Err("the expression cannot be parsed".to_owned()),
        }
    })
}

fn check(source: &str) -> Result<(), String> {
    let (mut depth, mut row, mut operators) = (0_usize, 0_usize, 0_usize);
    let mut quote = None;
    let mut after_operator = false;
    let mut characters = source.chars();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (Some(_), '\\') => {
                characters.next();
            }
            (Some(open), _) if open == character => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(character),
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')' | ']' | '}') => depth = depth.saturating_sub(1),
            _ => {}
        }
        if quote.is_none() {
            let operator =
                matches!(character, '+' | '-' | '*' | '/' | '%' | '!' | '&' | '|' | '<' | '>' | '=' | '?' | '.');
            row = match character {
                '-' | '!' => row + 1,
                ' ' | '\t' | '\n' | '\r' => row,
                _ => 0,
            };
            // Two signs in a row are one operator.
            operators += usize::from(operator && !after_operator);
            after_operator = operator;
        }
        if depth > MAX_DEPTH || row > MAX_DEPTH {
            return Err(format!("the expression is nested deeper than {MAX_DEPTH} levels"));
        }
        if operators > MAX_OPERATORS {
            return Err(format!("the expression has more than {MAX_OPERATORS} operators"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_compiled_or_refused() {
        for (source, expected) in [
            ("self.size > 3".to_owned(), true),
            ("self.names.all(name, name.startsWith('a') || name == \"(((\")".to_owned(), true),
            ((0..60).map(|n| format!("self.a{n} > 1")).collect::<Vec<_>>().join(" || "), true),
            (format!("{}1{}", "(".repeat(MAX_DEPTH), ")".repeat(MAX_DEPTH)), true),
            (format!("{}1", "-".repeat(MAX_DEPTH)), true),
            (format!("1{}", "+1".repeat(MAX_OPERATORS)), true),
            (format!("{}1{}", "(".repeat(100_000), ")".repeat(100_000)), false),
            ("[".repeat(100_000), false),
            (format!("{}true", "!".repeat(100_000)), false),
            (format!("{}1", "- ".repeat(100_000)), false),
            (format!("1{}", "+1".repeat(100_000)), false),
            (format!("a{}", ".a".repeat(100_000)), false),
            ("self.".to_owned(), false),
            (String::new(), false),
        ] {
            let compiled = compile(&source);
            if let Ok(program) = &compiled {
                // It may fail, but not take the stack.
                let _ = program.execute(&kube_cel::cel::Context::default());
            }
            assert_eq!(compiled.is_ok(), expected, "{source:.60}: {:?}", compiled.err());
        }
    }
}
