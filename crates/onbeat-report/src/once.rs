//! Things that are named once, in the order of their first.

use std::collections::BTreeSet;

/// Each of them once.
pub(super) fn once<T: Ord + Clone>(all: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut seen = BTreeSet::new();
    all.into_iter().filter(|one| seen.insert(one.clone())).collect()
}

/// Each of the first once, with those that have it, each of them once as well.
pub(super) fn grouped<K: PartialEq, N: PartialEq>(
    pairs: impl IntoIterator<Item = (K, N)>,
) -> Vec<(K, Vec<N>)> {
    let mut groups: Vec<(K, Vec<N>)> = Vec::new();
    for (key, name) in pairs {
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, names)) if names.contains(&name) => {}
            Some((_, names)) => names.push(name),
            None => groups.push((key, vec![name])),
        }
    }
    groups
}
