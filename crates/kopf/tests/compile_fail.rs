//! Handlers that do not compile, and what the compiler says about them: it names the parameter, the result or the
//! registration that is wrong.
//!
//! `TRYBUILD=overwrite cargo test -p kopf --test compile_fail` writes the messages again, such as for a new compiler.

#[test]
fn mistakes_in_handlers_do_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
