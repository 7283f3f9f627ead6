//! The kernel of this crate: `cuModuleLoadDataEx`, `cuLaunchKernel`.
//!
//! # Safety
//! A module is valid from its load to its unload, in the `Drop` of the kernel, and so is the
//! function in it. No kernel is dropped while the device may run it: a [`Slot`](super::slot::Slot)
//! holds an `Arc` of it until its work is over.
#![allow(unsafe_code)]

use super::{
    context::Context,
    driver::{
        CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CUDA_SUCCESS, CUdeviceptr, CUfunction, CUmodule,
        until_zero,
    },
    stream::Stream,
};
use crate::CudaError;
use std::{
    ffi::{CStr, c_uint},
    ptr,
    sync::Arc,
};

/// Swaps red and blue of pixels of four bytes.
#[derive(Debug)]
pub(crate) struct Kernel {
    context: Arc<Context>,
    module: CUmodule,
    function: CUfunction,
}

// SAFETY: any thread may use a module whose context is its current one.
unsafe impl Send for Kernel {}

// SAFETY: as above; the driver orders the calls.
unsafe impl Sync for Kernel {}

impl Kernel {
    /// Makes the driver compile the kernel for the device.
    pub(crate) fn new(context: &Arc<Context>) -> Result<Arc<Self>, CudaError> {
        let ordinal = context.ordinal();
        let module = context.run(|driver| {
            let mut module = ptr::null_mut();
            let mut log = [0_u8; 4096];
            let mut options = [CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
            // "Option values should be cast to void*": the size is the pointer's value itself.
            let mut values = [log.as_mut_ptr().cast(), ptr::without_provenance_mut(log.len())];
            // SAFETY: the driver writes one handle, and at most so many bytes of messages; the image is text
            // that ends with a zero, and both arrays have as many elements as is said.
            let status = unsafe {
                (driver.cuModuleLoadDataEx)(
                    &raw mut module,
                    IMAGE.as_ptr().cast(),
                    options.len() as c_uint,
                    options.as_mut_ptr(),
                    values.as_mut_ptr(),
                )
            };
            if status != CUDA_SUCCESS {
                let log = until_zero(&log).trim_end().to_owned();
                return Err(CudaError::Kernel { ordinal, log, source: driver.status(status) });
            }
            Ok(module)
        })?;
        // From here on an error unloads the module too.
        let mut kernel = Self { context: context.clone(), module, function: ptr::null_mut() };
        kernel.function = context.run(|driver| {
            let mut function = ptr::null_mut();
            // SAFETY: the driver writes one handle; the module is valid and the name ends with a zero.
            let status = unsafe { (driver.cuModuleGetFunction)(&raw mut function, module, NAME.as_ptr()) };
            driver.check("cuModuleGetFunction", status, format_args!("the kernel on device {ordinal}"))?;
            Ok(function)
        })?;
        Ok(Arc::new(kernel))
    }

    /// Enqueues the kernel for that many pixels, at least one, in the stream.
    ///
    /// # Safety
    /// From the address on are that many pixels of device memory of this context, which nothing
    /// else uses until this work of the stream is over, and which live as long, as do the
    /// stream and the kernel.
    pub(super) unsafe fn launch(
        &self,
        stream: &Stream,
        mut address: CUdeviceptr,
        mut pixels: u64,
    ) -> Result<(), CudaError> {
        let blocks = grid(pixels);
        let mut parameters = [(&raw mut address).cast(), (&raw mut pixels).cast()];
        self.context.run(|driver| {
            // SAFETY: the function is valid, and takes two words of 64 bits, whose values the call copies. The
            // grid is within the limits of every device: 2^31 - 1 blocks and 1,024 threads. The
            // kernel reads and writes no more than those pixels, of which the caller has said that
            // they are there.
            let status = unsafe {
                (driver.cuLaunchKernel)(
                    self.function,
                    blocks,
                    1,
                    1,
                    THREADS,
                    1,
                    1,
                    0,
                    stream.handle(),
                    parameters.as_mut_ptr(),
                    ptr::null_mut(),
                )
            };
            let device = self.context.ordinal();
            driver.check("cuLaunchKernel", status, format_args!("{pixels} pixels on device {device}"))
        })
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        // An error leaves the module to the end of its context.
        let _ = self.context.run(|driver| {
            // SAFETY: it was loaded once, and is unloaded here; nothing runs it, see above.
            let status = unsafe { (driver.cuModuleUnload)(self.module) };
            driver.check("cuModuleUnload", status, format_args!("device {}", self.context.ordinal()))
        });
    }
}

/// The blocks for that many pixels: one thread each, up to a number at which every device is busy.
fn grid(pixels: u64) -> c_uint {
    pixels.div_ceil(THREADS.into()).clamp(1, MAX_BLOCKS.into()) as c_uint
}

/// The kernel in PTX, which the driver compiles for the device that is there.
const IMAGE: &CStr = match CStr::from_bytes_with_nul(concat!(include_str!("../swap_red_and_blue.ptx"), "\0").as_bytes())
{
    Ok(image) => image,
    Err(_) => panic!("the text of the kernel has a zero in it"),
};
/// The name of the function in the image.
const NAME: &CStr = c"swap_red_and_blue";
/// The threads of a block.
const THREADS: c_uint = 256;
/// Each thread of a larger frame than 16,777,216 pixels has several.
const MAX_BLOCKS: c_uint = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_for_each_pixel_up_to_a_limit() {
        assert_eq!([1, 256, 257, 3840 * 2160].map(grid), [1, 1, 2, 32_400]);
        assert_eq!([(1 << 24) - 1, 1 << 24, (1 << 24) + 1, u64::MAX].map(grid), [MAX_BLOCKS; 4]);
    }
}
