//! Threads, memory and interrupts put where a rail is: bound by system call, read back, undone by a guard.
//!
//! A *rail* is one NIC lane, its interrupt, the cores beside it and the memory beside them. [`rails_topo`] says where
//! these are; this crate puts a thread, its memory and the NIC's interrupts there, and tells whether the rail is one
//! ([`affinity`]).
//!
//! # Smallest use
//! ```
//! use rails_bind::{memory::{self, MemoryPolicy}, thread};
//! use rails_topo::CpuSet;
//!
//! let cpu = thread::current_affinity()?.first().expect("a thread may run somewhere");
//! std::thread::spawn(move || {
//!     let on_cpu = thread::bind_current(&CpuSet::single(cpu))?;
//!     let on_node = memory::set_thread_policy(&MemoryPolicy::Local)?;
//!     println!("{:?}, {:?}", on_cpu.outcome(), on_node.outcome());
//!     // What is allocated and first touched here lies beside `cpu`. The guards put the thread back when they are dropped.
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
//! * Nothing is reported as bound that was not read back: a call ends in [`Outcome::Applied`], [`Outcome::Partial`]
//!   (the kernel drops what a cpuset forbids without a word) or an error, and what the kernel does not support is an
//!   error. An interrupt that was sent elsewhere is *pending* until it has moved.
//! * What a guard changed is as it was after the guard is dropped, also after a panic and after a failed call; what a
//!   killed process changed on the machine is put back from a journal ([`settings`]). Memory that was touched meanwhile
//!   stays where it is.
//! * Masks have any size: nothing ends at 1,024 CPUs.
//! * `unsafe` is in `sys` alone, each block argued.
//!
//! # Modules
//! * [`thread`]: which CPUs a thread may run on, how it is scheduled, and its name;
//! * [`memory`]: which nodes its pages come from, buffers and pools with a policy of their own, and where pages lie;
//! * [`interrupt`]: where an interrupt may be served, where it was, and where it should be;
//! * [`settings`]: the affinity of interrupts and the steering of packets, changed in a transaction and put back;
//! * [`socket`]: which NIC a socket uses, and which CPU handles its packets;
//! * [`process`]: which sockets a process that is not ours has;
//! * [`usage`]: what a thread or the process has used, and on which CPUs a thread was seen;
//! * [`affinity`]: whether interrupt, thread and memory are beside the NIC, and the paper's way of bringing it about.
//!
//! # Privileges
//! None for a program's own threads and memory: that works for a user without capabilities (measured on Linux 6.18),
//! unless a seccomp filter forbids it, as those of containers may do with memory policies. Real-time classes, lower
//! nice values and the threads of others need `CAP_SYS_NICE` or a limit ([`thread::ThreadPlacement`] says which). To
//! *move* an interrupt takes write permission to its file in `/proc/irq`: user 0 or `CAP_DAC_OVERRIDE`; `CAP_NET_ADMIN`
//! does not help. To steer packets takes both.
//!
//! # What it does not do
//! It plans no rails and moves no bytes: that is what the crates above it are for. It runs on Linux only.
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(not(target_os = "linux"))]
compile_error!("rails-bind binds by Linux system calls and runs on Linux only");

pub mod affinity;
mod error;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
pub mod interrupt;
mod kernel_files;
pub mod memory;
mod outcome;
pub mod process;
pub mod settings;
pub mod socket;
mod sys;
pub mod thread;
pub mod usage;

pub use error::BindError;
pub use outcome::Outcome;
