//! Many connections on which nothing happens.

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::{
    io,
    net::{SocketAddr, TcpListener, TcpStream},
    thread,
};

/// Opens that many connections and holds them until the process is ended; says `holding COUNT` on
/// standard error when all are open.
///
/// # Errors
///
/// A connection that does not come about.
pub fn hold(server: SocketAddr, count: usize) -> io::Result<()> {
    allow_many_files()?;
    let held = (0..count).map(|_| TcpStream::connect(server)).collect::<io::Result<Vec<_>>>()?;
    eprintln!("holding {}", held.len());
    loop {
        thread::park();
    }
}

/// Accepts connections and holds them until the process is ended; says `listening on ADDRESS` on
/// standard error, and the number of connections whenever it is a hundred more.
///
/// # Errors
///
/// The kernel's refusal of the address, or of one more connection.
pub fn sink(address: SocketAddr) -> io::Result<()> {
    allow_many_files()?;
    let listener = TcpListener::bind(address)?;
    eprintln!("listening on {}", listener.local_addr()?);
    let mut held = Vec::new();
    for socket in listener.incoming() {
        held.push(socket?);
        if held.len() % 100 == 0 {
            eprintln!("accepted {}", held.len());
        }
    }
    Ok(())
}

/// Raises the limit of open files to the highest that this process may set.
fn allow_many_files() -> io::Result<()> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    Ok(setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?)
}
