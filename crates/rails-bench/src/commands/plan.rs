//! `rails-bench plan`

use crate::{ending::Ending, machine::MachineArgs, print};
use anyhow::{Context, Result};
use rails_bind::interrupt::balancer::{self, BalancerPlan};
use rails_multirail::{RailRequest, plan::plan};
use std::path::Path;

/// Say what rails would be made of, and why, without making them
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Which rails (SPEC):
  auto                 one on each NIC that is up
  4                    four on the fastest NICs, different cards first among equals
  loopback             one per core on 127.0.0.1, 127.0.0.2, ..., at least two
  loopback:3           three of them
  eth0,10.0.1.2        one on each of these interfaces and local addresses
  eth0@4,eth1@8-11     the same, on these CPUs

Examples:
  rails-bench plan --rails auto
  rails-bench plan --rails 2 --xml machine.xml")]
pub(crate) struct Args {
    /// Which rails are wished for; see below
    #[arg(long, value_name = "SPEC")]
    rails: RailRequest,
    /// Print the plan as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    machine: MachineArgs,
}

pub(crate) fn run(args: &Args) -> Result<Ending> {
    let mut plan = plan(&args.machine.topology()?, &args.rails).context("--rails")?;
    if args.machine.is_this_machine() {
        plan.notes.extend(balancing());
    }
    if args.json {
        print::result(format_args!("{}\n", serde_json::to_string_pretty(&plan)?))?;
    } else {
        print::result(&plan)?;
    }
    Ok(Ending::Done)
}

/// What is done about irqbalance when interrupts are placed; nothing where it does not run.
fn balancing() -> Option<String> {
    match balancer::heed(Path::new("/"), Vec::new()) {
        Ok((BalancerPlan::None, _)) => None,
        Ok((plan, _)) => Some(plan.to_string()),
        Err(error) => Some(error.to_string()),
    }
}
