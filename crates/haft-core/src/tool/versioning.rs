//! Whether a definition's version says what changed (document 001's neighbours).

use super::definition::{Definition, Problem};

/// Returns what the new version number fails to say about the change: a changed schema asks for
/// a new major version, changed wording for a new minor one.
pub fn version_problems(old: &Definition, new: &Definition) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut report = |found: String, fix| problems.push(Problem { field: "version", found, fix });
    let hash = |schema: &Option<super::Schema>| schema.as_ref().map(super::Schema::hash);
    let schema = old.input_schema.hash() != new.input_schema.hash()
        || hash(&old.output_schema) != hash(&new.output_schema);
    let wording = old.description != new.description || old.routing != new.routing;
    let number = |definition: &Definition| {
        let version = &definition.version;
        (version.major, version.minor, version.patch)
    };
    if number(new) < number(old) {
        report(format!("{} comes before {}", new.version, old.version), "count upwards");
    } else if schema && new.version.major == old.version.major {
        report(format!("the schema changed under {}", new.version), "raise the major number");
    } else if wording
        && (new.version.major, new.version.minor) == (old.version.major, old.version.minor)
    {
        report(format!("the wording changed under {}", new.version), "raise the minor number");
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::Schema;

    // S1-28: a changed schema with an unchanged major version is reported.
    #[test]
    fn s1_28_a_version_that_hides_a_change_is_reported() {
        let schema = |text| Schema::new(text).unwrap();
        let old = Definition::new("x".parse().unwrap(), "Does it.", schema(r#"{"type":"object"}"#));
        let check = |version: &str, change: fn(&mut Definition), expected: &[&str]| {
            let mut new = old.clone();
            new.version = version.parse().unwrap();
            change(&mut new);
            let found: Vec<_> = version_problems(&old, &new).iter().map(|p| p.fix).collect();
            assert_eq!(found, expected, "{version}");
        };
        let widen: fn(&mut Definition) =
            |d| d.input_schema = Schema::new(r#"{"type":"object","title":"x"}"#).unwrap();
        let reword: fn(&mut Definition) = |d| d.description = "Does that.".into();
        check("1.0.0", |_| {}, &[]);
        check("1.0.1", |_| {}, &[]);
        check("1.9.9", widen, &["raise the major number"]);
        check("2.0.0", widen, &[]);
        check("1.0.1", reword, &["raise the minor number"]);
        check("1.1.0", reword, &[]);
        check("0.9.0", |_| {}, &["count upwards"]);
    }
}
