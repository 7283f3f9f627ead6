//! Streams over real sockets on the loopback interface.

mod driver;
mod faults;
mod hostile;
mod join;
mod memory_lane;
mod messages;
mod pairing;
#[path = "../peer/mod.rs"]
mod peer;
mod redial;
mod security;
mod stats;
mod transfer;
mod transports;
mod util;
mod zero_copy;
