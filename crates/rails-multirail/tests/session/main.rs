//! Sessions of many streams over real sockets on the loopback interface.

mod datagrams;
mod endings;
mod errors;
mod lanes;
mod limits;
mod listening;
#[path = "../loopback/mod.rs"]
mod loopback;
mod messages;
mod processes;
mod resets;
mod streams;
mod util;
mod waiting;
