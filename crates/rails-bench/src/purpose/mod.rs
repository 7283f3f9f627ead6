//! The purpose of a stream: the commands at its two ends exchange it first, so that a command
//! connected to the wrong one ends with a message, instead of waiting or misreading another
//! protocol. `docs/greeting.md` has the bytes.
//!
//! The end that listens takes streams one at a time. A stream whose turn has not come sends
//! nothing: a measurement begins with the turn, and a queue holds no more than greetings.

mod exchange;

use crate::exit::Help;
pub(crate) use exchange::{GreetingChannel, InMessages, await_turn, give_turn, greet};
use std::{fmt, io, time::Duration};

/// A command's use of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// `send`
    Send = b'S' as isize,
    /// `recv`
    Receive = b'R' as isize,
    /// `stream`
    Stream = b'M' as isize,
    /// `serve`
    Serve = b'C' as isize,
    /// `stream --ping`
    Ask = b'Q' as isize,
    /// `serve --ping`
    Answer = b'A' as isize,
}

/// The reason why the two ends of a stream do not fit.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GreetingError {
    /// The peer is another command of this program than the counterpart.
    #[error("the peer is `rails-bench {theirs}`, and this is `rails-bench {ours}`")]
    Purpose { ours: Purpose, theirs: Purpose },
    /// The peer speaks another version of this exchange.
    #[error("the peer speaks version {theirs} of rails-bench's greeting, this end version {VERSION}")]
    Version { theirs: u16 },
    /// The peer sent no greeting of this program.
    #[error("the peer is not rails-bench: it did not say the stream's purpose")]
    Foreign,
    /// The peer sent nothing for too long.
    #[error("the peer has not said the stream's purpose for {} s", PATIENCE.as_secs())]
    Silent,
    /// The stream carries no messages.
    #[error("the stream cannot carry messages")]
    Messages(#[source] io::Error),
    /// The stream failed before the peer sent its purpose.
    #[error("the stream ended before the peer said its purpose")]
    Cut(#[source] io::Error),
}

/// The peer of a stream that was greeted has gone before its turn.
#[derive(Debug, thiserror::Error)]
#[error("a peer went away while it waited")]
pub(crate) struct PeerLeft(#[source] io::Error);

impl Purpose {
    const ALL: [Self; 6] = [Self::Send, Self::Receive, Self::Stream, Self::Serve, Self::Ask, Self::Answer];

    /// The purpose that the peer must have.
    pub(crate) fn counterpart(self) -> Self {
        match self {
            Self::Send => Self::Receive,
            Self::Receive => Self::Send,
            Self::Stream => Self::Serve,
            Self::Serve => Self::Stream,
            Self::Ask => Self::Answer,
            Self::Answer => Self::Ask,
        }
    }

    fn greeting(self) -> Greeting {
        let [low, high] = VERSION.to_le_bytes();
        let mut greeting = [0; GREETING_LEN];
        greeting[..MAGIC.len()].copy_from_slice(MAGIC);
        greeting[MAGIC.len()..].copy_from_slice(&[low, high, self as u8]);
        greeting
    }

    /// Checks that the peer's greeting is that of the counterpart.
    fn check(self, heard: &Greeting) -> Result<(), GreetingError> {
        let (magic, rest) = heard.split_at(MAGIC.len());
        let theirs = u16::from_le_bytes([rest[0], rest[1]]);
        match Self::ALL.into_iter().find(|purpose| *purpose as u8 == rest[2]) {
            _ if magic != MAGIC => Err(GreetingError::Foreign),
            _ if theirs != VERSION => Err(GreetingError::Version { theirs }),
            Some(theirs) if theirs == self.counterpart() => Ok(()),
            Some(theirs) => Err(GreetingError::Purpose { ours: self, theirs }),
            None => Err(GreetingError::Foreign),
        }
    }
}

impl GreetingError {
    /// The error of a command, with a remedy for the user.
    pub(crate) fn helped(self, ours: Purpose) -> anyhow::Error {
        let counterpart = ours.counterpart();
        let help = match self {
            Self::Purpose { .. } => format!("`rails-bench {ours}` and `rails-bench {counterpart}` belong together"),
            _ => format!(
                "`rails-bench {ours}` and `rails-bench {counterpart}` belong together, of one version, and both with the same \
                 of --plain, --mptcp and --messages"
            ),
        };
        anyhow::Error::new(self).help(help)
    }
}

/// The command, as typed after the program's name.
impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Send => "send",
            Self::Receive => "recv",
            Self::Stream => "stream",
            Self::Serve => "serve",
            Self::Ask => "stream --ping",
            Self::Answer => "serve --ping",
        })
    }
}

/// For [`crate::fuzzing`]: any bytes heard are a greeting of the counterpart, or refused.
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz(bytes: &[u8]) {
    let Some(heard) = bytes.first_chunk() else { return };
    for ours in Purpose::ALL {
        assert_eq!(ours.check(heard).is_ok(), *heard == ours.counterpart().greeting());
    }
}

/// For [`crate::fuzzing`].
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz_seeds() -> Vec<Vec<u8>> {
    Purpose::ALL.iter().map(|purpose| purpose.greeting().to_vec()).collect()
}

/// The first bytes of each end.
type Greeting = [u8; GREETING_LEN];

const MAGIC: &[u8; 8] = b"BENCH-TO";
const VERSION: u16 = 1;
const GREETING_LEN: usize = 11;
/// The byte by which the listening end gives the stream its turn.
const TURN: u8 = b'T';
/// The time that the peer has to send the stream's purpose, which it sends at once, also while
/// busy.
const PATIENCE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_purpose_fits_its_counterpart_alone() {
        for ours in Purpose::ALL {
            for theirs in Purpose::ALL {
                let fits = ours.check(&theirs.greeting());
                match fits {
                    Ok(()) => assert_eq!(ours.counterpart(), theirs),
                    Err(GreetingError::Purpose { ours: said, theirs: heard }) => {
                        assert_eq!((said, heard), (ours, theirs))
                    }
                    Err(other) => panic!("{other}"),
                }
                assert_eq!(ours.counterpart().counterpart(), ours);
            }
        }
    }

    #[test]
    fn wrong_greetings_by_their_fault() {
        let check = |bytes: &Greeting| Purpose::Receive.check(bytes);
        assert!(check(b"BENCH-TO\x01\x00S").is_ok());
        assert!(matches!(check(b"BENCH-TO\x02\x01S"), Err(GreetingError::Version { theirs: 0x102 })));
        assert!(matches!(check(b"BENCH-TO\x01\x00x"), Err(GreetingError::Foreign)));
        assert!(matches!(check(b"RAILS-FT\x01\x00S"), Err(GreetingError::Foreign)), "a transfer without one");
        assert!(matches!(check(b"GET / HTTP/"), Err(GreetingError::Foreign)));
    }
}
