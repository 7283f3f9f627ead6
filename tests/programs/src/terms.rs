//! The terms of a measurement.

use crate::{door::Door, program::Size};
use rails_lab::Shape;
use std::{path::PathBuf, time::Duration};

/// The terms of a measurement.
#[derive(Debug, Clone)]
pub struct Terms {
    /// The links.
    pub links: Vec<Shape>,
    /// The congestion control of every connection.
    pub congestion: String,
    /// The doors.
    pub doors: Vec<Door>,
    /// How often everything is done.
    pub rounds: usize,
    /// How much each program does.
    pub size: Size,
    /// A link that is pulled in every use that writes files.
    pub pull: Option<Pull>,
    /// Where the room's folder lies.
    pub folder: PathBuf,
}

/// A link that is pulled when a quarter of the bytes have arrived, and put back later.
#[derive(Debug, Clone, Copy)]
pub struct Pull {
    /// The link.
    pub link: usize,
    /// The time for which it is out.
    pub duration: Duration,
}
