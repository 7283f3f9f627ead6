//! The types of the cipher in a build without it. They have no values, so no code that needs one
//! can run. Their fields hide that from the compiler elsewhere, which would warn of such code.

use super::{PacketRole, Role, SEALED_FRAME_LEN, SealError, Seals, TAG_LEN};
use crate::{secret::Secret, wire::FRAME_LEN};
use bytes::Bytes;
use std::convert::Infallible;

/// Seals the frames of one direction of one lane: none without the feature `encryption`.
#[derive(Debug)]
pub struct Sealer(Infallible);

/// Opens the frames of one direction of one lane: none without the feature `encryption`.
#[derive(Debug)]
pub struct Opener(Infallible);

pub(crate) fn of_packets(_: &Secret, _: &[u8; 32], _: PacketRole, _: Role) -> Option<PacketSeals> {
    None
}

pub(crate) fn of_lane(_: &Secret, _: &[u8; 32], _: Role) -> Option<Seals> {
    None
}

impl Sealer {
    /// Seals frames.
    pub fn seal(&mut self, _: &[u8], _: &[Bytes]) -> &[u8] {
        match self.0 {}
    }

    pub(crate) fn sealed(&self) -> &[u8] {
        match self.0 {}
    }
}

impl Opener {
    /// Opens a frame's header.
    pub fn header(&mut self, _: &[u8; SEALED_FRAME_LEN]) -> Result<[u8; FRAME_LEN], SealError> {
        match self.0 {}
    }

    /// Opens a payload.
    pub fn payload(&mut self, _: &mut [u8], _: &[u8]) -> Result<(), SealError> {
        match self.0 {}
    }
}

/// Seals the packets of one direction: none without the feature `encryption`.
#[derive(Debug, Clone)]
pub struct PacketSealer(Infallible);

/// Opens the packets of one direction: none without the feature `encryption`.
#[derive(Debug, Clone)]
pub struct PacketOpener(Infallible);

/// The seals of packets in both directions.
#[derive(Debug)]
pub struct PacketSeals {
    /// Seals the packets that this end sends.
    pub sealer: PacketSealer,
    /// Opens the packets of the peer.
    pub opener: PacketOpener,
}

impl PacketSealer {
    /// Has the key of a packet ready.
    pub fn advance(&mut self, _: u64) {
        match self.0 {}
    }

    /// Seals a packet.
    pub fn seal(&mut self, _: u64, _: &[u8], _: &mut [u8]) -> [u8; TAG_LEN] {
        match self.0 {}
    }
}

impl PacketOpener {
    /// Opens a packet.
    pub fn open(&mut self, _: u64, _: &[u8], _: &mut [u8], _: &[u8]) -> Result<(), SealError> {
        match self.0 {}
    }

    /// Notes that a packet has opened.
    pub fn opened(&mut self, _: u64) {
        match self.0 {}
    }
}
