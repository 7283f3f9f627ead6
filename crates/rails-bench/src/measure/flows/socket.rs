//! One flow, as either end has it.

use super::{FlowKind, mptcp};
use crate::{conversation::Token, side::LaneReport};
use anyhow::Result;
use rails_multirail::Rail;
use rails_net::{Lane, TcpLane};
use socket2::SockRef;
use std::{io, net::SocketAddr};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// The socket of a flow.
#[derive(Debug)]
pub(crate) enum Flow {
    /// Plain TCP.
    Plain(Box<TcpLane>),
    /// MPTCP. A socket whose peer has closed it does not know its addresses, so the report is taken
    /// at the start.
    Mptcp(TcpStream, Box<LaneReport>),
}

impl Flow {
    /// Connects to the place of a conversation, and shows its token there and the flow's number.
    /// The future belongs on the rail's runtime.
    ///
    /// # Errors
    /// The kernel's refusal; `EPROTONOSUPPORT` if it has no MPTCP.
    pub(super) fn open(
        kind: &FlowKind,
        rail: &Rail,
        remote: SocketAddr,
        token: Token,
        number: u16,
    ) -> impl Future<Output = Result<Self>> + Send + use<> {
        let (kind, local_end) = (kind.clone(), rail.local_end());
        let address = rail.planned().address;
        async move {
            let mut flow = match kind {
                FlowKind::Plain(tcp) => Self::Plain(Box::new(tcp.local(local_end).connect(remote).await?)),
                FlowKind::Mptcp(congestion) => {
                    Self::over_mptcp(mptcp::connect(address, remote, congestion.as_deref()).await?)?
                }
            };
            flow.get_mut().write_all(&first_words(token, number)).await?;
            Ok(flow)
        }
    }

    /// A flow of a connected MPTCP socket.
    pub(super) fn over_mptcp(stream: TcpStream) -> io::Result<Self> {
        let congestion = SockRef::from(&stream).tcp_congestion()?;
        let name = String::from_utf8_lossy(&congestion).trim_end_matches('\0').to_owned();
        let report = LaneReport::new((stream.local_addr()?, stream.peer_addr()?), (0, 0), None);
        Ok(Self::Mptcp(stream, Box::new(LaneReport { congestion_control: Some(name), ..report })))
    }

    /// Reads the token and the number that the peer shows.
    pub(super) async fn hear(&mut self) -> io::Result<(Token, u16)> {
        let mut heard = [0; FIRST_WORDS];
        self.get_mut().read_exact(&mut heard).await?;
        let (token, number) = heard.split_first_chunk().expect("they are longer than a token");
        Ok((Token::from_bytes(*token), u16::from_le_bytes([number[0], number[1]])))
    }

    /// The socket.
    pub(crate) fn get_mut(&mut self) -> &mut TcpStream {
        match self {
            Self::Plain(lane) => lane.get_mut(),
            Self::Mptcp(stream, _) => stream,
        }
    }

    /// The flow as a lane of a report.
    pub(super) fn report(&self, bytes_sent: u64, bytes_received: u64) -> LaneReport {
        match self {
            Self::Plain(lane) => {
                let carried = (bytes_sent, bytes_received);
                LaneReport::new((lane.local_addr(), lane.peer_addr()), carried, Lane::stats(&**lane).ok().as_ref())
            }
            Self::Mptcp(_, report) => LaneReport { bytes_sent, bytes_received, ..(**report).clone() },
        }
    }
}

/// The first bytes of a flow: the token, and the flow's number, little-endian.
fn first_words(token: Token, number: u16) -> [u8; FIRST_WORDS] {
    let mut words = [0; FIRST_WORDS];
    words[..Token::LEN].copy_from_slice(token.as_bytes());
    words[Token::LEN..].copy_from_slice(&number.to_le_bytes());
    words
}

const FIRST_WORDS: usize = Token::LEN + 2;
