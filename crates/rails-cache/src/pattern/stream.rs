//! A nest that reads follow, and how well it foretells them.

use crate::pattern::{
    nest::Nest,
    window::{Edges, Window},
};

/// One of the streams of reads that a job has at a time.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Stream {
    pub(crate) nest: Nest,
    /// The name of the stream: no two have the same.
    pub(crate) id: u64,
    /// The stream that this one was taken to continue, and how many reads it has foretold since.
    /// The other one may yet go on by itself.
    continues: Option<(u64, u64)>,
    /// How many reads it has foretold.
    hits: u64,
    /// The number of the last read that was its own.
    last: u64,
    /// Whether there is evidence enough that its reads are no chance.
    is_certain: bool,
    /// Whether another stream seems to continue it.
    is_continued: bool,
}

impl Stream {
    /// A stream whose reads so far, of which `now` is the last, are evidence enough, or not yet.
    pub(crate) fn new(nest: Nest, id: u64, now: u64, is_certain: bool) -> Self {
        Self { nest, id, continues: None, hits: 1, last: now, is_certain, is_continued: false }
    }

    /// The stream that this one is after its outermost loop ended and went on at `wrapped`, then
    /// read `read`; `None` if the two do not look like it.
    pub(crate) fn wrap(&self, wrapped: &Window, read: &Window, edges: &Edges, id: u64, now: u64) -> Option<Self> {
        if self.is_continued {
            return None;
        }
        let nest = self.nest.wrap(wrapped, read, edges)?;
        let (continues, hits) = (Some((self.id, 0)), self.hits + 1);
        Some(Self { nest, id, continues, hits, last: now, is_certain: true, is_continued: false })
    }

    /// Takes the read if it is the next one.
    pub(crate) fn follow(&mut self, read: &Window, edges: &Edges, now: u64) -> bool {
        let follows = self.nest.follow(read, edges);
        self.count(follows, now)
    }

    /// Takes the read if it belongs to the stream although another one would have been next.
    pub(crate) fn follow_irregular(&mut self, read: &Window, edges: &Edges, now: u64) -> bool {
        let follows = self.nest.follow_irregular(read, edges);
        self.count(follows, now)
    }

    /// Says that another stream seems to continue this one.
    pub(crate) fn end(&mut self) {
        self.is_continued = true;
    }

    /// The stream that this one continues, if that is certain by now.
    pub(crate) fn certainly_continues(&self) -> Option<u64> {
        self.continues.filter(|(_, hits)| *hits >= MIN_HITS_TO_CONTINUE).map(|(id, _)| id)
    }

    /// Learns that a stream went on by itself, so that this one does not continue it.
    pub(crate) fn goes_on(&mut self, id: u64) {
        if self.continues.take_if(|(continued, _)| *continued == id).is_some() {
            self.nest.without_outermost();
        }
    }

    /// Whether another stream may take its place before those that are read.
    pub(crate) fn is_doubtful(&self) -> bool {
        self.is_continued || !self.is_certain
    }

    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// Whether it may foretell: it did so lately, the later the longer it has.
    pub(crate) fn is_live(&self, now: u64) -> bool {
        !self.is_doubtful() && now - self.last <= (2 * self.hits).min(MAX_PATIENCE)
    }

    /// Whether its reads have ended.
    pub(crate) fn is_over(&self, now: u64) -> bool {
        let patience = if self.is_certain || self.hits > 1 { MAX_ABSENCE } else { MAX_UNCERTAINTY };
        now - self.last > patience
    }

    /// How many boxes it may foretell: the more, the more it has. So a few reads that look like a
    /// stream by chance cost little.
    pub(crate) fn max_ahead(&self) -> usize {
        1 << self.hits.min(u64::from(usize::BITS - 2))
    }

    fn count(&mut self, follows: bool, now: u64) -> bool {
        if follows {
            self.hits += 1;
            self.last = now;
            self.is_certain = true;
            self.is_continued = false;
            if let Some((_, hits)) = &mut self.continues {
                *hits += 1;
            }
        }
        follows
    }
}

/// Of four streams that take turns at random, one waits longer than this many reads in a hundredth
/// of the cases.
const MAX_PATIENCE: u64 = 16;
/// Two threads with the same step look like one that went on elsewhere until the first one reads
/// again. If they take turns at random, it does so after fewer reads than these but once in 64.
const MIN_HITS_TO_CONTINUE: u64 = 6;
const MAX_ABSENCE: u64 = 64;
const MAX_UNCERTAINTY: u64 = 12;
