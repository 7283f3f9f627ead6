//! The outlook of another try, by the error that ended one.

use crate::{conversation::ConversationError, parting::Parting};
use rails_multirail::{
    Failure, HandshakeError, OpenError, PlanLanesError, ReadError, Refusal, SessionError, StreamError, WriteError,
    error::JoinError,
};
use rails_proto::wire::ResetReason;
use rails_transfer::{SendError, WireError};
use std::{error::Error, io};

/// The outlook of another try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outlook {
    /// Another try fails in the same way.
    Final,
    /// Another try may succeed if the peer was there before: nobody answers now.
    Absent,
    /// Another try may succeed: a peer that was there has gone.
    Cut,
}

/// The outlook after an error. An unknown error is final.
pub(super) fn of(error: &anyhow::Error) -> Outlook {
    error.chain().find_map(of_cause).unwrap_or(Outlook::Final)
}

fn of_cause(cause: &(dyn Error + 'static)) -> Option<Outlook> {
    if let Some(error) = cause.downcast_ref::<io::Error>() {
        // An `io::Error` passes its inner error over in a chain.
        return of_cause(error.get_ref()?);
    }
    if let Some(error) = cause.downcast_ref::<SendError>() {
        return Some(match error {
            SendError::Wire(error) => of_wire(error),
            _ => Outlook::Final,
        });
    }
    if let Some(error) = cause.downcast_ref::<ConversationError>() {
        return Some(match error {
            ConversationError::Cut(source) => of_io(source),
            ConversationError::Silent(_) => Outlook::Absent,
            _ => Outlook::Final,
        });
    }
    match cause.downcast_ref::<OpenError>() {
        Some(OpenError::AllFailed { lanes }) => return Some(of_joins(lanes.iter().map(|lane| &lane.error))),
        Some(_) => return Some(Outlook::Final),
        None => {}
    }
    match cause.downcast_ref::<PlanLanesError>() {
        Some(PlanLanesError::Discover { contacts }) => return Some(of_joins(contacts.iter().map(|(_, error)| error))),
        Some(_) => return Some(Outlook::Final),
        None => {}
    }
    let session = match (cause.downcast_ref(), cause.downcast_ref()) {
        (Some(WriteError::SessionLost(session)), _) | (_, Some(ReadError::SessionLost(session))) => session,
        // The receiver has ended a stream of a session that holds.
        (Some(_), _) | (_, Some(_)) => return Some(Outlook::Final),
        _ => cause.downcast_ref()?,
    };
    Some(of_session(session))
}

fn of_session(error: &SessionError) -> Outlook {
    match error {
        SessionError::ClosedByPeer { code, .. } => match Parting::from_code(*code) {
            Some(Parting::Interrupted | Parting::GaveWay | Parting::Silent) => Outlook::Cut,
            // Another peer may take callers there later.
            Some(Parting::Over | Parting::Done) => Outlook::Absent,
            Some(Parting::Refused | Parting::Failed) | None => Outlook::Final,
        },
        SessionError::Failed(StreamError { failure, .. }) => match failure {
            _ if failure.suggests_large_packets_lost() => Outlook::Final,
            Failure::LanesLost { .. } | Failure::Reset(ResetReason::Dropped) | Failure::Stopped { .. } => Outlook::Cut,
            _ => Outlook::Final,
        },
        _ => Outlook::Final,
    }
}

fn of_wire(error: &WireError) -> Outlook {
    match error {
        WireError::Io { source, .. } | WireError::Carrier { source, .. } => of_io(source),
        WireError::Cut => Outlook::Cut,
        _ => Outlook::Final,
    }
}

/// The outlook after an error of a stream. One without a session's failure is the stream's end.
fn of_io(error: &io::Error) -> Outlook {
    of_cause(error).unwrap_or(Outlook::Cut)
}

/// The outlook where no lane came up: one that can never come up is no absence.
fn of_joins<'a>(mut errors: impl Iterator<Item = &'a JoinError>) -> Outlook {
    if errors.any(is_permanent) { Outlook::Final } else { Outlook::Absent }
}

fn is_permanent(error: &JoinError) -> bool {
    match error {
        // Others leave.
        JoinError::Handshake(HandshakeError::Refused(Refusal::Full(_))) => false,
        JoinError::Handshake(error) => error.is_permanent(),
        JoinError::Connect(_) | JoinError::Io(_) | JoinError::Timeout | JoinError::StreamOver => false,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{exit::Help, stop::Stopped};
    use anyhow::{Context, anyhow};
    use rails_cli::exit::Signal;
    use rails_multirail::{Limit, RailId, StreamId, error::FailedLane};
    use rails_net::{ConnectError, LocalEnd};
    use rails_transfer::Reason;
    use std::{net::SocketAddr, path::PathBuf, sync::Arc};

    fn remote() -> SocketAddr {
        ([127, 0, 0, 1], 1).into()
    }

    fn refused() -> JoinError {
        let source = io::ErrorKind::ConnectionRefused.into();
        ConnectError::Refused { remote: remote(), local: LocalEnd::Any, source }.into()
    }

    /// The error of a call whose lanes failed so.
    fn unopened(errors: Vec<JoinError>) -> anyhow::Error {
        let lane = |error| Arc::new(FailedLane { rail: RailId(0), remote: remote().into(), error });
        anyhow!(OpenError::AllFailed { lanes: errors.into_iter().map(lane).collect() }).context("--to")
    }

    /// The error of a batch whose control stream and further streams failed so.
    fn unsent(source: io::Error) -> anyhow::Error {
        let error = Err::<(), _>(SendError::from(WireError::Io { doing: "reading", source }));
        error.context("the batch was not sent").unwrap_err()
    }

    fn closed(parting: Parting) -> SessionError {
        SessionError::ClosedByPeer { code: parting as u64, reason: "for once".into() }
    }

    fn failed(failure: Failure) -> SessionError {
        SessionError::Failed(StreamError { stream: StreamId([0; 16]), failure, lanes: Vec::new() })
    }

    #[test]
    fn peers_that_have_gone() {
        let lost = Failure::LanesLost { unacknowledged: 1, delivered: 2, joined_in_vain: 0 };
        for session in [
            closed(Parting::Interrupted),
            closed(Parting::GaveWay),
            closed(Parting::Silent),
            failed(lost),
            failed(Failure::Reset(ResetReason::Dropped)),
        ] {
            assert_eq!(of(&unsent(ReadError::from(session.clone()).into())), Outlook::Cut, "{session}");
            assert_eq!(of(&unsent(WriteError::from(session.clone()).into())), Outlook::Cut, "{session}");
            let waiting = anyhow!(ConversationError::Cut(session.clone().into())).context("--to");
            assert_eq!(of(&waiting), Outlook::Cut, "{session}");
        }
        assert_eq!(of(&unsent(io::ErrorKind::UnexpectedEof.into())), Outlook::Cut);
        assert_eq!(of(&SendError::from(WireError::Cut).into()), Outlook::Cut);
    }

    #[test]
    fn peers_that_are_absent() {
        let full = || HandshakeError::Refused(Refusal::Full(Limit::Streams)).into();
        for error in [
            unopened(vec![refused()]),
            unopened(vec![JoinError::Timeout, full()]).help("start it"),
            anyhow!(PlanLanesError::Discover { contacts: vec![(remote().into(), refused())] }).context("--to"),
            ConversationError::Silent(10).helped().context("--to"),
            anyhow!(ConversationError::Cut(closed(Parting::Over).into())),
        ] {
            assert_eq!(of(&error), Outlook::Absent, "{error:#}");
        }
    }

    #[test]
    fn failures_that_waiting_does_not_mend() {
        let secret = || HandshakeError::Refused(Refusal::Secret).into();
        let role = crate::conversation::Role::Serve;
        let large_packets_lost = Failure::LanesLost { unacknowledged: 4000, delivered: 0, joined_in_vain: 2 };
        for error in [
            unopened(vec![secret()]),
            unopened(vec![refused(), secret()]).help("give both ends the same secret"),
            unopened(vec![HandshakeError::Version { theirs: 1 }.into()]),
            ConversationError::Callee { request: "send".to_owned(), role }.helped().context("--to"),
            ConversationError::Version(1).helped().context("--to"),
            ConversationError::Refused(Reason::new("no")).helped().context("--to"),
            anyhow!(SendError::Refused(Reason::new("no"))).context("the batch was not sent"),
            anyhow!(SendError::Special { path: PathBuf::from("x") }).context("the batch was not sent"),
            SendError::from(WireError::Foreign).into(),
            unsent(ReadError::from(closed(Parting::Failed)).into()),
            unsent(ReadError::from(closed(Parting::Refused)).into()),
            unsent(ReadError::Reset(0).into()),
            unsent(ReadError::from(failed(large_packets_lost)).into()),
            unsent(ReadError::from(failed(Failure::Reset(ResetReason::Violation))).into()),
            Stopped(Signal::Interrupt).into(),
            anyhow!("the disk is full"),
        ] {
            assert_eq!(of(&error), Outlook::Final, "{error:#}");
        }
    }
}
