//! Errors of lanes.

use crate::{seal::SealError, session::LaneEnd, violation::Violation, wire::FrameError};
use std::{io, sync::Arc};

/// The reason why a lane was lost.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum LaneError {
    /// The lane's socket failed.
    #[error("its socket failed: {0}")]
    Io(Arc<io::Error>),
    /// The peer closed the lane before the stream was done.
    #[error("the peer closed it before the stream was done")]
    Closed,
    /// The connection ended in the middle of a frame.
    #[error("it was cut in the middle of a frame, {missing} bytes before its end")]
    Cut {
        /// The number of bytes that were missing.
        missing: usize,
    },
    /// The bytes that arrived on the lane are no frame.
    #[error("the bytes that arrived on it are no frame: {0}")]
    Frame(FrameError),
    /// A chunk arrived damaged.
    #[error("the chunk at offset {offset} arrived damaged: its checksum is wrong")]
    Checksum {
        /// The chunk's offset in the stream.
        offset: u64,
    },
    /// A record that arrived on the lane does not open: it was changed on the way, or is not the
    /// next record of the lane.
    #[error("a record that arrived on it does not open: it was changed on the way, or does not belong there")]
    Seal(SealError),
    /// The peer broke the protocol on the lane.
    #[error("the peer broke the protocol on it: {0}")]
    Violation(Violation),
    /// The lane's rail has stopped.
    #[error("the rail that it ran on has stopped")]
    RailStopped,
    /// Another connection has taken the lane's place.
    #[error("another connection has taken its place")]
    Replaced,
    /// The peer did not close the lane in time after the stream was over.
    #[error("the peer did not close it in time")]
    Lingering,
}

impl LaneError {
    /// The conclusion about the peer that this end draws from the error.
    pub fn end(&self) -> LaneEnd {
        use io::ErrorKind::{BrokenPipe, ConnectionReset};
        match self {
            Self::Closed | Self::Cut { .. } => LaneEnd::ByPeer,
            Self::Io(error) if matches!(error.kind(), BrokenPipe | ConnectionReset) => LaneEnd::ByPeer,
            Self::Replaced | Self::Lingering => LaneEnd::Own,
            Self::Io(_)
            | Self::Frame(_)
            | Self::Checksum { .. }
            | Self::Seal(_)
            | Self::Violation(_)
            | Self::RailStopped => LaneEnd::Lost,
        }
    }
}

impl From<io::Error> for LaneError {
    fn from(error: io::Error) -> Self {
        Self::Io(Arc::new(error))
    }
}

impl From<Violation> for LaneError {
    fn from(violation: Violation) -> Self {
        Self::Violation(violation)
    }
}

impl From<SealError> for LaneError {
    fn from(error: SealError) -> Self {
        Self::Seal(error)
    }
}

impl From<FrameError> for LaneError {
    fn from(error: FrameError) -> Self {
        Self::Frame(error)
    }
}
