//! A peer on a bare socket, which joins in order and then sends the most expensive chunks.

use crate::join::{join, join_lane};
use bytes::Bytes;
use rails_multirail::Priority;
use rails_proto::{
    chunk::{Packet, Part},
    handshake::Credentials,
    messages::{message_space, packet_space},
    parameters::TransportParameters,
    stream_number::StreamNumber,
    wire::{DataHeader, Frame},
};
use std::net::SocketAddr;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, tcp::OwnedWriteHalf},
};

/// A flood within one window.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Flood {
    /// A chunk at every step. If the chunks leave gaps, they begin at the second byte, so that no
    /// byte can be read.
    Chunks { length: usize, step: u64 },
    /// Chunks side by side, the last one first.
    Backwards { length: usize },
    /// Packets of one message each.
    Packets { length: usize },
    /// Parts of a message, one at every step.
    Parts { total: u32, length: usize, step: u64 },
    /// The first byte of each of many messages.
    Begun { total: u32 },
}

pub(crate) struct Peer {
    socket: OwnedWriteHalf,
    bytes: Bytes,
    /// The gathered chunks to send, allocated before the measurement.
    batch: Vec<u8>,
}

impl Peer {
    pub(crate) async fn join(address: SocketAddr) -> Self {
        let (socket, _) = join(address, Credentials::Insecure, PARAMETERS).await;
        let (mut answers, socket) = socket.into_split();
        tokio::spawn(async move {
            let mut ignored = vec![0; 4096];
            while answers.read(&mut ignored).await.is_ok_and(|count| count > 0) {}
        });
        let mut batch = vec![7; 1 << 20];
        batch.clear();
        Self { socket, bytes: vec![7; 512 << 10].into(), batch }
    }

    /// Begins the same chunk of the greatest length on `lanes` further lanes, and returns these.
    pub(crate) async fn begin_on_lanes(&self, address: SocketAddr, lanes: u16) -> Vec<TcpStream> {
        let header =
            Frame::Data(DataHeader::of(StreamNumber::FIRST, 0, std::slice::from_ref(&self.bytes), false)).encode();
        let mut sockets = Vec::new();
        for lane in 1..=lanes {
            let (mut socket, _) = join_lane(address, Credentials::Insecure, PARAMETERS, lane).await;
            socket.write_all(&header).await.expect("it reads");
            socket.write_all(&self.bytes[1..]).await.expect("it reads");
            sockets.push(socket);
        }
        sockets
    }

    /// Sends as many chunks as fit into the window from that offset on, and gives their number.
    pub(crate) async fn send(&mut self, from: u64, window: u64, flood: Flood) -> u64 {
        let mut sent = 0;
        match flood {
            Flood::Chunks { length, step } => {
                let gap = u64::from(step != length as u64);
                for at in (gap..).step_by(step as usize).take_while(|at| at + length as u64 <= window) {
                    self.chunk(None, from + at, length).await;
                    sent += 1;
                }
            }
            Flood::Backwards { length } => {
                // The first chunk is left out, so that no byte can be read.
                for index in (1..window / length as u64).rev() {
                    self.chunk(None, from + index * length as u64, length).await;
                    sent += 1;
                }
            }
            Flood::Packets { length } => {
                let packet = |first| Packet { priority: Priority::NORMAL, first, count: 1 };
                for first in 0..window / packet_space(length as u32) {
                    let inner = (length as u32 - 4).to_be_bytes();
                    let bytes = Bytes::from([&inner[..], &self.bytes[..length - 4]].concat());
                    self.put(Some(Frame::Packet(packet(first))), from + first * packet_space(length as u32), bytes)
                        .await;
                    sent += 1;
                }
            }
            Flood::Begun { total } => {
                for number in 0..window / message_space(total) {
                    let part = Part { priority: Priority::NORMAL, number, total, at: 0 };
                    self.chunk(Some(Frame::Part(part)), from + number * message_space(total), 1).await;
                    sent += 1;
                }
            }
            Flood::Parts { total, length, step } => {
                for at in (1..u64::from(total)).step_by(step as usize) {
                    let part = Part { priority: Priority::NORMAL, number: 0, total, at: at as u32 };
                    self.chunk(Some(Frame::Part(part)), from + at, length).await;
                    sent += 1;
                }
            }
        }
        self.flush().await;
        sent
    }

    async fn chunk(&mut self, before: Option<Frame>, offset: u64, length: usize) {
        self.put(before, offset, self.bytes.slice(..length)).await;
    }

    async fn put(&mut self, before: Option<Frame>, offset: u64, bytes: Bytes) {
        if self.batch.len() + bytes.len() + 64 > self.batch.capacity() {
            self.flush().await;
        }
        let header = DataHeader::of(StreamNumber::FIRST, offset, std::slice::from_ref(&bytes), false);
        before.iter().for_each(|frame| self.batch.extend_from_slice(&frame.encode()));
        self.batch.extend_from_slice(&Frame::Data(header).encode());
        self.batch.extend_from_slice(&bytes);
    }

    async fn flush(&mut self) {
        self.socket.write_all(&self.batch).await.expect("it reads");
        self.batch.clear();
    }
}

const PARAMETERS: TransportParameters = TransportParameters::one_stream(512 << 10, 1 << 20);
