//! Pipelines: stages on different rails, joined by bounded channels of one producer and one
//! consumer.
//!
//! A stage is an async closure on the runtime of a rail. It takes items from its [`Input`] and
//! hands others to its [`Output`]. Items are moved, so a [`Buffer`] in an item is handed over by
//! reference: no byte is copied, and nothing is allocated in steady state. A stage that is slower
//! than the one before fills the channel between them, and then the pool of buffers is empty, and
//! the source waits: back-pressure goes from end to end.
//!
//! ```
//! use rails_multirail::{RailId, RailRequest, Rails, pipeline::{Buffer, Link, Pipeline, Side}, plan_rails};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let plan = plan_rails(&rails_topo::Topology::detect()?, &RailRequest::loopback(2))?;
//! let rails = Rails::build(&plan)?;
//! let [compute, network] = [0, 1].map(|rail| rails[RailId(rail)].runtime());
//! // Four buffers of 1 MiB on the node of the stage that reads them.
//! let link = Link::new(2).buffers(Side::Consumer, 1 << 20, 4);
//! let pipeline = Pipeline::builder("frames")
//!     .source("generate", compute, async |mut output| {
//!         for frame in 0..10 {
//!             let mut buffer = output.buffer().await?;
//!             buffer.fill(frame);
//!             output.send(buffer).await?;
//!         }
//!         Ok(())
//!     })
//!     .sink("count", network, link, async |mut input| {
//!         let mut frames = 0;
//!         while let Some(buffer) = input.recv().await? {
//!             let buffer: Buffer = buffer;
//!             assert!(buffer.iter().all(|byte| *byte == frames));
//!             frames += 1;
//!         }
//!         Ok(())
//!     });
//! let stats = pipeline.start()?.join().await?;
//! assert_eq!(stats.stages[1].items_in, 10);
//! # Ok(())
//! # }
//! ```
//!
//! # Contract
//! - Items arrive in order, each once. A stage that has received `None` has had all items of a
//!   stage that ended well. If that failed, the stage gets [`Broken`] instead.
//! - If a stage returns an error, panics, stops reading or [stalls](PipelineBuilder::stall_limit),
//!   the pipeline ends, and [`RunningPipeline::join`] names the stage. Every buffer that a stage or
//!   a channel held goes back to its pool.
//! - A pipeline has a source and a sink: one without stages has no `start`.
//!
//!   ```compile_fail
//!   let pipeline = rails_multirail::pipeline::Pipeline::builder("nothing");
//!   pipeline.start();
//!   ```
//!
//! # Devices
//! [`device`] makes a stage of a device that works on frames, with several of them under way where
//! it can. [`mod@file`] reads the frames of a source from a file or a disk.
//!
//! # Limits
//! A stage that computes for long occupies the thread of its rail, and the rail's lanes wait: give
//! it a core of its own ([`Rail::task_runtimes`](crate::Rail::task_runtimes)). A stage that neither
//! ends nor awaits cannot be aborted; the error names it.

mod buffers;
mod builder;
mod channel;
#[cfg(test)]
mod channel_model;
pub mod device;
mod ends;
mod error;
pub mod file;
mod meter;
mod running;
mod signal;
mod stats;
mod sync;

pub use buffers::Buffer;
pub use builder::{Link, OpenPipeline, Pipeline, PipelineBuilder, Side};
pub use ends::{Broken, Closed, Input, NoBuffer, Output};
pub use error::{PipelineError, StageFailure, StartError};
pub use running::{RunningPipeline, StopHandle};
pub use stats::{BufferStats, PipelineStats, StageState, StageStats};
