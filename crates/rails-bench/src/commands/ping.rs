//! Round trips: `stream --ping`, and the answers of `serve`.

use crate::{
    conversation::{Call, Carrier, Door, Guest, Reply, Token},
    measure::{
        flows::{Flow, Listeners},
        latency::{self, RoundTrips},
    },
    thread,
    turn::Waits,
};
use anyhow::{Context, Result};
use rails_multirail::{MultiRailMessages, Rail, Rails, RecvStream, SendStream, StreamOptions};
use serde::Serialize;
use std::{fmt, sync::OnceLock};
use tokio::{
    io::{Join, join},
    runtime::Runtime,
};

/// The runtime of the application's task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Application {
    /// The first rail's, as in a program that was written for rails
    #[default]
    Rail,
    /// tokio's multi-thread runtime with a worker for each CPU, as in most services
    MultiThread,
}

impl Application {
    /// Runs a task to its end on the runtime.
    async fn run<T: Send + 'static>(
        self,
        rail: &Rail,
        task: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        match self {
            Self::Rail => rail.runtime().spawn(task).await?,
            Self::MultiThread => multi_thread()?.spawn(task).await?,
        }
    }

    /// The options with the runtime named in them.
    pub(super) fn applied(self, options: StreamOptions) -> Result<StreamOptions> {
        Ok(match self {
            Self::Rail => options,
            Self::MultiThread => options.application_runtime(multi_thread()?.handle()),
        })
    }
}

/// The multi-thread runtime, made when it is first asked for.
fn multi_thread() -> Result<&'static Runtime> {
    static MULTI_THREAD: OnceLock<Runtime> = OnceLock::new();
    if let Some(runtime) = MULTI_THREAD.get() {
        return Ok(runtime);
    }
    thread::try_one_for_each_cpu()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("no tokio runtime")?;
    Ok(MULTI_THREAD.get_or_init(|| runtime))
}

impl fmt::Display for Application {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rail => "rail",
            Self::MultiThread => "multi-thread",
        })
    }
}

/// The channel of round trips.
pub(super) enum Channel {
    /// A plain flow or an MPTCP socket.
    Flow(Flow),
    /// A stream of the session.
    Stream(Box<Join<RecvStream, SendStream>>),
    /// The messages of a stream.
    Messages(MultiRailMessages),
}

impl Channel {
    /// The two directions of a stream as a channel.
    pub(super) fn stream((writing, reading): (SendStream, RecvStream)) -> Self {
        Self::Stream(Box::new(join(reading, writing)))
    }

    async fn ask(self, sizes: &[u32], count: u32) -> Result<Vec<RoundTrips>> {
        Ok(match self {
            Self::Flow(mut flow) => latency::ask(flow.get_mut(), sizes, count).await?,
            Self::Stream(mut stream) => latency::ask(&mut stream, sizes, count).await?,
            Self::Messages(mut messages) => {
                let figures = latency::ask_messages(&mut messages, sizes, count).await?;
                messages.close().await?;
                figures
            }
        })
    }

    async fn answer(self, waits: &Waits) -> Result<u64> {
        Ok(match self {
            Self::Flow(mut flow) => latency::answer(flow.get_mut(), waits).await?,
            Self::Stream(mut stream) => latency::answer(&mut stream, waits).await?,
            Self::Messages(mut messages) => {
                let answered = latency::answer_messages(&mut messages, waits).await?;
                messages.close().await?;
                answered
            }
        })
    }
}

/// Sends messages of each length, and gives the times of the round trips.
pub(super) async fn ask(
    call: &mut Call,
    channel: Channel,
    application: Application,
    rails: &Rails,
    sizes: Vec<u32>,
    count: u32,
) -> Result<Vec<RoundTrips>> {
    let rail = rails.iter().next().context("no rails")?;
    let asked = application.run(rail, async move { channel.ask(&sizes, count).await }).await;
    let figures = asked.context("the stream failed")?;
    let _answered: u64 = call.control.hear(MAX_ANSWERED).await?;
    Ok(figures)
}

/// Sends the guest's messages back, to the end of the channel. Returns the number of messages.
pub(super) async fn answer<L: Future<Output = Result<Listeners>>>(
    guest: &mut Guest,
    over: Carrier,
    application: Application,
    rails: &Rails,
    listeners: impl FnOnce() -> L,
) -> Result<u64> {
    let rail = rails.iter().next().context("no rails")?;
    let channel = match over {
        Carrier::Stream => {
            guest.control.say(&Reply::Begin).await?;
            Channel::stream(guest.session.accept_bi().await?)
        }
        Carrier::Messages => {
            let token = Token::random().context("no random numbers")?;
            let mut claim = guest.messages.wait(token, 1);
            guest.control.say(&Reply::Open(Door { port: None, token })).await?;
            let messages = tokio::select! {
                messages = claim.next() => messages,
                left = guest.session.closed() => return Err(left).context("the peer opened no stream of messages"),
            };
            guest.control.say(&Reply::Begin).await?;
            Channel::Messages(messages)
        }
        Carrier::Plain { .. } | Carrier::Mptcp => {
            let listeners = listeners().await;
            let listeners = guest.unless_refused(listeners).await?;
            let mut flows = listeners.gather(guest, 1).await?;
            guest.control.say(&Reply::Begin).await?;
            Channel::Flow(flows.swap_remove(0).1)
        }
    };
    let (session, waits) = (guest.session.clone(), guest.waits.clone());
    let answering = async move {
        tokio::select! {
            answered = channel.answer(&waits) => answered.context("the stream failed"),
            left = session.closed() => Err(left).context("the peer went away"),
        }
    };
    let answered = application.run(rail, answering).await?;
    // The asker closes the session when it knows that this end is done.
    guest.control.say(&answered).await?;
    Ok(answered)
}

/// The limit on the number of answers as text, in bytes.
const MAX_ANSWERED: usize = 20;
