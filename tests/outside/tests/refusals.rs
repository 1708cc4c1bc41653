//! What a program without a feature says to whoever needs it.

use haft::Store;

#[tokio::test]
async fn a_database_that_was_not_compiled_is_refused_with_the_name_of_its_feature() {
    let refused = Store::connect_postgres("postgres://ann:secret@db.example/haft").await;
    let error = refused.expect_err("this program has no PostgreSQL");
    assert_eq!(
        error.to_string(),
        "the address `postgres://…` needs PostgreSQL, and this program was built without the \
         feature `postgres`"
    );
    assert!(error.hint().contains("Cargo.toml"), "{}", error.hint());
    assert!(!error.is_retryable());
}
