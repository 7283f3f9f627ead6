//! Every byte that a lane has taken and that is not known to be delivered.

use crate::{
    append_map::AppendMap,
    chunk::{Chunk, ChunkKind},
    mutation::{self, Mutation},
    stream_number::StreamNumber,
};
use bytes::Bytes;
use smallvec::SmallVec;
use std::{collections::BTreeSet, ops::Range};

/// Bytes that were sent and are not known to be delivered, in segments that lie in the order of
/// their positions and do not overlap.
///
/// This is the only record of which lane holds which byte. Only evidence of delivery removes a
/// segment: an acknowledgement on a lane that sent it, or a position beyond it up to which the
/// peer has read. A lane that takes a part of a segment splits it, and segments are never joined. A
/// [transmission](super::transmissions::Transmission) was one segment when its lane took it, so its
/// range consists of whole segments as long as any of it is left.
#[derive(Debug, Default)]
pub(super) struct Outstanding {
    segments: AppendMap<u64, Segment>,
    /// The bytes in all segments.
    bytes: u64,
    /// How many segments the peer is known to have received, or no longer wants.
    delivered: u64,
    index: Index,
    settled: Settled,
}

/// What the peer has got, or wants no more.
#[derive(Debug, Default)]
pub(crate) struct Settled {
    /// The streams of which no segment is left.
    pub(crate) streams: SmallVec<[StreamNumber; 2]>,
    /// The chunks of control records.
    pub(crate) control: Vec<Bytes>,
}

/// The segments of each lane and of each stream, and the requeued ones, to save a search.
#[derive(Debug, Default, PartialEq)]
struct Index {
    /// How many segments each stream has, of those that have any.
    of_streams: AppendMap<StreamNumber, usize>,
    /// The segments that each lane answers for: the numbers of the lane's transmissions, and the
    /// segments' positions.
    answered: Vec<AppendMap<(u64, u64), ()>>,
    /// The positions of the segments that no lane answers for.
    requeued: BTreeSet<u64>,
    /// The bytes in the requeued segments.
    requeued_bytes: u64,
}

/// A range of the stream whose bytes all lie with the same lanes.
#[derive(Debug)]
pub(super) struct Segment {
    chunk: Chunk,
    /// The transmission that has to deliver the segment, on one of the lanes that sent it; `None`
    /// if it is requeued and waits for a lane.
    responsible: Option<TransmissionId>,
    /// The lanes that took the segment on their present connection.
    sent_on: u64,
}

/// Identifies a transmission of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TransmissionId {
    pub(super) lane: usize,
    /// The transmission's number on the present connection of the lane.
    pub(super) number: u64,
}

impl Outstanding {
    pub(super) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// How many segments there are.
    pub(super) fn len(&self) -> usize {
        self.segments.len()
    }

    /// The bytes in all segments.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many segments the peer is known to have received, or no longer wants.
    pub(super) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// The segment that the peer needs next.
    pub(super) fn first(&self) -> Option<&Segment> {
        self.segments.first().map(|(_, segment)| segment)
    }

    /// The segment that begins at `position`.
    pub(super) fn at(&self, position: u64) -> Option<&Segment> {
        self.segments.get(position)
    }

    /// All segments.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &Segment> {
        self.segments.iter().map(|(_, segment)| segment)
    }

    /// The segment that the index names.
    fn indexed(&self, position: u64) -> &Segment {
        self.segments.get(position).expect("the index names segments")
    }

    /// The segments in a range, or the one at its start if it is empty.
    pub(super) fn within(&self, range: Range<u64>) -> impl Iterator<Item = &Segment> {
        self.segments.range(range.start..range.end.max(range.start + 1)).map(|(_, segment)| segment)
    }

    /// The segments that no lane answers for.
    pub(super) fn requeued(&self) -> impl Iterator<Item = &Segment> {
        self.index.requeued.iter().map(|position| self.indexed(*position))
    }

    /// How many segments no lane answers for, and their bytes.
    pub(super) fn requeued_size(&self) -> (usize, u64) {
        (self.index.requeued.len(), self.index.requeued_bytes)
    }

    /// The segments that `lane` answers for, with the numbers of their transmissions, in the order
    /// of these.
    pub(super) fn answered_by(&self, lane: usize) -> impl DoubleEndedIterator<Item = (u64, &Segment)> {
        let answered = self.index.answered.get(lane).into_iter().flat_map(AppendMap::iter);
        answered.map(|((number, position), ())| (number, self.indexed(position)))
    }

    /// The bytes of all segments that were sent on `lane`.
    pub(super) fn bytes_sent_on(&self, lane: usize) -> u64 {
        self.iter().filter(|segment| segment.is_sent_on(lane)).map(Segment::length).sum()
    }

    /// Adds a new chunk, which a lane has taken.
    pub(super) fn send(&mut self, chunk: Chunk, by: TransmissionId) {
        self.insert(Segment { chunk, responsible: Some(by), sent_on: bit(by.lane) });
    }

    /// Gives a lane the segment that begins at `position`, or its first `max` bytes: the lane
    /// answers for them from here on.
    pub(super) fn send_again(&mut self, position: u64, max: usize, by: TransmissionId) -> Option<Chunk> {
        let mut segment = self.remove(position)?;
        if let Some(rest) = segment.chunk.split_off(max) {
            self.insert(Segment { chunk: rest, ..segment });
        }
        let chunk = segment.chunk.clone();
        segment.responsible = Some(by);
        segment.sent_on |= bit(by.lane);
        self.insert(segment);
        Some(chunk)
    }

    /// Gives a lane a copy of the segment that begins at `position`, or of its first `max` bytes.
    /// The lane that answers for it stays the same.
    pub(super) fn copy(&mut self, position: u64, max: usize, by: TransmissionId) -> Option<Chunk> {
        let responsible = self.segments.get(position)?.responsible;
        let chunk = self.send_again(position, max, by)?;
        let mut segment = self.remove(position)?;
        segment.responsible = responsible;
        self.insert(segment);
        Some(chunk)
    }

    /// The peer has this range; an empty one is the end of the stream.
    pub(super) fn deliver(&mut self, range: Range<u64>) {
        loop {
            let Some(position) = self.within(range.clone()).next().map(Segment::position) else { return };
            self.settle(position);
        }
    }

    /// The peer has read all bytes of streams below `consumed`. The cost does not depend on the
    /// segments that stay, but for the few that [only an
    /// acknowledgement](Chunk::must_be_acknowledged) removes.
    pub(super) fn deliver_below(&mut self, consumed: u64) {
        let mut from = 0;
        while from < consumed {
            let Some(segment) = self.within(from..consumed).next() else { return };
            let (position, is_known) = (segment.position(), segment.chunk.is_known_below(consumed));
            from = segment.end().max(position + 1);
            if is_known {
                self.settle(position);
            }
        }
    }

    /// Whether there is a segment of a stream.
    pub(super) fn has_any_of(&self, stream: StreamNumber) -> bool {
        self.index.of_streams.get(stream).is_some()
    }

    /// The peer wants nothing more of a stream.
    pub(super) fn abandon(&mut self, stream: StreamNumber) {
        let count = self.index.of_streams.get(stream).copied().unwrap_or_default();
        let of_stream = self.iter().filter(|segment| segment.stream() == Some(stream)).map(Segment::position);
        of_stream.take(count).collect::<Vec<_>>().into_iter().for_each(|position| self.settle(position));
    }

    /// The peer has everything, or reads no more.
    pub(super) fn clear(&mut self) {
        while let Some(position) = self.first().map(Segment::position) {
            self.settle(position);
        }
    }

    /// The peer has the segment at `position`, or no longer wants it.
    fn settle(&mut self, position: u64) {
        let Some(segment) = self.segments.remove(position) else { return };
        self.bytes -= segment.length();
        self.delivered += 1;
        if self.index.remove(&segment) {
            self.settled.streams.extend(segment.stream());
        }
        if segment.chunk.kind == ChunkKind::Control {
            self.settled.control.extend(segment.chunk.payload);
        }
    }

    /// Takes the streams of which no segment is left since the last call, and the control records
    /// that the peer has got.
    pub(super) fn take_settled(&mut self) -> Settled {
        std::mem::take(&mut self.settled)
    }

    /// `lane` no longer answers for its segments, though they may still arrive: they are requeued,
    /// until another lane that sent them [answers](Self::resume) for them.
    pub(super) fn release(&mut self, lane: usize) {
        let answered = self.index.answered.get_mut(lane).map(std::mem::take).unwrap_or_default();
        for ((_, position), ()) in answered {
            let segment = self.segments.get_mut(position).expect("the index names segments");
            segment.responsible = None;
            self.index.add_by_lane(segment);
        }
    }

    /// The connection of `lane` is lost: the lane delivers nothing more.
    pub(super) fn lose(&mut self, lane: usize) {
        self.release(lane);
        self.segments.values_mut().for_each(|segment| segment.sent_on &= !bit(lane));
        if mutation::has(Mutation::RecordsLost) {
            let is_record = |segment: &&Segment| segment.chunk.kind == ChunkKind::Control;
            let records: Vec<u64> = self.requeued().filter(is_record).map(Segment::position).collect();
            records.into_iter().for_each(|position| self.settle(position));
        }
    }

    /// `lane` answers for the requeued segments that it sent in these transmissions, which are
    /// given by number and range.
    pub(super) fn resume(&mut self, lane: usize, transmissions: impl Iterator<Item = (u64, Range<u64>)>) {
        for (number, Range { start, end }) in transmissions {
            let requeued: Vec<u64> = self.index.requeued.range(start..end.max(start + 1)).copied().collect();
            for position in requeued {
                let segment = self.segments.get_mut(position).expect("the index names segments");
                if segment.is_sent_on(lane) {
                    self.index.remove_by_lane(segment);
                    segment.responsible = Some(TransmissionId { lane, number });
                    self.index.add_by_lane(segment);
                }
            }
        }
    }

    /// Checks that the segments do not overlap, that the end is the last of them, and that the
    /// index is right.
    pub(super) fn check(&self) {
        let mut index = Index::default();
        for (position, segment) in self.segments.iter() {
            assert_eq!(position, segment.position());
            let bytes = segment.chunk.payload.iter().map(|slice| slice.len() as u64).sum::<u64>();
            assert_eq!(bytes, segment.length(), "a segment without its bytes");
            index.add(segment);
        }
        for (one, next) in self.iter().zip(self.iter().skip(1)) {
            assert!(one.end() <= next.position(), "segments overlap");
            assert!(!one.chunk.fin || one.stream() != next.stream(), "a stream has bytes behind its end");
        }
        assert_eq!(self.bytes, self.iter().map(Segment::length).sum::<u64>());
        index.answered.resize_with(self.index.answered.len().max(index.answered.len()), AppendMap::default);
        assert_eq!(index, self.index);
    }

    fn insert(&mut self, segment: Segment) {
        self.index.add(&segment);
        self.bytes += segment.length();
        let before = self.segments.insert(segment.position(), segment);
        assert!(before.is_none(), "two segments begin at the same position");
    }

    fn remove(&mut self, position: u64) -> Option<Segment> {
        let segment = self.segments.remove(position)?;
        self.index.remove(&segment);
        self.bytes -= segment.length();
        Some(segment)
    }
}

impl Index {
    fn add(&mut self, segment: &Segment) {
        if let Some(stream) = segment.stream() {
            match self.of_streams.get_mut(stream) {
                Some(count) => *count += 1,
                None => {
                    self.of_streams.insert(stream, 1);
                }
            }
        }
        self.add_by_lane(segment);
    }

    /// Returns whether the segment was the last of its stream.
    fn remove(&mut self, segment: &Segment) -> bool {
        self.remove_by_lane(segment);
        let Some(stream) = segment.stream() else { return false };
        let Some(count) = self.of_streams.get_mut(stream) else { return false };
        *count -= 1;
        let is_last = *count == 0;
        if is_last {
            self.of_streams.remove(stream);
        }
        is_last
    }

    fn add_by_lane(&mut self, segment: &Segment) {
        match segment.responsible {
            Some(TransmissionId { lane, number }) => {
                if self.answered.len() <= lane {
                    self.answered.resize_with(lane + 1, AppendMap::default);
                }
                self.answered[lane].insert((number, segment.position()), ());
            }
            None => {
                self.requeued.insert(segment.position());
                self.requeued_bytes += segment.length();
            }
        }
    }

    fn remove_by_lane(&mut self, segment: &Segment) {
        match segment.responsible {
            Some(TransmissionId { lane, number }) => {
                self.answered[lane].remove((number, segment.position()));
            }
            None => {
                self.requeued.remove(&segment.position());
                self.requeued_bytes -= segment.length();
            }
        }
    }
}

impl Segment {
    pub(super) fn position(&self) -> u64 {
        self.chunk.position
    }

    /// The position behind the segment's last byte.
    pub(super) fn end(&self) -> u64 {
        self.chunk.position + self.length()
    }

    pub(super) fn length(&self) -> u64 {
        self.chunk.length.into()
    }

    /// The segment's stream; `None` of control records.
    fn stream(&self) -> Option<StreamNumber> {
        Some(self.chunk.stream).filter(|_| self.chunk.kind == ChunkKind::Stream)
    }

    /// The transmission that answers for the segment.
    pub(super) fn responsible(&self) -> Option<TransmissionId> {
        self.responsible
    }

    /// The lanes that sent the segment.
    pub(super) fn sent_on(&self) -> u64 {
        self.sent_on
    }

    /// Whether the segment has at most `max` bytes, or can be cut.
    pub(super) fn fits(&self, max: usize) -> bool {
        max > 0 && (self.length() <= max as u64 || self.chunk.can_be_split(max as u32))
    }

    pub(super) fn is_sent_on(&self, lane: usize) -> bool {
        self.sent_on & bit(lane) != 0
    }
}

/// A lane in a set of lanes; a stream has at most 64.
pub(super) fn bit(lane: usize) -> u64 {
    1 << lane
}
