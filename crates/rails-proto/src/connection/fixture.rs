//! One end of a stream for the tests of this module.

use super::{Config, Connection};
use crate::{parameters::TransportParameters, policy::Policy};
use std::time::{Duration, Instant};

/// Creates one end without a lane. `limit` is that of an outage, and of the linger.
pub(super) fn end(limit: Duration) -> Connection {
    let parameters = TransportParameters { longest_chunk: 1 << 16, window: 1 << 20 };
    let config = Config {
        longest_chunk: 1 << 16,
        send_buffer: 1 << 20,
        max_unacknowledged: parameters.window,
        parameters,
        outage_limit: limit,
        linger: limit,
    };
    Connection::new(config, Policy::default().build(), parameters)
}

/// Handles the timeouts up to `now`.
pub(super) fn pass(connection: &mut Connection, now: Instant) {
    while let Some(at) = connection.poll_timeout().filter(|at| *at <= now) {
        connection.handle_timeout(at);
    }
}
