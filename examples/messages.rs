//! Requests, answers and bulk data as messages over two rails, the urgent ones first.
//!
//! Run: `cargo run --release --example messages`
//!
//! Expected: 16 large messages arrive whole, and every question is answered while they are on their
//! way. The example prints the times of the answers: an answer overtakes unsent bytes of large
//! messages, but not bytes that are in the sockets.

use anyhow::{Context, ensure};
use bytes::Bytes;
use rails::{
    multirail::{
        MessageReceiver, MessageSender, MultiRailListener, MultiRailMessages, MultiRailStream, Priority, RailRequest,
        Rails, Secret, StreamOptions, plan_rails,
    },
    topo::Topology,
};
use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let exchanged = run(16, 20).await?;
    let mut took = exchanged.answers_took;
    took.sort_unstable();
    println!("{} bytes in {} large messages", exchanged.bytes, exchanged.large);
    println!(
        "{} answers, the median after {:.1?}, the last after {:.1?}",
        took.len(),
        took[took.len() / 2],
        took[took.len() - 1]
    );
    Ok(())
}

/// The counts of the exchange.
pub(crate) struct Exchanged {
    /// Large messages that arrived.
    pub(crate) large: usize,
    /// Their bytes.
    pub(crate) bytes: usize,
    /// How long each answer took.
    pub(crate) answers_took: Vec<Duration>,
}

/// Sends `large` messages of 4 MiB, and asks `questions` questions meanwhile.
pub(crate) async fn run(large: usize, questions: usize) -> anyhow::Result<Exchanged> {
    let rails = Rails::build(&plan_rails(&Topology::detect()?, &RailRequest::loopback(2))?)?;
    // Two programs would get the secret at their start.
    let mut secret = [0; 32];
    getrandom::fill(&mut secret)?;
    let options = StreamOptions::new(Secret::pre_shared(&secret)?);
    let addresses = rails.iter().map(|rail| Some(SocketAddr::new(rail.planned().address?, 0)));
    let addresses: Vec<SocketAddr> = addresses.collect::<Option<_>>().context("a rail has no address")?;
    let listener = MultiRailListener::bind(&rails, &addresses, &options).await?;
    let near = MultiRailStream::connect(&rails, listener.local_addrs(), &options).await?.into_messages()?;
    let far = listener.accept().await?.into_messages()?;

    let answering = tokio::spawn(answer(far));
    let (sender, receiver) = near.split();
    let (asked, answers_took) = tokio::try_join!(ask(sender, large, questions), take_answers(receiver, questions))?;
    let (arrived, bytes) = answering.await??;
    ensure!(arrived == large, "{large} large messages were sent, {arrived} arrived");
    let answers_took = answers_took.into_iter().zip(asked).map(|(answered, asked)| answered - asked).collect();
    Ok(Exchanged { large: arrived, bytes, answers_took })
}

/// Sends large messages with questions in between, and gives the time of each question.
async fn ask(mut sender: MessageSender, large: usize, questions: usize) -> anyhow::Result<Vec<Instant>> {
    let bulk = Bytes::from(vec![7; 4 << 20]);
    let mut asked = Vec::new();
    for step in 0..large.max(questions) {
        if step < large {
            sender.send(bulk.clone(), Priority::LOWEST).await?;
        }
        if step < questions {
            asked.push(Instant::now());
            sender.send(Bytes::from(format!("question {step}")), Priority::HIGHEST).await?;
        }
    }
    sender.finish().await?;
    Ok(asked)
}

/// The time of each answer. Answers arrive in the order of the questions, because they have one
/// priority.
async fn take_answers(mut receiver: MessageReceiver, questions: usize) -> anyhow::Result<Vec<Instant>> {
    let mut answered = Vec::new();
    while let Some(answer) = receiver.recv().await? {
        let expected = format!("answer to question {}", answered.len());
        ensure!(answer.payload == expected, "{:?} instead of {expected:?}", answer.payload);
        answered.push(Instant::now());
    }
    ensure!(answered.len() == questions, "{questions} questions, {} answers", answered.len());
    Ok(answered)
}

/// Answers urgent messages and counts the others.
async fn answer(messages: MultiRailMessages) -> anyhow::Result<(usize, usize)> {
    let (mut sender, mut receiver) = messages.split();
    let (mut large, mut bytes) = (0, 0);
    while let Some(message) = receiver.recv().await? {
        if message.priority == Priority::HIGHEST {
            let answer = [b"answer to ", &message.payload[..]].concat();
            sender.send(answer.into(), Priority::HIGHEST).await?;
        } else {
            large += 1;
            bytes += message.payload.len();
        }
    }
    sender.finish().await?;
    Ok((large, bytes))
}
