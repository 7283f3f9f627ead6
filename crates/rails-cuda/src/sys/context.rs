//! The primary context of a device: `cuDevicePrimaryCtxRetain`, `cuCtxPushCurrent`.
//!
//! # Safety
//! A context is valid from the call that retains it to the one that releases it, which is in its
//! `Drop`; all that belongs to a context holds an `Arc` of it. The driver's functions may be called
//! from several threads at a time ("the driver API is thread-safe"). Those that work on the calling
//! thread's current context are called inside of [`Context::run`] alone, which pushes this one, and
//! pops it again. `cuDevicePrimaryCtxReset` would end the context of all of the process; this crate
//! does not call it, and another caller answers for those whose context it takes.
#![allow(unsafe_code)]

use super::driver::{CUcontext, CUdevice, CudaDriver};
use crate::CudaError;
use std::{ptr, sync::Arc};

/// A device's primary context, which all code of the process shares.
#[derive(Debug)]
pub(crate) struct Context {
    driver: &'static CudaDriver,
    device: CUdevice,
    handle: CUcontext,
    ordinal: u32,
}

// SAFETY: a context belongs to the process, see above.
unsafe impl Send for Context {}

// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    pub(crate) fn new(driver: &'static CudaDriver, ordinal: u32) -> Result<Arc<Self>, CudaError> {
        let device = driver.device(ordinal)?;
        let mut handle = ptr::null_mut();
        // SAFETY: the driver writes one handle, and the device is one that it named.
        let status = unsafe { (driver.cuDevicePrimaryCtxRetain)(&raw mut handle, device) };
        driver.check("cuDevicePrimaryCtxRetain", status, format_args!("device {ordinal}"))?;
        Ok(Arc::new(Self { driver, device, handle, ordinal }))
    }

    /// The number of the device.
    pub(super) fn ordinal(&self) -> u32 {
        self.ordinal
    }

    /// Makes this context the calling thread's current one during `calls`. Afterwards the thread
    /// has its former one again, so that other users of CUDA see no change.
    pub(super) fn run<R>(
        &self,
        calls: impl FnOnce(&'static CudaDriver) -> Result<R, CudaError>,
    ) -> Result<R, CudaError> {
        // SAFETY: the context is retained as long as `self` lives.
        let status = unsafe { (self.driver.cuCtxPushCurrent_v2)(self.handle) };
        self.driver.check("cuCtxPushCurrent", status, format_args!("device {}", self.ordinal))?;
        let result = calls(self.driver);
        let mut popped = ptr::null_mut();
        // SAFETY: the driver writes one handle, that of the context pushed above: nothing in `calls` pushes
        // or pops except by this function. It fails only where there is no context to pop.
        unsafe { (self.driver.cuCtxPopCurrent_v2)(&raw mut popped) };
        result
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: it was retained once, and released here. All that belongs to it is gone, for it held an
        // `Arc` of it. An error leaves the context to the end of the process.
        unsafe { (self.driver.cuDevicePrimaryCtxRelease_v2)(self.device) };
    }
}
