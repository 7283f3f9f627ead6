//! Memory of a device, and page-locked memory of the host: `cuMemAlloc`, `cuMemHostRegister`.
//!
//! # Safety
//! Both kinds of memory stay valid until their `Drop`, and belong to the context that they keep.
//! None is dropped while the device may use it: they are parts of a [`Slot`](super::slot::Slot),
//! which sees to that. Only the slot gets the addresses.
#![allow(unsafe_code)]

use super::{context::Context, driver::CUdeviceptr};
use crate::CudaError;
use rails_bind::memory::PooledBuffer;
use std::{
    fmt,
    mem::ManuallyDrop,
    ops::{Deref, DerefMut},
    sync::Arc,
};

/// Memory of the device.
#[derive(Debug)]
pub(super) struct DeviceMemory {
    context: Arc<Context>,
    address: CUdeviceptr,
}

impl DeviceMemory {
    pub(super) fn new(context: &Arc<Context>, bytes: usize) -> Result<Self, CudaError> {
        let address = context.run(|driver| {
            let mut address = 0;
            // SAFETY: the driver writes one address, and refuses 0 bytes.
            let status = unsafe { (driver.cuMemAlloc_v2)(&raw mut address, bytes) };
            driver.check("cuMemAlloc", status, format_args!("{bytes} bytes on device {}", context.ordinal()))?;
            Ok(address)
        })?;
        Ok(Self { context: context.clone(), address })
    }

    /// The address, aligned to 256 bytes at least.
    pub(super) fn address(&self) -> CUdeviceptr {
        self.address
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        // An error leaves the memory to the end of its context.
        let _ = self.context.run(|driver| {
            // SAFETY: an address of `cuMemAlloc`, freed once; no work uses it, see above.
            let status = unsafe { (driver.cuMemFree_v2)(self.address) };
            driver.check("cuMemFree", status, format_args!("device {}", self.context.ordinal()))
        });
    }
}

/// A buffer whose pages the driver has locked, so that the device's copy engine accesses it
/// directly.
pub(super) struct Pinned {
    context: Arc<Context>,
    buffer: ManuallyDrop<PooledBuffer>,
}

impl Pinned {
    /// Locks the pages of the buffer, which must be whole ones: no other memory is on them.
    pub(super) fn new(context: &Arc<Context>, mut buffer: PooledBuffer) -> Result<Self, CudaError> {
        let bytes = buffer.len();
        context.run(|driver| {
            // SAFETY: the range is mapped and writable, and stays so until it is unregistered: the buffer keeps
            // its mapping, and is dropped after that. Without flags the pages are locked, and no
            // byte of them changes.
            let status = unsafe { (driver.cuMemHostRegister_v2)(buffer.as_mut_ptr().cast(), bytes, 0) };
            driver.check("cuMemHostRegister", status, format_args!("{bytes} bytes for device {}", context.ordinal()))
        })?;
        Ok(Self { context: context.clone(), buffer: ManuallyDrop::new(buffer) })
    }
}

/// Prints no bytes, because the device may be writing them.
impl fmt::Debug for Pinned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pinned").field("context", &self.context).finish_non_exhaustive()
    }
}

impl Deref for Pinned {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.buffer
    }
}

impl DerefMut for Pinned {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.buffer
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let start = self.buffer.as_mut_ptr();
        let unregistered = self.context.run(|driver| {
            // SAFETY: the address that was registered, once; no work uses the memory, see above.
            let status = unsafe { (driver.cuMemHostUnregister)(start.cast()) };
            driver.check("cuMemHostUnregister", status, format_args!("device {}", self.context.ordinal()))
        });
        // Memory that may still be registered must not become something else.
        if unregistered.is_ok() {
            // SAFETY: `self` is being dropped, and nothing uses the buffer after this.
            unsafe { ManuallyDrop::drop(&mut self.buffer) };
        }
    }
}
