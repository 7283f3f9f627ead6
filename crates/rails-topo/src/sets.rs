//! Sets of CPUs and of NUMA nodes, in the kernel's list syntax (`0-3,8`).

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::{fmt, marker::PhantomData, str::FromStr};

/// The kernel's number for a PU (a hardware thread; Linux calls it a CPU).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct CpuId(#[serde(deserialize_with = "number_within_a_set")] pub u32);

/// The kernel's number for a NUMA node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct NodeId(#[serde(deserialize_with = "number_within_a_set")] pub u32);

/// A set of CPUs, without a limit at 1,024.
pub type CpuSet = IdSet<CpuId>;

/// A set of NUMA nodes.
pub type NodeSet = IdSet<NodeId>;

/// A number that the kernel gives to one of its resources.
pub trait Id: Copy {
    /// The resource of that number.
    fn from_number(number: u32) -> Self;
    /// The number of the resource.
    fn number(self) -> u32;
}

/// A set of kernel numbers, written in the kernel's list syntax (`0-3,8`).
#[derive(Clone, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(with = "String", bound = ""))]
pub struct IdSet<T> {
    /// Bit `n % 64` of word `n / 64` stands for number `n`; the last word is never zero, so that
    /// equal sets are equal words.
    words: Vec<u64>,
    of: PhantomData<T>,
}

/// A text that is not a set of numbers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {expected}: {reason}")]
pub struct ParseSetError {
    /// The whole text.
    pub text: String,
    /// The expected form.
    pub expected: &'static str,
    /// The fault.
    pub reason: &'static str,
}

/// The largest number that is accepted from text, in a set or alone, so that hostile text cannot
/// use unbounded memory.
pub(crate) const LARGEST_PARSED: u32 = (1 << 20) - 1;

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

    /// Removes `id`.
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

    /// The size of the set.
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

    /// The numbers of the set, in rising order.
    pub fn iter(&self) -> impl Iterator<Item = T> + '_ {
        self.words.iter().enumerate().flat_map(|(index, &word)| {
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| T::from_number(index as u32 * 64 + bit))
        })
    }

    /// The numbers in both.
    pub fn intersection(&self, other: &Self) -> Self {
        self.zip_words(other, |a, b| a & b)
    }

    /// The numbers in either.
    pub fn union(&self, other: &Self) -> Self {
        self.zip_words(other, |a, b| a | b)
    }

    /// The numbers in this set and not in the other.
    pub fn difference(&self, other: &Self) -> Self {
        self.zip_words(other, |a, b| a & !b)
    }

    /// Whether the two share a number.
    pub fn intersects(&self, other: &Self) -> bool {
        self.words.iter().zip(&other.words).any(|(a, b)| a & b != 0)
    }

    /// Whether all of this set is in the other.
    pub fn is_subset(&self, other: &Self) -> bool {
        let of_other = |index| other.words.get(index).copied().unwrap_or(0);
        self.words.iter().enumerate().all(|(index, word)| word & !of_other(index) == 0)
    }

    /// The words of the mask, bit `n % 64` of word `n / 64` for number `n`: the layout of the
    /// kernel's masks.
    pub fn as_words(&self) -> &[u64] {
        &self.words
    }

    /// The set of a mask of that layout.
    pub fn from_words(words: impl Into<Vec<u64>>) -> Self {
        let mut set = Self { words: words.into(), of: PhantomData };
        set.trim();
        set
    }

    /// Reads the kernel's mask syntax: words of 32 bits in hexadecimal, the most significant first,
    /// with commas between them (`00000001,0000000f` is 0-3,32).
    pub fn parse_mask(text: &str) -> Result<Self, ParseSetError> {
        let error = |reason| ParseSetError { text: text.to_owned(), expected: "a mask like 00000000,0000000f", reason };
        let halves: Vec<&str> = text.trim().rsplit(',').collect();
        if halves.len() > LARGEST_PARSED as usize / 32 + 1 {
            return Err(error("it is too long"));
        }
        let half = |digits: &&str| match digits.len() {
            1..=8 if !digits.starts_with('+') => u32::from_str_radix(digits, 16).ok(),
            _ => None,
        };
        let halves: Option<Vec<u32>> = halves.iter().map(half).collect();
        let halves = halves.ok_or_else(|| error("a word is missing or malformed"))?;
        let words = halves.chunks(2).map(|pair| pair.iter().rev().fold(0, |word, half| word << 32 | u64::from(*half)));
        Ok(Self::from_words(words.collect::<Vec<_>>()))
    }

    /// The set in the kernel's mask syntax, as [`IdSet::parse_mask`] reads it; the empty set is
    /// `0`.
    pub fn to_mask(&self) -> String {
        let halves = self.words.iter().flat_map(|word| [*word as u32, (word >> 32) as u32]);
        let mut halves: Vec<u32> = halves.collect();
        while halves.len() > 1 && halves.last() == Some(&0) {
            halves.pop();
        }
        let first = halves.pop().unwrap_or(0);
        halves.iter().rev().fold(format!("{first:x}"), |mask, half| format!("{mask},{half:08x}"))
    }

    /// Adds `first..=last`, a word at a time, so that a long list of wide ranges costs little.
    fn insert_range(&mut self, first: u32, last: u32) {
        let (first_word, last_word) = (first as usize / 64, last as usize / 64);
        if self.words.len() <= last_word {
            self.words.resize(last_word + 1, 0);
        }
        for word in first_word..=last_word {
            let from = if word == first_word { u64::MAX << (first % 64) } else { u64::MAX };
            let to = if word == last_word { u64::MAX >> (63 - last % 64) } else { u64::MAX };
            self.words[word] |= from & to;
        }
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
            while ids.next_if(|next| next - last == 1).is_some() {
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

/// Reads the kernel's list syntax; white space around it is allowed, the empty text is the empty
/// set.
impl<T: Id> FromStr for IdSet<T> {
    type Err = ParseSetError;

    fn from_str(text: &str) -> Result<Self, ParseSetError> {
        let error = |reason| ParseSetError { text: text.to_owned(), expected: "a list like 0-3,8", reason };
        let number = |digits: &str| match digits.parse::<u32>() {
            _ if digits.starts_with('+') => Err(error("a number is missing or malformed")),
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
            set.insert_range(first, last);
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

/// A number that may come into a set.
fn number_within_a_set<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let number = u32::deserialize(deserializer)?;
    if number <= LARGEST_PARSED {
        return Ok(number);
    }
    Err(serde::de::Error::custom(format_args!("{number} is too large: the largest number is {LARGEST_PARSED}")))
}

fn position<T: Id>(id: T) -> (usize, u64) {
    (id.number() as usize / 64, 1 << (id.number() % 64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn kernels_lists_are_read_and_written() {
        for (text, numbers) in [("", vec![]), ("0", vec![0]), ("0-2,64", vec![0, 1, 2, 64]), (" 7,5 \n", vec![5, 7])] {
            let set: CpuSet = text.parse().unwrap();
            assert_eq!(set.iter().map(|cpu| cpu.0).collect::<Vec<_>>(), numbers, "{text:?}");
        }
        assert_eq!("5,7,6,0".parse::<CpuSet>().unwrap().to_string(), "0,5-7");
        for text in ["x", "1-", "-1", "+1", "3-1", "1,,2", "4294967296", "0-9999999", ","] {
            assert!(text.parse::<CpuSet>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn kernels_masks_are_read() {
        let read = |text| CpuSet::parse_mask(text).unwrap().to_string();
        assert_eq!(read("03"), "0-1");
        assert_eq!(read("00000000,00001111"), "0,4,8,12");
        assert_eq!(read("00000001,00000000,0000000f\n"), "0-3,64");
        assert_eq!(read("0000,00000000,00000000"), "");
        for text in ["", "g", "1,,2", "123456789", "+1", "0-3"] {
            assert!(CpuSet::parse_mask(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn numbers_are_read_up_to_that_of_a_set() {
        let read = |number: u32| serde_json::from_str::<(CpuId, NodeId)>(&format!("[{number},{number}]"));
        assert_eq!(read(LARGEST_PARSED).unwrap(), (CpuId(LARGEST_PARSED), NodeId(LARGEST_PARSED)));
        let error = read(LARGEST_PARSED + 1).unwrap_err();
        assert!(error.to_string().starts_with("1048576 is too large"), "{error}");
    }

    #[test]
    fn malformed_set_is_named_in_the_error() {
        let error = "0-3,x".parse::<CpuSet>().unwrap_err();
        assert_eq!(error.to_string(), "`0-3,x` is not a list like 0-3,8: a number is missing or malformed");
    }

    fn numbers() -> impl Strategy<Value = BTreeSet<u32>> {
        proptest::collection::btree_set(0..300u32, 0..40)
    }

    fn set_of(numbers: &BTreeSet<u32>) -> CpuSet {
        numbers.iter().copied().map(CpuId).collect()
    }

    proptest! {
        #[test]
        fn printed_sets_are_read_back(a in numbers()) {
            let set = set_of(&a);
            prop_assert_eq!(set.to_string().parse::<CpuSet>().unwrap(), set.clone());
            prop_assert_eq!(set.len(), a.len());
            prop_assert_eq!(set.last().map(|cpu| cpu.0), a.last().copied());
            let json = serde_json::to_string(&set).unwrap();
            prop_assert_eq!(serde_json::from_str::<CpuSet>(&json).unwrap(), set);
        }

        #[test]
        fn algebra_is_that_of_sets(a in numbers(), b in numbers()) {
            let (set_a, set_b) = (set_of(&a), set_of(&b));
            prop_assert_eq!(set_a.intersection(&set_b), set_of(&(&a & &b)));
            prop_assert_eq!(set_a.union(&set_b), set_of(&(&a | &b)));
            prop_assert_eq!(set_a.difference(&set_b), set_of(&(&a - &b)));
            prop_assert_eq!(set_a.intersects(&set_b), !a.is_disjoint(&b));
            prop_assert_eq!(set_a.is_subset(&set_b), a.is_subset(&b));
        }

        #[test]
        fn mask_is_the_set_of_its_bits(a in numbers()) {
            let set = set_of(&a);
            let text: Vec<String> =
                set.as_words().iter().rev().map(|word| format!("{:08x},{:08x}", word >> 32, word & 0xffff_ffff)).collect();
            let text = if text.is_empty() { "0".to_owned() } else { text.join(",") };
            prop_assert_eq!(CpuSet::parse_mask(&text).unwrap(), set.clone());
            prop_assert_eq!(CpuSet::parse_mask(&set.to_mask()).unwrap(), set);
        }

        #[test]
        fn hostile_text_is_refused_without_a_panic(text in "[0-9a-f,\\- ]{0,60}|.{0,40}") {
            let _ = text.parse::<CpuSet>();
            let _ = CpuSet::parse_mask(&text);
        }
    }
}
