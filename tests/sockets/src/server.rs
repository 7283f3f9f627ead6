//! The end that accepts.

use crate::{case::Served, cases, greeting, log::Log, meeting::Meetings, row::End};
use socket2::{Domain, Socket, Type};
use std::{
    io::{self, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex, PoisonError, mpsc},
    thread,
    time::Duration,
};

/// Serves the cases that clients ask for, until the process is ended. With port 0 the kernel
/// chooses it; the first line on standard error is `listening on ADDRESS`.
///
/// The next port of the same address is held, so that nobody listens there.
///
/// # Errors
///
/// The kernel's refusal of the address.
pub fn serve(address: SocketAddr) -> io::Result<()> {
    let (listener, _held) = listen(address)?;
    eprintln!("listening on {}", listener.local_addr()?);
    let host = Host::default();
    for socket in listener.incoming() {
        let (socket, host) = (socket?, host.clone());
        host.open(1);
        thread::spawn(move || {
            let outcome = host.attend(socket);
            host.open(-1);
            if let Err(error) = outcome {
                eprintln!("a connection brought no case: {error}");
            }
        });
    }
    Ok(())
}

/// Parts that all connections share.
#[derive(Clone, Default)]
struct Host {
    meetings: Arc<Meetings>,
    /// The connections that are attended.
    connections: Arc<(Mutex<i64>, Condvar)>,
}

impl Host {
    fn attend(&self, socket: TcpStream) -> io::Result<()> {
        socket.set_read_timeout(Some(PATIENCE))?;
        let purpose = greeting::receive(&socket)?;
        socket.set_read_timeout(None)?;
        if let Some(case) = purpose.strip_prefix(greeting::MEET) {
            self.meetings.arrive(case, End::Client)?;
            return (&socket).write_all(b"!");
        }
        if purpose == greeting::FINISH {
            self.wait_for_others();
            return (&socket).write_all(b"!");
        }
        let case = cases::find(&purpose).ok_or_else(|| io::Error::other(format!("there is no case `{purpose}`")))?;
        let log = Log::new(case.name, End::Server);
        let _watched = watch(&log, socket.try_clone()?);
        let served = Served { socket, log: log.clone(), meetings: Arc::clone(&self.meetings) };
        if let Err(error) = (case.server)(&served) {
            log.tried("the case", Err::<(), _>(error));
        }
        drop(served);
        log.print();
        Ok(())
    }

    fn open(&self, change: i64) {
        let (count, changed) = &*self.connections;
        *count.lock().unwrap_or_else(PoisonError::into_inner) += change;
        changed.notify_all();
    }

    /// Waits until the calling connection is the only one.
    fn wait_for_others(&self) {
        let (count, changed) = &*self.connections;
        let count = count.lock().unwrap_or_else(PoisonError::into_inner);
        drop(changed.wait_while(count, |count| *count > 1));
    }
}

/// Prints what there is, and cuts the connection, if the case has no end before the guard is
/// dropped.
fn watch(log: &Log, socket: TcpStream) -> mpsc::Sender<()> {
    let (ended, end) = mpsc::channel();
    let log = log.clone();
    thread::spawn(move || {
        if end.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
            log.saw("the case", "no end");
            log.print();
            // It fails where the connection has ended meanwhile.
            let _ = socket.shutdown(Shutdown::Both);
        }
    });
    ended
}

/// Listens on a port whose next one is free, and holds that one.
fn listen(address: SocketAddr) -> io::Result<(TcpListener, Socket)> {
    let mut tries = 0;
    loop {
        tries += 1;
        let listener = TcpListener::bind(address)?;
        match hold(listener.local_addr()?) {
            Ok(held) => return Ok((listener, held)),
            Err(_) if address.port() == 0 && tries < TRIES => {}
            Err(error) => return Err(error),
        }
    }
}

/// Binds the next port, and does not listen: a connection there is refused.
fn hold(address: SocketAddr) -> io::Result<Socket> {
    let next = address.port().checked_add(1).ok_or_else(|| io::Error::other("there is no next port"))?;
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.bind(&SocketAddr::new(address.ip(), next).into())?;
    Ok(socket)
}

/// How often a port is chosen whose next one is taken.
const TRIES: usize = 16;
/// The time of a case, above every wait within one.
const PATIENCE: Duration = Duration::from_secs(25);
