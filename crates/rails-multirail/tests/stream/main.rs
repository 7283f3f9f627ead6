//! Streams over real sockets on the loopback interface.

mod blocked;
mod driver;
mod endings;
mod faults;
mod first_messages;
mod halves;
mod hostile;
mod idle;
mod inline;
mod join;
mod listening;
#[path = "../loopback/mod.rs"]
mod loopback;
mod memory_lane;
mod messages;
mod opening;
mod owners;
mod pairing;
#[path = "../peer/mod.rs"]
mod peer;
mod peers;
mod redial;
mod security;
mod stats;
mod strangers;
mod transfer;
mod transports;
mod util;
mod wakers;
mod yielding;
mod zero_copy;
