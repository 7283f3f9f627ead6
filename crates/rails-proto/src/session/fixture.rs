//! One end of a session of one stream, for the tests of this crate.

use super::{Config, Session};
use crate::{parameters::TransportParameters, policy::Policy, stream_number::Side};
use std::time::{Duration, Instant};

/// Creates one end without a lane. Both ends have the same longest chunk and window, in bytes.
/// `limit` is that of an outage, and of the linger.
pub(crate) fn end(longest_chunk: u32, window: u64, limit: Duration) -> Session {
    let parameters = TransportParameters::one_stream(longest_chunk, window);
    let config = Config {
        longest_chunk: longest_chunk as usize,
        send_buffer: 1 << 20,
        max_unacknowledged: window,
        parameters,
        side: Side::Initiator,
        outage_limit: limit,
        linger: limit,
    };
    Session::new(config, Policy::Adaptive.build(), parameters)
}

/// Handles the timeouts up to `now`.
pub(super) fn pass(session: &mut Session, now: Instant) {
    while let Some(at) = session.poll_timeout().filter(|at| *at <= now) {
        session.handle_timeout(at);
    }
}
