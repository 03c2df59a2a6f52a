//! The known word that was probably meant by one that is not known.

/// Returns the known word that was probably meant.
pub(crate) fn nearest<'k>(typed: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    known
        .map(|known| (distance(typed, known), known))
        .min()
        .filter(|(distance, known)| *distance <= known.len().div_ceil(2).min(3))
        .map(|(_, known)| known)
}

/// Returns the edit distance of `a` and `b` (Levenshtein, 1966).
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.chars().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }

    row[row.len() - 1]
}

/// ` (did you mean disk?)`, where a known word is near.
pub(crate) fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!(" (did you mean {name}?)"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_distance_is_symmetric_and_zero_only_for_equal_words(a in "[a-d]{0,6}", b in "[a-d]{0,6}") {
            prop_assert_eq!(distance(&a, &b), distance(&b, &a));
            prop_assert_eq!(distance(&a, &b) == 0, a == b);
        }
    }
}
