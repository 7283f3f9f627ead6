//! Opening a stream: one lane per rail, the first to get through opens it, the others join.

use super::{
    Dialing, MultiRailStream,
    dialer::{Dialer, Path, Report},
    join::random,
};
use crate::{
    OpenError, RailId, StreamOptions,
    proto::{connection::Connection, handshake::StreamId},
    rails::Rails,
};
use std::{net::SocketAddr, sync::Arc};
use tokio::{
    sync::{Mutex, mpsc},
    time::{Instant, timeout_at},
};

/// Opens a stream with these lanes; see [`MultiRailStream::connect`].
pub(super) async fn connect(
    rails: &Rails,
    lanes: &[(RailId, SocketAddr)],
    options: &StreamOptions,
) -> Result<MultiRailStream, OpenError> {
    let count = lanes.len() * options.parallel;
    if count == 0 {
        return Err(OpenError::NoLanes("no rail of one end could be paired with one of the other"));
    }
    if lanes.iter().any(|(rail, _)| rail.0 >= rails.len()) {
        return Err(OpenError::NoLanes("the pairing was made for other rails: it names one that is not there"));
    }
    if count > Connection::MOST_LANES {
        return Err(OpenError::NoLanes("more lanes than a stream may have (64)"));
    }
    let credentials = options.security.initiator().ok_or(OpenError::Security)?;
    let id = StreamId(random().map_err(OpenError::Random)?);
    let dialer = Arc::new(Dialer {
        id,
        lanes: count as u16,
        rails: rails.clone(),
        options: options.clone(),
        credentials,
        opened: Mutex::new(None),
    });
    let (report, mut reports) = mpsc::channel(count);
    for (index, (rail, remote)) in lanes.iter().copied().cycle().take(count).enumerate() {
        dialer.start(Path { index: index as u16, rail, remote }, report.clone());
    }
    drop(report);

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
            stream.dialing = Some(Dialing { dialer, next: count as u16, late: vec![reports] });
            Ok(stream)
        }
        None => Err(OpenError::AllFailed { lanes: failed }),
    }
}
