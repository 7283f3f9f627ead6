//! Opening a stream with one lane per rail: the first lane to connect opens it, and the others join.

use super::{
    Dialing, MultiRailStream,
    dialer::{Dialer, News, Path, Report},
};
use crate::{OpenError, RailId, StreamOptions, error::JoinError, rails::Rails};
use rails_proto::{LaneAddress, parameters::MOST_LANES};
use std::collections::BTreeSet;
use tokio::{
    sync::mpsc,
    time::{Instant, timeout_at},
};

/// Opens a stream with these lanes; see [`MultiRailStream::connect`].
pub(super) async fn connect(
    rails: &Rails,
    lanes: &[(RailId, LaneAddress)],
    options: &StreamOptions,
) -> Result<MultiRailStream, OpenError> {
    options.validate()?;
    let count = lanes.len() * options.parallel;
    if count == 0 {
        return Err(OpenError::Unpaired);
    }
    if let Some((rail, _)) = lanes.iter().find(|(rail, _)| rail.0 >= rails.len()) {
        return Err(OpenError::NoSuchRail(*rail));
    }
    if count > MOST_LANES {
        return Err(OpenError::TooManyLanes(count));
    }
    for (_, remote) in lanes {
        options.transport_of(remote.scheme)?;
    }
    let credentials = options.security.initiator().ok_or(OpenError::Security)?;
    let dialer = Dialer::new(count as u16, rails, options, credentials);
    let paths: Vec<Path> = (0u16..)
        .zip(lanes.iter().copied().cycle().take(count))
        .map(|(index, (rail, remote))| Path { index, rail, remote })
        .collect();
    let (report, mut reports) = mpsc::channel(count);
    paths.iter().for_each(|path| dialer.start(*path, report.clone()));
    drop(report);

    let mut stream = None;
    let mut awaited: BTreeSet<u16> = paths.iter().map(|path| path.index).collect();
    let mut deadline = Instant::now() + options.connect_timeout;
    loop {
        // If the stream is open, the lane that opened it is about to report it.
        let is_coming = stream.is_none() && dialer.is_open();
        if awaited.is_empty() && !is_coming {
            break;
        }
        let report = match timeout_at(deadline, reports.recv()).await {
            Err(_) if is_coming || stream.is_none() && dialer.is_open() => reports.recv().await,
            in_time => in_time.ok().flatten(),
        };
        // `None` if every lane that is left has lost its rail, or takes too long: if there is a stream, the lane joins
        // later.
        let Some(Report { lane, news }) = report else { break };
        awaited.remove(&lane);
        if let News::Opened(opened) = news {
            stream = Some(opened);
            deadline = Instant::now() + options.join_grace;
        }
    }
    match stream {
        Some(mut stream) => {
            let failed = dialer.failed_lanes();
            failed.iter().for_each(|lane| tracing::warn!(stream = %stream.id(), "lane did not come up: {lane}"));
            stream.shared.log_opened(stream.lanes_up());
            rails.warn_of_unbound();
            stream.dialing = Some(Dialing { dialer, next: count as u16 });
            Ok(stream)
        }
        None => {
            // The task of a lane without a stream holds its report until its rail stops.
            let error = || if reports.is_closed() { JoinError::RailStopped } else { JoinError::Timeout };
            Err(OpenError::AllFailed { lanes: dialer.unanswered(&paths, error) })
        }
    }
}
