//! Compiles CEL expressions of others, with bounds: the rules of schemas, the conditions of webhooks.
//!
//! The parser and the interpreter call themselves for every level of an expression, so that a
//! hostile one could take the stack of the whole process. A real server has bounds, too.

use kube_cel::cel::{Context, ExecutionError, Program, Value};

/// How many brackets may be open, and signs may stand in a row.
const MAX_DEPTH: usize = 50;

/// The operator limit of one expression; chains of operators nest as deep as they are long.
const MAX_OPERATORS: usize = 500;

/// The parser and the interpreter take tens of kilobytes for each level; memory that is not used is not taken.
const STACK_BYTES: usize = 64 * 1024 * 1024;

/// The stack that is sufficient for all expressions within the limits.
const ENOUGH_STACK_BYTES: usize = 32 * 1024 * 1024;

/// Compiles an expression; the error is for people.
pub(crate) fn compile(source: &str) -> Result<Program, String> {
    check(source)?;
    // The parser panics on some malformed input; that must not end the server.
    let compile = || std::panic::catch_unwind(|| Program::compile(source));
    match stacker::maybe_grow(ENOUGH_STACK_BYTES, STACK_BYTES, compile) {
        Ok(compiled) => compiled.map_err(|error| error.to_string()),
        Err(_) => Err("the expression cannot be parsed".to_owned()),
    }
}

/// Evaluates an expression.
pub(crate) fn execute(program: &Program, context: &Context<'_>) -> Result<Value, ExecutionError> {
    stacker::maybe_grow(ENOUGH_STACK_BYTES, STACK_BYTES, || program.execute(context))
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
            ((0..100).map(|n| format!("self.a{n} > 1")).collect::<Vec<_>>().join(" || "), true),
            (format!("{}1{}", "(".repeat(MAX_DEPTH), ")".repeat(MAX_DEPTH)), true),
            (format!("{}1", "-".repeat(MAX_DEPTH)), true),
            (format!("1{}", "+1".repeat(MAX_OPERATORS)), true),
            (format!("a{}", ".a".repeat(MAX_OPERATORS)), true),
            (format!("'a'{}", ".size()".repeat(MAX_OPERATORS)), true),
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
                let _ = execute(program, &Context::default());
            }
            assert_eq!(compiled.is_ok(), expected, "{source:.60}: {:?}", compiled.err());
        }
    }
}
