//! The blocks that a peer has asked for, and those that are ready to be sent to it.

use crate::{
    node::Pinned,
    wire::{Handle, Urgency},
};
use rails_array::BlockIndex;
use rails_cache::RequestId;
use std::collections::{HashMap, VecDeque};

/// A block of a peer's.
pub(super) type Key = (Handle, BlockIndex);

/// The blocks that one peer has asked for.
///
/// Few of them are asked of the node at a time: a block that the node has given is kept in memory
/// until it is sent, and a peer that receives slowly must not keep the memory of others.
#[derive(Debug)]
pub(super) struct ServerQueue {
    asked: HashMap<Key, Asked>,
    /// Blocks that the node was not asked for, by urgency. One that was raised is in both.
    backlog: [VecDeque<Key>; 2],
    /// Blocks that are ready, by urgency. One that was raised is in both.
    ready: [VecDeque<Key>; 2],
    /// The number of blocks of each urgency that the node was asked for and that are not sent.
    begun: [usize; 2],
    max_begun: usize,
    /// The peer takes nothing, and nothing is begun for it.
    is_stuck: bool,
    /// Blocks that the peer has not asked for.
    pushes: VecDeque<(Key, Pinned)>,
}

#[derive(Debug)]
struct Asked {
    urgency: Urgency,
    /// The urgency with which the node was asked, as `begun` counts it.
    begun: Option<Urgency>,
    request: Option<RequestId>,
    pinned: Option<Pinned>,
}

impl ServerQueue {
    pub(super) fn new(max_begun: usize) -> Self {
        Self {
            asked: HashMap::new(),
            backlog: [VecDeque::new(), VecDeque::new()],
            ready: [VecDeque::new(), VecDeque::new()],
            begun: [0; 2],
            max_begun: max_begun.max(1),
            is_stuck: false,
            pushes: VecDeque::new(),
        }
    }

    /// The number of blocks that were asked for and are not sent.
    pub(super) fn asked(&self) -> usize {
        self.asked.len()
    }

    /// The peer asks for a block.
    pub(super) fn ask(&mut self, key: Key, urgency: Urgency) {
        if let Some(asked) = self.asked.get(&key) {
            if urgency < asked.urgency {
                self.raise(key);
            }
            return;
        }
        self.asked.insert(key, Asked { urgency, begun: None, request: None, pinned: None });
        self.backlog[urgency as usize].push_back(key);
    }

    /// The peer waits for a block that it has asked for.
    pub(super) fn raise(&mut self, key: Key) {
        let Some(asked) = self.asked.get_mut(&key).filter(|asked| asked.urgency == Urgency::Ahead) else { return };
        asked.urgency = Urgency::Demand;
        if asked.pinned.is_some() {
            self.ready[Urgency::Demand as usize].push_back(key);
        } else if asked.begun.is_none() {
            self.backlog[Urgency::Demand as usize].push_back(key);
        }
    }

    /// The next block to ask the node for.
    pub(super) fn begin(&mut self) -> Option<Key> {
        if self.is_stuck {
            return None;
        }
        for urgency in [Urgency::Demand, Urgency::Ahead] {
            while self.begun[urgency as usize] < self.max_begun
                && let Some(key) = self.backlog[urgency as usize].pop_front()
            {
                if let Some(asked) = self.asked.get_mut(&key)
                    && asked.begun.is_none()
                    && asked.urgency == urgency
                {
                    asked.begun = Some(urgency);
                    self.begun[urgency as usize] += 1;
                    return Some(key);
                }
            }
        }
        None
    }

    /// The node was asked for a block that was begun. Returns the request if it is to be cancelled,
    /// because the peer wants the block no more.
    pub(super) fn requested(&mut self, key: Key, request: RequestId) -> Option<RequestId> {
        match self.asked.get_mut(&key) {
            Some(asked) if asked.begun.is_some() => {
                asked.request = Some(request);
                None
            }
            _ => Some(request),
        }
    }

    /// The node has given a block. Returns it if nobody wants it.
    pub(super) fn ready(&mut self, key: Key, pinned: Pinned) -> Option<Pinned> {
        let Some(asked) = self.asked.get_mut(&key).filter(|asked| asked.begun.is_some() && asked.pinned.is_none())
        else {
            return Some(pinned);
        };
        asked.pinned = Some(pinned);
        self.ready[asked.urgency as usize].push_back(key);
        None
    }

    /// The next block to send, which is not asked for any more.
    pub(super) fn next(&mut self, urgency: Urgency) -> Option<(Key, Pinned)> {
        while let Some(key) = self.ready[urgency as usize].pop_front() {
            let is_next = |asked: &Asked| asked.pinned.is_some() && asked.urgency == urgency;
            if self.asked.get(&key).is_some_and(is_next) {
                let (_, pinned) = self.remove(key)?;
                return pinned.map(|pinned| (key, pinned));
            }
        }
        None
    }

    /// A block is to be sent to the peer, which has not asked for it.
    pub(super) fn push(&mut self, key: Key, pinned: Pinned) {
        self.pushes.push_back((key, pinned));
    }

    /// The next block to send unasked.
    pub(super) fn next_push(&mut self) -> Option<(Key, Pinned)> {
        self.pushes.pop_front()
    }

    /// Takes the blocks that were to be sent unasked, of a handle or of all.
    pub(super) fn take_pushes(&mut self, of: Option<Handle>) -> Vec<(Key, Pinned)> {
        let is_of = |handle: Handle| of.is_none_or(|of| of == handle);
        let (taken, kept) = self.pushes.drain(..).partition::<Vec<_>, _>(|((handle, _), _)| is_of(*handle));
        self.pushes.extend(kept);
        taken
    }

    /// A block cannot be had, or the peer wants it no more. Returns the request to cancel, and the
    /// memory to give back.
    pub(super) fn remove(&mut self, key: Key) -> Option<(Option<RequestId>, Option<Pinned>)> {
        let asked = self.asked.remove(&key)?;
        if let Some(urgency) = asked.begun {
            self.begun[urgency as usize] -= 1;
        }
        Some((asked.request, asked.pinned))
    }

    /// The peer takes messages again.
    pub(super) fn set_moving(&mut self) {
        self.is_stuck = false;
    }

    /// The peer takes nothing. Gives the memory of ready blocks back: they are asked of the node
    /// again when it does.
    pub(super) fn unpin(&mut self) -> Vec<Pinned> {
        self.is_stuck = true;
        let mut unpinned = Vec::new();
        for (key, asked) in &mut self.asked {
            if let Some(pinned) = asked.pinned.take() {
                unpinned.push(pinned);
                if let Some(urgency) = asked.begun.take() {
                    self.begun[urgency as usize] -= 1;
                }
                asked.request = None;
                self.backlog[asked.urgency as usize].push_back(*key);
            }
        }
        self.ready.iter_mut().for_each(VecDeque::clear);
        unpinned
    }

    /// The blocks of a handle, or of all.
    pub(super) fn keys(&self, of: Option<Handle>) -> Vec<Key> {
        self.asked.keys().filter(|(handle, _)| of.is_none_or(|of| of == *handle)).copied().collect()
    }
}
