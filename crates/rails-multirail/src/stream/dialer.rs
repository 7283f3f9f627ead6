//! Bringing lanes up, and up again.

use super::{
    MultiRailStream,
    join::{initiate, nonce},
    lane::LaneDriver,
    shared::Shared,
    supervisor::supervise,
};
use crate::{
    RailId, StreamOptions,
    error::{FailedLane, JoinError},
    proto::{
        backoff::Backoff,
        connection::LaneId,
        handshake::{Credentials, Hello, Joined, Purpose, StreamId},
    },
    rails::Rails,
};
use rails_net::Lane;
use std::{net::SocketAddr, pin::pin, sync::Arc, time::Duration};
use tokio::{
    sync::{Mutex, mpsc},
    time::{Instant, sleep, timeout},
};

/// What a lane says while the stream is being opened.
pub(super) enum Report {
    /// It has opened the stream; here it is.
    Opened(MultiRailStream),
    /// It has joined.
    Joined,
    /// It did not come up.
    Failed(FailedLane),
}

/// Where a lane leads.
#[derive(Debug, Clone, Copy)]
pub(super) struct Path {
    /// The lane's number.
    pub(super) index: u16,
    pub(super) rail: RailId,
    pub(super) remote: SocketAddr,
}

/// What the lanes of one stream share at the end that opened it.
#[derive(Debug)]
pub(super) struct Dialer {
    pub(super) id: StreamId,
    pub(super) lanes: u16,
    pub(super) rails: Rails,
    pub(super) options: StreamOptions,
    /// What the lane that opens the stream brings.
    pub(super) credentials: Credentials,
    /// The stream, once a lane has opened it. Held while a lane tries to.
    pub(super) opened: Mutex<Option<Arc<Shared>>>,
}

impl Dialer {
    /// Starts a lane on the runtime that drives it, which keeps it up as long as the stream lasts.
    pub(super) fn start(self: &Arc<Self>, path: Path, report: mpsc::Sender<Report>) {
        let dialer = self.clone();
        // The task reports for itself, so its handle is not needed.
        let home = self.rails[self.options.driver.home(path.rail)].runtime();
        drop(home.spawn(move || dialer.keep(path, report)));
    }

    /// Brings one lane up, drives it, and brings it up again, until the stream is over or the lane is taken out. Runs where the
    /// lane is driven ([`Driver`](super::Driver)).
    async fn keep(self: Arc<Self>, path: Path, report: mpsc::Sender<Report>) {
        let begun = Instant::now();
        let joined = tokio::select! {
            joined = self.join(path) => joined,
            () = report.closed() => return,
        };
        let longest_attempt = self.longest_attempt(joined.is_ok().then(|| begun.elapsed()));
        let mut lane = match joined {
            Ok((lane, stream)) => {
                let said = stream.map_or(Report::Joined, Report::Opened);
                // Whoever opened the stream may be gone; then the stream is dropped with the report, and the lane sees it.
                let _ = report.send(said).await;
                Some(lane)
            }
            Err(error) => {
                let failed = FailedLane { rail: path.rail, remote: path.remote, error };
                let _ = report.send(Report::Failed(failed)).await;
                None
            }
        };
        let shared = match &lane {
            Some(lane) => lane.shared.clone(),
            None => match self.opened_by_another(&report).await {
                Some(shared) => shared,
                None => return,
            },
        };
        drop(report);
        let mut over = shared.over.subscribe();
        // The channel lives as long as `shared`, so waiting for it cannot fail.
        let over = async { drop(over.wait_for(|over| *over).await) };
        let mut over = pin!(over);
        loop {
            let Some(current) = lane.take() else {
                lane = tokio::select! {
                    joined = self.join_again(path, &shared, longest_attempt) => joined,
                    () = &mut over => return,
                };
                if lane.is_none() {
                    return;
                }
                continue;
            };
            let id = current.id;
            let mut run = pin!(current.run());
            tokio::select! {
                left = &mut run => if left {
                    return;
                },
                // The old connection is closed as soon as the new one has taken its place.
                joined = self.join_instead(path, &shared, id, longest_attempt) => {
                    lane = joined;
                    run.await;
                }
            }
            if *shared.over.borrow() {
                // A lane that joined just then has to be driven to its end all the same.
                if let Some(lane) = lane.take() {
                    lane.run().await;
                }
                return;
            }
        }
    }

    /// Waits until another lane has opened the stream; `None` where none does.
    async fn opened_by_another(&self, report: &mpsc::Sender<Report>) -> Option<Arc<Shared>> {
        loop {
            if let Some(shared) = self.opened.lock().await.clone() {
                return Some(shared);
            }
            tokio::select! {
                () = report.closed() => return None,
                () = sleep(LEAST_ATTEMPT) => {}
            }
        }
    }

    /// How long one attempt to dial a lane again may take, which took so long to join at first, if it did.
    ///
    /// TCP repeats a lost SYN after 1 s, and then after ever longer: a new attempt is no later. But a path takes as long as it takes.
    fn longest_attempt(&self, first: Option<Duration>) -> Duration {
        let longest = self.options.handshake_timeout.max(LEAST_ATTEMPT);
        first.map_or(longest, |first| (LEAST_ATTEMPT + 2 * first).min(longest))
    }

    /// Tries to join until it works; `None` where the other end does not have the stream any more.
    async fn join_again(&self, path: Path, shared: &Arc<Shared>, longest: Duration) -> Option<LaneDriver> {
        let mut backoff = Backoff::default();
        loop {
            sleep(backoff.next()).await;
            let attempt = timeout(longest, self.join(path)).await.unwrap_or(Err(JoinError::Timeout));
            match attempt {
                Ok((lane, _)) => return Some(lane),
                Err(error @ JoinError::Handshake(_)) => {
                    // It answers, but no longer knows this stream.
                    tracing::warn!(stream = %self.id, lane = path.index, remote = %path.remote, %error, "a lane cannot join again");
                    shared.with(|state| state.connection.give_up_waiting());
                    return None;
                }
                Err(JoinError::StreamOver) => return None,
                Err(error) => {
                    tracing::debug!(stream = %self.id, lane = path.index, remote = %path.remote, %error, "a lane is dialled again");
                }
            }
        }
    }

    /// Joins anew when the lane has been silent for a while: a connection that was cut off by a fault may take far longer to find out
    /// that the fault is over than a new one takes to be made.
    async fn join_instead(
        &self,
        path: Path,
        shared: &Arc<Shared>,
        lane: LaneId,
        longest: Duration,
    ) -> Option<LaneDriver> {
        let mut backoff = Backoff::default();
        loop {
            sleep(backoff.next()).await;
            if !shared.with(|state| state.connection.is_silent(lane)) {
                backoff = Backoff::default();
                continue;
            }
            let attempt = timeout(longest, self.join(path)).await;
            if let Ok(Ok((lane, _))) = attempt {
                return Some(lane);
            }
        }
    }

    /// Connects, and opens or joins the stream.
    async fn join(&self, path: Path) -> Result<(LaneDriver, Option<MultiRailStream>), JoinError> {
        let Path { index, rail, remote } = path;
        let begins = self.rails[rail].lane_options(&self.options.lane);
        let connection = self.options.connector.connect(&begins, remote).await?;
        let mut opened = self.opened.lock().await;
        if let Some(shared) = opened.clone() {
            drop(opened);
            let joined = self.shake_hands(&*connection, index, Purpose::Join, shared.joining.clone()).await?;
            let lane = LaneDriver::up(shared, index, rail, connection, joined.seals, &self.options);
            return Ok((lane.ok_or(JoinError::StreamOver)?, None));
        }
        let joined = self.shake_hands(&*connection, index, Purpose::Open, self.credentials.clone()).await?;
        let state = self.options.connection(joined.terms);
        let shared = Shared::new(self.id, state, self.rails.clone(), joined.joining);
        tokio::spawn(supervise(shared.clone(), self.options.linger));
        let stream = MultiRailStream::new(shared.clone());
        let lane = LaneDriver::up(shared.clone(), index, rail, connection, joined.seals, &self.options);
        *opened = Some(shared);
        Ok((lane.ok_or(JoinError::StreamOver)?, Some(stream)))
    }

    async fn shake_hands(
        &self,
        connection: &dyn Lane,
        lane: u16,
        purpose: Purpose,
        credentials: Credentials,
    ) -> Result<Joined, JoinError> {
        let hello = Hello {
            mode: credentials.mode(),
            purpose,
            stream: self.id,
            lane,
            lanes: self.lanes,
            terms: self.options.terms(),
            nonce: nonce()?,
        };
        let handshake = initiate(connection, credentials, hello);
        timeout(self.options.handshake_timeout, handshake).await.map_err(|_| JoinError::Timeout)?
    }
}

/// How long an attempt to dial a lane again may take on a path that takes no time.
const LEAST_ATTEMPT: Duration = Duration::from_secs(1);
