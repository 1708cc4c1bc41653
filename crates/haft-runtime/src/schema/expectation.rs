//! What a schema expected of a value, in words.

use jsonschema::error::{TypeKind, ValidationErrorKind as Kind};
use jsonschema::{JsonType, ValidationError};
use serde_json::Value;

use super::misfit::{Violation, clip, describe};

/// How much of a list of choices or of a pattern is told.
const TEXT_CHARS: usize = 200;
/// How long a path may be; a key is the model's own text.
const PATH_CHARS: usize = 200;

/// Returns what one error says, place by place.
pub(super) fn violations(error: &ValidationError<'_>) -> Vec<Violation> {
    let here = error.instance_path().as_str();
    let found = error.instance();
    match error.kind() {
        Kind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            vec![violation(&below(here, name), "a value, it is required", "nothing")]
        }
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            let surplus = |name: &String| {
                let value = found.get(name).map(describe);
                let value = value.unwrap_or_else(|| "a value".to_owned());
                violation(&below(here, name), "no such name", &value)
            };
            unexpected.iter().map(surplus).collect()
        }
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => alternatives(error, context),
        Kind::PropertyNames { error: name } => {
            let expected = format!("names that are {}", expected(name.kind()));
            vec![violation(here, &expected, &describe(name.instance()))]
        }
        kind => vec![violation(here, &expected(kind), &describe(found))],
    }
}

fn violation(path: &str, expected: &str, found: &str) -> Violation {
    Violation {
        path: clip(path, PATH_CHARS),
        expected: expected.to_owned(),
        found: found.to_owned(),
    }
}

fn below(path: &str, name: &str) -> String {
    format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// None of several alternatives fits. If all of them want another type, that is what to say; else
/// the alternative that the value comes nearest to, which is the one that fails deepest inside.
fn alternatives(
    error: &ValidationError<'_>,
    branches: &[Vec<ValidationError<'static>>],
) -> Vec<Violation> {
    let here = error.instance_path().as_str();
    let type_only = |branch: &Vec<ValidationError<'_>>| match branch.as_slice() {
        [one] if one.instance_path().as_str() == here => match one.kind() {
            Kind::Type { .. } | Kind::Constant { .. } | Kind::Enum { .. } => {
                Some(expected(one.kind()))
            }
            _ => None,
        },
        _ => None,
    };
    if let Some(mut wanted) = branches.iter().map(type_only).collect::<Option<Vec<String>>>() {
        wanted.dedup();
        let wanted = clip(&wanted.join(" or "), TEXT_CHARS);
        return vec![violation(here, &wanted, &describe(error.instance()))];
    }
    let depth = |branch: &&Vec<ValidationError<'_>>| {
        let depths = branch.iter().map(|error| error.instance_path().as_str().matches('/').count());
        let right_type = branch.iter().all(|error| !is_other_type(error, here));
        (right_type, depths.max(), std::cmp::Reverse(branch.len()))
    };
    // Of equals the first: schemas put the usual case first.
    let nearest = branches.iter().rev().max_by_key(depth);
    let told: Vec<Violation> = nearest.into_iter().flatten().flat_map(violations).collect();
    if told.is_empty() {
        return vec![violation(here, "one of the alternatives", &describe(error.instance()))];
    }
    told
}

fn is_other_type(error: &ValidationError<'_>, here: &str) -> bool {
    matches!(error.kind(), Kind::Type { .. }) && error.instance_path().as_str() == here
}

fn expected(kind: &Kind) -> String {
    match kind {
        Kind::Type { kind: TypeKind::Single(one) } => with_article(*one).to_owned(),
        Kind::Type { kind: TypeKind::Multiple(several) } => {
            several.iter().map(with_article).collect::<Vec<_>>().join(" or ")
        }
        Kind::Enum { options } => format!("one of {}", listed(options)),
        Kind::Constant { expected_value } => clip(&expected_value.to_string(), TEXT_CHARS),
        Kind::Minimum { limit } => format!("at least {limit}"),
        Kind::Maximum { limit } => format!("at most {limit}"),
        Kind::ExclusiveMinimum { limit } => format!("more than {limit}"),
        Kind::ExclusiveMaximum { limit } => format!("less than {limit}"),
        Kind::MultipleOf { multiple_of } => format!("a multiple of {multiple_of}"),
        Kind::MinLength { limit } => format!("at least {limit} characters"),
        Kind::MaxLength { limit } => format!("at most {limit} characters"),
        Kind::MinItems { limit } => format!("at least {limit} items"),
        Kind::MaxItems { limit } => format!("at most {limit} items"),
        Kind::AdditionalItems { limit } => format!("at most {limit} items"),
        Kind::UnevaluatedItems { .. } => "no further items".to_owned(),
        Kind::MinProperties { limit } => format!("at least {limit} members"),
        Kind::MaxProperties { limit } => format!("at most {limit} members"),
        Kind::Pattern { pattern } => {
            format!("text that matches `{}`", clip(pattern, TEXT_CHARS))
        }
        Kind::Format { format } => format!("text in the format `{}`", clip(format, TEXT_CHARS)),
        Kind::UniqueItems => "items that all differ".to_owned(),
        Kind::Contains => "an item of the kind that `contains` describes".to_owned(),
        Kind::Not { schema } => {
            format!("anything but what fits {}", clip(&schema.to_string(), TEXT_CHARS))
        }
        Kind::OneOfMultipleValid { .. } => "exactly one of the alternatives".to_owned(),
        Kind::FalseSchema => "no value here".to_owned(),
        other => format!("what `{}` asks for", other.keyword()),
    }
}

fn listed(options: &Value) -> String {
    let options = options.as_array().map(Vec::as_slice).unwrap_or_default();
    let texts: Vec<String> = options.iter().map(ToString::to_string).collect();
    clip(&texts.join(", "), TEXT_CHARS)
}

fn with_article(kind: JsonType) -> &'static str {
    match kind {
        JsonType::Array => "an array",
        JsonType::Boolean => "a boolean",
        JsonType::Integer => "an integer",
        JsonType::Null => "null",
        JsonType::Number => "a number",
        JsonType::Object => "an object",
        JsonType::String => "a string",
    }
}
