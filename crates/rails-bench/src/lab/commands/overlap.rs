//! `overlap`: messages beside threads that compute.

use super::contest::{ContestArgs, all_different, explained, machine_of_two_cpus};
use crate::{
    duration,
    exit::Exit,
    lab::{
        background::{Message, OverlapContest},
        compare::Link,
        rate,
    },
    print, size,
};
use anyhow::Result;
use rails_lab::Shape;

/// Measure how far messages and computation overlap, over rails and plain TCP (needs root)
///
/// The figures are those of PIOMan's paper (Trahay and Denis, figures 5 to 7): a program starts a
/// message, does a fixed amount of work, and waits for the message's end; the figure is the time of
/// the work alone over the time of all. The ends are processes on one CPU each, where the
/// rail's thread is too: no core is idle. The sender's message ends when it hears that the receiver
/// has it. In each round every carrier runs once, in random order; the first round does not count.
///
/// Example: rails-bench overlap --messages 32KiB@1ms,1MiB@20ms --rounds 5 --json overlap.json
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The link's rate in Mbit/s with the burst of its token bucket, or `unshaped`
    #[arg(long, value_name = "RATE", default_value = "1000/128KiB", value_parser = rate::shape)]
    rate: Shape,
    /// Lengths of the messages, each with the time of the work beside it
    #[arg(long, value_name = "SIZE@TIME", value_delimiter = ',', default_value = "32KiB@1ms,1MiB@20ms", value_parser = message)]
    messages: Vec<Message>,
    /// Messages of each length, in each case of each round
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    count: u32,
    #[command(flatten)]
    contest: ContestArgs,
}

pub(crate) fn run(args: &Args) -> Result<Exit> {
    all_different("--messages", &args.messages)?;
    let contest = OverlapContest {
        link: Link::Veth(args.rate),
        messages: args.messages.clone(),
        count: args.count,
        terms: args.contest.terms()?,
    };
    let report = contest.run(&machine_of_two_cpus()?, |round, who| args.contest.say(round, who)).map_err(explained)?;
    print::text(&report)?;
    args.contest.write(&report)?;
    Ok(Exit::Done)
}

/// Reads `32KiB@1ms`.
fn message(text: &str) -> Result<Message, String> {
    let (bytes, work) =
        text.split_once('@').ok_or(format!("`{text}` is not a length and a time, such as 32KiB@1ms"))?;
    let size = size::parse(bytes)?.as_bytes();
    let bytes = u32::try_from(size).ok().filter(|bytes| (1..=LONGEST).contains(bytes));
    let work_us = duration::parse(work)?.as_micros();
    let work_us = u64::try_from(work_us).ok().filter(|work| (1..=LONGEST_WORK_US).contains(work));
    Ok(Message {
        bytes: bytes.ok_or(format!("`{text}`: a message has 1 to {LONGEST} bytes"))?,
        work_us: work_us.ok_or(format!("`{text}`: the work takes 1 us to 10 s"))?,
    })
}

/// Bytes of the longest message.
const LONGEST: u32 = 1 << 30;
/// The longest work.
const LONGEST_WORK_US: u64 = 10_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_a_length_and_work() {
        assert_eq!(message("32KiB@1ms"), Ok(Message { bytes: 32 << 10, work_us: 1000 }));
        let bad = [
            ("32KiB", "such as 32KiB@1ms"),
            ("@1ms", "number"),
            ("0@1ms", "1 to"),
            ("2GiB@1ms", "1 to"),
            ("1@1", "no unit"),
            ("1@0", "1 us to 10 s"),
            ("1@11s", "1 us to 10 s"),
        ];
        for (text, said) in bad {
            assert!(message(text).unwrap_err().contains(said), "{text}");
        }
    }
}
