//! Streams, in which work runs in order: `cuStreamCreate`, `cuStreamSynchronize`.
//!
//! # Safety
//! A stream is valid from its creation to the destruction in its `Drop`, and belongs to the context
//! that it keeps.
#![allow(unsafe_code)]

use super::{
    context::Context,
    driver::{CU_STREAM_NON_BLOCKING, CUstream},
};
use crate::CudaError;
use std::{ptr, sync::Arc};

#[derive(Debug)]
pub(super) struct Stream {
    context: Arc<Context>,
    handle: CUstream,
}

// SAFETY: any thread may use a stream whose context is its current one.
unsafe impl Send for Stream {}

impl Stream {
    pub(super) fn new(context: &Arc<Context>) -> Result<Self, CudaError> {
        let handle = context.run(|driver| {
            let mut handle = ptr::null_mut();
            // SAFETY: the driver writes one handle. "CU_STREAM_NON_BLOCKING: specifies that work running in the
            // created stream may run concurrently with work in stream 0", which other users of the
            // context may fill.
            let status = unsafe { (driver.cuStreamCreate)(&raw mut handle, CU_STREAM_NON_BLOCKING) };
            driver.check("cuStreamCreate", status, format_args!("device {}", context.ordinal()))?;
            Ok(handle)
        })?;
        Ok(Self { context: context.clone(), handle })
    }

    /// The handle, for calls that enqueue work; the caller keeps the stream until the work is over.
    pub(super) fn handle(&self) -> CUstream {
        self.handle
    }

    /// Waits until all work that was put into it has ended.
    pub(super) fn synchronize(&self) -> Result<(), CudaError> {
        self.context.run(|driver| {
            // SAFETY: the stream is valid, and the call changes nothing.
            let status = unsafe { (driver.cuStreamSynchronize)(self.handle) };
            driver.check("cuStreamSynchronize", status, format_args!("device {}", self.context.ordinal()))
        })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // An error leaves the stream to the end of its context.
        let _ = self.context.run(|driver| {
            // SAFETY: it was created once, and is destroyed here; `self` has the only handle.
            let status = unsafe { (driver.cuStreamDestroy_v2)(self.handle) };
            driver.check("cuStreamDestroy", status, format_args!("device {}", self.context.ordinal()))
        });
    }
}
