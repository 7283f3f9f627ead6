//! Round trips: `stream --ping` and `serve --ping`.

use crate::{
    admission::{Admission, MessageListener, is_passed_over},
    endpoint::{Endpoint, Remotes, StreamArgs, not_listening, say_listening, socket},
    exit::{Exit, explain},
    measure::{
        latency::{self, RoundTrips},
        mptcp,
    },
    print,
    purpose::{self, GreetingChannel, InMessages, Purpose},
    reset::MessageStream,
    stop::Stop,
    thread,
    tls::TlsArgs,
};
use anyhow::{Context, Result};
use rails_multirail::{LaneAddress, MultiRailMessages, MultiRailStream, Rail, StreamOptions};
use rails_net::{TcpLane, TcpTransport};
use serde::Serialize;
use std::{fmt, sync::OnceLock};
use tokio::{net::TcpStream, runtime::Runtime};

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

/// The carrier of messages.
#[derive(Debug)]
pub(super) enum Over {
    /// A plain flow to the first address.
    Plain(Box<TcpTransport>),
    /// One socket of the kernel's MPTCP to the first address, with this congestion control.
    Mptcp(Option<String>),
    /// The bytes of a stream.
    Bytes,
    /// The messages of a stream.
    Messages,
}

impl Over {
    /// The carrier that the flags choose. Must be called inside a runtime, because TCP's options
    /// are tried on a socket.
    pub(super) fn chosen<T: TlsArgs>(
        options: &StreamArgs<T>,
        plain: bool,
        mptcp: bool,
        messages: bool,
    ) -> Result<Self> {
        Ok(match (plain, mptcp, messages) {
            (true, ..) => Self::Plain(Box::new(options.tcp()?)),
            (_, true, _) => Self::Mptcp(options.congestion().map(str::to_owned)),
            (.., true) => Self::Messages,
            _ => Self::Bytes,
        })
    }
}

/// Sends messages of each length, and prints the times of the round trips.
pub(super) async fn ask(
    endpoint: &Endpoint,
    remotes: &Remotes,
    over: Over,
    application: Application,
    (sizes, count): (&[u32], u32),
    json: bool,
    mut stop: Stop,
) -> Result<Exit> {
    let (sizes, rail) = (sizes.to_vec(), first(endpoint)?);
    let figures = match over {
        Over::Plain(tcp) => {
            let remote = socket(&remotes.firsts()[0])?;
            let from = tcp.local(rail.local_end());
            let asked = application.run(rail, async move {
                let mut lane = from.connect(remote).await?;
                ask_socket(lane.get_mut(), &sizes, count).await
            });
            stop.or(async { asked.await.context("--to") }).await?
        }
        Over::Mptcp(congestion) => {
            let connecting = mptcp::connect(rail, socket(&remotes.firsts()[0])?, congestion);
            let asked = application.run(rail, async move { ask_socket(&mut connecting.await?, &sizes, count).await });
            stop.or(async { asked.await.context("--to") }).await?
        }
        Over::Bytes | Over::Messages => {
            let by_messages = matches!(over, Over::Messages);
            let (stream, _) = if by_messages {
                endpoint.connect(remotes, Purpose::Ask, &mut stop).await?
            } else {
                endpoint.open(remotes, Purpose::Ask, &mut stop).await?
            };
            let asked = application.run(rail, async move {
                if by_messages {
                    let ask = async |messages: &mut MultiRailMessages| {
                        approach(&mut InMessages(messages)).await?;
                        Ok(latency::ask_messages(messages, &sizes, count).await?)
                    };
                    let (figures, messages) = stop.unless_messages(MessageStream::new(stream)?, ask).await?;
                    messages.close().await?;
                    return anyhow::Ok(figures);
                }
                let ask = async |stream: &mut MultiRailStream| Ok(latency::ask(stream, &sizes, count).await?);
                let (figures, stream) = stop.unless(stream, ask).await?;
                stream.close().await?;
                anyhow::Ok(figures)
            });
            asked.await.context("the stream failed")?
        }
    };
    if json {
        print::result(format_args!("{}\n", serde_json::to_string(&figures)?))?;
        return Ok(Exit::Done);
    }
    for one in &figures {
        let (bytes, count, p50, p99) = (one.bytes, one.count, one.p50_us, one.p99_us);
        print::result(format_args!("{bytes} bytes: {count} round trips, p50 {p50:.1} us, p99 {p99:.1} us\n"))?;
    }
    Ok(Exit::Done)
}

/// Sends messages back: those of plain flows or of MPTCP to the first address, or those of streams.
pub(super) async fn answer(
    endpoint: &Endpoint,
    addresses: &[LaneAddress],
    over: Over,
    application: Application,
    once: bool,
    mut stop: Stop,
) -> Result<Exit> {
    let mut source = Source::bind(endpoint, addresses, over, application).await?;
    let ended = answer_all(&mut source, (application, first(endpoint)?), once, &mut stop).await;
    source.close().await;
    ended
}

async fn answer_all(source: &mut Source, on: (Application, &Rail), once: bool, stop: &mut Stop) -> Result<Exit> {
    loop {
        match source.answer_one(on, stop).await {
            Ok(answered) => print::note(format_args!("answered {answered} messages")),
            Err(error) if is_passed_over(&error, once) => {
                explain(&error);
                continue;
            }
            Err(error) => return Err(error),
        }
        if once {
            return Ok(Exit::Done);
        }
    }
}

/// The source of messages.
enum Source {
    Plain(Admission<TcpLane>),
    Mptcp(Admission<TcpStream>),
    Bytes(Admission),
    Messages(Admission<MessageStream>),
}

impl Source {
    async fn bind(
        endpoint: &Endpoint,
        addresses: &[LaneAddress],
        over: Over,
        application: Application,
    ) -> Result<Self> {
        let rail = first(endpoint)?;
        let tcp = match over {
            Over::Plain(tcp) => tcp,
            Over::Mptcp(congestion) => {
                let bound = mptcp::Listener::bind(socket(&addresses[0])?, congestion.as_deref());
                let bound = bound.map_err(|error| not_listening(error.into(), &addresses[..1]))?;
                say_listening(&[bound.local_addr()?.into()]);
                let guests = application.run(rail, async { bound.greeted(Purpose::Answer) });
                return Ok(Self::Mptcp(guests.await?));
            }
            Over::Bytes => return Ok(Self::Bytes(Admission::of(endpoint.listen(addresses).await?, Purpose::Answer))),
            Over::Messages => {
                let listener = MessageListener(endpoint.listen(addresses).await?);
                return Ok(Self::Messages(Admission::of(listener, Purpose::Answer)));
            }
        };
        let address = socket(&addresses[0])?;
        let bound = rail.runtime().spawn(async move { tcp.listen(address) }).await?;
        let bound = bound.map_err(|error| not_listening(error.into(), &addresses[..1]))?;
        say_listening(&[bound.local_addr().into()]);
        let guests = application.run(rail, async { Ok(Admission::of(bound, Purpose::Answer)) });
        Ok(Self::Plain(guests.await?))
    }

    async fn answer_one(&mut self, (application, rail): (Application, &Rail), stop: &mut Stop) -> Result<u64> {
        let mut answering = stop.clone();
        match self {
            Self::Plain(guests) => {
                let mut lane = stop.or(guests.next()).await?;
                let answered = application.run(rail, async move { answer_socket(lane.get_mut()).await });
                stop.or(answered).await
            }
            Self::Mptcp(guests) => {
                let mut stream = stop.or(guests.next()).await?;
                let answered = application.run(rail, async move { answer_socket(&mut stream).await });
                stop.or(answered).await
            }
            Self::Messages(guests) => {
                let conversation = stop.or(guests.next()).await?;
                let answered = application.run(rail, async move {
                    let answer = async |messages: &mut MultiRailMessages| {
                        purpose::give_turn(&mut InMessages(messages)).await?;
                        Ok(latency::answer_messages(messages).await?)
                    };
                    let (answered, messages) = answering.unless_messages(conversation, answer).await?;
                    messages.close().await?;
                    anyhow::Ok(answered)
                });
                answered.await
            }
            Self::Bytes(guests) => {
                let stream = stop.or(guests.next()).await?;
                let answered = application.run(rail, async move {
                    let answer = async |stream: &mut MultiRailStream| {
                        purpose::give_turn(stream).await?;
                        Ok(latency::answer(stream).await?)
                    };
                    let (answered, stream) = answering.unless(stream, answer).await?;
                    stream.close().await?;
                    anyhow::Ok(answered)
                });
                answered.await
            }
        }
    }

    /// Resets the streams that still wait.
    async fn close(self) {
        match self {
            Self::Plain(guests) => guests.reset_waiting().await,
            Self::Mptcp(guests) => guests.reset_waiting().await,
            Self::Bytes(guests) => guests.reset_waiting().await,
            Self::Messages(guests) => guests.reset_waiting().await,
        }
    }
}

/// Asks over one socket.
async fn ask_socket(stream: &mut TcpStream, sizes: &[u32], count: u32) -> Result<Vec<RoundTrips>> {
    approach(stream).await?;
    Ok(latency::ask(stream, sizes, count).await?)
}

/// Gives one socket its turn, and answers over it. Returns the number of messages.
async fn answer_socket(stream: &mut TcpStream) -> Result<u64> {
    purpose::give_turn(stream).await?;
    Ok(latency::answer(stream).await?)
}

/// Greets the end that answers, and waits for its turn.
async fn approach(stream: &mut impl GreetingChannel) -> Result<()> {
    purpose::greet(stream, Purpose::Ask).await.map_err(|misfit| misfit.helped(Purpose::Ask))?;
    Ok(purpose::await_turn(stream).await?)
}

fn first(endpoint: &Endpoint) -> Result<&Rail> {
    endpoint.rails.iter().next().context("no rails")
}
