//! `rails-bench plan`

use crate::{
    document::{Contents, Document, Schema},
    endpoint::{Address, Endpoint, Paired, Remotes, StreamArgs},
    exit::Exit,
    machine::MachineArgs,
    placement::{self, PlacementArgs, with_remedies},
    print,
    thread::block_on,
    tls::ClientTls,
};
use anyhow::{Context, Result};
use rails_bind::{
    Unheld,
    interrupt::irqbalance::{self, BalancerPlan},
};
use rails_multirail::{RailPlan, RailRequest};
use serde::Serialize;
use std::path::Path;

/// Print the parts of rails, and why each was chosen, without making the rails
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Which rails (SPEC):
  auto                 one on each NIC that is up; where no device has an address, as in containers,
                       on interfaces made in software (veth, bridge, bond, VLAN)
  4                    four on the fastest NICs, different cards and nodes first among equals
  loopback             one per core on 127.0.0.1, 127.0.0.2, ..., at least two
  loopback:3           three of them
  eth0,10.0.1.2        one on each of these interfaces and local addresses
  eth0,eth0            two on one interface, on two of its addresses where it has two
  peer:10.0.1.9        one on a NIC whose network has that address
  eth0+gpu0,nvme0+eth1 a NIC's rail beside a GPU, and one beside a disk
  cores:2              one of two cores without a NIC; eth0+cores:2 adds a core for tasks
  eth0@4,eth1@8-11     one on each, on these CPUs; eth0@4/1 with memory from node 1
  eth0@default         one that nothing is bound for

Examples:
  rails-bench plan --rails auto
  rails-bench plan --rails 2 --topology machine.xml
  rails-bench plan --rails eth0,eth1 --cores 2 --exclusive --require thread
  rails-bench plan --rails auto --peer 10.0.1.9 --secret-file secret")]
pub(crate) struct Args {
    /// Which rails are wished for; see below
    #[arg(long, value_name = "SPEC")]
    rails: RailRequest,
    /// Cores of each rail: one drives its lane, the others are for tasks
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=1024))]
    cores: usize,
    #[command(flatten)]
    placement: PlacementArgs,
    /// Put several rails on one NIC if there are fewer NICs than rails
    #[arg(long)]
    share_nics: bool,
    /// Print the plan as JSON (docs/json.md)
    #[arg(long)]
    json: bool,
    /// Ask the `recv` or `serve` that listens there for its lanes, pair them with the rails, and
    /// try each pair. It opens no stream, but makes the rails for as long as it takes
    #[arg(long, value_name = "ADDR", conflicts_with = "topology")]
    peer: Option<Address>,
    #[command(flatten)]
    machine: MachineArgs,
    #[command(flatten)]
    stream: StreamArgs<ClientTls>,
}

/// A plan, and the results of trying it.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Report<'a> {
    #[serde(flatten)]
    plan: &'a RailPlan,
    /// The properties that the system refuses the placement; none for the machine of `--topology`.
    unheld: &'a [Unheld],
    /// With `--peer`, the lanes.
    #[serde(skip_serializing_if = "Option::is_none")]
    paired: Option<&'a Paired>,
}

impl Contents for Report<'_> {
    const SCHEMA: Schema = Schema::PLAN;
}

pub(crate) fn run(args: &Args) -> Result<Exit> {
    let mut request = args.placement.of(&args.rails);
    (request.cores, request.share_nics) = (args.cores, args.share_nics);
    let topology = args.machine.topology()?;
    let mut plan = placement::plan_on(&args.machine, &topology, &request, "--rails")?;
    if args.machine.is_this_machine() {
        plan.notes.extend(balancing());
    }
    let unheld = match args.machine.is_this_machine() {
        true => placement::tried(&plan, &request).context("--rails")?,
        false => Vec::new(),
    };
    let paired = args.peer.as_ref().map(|peer| block_on(pair(args, peer, plan.clone()))).transpose()?;
    if args.json {
        Document::of(Report { plan: &plan, unheld: &unheld, paired: paired.as_ref() }).print()?;
    } else {
        print::text(&plan)?;
        for unheld in &unheld {
            print::text(format_args!("not held: {}", with_remedies(unheld)))?;
        }
        if let Some(paired) = &paired {
            print::text(format_args!("\n{paired}\n"))?;
        }
    }
    let complete = paired.is_none_or(|paired| paired.is_complete());
    Ok(if complete { Exit::Done } else { Exit::Failed })
}

async fn pair(args: &Args, peer: &Address, plan: RailPlan) -> Result<Paired> {
    let called = std::slice::from_ref(peer);
    let contacts = Remotes::of("--peer", called).await?;
    let rails = placement::build_planned(&plan)?;
    Endpoint::new(args.machine.topology()?, plan, rails, args.stream.options(called)?).probe(&contacts).await
}

/// The advice on irqbalance when interrupts are placed; nothing where it does not run.
fn balancing() -> Option<String> {
    match irqbalance::heed(Path::new("/"), Vec::new()) {
        Ok((BalancerPlan::None, _)) => None,
        Ok((plan, _)) => Some(plan.to_string()),
        Err(error) => Some(error.to_string()),
    }
}
