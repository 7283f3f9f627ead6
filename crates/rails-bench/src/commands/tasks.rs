//! `rails-bench tasks`

use crate::{
    exit::Exit,
    machine::this_machine,
    measure::tasks::{self, Spread, TaskCosts},
    print,
};
use anyhow::Result;
use comfy_table::{CellAlignment, Table, presets::UTF8_HORIZONTAL_ONLY};
use rails_topo::Machine;
use serde::Serialize;
use std::time::Duration;

/// Measure what a task in the queues on the topology costs on this machine
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The tables are those of PIOMan's paper (Trahay and Denis, tables I and II): an empty task is submitted, run and noticed, by the object at
which it waits, from a PU to the whole machine; beside threads that look for tasks all the time; and from its submission to its beginning
on another CPU, whose thread looks for tasks or sleeps. The submitting thread is bound to the first CPU that it may use.

Examples:
  rails-bench tasks
  rails-bench tasks --tasks 1000000 --json

Exit status: 0 if all was measured, 1 if a thread cannot be bound. Needs no privilege.")]
pub(crate) struct Args {
    /// Tasks for each figure; a hundredth as many, and 5000 at most, where a thread is woken for each
    #[arg(long, value_name = "COUNT", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(100..=10_000_000))]
    tasks: u32,
    /// Print the figures as JSON
    #[arg(long)]
    json: bool,
}

/// The figures, and the machine that they are of.
#[derive(Debug, Serialize)]
struct Report<'a> {
    machine: &'a Machine,
    #[serde(flatten)]
    costs: &'a TaskCosts,
}

pub(crate) fn run(args: &Args) -> Result<Exit> {
    let topology = this_machine()?;
    let costs = tasks::costs(&topology, args.tasks as usize)?;
    if args.json {
        let report = Report { machine: topology.machine(), costs: &costs };
        print::result(format_args!("{}\n", serde_json::to_string_pretty(&report)?))?;
    } else {
        print::result(tables(topology.machine(), &costs))?;
    }
    Ok(Exit::Done)
}

fn tables(machine: &Machine, costs: &TaskCosts) -> String {
    let known = |fact: &Option<String>| fact.clone().unwrap_or_else(|| "unknown".to_owned());
    let mut text = format!(
        "{}, kernel {}; the submitting thread is bound to CPU {}; less {:?} for each reading of the clock\n",
        known(&machine.cpu_model),
        known(&machine.kernel),
        costs.cpu,
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
        None => text += "there is no other CPU to submit to\n",
    }
    text
}

fn table(subject: &str) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_HORIZONTAL_ONLY);
    table.set_header([subject, "median", "99th of 100", "least", "of the first"]);
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    table
}

fn row(table: &mut Table, case: String, spread: &Spread, first: Option<Duration>) {
    let ratio = first.map(|first| format!("{:.2}", spread.median.as_secs_f64() / first.as_secs_f64().max(1e-9)));
    let time = |time: Duration| format!("{time:?}");
    table.add_row([case, time(spread.median), time(spread.late), time(spread.least), ratio.unwrap_or_default()]);
}
