//! An ordered map whose greatest entry comes and goes.

use std::{
    collections::{BTreeMap, btree_map},
    iter::Chain,
    ops::Range,
    option,
};

/// An ordered map to which mostly greater keys are added. The greatest entry lies in the map
/// itself: an end that sends one chunk, and then has it acknowledged, never makes a node.
#[derive(Debug)]
pub(crate) struct AppendMap<K, V> {
    /// The entries below `last`.
    others: BTreeMap<K, V>,
    last: Option<(K, V)>,
}

impl<K: Copy + Ord, V> AppendMap<K, V> {
    pub(crate) fn is_empty(&self) -> bool {
        self.last.is_none() && self.others.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.others.len() + usize::from(self.last.is_some())
    }

    pub(crate) fn get(&self, key: K) -> Option<&V> {
        match &self.last {
            Some((last, value)) if *last == key => Some(value),
            _ if self.others.is_empty() => None,
            _ => self.others.get(&key),
        }
    }

    pub(crate) fn get_mut(&mut self, key: K) -> Option<&mut V> {
        match &mut self.last {
            Some((last, value)) if *last == key => Some(value),
            _ if self.others.is_empty() => None,
            _ => self.others.get_mut(&key),
        }
    }

    /// Adds an entry. Returns the value that the key had.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        match &mut self.last {
            Some((last, held)) if *last == key => Some(std::mem::replace(held, value)),
            Some((last, _)) if *last > key => self.others.insert(key, value),
            Some(_) => {
                self.others.extend(self.last.replace((key, value)));
                None
            }
            None if self.others.last_key_value().is_none_or(|(last, _)| *last < key) => {
                self.last = Some((key, value));
                None
            }
            None => self.others.insert(key, value),
        }
    }

    pub(crate) fn remove(&mut self, key: K) -> Option<V> {
        match &self.last {
            Some((last, _)) if *last == key => self.last.take().map(|(_, value)| value),
            _ if self.others.is_empty() => None,
            _ => self.others.remove(&key),
        }
    }

    /// The least entry.
    pub(crate) fn first(&self) -> Option<(K, &V)> {
        self.iter().next()
    }

    /// The entries in order.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (K, &V)> {
        let last = self.last.iter().map(|(key, value)| (*key, value));
        self.others.iter().map(|(key, value)| (*key, value)).chain(last)
    }

    /// The values in order.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.others.values_mut().chain(self.last.iter_mut().map(|(_, value)| value))
    }

    /// The entries with keys in the range, in order.
    ///
    /// # Panics
    /// If the range ends before it starts.
    pub(crate) fn range(&self, range: Range<K>) -> impl Iterator<Item = (K, &V)> {
        let last = self.last.iter().filter(move |(key, _)| range.start <= *key && *key < range.end);
        let others = (!self.others.is_empty()).then(|| self.others.range(range.start..range.end));
        others.into_iter().flatten().map(|(key, value)| (*key, value)).chain(last.map(|(key, value)| (*key, value)))
    }
}

impl<K, V> Default for AppendMap<K, V> {
    fn default() -> Self {
        Self { others: BTreeMap::new(), last: None }
    }
}

impl<K, V> IntoIterator for AppendMap<K, V> {
    type Item = (K, V);
    type IntoIter = Chain<btree_map::IntoIter<K, V>, option::IntoIter<(K, V)>>;

    fn into_iter(self) -> Self::IntoIter {
        self.others.into_iter().chain(self.last)
    }
}

/// Maps with the same entries are equal.
impl<K: Copy + Ord, V: PartialEq> PartialEq for AppendMap<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn does_what_an_ordered_map_does(
            steps in prop::collection::vec((any::<bool>(), 0u8..12), 0..80),
            from in 0u8..12,
            length in 0u8..12,
        ) {
            let (mut map, mut model) = (AppendMap::default(), BTreeMap::new());
            for (step, (inserts, key)) in steps.into_iter().enumerate() {
                if inserts {
                    prop_assert_eq!(map.insert(key, step), model.insert(key, step));
                } else {
                    prop_assert_eq!(map.remove(key), model.remove(&key));
                }
                prop_assert_eq!((map.len(), map.is_empty()), (model.len(), model.is_empty()));
                prop_assert_eq!(map.get(key), model.get(&key));
                prop_assert_eq!(map.get_mut(key), model.get_mut(&key));
                prop_assert!(map.iter().eq(model.iter().map(|(key, value)| (*key, value))));
                prop_assert!(map.iter().rev().eq(model.iter().rev().map(|(key, value)| (*key, value))));
                prop_assert_eq!(map.first(), model.first_key_value().map(|(key, value)| (*key, value)));
                let range = from..from + length;
                prop_assert!(map.range(range.clone()).map(|(key, _)| key).eq(model.range(range).map(|(key, _)| *key)));
            }
            prop_assert!(map.values_mut().map(|value| *value).eq(model.values().copied()));
            prop_assert!(map.into_iter().eq(model));
        }
    }
}
