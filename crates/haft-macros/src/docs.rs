//! Doc comments: what a programmer writes for programmers and models alike.

use syn::{Attribute, Expr, ExprLit, Lit, Meta};

/// Returns what the model reads of a doc comment: all of it up to the first heading, since what
/// stands below `# Errors` or `# Examples` is for programmers. Lines of a paragraph are joined.
pub(crate) fn text(attrs: &[Attribute]) -> String {
    let written: Vec<String> = attrs.iter().filter_map(line).collect();
    let mut text = String::new();
    for line in written.iter().flat_map(|doc| doc.split('\n')) {
        let line = line.strip_prefix(' ').unwrap_or(line).trim_end();
        if line.starts_with("# ") {
            break;
        }
        let ends_paragraph = text.is_empty() || text.ends_with('\n');
        match line {
            "" if !ends_paragraph => text.push_str("\n\n"),
            "" => {}
            _ if ends_paragraph => text.push_str(line),
            _ if is_own_line(line) => text.push_str(&format!("\n{line}")),
            _ => text.push_str(&format!(" {}", line.trim_start())),
        }
    }
    text.trim().to_owned()
}

/// Returns whether an attribute is a line of documentation.
pub(crate) fn is_doc(attr: &Attribute) -> bool {
    attr.path().is_ident("doc")
}

fn line(attr: &Attribute) -> Option<String> {
    let Meta::NameValue(meta) = &attr.meta else { return None };
    let Expr::Lit(ExprLit { lit: Lit::Str(doc), .. }) = &meta.value else { return None };
    is_doc(attr).then(|| doc.value())
}

/// Returns whether a line of Markdown starts something, so that joining it would change it.
fn is_own_line(line: &str) -> bool {
    let numbered = line.split_once(". ").is_some_and(|(n, _)| n.parse::<u32>().is_ok());
    numbered
        || ["- ", "* ", "+ ", "|", ">", "```", "    "].iter().any(|mark| line.starts_with(mark))
}
