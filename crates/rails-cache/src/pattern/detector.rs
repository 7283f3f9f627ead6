//! The detector of one job's reads of one dataset.

use crate::pattern::{
    apriori::{Apriori, TellError},
    neighbourhood::Neighbourhood,
    nest::Place,
    prediction::{Confidence, Pattern, Prediction, Predictions},
    strays::Strays,
    stream::Stream,
    window::{Edges, Window},
};
use rails_array::{Region, Shape};
use smallvec::SmallVec;

/// Sees the regions that a job reads of a dataset, and predicts the next ones.
///
/// A job has up to four streams of reads at a time: two threads that read two halves, or three
/// levels at uneven distances, are that. A read belongs to the stream that foretold it. A read that
/// none foretold is a *stray*: the first of a new stream, the place where a stream goes on after
/// its outermost loop ended, or chance. The next reads tell which.
///
/// More than four streams that take turns hide each other: the ranks of a job have a
/// [`JobDetector`](crate::pattern::JobDetector). A nest whose rows are read to and fro is learned
/// anew in each row, and one that reads boxes again and again may be taken for a shorter one.
///
/// The detector takes about 6 KiB for arrays of at most four axes, however much is read; a list
/// that it is [told](Self::tell) comes on top of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Detector {
    array: Shape,
    edges: Edges,
    apriori: Option<Apriori>,
    /// The one that was read last comes first.
    streams: Vec<Stream>,
    strays: Strays,
    neighbourhood: Neighbourhood,
    last: Option<Window>,
    /// How many reads there were.
    reads: u64,
    /// How many streams there were.
    formed: u64,
    confidence: Confidence,
}

impl Detector {
    /// A detector that has seen nothing, for an array of that shape.
    pub fn new(array: &Shape) -> Self {
        Self {
            array: array.clone(),
            edges: Edges::new(array),
            apriori: None,
            streams: Vec::with_capacity(MAX_STREAMS),
            strays: Strays::default(),
            neighbourhood: Neighbourhood::new(array.rank()),
            last: None,
            reads: 0,
            formed: 0,
            confidence: Confidence::FULL,
        }
    }

    /// Tells the regions that will be read, in this order, instead of those told before.
    ///
    /// The regions are predicted from the first one on, before anything is read. Reads find the
    /// place in the list; up to 15 entries in a row may be skipped, and any regions may be read
    /// between. The list takes its own memory, and four bytes more for each entry.
    ///
    /// # Errors
    /// [`TellError`] for more than [`MAX_TOLD`](crate::pattern::MAX_TOLD) regions, and for a region
    /// that is empty or not within the array.
    pub fn tell(&mut self, regions: Vec<Region>) -> Result<(), TellError> {
        self.apriori = Some(Apriori::new(regions, &self.array)?);
        self.confidence = Confidence::FULL;
        Ok(())
    }

    /// Takes the next read.
    ///
    /// A read that repeats the one before is neither hit nor miss. Nothing changes by one that no
    /// pattern can hold: that of a scalar, an empty one, one that is not within the array, or
    /// one behind coordinate 2^60.
    pub fn observe(&mut self, read: &Region) {
        let Some(window) = self.edges.window(read) else { return };
        if self.last.as_ref() == Some(&window) {
            self.strays.push_repeated(window, self.reads);
            return;
        }
        let expects = self.expects();
        self.reads += 1;
        let told = self.apriori.as_mut().is_some_and(|apriori| apriori.observe(read));
        let followed = self.follow(&window);
        self.neighbourhood.observe(self.last.as_ref(), &window, followed);
        if told || followed {
            self.confidence.hit();
        } else if expects {
            self.confidence.miss();
        }
        if !followed {
            self.take_stray(&window, expects);
        }
        self.last = Some(window);
    }

    /// The regions that are likely to be read next, at most `max` and at most [`MAX_PREDICTIONS`].
    pub fn predict(&self, max: usize) -> Predictions {
        let max = max.min(MAX_PREDICTIONS);
        let mut next = Vec::with_capacity(max.min(TYPICAL_PREDICTIONS));
        if let Some(apriori) = self.apriori.as_ref().filter(|apriori| apriori.is_live()) {
            let to_come = apriori.to_come().iter().take(2 * max).cloned();
            self.add(&mut next, max, Pattern::Apriori, to_come);
        } else {
            self.predict_streams(&mut next, max);
            if let Some(last) = self.last.as_ref().filter(|_| self.neighbourhood.is_live()) {
                let rings = self.neighbourhood.rings(last, &self.edges);
                self.add(&mut next, max, Pattern::Neighbourhood, rings.into_iter());
            }
        }
        Predictions { next, confidence: self.confidence }
    }

    /// The pattern of the next prediction, [`Pattern::Random`] if there is none.
    pub fn pattern(&self) -> Pattern {
        self.predict(1).next.first().map_or(Pattern::Random, |prediction| prediction.pattern)
    }

    /// Whether the detector predicts from a list that it was told.
    pub(crate) fn is_told(&self) -> bool {
        self.apriori.as_ref().is_some_and(Apriori::is_live)
    }

    /// The regions that were told and are to come, while reads keep to the list.
    pub(crate) fn announced(&self) -> &[Region] {
        self.apriori.as_ref().filter(|apriori| apriori.is_live()).map_or(&[], Apriori::to_come)
    }

    fn expects(&self) -> bool {
        self.is_told() || self.streams.iter().any(|stream| stream.is_live(self.reads))
    }

    /// Gives the read to the stream that it belongs to.
    fn follow(&mut self, read: &Window) -> bool {
        let (edges, now) = (&self.edges, self.reads);
        let expected = self.streams.iter_mut().position(|stream| stream.follow(read, edges, now));
        let followed =
            expected.or_else(|| self.streams.iter_mut().position(|stream| stream.follow_irregular(read, edges, now)));
        let Some(followed) = followed else { return false };
        self.streams[..=followed].rotate_right(1);
        let (stream, others) = self.streams.split_first_mut().expect("a stream was followed");
        others.iter_mut().for_each(|other| other.goes_on(stream.id));
        if let Some(continued) = stream.certainly_continues() {
            self.streams.retain(|stream| stream.id != continued);
        }
        true
    }

    fn take_stray(&mut self, read: &Window, expects: bool) {
        let now = self.reads;
        self.streams.retain(|stream| !stream.is_over(now));
        if self.wrap(read) {
            return;
        }
        if let Some(formed) = self.strays.form(read, now, &self.edges) {
            if !expects {
                self.confidence = Confidence::FULL;
            }
            let id = self.next_id();
            self.add_stream(Stream::new(formed.nest, id, now, formed.is_certain));
        } else {
            self.strays.push(read.clone(), now);
        }
    }

    /// Continues the nearest stream whose outermost loop seems to have ended before an earlier
    /// stray and this read; `false` if there is none.
    fn wrap(&mut self, read: &Window) -> bool {
        let mut nearest: Option<(u64, usize, Stream, Window)> = None;
        for (number, stream) in self.streams.iter().enumerate() {
            for stray in self.strays.since(stream.last()) {
                let far = stray.start.distance(stream.nest.current());
                if nearest.as_ref().is_some_and(|(nearest, ..)| *nearest <= far) {
                    continue;
                }
                if let Some(wrapped) = stream.wrap(stray, read, &self.edges, self.formed, self.reads) {
                    nearest = Some((far, number, wrapped, stray.clone()));
                }
            }
        }
        let Some((_, number, wrapped, stray)) = nearest else { return false };
        self.streams[number].end();
        self.strays.forget(&stray);
        self.next_id();
        self.add_stream(wrapped);
        true
    }

    /// Adds a stream in front, in place of the doubtful one, else the one, that was read longest
    /// ago.
    fn add_stream(&mut self, stream: Stream) {
        if self.streams.len() == MAX_STREAMS {
            let doubtful = self.streams.iter().rposition(Stream::is_doubtful);
            self.streams.remove(doubtful.unwrap_or(MAX_STREAMS - 1));
        }
        self.streams.insert(0, stream);
    }

    fn next_id(&mut self) -> u64 {
        self.formed += 1;
        self.formed - 1
    }

    /// Streams foretell in turns; the one that was read longest ago is read next.
    fn predict_streams(&self, next: &mut Vec<Prediction>, max: usize) {
        let live = self.streams.iter().rev().filter(|stream| stream.is_live(self.reads));
        let mut turns: SmallVec<[Turn<'_>; MAX_STREAMS]> = live.map(Turn::new).collect();
        // A nest whose outermost loop repeats a few boxes has no end.
        for ahead in 0..2 * max {
            turns.retain_mut(|turn| ahead < turn.stream.max_ahead() && turn.advance(&self.edges));
            for turn in &turns {
                self.add(next, max, turn.pattern, turn.region(&self.edges).into_iter());
            }
            if turns.is_empty() || next.len() == max {
                return;
            }
        }
    }

    /// Adds regions that are not there, up to the limit.
    fn add(&self, next: &mut Vec<Prediction>, max: usize, pattern: Pattern, regions: impl Iterator<Item = Region>) {
        for region in regions {
            if next.len() == max {
                return;
            }
            let just_read = self.last.as_ref().is_some_and(|last| is_same(last, &region));
            if !just_read && next.iter().all(|prediction| differ(&prediction.region, &region)) {
                next.push(Prediction { region, pattern });
            }
        }
    }
}

/// A stream that is followed ahead of its reads.
struct Turn<'a> {
    stream: &'a Stream,
    place: Place,
    pattern: Pattern,
    /// The shape of the stream's boxes. Those of boxes that only edges made small may have more
    /// elements than a shape counts.
    shape: Option<Shape>,
}

impl<'a> Turn<'a> {
    fn new(stream: &'a Stream) -> Self {
        let shape = Shape::new(stream.nest.extents().iter().map(|extent| *extent as u64)).ok();
        Self { stream, place: stream.nest.place().clone(), pattern: stream.nest.pattern(), shape }
    }

    fn advance(&mut self, edges: &Edges) -> bool {
        self.stream.nest.advance(&mut self.place, edges)
    }

    fn region(&self, edges: &Edges) -> Option<Region> {
        let (start, extents) = (self.place.current(), self.stream.nest.extents());
        self.shape.as_ref().map_or_else(|| edges.cut(start, extents), |shape| edges.cut_known(start, extents, shape))
    }
}

/// Compares the numbers in turn, which differ soon, and not as bytes by a call.
fn differ(one: &Region, other: &Region) -> bool {
    let differ = |one: &[u64], other: &[u64]| one.iter().zip(other).rev().any(|(one, other)| one != other);
    differ(one.start(), other.start()) || differ(one.shape().extents(), other.shape().extents())
}

fn is_same(window: &Window, region: &Region) -> bool {
    let agree =
        |signed: &[i64], unsigned: &[u64]| signed.iter().zip(unsigned).all(|(one, other)| *one as u64 == *other);
    agree(&window.start, region.start()) && agree(&window.extents, region.shape().extents())
}

/// The largest number of regions that a detector predicts at a time.
pub const MAX_PREDICTIONS: usize = 256;
const MAX_STREAMS: usize = 4;
const TYPICAL_PREDICTIONS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded() {
        let array = Shape::new([1 << 20; 3]).unwrap();
        let mut detector = Detector::new(&array);
        for read in 0..10_000_u64 {
            // Strides of a few reads, each elsewhere.
            let (stride, number) = (read / 5, read % 5);
            let start = [stride * stride * 7919 % 1_000_000 + number * 3, stride * 104_729 % 1_000_000, number];
            detector.observe(&Region::new(start, Shape::new([2, 2, 1]).unwrap()).unwrap());
        }
        assert_eq!(detector.formed, 2000);
        assert_eq!((detector.streams.len(), detector.streams.capacity()), (MAX_STREAMS, MAX_STREAMS));
        assert!(detector.strays.capacity() <= 16);
        let bytes = size_of::<Detector>() + MAX_STREAMS * size_of::<Stream>() + 16 * (size_of::<Window>() + 8);
        assert!(bytes <= 6 << 10, "{bytes}");
    }
}
