//! The name of a thread, as `top -H`, `ps -L` and debuggers show it.

use super::{Tid, identity::Subject};
use crate::BindError;
use std::{
    ffi::{CStr, CString},
    fs, io,
};

/// The longest name, in bytes (`TASK_COMM_LEN` in include/linux/sched.h, less the zero at its end).
pub(super) const LONGEST: usize = 15;

/// The name of a thread, of any process. Bytes that are not UTF-8 become replacement characters.
///
/// # Privileges
/// None, unless `/proc` is mounted with `hidepid`.
///
/// # Errors
/// [`BindError::NoSuchThread`] if the thread has ended.
pub fn name_of(tid: Tid) -> Result<String, BindError> {
    let name = read(Subject::of(tid)?)?;
    Ok(String::from_utf8_lossy(&name).into_owned())
}

/// Refuses a name that the kernel would cut (it keeps the first 15 bytes without an error).
pub(super) fn check(name: &str) -> Result<(), BindError> {
    let unusable = |reason| Err(BindError::NameUnusable { name: name.to_owned(), reason });
    if name.len() > LONGEST {
        return unusable("it is longer than 15 bytes");
    }
    if name.contains('\0') {
        return unusable("it contains a zero byte");
    }
    Ok(())
}

/// The raw name, which need not be UTF-8.
pub(super) fn read(thread: Subject) -> Result<Vec<u8>, BindError> {
    match thread {
        Subject::Calling => nix::sys::prctl::get_name()
            .map(CString::into_bytes)
            .map_err(|errno| BindError::of_call("prctl(PR_GET_NAME)", thread, errno.into())),
        Subject::Numbered(tid, _) => {
            let mut name = fs::read(format!("/proc/{}/comm", thread.folder())).map_err(|e| of_file(tid, "read", e))?;
            // The kernel adds a line feed; one in front of it is the name's own.
            name.pop_if(|byte| *byte == b'\n');
            Ok(name)
        }
    }
}

pub(super) fn write(thread: Subject, name: &[u8]) -> Result<(), BindError> {
    match thread {
        Subject::Calling => {
            let terminated: Vec<u8> = name.iter().copied().take_while(|byte| *byte != 0).chain([0]).collect();
            let name = CStr::from_bytes_until_nul(&terminated).expect("it ends with zero");
            nix::sys::prctl::set_name(name)
                .map_err(|errno| BindError::of_call("prctl(PR_SET_NAME)", thread, errno.into()))
        }
        Subject::Numbered(tid, _) => {
            if !fs::exists(format!("/proc/self/task/{tid}")).unwrap_or(false) {
                thread.still_there()?;
                return Err(BindError::ForeignName { tid });
            }
            // Nothing is written for an empty slice, while a zero byte sets an empty name.
            let bytes = if name.is_empty() { b"\0" } else { name };
            fs::write(format!("/proc/self/task/{tid}/comm"), bytes).map_err(|e| of_file(tid, "write", e))
        }
    }
}

fn of_file(tid: Tid, call: &'static str, source: io::Error) -> BindError {
    match source.raw_os_error() {
        Some(libc::ENOENT | libc::ESRCH) => BindError::NoSuchThread { tid },
        _ => BindError::of_call(call, format_args!("/proc/{tid}/task/{tid}/comm"), source),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fifteen_bytes_are_a_name_and_sixteen_are_not() {
        check("").expect("a thread may have no name");
        check("abcdefghijklmno").expect("15 bytes");
        assert!(matches!(check("abcdefghijklmnop"), Err(BindError::NameUnusable { .. })));
        check("éééééééo").expect("15 bytes in 8 characters");
        assert!(matches!(check("éééééééé"), Err(BindError::NameUnusable { .. })));
        assert!(matches!(check("a\0b"), Err(BindError::NameUnusable { .. })));
    }

    #[test]
    fn any_bytes_are_put_back_as_they_were() {
        std::thread::spawn(|| {
            let by_number = Subject::of(super::super::current_tid()).expect("it lives");
            for thread in [Subject::Calling, by_number] {
                for name in [&b""[..], b"a) b (c", b"\xff\xfe", b"two\nlines\n", b"123456789012345"] {
                    write(thread, name).expect("the thread is ours");
                    for reader in [Subject::Calling, by_number] {
                        assert_eq!(read(reader).expect("readable"), name, "{thread:?} {reader:?}");
                    }
                }
            }
        })
        .join()
        .expect("the thread does not panic");
    }
}
