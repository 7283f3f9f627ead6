//! Lanes that fill their pieces of large messages.

use super::{Inbox, Item, Kind, Large};
use crate::{
    chunk::Part,
    messages::{
        MessageBuffer,
        assembly::{Assembly, Ousted},
        message_space,
    },
};
use bytes::BytesMut;

/// The part that a lane is filling.
#[derive(Debug, Default)]
pub(super) enum Claim {
    #[default]
    None,
    /// The piece at `at` of the message that begins at `base`.
    Piece { base: u64, at: u32 },
    /// Another lane has brought the part. The bytes that this lane had received are in a buffer of
    /// its own.
    Ousted(BytesMut),
}

/// The memory that a lane fills.
#[derive(Debug)]
pub enum Lent {
    /// The lane's piece of the message. The lane [gives it
    /// back](crate::session::Session::give_back) before it waits for anything.
    Piece(MessageBuffer),
    /// A buffer of the lane's own, with the bytes that it had received: another lane has brought
    /// the part. The lane reads the rest into this buffer, and [hands it
    /// in](crate::session::Session::handle_content).
    Own(BytesMut),
}

impl Inbox {
    /// Lends `lane` the memory that it fills, after [`Place::Message`](super::Place::Message).
    /// `None` if it fills no part.
    pub fn lend(&mut self, lane: usize) -> Option<Lent> {
        match self.claims.get_mut(lane)? {
            Claim::None => None,
            Claim::Ousted(buffer) => {
                let buffer = std::mem::take(buffer);
                self.claims[lane] = Claim::None;
                Some(Lent::Own(buffer))
            }
            Claim::Piece { base, at } => {
                let (base, at) = (*base, *at);
                self.assembly(base)?.lend(lane as u8, at).map(Lent::Piece)
            }
        }
    }

    /// Takes back the memory that `lane` borrowed, with `filled` bytes of it full.
    pub fn give_back(&mut self, lane: usize, piece: MessageBuffer, filled: usize) {
        let Some(Claim::Piece { base, at }) = self.claims.get(lane) else { return };
        let (base, at) = (*base, *at);
        self.change(base, |assembly| ((), assembly.give_back(lane as u8, at, piece, filled as u32)));
    }

    /// Takes back the memory that `lane` borrowed, full and verified.
    pub fn fill(&mut self, lane: usize, piece: MessageBuffer) {
        let Some(Claim::Piece { base, at }) = self.claims.get_mut(lane).map(std::mem::take) else { return };
        self.change(base, |assembly| {
            assembly.fill(at, piece);
            ((), Vec::new())
        });
    }

    /// `lane` does not go on with its part.
    pub fn release(&mut self, lane: usize) {
        let Some(Claim::Piece { base, at }) = self.claims.get_mut(lane).map(std::mem::take) else { return };
        self.change(base, |assembly| {
            assembly.release(lane as u8, at);
            ((), Vec::new())
        });
    }

    /// The first part of a message has arrived.
    pub(super) fn begin(&mut self, base: u64, part: &Part, buffer: MessageBuffer) {
        let Part { priority, number, total, .. } = *part;
        self.indexes[priority.index()].insert(number, base);
        let content = Large::Assembling(Assembly::new(buffer));
        self.pieces += 1;
        self.held += message_space(total);
        let kind = Kind::Message { priority, number, total, content };
        self.items.insert(base, Item { end: base + message_space(total), kind });
    }

    pub(super) fn assembly(&mut self, base: u64) -> Option<&mut Assembly> {
        match &mut self.items.get_mut(&base)?.kind {
            Kind::Message { content: Large::Assembling(assembly), .. } => Some(assembly),
            _ => None,
        }
    }

    /// Changes a message in assembly. Notes whether it is whole now, and which lanes have lost
    /// their pieces to others.
    pub(super) fn change<T>(&mut self, base: u64, act: impl FnOnce(&mut Assembly) -> (T, Vec<Ousted>)) -> Option<T> {
        let assembly = self.assembly(base)?;
        let before = assembly.pieces();
        let (result, ousted) = act(assembly);
        let after = assembly.pieces();
        let whole = assembly.take_whole();
        self.pieces = self.pieces + after - before;
        for ousted in ousted {
            self.claims[usize::from(ousted.lane)] = Claim::Ousted(ousted.buffer);
        }
        if let Some(whole) = whole
            && let Some(item) = self.items.get_mut(&base)
            && let Kind::Message { content, .. } = &mut item.kind
        {
            *content = Large::Whole(whole);
            self.window.add_arrived(item.end - base);
            self.pieces -= after;
        }
        Some(result)
    }
}
