//! Round trips: `stream --ping` and `serve --ping`. The application runs on the first rail's thread, as in a program that was
//! written for rails.

use crate::{
    ending::Ending,
    endpoint::{Endpoint, not_listening, say_listening},
    measure::latency,
    print,
};
use anyhow::{Context, Result};
use rails_multirail::{MultiRailListener, Rail};
use rails_net::LaneListener;
use std::{net::SocketAddr, sync::Arc};

/// What messages go over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Over {
    /// A plain flow to the first address.
    Plain,
    /// The bytes of a stream.
    Bytes,
    /// The messages of a stream.
    Messages,
}

impl Over {
    pub(super) fn chosen(plain: bool, messages: bool) -> Self {
        match (plain, messages) {
            (true, _) => Self::Plain,
            (false, true) => Self::Messages,
            (false, false) => Self::Bytes,
        }
    }
}

/// Sends messages of each length so many times, and prints how long it took.
pub(super) async fn ask(
    endpoint: &Endpoint,
    remotes: &[SocketAddr],
    over: Over,
    (sizes, count): (&[u32], u32),
    json: bool,
) -> Result<Ending> {
    let (sizes, rail) = (sizes.to_vec(), first(endpoint)?);
    let figures = if over == Over::Plain {
        let remote = remotes[0];
        let lane = rail.lane_options(endpoint.options.lane_options());
        let asked = rail.runtime().spawn(move || async move {
            let mut lane = lane.connect(remote).await?;
            anyhow::Ok(latency::ask(lane.get_mut(), &sizes, count).await?)
        });
        asked.await?.context("--to")?
    } else {
        let mut stream = endpoint.open(remotes, "serve --ping").await?;
        let asked = rail.runtime().spawn(move || async move {
            if over == Over::Messages {
                let mut messages = stream.into_messages()?;
                let figures = latency::ask_messages(&mut messages, &sizes, count).await?;
                messages.close().await?;
                return anyhow::Ok(figures);
            }
            let figures = latency::ask(&mut stream, &sizes, count).await?;
            stream.close().await?;
            anyhow::Ok(figures)
        });
        asked.await?.context("the stream failed")?
    };
    if json {
        print::result(format_args!("{}\n", serde_json::to_string(&figures)?))?;
        return Ok(Ending::Done);
    }
    for one in &figures {
        let (bytes, count, p50, p99) = (one.bytes, one.count, one.p50_us, one.p99_us);
        print::result(format_args!("{bytes} bytes: {count} round trips, p50 {p50:.1} us, p99 {p99:.1} us\n"))?;
    }
    Ok(Ending::Done)
}

/// Sends messages back: those of plain flows to the first address, or those of streams.
pub(super) async fn answer(endpoint: &Endpoint, addresses: &[SocketAddr], over: Over, once: bool) -> Result<Ending> {
    let mut source = Source::bind(endpoint, addresses, over).await?;
    loop {
        match source.answer_one(first(endpoint)?).await {
            Ok(answered) => print::note(format_args!("answered {answered} messages")),
            Err(error) if !once => print::note(format_args!("error: {error:#}")),
            Err(error) => return Err(error),
        }
        if once {
            return Ok(Ending::Done);
        }
    }
}

/// Where messages come from.
enum Source {
    Plain(Arc<LaneListener>),
    Bytes(MultiRailListener),
    Messages(MultiRailListener),
}

impl Source {
    async fn bind(endpoint: &Endpoint, addresses: &[SocketAddr], over: Over) -> Result<Self> {
        match over {
            Over::Plain => {}
            Over::Bytes => return Ok(Self::Bytes(endpoint.listen(addresses).await?)),
            Over::Messages => return Ok(Self::Messages(endpoint.listen(addresses).await?)),
        }
        let (options, address) = (endpoint.options.lane_options().clone(), addresses[0]);
        let bound = first(endpoint)?.runtime().spawn(move || async move { options.listen(address) }).await?;
        let bound = bound.map_err(|error| not_listening(error.into(), &addresses[..1]))?;
        say_listening(&[bound.local_addr()]);
        Ok(Self::Plain(Arc::new(bound)))
    }

    async fn answer_one(&mut self, rail: &Rail) -> Result<u64> {
        match self {
            Self::Plain(listener) => {
                let listener = listener.clone();
                let answered = rail.runtime().spawn(move || async move {
                    let mut lane = listener.accept().await?;
                    anyhow::Ok(latency::answer(lane.get_mut()).await?)
                });
                answered.await?
            }
            Self::Messages(listener) => {
                let stream = listener.accept().await?;
                let answered = rail.runtime().spawn(move || async move {
                    let mut messages = stream.into_messages()?;
                    let answered = latency::answer_messages(&mut messages).await?;
                    messages.close().await?;
                    anyhow::Ok(answered)
                });
                answered.await?
            }
            Self::Bytes(listener) => {
                let mut stream = listener.accept().await?;
                let answered = rail.runtime().spawn(move || async move {
                    let answered = latency::answer(&mut stream).await?;
                    stream.close().await?;
                    anyhow::Ok(answered)
                });
                answered.await?
            }
        }
    }
}

fn first(endpoint: &Endpoint) -> Result<&Rail> {
    endpoint.rails.iter().next().context("no rails")
}
