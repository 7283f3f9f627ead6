//! Sets of CPUs and of NUMA nodes, in the kernel's list syntax (`0-3,8`).

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::{fmt, marker::PhantomData, str::FromStr};

/// The kernel's number of a PU (a hardware thread; Linux calls it a CPU).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CpuId(pub u32);

/// The kernel's number of a NUMA node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeId(pub u32);

/// A set of CPUs. It grows as needed: no limit at 1,024.
pub type CpuSet = IdSet<CpuId>;

/// A set of NUMA nodes.
pub type NodeSet = IdSet<NodeId>;

/// A number that the kernel gives to one of its resources.
pub trait Id: Copy {
    /// The resource of that number.
    fn from_number(number: u32) -> Self;
    /// Its number.
    fn number(self) -> u32;
}

/// A set of kernel numbers, written in the kernel's list syntax (`0-3,8`).
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct IdSet<T> {
    /// Bit `n % 64` of word `n / 64` stands for number `n`; the last word is never zero, so that equal sets are equal words.
    words: Vec<u64>,
    of: PhantomData<T>,
}

/// A text that is not a list of numbers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a list like 0-3,8: {reason}")]
pub struct ParseSetError {
    /// The whole text.
    pub text: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

/// The largest number that a set takes from text, so that a hostile list cannot ask for memory without end.
const LARGEST_PARSED: u32 = (1 << 20) - 1;

impl Id for CpuId {
    fn from_number(number: u32) -> Self {
        Self(number)
    }
    fn number(self) -> u32 {
        self.0
    }
}

impl Id for NodeId {
    fn from_number(number: u32) -> Self {
        Self(number)
    }
    fn number(self) -> u32 {
        self.0
    }
}

impl fmt::Display for CpuId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: Id> IdSet<T> {
    /// The empty set.
    pub const fn new() -> Self {
        Self { words: Vec::new(), of: PhantomData }
    }

    /// The set that holds `id` alone.
    pub fn single(id: T) -> Self {
        let mut set = Self::new();
        set.insert(id);
        set
    }

    /// Adds `id`.
    pub fn insert(&mut self, id: T) {
        let (word, bit) = position(id);
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= bit;
    }

    /// Takes `id` out.
    pub fn remove(&mut self, id: T) {
        let (word, bit) = position(id);
        if let Some(word) = self.words.get_mut(word) {
            *word &= !bit;
            self.trim();
        }
    }

    /// Whether `id` is in the set.
    pub fn contains(&self, id: T) -> bool {
        let (word, bit) = position(id);
        self.words.get(word).is_some_and(|word| word & bit != 0)
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// How many numbers it holds.
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The smallest number.
    pub fn first(&self) -> Option<T> {
        self.iter().next()
    }

    /// The largest number.
    pub fn last(&self) -> Option<T> {
        let word = self.words.len().checked_sub(1)?;
        Some(T::from_number(word as u32 * 64 + 63 - self.words[word].leading_zeros()))
    }

    /// Its numbers, in rising order.
    pub fn iter(&self) -> impl Iterator<Item = T> + '_ {
        self.words.iter().enumerate().flat_map(|(index, &word)| {
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| T::from_number(index as u32 * 64 + bit))
        })
    }

    /// What is in both.
    pub fn intersection(&self, other: &Self) -> Self {
        self.zip_words(other, |a, b| a & b)
    }

    /// What is in either.
    pub fn union(&self, other: &Self) -> Self {
        self.zip_words(other, |a, b| a | b)
    }

    /// What is in this set and not in the other.
    pub fn difference(&self, other: &Self) -> Self {
        self.zip_words(other, |a, b| a & !b)
    }

    /// Whether the two share a number.
    pub fn intersects(&self, other: &Self) -> bool {
        self.words.iter().zip(&other.words).any(|(a, b)| a & b != 0)
    }

    /// Whether all of this set is in the other.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.difference(other).is_empty()
    }

    /// The words of the mask, bit `n % 64` of word `n / 64` for number `n`: the layout of the kernel's masks.
    pub fn as_words(&self) -> &[u64] {
        &self.words
    }

    /// The set that such a mask stands for.
    pub fn from_words(words: impl Into<Vec<u64>>) -> Self {
        let mut set = Self { words: words.into(), of: PhantomData };
        set.trim();
        set
    }

    fn zip_words(&self, other: &Self, combine: impl Fn(u64, u64) -> u64) -> Self {
        let word = |words: &[u64], index| words.get(index).copied().unwrap_or(0);
        let length = self.words.len().max(other.words.len());
        Self::from_words(
            (0..length).map(|index| combine(word(&self.words, index), word(&other.words, index))).collect::<Vec<_>>(),
        )
    }

    fn trim(&mut self) {
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
    }
}

impl<T: Id> Default for IdSet<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Id> FromIterator<T> for IdSet<T> {
    fn from_iter<I: IntoIterator<Item = T>>(ids: I) -> Self {
        let mut set = Self::new();
        ids.into_iter().for_each(|id| set.insert(id));
        set
    }
}

impl<T: Id> Extend<T> for IdSet<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, ids: I) {
        ids.into_iter().for_each(|id| self.insert(id));
    }
}

/// The kernel's list syntax; the empty set is the empty text.
impl<T: Id> fmt::Display for IdSet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut ids = self.iter().map(Id::number).peekable();
        let mut separator = "";
        while let Some(first) = ids.next() {
            let mut last = first;
            while ids.next_if_eq(&(last + 1)).is_some() {
                last += 1;
            }
            match last - first {
                0 => write!(f, "{separator}{first}")?,
                _ => write!(f, "{separator}{first}-{last}")?,
            }
            separator = ",";
        }
        Ok(())
    }
}

impl<T: Id> fmt::Debug for IdSet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

/// Reads the kernel's list syntax; white space around it is allowed, the empty text is the empty set.
impl<T: Id> FromStr for IdSet<T> {
    type Err = ParseSetError;

    fn from_str(text: &str) -> Result<Self, ParseSetError> {
        let error = |reason| ParseSetError { text: text.to_owned(), reason };
        let number = |digits: &str| match digits.parse::<u32>() {
            Ok(number) if number <= LARGEST_PARSED => Ok(number),
            Ok(_) => Err(error("a number is too large")),
            Err(_) => Err(error("a number is missing or malformed")),
        };
        let mut set = Self::new();
        for part in text.trim().split(',').filter(|_| !text.trim().is_empty()) {
            let (first, last) = match part.split_once('-') {
                Some((first, last)) => (number(first)?, number(last)?),
                None => (number(part)?, number(part)?),
            };
            if first > last {
                return Err(error("a range runs backwards"));
            }
            set.extend((first..=last).map(T::from_number));
        }
        Ok(set)
    }
}

impl<T: Id> Serialize for IdSet<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de, T: Id> Deserialize<'de> for IdSet<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

fn position<T: Id>(id: T) -> (usize, u64) {
    (id.number() as usize / 64, 1 << (id.number() % 64))
}
