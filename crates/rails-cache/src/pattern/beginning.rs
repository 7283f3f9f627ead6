//! The first reads of an array, before they make a pattern.

use crate::pattern::Path;
use rails_array::{Region, Shape};
use smallvec::SmallVec;

/// Guesses at the reads that follow the first ones.
///
/// A detector knows a pattern after three reads, and until then each read would wait for a round
/// trip of its own. Most programs begin at the start of the first axis that they read in parts, and
/// go on along it: so the box that adjoins such a read is a guess worth one fetch. A read that was
/// guessed is guessed on from, twice as far; the first read that is neither at the start nor
/// guessed ends all guessing. Linux reads ahead of a file's first page for the same reason.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Beginning {
    array: Shape,
    /// Boxes that are read next, if the reads go on along an axis; the oldest first. Empty when
    /// guessing has ended.
    guesses: SmallVec<[Region; MAX_READS]>,
    reads: usize,
    /// The reads that had been guessed.
    hits: u32,
    has_ended: bool,
}

impl Beginning {
    pub(crate) fn new(array: &Shape) -> Self {
        Self { array: array.clone(), guesses: SmallVec::new(), reads: 0, hits: 0, has_ended: false }
    }

    /// Takes the next read.
    pub(crate) fn observe(&mut self, read: &Region) {
        if self.has_ended {
            return;
        }
        self.reads += 1;
        let guessed = self.guesses.iter().position(|guess| guess == read);
        if let Some(guessed) = guessed {
            self.guesses.remove(guessed);
            self.hits += 1;
        }
        let Some(axis) = self.axis_of(read).filter(|_| self.reads <= MAX_READS) else { return self.end() };
        if guessed.is_none() && read.start()[axis] != 0 {
            return self.end();
        }
        let next = self.beyond(read, axis, 1).filter(|next| !self.guesses.contains(next));
        self.guesses.extend(next);
    }

    /// Ends all guessing: the pattern is known.
    pub(crate) fn end(&mut self) {
        self.has_ended = true;
        self.guesses = SmallVec::new();
    }

    /// The guesses after a read of `read_bytes`: those that a path like this brings in a round
    /// trip, and at least one. A read that keeps the path busy for several round trips needs none.
    pub(crate) fn next(&self, read_bytes: u64, path: &Path) -> Vec<Region> {
        let bytes = path.bytes_of_latency();
        if bytes.saturating_mul(MAX_ROUND_TRIPS) < read_bytes {
            return Vec::new();
        }
        let boxes = bytes.div_ceil(read_bytes.max(1)).clamp(1, MAX_GUESSES << self.hits) as usize;
        // The next box of each of the first reads, then the one beyond it.
        let steps = (0..boxes.div_ceil(self.guesses.len().max(1)) as u64).flat_map(|steps| {
            let ahead = move |guess: &Region| self.axis_of(guess).and_then(|axis| self.beyond(guess, axis, steps));
            self.guesses.iter().filter_map(ahead)
        });
        steps.take(boxes.max(self.guesses.len())).collect()
    }

    /// The first axis of which a read takes a part.
    fn axis_of(&self, read: &Region) -> Option<usize> {
        let (read, array) = (read.shape().extents(), self.array.extents());
        (read.len() == array.len()).then(|| (0..array.len()).find(|axis| read[*axis] < array[*axis])).flatten()
    }

    /// The box that lies `steps` boxes further along an axis, as far as it is in the array.
    fn beyond(&self, read: &Region, axis: usize, steps: u64) -> Option<Region> {
        let (mut start, mut extents) = (read.start().to_vec(), read.shape().extents().to_vec());
        start[axis] = start[axis].checked_add(extents[axis].checked_mul(steps)?)?;
        extents[axis] = extents[axis].min(self.array.extents()[axis].checked_sub(start[axis])?);
        Region::new(start, Shape::new(extents).ok()?).ok().filter(|region| !region.is_empty())
    }
}

/// A pattern of two nested loops is known after four reads, one of four levels after eight.
const MAX_READS: usize = 8;
/// The boxes that are guessed at a time before a guess has come true, but for one of each read.
const MAX_GUESSES: u64 = 2;
/// Reads that keep the path busy for longer lose little by a round trip.
const MAX_ROUND_TRIPS: u64 = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const PATH: Path =
        Path { round_trip: Duration::from_millis(20), storage_latency: Duration::ZERO, bytes_per_second: 1_000_000 };

    fn region<const N: usize>(start: [u64; N], extents: [u64; N]) -> Region {
        Region::new(start, Shape::new(extents).unwrap()).unwrap()
    }

    fn after<const N: usize>(extents: [u64; N], starts: &[[u64; N]]) -> Beginning {
        let mut beginning = Beginning::new(&Shape::new([64, 36, 361][..N].iter().copied()).unwrap());
        starts.iter().for_each(|start| beginning.observe(&region(*start, extents)));
        beginning
    }

    #[test]
    fn the_first_box_is_followed_by_the_next() {
        let guess = |extents, starts: &[[u64; 3]]| after(extents, starts).next(20_000, &PATH);
        assert_eq!(guess([1, 1, 361], &[[0, 3, 0]]), [region([1, 3, 0], [1, 1, 361])]);
        assert_eq!(guess([10, 36, 361], &[[0, 0, 0]]), [region([10, 0, 0], [10, 36, 361])]);
        // The first axis is read whole.
        assert_eq!(guess([64, 36, 100], &[[0, 0, 0]]), [region([0, 0, 100], [64, 36, 100])]);
    }

    #[test]
    fn each_of_the_first_reads_has_a_guess() {
        let extents = [1, 1, 361];
        let two = after(extents, &[[0, 3, 0], [0, 30, 0]]);
        assert_eq!(two.next(20_000, &PATH), [region([1, 3, 0], extents), region([1, 30, 0], extents)]);
        let three = after(extents, &[[0, 3, 0], [0, 30, 0], [1, 3, 0]]);
        assert_eq!(three.next(20_000, &PATH), [region([1, 30, 0], extents), region([2, 3, 0], extents)]);
    }

    #[test]
    fn small_boxes_are_guessed_further() {
        let extents = [1, 1, 361];
        let guesses = after(extents, &[[0, 3, 0]]).next(5000, &PATH);
        assert_eq!(guesses, [1, 2].map(|step| region([step, 3, 0], extents)));
        let guesses = after(extents, &[[0, 3, 0], [0, 30, 0], [1, 3, 0]]).next(5000, &PATH);
        let expected = [[1, 30, 0], [2, 3, 0], [2, 30, 0], [3, 3, 0]].map(|start| region(start, extents));
        assert_eq!(guesses, expected, "a guess has come true");
        assert!(after(extents, &[[0, 3, 0]]).next(160_001, &PATH).is_empty(), "a large read hides the round trip");
        let disk = Path { round_trip: Duration::ZERO, ..PATH };
        assert!(after(extents, &[[0, 3, 0]]).next(5000, &disk).is_empty(), "there is no round trip");
    }

    #[test]
    fn a_read_elsewhere_ends_the_guessing() {
        let extents = [1, 1, 361];
        assert!(after(extents, &[[7, 3, 0]]).next(20_000, &PATH).is_empty());
        assert!(after(extents, &[[0, 3, 0], [7, 3, 0]]).next(20_000, &PATH).is_empty());
        assert!(after(extents, &[[7, 3, 0], [0, 3, 0]]).next(20_000, &PATH).is_empty());
        assert!(after([64, 36, 361], &[[0, 0, 0]]).next(20_000, &PATH).is_empty(), "all was read");
        let many: Vec<[u64; 3]> = (0..=MAX_READS as u64).map(|level| [0, level, 0]).collect();
        assert!(after(extents, &many).next(20_000, &PATH).is_empty());
    }

    #[test]
    fn guesses_end_at_the_edge() {
        let guesses = after([40, 36, 361], &[[0, 0, 0]]).next(5000, &PATH);
        assert_eq!(guesses, [region([40, 0, 0], [24, 36, 361])]);
        let scalar = Region::new([], Shape::new([]).unwrap()).unwrap();
        let mut beginning = Beginning::new(&Shape::new([]).unwrap());
        beginning.observe(&scalar);
        assert!(beginning.next(1, &PATH).is_empty());
    }
}
