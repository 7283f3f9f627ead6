//! The errors of a device.

use rails_bind::memory::MemoryError;
use std::{error::Error, fmt, io};

/// The error of making a device, or of a frame.
///
/// The answer of the driver or of the operating system is the [`source`](Error::source), if there
/// is one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CudaError {
    /// This machine has no driver, or one of another architecture.
    #[error(
        "no CUDA driver: libcuda.so.1 cannot be loaded; install NVIDIA's driver, or have the container given the GPU \
         (docker run --gpus all)"
    )]
    NoDriver {
        /// The answer of the loader.
        source: Box<dyn Error + Send + Sync>,
    },

    /// The driver lacks a function that those of CUDA 11.0 (release 450) have.
    #[error("libcuda.so.1 has no {function}: the driver is older than that of CUDA 11.0; install a newer one")]
    OldDriver {
        /// The function.
        function: &'static str,
        /// The answer of the loader.
        source: Box<dyn Error + Send + Sync>,
    },

    /// The driver has no device of this number.
    #[error("no CUDA device {ordinal}: the driver has {count}, numbered from 0")]
    NoDevice {
        /// The requested number.
        ordinal: u32,
        /// The number of devices.
        count: u32,
    },

    /// The driver refused a call, or reported here that earlier work on the device failed.
    #[error("{call} failed for {subject}")]
    Call {
        /// The function of the driver.
        call: &'static str,
        /// The device, memory or frame of the call.
        subject: String,
        /// The driver's answer.
        source: CudaStatus,
    },

    /// The driver does not compile the kernel for this device.
    #[error("cuModuleLoadDataEx failed for the kernel on device {ordinal}; its compiler says: {log}")]
    Kernel {
        /// The device.
        ordinal: u32,
        /// The messages of the driver's compiler; empty if it printed none.
        log: String,
        /// The driver's answer.
        source: CudaStatus,
    },

    /// The host has no memory to stage the frames.
    #[error("no staging memory for {depth} frames of {frame_bytes} bytes")]
    Staging {
        /// Frames under way at a time.
        depth: usize,
        /// The bytes of the longest frame.
        frame_bytes: usize,
        /// The cause.
        source: Box<MemoryError>,
    },

    /// The thread that waits for the device could not be started.
    #[error("no thread to wait for the device")]
    Thread {
        /// The answer of the operating system.
        source: io::Error,
    },

    /// A frame is longer than the device was made for. The device accepts further frames.
    #[error("a frame has {frame_bytes} bytes, and the device was made for {longest} at most")]
    FrameTooLong {
        /// The length of the frame.
        frame_bytes: usize,
        /// The length of the longest frame.
        longest: usize,
    },

    /// The slice of a frame's bytes has another length after the device's work than before.
    #[error("a frame had {submitted} bytes when it was submitted, and has {now} now")]
    FrameChanged {
        /// The length at submission.
        submitted: usize,
        /// The length afterwards.
        now: usize,
    },

    /// The maximum number of frames is under way. The device accepts further ones when some are
    /// done.
    #[error("{depth} frames are under way, and the device takes no more at a time")]
    Full {
        /// Frames under way at a time.
        depth: usize,
    },

    /// The device has failed before, and may still use its memory.
    #[error("the device failed at an earlier frame, and takes no further one")]
    Broken,
}

/// A code of CUDA's driver, with the driver's words for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CudaStatus {
    /// The number (`CUresult`).
    pub code: u32,
    /// The code's name, such as `CUDA_ERROR_OUT_OF_MEMORY`; `None` for a code that the driver does
    /// not know.
    pub name: Option<String>,
    /// The code's description; `None` for a code that the driver does not know.
    pub text: Option<String>,
}

impl fmt::Display for CudaStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{name} ({})", self.code)?,
            None => write!(f, "code {}", self.code)?,
        }
        self.text.as_ref().map_or(Ok(()), |text| write!(f, ": {text}"))
    }
}

impl Error for CudaStatus {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_has_the_words_that_are_known() {
        let status = |name: Option<&str>, text: Option<&str>| {
            let known = CudaStatus { code: 2, name: name.map(str::to_owned), text: text.map(str::to_owned) };
            known.to_string()
        };
        let known = status(Some("CUDA_ERROR_OUT_OF_MEMORY"), Some("out of memory"));
        assert_eq!(known, "CUDA_ERROR_OUT_OF_MEMORY (2): out of memory");
        assert_eq!(status(None, None), "code 2");
    }

    #[test]
    fn an_error_names_call_and_subject_but_not_its_source() {
        let source = CudaStatus { code: 2, name: None, text: None };
        let error = CudaError::Call { call: "cuMemAlloc", subject: "7 bytes on device 0".to_owned(), source };
        assert_eq!(error.to_string(), "cuMemAlloc failed for 7 bytes on device 0");
        assert_eq!(error.source().map(ToString::to_string).as_deref(), Some("code 2"));
    }
}
