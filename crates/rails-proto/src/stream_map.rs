//! Values of the streams of a session, by number.

use crate::{append_map::AppendMap, stream_number::StreamNumber};

/// A map from stream numbers. The value of the [first](StreamNumber::FIRST) stream, the only one of
/// most sessions, lies in the map itself: to find it costs no search. So does that of the latest
/// stream, which may come and go.
#[derive(Debug)]
pub(crate) struct StreamMap<T> {
    first: Option<T>,
    others: AppendMap<StreamNumber, T>,
}

impl<T> StreamMap<T> {
    pub(crate) fn new() -> Self {
        Self { first: None, others: AppendMap::default() }
    }

    pub(crate) fn get(&self, number: StreamNumber) -> Option<&T> {
        if number == StreamNumber::FIRST { self.first.as_ref() } else { self.others.get(number) }
    }

    pub(crate) fn get_mut(&mut self, number: StreamNumber) -> Option<&mut T> {
        if number == StreamNumber::FIRST { self.first.as_mut() } else { self.others.get_mut(number) }
    }

    pub(crate) fn insert(&mut self, number: StreamNumber, value: T) {
        if number == StreamNumber::FIRST {
            self.first = Some(value);
        } else {
            self.others.insert(number, value);
        }
    }

    pub(crate) fn remove(&mut self, number: StreamNumber) -> Option<T> {
        if number == StreamNumber::FIRST { self.first.take() } else { self.others.remove(number) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none() && self.others.is_empty()
    }

    /// The numbers, in order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = StreamNumber> + '_ {
        self.first.iter().map(|_| StreamNumber::FIRST).chain(self.others.iter().map(|(number, _)| number))
    }

    /// The values, in the order of their numbers.
    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.first.iter().chain(self.others.iter().map(|(_, value)| value))
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.first.iter_mut().chain(self.others.values_mut())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_stream_is_one_of_them() {
        let mut map = StreamMap::new();
        let numbers = [8, 0, 5].map(StreamNumber);
        numbers.iter().for_each(|number| map.insert(*number, number.0));
        assert_eq!(map.keys().collect::<Vec<_>>(), [0, 5, 8].map(StreamNumber));
        assert_eq!(map.values().sum::<u64>(), 13);
        map.values_mut().for_each(|value| *value += 1);
        assert_eq!(numbers.map(|number| map.get(number).copied()), [Some(9), Some(1), Some(6)]);
        assert_eq!(map.get_mut(StreamNumber::FIRST), Some(&mut 1));
        assert_eq!(numbers.map(|number| map.remove(number)), [Some(9), Some(1), Some(6)]);
        assert!(map.is_empty() && map.get(StreamNumber::FIRST).is_none());
    }
}
