//! A line between two processes that carries as many bytes as a test lets it.

use std::{
    io::{ErrorKind, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

/// Carries connections to an address. Once so many bytes have come from there, it stands still in
/// both directions until it is let go on.
pub(crate) struct Relay {
    address: SocketAddr,
    line: Arc<Line>,
}

struct Line {
    target: SocketAddr,
    bytes: Mutex<Bytes>,
    changed: Condvar,
    refuses: AtomicBool,
}

/// The bytes towards the reader, of all connections.
struct Bytes {
    carried: u64,
    allowed: u64,
}

impl Relay {
    /// A line to the node at that address (`lram://HOST:PORT`).
    pub(crate) fn to(address: &str, allowed: u64) -> Self {
        let target = address.trim_start_matches("lram://").parse().expect("it is one address");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port can be had");
        let address = listener.local_addr().expect("it is bound");
        let bytes = Mutex::new(Bytes { carried: 0, allowed });
        let (changed, refuses) = Default::default();
        let line = Arc::new(Line { target, bytes, changed, refuses });
        let own = Arc::clone(&line);
        // It ends with the process, if not before.
        thread::spawn(move || {
            let calls = listener.incoming().flatten().take_while(|_| !own.refuses.load(Ordering::SeqCst));
            calls.for_each(|near| own.connect(near));
        });
        Self { address, line }
    }

    /// The address of a dataset behind the line.
    pub(crate) fn dataset(&self, name: &str) -> String {
        format!("lram://{}/{name}", self.address)
    }

    /// The address at this end.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits until the line stands still.
    pub(crate) fn wait_until_it_stands_still(&self) {
        let bytes = self.line.bytes.lock().unwrap();
        let still = self.line.changed.wait_timeout_while(bytes, PATIENCE, |bytes| bytes.carried < bytes.allowed);
        assert!(!still.unwrap().1.timed_out(), "too few bytes came");
    }

    /// Lets so many more bytes pass.
    pub(crate) fn allow(&self, more: u64) {
        let mut bytes = self.line.bytes.lock().unwrap();
        bytes.allowed = bytes.allowed.saturating_add(more);
        self.line.changed.notify_all();
    }

    /// Refuses calls from now on, as the machine of a process does that has ended.
    pub(crate) fn refuse(&self) {
        self.line.refuses.store(true, Ordering::SeqCst);
        // The thread that takes calls has ended when this one does.
        let mut last = TcpStream::connect(self.address).expect("it listens");
        let _ = last.read(&mut [0]);
    }

    /// Lets all bytes pass from now on.
    pub(crate) fn open(&self) {
        self.allow(u64::MAX);
    }

    /// The bytes that have come towards the reader.
    pub(crate) fn carried(&self) -> u64 {
        self.line.bytes.lock().unwrap().carried
    }
}

impl Line {
    fn connect(self: &Arc<Self>, near: TcpStream) {
        // Where nobody listens, the caller sees a connection that ends.
        let Ok(far) = TcpStream::connect(self.target) else { return };
        for (from, to, is_counted) in [(&near, &far, false), (&far, &near, true)] {
            let (line, from, to) = (Arc::clone(self), from.try_clone().unwrap(), to.try_clone().unwrap());
            thread::spawn(move || line.carry(from, to, is_counted));
        }
    }

    /// Carries one direction to its end.
    fn carry(&self, mut from: TcpStream, mut to: TcpStream, is_counted: bool) {
        let mut buffer = vec![0; 64 << 10];
        loop {
            let read = match from.read(&mut buffer) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                read => read.unwrap_or(0),
            };
            if read == 0 {
                let _ = to.shutdown(Shutdown::Write);
                return;
            }
            let mut rest = &buffer[..read];
            while !rest.is_empty() {
                let (now, behind) = rest.split_at(self.admit(rest.len(), is_counted));
                if to.write_all(now).is_err() {
                    let _ = from.shutdown(Shutdown::Both);
                    return;
                }
                rest = behind;
            }
        }
    }

    /// Waits until bytes may pass, and returns how many.
    fn admit(&self, wanted: usize, is_counted: bool) -> usize {
        let bytes = self.bytes.lock().unwrap();
        let mut bytes = self.changed.wait_while(bytes, |bytes| bytes.carried >= bytes.allowed).unwrap();
        if !is_counted {
            return wanted;
        }
        let admitted = (bytes.allowed - bytes.carried).min(wanted as u64);
        bytes.carried += admitted;
        self.changed.notify_all();
        admitted as usize
    }
}

/// Much longer than any of this takes.
const PATIENCE: Duration = Duration::from_secs(120);
