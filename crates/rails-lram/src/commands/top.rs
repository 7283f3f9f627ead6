//! `lram top`: the figures of nodes, again and again.

use crate::{
    commands::status::{Answers, open},
    site::{self, ReaderArgs},
};
use anyhow::Result;
use rails_cli::{duration, exit::Exit, print, thread::block_on};
use rails_lambdaram::{Site, wire::NodeStatus};
use rails_topo::DataSize;
use std::{
    collections::HashMap,
    fmt::Write,
    io::{IsTerminal, stdout},
    sync::Arc,
    time::Duration,
};
use tokio::time::{MissedTickBehavior, interval};

/// Show again and again what nodes keep, and what they did since the last time
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A line for each node and time: the memory in use, its level, links, and the blocks of the interval: demand hits, prefetch hits, \
late ones, misses, fetched ahead, waste (`lram status --help` explains them). On a terminal the lines replace those before.")]
pub(crate) struct Args {
    /// The nodes: lram://HOST (or HOST:PORT), several of them as lram://HOST,HOST
    address: String,
    /// The time between two looks, such as 500ms; at least 100ms
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = every)]
    every: Duration,
    /// End after so many looks [default: with a signal]
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    #[command(flatten)]
    reader: ReaderArgs,
}

pub(crate) fn run(args: Args) -> Result<Exit> {
    block_on(site::reading(open(&args.address, &args.reader), async |site| watch(&args, site).await))
}

async fn watch(args: &Args, site: &Site) -> Result<Exit> {
    let mut ticks = interval(args.every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let replaces = stdout().is_terminal();
    let mut before = HashMap::new();
    let mut left = args.count;
    if !replaces {
        print::result(format_args!("{HEADER}\n"))?;
    }
    while left != Some(0) {
        ticks.tick().await;
        let lines = lines(&site.upstream_status().await, &mut before);
        let is_read = if replaces {
            // To the first column of the first line, and all is cleared.
            print::more(format_args!("\x1b[H\x1b[J{HEADER}\n{lines}"))?
        } else {
            print::more(lines)?
        };
        if !is_read {
            break;
        }
        left = left.map(|left| left - 1);
    }
    Ok(Exit::Done)
}

/// A line for each node. `before` has the sums at the last look.
fn lines(answers: &Answers, before: &mut HashMap<Arc<str>, [u64; 6]>) -> String {
    let mut text = String::new();
    for (node, answer) in answers {
        let status = match answer {
            Ok(status) => status,
            Err(error) => {
                let _ = writeln!(text, "{node:<24} no answer: {}", error.reason.lines().next().unwrap_or_default());
                continue;
            }
        };
        let slot = u64::from(status.slot_bytes);
        let used = DataSize::bytes(u64::from(status.slots - status.free.min(status.slots)) * slot);
        let now = sums(status);
        let last = before.insert(Arc::clone(node), now).unwrap_or(now);
        let _ = write!(text, "{node:<24} {:>10} {:>5} {:>5}", used.to_string(), status.level, status.links);
        for (now, last) in now.iter().zip(last) {
            // A node that started anew counts from 0.
            let _ = write!(text, " {:>8}", now.checked_sub(last).unwrap_or(*now));
        }
        text.push('\n');
    }
    text
}

/// The sums over all budgets, in the order of the columns.
fn sums(status: &NodeStatus) -> [u64; 6] {
    status.budgets.iter().fold([0; 6], |sums, budget| {
        let figures = [
            budget.hits.saturating_sub(budget.ahead_hits),
            budget.ahead_hits,
            budget.late_ahead,
            budget.misses,
            budget.ahead_fetched,
            budget.unused,
        ];
        std::array::from_fn(|at| sums[at].saturating_add(figures[at]))
    })
}

fn every(text: &str) -> Result<Duration, String> {
    let every = duration::parse(text)?;
    if every < Duration::from_millis(100) { Err("it is at least 100ms".to_owned()) } else { Ok(every) }
}

const HEADER: &str =
    "node                         in use level links   demand prefetch     late   misses    ahead    waste";

#[cfg(test)]
mod tests {
    use super::*;
    use rails_lambdaram::wire::BudgetStatus;

    #[test]
    fn lines_have_what_is_new() {
        let status = |hits| {
            let budget = BudgetStatus { hits, ahead_hits: hits / 2, ..BudgetStatus::default() };
            let budgets = vec![budget.clone(), budget];
            NodeStatus { slots: 8, free: 4, slot_bytes: 65_536, budgets, ..NodeStatus::default() }
        };
        let mut before = HashMap::new();
        let first = lines(&vec![("east:1".into(), Ok(status(100)))], &mut before);
        assert!(first.starts_with("east:1 ") && first.contains(" 256 KiB "), "{first}");
        assert!(first.split_whitespace().skip(6).all(|figure| figure == "0"), "{first}");
        let second = lines(&vec![("east:1".into(), Ok(status(110)))], &mut before);
        assert_eq!(second.split_whitespace().skip(5).take(2).collect::<Vec<_>>(), ["10", "10"], "{second}");
        assert_eq!(HEADER.len(), second.trim_end().len(), "{second}");
    }

    #[test]
    fn intervals_have_a_limit() {
        assert_eq!(every("100ms"), Ok(Duration::from_millis(100)));
        assert!(every("99ms").is_err());
    }
}
