//! Threads, memory and interrupts, bound where a rail is: bound by system call, read back, and
//! undone by a guard.
//!
//! A *rail* is one NIC lane, its interrupt, the cores beside it and the memory beside them.
//! [`rails_topo`] knows the machine; this crate binds a thread, its memory and the NIC's
//! interrupts, and judges whether they are beside each other ([`affinity`]).
//!
//! # Smallest use
//! ```
//! use rails_bind::{memory::{self, MemoryPolicy}, thread};
//! use rails_topo::CpuSet;
//!
//! let cpu = thread::current_affinity()?.first().expect("a thread may run on at least one CPU");
//! std::thread::spawn(move || {
//!     let on_cpu = thread::bind_current(&CpuSet::single(cpu))?;
//!     let on_node = memory::set_thread_policy(&MemoryPolicy::Local)?;
//!     println!("{:?}, {:?}", on_cpu.outcome(), on_node.outcome());
//!     // Memory that this thread touches first lies beside `cpu`. Dropping the guards undoes both.
//!     Ok::<(), rails_bind::BindError>(())
//! })
//! .join()
//! .expect("the thread does not panic")?;
//! # Ok::<(), rails_bind::BindError>(())
//! ```
//!
//! A socket's NIC, its interrupts and the thread that uses it, as in the paper's Table III:
//! ```no_run
//! use rails_bind::affinity::{InterruptAffinity, ThreadAffinity};
//!
//! let socket = std::net::TcpStream::connect("10.0.1.2:7575")?;
//! let interrupt = InterruptAffinity::of_socket(&socket)?;
//! let thread = ThreadAffinity::to(&interrupt)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What holds
//! * A binding is reported as it was read back: a call ends in [`Outcome::Applied`],
//!   [`Outcome::Partial`] (the kernel drops the CPUs that a cpuset forbids without an error) or an
//!   error. A request that the kernel does not support is an error, which [`Unheld`] turns into a
//!   fact where the system refused the call. An interrupt that was moved is *pending* until it
//!   fires.
//! * Dropping a guard puts the former state back, also after a panic and after a failed call; a
//!   journal ([`settings`]) covers the changes of a killed process. Memory that was touched before
//!   stays on its node.
//! * Masks have any size: nothing ends at 1,024 CPUs.
//! * `unsafe` is in `sys` alone, each block argued.
//!
//! # Modules
//! * [`thread`]: the CPUs of a thread, its scheduling, and its name;
//! * [`memory`]: the nodes of a thread's memory, buffers and pools with a policy of their own, and
//!   the nodes of pages;
//! * [`interrupt`]: the CPUs that may serve an interrupt, its counts, and the distribution of a
//!   NIC's interrupts;
//! * [`settings`]: the affinity of interrupts and the steering of packets, changed in a transaction
//!   and put back;
//! * [`claims`]: CPUs, interrupts and queues that one process of the host has for itself;
//! * [`socket`]: the NIC of a socket, and the CPU that handles its packets;
//! * [`process`]: the sockets of any process;
//! * [`limits`]: the limits by which the system refuses a thread;
//! * [`usage`]: the usage of threads and of the process, and the CPUs that a thread was seen on;
//! * [`affinity`]: whether interrupt, thread and memory are beside the NIC, and the paper's way of
//!   putting them there.
//!
//! # Features
//! - `schema`: `schemars::JsonSchema` for the types that programs print.
//!
//! # Platform and privileges
//! Linux only. A program's own threads and memory need no privilege (measured on Linux 6.18),
//! unless a seccomp filter forbids the calls, as those of containers may do with memory policies.
//! Real-time classes, lower nice values and other users' threads need `CAP_SYS_NICE` or a limit
//! ([`thread::ThreadPlacement`] lists them). To *move* an interrupt takes write permission to its
//! file in `/proc/irq`: user 0 or `CAP_DAC_OVERRIDE`; `CAP_NET_ADMIN` does not help. To
//! steer packets takes both.
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(not(target_os = "linux"))]
compile_error!("rails-bind binds by Linux system calls and runs on Linux only");

pub mod affinity;
pub mod claims;
mod error;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
pub mod interrupt;
mod kernel_files;
pub mod limits;
pub mod memory;
mod outcome;
pub mod process;
pub mod settings;
pub mod socket;
mod sys;
pub mod thread;
mod unheld;
pub mod usage;

pub use error::BindError;
pub use outcome::Outcome;
pub use unheld::{Cause, Property, Remedy, Unheld};
