//! Streams over real sockets on the loopback interface.

mod faults;
mod join;
mod transfer;
mod util;
