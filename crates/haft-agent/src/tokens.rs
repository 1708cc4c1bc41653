//! Counting tokens, by the vocabulary of OpenAI's newer models.
//!
//! Other vendors publish none; theirs are close enough for a budget, and what a provider reports
//! afterwards is what was used. The crate counts in linear time, whatever the text: an answer of
//! a million spaces costs no more than another.

/// Returns how many tokens a text is.
pub fn count(text: &str) -> usize {
    bpe_openai::o200k_base().count(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_about_a_token_each() {
        assert_eq!(count(""), 0);
        assert_eq!(count("hello world"), 2);
        assert!(count(&" ".repeat(200_000)) < 10_000);
    }
}
