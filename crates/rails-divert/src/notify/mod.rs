//! Connections of a program that is started with a filter of system calls (`seccomp(2)`).
//!
//! [`spawn()`] starts a program under a filter that notifies of `connect(2)` alone. Each connection
//! that could be diverted is an [`Attempt`]: the caller lets the kernel [make
//! it](Attempt::go_plain), or has the program's own socket connected to [this
//! process](Attempt::divert) instead. The program keeps a socket of the kernel, with which all
//! further calls work as ever; static programs and those of Go are seen as well. No privileges are
//! needed.
//!
//! Passed on in the kernel, and [counted](Counters) by reason: all that is not TCP over IPv4 or
//! IPv6 (MPTCP, too), destinations on the loopback device, sockets that are bound to a source
//! address or a device, that are connected or have been, or that have special options, and connects
//! that the kernel refuses. Not seen at all, and made by the kernel: those of io_uring, of
//! `sendto(2)` with `MSG_FASTOPEN`, and of programs for another architecture (i386 and x32 on
//! x86-64).
//!
//! # What a program may notice
//! - Its peer's address, and its own, are of the loopback device; a local port that it was bound to
//!   stays.
//! - A socket that does not block is connected before the destination has answered; `connect(2)`
//!   waits for the caller's decision.
//! - Keys of `TCP_MD5SIG` do not fit the diverted connection, and the kernel tells nobody that a
//!   socket has any: a routing daemon is no program for this.
//! - A process that became an orphan is no longer the descendant of this one, and Yama's
//!   `ptrace_scope` 1 protects its sockets: its connections pass. It stays one if this process
//!   takes orphans (`PR_SET_CHILD_SUBREAPER`).
//! - It has `no_new_privs`.
//!
//! # If this process dies
//! A [keeper] lets all connections go on in the kernel from then on.

mod attempts;
mod counters;
mod error;
mod journal;
mod judge;
pub mod keeper;
mod loopback;
mod notifier;
mod privilege;
mod spawn;
mod task;
mod watch;

pub use attempts::Attempts;
pub use counters::{Counters, Passed};
pub use error::{NotifyError, Privilege};
pub use notifier::{Attempt, Notifier};
pub use spawn::spawn;
