//! What models are called: `openai/NAME`, `anthropic/NAME`, `scripted/NAME`.

use std::fmt;
use std::str::FromStr;

/// Whose API a model is behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Vendor {
    /// Anthropic's, or one that speaks like it.
    Anthropic,
    /// OpenAI's, or one that speaks like it.
    OpenAi,
    /// A script; no model at all.
    Scripted,
}

impl Vendor {
    const ALL: [Self; 3] = [Self::Anthropic, Self::OpenAi, Self::Scripted];

    /// Returns the word before the slash, which is also the vendor's name in traces.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAi => "openai",
            Self::Scripted => "scripted",
        }
    }
}

/// The name of a model, with whose it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ModelName {
    /// Whose.
    pub vendor: Vendor,
    /// Its name there.
    pub name: String,
}

/// Why a text is not a model's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected a model as `openai/NAME`, `anthropic/NAME` or `scripted/NAME`, or a name that \
     starts with `claude`, `gpt` or `o` and a digit, found {found:?}"
)]
pub struct ModelNameError {
    found: String,
}

impl FromStr for ModelName {
    type Err = ModelNameError;

    fn from_str(text: &str) -> Result<Self, ModelNameError> {
        let error = || ModelNameError { found: text.chars().take(80).collect() };
        let named = text.split_once('/').and_then(|(word, name)| {
            let vendor = Vendor::ALL.into_iter().find(|vendor| vendor.as_str() == word)?;
            Some((vendor, name))
        });
        let (vendor, name) = match named {
            Some(named) => named,
            None => (bare_vendor(text).ok_or_else(error)?, text),
        };
        if name.is_empty() || name.chars().any(char::is_control) {
            return Err(error());
        }
        Ok(Self { vendor, name: name.to_owned() })
    }
}

fn bare_vendor(name: &str) -> Option<Vendor> {
    let is_o_series = || {
        let rest = name.strip_prefix('o');
        rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    if name.starts_with("claude") {
        Some(Vendor::Anthropic)
    } else if name.starts_with("gpt") || is_o_series() {
        Some(Vendor::OpenAi)
    } else {
        None
    }
}

impl fmt::Display for ModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.vendor.as_str(), self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_found_by_its_vendor_or_by_how_it_starts() {
        for (text, expected) in [
            ("openai/local", "openai/local"),
            ("openai/org/model:7b", "openai/org/model:7b"),
            ("anthropic/gpt-x", "anthropic/gpt-x"),
            ("scripted/demo", "scripted/demo"),
            ("claude-x", "anthropic/claude-x"),
            ("gpt-5", "openai/gpt-5"),
            ("o3-mini", "openai/o3-mini"),
        ] {
            assert_eq!(text.parse::<ModelName>().unwrap().to_string(), expected);
        }
    }

    #[test]
    fn a_name_that_belongs_to_nobody_is_refused() {
        for text in ["", "llama", "openai/", "opus", "other/x", "OpenAI/x"] {
            let error = text.parse::<ModelName>().unwrap_err().to_string();
            assert!(error.contains("openai/NAME") && error.contains(&format!("{text:?}")));
        }
    }
}
