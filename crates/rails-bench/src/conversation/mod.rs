//! The conversation of two commands. The end that calls opens a session, and says on its first
//! stream what it wants; the end that listens does that, or says why it does not. So the flags of a
//! measurement are the caller's alone, and a command that calls the wrong one ends with a message.
//! `docs/conversation.md` has the words.

mod call;
mod claims;
mod control;
mod host;

use crate::measure::Amount;
pub(crate) use call::Call;
pub(crate) use claims::{Claims, Token};
pub(crate) use control::{Control, ConversationError};
#[cfg(feature = "fuzzing")]
pub(crate) use control::{fuzz, fuzz_seeds};
pub(crate) use host::{Guest, Host, Terms};
use rails_multirail::MAX_LANES;
use serde::{Deserialize, Serialize};
use std::{fmt, time::Duration};

/// The wish of the end that calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Request {
    /// `send`: take a batch of files. A sender that begins a batch again names it as before.
    Files { batch: Token },
    /// `stream`: count the bytes that come, or send some.
    Count { over: Carrier, watch: Watch, direction: Direction },
    /// `stream --ping`: send messages back.
    Echo { over: Carrier },
    /// `probe`: take what a probe of the path sends.
    Probe,
}

/// The carrier of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Carrier {
    /// A stream of the session.
    Stream,
    /// The messages of a stream beside the session.
    Messages,
    /// Plain TCP flows, this many.
    Plain { flows: u16 },
    /// One socket of the kernel's MPTCP.
    Mptcp,
}

/// The direction of a measurement's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Direction {
    /// To the end that listens.
    ToPeer,
    /// From the end that listens, which sends that much.
    FromPeer(Share),
    /// Both ways at a time.
    Both(Share),
}

/// The amount that an end sends for its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Share {
    /// So many bytes.
    Bytes(u64),
    /// Bytes for so long.
    Microseconds(u64),
}

/// Work of a receiver besides counting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Watch {
    /// The receiver records the bytes of each interval of this length, in microseconds.
    pub(crate) interval_us: Option<u64>,
    /// The receiver compares every byte with the one that was sent there.
    pub(crate) check: bool,
}

/// The answer of the end that listens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reply {
    /// As many callers are served as may be; the next answer comes later.
    Busy,
    /// The caller has to open something that is no stream of the session, and shows this there.
    Open(Door),
    /// The caller begins.
    Begin,
    /// The caller wants something of another command.
    Misfit(Role),
    /// The end that listens does not do it.
    Refused(String),
}

/// The place of flows that belong to a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Door {
    /// The port at each address that the caller has called; `None` if the caller opens a stream as
    /// it has opened the session.
    pub(crate) port: Option<u16>,
    /// The token that each flow shows first.
    pub(crate) token: Token,
}

/// A command that listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    /// `recv`
    Receive,
    /// `serve`
    Serve,
}

impl Request {
    /// The bounds that a request is beyond.
    fn unfit(&self) -> Option<&'static str> {
        match self {
            Self::Count { watch, .. } if !watch.is_fit() => Some("an interval is 1ms to 60s"),
            Self::Count { over, direction, .. } if *over != Carrier::Stream && *direction != Direction::ToPeer => {
                Some("flows go to the end that listens alone")
            }
            Self::Count { over: Carrier::Messages, .. } => Some("messages are for `stream --ping`"),
            Self::Count { over, .. } | Self::Echo { over } if !over.is_fit() => {
                Some("there are too many flows, or none")
            }
            _ => None,
        }
    }

    /// The command that does it.
    pub(crate) fn role(&self) -> Role {
        match self {
            Self::Files { .. } => Role::Receive,
            Self::Count { .. } | Self::Echo { .. } | Self::Probe => Role::Serve,
        }
    }
}

impl Direction {
    /// Whether the caller sends.
    pub(crate) fn goes_to_peer(self) -> bool {
        !matches!(self, Self::FromPeer(_))
    }

    /// Whether the end that listens sends.
    pub(crate) fn comes_from_peer(self) -> bool {
        self.share_of_peer().is_some()
    }

    /// The amount that the end that listens sends.
    pub(crate) fn share_of_peer(self) -> Option<Amount> {
        match self {
            Self::ToPeer => None,
            Self::FromPeer(share) | Self::Both(share) => Some(share.into()),
        }
    }
}

impl From<Share> for Amount {
    fn from(share: Share) -> Self {
        match share {
            Share::Bytes(bytes) => Self::Bytes(bytes),
            Share::Microseconds(time) => Self::Time(Duration::from_micros(time)),
        }
    }
}

impl From<Amount> for Share {
    fn from(amount: Amount) -> Self {
        match amount {
            Amount::Bytes(bytes) => Self::Bytes(bytes),
            Amount::Time(time) => Self::Microseconds(u64::try_from(time.as_micros()).unwrap_or(u64::MAX)),
        }
    }
}

impl Carrier {
    /// The number of flows beside the session.
    pub(crate) fn flows(self) -> usize {
        match self {
            Self::Stream => 0,
            Self::Messages | Self::Mptcp => 1,
            Self::Plain { flows } => flows.into(),
        }
    }

    /// Whether this end takes so many flows.
    fn is_fit(self) -> bool {
        self == Self::Stream || (1..=MAX_LANES).contains(&self.flows())
    }
}

impl Watch {
    /// The length of an interval.
    pub(crate) fn interval(self) -> Option<Duration> {
        self.interval_us.map(Duration::from_micros)
    }

    /// Whether a receiver records intervals of that length.
    fn is_fit(self) -> bool {
        self.interval().is_none_or(|interval| (MIN_INTERVAL..=MAX_INTERVAL).contains(&interval))
    }
}

/// The command that calls, as typed after the program's name.
impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Files { .. } => "send",
            Self::Count { .. } => "stream",
            Self::Echo { .. } => "stream --ping",
            Self::Probe => "probe",
        })
    }
}

/// The command, as typed after the program's name.
impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Receive => "recv",
            Self::Serve => "serve",
        })
    }
}

/// The time that an end has to say its first words, which it does at once, also while busy.
const PATIENCE: Duration = Duration::from_secs(10);
/// The shortest interval of a record.
const MIN_INTERVAL: Duration = Duration::from_millis(1);
/// The longest interval of a record.
const MAX_INTERVAL: Duration = Duration::from_secs(60);
