//! The public JSON Schema test suites.

use haft_core::tool::Schema;
use haft_runtime::schema::{CompileError, Validator};
use serde_json::{Value, json};

use super::lines;
use crate::corpora;

/// Runs every mandatory group; those that need another document must be refused for that reason.
fn run(file: &str, n_passing: usize, prepare: impl Fn(Value) -> Value) {
    let text = corpora::read(file);
    let (mut passed, mut outside) = (0, 0);
    let mut failed = Vec::new();
    for group in lines(&text).filter(|group| group["optional"] == false) {
        let document = Schema::from_value(&prepare(group["schema"].clone())).unwrap();
        let validator = match Validator::compile(&document) {
            Ok(validator) => validator,
            Err(CompileError::OutsideReference { .. }) => {
                outside += 1;
                continue;
            }
            Err(error) => {
                failed.push(format!("{} {}: {error}", group["file"], group["group"]));
                continue;
            }
        };
        for test in group["tests"].as_array().unwrap() {
            if Some(validator.check(&test[1]).is_ok()) == test[2].as_bool() {
                passed += 1;
            } else {
                failed.push(format!("{} {}: {}", group["file"], group["group"], test[0]));
            }
        }
    }
    let scope = corpora::scope();
    println!("{file} ({scope}): {passed} tests pass, {outside} groups need another document");
    assert_eq!(failed, Vec::<String>::new());
    assert!(passed > n_passing && outside < 30, "{passed} passed, {outside} refused");
}

// S3-8: full JSON Schema, by the suite that defines it.
#[test]
fn s3_8_the_suite_of_2020_12_passes() {
    run("json/schema_suite_draft2020-12.jsonl", 800, |schema| schema);
}

#[test]
fn a_schema_that_declares_draft_7_is_read_as_such() {
    let n_passing = if corpora::is_whole() { 800 } else { 150 };
    run("json/schema_suite_draft7.jsonl", n_passing, |mut schema| {
        if let Value::Object(keywords) = &mut schema {
            keywords.insert("$schema".into(), json!("http://json-schema.org/draft-07/schema#"));
        }
        schema
    });
}
