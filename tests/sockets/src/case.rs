//! A case: a way to use a socket, and the two ends that carry it out.

use crate::{greeting, log::Log, meeting::Meetings, row::End};
use std::{
    io::{self, Read},
    net::{SocketAddr, TcpStream},
    sync::Arc,
};

/// A way to use a socket. An end's error that a case does not expect is its last step.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) client: fn(&Client) -> io::Result<()>,
    pub(crate) server: fn(&Served) -> io::Result<()>,
}

/// The client's end of a case.
pub(crate) struct Client {
    pub(crate) server: SocketAddr,
    pub(crate) log: Log,
}

impl Client {
    /// Connects as most programs do, and tells the server the case.
    pub(crate) fn connect(&self) -> io::Result<TcpStream> {
        let socket = self.log.did("connect", TcpStream::connect(self.server))?;
        self.greet(&socket)?;
        Ok(socket)
    }

    /// Tells the server the case.
    pub(crate) fn greet(&self, socket: &TcpStream) -> io::Result<()> {
        self.log.did("greet", greeting::send(socket, &self.log.case()))
    }

    /// An address of the server's host that nothing listens on: the server holds its port.
    pub(crate) fn nobody(&self) -> SocketAddr {
        SocketAddr::new(self.server.ip(), self.server.port() + 1)
    }

    /// Waits until the server's end gets to the same point.
    pub(crate) fn meet(&self) -> io::Result<()> {
        ask(self.server, &format!("{}{}", greeting::MEET, self.log.case()))
    }

    /// The bytes that the client sends.
    pub(crate) fn payload(&self, length: usize) -> Vec<u8> {
        payload(&self.log.case(), End::Client, length)
    }
}

/// The server's end of a case.
pub(crate) struct Served {
    pub(crate) socket: TcpStream,
    pub(crate) log: Log,
    pub(crate) meetings: Arc<Meetings>,
}

impl Served {
    /// Waits until the client's end gets to the same point.
    pub(crate) fn meet(&self) -> io::Result<()> {
        self.meetings.arrive(&self.log.case(), End::Server)
    }

    /// The bytes that the server sends.
    pub(crate) fn payload(&self, length: usize) -> Vec<u8> {
        payload(&self.log.case(), End::Server, length)
    }
}

/// Opens a connection for a purpose of the program's own, and waits for its answer.
pub(crate) fn ask(server: SocketAddr, purpose: &str) -> io::Result<()> {
    let mut socket = TcpStream::connect(server)?;
    greeting::send(&socket, purpose)?;
    socket.read_exact(&mut [0])
}

/// Bytes that are the same in every run, and others in every case and direction.
fn payload(case: &str, end: End, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    blake3::Hasher::new().update(format!("{case} {end}").as_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}
