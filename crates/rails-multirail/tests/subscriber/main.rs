//! A subscriber to the log that uses the stream of which it hears. This test has a file of its own,
//! because the subscriber is that of the whole process.

#[path = "../loopback/mod.rs"]
#[allow(dead_code, reason = "each test uses some of it")]
mod loopback;
#[path = "../stream/util.rs"]
#[allow(dead_code, reason = "each test uses some of it")]
mod util;

use loopback::{PATIENCE, rails};
use rails_multirail::{EventKind, MultiRailStream};
use std::sync::{
    Arc, Mutex, Weak,
    atomic::{AtomicUsize, Ordering::Relaxed},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};
use tracing::{Event, Subscriber, level_filters::LevelFilter, span};
use tracing_subscriber::{
    Layer,
    layer::{Context, SubscriberExt},
};
use util::{options, relayed_pair};

/// The stream that the subscriber uses.
static STREAM: Mutex<Weak<MultiRailStream>> = Mutex::new(Weak::new());
static DECISIONS: AtomicUsize = AtomicUsize::new(0);
static EVENTS: AtomicUsize = AtomicUsize::new(0);

struct Curious;

impl Curious {
    fn look(target: &str) {
        if !target.starts_with("rails") {
            return;
        }
        match target {
            "rails_proto::decisions" => &DECISIONS,
            _ => &EVENTS,
        }
        .fetch_add(1, Relaxed);
        let stream = STREAM.lock().unwrap().upgrade();
        if let Some(stream) = stream {
            let _ = (stream.stats(), stream.events(), stream.lanes_up());
        }
    }
}

impl<S: Subscriber> Layer<S> for Curious {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        Self::look(event.metadata().target());
    }

    fn on_new_span(&self, attributes: &span::Attributes<'_>, _: &span::Id, _: Context<'_, S>) {
        Self::look(attributes.metadata().target());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subscriber_that_uses_the_stream() {
    let subscriber = tracing_subscriber::registry().with(Curious.with_filter(LevelFilter::TRACE));
    tracing::subscriber::set_global_default(subscriber).expect("the process has no other subscriber");
    let rails = rails(2);
    let (near, far, relays) = relayed_pair(&rails, &options()).await;
    let near = Arc::new(near);
    *STREAM.lock().unwrap() = Arc::downgrade(&near);
    let (mut far, mut heard) = (far, near.subscribe());
    far.write_all(&[7; 100_000]).await.expect("the stream holds");
    relays[0].cut();
    let ended =
        async { while !matches!(heard.recv().await.expect("the stream holds").kind, EventKind::Ended { .. }) {} };
    timeout(PATIENCE, ended).await.expect("the lane ends");
    *STREAM.lock().unwrap() = Weak::new();
    let mut near = near;
    let mut near = loop {
        match Arc::try_unwrap(near) {
            Ok(near) => break near,
            // A subscriber uses the stream at the moment.
            Err(shared) => near = shared,
        }
        tokio::task::yield_now().await;
    };
    near.read_exact(&mut [0; 100_000]).await.expect("the stream holds");
    assert!(DECISIONS.load(Relaxed) > 0 && EVENTS.load(Relaxed) > 0);
}
