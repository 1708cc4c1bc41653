//! A shell text that is exactly one command of plain words, or none of our business.
//!
//! The shell's grammar is not read but avoided: only what stands for itself in every shell is taken.
//! So there is no operator, expansion, glob or redirection to be understood wrongly.

/// The longest text looked at.
const MAX_TEXT: usize = 4096;
/// The most words.
const MAX_WORDS: usize = 64;

/// Words that begin something else than a command.
const RESERVED: &[&str] = &[
    "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "in",
    "select", "then", "time", "until", "while",
];

/// The words of a text that is one simple command without anything that a shell would act on.
///
/// Quotes are taken where nothing in them is special.
pub fn simple_command(text: &str) -> Option<Vec<String>> {
    if text.len() > MAX_TEXT {
        return None;
    }
    let mut words = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([' ', '\t']);
        if rest.is_empty() {
            break;
        }
        let (word, after) = word(rest)?;
        words.push(word);
        rest = after;
        if words.len() > MAX_WORDS {
            return None;
        }
    }
    let first = words.first()?;
    let a_name = !first.is_empty() && !first.contains('=') && !RESERVED.contains(&first.as_str());
    a_name.then_some(words)
}

/// One word, pieced together from what is quoted and what is not, and what follows it.
fn word(text: &str) -> Option<(String, &str)> {
    let mut word = String::new();
    let mut rest = text;
    loop {
        let mut chars = rest.chars();
        match chars.next() {
            None | Some(' ' | '\t') => return Some((word, rest)),
            Some(quote @ ('\'' | '"')) => {
                let (inside, after) = chars.as_str().split_once(quote)?;
                if !inside.chars().all(|char| stands_for_itself_in(quote, char)) {
                    return None;
                }
                word.push_str(inside);
                rest = after;
            }
            Some(char) if stands_for_itself(char) => {
                word.push(char);
                rest = chars.as_str();
            }
            Some(_) => return None,
        }
    }
}

fn stands_for_itself(char: char) -> bool {
    char.is_ascii_alphanumeric() || "_-./,:+@%=".contains(char)
}

fn stands_for_itself_in(quote: char, char: char) -> bool {
    !char.is_control() && (quote == '\'' || !"$`\\!".contains(char))
}
