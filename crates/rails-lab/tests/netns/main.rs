//! A lab's promises, held against the kernel. Run as root: `cargo test -p rails-lab -- --ignored
//! netns_`

mod cleanup;
mod emulated;
mod faults;
mod links;

use rails_lab::{LinkLab, Side};
use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    thread,
    time::{Duration, Instant},
};

const NAMESPACES: &str = "/var/run/netns";

fn exists(namespace: &str) -> bool {
    Path::new(NAMESPACES).join(namespace).exists()
}

/// Sends the bytes from A to B over one link and returns the bytes that B received.
fn send_over(lab: &LinkLab, link: usize, bytes: &[u8]) -> Vec<u8> {
    let listener = {
        let _b = lab.enter(Side::B).unwrap();
        TcpListener::bind((lab.address(Side::B, link), 0)).unwrap()
    };
    let target = listener.local_addr().unwrap();
    thread::scope(|scope| {
        let receiver = scope.spawn(move || {
            let (mut stream, peer) = listener.accept().unwrap();
            assert_eq!(peer.ip(), lab.address(Side::A, link));
            let mut received = Vec::new();
            stream.read_to_end(&mut received).unwrap();
            received
        });
        let _a = lab.enter(Side::A).unwrap();
        let mut stream = TcpStream::connect(target).unwrap();
        stream.write_all(bytes).unwrap();
        drop(stream);
        receiver.join().unwrap()
    })
}

fn wait_until(done: impl Fn() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "it did not happen within {PATIENCE:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A bound against hanging, far above the duration of any step here.
const PATIENCE: Duration = Duration::from_secs(60);
