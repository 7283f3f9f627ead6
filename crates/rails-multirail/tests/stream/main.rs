//! Streams over real sockets on the loopback interface.

mod faults;
mod hostile;
mod join;
mod transfer;
mod util;
