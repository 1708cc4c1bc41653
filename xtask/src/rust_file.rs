//! A Rust file as tokens.
//!
//! Checks look at tokens and not at a syntax tree, because a syntax tree stops at macro calls:
//! the tests inside `proptest!` would be invisible. Tokens also keep what a string literal says
//! apart from code, which a scan of lines cannot do.

use proc_macro2::{Delimiter, Group, LexError, TokenStream, TokenTree};

use crate::tree::SourceFile;

pub(crate) struct RustFile<'a> {
    pub(crate) source: &'a SourceFile,
    tokens: Vec<TokenTree>,
}

impl<'a> RustFile<'a> {
    pub(crate) fn lex(source: &'a SourceFile) -> Result<RustFile<'a>, LexError> {
        let tokens = source.text.parse::<TokenStream>()?.into_iter().collect();
        Ok(RustFile { source, tokens })
    }

    /// The tokens outside every bracket.
    pub(crate) fn top_level(&self) -> &[TokenTree] {
        &self.tokens
    }

    /// Calls `visit` with the top level and with the inside of every bracket, outermost first.
    pub(crate) fn each_sequence(&self, mut visit: impl FnMut(&[TokenTree])) {
        each_sequence(&self.tokens, &mut visit);
    }

    /// Every function that has a body, however deep it stands.
    pub(crate) fn functions(&self) -> Vec<Function> {
        let mut functions = Vec::new();
        self.each_sequence(|tokens| {
            functions.extend((0..tokens.len()).filter_map(|at| Function::at(&tokens[at..])));
        });
        functions
    }
}

fn each_sequence(tokens: &[TokenTree], visit: &mut dyn FnMut(&[TokenTree])) {
    visit(tokens);
    for token in tokens {
        if let TokenTree::Group(group) = token {
            each_sequence(&inside(group), visit);
        }
    }
}

pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) first_line: usize,
    pub(crate) last_line: usize,
}

impl Function {
    /// Reads `fn name … { … }` from the start of `tokens`; a function pointer or a signature
    /// without a body is none.
    fn at(tokens: &[TokenTree]) -> Option<Function> {
        let [TokenTree::Ident(keyword), TokenTree::Ident(name), rest @ ..] = tokens else {
            return None;
        };
        if keyword != "fn" {
            return None;
        }
        let ends = |token: &&TokenTree| is_punct(token, ';') || brace_group(token).is_some();
        let body = rest.iter().find(ends).and_then(brace_group)?;
        Some(Function {
            name: name.to_string(),
            first_line: keyword.span().start().line,
            last_line: body.span_close().end().line,
        })
    }
}

/// One `#[…]` or `#![…]`; a doc comment is one too, as for the compiler.
#[derive(Clone)]
pub(crate) struct Attribute {
    pub(crate) line: usize,
    content: Group,
}

impl Attribute {
    /// Reads an attribute from the start of `tokens` and says how many tokens it takes.
    pub(crate) fn at(tokens: &[TokenTree]) -> Option<(Attribute, usize)> {
        let line = tokens.first()?.span().start().line;
        match tokens {
            [hash, TokenTree::Group(content), ..] if is_punct(hash, '#') => {
                Attribute::from_group(content, line).map(|attribute| (attribute, 2))
            }
            [hash, bang, TokenTree::Group(content), ..]
                if is_punct(hash, '#') && is_punct(bang, '!') =>
            {
                Attribute::from_group(content, line).map(|attribute| (attribute, 3))
            }
            _ => None,
        }
    }

    fn from_group(content: &Group, line: usize) -> Option<Attribute> {
        (content.delimiter() == Delimiter::Bracket)
            .then(|| Attribute { line, content: content.clone() })
    }

    /// The word before the arguments: `cfg` of `#[cfg(test)]`, `test` of `#[tokio::test]`.
    pub(crate) fn name(&self) -> String {
        let is_path =
            |token: &TokenTree| matches!(token, TokenTree::Ident(_)) || is_punct(token, ':');
        let path = self.content.stream().into_iter().take_while(is_path);
        path.filter_map(|token| ident(&token)).last().unwrap_or_default()
    }

    /// Whether this word stands anywhere in the attribute.
    pub(crate) fn mentions(&self, word: &str) -> bool {
        self.any_sequence(|tokens| tokens.iter().any(|token| is_ident(token, word)))
    }

    /// Whether `word(…)` stands anywhere in the attribute, so also inside `cfg_attr`.
    pub(crate) fn calls(&self, word: &str) -> bool {
        self.any_sequence(|tokens| {
            tokens
                .windows(2)
                .any(|pair| is_ident(&pair[0], word) && matches!(&pair[1], TokenTree::Group(_)))
        })
    }

    fn any_sequence(&self, holds: impl Fn(&[TokenTree]) -> bool) -> bool {
        let mut found = false;
        each_sequence(&inside(&self.content), &mut |tokens| found |= holds(tokens));
        found
    }
}

pub(crate) fn is_punct(token: &TokenTree, character: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == character)
}

pub(crate) fn is_ident(token: &TokenTree, word: &str) -> bool {
    matches!(token, TokenTree::Ident(ident) if ident == word)
}

pub(crate) fn ident(token: &TokenTree) -> Option<String> {
    match token {
        TokenTree::Ident(ident) => Some(ident.to_string()),
        TokenTree::Group(_) | TokenTree::Punct(_) | TokenTree::Literal(_) => None,
    }
}

pub(crate) fn brace_group(token: &TokenTree) -> Option<&Group> {
    match token {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => Some(group),
        TokenTree::Group(_) | TokenTree::Ident(_) | TokenTree::Punct(_) | TokenTree::Literal(_) => {
            None
        }
    }
}

fn inside(group: &Group) -> Vec<TokenTree> {
    group.stream().into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;

    #[track_caller]
    fn check_functions(text: &str, expected: &[(&str, usize, usize)]) {
        let tree = Tree::of(&[("a.rs", text)]);
        let file = RustFile::lex(tree.file("a.rs").unwrap()).unwrap();
        let found = file.functions();
        let found: Vec<_> =
            found.iter().map(|f| (f.name.as_str(), f.first_line, f.last_line)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_function_spans_from_its_keyword_to_its_brace() {
        check_functions("#[test]\nfn a(x: u8)\nwhere\n{\n}\n", &[("a", 2, 5)]);
    }

    #[test]
    fn functions_inside_macros_are_seen() {
        check_functions("proptest! {\n fn a(x in 0..1) {\n }\n}", &[("a", 2, 3)]);
    }

    #[test]
    fn pointers_signatures_and_strings_are_no_functions() {
        check_functions("type F = fn(u8) -> u8; trait T { fn a(); }", &[]);
        check_functions("const TEXT: &str = \"fn a() {}\";", &[]);
    }

    #[test]
    fn an_attribute_knows_its_path_and_its_words() {
        let tokens: TokenStream = "#[cfg_attr(test, allow(dead_code))]".parse().unwrap();
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let (attribute, length) = Attribute::at(&tokens).unwrap();
        assert_eq!((attribute.name().as_str(), length), ("cfg_attr", 2));
        assert!(attribute.mentions("dead_code") && attribute.calls("allow"));
        assert!(!attribute.calls("dead_code"));
    }
}
