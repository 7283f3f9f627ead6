//! The memory of numpy's arrays, which is written to while Python's lock is not held.
#![allow(unsafe_code)]

use numpy::{PyArray1, PyArrayMethods};
use pyo3::{prelude::*, sync::PyOnceLock};

/// A new array of bytes, once `fill` has written them.
///
/// # Errors
/// Those of `fill`, and `MemoryError`.
pub(crate) fn filled<'py>(
    py: Python<'py>,
    length: u64,
    fill: impl FnOnce(&mut [u8]) -> PyResult<()>,
) -> PyResult<Bound<'py, PyArray1<u8>>> {
    // By numpy's own function, which has an exception for a length without memory.
    let zeros = ZEROS.import(py, "numpy", "zeros")?;
    let array = zeros.call1((length, "u1"))?.cast_into::<PyArray1<u8>>()?;
    // SAFETY: the array was made here, contiguous and with all of its bytes set. Python's collector
    // does not know arrays of bytes, and no other code gets a reference before this function
    // returns, so nobody else reads, writes, resizes or frees the memory as long as `bytes` lives.
    let bytes = unsafe { array.as_slice_mut()? };
    fill(bytes)?;
    Ok(array)
}

static ZEROS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
