//! Opening a stream: one lane per rail, the first to get through opens it, the others join.

use super::{
    MultiRailStream,
    join::{initiate, nonce, random},
    lane::Lane,
    shared::Shared,
    stats::LaneRecord,
};
use crate::{
    OpenError, RailId, StreamOptions,
    error::{FailedLane, JoinError, LaneError},
    proto::{
        connection::Connection,
        handshake::{Credentials, Hello, Joined, Purpose, StreamId},
        seal::Seals,
    },
    rails::Rails,
};
use rails_net::TcpLane;
use std::{net::SocketAddr, sync::Arc};
use tokio::{
    sync::{Mutex, mpsc},
    time::{Instant, timeout, timeout_at},
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

/// What the lanes of one opening share.
struct Opening {
    id: StreamId,
    lanes: u16,
    rails: Rails,
    options: StreamOptions,
    /// What the lane that opens the stream brings.
    credentials: Credentials,
    /// The stream, once a lane has opened it. Held while a lane tries to.
    opened: Mutex<Option<Arc<Shared>>>,
}

/// Opens a stream with one lane from each rail; see [`MultiRailStream::connect`].
pub(super) async fn connect(
    rails: &Rails,
    remotes: &[SocketAddr],
    options: &StreamOptions,
) -> Result<MultiRailStream, OpenError> {
    if rails.is_empty() || remotes.is_empty() {
        let missing = if rails.is_empty() { "no rails to connect from" } else { "no addresses to connect to" };
        return Err(OpenError::NoLanes(missing));
    }
    let count = rails.len().max(remotes.len());
    if count > Connection::MOST_LANES {
        return Err(OpenError::NoLanes("more lanes than a stream may have (64)"));
    }
    let credentials = options.security.initiator().ok_or(OpenError::Security)?;
    let id = StreamId(random().map_err(OpenError::Random)?);
    let opening = Arc::new(Opening {
        id,
        lanes: count as u16,
        rails: rails.clone(),
        options: options.clone(),
        credentials,
        opened: Mutex::new(None),
    });
    let (report, mut reports) = mpsc::channel(count);
    for index in 0..count {
        let rail = RailId(index % rails.len());
        let remote = remotes[index % remotes.len()];
        let (opening, report) = (opening.clone(), report.clone());
        // The task reports for itself, so its handle is not needed.
        let home = rails[options.driver.home(rail)].runtime();
        drop(home.spawn(move || opening.bring_up(index as u16, rail, remote, report)));
    }
    drop(report);
    drop(opening);

    let mut stream = None;
    let mut failed = Vec::new();
    let mut heard = 0;
    let mut grace: Option<Instant> = None;
    while heard < count {
        let next = match grace {
            Some(deadline) => timeout_at(deadline, reports.recv()).await,
            None => Ok(reports.recv().await),
        };
        match next {
            Ok(Some(Report::Opened(opened))) => stream = Some(opened),
            Ok(Some(Report::Joined)) => {}
            Ok(Some(Report::Failed(lane))) => failed.push(lane),
            // Every lane that is left has lost its rail, or the rest take too long and will join later.
            Ok(None) | Err(_) => break,
        }
        heard += 1;
        if stream.is_some() {
            grace.get_or_insert_with(|| Instant::now() + options.join_grace);
        }
    }
    match stream {
        Some(mut stream) => {
            failed.iter().for_each(|lane| tracing::warn!(stream = %id, "lane did not come up: {lane}"));
            stream.failed = failed;
            // Lanes that are still on their way give up when nobody listens any more.
            stream.late = Some(reports);
            Ok(stream)
        }
        None => Err(OpenError::AllFailed { lanes: failed }),
    }
}

impl Opening {
    /// Brings one lane up and drives it to its end. Runs where the lane is driven ([`Driver`](super::Driver)).
    async fn bring_up(self: Arc<Self>, index: u16, rail: RailId, remote: SocketAddr, report: mpsc::Sender<Report>) {
        let joined = tokio::select! {
            joined = self.join(index, rail, remote) => joined,
            () = report.closed() => return,
        };
        match joined {
            Ok((lane, stream)) => {
                let said = stream.map_or(Report::Joined, Report::Opened);
                // Whoever opened the stream may be gone; then the stream is dropped with the report, and the lane sees it.
                let _ = report.send(said).await;
                drop((self, report));
                lane.run().await;
            }
            Err(error) => {
                let _ = report.send(Report::Failed(FailedLane { rail, remote, error })).await;
            }
        }
    }

    /// Connects, and opens or joins the stream.
    async fn join(
        &self,
        index: u16,
        rail: RailId,
        remote: SocketAddr,
    ) -> Result<(Lane, Option<MultiRailStream>), JoinError> {
        let socket = self.rails[rail].lane_options(&self.options.lane).connect(remote).await?;
        let mut opened = self.opened.lock().await;
        if let Some(shared) = opened.clone() {
            drop(opened);
            let joined = self.shake_hands(&socket, index, Purpose::Join, shared.joining.clone()).await?;
            return Ok((self.lane(shared, index, rail, socket, joined.seals)?, None));
        }
        let joined = self.shake_hands(&socket, index, Purpose::Open, self.credentials.clone()).await?;
        let connection = self.options.connection(joined.terms);
        let shared = Shared::new(self.id, connection, self.rails.clone(), joined.joining);
        let stream = MultiRailStream::new(shared.clone());
        let lane = self.lane(shared.clone(), index, rail, socket, joined.seals)?;
        *opened = Some(shared);
        Ok((lane, Some(stream)))
    }

    async fn shake_hands(
        &self,
        socket: &TcpLane,
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
        let handshake = initiate(socket.get_ref(), credentials, hello);
        timeout(self.options.handshake_timeout, handshake).await.map_err(|_| JoinError::Timeout)?
    }

    fn lane(
        &self,
        shared: Arc<Shared>,
        index: u16,
        rail: RailId,
        socket: TcpLane,
        seals: Option<Seals>,
    ) -> Result<Lane, JoinError> {
        Lane::up(shared, index, rail, socket, seals, &self.options).ok_or(JoinError::StreamOver)
    }
}

impl Lane {
    /// A lane whose handshake is done, added to its stream; `None` where the stream takes no more.
    pub(super) fn up(
        shared: Arc<Shared>,
        index: u16,
        rail: RailId,
        socket: TcpLane,
        seals: Option<Seals>,
        options: &StreamOptions,
    ) -> Option<Self> {
        let socket = Arc::new(socket);
        let record = LaneRecord::new(index, rail, socket.clone());
        let (id, notify) = shared.lane_up(&record)?;
        Some(Self {
            shared,
            id,
            record,
            notify,
            socket,
            seals,
            longest_chunk: options.longest_chunk,
            window: options.window,
            linger: options.linger,
            end: Err(LaneError::RailStopped),
        })
    }
}
