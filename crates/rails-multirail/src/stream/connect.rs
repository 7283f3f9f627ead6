//! Opening a stream with one lane per rail: the first lane to connect opens it, and the others
//! join.

use super::{
    Dialing, MultiRailStream,
    dialer::{Dialer, LaneOutcome, LaneReport, Opening, Path},
};
use crate::{
    EndpointError, OpenError, StreamOptions, ToLaneAddresses, addresses,
    error::{FailedLane, JoinError},
    rails::Rails,
};
use rails_proto::{
    LaneAddress,
    opening::{AwaitedLanes, DialSchedule, DialStep},
    pairing::{self, Pair, Pairing},
    parameters::MAX_LANES,
};
use std::sync::{Arc, Mutex};
use tokio::{
    sync::mpsc,
    time::{Instant, timeout_at},
};

/// The pairs of `rails` with these addresses, in order; see [`MultiRailStream::connect`].
pub(super) async fn pair_in_order(
    rails: &Rails,
    remotes: impl ToLaneAddresses,
    options: &StreamOptions,
) -> Result<Pairing, EndpointError> {
    let mut names = addresses::resolve(remotes).await?;
    if rails.is_empty() {
        return Err(EndpointError::NoRails);
    }
    let max = MAX_LANES / options.parallel.max(1);
    let left_out = pairing::limit_names(&mut names, max);
    if left_out > 0 {
        tracing::info!(left_out, max, "names have more addresses than a stream has lanes");
    }
    let first = names.iter().flatten().next().ok_or(EndpointError::NoAddresses)?;
    Ok(pairing::in_order_by_name(&rails.offers(first.scheme), &names))
}

/// Opens a stream or a session with these lanes; see [`MultiRailStream::connect`]. With first
/// messages a stream carries messages
/// ([`MultiRailMessages::connect_paired`](super::MultiRailMessages)).
pub(super) async fn connect(
    rails: &Rails,
    lanes: &[Pair],
    options: &StreamOptions,
    opening: Opening,
) -> Result<MultiRailStream, OpenError> {
    options.validate().map_err(EndpointError::from)?;
    let count = lanes.len() * options.parallel;
    if count == 0 {
        return Err(OpenError::Unpaired);
    }
    if let Some(pair) = lanes.iter().find(|pair| pair.ours.rail.0 >= rails.len()) {
        return Err(OpenError::NoSuchRail(pair.ours.rail));
    }
    if count > MAX_LANES {
        return Err(OpenError::TooManyLanes(count));
    }
    for pair in lanes {
        options.transport_of(pair.theirs.address.scheme).map_err(EndpointError::from)?;
    }
    let credentials = options.security.initiator().ok_or(EndpointError::ServerSecurity)?;
    let dialer = Dialer::new(count as u16, rails, options, credentials, opening);
    let paths: Vec<Path> = (0u16..)
        .zip(lanes.iter().cycle().take(count))
        .map(|(index, pair)| Path { index, rail: pair.ours.rail, remote: pair.theirs.address })
        .collect();
    let is_further = || lanes.iter().cycle().take(count).map(|pair| pair.is_further);
    let (mut schedule, mut awaited) = (DialSchedule::new(is_further()), AwaitedLanes::new(is_further()));
    let (report, mut reports) = mpsc::channel(count);
    // The sender is dropped when every lane has begun, so that the last report of all is known.
    let mut report = Some(report);

    let mut stream = None;
    let begun = Instant::now();
    let mut opened_at = None;
    loop {
        // If the stream is open, the lane that opened it is about to report it.
        let is_coming = stream.is_none() && dialer.is_open();
        if awaited.lanes().is_empty() && !is_coming {
            break;
        }
        let deadline = match opened_at {
            Some(opened) => opened + awaited.grace(options.join_grace),
            None => begun + options.connect_timeout,
        };
        let mut until = deadline;
        while let Some(beginning) = &report {
            match schedule.next(Instant::now().into_std(), dialer.is_open()) {
                DialStep::Dial(lane) => dialer.start(paths[lane], beginning.clone()),
                DialStep::Wait(next) => {
                    until = deadline.min(next.into());
                    break;
                }
                DialStep::Done => report = None,
            }
        }
        let outcome = match timeout_at(until, reports.recv()).await {
            // Another lane begins.
            Err(_) if until < deadline => continue,
            Err(_) if is_coming || stream.is_none() && dialer.is_open() => reports.recv().await,
            in_time => in_time.ok().flatten(),
        };
        // `None` if every lane that is left has lost its rail, or takes too long: if there is a stream, the
        // lane joins later.
        let Some(LaneReport { lane, outcome }) = outcome else { break };
        let lane = usize::from(lane);
        match outcome {
            LaneOutcome::Opened(opened) => {
                (stream, opened_at) = (Some(opened), Some(Instant::now()));
                awaited.up(lane);
            }
            LaneOutcome::Joined => awaited.up(lane),
            LaneOutcome::Failed => {
                awaited.failed(lane);
                schedule.failed(lane);
            }
        }
    }
    match stream {
        Some(mut stream) => {
            let failed = dialer.failed_lanes();
            for lane in &failed {
                // A name is reached all the same.
                if has_another_address(lanes, &failed, lane.remote) {
                    tracing::info!(stream = %stream.id(), "an address of a name does not answer: {lane}");
                } else {
                    tracing::warn!(stream = %stream.id(), "lane did not come up: {lane}");
                }
            }
            let is_told = |path: &Path| failed.iter().any(|lane| (lane.rail, lane.remote) == (path.rail, path.remote));
            for path in awaited.lanes().iter().map(|lane| paths[*lane]).filter(|path| !is_told(path)) {
                let Path { index, rail, remote } = path;
                let stream = stream.id();
                tracing::info!(%stream, lane = index, %rail, %remote, "a lane is not up yet, and is dialled on");
            }
            stream.shared.log_opened(stream.lanes_up());
            rails.warn_of_unbound();
            stream.dialing = Some(Dialing { dialer, next: Mutex::new(count as u16) });
            Ok(stream)
        }
        None => {
            // The task of a lane without a stream holds its report until its rail stops.
            let error = || if reports.is_closed() { JoinError::RailStopped } else { JoinError::Timeout };
            Err(OpenError::AllFailed { lanes: dialer.unanswered(&paths, error) })
        }
    }
}

/// Whether a name with that address has one whose lane has not failed.
fn has_another_address(lanes: &[Pair], failed: &[Arc<FailedLane>], remote: LaneAddress) -> bool {
    let has_failed = |pair: &Pair| failed.iter().any(|lane| lane.remote == pair.theirs.address);
    let mut names = lanes.chunk_by(|_, next| next.is_further);
    names.any(|name| name.iter().any(|pair| pair.theirs.address == remote) && !name.iter().all(has_failed))
}
