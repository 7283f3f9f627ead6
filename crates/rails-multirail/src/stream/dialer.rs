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
use futures_util::{StreamExt, stream::FuturesUnordered};
use rails_net::{ConnectError, Lane};
use std::{net::SocketAddr, pin::pin, sync::Arc, time::Duration};
use tokio::{
    sync::{Mutex, mpsc},
    time::{Instant, error::Elapsed, sleep, timeout},
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
        let joined = tokio::select! {
            joined = self.join_first(path) => joined,
            () = report.closed() => return,
        };
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
                    joined = self.join_again(path, &shared) => joined,
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
                joined = self.join_instead(path, &shared, id) => {
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
                () = sleep(Backoff::LONGEST) => {}
            }
        }
    }

    /// Dials until the lane has joined; `None` where the other end does not have the stream any more.
    async fn join_again(&self, path: Path, shared: &Arc<Shared>) -> Option<LaneDriver> {
        match self.dial(path, shared, || true).await {
            Ok(lane) => Some(lane),
            Err(JoinError::StreamOver) => None,
            Err(error) => {
                // It answers, but no longer knows this stream.
                tracing::warn!(stream = %self.id, lane = path.index, remote = %path.remote, %error, "a lane cannot join again");
                shared.with(|state| state.connection.give_up_waiting());
                None
            }
        }
    }

    /// Joins anew while the lane is silent: a connection that was cut off by a fault may take far longer to find out that the fault is over
    /// than a new one takes to be made. `None` where the other end does not let it.
    async fn join_instead(&self, path: Path, shared: &Arc<Shared>, lane: LaneId) -> Option<LaneDriver> {
        self.dial(path, shared, || shared.with(|state| state.connection.is_silent(lane))).await.ok()
    }

    /// Dials while it is wanted, until the lane has joined: a new connection after each wait, and at once when a link has come up. Those that are on their way
    /// go on meanwhile, for TCP repeats a lost SYN after a second, and paths of such a round trip exist.
    ///
    /// # Errors
    /// [`JoinError::Handshake`] and [`JoinError::StreamOver`], which another attempt would not mend.
    async fn dial(
        &self,
        path: Path,
        shared: &Arc<Shared>,
        is_wanted: impl Fn() -> bool,
    ) -> Result<LaneDriver, JoinError> {
        let begins = self.rails[path.rail].lane_options(&self.options.lane);
        let mut links = shared.links_came_up.subscribe();
        let mut backoff = Backoff::default();
        let mut next = pin!(sleep(backoff.next()));
        let mut connecting = FuturesUnordered::new();
        loop {
            let failed = tokio::select! {
                Some(connected) = connecting.next() => match self.join_by(path, connected).await {
                    Ok((lane, _)) => return Ok(lane),
                    Err(error @ (JoinError::Handshake(_) | JoinError::StreamOver)) => return Err(error),
                    Err(error) => error,
                },
                () = &mut next => {
                    if is_wanted() {
                        connecting.push(timeout(LONGEST_ATTEMPT, self.options.connector.connect(&begins, path.remote)));
                    } else {
                        connecting.clear();
                        backoff = Backoff::default();
                    }
                    next.as_mut().reset(Instant::now() + backoff.next());
                    continue;
                }
                // The channel lives as long as `shared`, so waiting for it cannot fail.
                _ = links.changed() => {
                    backoff = Backoff::default();
                    next.as_mut().reset(Instant::now());
                    continue;
                }
            };
            tracing::debug!(stream = %self.id, lane = path.index, remote = %path.remote, error = %failed, "a lane is dialled again");
        }
    }

    /// Joins by a connection, if it was made in time, and in time.
    async fn join_by(
        &self,
        path: Path,
        connected: Result<Result<Arc<dyn Lane>, ConnectError>, Elapsed>,
    ) -> Result<(LaneDriver, Option<MultiRailStream>), JoinError> {
        let connection = connected.map_err(|_| JoinError::Timeout)??;
        timeout(LONGEST_ATTEMPT, self.join(path, connection)).await.unwrap_or(Err(JoinError::Timeout))
    }

    /// Connects and joins for the first time.
    async fn join_first(&self, path: Path) -> Result<(LaneDriver, Option<MultiRailStream>), JoinError> {
        let begins = self.rails[path.rail].lane_options(&self.options.lane);
        let connection = self.options.connector.connect(&begins, path.remote).await?;
        self.join(path, connection).await
    }

    /// Opens or joins the stream.
    async fn join(
        &self,
        path: Path,
        connection: Arc<dyn Lane>,
    ) -> Result<(LaneDriver, Option<MultiRailStream>), JoinError> {
        let Path { index, rail, .. } = path;
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

/// How long a connection that is dialled again may take to be made, and then to join. Others are begun meanwhile, so that it is long enough for paths
/// whose round trip is most of a second.
const LONGEST_ATTEMPT: Duration = Duration::from_secs(2);
