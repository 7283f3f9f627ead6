//! Two gates in one process, over loopback rails and real sockets.

mod carried;
mod hostile_doors;
mod hostile_peers;
mod raw_door;
mod reload;
mod twins;
mod two_gates;
