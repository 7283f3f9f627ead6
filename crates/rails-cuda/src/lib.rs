//! A GPU as a stage of a pipeline on rails, through CUDA's driver.
//!
//! [`CudaDevice`] is a [`FrameDevice`](rails_multirail::pipeline::device::FrameDevice), as
//! [`HostDevice`](rails_multirail::pipeline::device::HostDevice) is: `device::run` makes a stage of
//! it. It keeps several frames under way, so that the device's copy engines, its processors, and
//! the network of the stages beside it work at the same time.
//!
//! ```no_run
//! use rails_cuda::{CudaDevice, CudaOptions};
//! use rails_multirail::pipeline::{Buffer, Input, Output, device};
//!
//! # type Result = std::result::Result<(), Box<dyn std::error::Error + Send + Sync>>;
//! /// A stage for frames of 4K, which makes its device on its rail's thread.
//! async fn compute(input: Input<Buffer>, output: Output<Buffer>) -> Result {
//!     let device = CudaDevice::new(&CudaOptions::new(3840 * 2160 * 4))?;
//!     device::run(device, input, output).await
//! }
//! # let _ = compute;
//! ```
//!
//! # Without a GPU
//! Building needs nothing of CUDA: the driver, `libcuda.so.1` of CUDA 11.0 (release 450) or newer,
//! is loaded when a device is made, and its absence is [`CudaError::NoDriver`]. The driver compiles
//! the kernel for the device that is there.
//!
//! # Memory
//! Frames go through page-locked memory of the device's own, at the price of two copies by the CPU.
//! Locking the pages of the frames themselves would save the copies; but a frame is any
//! `AsMut<[u8]>`, and the device would not notice when its memory is freed, which must not happen
//! while its pages are locked.

mod device;
mod error;
#[cfg(test)]
mod ptx;
mod ring;
mod sys;

pub use device::{CudaDevice, CudaOptions, device_names};
pub use error::{CudaError, CudaStatus};
