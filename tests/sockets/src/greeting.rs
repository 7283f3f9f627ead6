//! The first bytes of a connection, which tell the server the case.

use std::{
    io::{self, Read, Write},
    net::TcpStream,
};

/// The length of a greeting in bytes.
const LENGTH: usize = 32;
/// Before a case's name: a connection by which a client waits for the server's end of that case.
pub(crate) const MEET: &str = "meet ";
/// A connection by which a client waits until the server has printed every row.
pub(crate) const FINISH: &str = "finish";

/// Sends the case's name.
pub(crate) fn send(mut socket: &TcpStream, case: &str) -> io::Result<()> {
    socket.write_all(&encode(case))
}

/// The bytes that tell a case.
pub(crate) fn encode(case: &str) -> [u8; LENGTH] {
    let mut greeting = [0; LENGTH];
    greeting[..case.len()].copy_from_slice(case.as_bytes());
    greeting
}

/// Reads a case's name.
pub(crate) fn receive(mut socket: &TcpStream) -> io::Result<String> {
    let mut greeting = [0; LENGTH];
    socket.read_exact(&mut greeting)?;
    let name = greeting.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8(name.to_vec()).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "the greeting is no text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_fits() {
        assert!(crate::cases().chain([FINISH]).all(|case| MEET.len() + case.len() <= LENGTH));
    }
}
