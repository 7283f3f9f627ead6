//! Doors: the ways by which a program's connection comes to the gate of its host.
//!
//! A door's process asks the gate, over a socket of the Unix domain, whether a connection may go
//! through. The gate has a connection to the service before it says yes. The door then hands the
//! program's end over as a descriptor, so that no byte passes through its process, and its death
//! ends no connection. If the gate says no, or nothing, the connection goes plain.

mod client;
mod kind;
mod pass;
mod plain;
mod protocol;

pub use client::{Door, DoorError, Passage, Way};
pub use kind::DoorKind;
pub(crate) use pass::receive_descriptor;
pub use plain::Plain;
pub(crate) use protocol::{Answer, MAX_ANSWER, MAX_QUESTION, Question, read, write};
