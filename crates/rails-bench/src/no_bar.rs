//! A build without the command line draws no progress bars.

/// A bar that is not drawn.
#[derive(Debug)]
pub(crate) struct Bar;

/// Writes to the terminal.
pub(crate) fn suspend<T>(write: impl FnOnce() -> T) -> T {
    write()
}

/// No bar.
pub(crate) fn shown() -> Bar {
    Bar
}

impl Bar {
    pub(crate) fn hidden() -> Self {
        Self
    }

    pub(crate) fn length(&self) -> Option<u64> {
        None
    }

    pub(crate) fn set_length(&self, _bytes: u64) {}

    pub(crate) fn inc_length(&self, _bytes: u64) {}

    pub(crate) fn inc(&self, _bytes: u64) {}

    pub(crate) fn set_message(&self, _message: impl Into<String>) {}

    pub(crate) fn finish_and_clear(&self) {}
}
