//! The log at the level of information tells of rails, listeners and streams, once each. This test
//! has a file of its own, because it reads the log of the whole process.

use rails_multirail::{
    MultiRailListener, MultiRailStream, RailRequest, Rails, Scheme, Secret, StreamOptions, in_order_by_name, plan_rails,
};
use rails_topo::Topology;
use std::{
    io,
    sync::{Arc, Mutex},
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// The log's text.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn rails_listeners_and_streams_are_told_of_once() {
    let log = Log::default();
    let writer = log.clone();
    tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false).init();
    let topology = Topology::detect().expect("this machine can be read");
    let plan = plan_rails(&topology, &RailRequest::loopback(2)).expect("loopback rails can be planned");
    let rails = Rails::build(&plan).expect("loopback rails need no privilege");
    let options = StreamOptions::new(Secret::pre_shared(b"0123456789abcdef").expect("the secret is long enough"));
    let listener = MultiRailListener::bind(&rails, ["127.0.0.1:0", "127.0.0.2:0"], &options).await.expect("loopback");
    let mut near = MultiRailStream::connect(&rails, listener.local_addrs(), &options).await.expect("it opens");
    let mut far = listener.accept().await.expect("it listens");
    let (id, peer) = (near.id(), near.peer_addr().expect("it has one"));
    near.write_all(&[1; 1000]).await.expect("the stream is up");
    far.read_exact(&mut [0; 1000]).await.expect("all arrive");
    let (near, far) = tokio::join!(near.close(), far.close());
    near.and(far).expect("both end in order");

    let text = log.text();
    let lines = |parts: &[&str]| lines_of(&text, parts);
    assert_eq!(lines(&[" INFO "]), text.lines().count(), "{text}");
    assert_eq!(lines(&["a rail runs", "rail=0", "address=", "cpus="]), 1, "{text}");
    assert_eq!((lines(&["a rail runs"]), lines(&["a listener accepts streams", "127.0.0.2:"])), (2, 1), "{text}");
    let stream = format!("stream={id}");
    for (role, written, read) in [("opened", 1000, 0), ("accepted", 0, 1000)] {
        let role = format!("role=\"{role}\"");
        let (written, read) = (format!("bytes_written={written} "), format!("bytes_read={read} "));
        assert_eq!(lines(&["a stream is open", &stream, &role, "peer=", "lanes="]), 1, "{text}");
        assert_eq!(lines(&["a stream has ended", &stream, &role, &written, &read, "duration="]), 1, "{text}");
    }
    assert_eq!(lines(&["role=\"opened\"", &format!("peer={peer}")]), 2, "{text}");
    assert_eq!((lines(&["a stream is open"]), lines(&["a stream has ended"])), (2, 2), "{text}");

    // As the kernel does when the rail's CPU goes offline.
    let thread = rails.iter().nth(1).expect("there are two").runtime().placement().tid;
    let _freed = rails_bind::thread::bind(thread, topology.online_cpus()).expect("it is a thread of this process");
    for _ in 0..3 {
        let near = MultiRailStream::connect(&rails, listener.local_addrs(), &options).await.expect("it opens");
        let far = listener.accept().await.expect("it listens");
        let (near, far) = tokio::join!(near.close(), far.close());
        near.and(far).expect("both end in order");
    }
    // A name is reached at one of its addresses.
    let gone = std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("loopback");
    let name = vec![gone.into(), listener.local_addrs()[0]];
    let pairing = in_order_by_name(&rails.offers(Scheme::TCP), &[name]);
    let near = MultiRailStream::connect_paired(&rails, &pairing, &options).await.expect("one of two answers");
    let far = listener.accept().await.expect("it listens");
    let (near, far) = tokio::join!(near.close(), far.close());
    near.and(far).expect("both end in order");
    let mute = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
    let remote = mute.local_addr().expect("it is bound");
    let pairing = in_order_by_name(&rails.offers(Scheme::TCP), &[vec![listener.local_addrs()[0], remote.into()]]);
    let near = MultiRailStream::connect_paired(&rails, &pairing, &options).await.expect("one of two answers");
    let far = listener.accept().await.expect("it listens");
    let (near, far) = tokio::join!(near.close(), far.close());
    near.and(far).expect("both end in order");

    let text = log.text();
    assert_eq!(lines_of(&text, &[" INFO ", "a lane is not up yet", &remote.to_string()]), 1, "{text}");
    assert_eq!(lines_of(&text, &[" INFO ", "an address of a name does not answer", &gone.to_string()]), 1, "{text}");
    let warnings: Vec<_> = text.lines().filter(|line| line.contains(" WARN ")).collect();
    // A machine of one CPU has no other to run on.
    assert_eq!(warnings.len(), topology.online_cpus().iter().count().min(2) - 1, "{text}");
    let names_it = |line: &&str| line.contains("a rail's threads may run on other CPUs") && line.contains("rail=1");
    assert!(warnings.iter().all(names_it), "{text}");
}

/// How many lines of a text have all these parts.
fn lines_of(text: &str, parts: &[&str]) -> usize {
    text.lines().filter(|line| parts.iter().all(|part| line.contains(part))).count()
}

impl Log {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).expect("it is text")
    }
}
