//! Other people's programs between two hosts of the laboratory: a room to run them in, a harness
//! that measures them side by side, and the doors by which their connections may go.
//!
//! - `room`: two hosts in network namespaces, joined by links; `process`: programs inside, which
//!   end with it; `part`, `usage`: their CPU time
//! - `door`: the ways that a program's connections may take, plain TCP being the first; `passage`:
//!   how programs get through
//! - `program`: a program with its service, and how a use of it is measured and verified;
//!   `programs/` has each; `ceiling`: rails' own `stream` and `send`
//! - `terms`, `measure`: rounds of all, side by side; `gap`: how long a receiver stood still;
//!   `report`: the samples, and a table
//! - `idle`: what connections cost a door on which nothing happens
//! - `matrix`: every way to use a socket, through a door and beside plain TCP
//!
//! Nothing here runs outside a room's namespaces, and no program keeps state outside the room's
//! folder. A room takes root; see `rails_lab::LinkLab`.
#![forbid(unsafe_code)]

mod ceiling;
mod door;
mod file;
mod gap;
mod idle;
mod matrix;
mod measure;
mod part;
mod passage;
mod process;
mod program;
mod programs;
mod report;
mod room;
mod terms;
mod usage;

pub use door::Door;
pub use idle::{Idle, idle};
pub use matrix::{Expected, matrix};
pub use measure::measure;
pub use part::Part;
pub use passage::{Cgroup, Means, Passage};
pub use process::{Finished, Running, find, sibling};
pub use program::{Ceiling, Program, Sample, Service, Size, Use};
pub use programs::{all, find as find_program};
pub use report::{Report, Taken};
pub use room::Room;
pub use terms::{Pull, Terms};
