//! Round trips of messages: one end sends a message and waits for it to come back, over any ordered
//! stream, or over a stream's interface for messages.

use crate::turn::Waits;
use bytes::Bytes;
use rails_multirail::{MultiRailMessages, Priority};
use serde::{Deserialize, Serialize};
use std::{io, time::Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The report of `stream --ping`.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Report {
    /// The figures of each size.
    pub(crate) round_trips: Vec<RoundTrips>,
}

/// The times of round trips of messages of one size, in microseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct RoundTrips {
    /// The length of each message.
    pub(crate) bytes: u32,
    /// The number of measured round trips.
    pub(crate) count: u32,
    /// The shortest time.
    pub(crate) min_us: f64,
    /// The median.
    pub(crate) p50_us: f64,
    /// The 99th percentile.
    pub(crate) p99_us: f64,
    /// The longest time.
    pub(crate) max_us: f64,
    /// All times in order, in nanoseconds.
    pub(crate) each_ns: Vec<u64>,
}

/// Sends messages of each size, one at a time, and waits for each to come back. A tenth as many are
/// sent before, and not counted.
///
/// # Errors
/// The stream's failure; [`io::ErrorKind::InvalidData`] if other bytes came back.
pub(crate) async fn ask<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    sizes: &[u32],
    count: u32,
) -> io::Result<Vec<RoundTrips>> {
    let mut figures = Vec::new();
    for bytes in sizes.iter().copied() {
        let before = count / 10;
        stream.write_all(&header(bytes, before + count)).await?;
        let message: Vec<u8> = (0..bytes).map(|index| index as u8).collect();
        let mut back = vec![0; bytes as usize];
        let mut nanos = Vec::with_capacity(count as usize);
        for index in 0..before + count {
            let start = Instant::now();
            stream.write_all(&message).await?;
            stream.read_exact(&mut back).await?;
            if index >= before {
                nanos.push(start.elapsed().as_nanos() as u64);
            }
            if back != message {
                return Err(another());
            }
        }
        figures.push(RoundTrips::of(bytes, nanos));
    }
    stream.shutdown().await?;
    Ok(figures)
}

/// As [`ask`], with the messages of a stream.
///
/// # Errors
/// The stream's failure; [`io::ErrorKind::InvalidData`] if other bytes came back.
pub(crate) async fn ask_messages(
    messages: &mut MultiRailMessages,
    sizes: &[u32],
    count: u32,
) -> io::Result<Vec<RoundTrips>> {
    let mut figures = Vec::new();
    for bytes in sizes.iter().copied() {
        let before = count / 10;
        let message: Bytes = (0..bytes).map(|index| index as u8).collect();
        let mut nanos = Vec::with_capacity(count as usize);
        for index in 0..before + count {
            let start = Instant::now();
            messages.send(message.clone(), Priority::NORMAL).await?;
            let back = messages.recv().await?;
            if index >= before {
                nanos.push(start.elapsed().as_nanos() as u64);
            }
            if back.is_none_or(|back| back.payload != message) {
                return Err(another());
            }
        }
        figures.push(RoundTrips::of(bytes, nanos));
    }
    Ok(figures)
}

/// Sends every message of a stream back, to the stream's end. Returns the number of messages.
///
/// # Errors
/// The stream's failure.
pub(crate) async fn answer_messages(messages: &mut MultiRailMessages, waits: &Waits) -> io::Result<u64> {
    let mut answered = 0;
    while let Some(message) = messages.recv().await? {
        waits.tell(true);
        messages.send(message.payload, Priority::NORMAL).await?;
        answered += 1;
    }
    Ok(answered)
}

/// Sends every complete message back, to the stream's end. Returns the number of messages.
///
/// # Errors
/// The stream's failure; [`io::ErrorKind::InvalidData`] if the peer announces messages of no bytes
/// or of more than 16 MiB.
pub(crate) async fn answer<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S, waits: &Waits) -> io::Result<u64> {
    let mut answered = 0;
    loop {
        let mut header = [0; 8];
        match stream.read_exact(&mut header).await {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                stream.shutdown().await?;
                return Ok(answered);
            }
            Err(error) => return Err(error),
        }
        let number = |at| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let (bytes, count) = (number(0), number(4));
        // Empty messages would be answered without waiting, up to four billion times.
        if !(1..=LONGEST).contains(&bytes) {
            let why = format!("a message has 1 to {LONGEST} bytes, not {bytes}");
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        let mut message = vec![0; bytes as usize];
        for _ in 0..count {
            stream.read_exact(&mut message).await?;
            waits.tell(true);
            stream.write_all(&message).await?;
            answered += 1;
        }
    }
}

impl RoundTrips {
    fn of(bytes: u32, each_ns: Vec<u64>) -> Self {
        let mut micros: Vec<f64> = each_ns.iter().map(|nanos| *nanos as f64 / 1e3).collect();
        micros.sort_by(f64::total_cmp);
        let at = |share| percentile(&micros, share).unwrap_or(f64::NAN);
        Self {
            bytes,
            count: micros.len() as u32,
            min_us: at(0.0),
            p50_us: at(0.5),
            p99_us: at(0.99),
            max_us: at(1.0),
            each_ns,
        }
    }
}

/// The value that this share of the values, from 0 to 1, does not exceed (nearest rank); `None` of
/// none.
fn percentile(sorted: &[f64], share: f64) -> Option<f64> {
    let rank = (share * sorted.len() as f64).ceil().max(1.0) as usize;
    sorted.get(rank.min(sorted.len()).checked_sub(1)?).copied()
}

fn another() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "another message came back")
}

fn header(bytes: u32, count: u32) -> [u8; 8] {
    let mut header = [0; 8];
    header[..4].copy_from_slice(&bytes.to_be_bytes());
    header[4..].copy_from_slice(&count.to_be_bytes());
    header
}

/// The length of the longest message that is answered.
pub(crate) const LONGEST: u32 = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_one_of_the_values() {
        let values: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(percentile(&values, 0.5), Some(50.0));
        assert_eq!(percentile(&values, 0.99), Some(99.0));
        assert_eq!(percentile(&values, 1.0), Some(100.0));
        assert_eq!(percentile(&values[..1], 0.99), Some(1.0));
        assert_eq!(percentile(&[], 0.5), None);
    }

    #[tokio::test]
    async fn every_message_is_answered_and_counted() {
        let (mut near, mut far) = tokio::io::duplex(1000);
        let waits = Waits::new();
        let (asked, answered) = tokio::join!(ask(&mut near, &[1, 5000], 20), answer(&mut far, &waits));
        assert_eq!(answered.unwrap(), 2 * 22);
        let asked = asked.unwrap();
        assert_eq!(
            asked.iter().map(|figures| (figures.bytes, figures.count)).collect::<Vec<_>>(),
            [(1, 20), (5000, 20)]
        );
        for figures in asked {
            assert!(figures.min_us <= figures.p50_us && figures.p50_us <= figures.p99_us);
            assert!(figures.p99_us <= figures.max_us);
        }
    }

    #[tokio::test]
    async fn messages_too_long_or_empty_are_refused() {
        for bytes in [LONGEST + 1, 0] {
            let (mut near, mut far) = tokio::io::duplex(1000);
            near.write_all(&header(bytes, u32::MAX)).await.unwrap();
            assert_eq!(answer(&mut far, &Waits::new()).await.unwrap_err().kind(), io::ErrorKind::InvalidData);
        }
    }
}
