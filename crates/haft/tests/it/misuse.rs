//! What the compiler says about a tool that is declared wrongly: one line, at the right place.

#[test]
fn misuse_is_explained_where_it_stands() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
