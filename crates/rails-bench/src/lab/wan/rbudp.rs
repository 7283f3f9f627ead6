//! RBUDP's scheme: the sender sends a whole message over UDP at its rate, then reports its end over
//! TCP; the receiver answers with one list of the missing segments, and the sender sends those,
//! until none is missing. Then the next message begins.
//!
//! The scheme is that of He, Leigh, Yu and DeFanti, "Reliable Blast UDP" (Cluster 2002); the code
//! is not. It has one system call for each datagram.

use super::ends::{MESSAGE, Progress, any, runtime};
use rails_topo::Bandwidth;
use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream, UdpSocket},
    sync::{atomic::Ordering::Relaxed, mpsc},
    thread,
    time::{Duration, Instant},
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};

/// The settings, as a text.
pub(super) const SETTINGS: &str = "RBUDP: messages of 20 MB, one after another and without a handshake for each; one \
     list (a bit for each segment) after each pass; datagrams of 1,472 bytes; a receive buffer of 4 MiB";

/// Sends messages at the rate, which counts IP packets, until the time is over.
pub(super) fn send(rate: Bandwidth, address: SocketAddr, progress: &Progress) -> io::Result<()> {
    let mut control = TcpStream::connect(address)?;
    control.set_nodelay(true)?;
    let socket = UdpSocket::bind(any(address))?;
    socket.connect(address)?;
    let mut pace = Pace { rate, due: Instant::now() };
    let payload = vec![7; MESSAGE];
    let mut datagram = Vec::with_capacity(DATAGRAM);
    for message in 0_u32.. {
        let mut missing: Vec<usize> = (0..SEGMENTS).collect();
        let mut is_first_pass = true;
        while !missing.is_empty() {
            for segment in missing {
                datagram.clear();
                datagram.extend_from_slice(&message.to_be_bytes());
                datagram.extend_from_slice(&(segment as u32).to_be_bytes());
                datagram.extend_from_slice(&payload[place(segment)]);
                pace.wait(datagram.len() + HEADERS);
                socket.send(&datagram)?;
                if !is_first_pass {
                    progress.retransmitted.fetch_add(1, Relaxed);
                }
            }
            control.write_all(&message.to_be_bytes())?;
            let mut list = [0; LIST];
            control.read_exact(&mut list)?;
            missing = listed(&list);
            is_first_pass = false;
        }
        if progress.is_over() {
            break;
        }
    }
    Ok(())
}

/// Receives messages until the sender closes.
pub(super) fn receive(address: SocketAddr, ready: mpsc::Sender<()>, progress: &Progress) -> io::Result<()> {
    runtime()?.block_on(async {
        let listener = tokio::net::TcpListener::bind(address).await?;
        let socket = UdpSocket::bind(address)?;
        socket2::SockRef::from(&socket).set_recv_buffer_size(RECEIVE_BUFFER)?;
        socket.set_nonblocking(true)?;
        // `notice` wakes the task when datagrams arrive. They are read from the other handle,
        // because tokio may learn of the last ones too late.
        let notice = tokio::net::UdpSocket::from_std(socket.try_clone()?)?;
        let _ = ready.send(());
        let (control, _) = listener.accept().await?;
        control.set_nodelay(true)?;
        let (mut words, mut lists) = control.into_split();
        let mut message = Incoming { number: 0, payload: vec![0; MESSAGE], has: vec![false; SEGMENTS] };
        let mut word = Vec::new();
        loop {
            tokio::select! {
                biased;
                ready = notice.readable() => {
                    ready?;
                    let taken = notice.try_io(Interest::READABLE, || Err::<(), _>(message.take_all(&socket, progress)));
                    taken.or_else(|error| if is_empty(&error) { Ok(()) } else { Err(error) })?;
                }
                length = words.read_buf(&mut word) => {
                    if length? == 0 {
                        return Ok(());
                    }
                    let Some((number, _)) = word.split_first_chunk() else { continue };
                    let number = u32::from_be_bytes(*number);
                    word.clear();
                    // All datagrams of the pass have arrived before this report.
                    let error = message.take_all(&socket, progress);
                    if !is_empty(&error) {
                        return Err(error);
                    }
                    if number != message.number {
                        return Err(io::Error::other(format!("message {number} ends in {}", message.number)));
                    }
                    lists.write_all(&list(&message.has)).await?;
                    if message.has.iter().all(|has| *has) {
                        message.number += 1;
                        message.has.fill(false);
                    }
                }
            }
        }
    })
}

/// The message that arrives.
struct Incoming {
    number: u32,
    payload: Vec<u8>,
    has: Vec<bool>,
}

impl Incoming {
    /// Takes the datagrams in the socket, and returns the error of the last read: that none is
    /// left, or another one.
    fn take_all(&mut self, socket: &UdpSocket, progress: &Progress) -> io::Error {
        let mut datagram = [0; DATAGRAM];
        loop {
            match socket.recv(&mut datagram) {
                Ok(length) => drop(progress.arrived.fetch_add(self.take(&datagram[..length]), Relaxed)),
                Err(error) => return error,
            }
        }
    }

    /// Copies a datagram to its offset, and returns the number of new bytes.
    fn take(&mut self, datagram: &[u8]) -> u64 {
        let Some((message, rest)) = datagram.split_first_chunk() else { return 0 };
        let Some((segment, payload)) = rest.split_first_chunk() else { return 0 };
        let segment = u32::from_be_bytes(*segment) as usize;
        let is_wanted = u32::from_be_bytes(*message) == self.number && self.has.get(segment) == Some(&false);
        if !is_wanted || payload.len() != place(segment).len() {
            return 0;
        }
        self.payload[place(segment)].copy_from_slice(payload);
        self.has[segment] = true;
        payload.len() as u64
    }
}

/// Spreads packets in time.
struct Pace {
    rate: Bandwidth,
    due: Instant,
}

impl Pace {
    /// Waits until a packet of this length may leave.
    fn wait(&mut self, length: usize) {
        let mut now = Instant::now();
        // The sender sleeps rarely, and sends a few packets after each sleep.
        if self.due > now + SLEEP {
            thread::sleep(self.due - now);
            now = Instant::now();
        }
        let bits = length as f64 * 8.0;
        let earliest = now.checked_sub(BURST).unwrap_or(now);
        self.due = self.due.max(earliest) + Duration::from_secs_f64(bits / self.rate.as_bits_per_second() as f64);
    }
}

/// Whether a socket has no datagram.
fn is_empty(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

/// The range of a segment's bytes.
fn place(segment: usize) -> std::ops::Range<usize> {
    let start = segment * PAYLOAD;
    start..(start + PAYLOAD).min(MESSAGE)
}

/// A bit for each segment, 1 if it is missing.
fn list(has: &[bool]) -> Vec<u8> {
    has.chunks(8).map(|eight| eight.iter().rev().fold(0, |byte, has| byte << 1 | u8::from(!has))).collect()
}

/// The segments whose bits are 1.
fn listed(list: &[u8]) -> Vec<usize> {
    (0..SEGMENTS).filter(|segment| list[segment / 8] >> (segment % 8) & 1 == 1).collect()
}

/// UDP payload of a packet of 1,500 bytes with the headers of IPv4 and UDP.
const DATAGRAM: usize = 1500 - HEADERS;
const HEADERS: usize = 28;
/// Behind the numbers of the message and the segment.
const PAYLOAD: usize = DATAGRAM - 8;
const SEGMENTS: usize = MESSAGE.div_ceil(PAYLOAD);
const LIST: usize = SEGMENTS.div_ceil(8);
const RECEIVE_BUFFER: usize = 4 << 20;
const SLEEP: Duration = Duration::from_micros(100);
/// The longest delay that a late sender makes up for.
const BURST: Duration = Duration::from_millis(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_names_the_missing_segments() {
        let mut has = vec![true; SEGMENTS];
        assert_eq!(listed(&list(&has)), Vec::<usize>::new());
        let missing = [0, 7, 8, 4711, SEGMENTS - 1];
        missing.iter().for_each(|segment| has[*segment] = false);
        assert_eq!(list(&has).len(), LIST);
        assert_eq!(listed(&list(&has)), missing);
    }

    #[test]
    fn segments_cover_the_message_and_count_once() {
        let mut message = Incoming { number: 3, payload: vec![0; MESSAGE], has: vec![false; SEGMENTS] };
        let datagram = |number: u32, segment: usize| {
            let payload = vec![7; MESSAGE.saturating_sub(segment * PAYLOAD).min(PAYLOAD)];
            [&number.to_be_bytes()[..], &(segment as u32).to_be_bytes(), &payload].concat()
        };
        let taken: u64 = (0..SEGMENTS).map(|segment| message.take(&datagram(3, segment))).sum();
        assert_eq!(taken, MESSAGE as u64);
        assert!(message.payload.iter().all(|byte| *byte == 7) && message.has.iter().all(|has| *has));
        message.has[5] = false;
        for of_no_use in [datagram(3, 4), datagram(2, 5), datagram(3, SEGMENTS), datagram(3, 5)[..9].to_vec(), vec![1]]
        {
            assert_eq!(message.take(&of_no_use), 0);
        }
        assert_eq!(message.take(&datagram(3, 5)), PAYLOAD as u64);
    }
}
