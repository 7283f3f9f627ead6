//! Lists of regions that a program has told, and the place in them.

use rails_array::{Region, Shape};
use std::fmt;

/// A list of regions that will be read in this order (the thesis' *a-priori* pattern).
///
/// Reads find the place in the list. Entries may be skipped, and other regions read between.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Apriori {
    told: Vec<Region>,
    /// The places in the list, in the order of their regions.
    sorted: Vec<u32>,
    /// The next entry.
    next: usize,
    /// Behind an entry far from `next` that was read. The place changes when one near it is read,
    /// too.
    elsewhere: Option<usize>,
    /// How many reads in a row were not in the list.
    strangers: u32,
}

/// An error in a list of regions that was told to a detector.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TellError {
    /// There are more regions than [`MAX_TOLD`].
    #[error("the list has {told} regions, and a detector takes at most {MAX_TOLD}")]
    TooMany {
        /// The number of regions.
        told: usize,
    },
    /// A region has no element.
    #[error("entry {entry} of the list, {region}, has no element")]
    Empty {
        /// The place in the list, from 0.
        entry: usize,
        /// The region.
        region: Box<Region>,
    },
    /// A region does not lie within the array.
    #[error("entry {entry} of the list, {region}, does not lie within the array ({array})")]
    Outside {
        /// The place in the list, from 0.
        entry: usize,
        /// The region.
        region: Box<Region>,
        /// The shape of the array.
        array: Shape,
    },
}

/// The largest number of regions that a detector can be told at a time.
pub const MAX_TOLD: usize = 1 << 18;

impl Apriori {
    pub(crate) fn new(told: Vec<Region>, array: &Shape) -> Result<Self, TellError> {
        if told.len() > MAX_TOLD {
            return Err(TellError::TooMany { told: told.len() });
        }
        for (entry, region) in told.iter().enumerate() {
            if region.is_empty() {
                return Err(TellError::Empty { entry, region: Box::new(region.clone()) });
            }
            if !region.is_within(array) {
                let (region, array) = (Box::new(region.clone()), array.clone());
                return Err(TellError::Outside { entry, region, array });
            }
        }
        let mut sorted: Vec<u32> = (0..told.len() as u32).collect();
        // Stable, so that equal regions stay in the order of the list.
        sorted.sort_by(|one, other| told[*one as usize].cmp(&told[*other as usize]));
        Ok(Self { told, sorted, next: 0, elsewhere: None, strangers: 0 })
    }

    /// Takes the next read: `true` if it is an entry that was to come soon.
    pub(crate) fn observe(&mut self, read: &Region) -> bool {
        if let Some(entry) = self.find_near(read, self.next) {
            self.go_behind(entry);
            return true;
        }
        if let Some(entry) = self.elsewhere.and_then(|elsewhere| self.find_near(read, elsewhere)) {
            self.go_behind(entry);
            return false;
        }
        match self.find(read) {
            Some(entry) => {
                self.elsewhere = Some(entry + 1);
                self.strangers = 0;
            }
            None => self.strangers = self.strangers.saturating_add(1),
        }
        false
    }

    /// Whether entries may be foretold: there are more, and reads are in the list.
    pub(crate) fn is_live(&self) -> bool {
        self.next < self.told.len() && self.strangers <= MAX_STRANGERS
    }

    /// The entries to come.
    pub(crate) fn to_come(&self) -> &[Region] {
        &self.told[self.next..]
    }

    fn go_behind(&mut self, entry: usize) {
        self.next = entry + 1;
        self.elsewhere = None;
        self.strangers = 0;
    }

    fn find_near(&self, read: &Region, from: usize) -> Option<usize> {
        let end = self.told.len().min(from + MAX_SKIPPED + 1);
        (from..end).find(|entry| self.told[*entry] == *read)
    }

    /// The first entry with that region from the place on, else from the beginning on.
    fn find(&self, read: &Region) -> Option<usize> {
        let first = self.sorted.partition_point(|entry| self.told[*entry as usize] < *read);
        let equal = &self.sorted[first..];
        let equal = &equal[..equal.partition_point(|entry| self.told[*entry as usize] == *read)];
        let behind = equal.partition_point(|entry| (*entry as usize) < self.next);
        equal.get(behind).or(equal.first()).map(|entry| *entry as usize)
    }
}

impl fmt::Debug for Apriori {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Apriori(entry {} of {})", self.next, self.told.len())
    }
}

const MAX_SKIPPED: usize = 15;
const MAX_STRANGERS: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn array() -> Shape {
        Shape::new([1000]).unwrap()
    }

    fn element(at: u64) -> Region {
        Region::new([at], Shape::new([1]).unwrap()).unwrap()
    }

    /// An entry of a list without order.
    fn entry(number: u64) -> Region {
        element(number * 37 % 101)
    }

    fn told() -> Apriori {
        Apriori::new((0..100).map(entry).collect(), &array()).unwrap()
    }

    #[test]
    fn entries_are_foretold_before_the_first_read() {
        assert!(told().is_live());
        assert_eq!(told().to_come()[1], element(37));
    }

    #[test]
    fn up_to_15_entries_are_skipped() {
        let mut near = told();
        assert!(near.observe(&entry(15)));
        assert_eq!(near.to_come()[0], entry(16));
        let mut far = told();
        assert!(!far.observe(&entry(16)));
        assert_eq!(far.to_come()[0], element(0));
    }

    #[test]
    fn two_reads_elsewhere_move_the_place() {
        let mut apriori = told();
        assert!(!apriori.observe(&entry(50)));
        assert!(!apriori.observe(&entry(52)));
        assert_eq!(apriori.to_come()[0], entry(53));
        // And back again.
        assert!(!apriori.observe(&element(0)));
        assert!(!apriori.observe(&element(37)));
        assert_eq!(apriori.to_come()[0], entry(2));
    }

    #[test]
    fn strangers_end_a_list_until_it_is_read() {
        let mut apriori = told();
        for stranger in 0..16 {
            assert!(!apriori.observe(&element(500 + stranger)));
        }
        assert!(apriori.is_live());
        assert!(!apriori.observe(&element(900)));
        assert!(!apriori.is_live());
        assert!(apriori.observe(&element(0)));
        assert!(apriori.is_live());
    }

    #[test]
    fn a_list_ends() {
        let mut apriori = Apriori::new(vec![element(3), element(4)], &array()).unwrap();
        assert!(apriori.observe(&element(4)));
        assert!(!apriori.is_live());
        assert!(!Apriori::new(Vec::new(), &array()).unwrap().is_live());
    }

    #[test]
    fn an_entry_that_repeats_is_met_in_order() {
        let list = [1, 2, 1, 3, 1, 4].map(element).to_vec();
        let mut apriori = Apriori::new(list, &array()).unwrap();
        for (read, next) in [(1, 2), (2, 1), (1, 3), (3, 1), (1, 4)] {
            assert!(apriori.observe(&element(read)));
            assert_eq!(apriori.to_come()[0], element(next));
        }
    }

    #[test]
    fn bad_lists_are_refused() {
        let region = Region::new([999], Shape::new([2]).unwrap()).unwrap();
        let error = Apriori::new(vec![element(999), region], &array()).unwrap_err();
        assert_eq!(error.to_string(), "entry 1 of the list, [999:1001], does not lie within the array (1000)");
        let empty = Region::new([9], Shape::new([0]).unwrap()).unwrap();
        assert!(matches!(Apriori::new(vec![empty], &array()), Err(TellError::Empty { entry: 0, .. })));
    }

    #[test]
    fn the_length_of_a_list_is_limited() {
        let scalar = Shape::new([]).unwrap();
        let list = |length| vec![Region::whole(&scalar); length];
        assert!(Apriori::new(list(MAX_TOLD), &scalar).is_ok());
        let error = TellError::TooMany { told: MAX_TOLD + 1 };
        assert_eq!(Apriori::new(list(MAX_TOLD + 1), &scalar), Err(error));
    }
}
