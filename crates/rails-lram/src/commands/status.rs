//! `lram status`: the figures of nodes that serve.

use crate::{
    site::{self, LITTLE_MEMORY, ReaderArgs},
    text::printable,
};
use anyhow::Result;
use rails_cli::{
    exit::{Exit, Helped},
    print,
    thread::block_on,
};
use rails_lambdaram::{
    LinkError, Site, SiteAddress,
    wire::{BudgetStatus, NodeStatus},
};
use rails_topo::DataSize;
use serde_json::json;
use std::{
    collections::BTreeMap,
    fmt::{Display, Write},
    sync::Arc,
};

/// Show what nodes keep, and how their readers fare
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A read of a block is a demand hit (it was there, because it was asked for before), a prefetch hit (it was there, fetched ahead), \
late (it was on its way ahead of time) or a miss. Waste are blocks that came ahead of time and were given up unused.

An application has memory for each dataset, of all arrays together; `lram serve --budget` says how much. The figures of reads \
are those of each array.

The level says how full the memory is, from 0 to 4: it begins at 50, 65, 80 and 90 % of the memory.")]
pub(crate) struct Args {
    /// The nodes: lram://HOST (or HOST:PORT), several of them as lram://HOST,HOST
    address: String,
    /// Print a JSON list
    #[arg(long, conflicts_with = "prometheus")]
    json: bool,
    /// Print the text that Prometheus reads
    #[arg(long)]
    prometheus: bool,
    #[command(flatten)]
    reader: ReaderArgs,
}

/// The answer of each node.
pub(super) type Answers = Vec<(Arc<str>, Result<NodeStatus, LinkError>)>;

pub(crate) fn run(args: Args) -> Result<Exit> {
    block_on(site::reading(open(&args.address, &args.reader), async |site| status(&args, site).await))
}

async fn status(args: &Args, site: &Site) -> Result<Exit> {
    let answers = site.upstream_status().await;
    if answers.iter().all(|(_, answer)| answer.is_err())
        && let Some((_, Err(error))) = answers.first()
    {
        return Err(site::helped(error.clone().into(), &args.address));
    }
    if args.json {
        print::result(format_args!("{}\n", json(&answers)))?;
    } else if args.prometheus {
        print::result(prometheus(&answers))?;
    } else {
        print::text(text(&answers))?;
    }
    let is_whole = answers.iter().all(|(_, answer)| answer.is_ok());
    Ok(if is_whole { Exit::Done } else { Exit::Failed })
}

/// Opens the site of nodes; files have no node to ask.
pub(super) async fn open(address: &str, reader: &ReaderArgs) -> Result<Site> {
    match address.parse() {
        Ok(SiteAddress::Files(_)) => Err(Helped::usage(
            format_args!("{address}: no node is there to be asked"),
            "the address of a node is lram://HOST (or HOST:PORT)",
        )),
        _ => reader.open(address, LITTLE_MEMORY).await,
    }
}

fn text(answers: &Answers) -> String {
    let mut text = String::new();
    for (node, answer) in answers {
        let status = match answer {
            Ok(status) => status,
            Err(error) => {
                let _ = writeln!(text, "node     {node}: no answer: {}", error.reason);
                continue;
            }
        };
        let slot = u64::from(status.slot_bytes);
        let size = |slots: u32| DataSize::bytes(u64::from(slots) * slot);
        let _ = writeln!(text, "node     {node}");
        let _ = writeln!(
            text,
            "memory   {} in slots of {}: {} cached, {} on its way, {} promised, {} free; level {} of 4",
            size(status.slots),
            DataSize::bytes(slot),
            size(status.cached),
            size(status.in_transit),
            size(status.credited),
            size(status.free),
            status.level
        );
        let _ = writeln!(text, "links    {}", status.links);
        if status.budgets.is_empty() {
            continue;
        }
        let _ = writeln!(text, "{}", memory_of_applications(status, size));
        let mut table = print::table(3, BUDGET_COLUMNS.to_vec());
        for budget in &status.budgets {
            let names = [&budget.application, &budget.dataset, &budget.array].map(|name| printable(name));
            let figures = [
                budget.hits.saturating_sub(budget.ahead_hits),
                budget.ahead_hits,
                budget.late_ahead,
                budget.misses,
                budget.ahead_fetched,
                budget.pushed,
                budget.unused,
                budget.reclaimed,
                budget.failed,
            ];
            table.add_row(names.into_iter().chain(figures.map(|figure| figure.to_string())).collect::<Vec<_>>());
        }
        let _ = writeln!(text, "{table}");
    }
    text
}

/// What each application has of each dataset, and may have.
fn memory_of_applications(status: &NodeStatus, size: impl Fn(u32) -> DataSize) -> impl Display {
    let mut held = BTreeMap::new();
    for budget in &status.budgets {
        let limits = (budget.min_slots, budget.max_slots, budget.weight);
        let (slots, _) = held.entry((&budget.application, &budget.dataset)).or_insert((0_u32, limits));
        *slots = slots.saturating_add(budget.slots);
    }
    let mut table = print::table(2, MEMORY_COLUMNS.to_vec());
    for ((application, dataset), (slots, (min, max, weight))) in held {
        let sizes = [slots, min, max.min(status.slots)].map(|slots| size(slots).to_string());
        let names = [application, dataset].map(|name| printable(name));
        table.add_row(names.into_iter().chain(sizes).chain([weight.to_string()]).collect::<Vec<_>>());
    }
    table
}

const MEMORY_COLUMNS: [&str; 6] = ["application", "dataset", "in use", "min", "max", "weight"];
const BUDGET_COLUMNS: [&str; 12] = [
    "application",
    "dataset",
    "array",
    "demand hits",
    "prefetch hits",
    "late",
    "misses",
    "fetched ahead",
    "pushed",
    "waste",
    "given up",
    "failed",
];

fn json(answers: &Answers) -> serde_json::Value {
    let nodes = answers.iter().map(|(node, answer)| match answer {
        Ok(status) => json!({ "node": **node, "status": status }),
        Err(error) => json!({ "node": **node, "error": *error.reason }),
    });
    nodes.collect()
}

/// The figures in the text format of Prometheus, version 0.0.4.
fn prometheus(answers: &Answers) -> String {
    let mut text = String::new();
    let up = answers.iter().map(|(node, answer)| (label("node", node), u64::from(answer.is_ok())));
    family(&mut text, "lram_up", "gauge", "Whether the node answers.", up);
    let answered: Vec<_> = answers.iter().filter_map(|(node, answer)| Some((node, answer.as_ref().ok()?))).collect();
    let memory = answered.iter().flat_map(|(node, status)| {
        let states = [
            ("free", status.free),
            ("in_transit", status.in_transit),
            ("cached", status.cached),
            ("credited", status.credited),
        ];
        states.map(|(state, slots)| {
            let labels = format!("{},{}", label("node", node), label("state", state));
            (labels, u64::from(slots) * u64::from(status.slot_bytes))
        })
    });
    family(&mut text, "lram_memory_bytes", "gauge", "Memory for blocks by what it holds.", memory);
    let levels = answered.iter().map(|(node, status)| (label("node", node), u64::from(status.level)));
    family(&mut text, "lram_memory_level", "gauge", "The level of the memory, 0 to 4.", levels);
    let links = answered.iter().map(|(node, status)| (label("node", node), u64::from(status.links)));
    family(&mut text, "lram_links", "gauge", "Links to nodes that read.", links);
    type Slots = fn(&BudgetStatus) -> u32;
    let limits = [
        ("lram_budget_bytes", "Memory of an application for an array.", (|budget| budget.slots) as Slots),
        ("lram_budget_min_bytes", "Memory that others do not take, of all arrays together.", |budget| budget.min_slots),
        ("lram_budget_max_bytes", "The largest memory of all arrays together.", |budget| budget.max_slots),
    ];
    for (name, help, slots) in limits {
        let sizes = answered.iter().flat_map(|(node, status)| {
            let size = move |budget| u64::from(slots(budget)) * u64::from(status.slot_bytes);
            status.budgets.iter().map(move |budget| (budget_labels(node, budget), size(budget)))
        });
        family(&mut text, name, "gauge", help, sizes);
    }
    let reads = answered.iter().flat_map(|(node, status)| {
        status.budgets.iter().flat_map(move |budget| {
            let labels = budget_labels(node, budget);
            let figures = [
                ("demand_hit", budget.hits.saturating_sub(budget.ahead_hits)),
                ("prefetch_hit", budget.ahead_hits),
                ("late_prefetch", budget.late_ahead),
                ("miss", budget.misses),
                ("fetched_ahead", budget.ahead_fetched),
                ("pushed", budget.pushed),
                ("waste", budget.unused),
                ("given_up", budget.reclaimed),
                ("failed", budget.failed),
            ];
            figures.map(|(event, count)| (format!("{labels},{}", label("event", event)), count))
        })
    });
    family(&mut text, "lram_blocks_total", "counter", "Blocks by what became of them.", reads);
    text
}

fn family(text: &mut String, name: &str, kind: &str, help: &str, samples: impl Iterator<Item = (String, u64)>) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    for (labels, value) in samples {
        let _ = writeln!(text, "{name}{{{labels}}} {value}");
    }
}

fn budget_labels(node: &str, budget: &BudgetStatus) -> String {
    let BudgetStatus { application, dataset, array, .. } = budget;
    let labels = [("node", node), ("application", application), ("dataset", dataset), ("array", array)];
    labels.map(|(name, value)| label(name, value)).join(",")
}

fn label(name: &str, value: &str) -> String {
    format!("{name}=\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers() -> Answers {
        let budget = BudgetStatus {
            application: "a \"b\"".into(),
            dataset: "merra".into(),
            array: "ozone".into(),
            slots: 3,
            min_slots: 2,
            max_slots: 10,
            weight: 7,
            hits: 9,
            ahead_hits: 4,
            unused: 2,
            ..BudgetStatus::default()
        };
        let status =
            NodeStatus { slots: 10, slot_bytes: 65_536, cached: 3, budgets: vec![budget], ..NodeStatus::default() };
        let error = LinkError { node: "west:1".into(), reason: "refused".into() };
        vec![("east:1".into(), Ok(status)), ("west:1".into(), Err(error))]
    }

    #[test]
    fn figures_for_people_and_programs() {
        let shown = text(&answers());
        assert!(shown.contains("640 KiB in slots of 64 KiB: 192 KiB cached"), "{shown}");
        assert!(
            shown.lines().any(|line| line.contains("192 KiB") && line.contains("128 KiB") && line.contains(" 7")),
            "{shown}"
        );
        assert!(shown.contains("west:1: no answer: refused"), "{shown}");
        let metrics = prometheus(&answers());
        let hit = r#"lram_blocks_total{node="east:1",application="a \"b\"",dataset="merra",array="ozone",event="demand_hit"} 5"#;
        assert!(metrics.contains(hit), "{metrics}");
        let min = r#"lram_budget_min_bytes{node="east:1",application="a \"b\"",dataset="merra",array="ozone"} 131072"#;
        assert!(metrics.contains(min), "{metrics}");
        assert!(metrics.contains("lram_up{node=\"west:1\"} 0\n"), "{metrics}");
        let json = json(&answers());
        assert_eq!((json[0]["status"]["cached"].as_u64(), json[1]["error"].as_str()), (Some(3), Some("refused")));
    }
}
