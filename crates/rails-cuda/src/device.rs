//! A CUDA device as a device for frames.

use crate::{
    CudaError,
    ring::Ring,
    sys::{context::Context as Primary, driver::CudaDriver, event::Event, kernel::Kernel, slot::Slot},
};
use rails_bind::memory::{BufferOptions, BufferPool, MemoryError, MemoryPolicy, Residency};
use rails_multirail::pipeline::device::FrameDevice;
use std::{
    error::Error,
    num::NonZeroUsize,
    sync::Arc,
    task::{Context, Poll},
};

/// The names of the CUDA devices, by their number from 0 on.
///
/// # Errors
/// [`CudaError::NoDriver`] and [`CudaError::OldDriver`]; [`CudaError::Call`] of `cuInit` with
/// `CUDA_ERROR_NO_DEVICE` where there is a driver without a device.
pub fn device_names() -> Result<Vec<String>, CudaError> {
    let driver = CudaDriver::load()?;
    (0..driver.device_count()?).map(|ordinal| driver.device_name(ordinal)).collect()
}

/// The options of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CudaOptions {
    frame_bytes: usize,
    ordinal: u32,
    depth: NonZeroUsize,
}

impl CudaOptions {
    /// Options for frames of at most `frame_bytes` bytes. Submitting a longer frame is an error.
    pub fn new(frame_bytes: usize) -> Self {
        Self { frame_bytes, ordinal: 0, depth: DEPTH }
    }

    /// The number of the device, as the driver counts them from 0 on (`CUDA_VISIBLE_DEVICES`
    /// chooses and orders them). By default 0.
    pub fn ordinal(mut self, ordinal: u32) -> Self {
        self.ordinal = ordinal;
        self
    }

    /// The number of frames under way at a time. By default 3: one on its way to the device, one
    /// there, and one on its way back. Each takes the bytes of the longest frame twice: page-locked
    /// on the host, and on the device.
    pub fn depth(mut self, depth: NonZeroUsize) -> Self {
        self.depth = depth;
        self
    }
}

/// A GPU that swaps the red and the blue of the pixels of frames, as
/// [`swap_red_and_blue`](rails_multirail::pipeline::device::swap_red_and_blue) does on the host:
/// bytes behind the last whole pixel stay as they are.
///
/// A frame is copied into page-locked memory, from there the device's copy engine takes it, a
/// kernel changes it on the device, and a copy engine brings it back; each frame under way has a
/// stream of its own, so that one frame's copies go on beside another one's computation. The thread
/// of the stage makes two copies of each frame, to and from the page-locked memory, and is free for
/// the rest of the time. Another thread, named `rails-cuda`, sleeps until a frame is done, and
/// wakes the task.
///
/// Make the device on the thread of its stage: the page-locked memory lies on that thread's node
/// ([`staging_residency`](Self::staging_residency) reads it back), and the waiting thread has the
/// same CPUs. [`new`](Self::new) blocks while the driver sets the device up, often a good part of a
/// second.
///
/// After an error of the driver the device accepts no further frame ([`CudaError::Broken`]).
/// Dropping the value waits until the frames under way are done.
#[derive(Debug)]
pub struct CudaDevice<B> {
    ring: Ring<B, Slot>,
    staging: BufferPool,
    name: String,
}

impl<B> CudaDevice<B> {
    /// Sets the device up, with its memory.
    ///
    /// # Privileges
    /// Access to the device's files (`/dev/nvidia*`).
    ///
    /// # Errors
    /// All variants but those about frames: [`CudaError::NoDriver`] on a machine without a driver.
    /// After an error no resource is left.
    pub fn new(options: &CudaOptions) -> Result<Self, CudaError> {
        Self::of(CudaDriver::load()?, options)
    }

    fn of(driver: &'static CudaDriver, options: &CudaOptions) -> Result<Self, CudaError> {
        let &CudaOptions { frame_bytes, ordinal, depth } = options;
        let name = driver.device_name(ordinal)?;
        let context = Primary::new(driver, ordinal)?;
        let kernel = Kernel::new(&context)?;
        let staging = staging(frame_bytes, depth.get())?;
        let slot = |_| {
            let buffer = staging.take().expect("the pool has a buffer for each slot");
            Slot::new(&context, &kernel, buffer)
        };
        let slots: Vec<Slot> = (0..depth.get()).map(slot).collect::<Result<_, _>>()?;
        let ends: Vec<Arc<Event>> = slots.iter().map(Slot::end).collect();
        let ring = Ring::new(slots, frame_bytes, move |slot| ends[slot].wait());
        Ok(Self { ring: ring.map_err(|source| CudaError::Thread { source })?, staging, name })
    }

    /// The device's name, such as `NVIDIA H100 80GB HBM3`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The node of each page of the page-locked memory, as the kernel states it.
    ///
    /// # Errors
    /// As [`BufferPool::residency`].
    pub fn staging_residency(&self) -> Result<Residency, MemoryError> {
        self.staging.residency()
    }
}

impl<B: AsMut<[u8]>> FrameDevice<B> for CudaDevice<B> {
    fn depth(&self) -> NonZeroUsize {
        self.ring.depth()
    }

    fn submit(&mut self, frame: B) -> Result<(), Box<dyn Error + Send + Sync>> {
        Ok(self.ring.submit(frame)?)
    }

    fn poll_done(&mut self, context: &mut Context<'_>) -> Poll<Result<B, Box<dyn Error + Send + Sync>>> {
        self.ring.poll_done(context).map_err(Into::into)
    }
}

/// Buffers on the node of this thread, which touches their pages first. Each has whole pages,
/// because pages are locked.
fn staging(frame_bytes: usize, depth: usize) -> Result<BufferPool, CudaError> {
    let whole_pages = frame_bytes.checked_next_multiple_of(LARGEST_PAGE).unwrap_or(usize::MAX);
    let options = BufferOptions::new().policy(MemoryPolicy::Local);
    BufferPool::new(whole_pages, depth, &options).map_err(|source| CudaError::Staging {
        depth,
        frame_bytes,
        source: Box::new(source),
    })
}

/// Frames under way at a time.
const DEPTH: NonZeroUsize = NonZeroUsize::new(3).expect("it is not 0");
/// The largest base page of any kernel (aarch64 has 4, 16 or 64 KiB), a multiple of the others.
const LARGEST_PAGE: usize = 64 << 10;

#[cfg(test)]
mod tests;
