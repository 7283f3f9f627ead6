//! The numbers of threads.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The kernel's number of a thread (`gettid(2)`); unlike a `std::thread::ThreadId`, other programs
/// know it too.
///
/// A process has the number of its first thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "i32", into = "i32")]
pub struct Tid(i32);

/// The number of the calling thread.
#[doc(alias = "gettid")]
pub fn current_tid() -> Tid {
    Tid(nix::unistd::gettid().as_raw())
}

impl Tid {
    /// The thread of that number; `None` for zero and below, which the kernel gives to no thread.
    pub fn from_raw(number: i32) -> Option<Self> {
        (number > 0).then_some(Self(number))
    }

    /// The thread's number.
    pub fn as_raw(self) -> i32 {
        self.0
    }
}

impl TryFrom<i32> for Tid {
    type Error = &'static str;

    fn try_from(number: i32) -> Result<Self, &'static str> {
        Self::from_raw(number).ok_or("a thread's number is above zero")
    }
}

impl From<Tid> for i32 {
    fn from(tid: Tid) -> Self {
        tid.0
    }
}

impl fmt::Display for Tid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_thread_has_the_number_zero() {
        assert_eq!(Tid::from_raw(0), None);
        assert_eq!(Tid::from_raw(-1), None);
        assert_eq!(Tid::from_raw(1).map(Tid::as_raw), Some(1));
        assert!(serde_json::from_str::<Tid>("0").is_err());
    }
}
