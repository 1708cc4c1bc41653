//! Values inside the attribute: what rustc has no type for is checked here, at its own span.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::parse::{Parse, ParseStream};
use syn::{Ident, LitStr, Path, Token, parenthesized};

/// Makes an error at a place.
pub(crate) fn error(span: Span, message: impl std::fmt::Display) -> syn::Error {
    syn::Error::new(span, message)
}

/// Makes an error at something that may have several tokens.
pub(crate) fn error_at(
    tokens: impl quote::ToTokens,
    message: impl std::fmt::Display,
) -> syn::Error {
    syn::Error::new_spanned(tokens, message)
}

/// A text in quotes.
pub(crate) fn text(input: ParseStream<'_>) -> syn::Result<LitStr> {
    input.parse().map_err(|cause: syn::Error| error(cause.span(), "expected a text in quotes"))
}

/// A span of time in milliseconds, within bounds.
pub(crate) fn duration(text: &LitStr, bounds: std::ops::RangeInclusive<u64>) -> syn::Result<u64> {
    let found = text.value();
    let ms = milliseconds(&found).ok_or_else(|| {
        let wanted = "a duration such as \"500ms\", \"30s\", \"10m\", \"1h30m\" or \"7d\"";
        error(text.span(), format!("expected {wanted}, found \"{found}\""))
    })?;
    if bounds.contains(&ms) {
        return Ok(ms);
    }
    let (least, most) = (readable(*bounds.start()), readable(*bounds.end()));
    Err(error(
        text.span(),
        format!("expected a duration from {least} to {most}, found \"{found}\""),
    ))
}

fn milliseconds(text: &str) -> Option<u64> {
    let mut rest = text;
    let mut total = 0u64;
    while !rest.is_empty() || text.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, after) = rest.split_at_checked(digits)?;
        let letters =
            after.len() - after.trim_start_matches(|c: char| c.is_ascii_lowercase()).len();
        let (unit, after) = after.split_at_checked(letters)?;
        let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit)?;
        total = total.checked_add(number.parse::<u64>().ok()?.checked_mul(*factor)?)?;
        rest = after;
    }
    Some(total)
}

const UNITS: [(&str, u64); 5] =
    [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

fn readable(ms: u64) -> String {
    let fitting =
        UNITS.iter().rev().find(|(_, factor)| ms >= *factor && ms.is_multiple_of(*factor));
    fitting.map_or_else(|| format!("{ms}ms"), |(unit, factor)| format!("{}{unit}", ms / factor))
}

/// A tool's canonical name.
pub(crate) fn checked_name(name: &str, span: Span) -> syn::Result<()> {
    let canonical = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let starts = name.starts_with(|c: char| c.is_ascii_lowercase());
    if starts && name.len() <= 64 && name.chars().all(canonical) {
        return Ok(());
    }
    let wanted = "a tool name in snake_case, `[a-z][a-z0-9_]*`, of at most 64 characters";
    Err(error(span, format!("expected {wanted}, found `{name}`")))
}

/// A semantic version, as the fields of a `Version`.
pub(crate) fn version(text: &LitStr) -> syn::Result<TokenStream> {
    let found = text.value();
    let wrong =
        || error(text.span(), format!("expected a version such as \"1.4.0\", found \"{found}\""));
    let (core, pre) = match found.split_once('-') {
        Some((core, pre)) => (core, Some(pre)),
        None => (found.as_str(), None),
    };
    let tag = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-';
    if pre.is_some_and(|pre| pre.is_empty() || !pre.chars().all(tag)) {
        return Err(wrong());
    }
    let plain = |part: &str| part == "0" || !part.starts_with('0');
    let numbers = core.split('.').map(|part| part.parse::<u32>().ok().filter(|_| plain(part)));
    let numbers = numbers.collect::<Option<Vec<u32>>>().ok_or_else(wrong)?;
    let [major, minor, patch] = numbers[..] else { return Err(wrong()) };
    let pre = match pre {
        Some(pre) => quote!(::core::option::Option::Some(#pre.into())),
        None => quote!(::core::option::Option::None),
    };
    Ok(quote!(__haft::Version { major: #major, minor: #minor, patch: #patch, pre: #pre }))
}

/// A JSON pointer.
pub(crate) fn pointer(text: &LitStr) -> syn::Result<TokenStream> {
    let found = text.value();
    let rooted = found.is_empty() || found.starts_with('/');
    let escaped = found.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
    if rooted && escaped {
        return Ok(quote!(__haft::pointer(#text)));
    }
    Err(error(text.span(), format!("expected a JSON pointer such as \"/id\", found \"{found}\"")))
}

/// Another tool: by its name, or by the path of its function.
pub(crate) enum ToolRef {
    Name(LitStr),
    Path(Path),
}

impl Parse for ToolRef {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        if input.peek(LitStr) {
            let name: LitStr = input.parse()?;
            checked_name(&name.value(), name.span())?;
            return Ok(Self::Name(name));
        }
        if input.peek(Ident) || input.peek(Token![::]) || input.peek(Token![crate]) {
            return Ok(Self::Path(input.parse()?));
        }
        let wanted = "another tool: its name in quotes, or the path of its function";
        Err(error(input.span(), format!("expected {wanted}")))
    }
}

impl ToolRef {
    /// Returns its name, as an expression.
    pub(crate) fn name(&self) -> TokenStream {
        match self {
            Self::Name(name) => quote!(__haft::tool_name(#name)),
            Self::Path(path) => quote!(__haft::tool_name(<#path>::NAME)),
        }
    }
}

/// One word of a list.
pub(crate) fn word<T: Copy>(input: ParseStream<'_>, choices: &[(&str, T)]) -> syn::Result<T> {
    let listed = || choices.iter().map(|(name, _)| format!("`{name}`")).collect::<Vec<_>>();
    let wrong = |found: String| format!("expected one of {}{found}", listed().join(", "));
    let Ok(found) = input.call(syn::ext::IdentExt::parse_any) else {
        return Err(error(input.span(), wrong(String::new())));
    };
    let found: Ident = found;
    let chosen = choices.iter().find(|(name, _)| found == name).map(|(_, choice)| *choice);
    chosen.ok_or_else(|| error(found.span(), wrong(format!(", found `{found}`"))))
}

/// Something in parentheses, separated by commas.
pub(crate) fn list<T>(
    input: ParseStream<'_>,
    item: impl Fn(ParseStream<'_>) -> syn::Result<T>,
) -> syn::Result<Vec<T>> {
    let content;
    parenthesized!(content in input);
    let mut items = Vec::new();
    while !content.is_empty() {
        items.push(item(&content)?);
        if !content.is_empty() {
            content.parse::<Token![,]>()?;
        }
    }
    Ok(items)
}
