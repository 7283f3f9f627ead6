//! The types of the cipher in a build without it. They have no values, so no code that needs one can run.

use super::{Role, SEALED_FRAME_LEN, SealError, Seals};
use crate::{secret::Secret, wire::FRAME_LEN};
use bytes::Bytes;

/// Seals the frames of one direction of one lane: none without the feature `encryption`.
#[derive(Debug)]
pub enum Sealer {}

/// Opens the frames of one direction of one lane: none without the feature `encryption`.
#[derive(Debug)]
pub enum Opener {}

pub(crate) fn of_lane(_: &Secret, _: &[u8; 32], _: Role) -> Option<Seals> {
    None
}

impl Sealer {
    /// Seals frames.
    pub fn seal(&mut self, _: &[u8], _: &[Bytes]) -> &[u8] {
        match *self {}
    }

    pub(crate) fn sealed(&self) -> &[u8] {
        match *self {}
    }
}

impl Opener {
    /// Opens a frame's header.
    pub fn header(&mut self, _: &[u8; SEALED_FRAME_LEN]) -> Result<[u8; FRAME_LEN], SealError> {
        match *self {}
    }

    /// Opens a payload.
    pub fn payload(&mut self, _: &mut [u8], _: &[u8]) -> Result<(), SealError> {
        match *self {}
    }
}
