//! The detector of a parallel job: who reads after whom.

use crate::pattern::{
    apriori::TellError,
    detector::{Detector, MAX_PREDICTIONS},
    prediction::{Confidence, Pattern, Predictions},
};
use rails_array::{Region, Shape};
use std::collections::{BTreeMap, VecDeque};

/// Sees which rank of a parallel job reads which region of a dataset, and predicts for a rank its
/// next regions, and the sibling that holds them.
///
/// In the thesis' *consecutive* pattern (section 5.1, Figure 18) a rank reads the data that the
/// next rank read in the iteration before, as when a view is panned over several nodes. So a rank
/// follows its neighbour, that one follows the next, and the last of the chain reads new data,
/// which its own [`Detector`] predicts. The chain is found by the regions alone: ranks may be ahead
/// of each other by a few reads, and may pan either way. A rank that follows no other one has the
/// predictions of its own detector.
///
/// A rank takes about 8 KiB, so the [`MAX_RANKS`] ranks of a job take at most 2 MiB; lists that
/// are [told](Self::tell) come on top of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct JobDetector {
    array: Shape,
    ranks: BTreeMap<u32, Rank>,
    /// How many reads there were.
    reads: u64,
}

/// A region that a rank is likely to read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct JobPrediction {
    /// The region: within the array, never empty, and another one than the rank has just read.
    pub region: Region,
    /// The pattern that foretells it.
    pub pattern: Pattern,
    /// The neighbour that has read it lately, if one has: it may be fetched from there.
    pub holder: Option<u32>,
}

/// The regions that a rank is likely to read next.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct JobPredictions {
    /// The regions, the next one first. None is there twice.
    pub next: Vec<JobPrediction>,
    /// How much of the depth these predictions deserve.
    pub confidence: Confidence,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Rank {
    detector: Detector,
    /// The latest reads, the latest one last.
    latest: VecDeque<Region>,
    /// How many reads there were.
    reads: u64,
    /// The number of the latest one among those of the job.
    last: u64,
    follows: Option<Follows>,
}

/// A rank reads what another one has read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Follows {
    rank: u32,
    /// The read of that rank which this one has followed last.
    read: u64,
    /// How many reads it has followed.
    hits: u32,
    /// How many it has not since.
    misses: u32,
    confidence: Confidence,
}

impl JobDetector {
    /// A detector that has seen nothing, for an array of that shape.
    pub fn new(array: &Shape) -> Self {
        Self { array: array.clone(), ranks: BTreeMap::new(), reads: 0 }
    }

    /// Tells the regions that a rank will read: see [`Detector::tell`].
    ///
    /// # Errors
    /// Those of [`Detector::tell`].
    pub fn tell(&mut self, rank: u32, regions: Vec<Region>) -> Result<(), TellError> {
        self.rank(rank).detector.tell(regions)
    }

    /// Takes the next read, that of a rank. Of more than [`MAX_RANKS`] ranks, the one that read
    /// longest ago is forgotten.
    ///
    /// Reads that a [`Detector`] takes for nothing change nothing.
    pub fn observe(&mut self, rank: u32, read: &Region) {
        if read.is_empty() || read.rank() == 0 || !read.is_within(&self.array) {
            return;
        }
        self.reads += 1;
        let follows = self.followed(rank, read);
        let now = self.reads;
        let reader = self.rank(rank);
        reader.last = now;
        if reader.latest.back() == Some(read) {
            return;
        }
        reader.follows = follows;
        reader.detector.observe(read);
        reader.reads += 1;
        if reader.latest.len() == MAX_LATEST {
            reader.latest.pop_front();
        }
        reader.latest.push_back(read.clone());
    }

    /// The regions that a rank is likely to read next, at most `max` and at most
    /// [`MAX_PREDICTIONS`].
    pub fn predict(&self, rank: u32, max: usize) -> JobPredictions {
        let max = max.min(MAX_PREDICTIONS);
        let Some(reader) = self.ranks.get(&rank) else {
            return JobPredictions { next: Vec::new(), confidence: Confidence::FULL };
        };
        let follows = reader.follows.as_ref().filter(|follows| follows.is_certain());
        let mut next = Vec::new();
        let Some(follows) = follows.filter(|_| !reader.detector.is_told()) else {
            let own = reader.detector.predict(max);
            let confidence = own.confidence;
            self.add_own(&mut next, max, rank, own);
            return JobPredictions { next, confidence };
        };
        let leader = self.add_chain(&mut next, max, rank, follows.rank > rank);
        let new = self.ranks[&leader].detector.predict(max);
        self.add_own(&mut next, max, rank, new);
        JobPredictions { next, confidence: follows.confidence }
    }

    /// Adds the regions that the ranks of the chain have read, and says who is its last.
    fn add_chain(&self, next: &mut Vec<JobPrediction>, max: usize, rank: u32, upwards: bool) -> u32 {
        let mut follower = rank;
        loop {
            let follows = self.ranks[&follower].follows.as_ref().filter(|follows| follows.is_certain());
            // A chain that turned round would lead to data that were read before.
            let Some(follows) = follows.filter(|follows| (follows.rank > follower) == upwards) else { return follower };
            let Some(source) = self.ranks.get(&follows.rank) else { return follower };
            for region in source.since(follows.read) {
                let prediction =
                    JobPrediction { region: region.clone(), pattern: Pattern::Consecutive, holder: Some(follows.rank) };
                self.add(next, max, rank, prediction);
            }
            if next.len() == max {
                return follower;
            }
            follower = follows.rank;
        }
    }

    fn add_own(&self, next: &mut Vec<JobPrediction>, max: usize, rank: u32, own: Predictions) {
        for prediction in own.next {
            let holder = neighbours(rank).find(|neighbour| {
                self.ranks.get(neighbour).is_some_and(|near| near.latest.contains(&prediction.region))
            });
            self.add(next, max, rank, JobPrediction { region: prediction.region, pattern: prediction.pattern, holder });
        }
    }

    fn add(&self, next: &mut Vec<JobPrediction>, max: usize, rank: u32, prediction: JobPrediction) {
        let is_known = next.iter().any(|known| known.region == prediction.region);
        let just_read = self.ranks[&rank].latest.back() == Some(&prediction.region);
        if next.len() < max && !is_known && !just_read {
            next.push(prediction);
        }
    }

    /// Whom a rank follows after that read.
    fn followed(&self, rank: u32, read: &Region) -> Option<Follows> {
        let known = self.ranks.get(&rank).and_then(|rank| rank.follows.clone());
        let Some(mut follows) = known else { return self.find_followed(rank, read) };
        let source = self.ranks.get(&follows.rank)?;
        let ahead = source.since(follows.read).position(|region| region == read);
        if let Some(ahead) = ahead {
            follows.read = source.reads - source.since(follows.read).len() as u64 + ahead as u64;
            follows.hits = follows.hits.saturating_add(1);
            follows.misses = 0;
            follows.confidence.hit();
            return Some(follows);
        }
        follows.misses += 1;
        follows.confidence.miss();
        if follows.misses < MISSES_THAT_END { Some(follows) } else { self.find_followed(rank, read) }
    }

    fn find_followed(&self, rank: u32, read: &Region) -> Option<Follows> {
        neighbours(rank).find_map(|neighbour| {
            let source = self.ranks.get(&neighbour)?;
            let place = source.latest.iter().rposition(|region| region == read)?;
            let number = source.reads - (source.latest.len() - place) as u64;
            Some(Follows { rank: neighbour, read: number, hits: 1, misses: 0, confidence: Confidence::FULL })
        })
    }

    fn rank(&mut self, rank: u32) -> &mut Rank {
        if !self.ranks.contains_key(&rank) && self.ranks.len() == MAX_RANKS {
            let oldest = self.ranks.iter().min_by_key(|(_, each)| each.last).map(|(rank, _)| *rank);
            self.ranks.remove(&oldest.expect("as many ranks as there may be are more than none"));
        }
        self.ranks.entry(rank).or_insert_with(|| Rank {
            detector: Detector::new(&self.array),
            latest: VecDeque::with_capacity(MAX_LATEST),
            reads: 0,
            last: self.reads,
            follows: None,
        })
    }
}

impl Rank {
    /// The reads after the one of that number, as far as they are known.
    fn since(&self, number: u64) -> impl ExactSizeIterator<Item = &Region> {
        let first = self.reads - self.latest.len() as u64;
        let known = (number + 1).saturating_sub(first).min(self.latest.len() as u64);
        self.latest.range(known as usize..)
    }
}

impl Follows {
    fn is_certain(&self) -> bool {
        self.hits >= MIN_HITS
    }
}

/// The ranks whose box may become that of this one, the thesis' direction first.
fn neighbours(rank: u32) -> impl Iterator<Item = u32> {
    rank.checked_add(1).into_iter().chain(rank.checked_sub(1))
}

/// The largest number of ranks that a job's detector remembers.
pub const MAX_RANKS: usize = 256;
/// So many reads may a rank be ahead of the one that follows it.
const MAX_LATEST: usize = 16;
/// Like two equal steps of a stride.
const MIN_HITS: u32 = 2;
const MISSES_THAT_END: u32 = 3;
