//! The resources of one frame: memory at both ends, a stream, and an event at the end of its work.
//!
//! # Safety
//! **From [`begin`](ring::Slot::begin) on, the device may read and write the slot's memory**, at
//! the host and on itself, until the driver has confirmed that it is beyond the mark behind the
//! work: [`settle`](ring::Slot::settle). So long the state is not [`SlotState::Idle`], and
//! * [`staging`](ring::Slot::staging), the only way to the bytes at the host, panics, and so does
//!   `begin`;
//! * the slot keeps all parts. Its `Drop` waits for the stream. If the driver does not confirm the
//!   end of the work, the parts are never dropped: memory is lost, and nothing else.
//!
//! A slot whose `begin` failed may have work in its stream and no mark behind it, so it is never
//! idle again.
#![allow(unsafe_code)]

use super::{
    context::Context,
    event::Event,
    kernel::Kernel,
    memory::{DeviceMemory, Pinned},
    stream::Stream,
};
use crate::{
    CudaError,
    ring::{self, PIXEL_BYTES},
};
use rails_bind::memory::PooledBuffer;
use std::{mem::ManuallyDrop, sync::Arc};

#[derive(Debug)]
pub(crate) struct Slot {
    parts: ManuallyDrop<Parts>,
    state: SlotState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SlotState {
    /// The device uses nothing of the slot.
    Idle,
    /// The device may use the slot until it is beyond the mark.
    UnderWay,
    /// The device may use the slot, and there may be no mark at the end of that.
    Unmarked,
}

#[derive(Debug)]
struct Parts {
    context: Arc<Context>,
    kernel: Arc<Kernel>,
    stream: Stream,
    end: Arc<Event>,
    device: DeviceMemory,
    staging: Pinned,
}

impl Slot {
    /// A slot for frames of up to the length of the buffer, whose pages hold nothing else.
    pub(crate) fn new(context: &Arc<Context>, kernel: &Arc<Kernel>, staging: PooledBuffer) -> Result<Self, CudaError> {
        let parts = Parts {
            context: context.clone(),
            kernel: kernel.clone(),
            stream: Stream::new(context)?,
            end: Arc::new(Event::new(context)?),
            device: DeviceMemory::new(context, staging.len())?,
            staging: Pinned::new(context, staging)?,
        };
        Ok(Self { parts: ManuallyDrop::new(parts), state: SlotState::Idle })
    }

    /// The mark at the end of the work, for the thread that waits for it.
    pub(crate) fn end(&self) -> Arc<Event> {
        self.parts.end.clone()
    }
}

impl ring::Slot for Slot {
    fn staging(&mut self) -> &mut [u8] {
        assert_eq!(self.state, SlotState::Idle, "the device may be using the memory");
        &mut self.parts.staging
    }

    fn begin(&mut self, bytes: usize) -> Result<(), CudaError> {
        let parts = &mut *self.parts;
        assert_eq!(self.state, SlotState::Idle, "a slot has one frame at a time");
        assert!(bytes.is_multiple_of(PIXEL_BYTES) && bytes <= parts.staging.len(), "whole pixels, within the memory");
        self.state = SlotState::Unmarked;
        if bytes > 0 {
            let (address, stream) = (parts.device.address(), parts.stream.handle());
            let host = parts.staging.as_mut_ptr();
            let subject = format_args!("{bytes} bytes on device {}", parts.context.ordinal());
            parts.context.run(|driver| {
                // SAFETY: both ranges have so many bytes, and live and stay alone with this work until it is over,
                // see above. The work of a stream runs in order, so that each step finds the result
                // of the former.
                let status = unsafe { (driver.cuMemcpyHtoDAsync_v2)(address, host.cast(), bytes, stream) };
                driver.check("cuMemcpyHtoDAsync", status, subject)
            })?;
            // SAFETY: as above.
            unsafe { parts.kernel.launch(&parts.stream, address, (bytes / PIXEL_BYTES) as u64) }?;
            parts.context.run(|driver| {
                // SAFETY: as above.
                let status = unsafe { (driver.cuMemcpyDtoHAsync_v2)(host.cast(), address, bytes, stream) };
                driver.check("cuMemcpyDtoHAsync", status, subject)
            })?;
        }
        parts.end.record(&parts.stream)?;
        self.state = SlotState::UnderWay;
        Ok(())
    }

    fn settle(&mut self) -> Result<(), CudaError> {
        match self.state {
            SlotState::Idle => Ok(()),
            SlotState::UnderWay if self.parts.end.is_over()? => {
                self.state = SlotState::Idle;
                Ok(())
            }
            SlotState::UnderWay | SlotState::Unmarked => Err(CudaError::Broken),
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if self.state == SlotState::Idle || self.parts.stream.synchronize().is_ok() {
            // SAFETY: `self` is being dropped, nothing uses the parts after this, and the device does not
            // either.
            unsafe { ManuallyDrop::drop(&mut self.parts) };
        }
    }
}
