//! Threads, memory and interrupts put where a rail is: bound by system call, read back, undone by a guard.
//!
//! A *rail* is one NIC lane, its interrupt, the cores beside it and the memory beside them. [`rails_topo`] says where
//! these are; this crate puts a thread and its memory there, and tells whether the rail is one ([`affinity`]).
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
//! # What holds
//! * Nothing is reported as bound that was not read back: a call ends in [`Outcome::Applied`], [`Outcome::Partial`]
//!   (the kernel drops what a cpuset forbids without a word) or an error, and what the kernel does not support is an
//!   error.
//! * What a guard changed is as it was after the guard is dropped, also after a panic and after a failed call. Memory
//!   that was touched meanwhile stays where it is.
//! * Masks have any size: nothing ends at 1,024 CPUs.
//! * `unsafe` is in `sys` alone, each block argued.
//!
//! # Modules
//! * [`thread`]: which CPUs a thread may run on, how it is scheduled, and its name;
//! * [`memory`]: which nodes its pages come from, and where a page lies;
//! * [`interrupt`]: where an interrupt may be served, and where it is;
//! * [`process`]: which sockets a process that is not ours has;
//! * [`usage`]: what a thread or the process has used, and on which CPUs a thread was seen;
//! * [`affinity`]: whether interrupt, thread and memory are beside the NIC.
//!
//! # Privileges
//! None for a program's own threads and memory: that works for a user without capabilities (measured on Linux 6.18), unless a
//! seccomp filter forbids it, as those of containers may do with memory policies. Real-time classes, lower nice values and the
//! threads of others need `CAP_SYS_NICE` or a limit ([`thread::ThreadPlacement`] says which). To *move* an interrupt takes write permission to its
//! file in `/proc/irq`: user 0 or `CAP_DAC_OVERRIDE`; `CAP_NET_ADMIN` does not help.
//!
//! # What it does not do
//! It moves no interrupts and no pages that exist, and knows neither weighted interleaving nor the policy of single ranges (`mbind`). It runs on Linux only.

#[cfg(not(target_os = "linux"))]
compile_error!("rails-bind binds by Linux system calls and runs on Linux only");

pub mod affinity;
mod error;
pub mod interrupt;
mod kernel_files;
pub mod memory;
mod outcome;
pub mod process;
pub mod settings;
mod sys;
pub mod thread;
pub mod usage;

pub use error::BindError;
pub use outcome::Outcome;
