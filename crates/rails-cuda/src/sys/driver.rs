//! The functions of CUDA's driver, loaded from `libcuda.so.1` if it exists.
//!
//! The declarations are here rather than in a crate: a Rust `enum` for the driver's codes, which
//! generated ones have, is undefined behaviour when a newer driver answers with a code that is not
//! in it. The tests compare every declaration with such generated ones.
//!
//! # Safety
//! A function pointer is of use as long as the library is loaded, which is until the process ends:
//! the table lives in a `static`. A type is that of the declaration in `cuda.h`, by the name that
//! the header's macros make of it.
#![allow(unsafe_code)]
#![allow(non_camel_case_types, non_snake_case, reason = "types and functions have the names of CUDA's header")]

use crate::{CudaError, CudaStatus};
use libloading::Library;
use std::{
    ffi::{CStr, c_char, c_int, c_uint, c_void},
    fmt, ptr,
    sync::OnceLock,
};

#[cfg(not(target_pointer_width = "64"))]
compile_error!("rails-cuda has the types of CUDA's header for 64 bits");

/// `CUresult`, as an integer: a newer driver answers with codes that are unknown here.
pub(super) type CUresult = c_uint;
/// The number of a device.
pub(super) type CUdevice = c_int;
/// An address on a device.
pub(super) type CUdeviceptr = u64;
pub(super) type CUcontext = *mut c_void;
pub(super) type CUmodule = *mut c_void;
pub(super) type CUfunction = *mut c_void;
pub(super) type CUstream = *mut c_void;
pub(super) type CUevent = *mut c_void;
pub(super) type CUjit_option = c_uint;

pub(super) const CUDA_SUCCESS: CUresult = 0;
pub(super) const CUDA_ERROR_NOT_READY: CUresult = 600;
pub(super) const CU_STREAM_NON_BLOCKING: c_uint = 1;
pub(super) const CU_EVENT_BLOCKING_SYNC: c_uint = 1;
pub(super) const CU_EVENT_DISABLE_TIMING: c_uint = 2;
pub(super) const CU_JIT_ERROR_LOG_BUFFER: CUjit_option = 5;
pub(super) const CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES: CUjit_option = 6;

/// Hands the declarations to the macro `$with`: all functions are in the driver of CUDA 11.0.
macro_rules! functions {
    ($with:ident) => {
        $with! {
            fn cuInit(flags: c_uint);
            fn cuGetErrorName(error: CUresult, name: *mut *const c_char);
            fn cuGetErrorString(error: CUresult, text: *mut *const c_char);
            fn cuDeviceGetCount(count: *mut c_int);
            fn cuDeviceGet(device: *mut CUdevice, ordinal: c_int);
            fn cuDeviceGetName(name: *mut c_char, bytes: c_int, device: CUdevice);
            fn cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice);
            fn cuDevicePrimaryCtxRelease_v2(device: CUdevice);
            fn cuCtxPushCurrent_v2(context: CUcontext);
            fn cuCtxPopCurrent_v2(context: *mut CUcontext);
            fn cuModuleLoadDataEx(
                module: *mut CUmodule,
                image: *const c_void,
                options: c_uint,
                option: *mut CUjit_option,
                value: *mut *mut c_void
            );
            fn cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char);
            fn cuModuleUnload(module: CUmodule);
            fn cuMemAlloc_v2(address: *mut CUdeviceptr, bytes: usize);
            fn cuMemFree_v2(address: CUdeviceptr);
            fn cuMemHostRegister_v2(start: *mut c_void, bytes: usize, flags: c_uint);
            fn cuMemHostUnregister(start: *mut c_void);
            fn cuMemcpyHtoDAsync_v2(to: CUdeviceptr, from: *const c_void, bytes: usize, stream: CUstream);
            fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize, stream: CUstream);
            fn cuStreamCreate(stream: *mut CUstream, flags: c_uint);
            fn cuStreamSynchronize(stream: CUstream);
            fn cuStreamDestroy_v2(stream: CUstream);
            fn cuEventCreate(event: *mut CUevent, flags: c_uint);
            fn cuEventRecord(event: CUevent, stream: CUstream);
            fn cuEventQuery(event: CUevent);
            fn cuEventSynchronize(event: CUevent);
            fn cuEventDestroy_v2(event: CUevent);
            fn cuLaunchKernel(
                function: CUfunction,
                grid_x: c_uint,
                grid_y: c_uint,
                grid_z: c_uint,
                block_x: c_uint,
                block_y: c_uint,
                block_z: c_uint,
                shared_bytes: c_uint,
                stream: CUstream,
                parameters: *mut *mut c_void,
                extra: *mut *mut c_void
            );
        }
    };
}

macro_rules! table {
    ($(fn $name:ident($($argument:ident: $kind:ty),*);)*) => {
        /// The driver's functions.
        pub(crate) struct CudaDriver {
            $(pub(super) $name: unsafe extern "C" fn($($kind),*) -> CUresult,)*
            /// Keeps the library loaded.
            pub(super) _library: Library,
        }

        impl CudaDriver {
            fn of(library: Library) -> Result<Self, CudaError> {
                Ok(Self {
                    // SAFETY: the type is that of the header, as the tests check.
                    $($name: *unsafe { library.get(concat!(stringify!($name), "\0").as_bytes()) }
                        .map_err(|error| CudaError::OldDriver { function: stringify!($name), source: error.into() })?,)*
                    _library: library,
                })
            }
        }
    };
}
functions!(table);
#[cfg(test)]
pub(super) use functions;

impl CudaDriver {
    /// The driver, loaded once and never unloaded, and initialised.
    pub(crate) fn load() -> Result<&'static Self, CudaError> {
        static DRIVER: OnceLock<CudaDriver> = OnceLock::new();
        let driver = match DRIVER.get() {
            Some(driver) => driver,
            None => {
                // SAFETY: the library's initialisers are those of NVIDIA's driver, made to be loaded so.
                let library = unsafe { Library::new(LIBRARY) };
                let loaded = Self::of(library.map_err(|error| CudaError::NoDriver { source: error.into() })?)?;
                DRIVER.get_or_init(|| loaded)
            }
        };
        // SAFETY: "the Flags parameter must be 0"; the call may be repeated, and comes before any other.
        let status = unsafe { (driver.cuInit)(0) };
        driver.check("cuInit", status, format_args!("the driver"))?;
        Ok(driver)
    }

    /// The number of devices. The driver counts from 0 on.
    pub(crate) fn device_count(&self) -> Result<u32, CudaError> {
        let mut count = 0;
        // SAFETY: the driver writes one number.
        let status = unsafe { (self.cuDeviceGetCount)(&raw mut count) };
        self.check("cuDeviceGetCount", status, format_args!("the driver"))?;
        Ok(count.try_into().unwrap_or(0))
    }

    pub(super) fn device(&self, ordinal: u32) -> Result<CUdevice, CudaError> {
        let count = self.device_count()?;
        let number = c_int::try_from(ordinal).ok().filter(|_| ordinal < count);
        let number = number.ok_or(CudaError::NoDevice { ordinal, count })?;
        let mut device = 0;
        // SAFETY: the driver writes one number; the ordinal is below the count.
        let status = unsafe { (self.cuDeviceGet)(&raw mut device, number) };
        self.check("cuDeviceGet", status, format_args!("device {ordinal}"))?;
        Ok(device)
    }

    /// The name of a device.
    pub(crate) fn device_name(&self, ordinal: u32) -> Result<String, CudaError> {
        let device = self.device(ordinal)?;
        let mut name = [0_u8; 256];
        // SAFETY: the driver writes at most that many bytes, and the last of them is a zero.
        let status = unsafe { (self.cuDeviceGetName)(name.as_mut_ptr().cast(), name.len() as c_int, device) };
        self.check("cuDeviceGetName", status, format_args!("device {ordinal}"))?;
        Ok(until_zero(&name))
    }

    /// An error with the call and its subject, unless the driver answered `CUDA_SUCCESS`.
    pub(super) fn check(
        &self,
        call: &'static str,
        status: CUresult,
        subject: fmt::Arguments<'_>,
    ) -> Result<(), CudaError> {
        if status == CUDA_SUCCESS {
            return Ok(());
        }
        Err(CudaError::Call { call, subject: subject.to_string(), source: self.status(status) })
    }

    /// A code with the driver's words for it.
    pub(super) fn status(&self, code: CUresult) -> CudaStatus {
        let words = |ask: unsafe extern "C" fn(CUresult, *mut *const c_char) -> CUresult| {
            let mut words = ptr::null();
            // SAFETY: any code may be asked for; the driver writes one address: of a string that it never
            // frees, or null for a code that it does not know.
            let status = unsafe { ask(code, &raw mut words) };
            // SAFETY: as above; the string ends with a zero.
            (status == CUDA_SUCCESS && !words.is_null())
                .then(|| unsafe { CStr::from_ptr(words) }.to_string_lossy().into_owned())
        };
        CudaStatus { code, name: words(self.cuGetErrorName), text: words(self.cuGetErrorString) }
    }
}

impl fmt::Debug for CudaDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CudaDriver").finish_non_exhaustive()
    }
}

/// The text before the first zero.
pub(super) fn until_zero(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned()
}

/// The name by which programs find the driver; `libcuda.so` is there only where programs are built.
const LIBRARY: &str = "libcuda.so.1";

#[cfg(test)]
mod tests {
    use super::*;

    /// CUDA's header as cudarc has it, generated: a declaration that differs does not compile.
    mod header {
        #![allow(unsafe_code, reason = "types of functions that are never called")]

        use cudarc::driver::sys::{
            CUcontext, CUdevice, CUdeviceptr, CUevent, CUfunction, CUjit_option, CUmodule, CUresult, CUstream,
        };
        use std::ffi::{c_char, c_int, c_uint, c_void};

        macro_rules! compare {
            ($(fn $name:ident($($argument:ident: $kind:ty),*);)*) => {
                $(const _: unsafe fn($($kind),*) -> CUresult = cudarc::driver::sys::$name;)*
            };
        }
        functions!(compare);

        // The types of the declarations above agree with the generated ones.
        const _: super::super::CUdevice = 0 as CUdevice;
        const _: super::super::CUdeviceptr = 0 as CUdeviceptr;
        const _: () = assert!(size_of::<super::super::CUjit_option>() == size_of::<CUjit_option>());
        const _: () = assert!(size_of::<super::super::CUcontext>() == size_of::<CUcontext>());
        const _: () = assert!(size_of::<super::super::CUmodule>() == size_of::<CUmodule>());
        const _: () = assert!(size_of::<super::super::CUfunction>() == size_of::<CUfunction>());
        const _: () = assert!(size_of::<super::super::CUstream>() == size_of::<CUstream>());
        const _: () = assert!(size_of::<super::super::CUevent>() == size_of::<CUevent>());
    }

    #[test]
    fn constants_are_those_of_the_header() {
        use cudarc::driver::sys::{
            CUevent_flags::*, CUjit_option as Jit, CUresult as Code, CUstream_flags::CU_STREAM_NON_BLOCKING as Stream,
        };
        assert_eq!(CUDA_SUCCESS, Code::CUDA_SUCCESS as c_uint);
        assert_eq!(CUDA_ERROR_NOT_READY, Code::CUDA_ERROR_NOT_READY as c_uint);
        assert_eq!(super::CU_STREAM_NON_BLOCKING, Stream as c_uint);
        assert_eq!(super::CU_EVENT_BLOCKING_SYNC, CU_EVENT_BLOCKING_SYNC as c_uint);
        assert_eq!(super::CU_EVENT_DISABLE_TIMING, CU_EVENT_DISABLE_TIMING as c_uint);
        assert_eq!(super::CU_JIT_ERROR_LOG_BUFFER, Jit::CU_JIT_ERROR_LOG_BUFFER as c_uint);
        assert_eq!(super::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, Jit::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES as c_uint);
        assert_eq!(size_of::<Code>(), size_of::<CUresult>());
    }

    #[test]
    fn text_ends_before_the_first_zero() {
        assert_eq!(until_zero(b"NVIDIA H100\0\0x"), "NVIDIA H100");
        assert_eq!(until_zero(b"whole"), "whole");
        assert_eq!(until_zero(b""), "");
    }
}
