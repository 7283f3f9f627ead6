//! The description of a link.

use crate::{EmulatedLink, LabError, Shape};

/// A requested link.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Description {
    Veth(Shape),
    Bridged(Shape),
    Emulated(EmulatedLink),
}

impl Description {
    /// Refuses a link that cannot be made.
    pub(crate) fn validate(&self) -> Result<(), LabError> {
        match *self {
            Self::Veth(shape) | Self::Bridged(shape) => {
                shape.validate().map_err(|reason| LabError::BadShape { shape, reason })
            }
            Self::Emulated(link) => link.validate().map_err(|reason| LabError::BadEmulatedLink { link, reason }),
        }
    }
}
