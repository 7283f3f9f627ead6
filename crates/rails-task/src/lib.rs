//! Task queues on the machine's topology: each task runs on its CPU set, by the nearest core that
//! has time.
//!
//! PIOMan's idea (Trahay and Denis, "A scalable and generic task scheduling system for
//! communication libraries") is a queue for each object of the machine, from a PU to the whole
//! machine. A task waits in the queue of the smallest object that covers its CPUs, and threads that
//! have time run the tasks of their object and of those around it.
//!
//! # Map
//! [`TaskQueues`] are the queues of a machine, whose [`Objects`] form a tree. [`TaskQueues::task`]
//! makes a [`Task`], which is submitted as often as wanted; [`TaskOptions`] give it a priority, a
//! deadline, or a variant that blocks instead of polling for long. A [`Job`] is work on a value,
//! which a thread offers to its [`Helpers`] while it is busy. [`QueueStats`] are the counters of a
//! queue.
//!
//! Three triggers run tasks. [`TaskQueues::attach`] makes a [`Runner`] of the calling thread, which
//! runs tasks when its owner says so, and when it waits for one. A [`TaskThread`] is a
//! thread of its own: in the [idle class](TaskThread::idle), or one that takes the CPU from threads
//! that compute, once in each [period](TaskThread::periodic) while a task polls, and at deadlines.
//! Both are switched on and off at run time, and limited to a share of a CPU's time.
//!
//! # Smallest use
//! ```
//! use rails_task::{TaskPriority, Step, TaskQueues};
//! use rails_topo::Topology;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let topology = Topology::detect()?;
//! let queues = TaskQueues::new(&topology, 256);
//! let task = queues.task(topology.online_cpus(), TaskPriority::Normal, || {
//!     println!("it runs on {:?}", rails_bind::thread::current_cpu());
//!     Step::Done
//! })?;
//! let runner = queues.attach()?;
//! runner.submit(&task)?;
//! runner.wait(&task);
//! assert!(!task.is_pending());
//! # Ok(())
//! # }
//! ```
//!
//! # Costs
//! To submit and run a task allocates nothing, and takes some 60 ns where one atomic addition takes
//! 5 ns (measured by `cargo bench --bench task_queues`). An empty queue is seen without a lock.
//! Tasks with a deadline, and those whose CPUs are not all of an object's, are queued under a lock.
//! While nothing is queued, no timer runs, and no thread wakes.
//!
//! # Privileges
//! None.
//!
//! # Limits
//! A task's CPUs are those of the machine when the queues were made. Linux only.
#![forbid(unsafe_code)]

mod blocking;
mod budget;
mod control;
mod counters;
mod error;
mod helpers;
mod inner;
mod job;
mod load;
mod objects;
mod options;
mod queue;
mod queues;
mod runner;
mod sleeper;
mod state;
mod sync;
mod task;
mod task_queues;
mod task_thread;
mod wakeup;

#[cfg(test)]
mod machines;
#[cfg(test)]
mod model;
#[cfg(test)]
mod schedules;

pub use counters::{QueueStats, Waits};
pub use error::{AttachError, BudgetError, NewTaskError, SubmitError};
pub use helpers::Helpers;
pub use inner::Step;
pub use job::{Job, Taken};
pub use objects::{Object, ObjectId, ObjectKind, Objects};
pub use options::{TaskOptions, TaskPriority};
pub use runner::{Pass, Runner};
pub use task::Task;
pub use task_queues::{TaskQueues, TaskQueuesBuilder};
pub use task_thread::TaskThread;
