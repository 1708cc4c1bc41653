//! How two texts differ: by their lines, as a unified diff, and how alike they are by their
//! characters.
//!
//! Whatever is compared is numbered first, so that the search is compiled once.

use std::collections::HashMap;

use similar::algorithms::{Capture, Compact, DiffHook, Replace, myers};
use similar::{DiffOp, DiffTag, diff_ratio, group_diff_ops};

/// How many lines are shown around a change.
const AROUND: usize = 3;
/// How many lines or characters are compared, of both texts. The search takes at most about n√n
/// steps, but may take them all before it finds the first change and asks whether it is enough.
const COMPARED_MAX: usize = 1 << 20;
/// Stands for every new line that the old text does not have: they need not be told apart.
const NOT_IN_OLD: u32 = u32::MAX;

/// Returns the change from one text to another as a unified diff with three lines around each
/// change; nothing where there is none. Only LF ends a line.
///
/// `is_enough` is asked again and again; once it says so, all that is left to compare is told as
/// one change.
pub fn unified(
    [old_name, new_name]: [&str; 2],
    old: &str,
    new: &str,
    is_enough: &dyn Fn() -> bool,
) -> String {
    let old: Vec<&str> = old.split_inclusive('\n').collect();
    let new: Vec<&str> = new.split_inclusive('\n').collect();
    let mut told = String::new();
    for hunk in group_diff_ops(line_changes(&old, &new, is_enough), AROUND) {
        let (Some(first), Some(last)) = (hunk.first(), hunk.last()) else { continue };
        if told.is_empty() {
            told = format!("--- {old_name}\n+++ {new_name}\n");
        }
        let old_lines = lines(first.old_range().start, last.old_range().end);
        let new_lines = lines(first.new_range().start, last.new_range().end);
        told.push_str(&format!("@@ -{old_lines} +{new_lines} @@\n"));
        for change in &hunk {
            let (tag, was, is) = change.as_tag_tuple();
            match tag {
                DiffTag::Equal => tell(&mut told, ' ', &old[was]),
                DiffTag::Delete | DiffTag::Insert | DiffTag::Replace => {
                    tell(&mut told, '-', &old[was]);
                    tell(&mut told, '+', &new[is]);
                }
            }
        }
    }
    told
}

/// Returns how alike two texts are by their characters: 1 where they are the same, 0 where they
/// have nothing in common.
///
/// `is_enough` is asked again and again; once it says so, all that is left to compare counts as
/// different.
pub fn likeness(old: &str, new: &str, is_enough: &dyn Fn() -> bool) -> f32 {
    let old: Vec<u32> = old.chars().map(u32::from).collect();
    let new: Vec<u32> = new.chars().map(u32::from).collect();
    let mut script = Script { before: 0, found: Vec::new(), is_enough };
    if is_comparable(old.len(), new.len()) {
        script.search(&old, &new);
    }
    diff_ratio(&script.found, old.len(), new.len())
}

/// Where a hunk is: the line it begins with, from 1, and how many it has. One of no lines stands
/// behind the line that it names.
fn lines(start: usize, end: usize) -> String {
    match end.saturating_sub(start) {
        0 => format!("{start},0"),
        1 => (start + 1).to_string(),
        count => format!("{},{count}", start + 1),
    }
}

fn tell(told: &mut String, sign: char, lines: &[&str]) {
    for line in lines {
        told.push(sign);
        told.push_str(line);
        if !line.ends_with('\n') {
            told.push_str("\n\\ No newline at end of file\n");
        }
    }
}

fn line_changes(old: &[&str], new: &[&str], is_enough: &dyn Fn() -> bool) -> Vec<DiffOp> {
    let same = |(old, new): &(&&str, &&str)| old == new;
    let before = old.iter().zip(new).take_while(same).count();
    let (old_rest, new_rest) = (&old[before..], &new[before..]);
    let after = old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(same).count();
    let (old_end, new_end) = (old.len() - after, new.len() - after);
    let (old_between, new_between) = (&old[before..old_end], &new[before..new_end]);
    let mut script = Script { before, found: Vec::new(), is_enough };
    if before > 0 {
        script.found.push(DiffOp::Equal { old_index: 0, new_index: 0, len: before });
    }
    // Most changes leave most of a file as it is; only what is between is numbered.
    if is_comparable(old_between.len(), new_between.len()) {
        let (old_ids, new_ids) = numbered(old_between, new_between);
        script.search(&old_ids, &new_ids);
    }
    let mut found = script.closed(old_end, new_end);
    if after > 0 {
        found.push(DiffOp::Equal { old_index: old_end, new_index: new_end, len: after });
    }
    let mut tidied = Compact::new(Replace::new(Capture::new()), old, new);
    for change in found {
        let Ok(()) = change.apply_to_hook(&mut tidied);
    }
    let Ok(()) = tidied.finish();
    tidied.into_inner().into_inner().into_ops()
}

fn numbered(old: &[&str], new: &[&str]) -> (Vec<u32>, Vec<u32>) {
    let mut ids = HashMap::with_capacity(old.len());
    let old_ids = old.iter().map(|line| {
        let next = u32::try_from(ids.len()).unwrap_or(NOT_IN_OLD);
        *ids.entry(*line).or_insert(next)
    });
    let old_ids = old_ids.collect();
    let new_ids = new.iter().map(|line| ids.get(line).copied().unwrap_or(NOT_IN_OLD)).collect();
    (old_ids, new_ids)
}

fn is_comparable(old_len: usize, new_len: usize) -> bool {
    old_len + new_len <= COMPARED_MAX
}

/// The changes that were found, from the beginning of the texts on and without a gap.
struct Script<'a> {
    /// How many are the same at the beginning of both and not searched.
    before: usize,
    found: Vec<DiffOp>,
    is_enough: &'a dyn Fn() -> bool,
}

/// The search has gone on for long enough.
struct Enough;

impl Script<'_> {
    /// Finds the changes, or those up to where it was enough.
    fn search(&mut self, old: &[u32], new: &[u32]) {
        myers::diff(self, old, 0..old.len(), new, 0..new.len()).unwrap_or(());
    }

    /// Tells all that was not found out as one change.
    fn closed(self, old_end: usize, new_end: usize) -> Vec<DiffOp> {
        let mut found = self.found;
        let old_index = found.iter().map(|change| change.old_range().end).max().unwrap_or(0);
        let new_index = found.iter().map(|change| change.new_range().end).max().unwrap_or(0);
        if old_index < old_end {
            found.push(DiffOp::Delete { old_index, old_len: old_end - old_index, new_index });
        }
        if new_index < new_end {
            let new_len = new_end - new_index;
            found.push(DiffOp::Insert { old_index: old_end, new_index, new_len });
        }
        found
    }

    fn push(&mut self, change: DiffOp) -> Result<(), Enough> {
        self.found.push(change);
        if (self.is_enough)() { Err(Enough) } else { Ok(()) }
    }
}

impl DiffHook for Script<'_> {
    type Error = Enough;

    fn equal(&mut self, old_index: usize, new_index: usize, len: usize) -> Result<(), Enough> {
        let (old_index, new_index) = (self.before + old_index, self.before + new_index);
        self.push(DiffOp::Equal { old_index, new_index, len })
    }

    fn delete(&mut self, old_index: usize, old_len: usize, new_index: usize) -> Result<(), Enough> {
        let (old_index, new_index) = (self.before + old_index, self.before + new_index);
        self.push(DiffOp::Delete { old_index, old_len, new_index })
    }

    fn insert(&mut self, old_index: usize, new_index: usize, new_len: usize) -> Result<(), Enough> {
        let (old_index, new_index) = (self.before + old_index, self.before + new_index);
        self.push(DiffOp::Insert { old_index, new_index, new_len })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::Cell;

    const NAMES: [&str; 2] = ["was", "is"];

    #[track_caller]
    fn check(old: &str, new: &str, hunks: &str) {
        let names = if hunks.is_empty() { "" } else { "--- was\n+++ is\n" };
        assert_eq!(unified(NAMES, old, new, &|| false), format!("{names}{hunks}"));
        assert_eq!(patched(old, hunks), new);
    }

    /// Reads where a side of a hunk begins, from 0.
    fn start_of(range: &str) -> usize {
        let (line, count) = range[1..].split_once(',').unwrap_or_else(|| (&range[1..], "1"));
        let line: usize = line.parse().unwrap();
        if count == "0" { line } else { line - 1 }
    }

    /// Applies hunks, and checks that they are about the text that they are applied to.
    fn patched(old: &str, hunks: &str) -> String {
        let old: Vec<&str> = old.split_inclusive('\n').collect();
        let lines: Vec<&str> = hunks.split_inclusive('\n').collect();
        let (mut new, mut taken) = (String::new(), 0);
        for (at, line) in lines.iter().enumerate() {
            let is_cut = lines.get(at + 1).is_some_and(|next| next.starts_with('\\'));
            let line = if is_cut { line.strip_suffix('\n').unwrap() } else { line };
            let (sign, text) = line.split_at(1);
            match sign {
                "@" => {
                    let ranges: Vec<&str> = text.split(' ').collect();
                    let start = start_of(ranges[1]);
                    new.extend(old[taken..start].iter().copied());
                    taken = start;
                    assert_eq!(new.split_inclusive('\n').count(), start_of(ranges[2]), "{hunks}");
                }
                "+" => new.push_str(text),
                " " | "-" => {
                    assert_eq!(old[taken], text, "{hunks}");
                    taken += 1;
                    new.push_str(if sign == " " { text } else { "" });
                }
                _ => assert_eq!(line, "\\ No newline at end of file\n"),
            }
        }
        new.extend(old[taken..].iter().copied());
        new
    }

    /// Lines of their numbers, but for some.
    fn numbers(count: usize, others: &[(usize, &str)]) -> String {
        let line = |at: usize| match others.iter().find(|(other, _)| *other == at) {
            Some((_, text)) => format!("{text}\n"),
            None => format!("{at}\n"),
        };
        (1..=count).map(line).collect()
    }

    #[test]
    fn equal_texts_have_no_diff() {
        check("", "", "");
        check("a", "a", "");
        check("a\nb\n", "a\nb\n", "");
        check(&numbers(50, &[]), &numbers(50, &[]), "");
    }

    #[test]
    fn a_side_may_be_empty() {
        check("", "a\nb\n", "@@ -0,0 +1,2 @@\n+a\n+b\n");
        check("a\nb\n", "", "@@ -1,2 +0,0 @@\n-a\n-b\n");
        check("", "\n", "@@ -0,0 +1 @@\n+\n");
    }

    #[test]
    fn a_last_line_without_an_end_is_told() {
        let cut = "\\ No newline at end of file";
        check("a", "a\n", &format!("@@ -1 +1 @@\n-a\n{cut}\n+a\n"));
        check("a\n", "a", &format!("@@ -1 +1 @@\n-a\n+a\n{cut}\n"));
        check("a\nb", "c\nb", &format!("@@ -1,2 +1,2 @@\n-a\n+c\n b\n{cut}\n"));
    }

    #[test]
    fn a_lone_carriage_return_ends_no_line() {
        check("a\rb\n", "a\rc\n", "@@ -1 +1 @@\n-a\rb\n+a\rc\n");
        check("a\r\nb\r\n", "a\r\nc\r\n", "@@ -1,2 +1,2 @@\n a\r\n-b\r\n+c\r\n");
    }

    #[test]
    fn changes_far_from_each_other_are_hunks_of_their_own() {
        let (old, new) = (numbers(12, &[]), numbers(12, &[(2, "two"), (11, "eleven")]));
        check(
            &old,
            &new,
            "@@ -1,5 +1,5 @@\n 1\n-2\n+two\n 3\n 4\n 5\n\
             @@ -8,5 +8,5 @@\n 8\n 9\n 10\n-11\n+eleven\n 12\n",
        );
    }

    #[test]
    fn what_is_left_when_it_is_enough_is_one_change() {
        let (old, new) = (numbers(30, &[]), numbers(30, &[(2, "two"), (29, "other")]));
        let told = unified(NAMES, &old, &new, &|| true);
        assert_eq!(told.matches("@@ -").count(), 1, "{told}");
        assert!(told.contains("\n-15\n") && told.contains("\n+15\n"), "{told}");
        assert!(told.ends_with("+other\n 30\n"), "{told}");
    }

    #[test]
    fn what_is_too_much_to_compare_is_one_change() {
        let count = COMPARED_MAX / 2 + 2;
        let (old, new) = (numbers(count, &[]), numbers(count, &[(1, "one"), (count, "last")]));
        let told = unified(NAMES, &old, &new, &|| false);
        let header = format!("--- was\n+++ is\n@@ -1,{count} +1,{count} @@\n-1\n-2\n");
        assert!(told.starts_with(&header), "{:?}", told.get(..100));
        let fewer = numbers(count, &[(1, "one"), (9, "nine")]);
        assert!(unified(NAMES, &old, &fewer, &|| false).len() < 200, "the same end is no change");
    }

    #[test]
    fn likeness_is_the_share_of_characters_in_common() {
        let likeness = |old, new| likeness(old, new, &|| false);
        assert_eq!(likeness("", ""), 1.0);
        assert_eq!(likeness("é", "é"), 1.0);
        assert_eq!(likeness("abcd", "bcde"), 0.75);
        assert_eq!(likeness("abc", "xyz"), 0.0);
        assert_eq!(likeness("a", ""), 0.0);
    }

    proptest! {
        /// Whoever applies the diff has the new text, however soon it was enough.
        #[test]
        fn a_diff_leads_to_the_new_text(
            old in prop::collection::vec("[ab\r]{0,2}", 0..40),
            new in prop::collection::vec("[abc\r]{0,2}", 0..40),
            ends in any::<(bool, bool)>(),
            asked_max in 0..40_u32,
        ) {
            let text = |lines: &[String], ends| lines.join("\n") + if ends { "\n" } else { "" };
            let (old, new) = (text(&old, ends.0), text(&new, ends.1));
            let asked = Cell::new(0);
            let is_enough = || asked.replace(asked.get() + 1) >= asked_max;
            for told in [unified(NAMES, &old, &new, &is_enough), unified(NAMES, &old, &new, &|| false)] {
                let hunks = told.strip_prefix("--- was\n+++ is\n").unwrap_or_default();
                prop_assert_eq!(patched(&old, hunks), new.clone(), "{}", told);
            }
        }
    }
}
