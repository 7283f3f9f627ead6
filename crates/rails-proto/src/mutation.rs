//! Faults of the state machines of streams, for the models to find.

/// A fault of the state machines of streams. Each is of a kind that a change could bring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutation {
    /// A lane takes bytes beyond the limit of their stream.
    StreamLimitIgnored,
    /// A lane takes bytes beyond the limit of all streams together.
    SessionLimitIgnored,
    /// The peer does not hear of a limit that has moved by little, though it may wait for it.
    LimitNotOwed,
    /// The end of a stream that is reset lies behind the bytes that were written, not behind those
    /// that were sent.
    ResetAtWritten,
    /// A stream counts as settled as soon as it is reset, and not only when the peer knows.
    ResetNotAwaited,
    /// Control records of a lost lane are not sent again.
    RecordsLost,
    /// Control records that are sent again have the values of the first time.
    RecordsNotRenewed,
    /// Bytes that are discarded do not count as read.
    DiscardedNotRead,
    /// A writer is not woken when a lane takes what it has written.
    RoomWakesNobody,
    /// A stream that was stopped takes no notice of its end.
    StoppedForever,
}

#[cfg(feature = "internals")]
thread_local! {
    static PRESENT: std::cell::Cell<Option<Mutation>> = const { std::cell::Cell::new(None) };
}

/// Calls `act` with that fault in the state machines of this thread.
#[cfg(feature = "internals")]
pub fn with<T>(mutation: Option<Mutation>, act: impl FnOnce() -> T) -> T {
    let before = PRESENT.replace(mutation);
    let result = act();
    PRESENT.set(before);
    result
}

/// Whether the state machines of this thread have that fault.
#[cfg(feature = "internals")]
pub(crate) fn has(mutation: Mutation) -> bool {
    PRESENT.get() == Some(mutation)
}

/// Only models need faults.
#[cfg(not(feature = "internals"))]
pub(crate) fn has(_: Mutation) -> bool {
    false
}
