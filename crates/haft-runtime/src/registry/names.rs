//! Names that can be mistaken for each other.

/// Folds a canonical name to what the eye, and a model, takes for the same: no underscores, and
/// one letter for those that look alike.
pub(super) fn skeleton(name: &str) -> String {
    let plain: String = name
        .chars()
        .filter(|&c| c != '_')
        .map(|c| match c {
            '0' => 'o',
            '1' => 'l',
            other => other,
        })
        .collect();
    plain.replace("rn", "m").replace("vv", "w")
}

/// How many names are suggested.
const NEAR_MAX: usize = 3;

/// Returns the names nearest to one that nobody has, best first: those that differ by the fewest
/// letters. Names that are too different are left out.
pub fn nearest<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let wanted = folded(wanted);
    let limit = wanted.len() / 3 + 1;
    let mut near: Vec<(usize, &str)> = names
        .filter(|name| name.len().abs_diff(wanted.len()) <= limit)
        .map(|name| (distance(wanted.as_bytes(), name.as_bytes()), name))
        .filter(|(distance, _)| *distance <= limit)
        .collect();
    near.sort_unstable();
    // Nothing is gained by naming what is much further off than the nearest.
    let nearest = near.first().map_or(0, |(distance, _)| *distance);
    near.retain(|(distance, _)| *distance <= nearest + 1);
    near.truncate(NEAR_MAX);
    near.into_iter().map(|(_, name)| name).collect()
}

/// The wanted name as a canonical one would be spelt; only as much of it as a name can have.
fn folded(wanted: &str) -> String {
    let letters = wanted.chars().take(64).map(|c| c.to_ascii_lowercase());
    letters.map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

/// The number of letters to add, drop or change (Levenshtein).
fn distance(one: &[u8], other: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, letter) in one.iter().enumerate() {
        let mut diagonal = at;
        let mut left = at + 1;
        for (slot, candidate) in row.iter_mut().skip(1).zip(other) {
            let changed = diagonal + usize::from(letter != candidate);
            diagonal = *slot;
            left = changed.min(left + 1).min(diagonal + 1);
            *slot = left;
        }
        if let Some(first) = row.first_mut() {
            *first = at + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}
