//! Schemas: what is compiled, what is refused, what is said about a value.

use haft_core::tool::Schema;
use haft_runtime::schema::{CompileError, Validator, find_references};
use serde_json::{Value, json};

use super::{object, validator};

#[track_caller]
fn refused(schema: &Value) -> CompileError {
    Validator::compile(&Schema::from_value(schema).unwrap()).unwrap_err()
}

#[track_caller]
fn misfit(schema: &Value, value: &Value) -> String {
    validator(schema).check(value).unwrap_err().to_string()
}

#[test]
fn nothing_outside_the_document_is_read() {
    for target in ["file:///etc/passwd", "https://example.com/s.json", "other.json", "//host/x"] {
        let error = refused(&json!({"type": "object", "properties": {"a": {"$ref": target}}}));
        assert!(matches!(error, CompileError::OutsideReference { .. }), "{target}: {error}");
        assert!(error.to_string().contains("nothing is fetched"), "{error}");
    }
    let error = refused(&json!({"$schema": "https://example.com/dialect"}));
    assert!(matches!(error, CompileError::OutsideReference { .. }), "{error}");
    let unknown = refused(&json!({"type": "object", "properties": {"a": {"type": "objekt"}}}));
    let unknown = unknown.to_string();
    assert!(unknown.contains("`/properties/a/type`"), "{unknown}");
    assert!(unknown.contains("\"integer\"") && unknown.ends_with("found \"objekt\""), "{unknown}");
    let dangling = refused(&json!({"$ref": "#/$defs/none"})).to_string();
    assert!(dangling.contains("/$defs/none"), "{dangling}");
}

#[test]
fn a_pattern_that_needs_backtracking_is_refused_by_its_path() {
    for pattern in ["^(?=(a+)+$)a", "(?<!x)y", "(.*a){30}\\1", "(", "a{1000}{1000}", "[z-a]"] {
        let error = refused(&json!({"properties": {"a": {"items": {"pattern": pattern}}}}));
        let text = error.to_string();
        assert!(text.contains("`/properties/a/items/pattern`"), "{text}");
        assert!(text.contains(pattern), "{text}");
        let named = refused(&json!({"patternProperties": {pattern: {}}}));
        assert!(matches!(named, CompileError::Pattern { .. }), "{pattern}: {named}");
    }
    // Text on which no engine can guess: which `a` is the one is known only at the end.
    let mut bits = 1_u32;
    let text: String = (0..1 << 16)
        .map(|_| {
            bits = bits.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            if bits >> 31 == 0 { 'a' } else { 'b' }
        })
        .collect();
    let text = json!(text);
    for pattern in ["^(a+)+$", "^(a?){90}a{90}$", "(a|b)*a(a|b){20}[cd]", "^.{1,100}$"] {
        assert!(!validator(&json!({"type": "string", "pattern": pattern})).fits(&text));
    }
}

// What a character may be held against is bounded, not how the pattern is written.
#[test]
fn a_pattern_that_could_take_seconds_is_refused_and_a_large_harmless_one_is_not() {
    let compiled = |pattern: &str| {
        let schema = Schema::from_value(&json!({"type": "string", "pattern": pattern}));
        Validator::compile(&schema.unwrap())
    };
    for pattern in ["^.{1,400}$", r"^[\w.+-]+@[\w-]+\.[\w.]+$", r"^\d{4}-\d\d-\d\d$", "a{0,200}b"] {
        assert!(compiled(pattern).is_ok(), "{pattern}");
    }
    for pattern in [
        "[ab]*a[ab]{2000}c",
        "^(a?){5000}$",
        "[ab]*a[ab]{300}c",
        "a[^c]{300}c",
        "^(.{20}x)*(.{300})$",
    ] {
        let refused = compiled(pattern).unwrap_err();
        assert!(matches!(refused, CompileError::CostlyPattern { .. }), "{refused}");
        assert!(refused.to_string().contains(pattern), "{refused}");
    }
    let many: Vec<_> = (0..8).map(|n| json!({"pattern": format!("{n}.{{200}}")})).collect();
    let many = refused(&json!({ "allOf": many }));
    assert!(matches!(many, CompileError::CostlyPattern { .. }), "{many}");
}

fn fan_out(levels: usize, way: impl Fn(&str) -> Value) -> Value {
    let mut defs = serde_json::Map::new();
    for level in 0..levels {
        let next = format!("#/$defs/d{}", level + 1);
        defs.insert(format!("d{level}"), way(&next));
    }
    defs.insert(format!("d{levels}"), json!({"type": "string"}));
    json!({"$ref": "#/$defs/d0", "$defs": defs})
}

#[test]
fn a_schema_that_unfolds_too_far_is_refused() {
    let in_place = |next: &str| json!({"allOf": [{"$ref": next}, {"$ref": next}]});
    let inside =
        |next: &str| json!({"allOf": [{"items": {"$ref": next}}, {"items": {"$ref": next}}]});
    for bomb in [fan_out(30, in_place), fan_out(30, inside)] {
        let error = refused(&bomb);
        assert!(matches!(error, CompileError::TooCostly { what: "steps", .. }), "{error}");
    }
    let chain = fan_out(5_000, |next| json!({"$ref": next}));
    assert!(matches!(refused(&chain), CompileError::TooCostly { what: "levels", .. }));
    let many: Vec<Value> = (0..30_000).map(Value::from).collect();
    assert!(matches!(refused(&json!({"enum": many})), CompileError::TooCostly { .. }));
    let patterns: Vec<Value> = (0..100).map(|n| json!({"pattern": format!("{n}$")})).collect();
    let error = refused(&json!({"allOf": patterns}));
    assert!(matches!(error, CompileError::TooCostly { what: "patterns", .. }), "{error}");
    let anchored = json!({
        "$ref": "#a",
        "$defs": {
            "a": {"$anchor": "a", "allOf": vec![json!({"$ref": "#b"}); 200]},
            "b": {"$anchor": "b", "allOf": vec![json!({"$ref": "#c"}); 200]},
            "c": {"$anchor": "c"},
        },
    });
    assert!(matches!(refused(&anchored), CompileError::TooCostly { .. }));
    let wide = |next: &str| json!({"allOf": vec![json!({"$ref": next}); 200]});
    let hidden = json!({
        "$ref": "https://x.test/b/s.json",
        "$defs": {
            "cheap": {"$id": "https://x.test/a/s.json"},
            "dear": {"$id": "https://x.test/b/s.json", "allOf": wide("#/$defs/more")["allOf"],
                "$defs": {"more": wide("#/$defs/most"), "most": wide("#/$defs/end"), "end": {}}},
        },
    });
    assert!(matches!(refused(&hidden), CompileError::TooCostly { .. }), "one name for two");
}

#[test]
fn a_schema_may_refer_to_itself() {
    let tree = validator(&json!({
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "left": {"$ref": "#"},
            "right": {"$ref": "#"},
        },
        "required": ["name"],
    }));
    tree.check(&json!({"name": "a", "left": {"name": "b", "right": {"name": "c"}}})).unwrap();
    let error = tree.check(&json!({"name": "a", "left": {"right": {"name": 7}}})).unwrap_err();
    let mut paths: Vec<&str> = error.violations().iter().map(|v| v.path.as_str()).collect();
    paths.sort_unstable();
    assert_eq!(paths, ["/left/name", "/left/right/name"]);
}

/// A value that a schema visits twice per level, which a naive checker does 2^60 times.
#[test]
fn a_recursive_bomb_is_checked_and_explained_in_bounded_time() {
    let twice = json!([{"properties": {"x": {"$ref": "#"}}}, {"properties": {"x": {"$ref": "#"}}}]);
    for keyword in ["allOf", "anyOf", "oneOf"] {
        let schema = validator(&json!({"type": "object", keyword: twice}));
        let deep = (0..60).fold(json!({}), |inner, _| json!({"x": inner}));
        let wrong = (0..60).fold(json!(7), |inner, _| json!({"x": inner}));
        assert_eq!(schema.fits(&deep), keyword != "oneOf", "{keyword}");
        let error = schema.check(&wrong).unwrap_err().to_string();
        assert!(error.contains("less nested"), "{error}");
    }
}

#[test]
fn odd_values_end_without_a_hang() {
    let distinct: Vec<Value> = (0..20_000).map(|n| json!({"n": n})).collect();
    validator(&json!({"uniqueItems": true})).check(&Value::Array(distinct)).unwrap();
    let tiny = validator(&json!({"multipleOf": 1e-300}));
    tiny.check(&json!(1e300)).err().map(|error| error.to_string());
    let huge = validator(&json!({"type": "array", "minItems": 4_000_000_000_u64}));
    assert!(!huge.fits(&json!([1])));
    let strings = validator(&json!({"type": "array", "items": {"type": "string"}}));
    let wrong = Value::Array(vec![json!(1); 300_000]);
    assert_eq!(strings.check(&wrong).unwrap_err().violations().len(), 1);
}

// D19: the message names path, expectation and value.
#[test]
fn a_misfit_says_where_what_was_expected_and_what_was_found() {
    let schema = json!({
        "type": "object",
        "properties": {
            "city": {"type": "string", "minLength": 2},
            "unit": {"enum": ["c", "f"]},
            "days": {"type": "integer", "minimum": 1, "maximum": 7},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "rows": {"type": "array", "items": {"type": "object", "required": ["id"]}},
            "code": {"type": "string", "pattern": "^[A-Z]+$"},
        },
        "required": ["city"],
        "additionalProperties": false,
    });
    let cases = [
        (json!({}), "`/city`: expected a value, it is required, found nothing"),
        (json!({"city": 7}), "`/city`: expected a string, found 7"),
        (json!({"city": "x"}), "`/city`: expected at least 2 characters, found \"x\""),
        (
            json!({"city": "Oslo", "unit": "k"}),
            "`/unit`: expected one of \"c\", \"f\", found \"k\"",
        ),
        (json!({"city": "Oslo", "days": 9}), "`/days`: expected at most 7, found 9"),
        (json!({"city": "Oslo", "note": 1}), "`/note`: expected a string or null, found 1"),
        (
            json!({"city": "Oslo", "rows": [{"id": 1}, {}]}),
            "`/rows/1/id`: expected a value, it is required, found nothing",
        ),
        (
            json!({"city": "Oslo", "code": "ab"}),
            "`/code`: expected text that matches `^[A-Z]+$`, found \"ab\"",
        ),
        (json!({"city": "Oslo", "a/b": true}), "`/a~1b`: expected no such name, found true"),
        (json!([1]), "expected an object, found an array of 1"),
    ];
    for (value, expected) in cases {
        assert_eq!(misfit(&schema, &value), expected);
    }
}

#[test]
fn a_misfit_is_short_whatever_the_value() {
    let schema = json!({"type": "object", "additionalProperties": {"type": "integer"}});
    let value = (0..500).map(|n| (format!("{n}{}", "k".repeat(900)), json!("v".repeat(900))));
    let error = validator(&schema).check(&Value::Object(value.collect())).unwrap_err();
    assert_eq!(error.violations().len(), 8);
    let text = error.to_string();
    assert!(text.ends_with("and 492 more") && text.len() < 4000, "{} bytes", text.len());
}

#[test]
fn of_several_alternatives_the_nearest_is_explained() {
    let schema = json!({"properties": {"by": {"oneOf": [
        {"type": "null"},
        {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]},
        {"type": "array", "items": {"type": "integer"}},
    ]}}});
    let wrong = |by: Value| misfit(&schema, &json!({"by": by}));
    assert_eq!(wrong(json!({"id": "7"})), "`/by/id`: expected an integer, found \"7\"");
    assert_eq!(wrong(json!([1, "2"])), "`/by/1`: expected an integer, found \"2\"");
    assert_eq!(wrong(json!("x")), "`/by`: expected null or an object or an array, found \"x\"");
}

const ARTIFACT: &str = "art_00000000000000000000000001";

#[test]
fn references_are_found_where_they_stand() {
    let whole = format!("{ARTIFACT}#/rows/0");
    let arguments = object(json!({
        "a/b": {"$ref": whole},
        "list": [1, {"$ref": ARTIFACT}, {"$ref": "art_x"}, {"$ref": ARTIFACT, "more": 1}],
        "text": ARTIFACT,
        "$ref": ARTIFACT,
    }));
    let found = find_references(&arguments);
    let found: Vec<_> =
        found.iter().map(|r| (r.place.as_str(), r.artifact.to_string(), r.part.as_str())).collect();
    let id = ARTIFACT.to_owned();
    assert_eq!(found, [("/a~1b", id.clone(), "/rows/0"), ("/list/1", id, "")]);
}

#[test]
fn what_a_reference_will_bring_is_not_judged_yet() {
    let schema = json!({
        "type": "object",
        "properties": {
            "rows": {"type": "array", "uniqueItems": true, "items": {"type": "integer"}},
            "by": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]},
            "city": {"type": "string"},
        },
    });
    let check = |value: Value| {
        let object = object(value);
        let places: Vec<_> = find_references(&object).into_iter().map(|r| r.place).collect();
        validator(&schema).check_object(object, &places).map_err(|error| error.to_string())
    };
    let reference = json!({"$ref": ARTIFACT});
    assert!(check(json!({"rows": reference})).is_ok());
    assert!(check(json!({"rows": [1, reference, reference]})).is_ok());
    assert!(check(json!({"by": ["a", reference]})).is_ok());
    let error = check(json!({"rows": [reference, "x"], "city": 7})).unwrap_err();
    assert!(error.contains("`/rows/1`") && error.contains("`/city`"), "{error}");
    assert!(check(json!({"by": [7, reference]})).is_err());
}
