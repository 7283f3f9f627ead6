//! One large message while its parts arrive: the pieces of its one buffer.

use super::MessageBuffer;
use bytes::{Bytes, BytesMut};
use std::collections::BTreeMap;

/// The buffer of a message, in pieces. A piece is empty, full, or claimed by a lane that fills it.
///
/// A lane holds its piece only while it reads from its socket or verifies the bytes, and never
/// while it waits. So a stuck or lost lane does not keep its piece, and a copy of the part that
/// arrives on another lane can go into it.
#[derive(Debug)]
pub(super) struct Assembly {
    /// The pieces by the offset at which they begin; together they are the whole message.
    pieces: BTreeMap<u32, Piece>,
    /// Parts that arrived whole on one lane while another held their piece, with their offsets; no
    /// two overlap.
    waiting_parts: Vec<(u32, Bytes)>,
    /// The bytes in full pieces.
    filled: u32,
    total: u32,
}

#[derive(Debug)]
struct Piece {
    /// Empty while a lane holds the piece.
    bytes: MessageBuffer,
    length: u32,
    state: PieceState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PieceState {
    Empty,
    /// A lane fills the piece, and has filled the first `filled` bytes.
    Taken {
        lane: u8,
        filled: u32,
        in_hand: bool,
    },
    Full,
}

/// A lane whose piece another lane has filled: it goes on in a buffer of its own.
#[derive(Debug)]
pub(super) struct Ousted {
    pub(super) lane: u8,
    /// As long as the lane's piece was, with the bytes that the lane had received.
    pub(super) buffer: BytesMut,
}

impl Assembly {
    /// Creates a message that is as long as `buffer`.
    pub(super) fn new(buffer: MessageBuffer) -> Self {
        let total = buffer.len() as u32;
        let pieces = BTreeMap::from([(0, Piece::new(buffer, PieceState::Empty))]);
        Self { pieces, waiting_parts: Vec::new(), filled: 0, total }
    }

    pub(super) fn pieces(&self) -> usize {
        self.pieces.len()
    }

    /// Gives the part to `lane` to fill, if no byte of it is full or claimed.
    pub(super) fn claim(&mut self, lane: u8, at: u32, length: u32) -> bool {
        let Some((&from, piece)) = self.pieces.range(..=at).next_back() else { return false };
        if piece.state != PieceState::Empty || at + length > from + piece.length {
            return false;
        }
        self.carve(from, at, length, PieceState::Taken { lane, filled: 0, in_hand: false });
        true
    }

    /// Lends `lane` the piece at `at`, which it fills. The lane gives it back before it waits for
    /// anything.
    pub(super) fn lend(&mut self, lane: u8, at: u32) -> Option<MessageBuffer> {
        let piece = self.pieces.get_mut(&at)?;
        match &mut piece.state {
            PieceState::Taken { lane: holder, in_hand, .. } if *holder == lane && !*in_hand => {
                *in_hand = true;
                Some(std::mem::take(&mut piece.bytes))
            }
            _ => None,
        }
    }

    /// Takes back a lent piece, of which `filled` bytes are full. Returns the lanes whose pieces
    /// other lanes have filled meanwhile, perhaps `lane` too.
    pub(super) fn give_back(&mut self, lane: u8, at: u32, bytes: MessageBuffer, filled: u32) -> Vec<Ousted> {
        let Some(piece) = self.pieces.get_mut(&at) else { return Vec::new() };
        piece.bytes = bytes;
        piece.state = PieceState::Taken { lane, filled, in_hand: false };
        let came = std::mem::take(&mut self.waiting_parts);
        came.into_iter().flat_map(|(at, part)| self.copy(at, &part).1).collect()
    }

    /// Takes back a lent piece that is full and verified.
    pub(super) fn fill(&mut self, at: u32, bytes: MessageBuffer) {
        let Some(piece) = self.pieces.get_mut(&at) else { return };
        self.filled += piece.length;
        *piece = Piece::new(bytes, PieceState::Full);
        self.join(at);
    }

    /// `lane` does not go on with the piece at `at`.
    pub(super) fn release(&mut self, lane: u8, at: u32) {
        if let Some(piece) = self.pieces.get_mut(&at)
            && matches!(piece.state, PieceState::Taken { lane: holder, .. } if holder == lane)
        {
            piece.state = PieceState::Empty;
            self.join(at);
        }
    }

    /// Takes a part that arrived in a buffer of its own. Returns how many bytes were new, and the
    /// lanes whose pieces it fills.
    pub(super) fn copy(&mut self, at: u32, part: &Bytes) -> (u32, Vec<Ousted>) {
        let end = at + part.len() as u32;
        let (mut new, mut ousted) = (0, Vec::new());
        let mut from = at;
        while from < end {
            let Some((&begins, piece)) = self.pieces.range_mut(..=from).next_back() else { break };
            let until = end.min(begins + piece.length);
            let slice = part.slice((from - at) as usize..(until - at) as usize);
            match piece.state {
                PieceState::Full => {}
                PieceState::Taken { in_hand: true, .. } => self.keep_part(from, slice),
                PieceState::Taken { lane, filled, .. } => {
                    let mut buffer = BytesMut::zeroed(piece.length as usize);
                    buffer[..filled as usize].copy_from_slice(&piece.bytes[..filled as usize]);
                    ousted.push(Ousted { lane, buffer });
                    piece.state = PieceState::Empty;
                    continue;
                }
                PieceState::Empty => {
                    self.carve(begins, from, slice.len() as u32, PieceState::Full);
                    if let Some(piece) = self.pieces.get_mut(&from) {
                        piece.bytes.copy_from_slice(&slice);
                    }
                    new += slice.len() as u32;
                    self.join(from);
                }
            }
            from = until;
        }
        self.filled += new;
        (new, ousted)
    }

    /// Keeps a part of a piece that a lane holds, unless the same has come before. An honest peer
    /// cuts a part anew, and never across an earlier cut; of another peer's overlapping parts
    /// the last one stays, so that all together are no longer than the message.
    fn keep_part(&mut self, at: u32, part: Bytes) {
        let end = |at: u32, part: &Bytes| at + part.len() as u32;
        let until = end(at, &part);
        if self.waiting_parts.iter().any(|(from, known)| *from <= at && until <= end(*from, known)) {
            return;
        }
        self.waiting_parts.retain(|(from, known)| end(*from, known) <= at || until <= *from);
        self.waiting_parts.push((at, part));
    }

    /// Takes the message, if all of it has arrived.
    pub(super) fn take_whole(&mut self) -> Option<Bytes> {
        if self.filled < self.total {
            return None;
        }
        self.pieces.pop_first().map(|(_, piece)| piece.bytes.freeze())
    }

    /// Cuts a piece out of an empty piece that no lane holds.
    fn carve(&mut self, from: u32, at: u32, length: u32, state: PieceState) {
        let Some(mut piece) = self.pieces.remove(&from) else { return };
        let mut middle = piece.bytes.split_off((at - from) as usize);
        let behind = middle.split_off(length as usize);
        if !piece.bytes.is_empty() {
            self.pieces.insert(from, Piece::new(piece.bytes, PieceState::Empty));
        }
        if !behind.is_empty() {
            self.pieces.insert(at + length, Piece::new(behind, PieceState::Empty));
        }
        self.pieces.insert(at, Piece::new(middle, state));
    }

    /// Joins the piece at `at` with its neighbours if they are in the same state. They are parts of
    /// one buffer, so this copies nothing.
    fn join(&mut self, at: u32) {
        let Some(piece) = self.pieces.get(&at) else { return };
        let (state, end) = (piece.state, at + piece.length);
        if self.pieces.get(&end).is_some_and(|behind| behind.state == state)
            && let Some(behind) = self.pieces.remove(&end)
        {
            self.append(at, behind);
        }
        let before = self.pieces.range(..at).next_back().filter(|(_, before)| before.state == state);
        if let Some(from) = before.map(|(from, _)| *from)
            && let Some(piece) = self.pieces.remove(&at)
        {
            self.append(from, piece);
        }
    }

    fn append(&mut self, to: u32, behind: Piece) {
        if let Some(piece) = self.pieces.get_mut(&to) {
            piece.length += behind.length;
            piece.bytes.unsplit(behind.bytes);
        }
    }
}

impl Piece {
    fn new(bytes: MessageBuffer, state: PieceState) -> Self {
        Self { length: bytes.len() as u32, bytes, state }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(assembly: &mut Assembly, lane: u8, at: u32, byte: u8) {
        let mut piece = assembly.lend(lane, at).unwrap();
        piece.fill(byte);
        assembly.fill(at, piece);
    }

    #[test]
    fn lanes_fill_their_pieces_of_one_buffer() {
        let buffer = MessageBuffer::zeroed(100);
        let begins = buffer.as_ptr();
        let mut assembly = Assembly::new(buffer);
        assert!(assembly.claim(0, 50, 50) && assembly.claim(1, 0, 20) && assembly.claim(2, 20, 30));
        assert!(!assembly.claim(3, 0, 20) && !assembly.claim(3, 10, 1));
        fill(&mut assembly, 1, 0, 1);
        fill(&mut assembly, 0, 50, 3);
        assert_eq!(assembly.take_whole(), None);
        fill(&mut assembly, 2, 20, 2);
        assert_eq!(assembly.pieces(), 1);
        let whole = assembly.take_whole().unwrap();
        assert_eq!(whole.as_ptr(), begins, "nothing was copied");
        assert!(whole[..20] == [1; 20] && whole[20..50] == [2; 30] && whole[50..] == [3; 50]);
    }

    #[test]
    fn a_copy_fills_what_a_stuck_lane_has_begun() {
        let mut assembly = Assembly::new(MessageBuffer::zeroed(10));
        assert!(assembly.claim(0, 0, 10));
        let mut piece = assembly.lend(0, 0).unwrap();
        piece[..3].fill(7);
        assert!(assembly.give_back(0, 0, piece, 3).is_empty());
        let (new, ousted) = assembly.copy(0, &Bytes::from(vec![9; 10]));
        assert_eq!((new, ousted.len(), ousted[0].lane), (10, 1, 0));
        assert_eq!(ousted[0].buffer[..], [7, 7, 7, 0, 0, 0, 0, 0, 0, 0]);
        assert!(assembly.lend(0, 0).is_none(), "the lane has lost its piece");
        assert_eq!(assembly.take_whole().unwrap()[..], [9; 10]);
    }

    #[test]
    fn copy_of_a_piece_that_is_being_read() {
        for right in [true, false] {
            let mut assembly = Assembly::new(MessageBuffer::zeroed(10));
            assert!(assembly.claim(0, 0, 10));
            let mut piece = assembly.lend(0, 0).unwrap();
            assert_eq!(assembly.copy(2, &Bytes::from(vec![9; 8])).0, 0);
            piece.fill(7);
            if right {
                assembly.fill(0, piece);
                assert_eq!(assembly.take_whole().unwrap()[..], [7; 10]);
            } else {
                assert_eq!(assembly.give_back(0, 0, piece, 10)[0].lane, 0);
                assert!(assembly.claim(1, 0, 2));
                fill(&mut assembly, 1, 0, 1);
                assert_eq!(assembly.take_whole().unwrap()[..], [1, 1, 9, 9, 9, 9, 9, 9, 9, 9]);
            }
        }
    }

    #[test]
    fn copies_of_a_piece_in_hand_are_kept_once() {
        let mut assembly = Assembly::new(MessageBuffer::zeroed(10));
        assert!(assembly.claim(0, 0, 10));
        let piece = assembly.lend(0, 0).unwrap();
        let parts = [(0, 4), (0, 10), (0, 10), (3, 5), (0, 10), (9, 1)];
        for (at, length) in parts.into_iter().cycle().take(100) {
            assert_eq!(assembly.copy(at, &Bytes::from(vec![9; length])).0, 0);
            let kept: usize = assembly.waiting_parts.iter().map(|(_, part)| part.len()).sum();
            assert!(kept <= 10, "{kept} bytes");
        }
        assert_eq!(assembly.give_back(0, 0, piece, 0).len(), 1);
        assert_eq!(assembly.take_whole().unwrap()[..], [9; 10]);
    }

    #[test]
    fn rest_of_a_piece_that_a_lane_leaves() {
        let mut assembly = Assembly::new(MessageBuffer::zeroed(30));
        assert!(assembly.claim(0, 10, 10));
        assembly.release(0, 10);
        assert_eq!(assembly.pieces(), 1);
        assert!(assembly.claim(1, 5, 20));
    }
}
