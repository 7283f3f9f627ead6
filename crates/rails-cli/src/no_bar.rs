//! A build without the command line draws no progress bars.

/// A bar that is not drawn.
#[derive(Debug)]
pub struct Bar;

/// Writes to the terminal.
pub fn suspend<T>(write: impl FnOnce() -> T) -> T {
    write()
}

/// No bar.
pub fn shown() -> Bar {
    Bar
}

impl Bar {
    /// No bar.
    pub fn hidden() -> Self {
        Self
    }

    /// None, for there is no bar.
    pub fn length(&self) -> Option<u64> {
        None
    }

    /// Does nothing.
    pub fn set_length(&self, _bytes: u64) {}

    /// Does nothing.
    pub fn inc_length(&self, _bytes: u64) {}

    /// Does nothing.
    pub fn inc(&self, _bytes: u64) {}

    /// Does nothing.
    pub fn set_message(&self, _message: impl Into<String>) {}

    /// Does nothing.
    pub fn finish_and_clear(&self) {}
}
