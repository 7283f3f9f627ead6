//! What the application's handle and the lanes of one stream share.

use super::stats::{LaneRecord, StreamStats};
use crate::{
    StreamError,
    error::LaneError,
    proto::{
        connection::{Connection, LaneId, LaneTraits},
        handshake::{Credentials, StreamId},
    },
    rails::Rails,
};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Waker,
    time::Instant,
};
use tokio::sync::{Notify, watch};

/// One end of a stream, as its handle and its lanes see it. The lock is held for a decision, never for I/O.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) id: StreamId,
    /// What further lanes join with.
    pub(crate) joining: Credentials,
    state: Mutex<State>,
    /// How many lanes are up; and that the application is gone, which the lanes do not outlive by much.
    pub(crate) lanes_up: watch::Sender<usize>,
    pub(crate) abandoned: watch::Sender<bool>,
    /// The lanes run on these: they are kept until the last lane has ended.
    _rails: Rails,
}

/// What is under the lock.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) connection: Connection,
    /// By [`LaneId`]: who is to be told that a lane has something to send.
    notify: Vec<Arc<Notify>>,
    /// Every lane there ever was, for the statistics.
    records: Vec<Arc<LaneRecord>>,
    pub(crate) reader: Option<Waker>,
    pub(crate) writer: Option<Waker>,
}

impl Shared {
    pub(crate) fn new(id: StreamId, connection: Connection, rails: Rails, joining: Credentials) -> Arc<Self> {
        let state = State { connection, notify: Vec::new(), records: Vec::new(), reader: None, writer: None };
        Arc::new(Self {
            id,
            joining,
            state: Mutex::new(state),
            lanes_up: watch::Sender::new(0),
            abandoned: watch::Sender::new(false),
            _rails: rails,
        })
    }

    /// Does something under the lock, and then wakes whoever is to be woken for it.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let result = act(&mut state);
        let wakes = state.connection.take_wakes();
        let reader = state.reader.take_if(|_| wakes.reader);
        let writer = state.writer.take_if(|_| wakes.writer);
        // An `Arc` clone is cheap beside the wake, and the wake must not happen under the lock.
        let lanes: Vec<Arc<Notify>> = wakes.lanes().map(|lane| state.notify[lane.0].clone()).collect();
        drop(state);
        lanes.iter().for_each(|lane| lane.notify_one());
        [reader, writer].into_iter().flatten().for_each(Waker::wake);
        result
    }

    /// A lane has joined; `None` where the stream takes no more.
    pub(crate) fn lane_up(&self, record: &Arc<LaneRecord>) -> Option<(LaneId, Arc<Notify>)> {
        let lane = self.with(|state| {
            if state.connection.failure().is_some() || state.connection.is_done() {
                return None;
            }
            let lane = state.connection.lane_up(Instant::now(), LaneTraits::default())?;
            let notify = Arc::new(Notify::new());
            if state.notify.len() <= lane.0 {
                state.notify.resize_with(lane.0 + 1, Arc::default);
            }
            state.notify[lane.0] = notify.clone();
            state.records.push(record.clone());
            Some((lane, notify))
        })?;
        self.lanes_up.send_modify(|up| *up += 1);
        Some(lane)
    }

    /// A lane has ended.
    pub(crate) fn lane_down(&self, lane: LaneId, record: &LaneRecord, end: Result<(), LaneError>) {
        match &end {
            Ok(()) => tracing::debug!(stream = %self.id, lane = record.index, "lane closed"),
            Err(error) => {
                tracing::warn!(stream = %self.id, lane = record.index, remote = %record.remote, %error, "lane lost");
            }
        }
        record.end(end);
        self.with(|state| state.connection.lane_down(Instant::now(), lane));
        self.lanes_up.send_modify(|up| *up -= 1);
    }

    /// Why the stream is over before its time, if it is.
    pub(crate) fn error(&self, state: &State) -> Option<StreamError> {
        let failure = state.connection.failure()?.clone();
        let lanes = state.records.iter().filter_map(|record| record.lost()).collect();
        Some(StreamError { stream: self.id, failure, lanes })
    }

    pub(crate) fn stats(&self) -> StreamStats {
        let (records, sent, again, received) = self.with(|state| {
            let connection = &state.connection;
            (state.records.clone(), connection.sent(), connection.bytes_sent_again(), connection.received())
        });
        let mut lanes: Vec<_> = records.iter().map(|record| record.stats()).collect();
        lanes.sort_by_key(|lane| lane.lane);
        StreamStats {
            bytes_written: sent.0,
            bytes_consumed_by_peer: sent.1,
            bytes_sent_again: again,
            bytes_read: received.0,
            bytes_duplicated: received.1,
            lanes,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic under the lock is a broken invariant of the state machines, which the panic itself has reported; the lanes that
        // find it broken again will say so again.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
