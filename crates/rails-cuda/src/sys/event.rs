//! Events, marks in a stream that threads wait for: `cuEventRecord`, `cuEventSynchronize`.
//!
//! # Safety
//! An event is valid from its creation to the destruction in its `Drop`, and belongs to the context
//! that it keeps. One thread may wait for it while another records or queries it.
#![allow(unsafe_code)]

use super::{
    context::Context,
    driver::{CU_EVENT_BLOCKING_SYNC, CU_EVENT_DISABLE_TIMING, CUDA_ERROR_NOT_READY, CUevent},
    stream::Stream,
};
use crate::CudaError;
use std::{ptr, sync::Arc};

#[derive(Debug)]
pub(crate) struct Event {
    context: Arc<Context>,
    handle: CUevent,
}

// SAFETY: any thread may use an event whose context is its current one.
unsafe impl Send for Event {}

// SAFETY: see above; the driver orders the calls.
unsafe impl Sync for Event {}

impl Event {
    pub(super) fn new(context: &Arc<Context>) -> Result<Self, CudaError> {
        // A waiting thread sleeps rather than spins; no caller needs times.
        let flags = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING;
        let handle = context.run(|driver| {
            let mut handle = ptr::null_mut();
            // SAFETY: the driver writes one handle.
            let status = unsafe { (driver.cuEventCreate)(&raw mut handle, flags) };
            driver.check("cuEventCreate", status, format_args!("device {}", context.ordinal()))?;
            Ok(handle)
        })?;
        Ok(Self { context: context.clone(), handle })
    }

    /// Marks the end of the work that is in the stream at this moment. The former mark is
    /// forgotten.
    pub(super) fn record(&self, stream: &Stream) -> Result<(), CudaError> {
        self.context.run(|driver| {
            // SAFETY: both are valid. Those of different contexts are refused by the driver.
            let status = unsafe { (driver.cuEventRecord)(self.handle, stream.handle()) };
            driver.check("cuEventRecord", status, format_args!("device {}", self.context.ordinal()))
        })
    }

    /// Whether the device is beyond the latest mark; true without a mark.
    pub(super) fn is_over(&self) -> Result<bool, CudaError> {
        self.context.run(|driver| {
            // SAFETY: the event is valid, and the call changes nothing.
            let status = unsafe { (driver.cuEventQuery)(self.handle) };
            if status == CUDA_ERROR_NOT_READY {
                return Ok(false);
            }
            driver.check("cuEventQuery", status, format_args!("a frame on device {}", self.context.ordinal()))?;
            Ok(true)
        })
    }

    /// Blocks the thread until the device is beyond the latest mark.
    pub(crate) fn wait(&self) -> Result<(), CudaError> {
        self.context.run(|driver| {
            // SAFETY: the event is valid, and the call changes nothing.
            let status = unsafe { (driver.cuEventSynchronize)(self.handle) };
            driver.check("cuEventSynchronize", status, format_args!("a frame on device {}", self.context.ordinal()))
        })
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // An error leaves the event to the end of its context.
        let _ = self.context.run(|driver| {
            // SAFETY: it was created once, and is destroyed here; `self` has the only handle.
            let status = unsafe { (driver.cuEventDestroy_v2)(self.handle) };
            driver.check("cuEventDestroy", status, format_args!("device {}", self.context.ordinal()))
        });
    }
}
