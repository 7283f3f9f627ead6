//! `rails-bench tasks`

use crate::{
    commands::seconds,
    document::{Contents, Document, Schema},
    exit::Exit,
    machine::this_machine,
    measure::{
        neighbour::{self, Overhead},
        tasks::{self, Spread, TaskCosts},
    },
    print,
    table::Table,
};
use anyhow::Result;
use rails_topo::Machine;
use serde::Serialize;
use std::time::Duration;

/// Measure what a task in the queues on the topology costs on this machine
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The tables are those of PIOMan's paper (Trahay and Denis, tables I and II): an empty task is submitted, run and noticed, by the object at
which it waits, from a PU to the whole machine; beside threads that look for tasks all the time; and from its submission to its beginning
on another CPU, whose thread looks for tasks or sleeps. The submitting thread is bound to the first CPU that it may use.

A thread that computes there is then slowed by a rail of that CPU, whose tasks read from 16 streams in vain, and by a task that polls, run by
a worker in the idle class and a timer of 1 ms. The last figure is the CPU time of all of these while no task
polls. `overlap` and `ping-pong`, of the feature `lab`, measure the paper's figures 4 to 7.

Examples:
  rails-bench tasks
  rails-bench tasks --tasks 1000000 --json

Exit status: 0 if all was measured, 1 if a rail cannot be built. Where the system refuses to bind threads, a
task of the whole machine is all that is measured. Needs no privilege.")]
pub(crate) struct Args {
    /// Tasks for each figure; a hundredth as many, and 5000 at most, where a thread is woken for
    /// each
    #[arg(long, value_name = "COUNT", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(100..=10_000_000))]
    tasks: u32,
    /// How long work is done for each figure of the computing thread, and how long idleness is
    /// watched
    #[arg(long, value_name = "S", default_value = "5", value_parser = seconds)]
    seconds: Duration,
    /// Print the figures as JSON (docs/json.md)
    #[arg(long)]
    json: bool,
}

/// The figures, and the machine that they are of.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Report<'a> {
    /// The machine.
    machine: &'a Machine,
    #[serde(flatten)]
    costs: &'a TaskCosts,
    /// The cost to a thread that computes and to an idle CPU; `None` where threads cannot be bound.
    overhead: Option<&'a Overhead>,
}

impl Contents for Report<'_> {
    const SCHEMA: Schema = Schema::TASKS;
}

pub(crate) fn run(args: &Args) -> Result<Exit> {
    let topology = this_machine()?;
    let costs = tasks::costs(&topology, args.tasks as usize)?;
    let overhead = costs.is_bound.then(|| neighbour::overhead(&topology, args.seconds)).transpose()?;
    if args.json {
        let report = Report { machine: topology.machine(), costs: &costs, overhead: overhead.as_ref() };
        Document::of(report).print()?;
    } else {
        print::text(format_args!("{}{}", tables(topology.machine(), &costs), taken(overhead.as_ref())))?;
    }
    Ok(Exit::Done)
}

fn tables(machine: &Machine, costs: &TaskCosts) -> String {
    let known = |fact: &Option<String>| fact.clone().unwrap_or_else(|| "unknown".to_owned());
    let mut text = format!(
        "{}, kernel {}; the submitting thread is {}; less {:?} for each reading of the clock\n",
        known(&machine.cpu_model),
        known(&machine.kernel),
        match costs.is_bound {
            true => format!("bound to CPU {}", costs.cpu),
            false => "bound to no CPU, as the system refuses that".to_owned(),
        },
        costs.clock,
    );
    let first = costs.levels.first().map_or(Duration::ZERO, |level| level.cost.median);
    let mut table = table("an empty task, submitted, run and noticed on one core");
    for level in &costs.levels {
        row(&mut table, format!("waits at the {}, CPUs {}", level.object, level.cpus), &level.cost, Some(first));
    }
    for beside in &costs.beside {
        let pollers = format!("{} other CPU(s) look for tasks", beside.pollers);
        row(&mut table, format!("for this CPU, while {pollers}"), &beside.own, Some(first));
        row(&mut table, format!("for any CPU, while {pollers}"), &beside.machine, Some(first));
    }
    text += &format!("{table}\n");
    match &costs.elsewhere {
        Some(elsewhere) => {
            let mut table = self::table("from the submission to the beginning on another CPU");
            row(&mut table, format!("CPU {} looks for tasks", elsewhere.cpu), &elsewhere.spinning, None);
            row(&mut table, format!("the thread of CPU {} sleeps", elsewhere.cpu), &elsewhere.asleep, None);
            text += &format!("{table}\n");
        }
        None if costs.is_bound => text += "there is no other CPU to submit to\n",
        None => {}
    }
    text
}

/// The cost of rails and tasks that wait, to a thread that computes and to an idle CPU.
fn taken(overhead: Option<&Overhead>) -> String {
    let Some(overhead) = overhead else {
        return "all else is measured by threads that are bound to their CPUs\n".to_owned();
    };
    let Overhead { cpu, streams, timer, polls, idle_share, idle, .. } = overhead;
    let percent = |share: f64| format!("{:.2} %", share * 100.0);
    format!(
        "a thread that computes on CPU {cpu} is slowed, median of {} rounds\n  \
         by {} by a rail of that CPU, whose tasks read from {streams} streams in vain\n  \
         by {} if a task polls there as well ({polls} times in all rounds), with a worker and a timer of {timer:?}\n\
         all of these without a task that polls use {} of a CPU ({:.1} s)\n",
        overhead.alone_us.len(),
        percent(overhead.by_rail()),
        percent(overhead.by_polling()),
        format_args!("{:.3} %", idle_share * 100.0),
        idle.as_secs_f64(),
    )
}

fn table(subject: &str) -> Table {
    print::table(1, [subject, "median", "99th of 100", "min", "of the first"])
}

fn row(table: &mut Table, case: String, spread: &Spread, first: Option<Duration>) {
    let ratio = first.map(|first| format!("{:.2}", spread.median.as_secs_f64() / first.as_secs_f64().max(1e-9)));
    let time = |time: Duration| format!("{time:?}");
    table.add_row([case, time(spread.median), time(spread.late), time(spread.min), ratio.unwrap_or_default()]);
}
