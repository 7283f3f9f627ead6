//! Packages, dies, nodes, caches and cores: a line each, with its facts and its CPUs below those of the others.

use super::columns::Columns;
use crate::{
    Core, CpuSet, Topology,
    render::{
        phrases,
        places::{Place, Places, What},
    },
};

pub(super) fn columns(topology: &Topology) -> Columns {
    let places = Places::of(topology);
    let mut columns = Columns::default();
    for place in &places.outermost {
        add(&mut columns, &places, place, 1);
    }
    add_cores(&mut columns, &places, &places.cores, 1);
    if !places.loose.is_empty() {
        line(&mut columns, 1, "PUs".to_owned(), "of unknown cores".to_owned(), &places.loose);
    }
    for kind in topology.core_kinds() {
        let facts = phrases::core_kind(kind).join(", ");
        line(&mut columns, 1, format!("cores of {}", phrases::name_of_kind(kind)), facts, &kind.cpus);
    }
    columns
}

fn add(columns: &mut Columns, places: &Places<'_>, place: &Place<'_>, depth: usize) {
    let (name, mut facts) = describe(&place.what);
    // What holds only cores of one sort needs one line for itself and for them.
    let runs: Vec<&[&Core]> = place.cores.chunk_by(is_run).collect();
    let alone = place.inner.is_empty() && runs.len() == 1;
    if alone {
        facts.push(format!("{} ({})", phrases::cores(runs[0]), of_cores(places, runs[0])));
    }
    line(columns, depth, name, facts.join(", "), place.cpus);
    for inner in &place.inner {
        add(columns, places, inner, depth + 1);
    }
    if !alone {
        add_cores(columns, places, &place.cores, depth + 1);
    }
}

/// A line for each run of cores with equally many PUs.
fn add_cores(columns: &mut Columns, places: &Places<'_>, all: &[&Core], depth: usize) {
    for run in all.chunk_by(is_run) {
        let cpus = run.iter().fold(CpuSet::new(), |cpus, core| cpus.union(&core.cpus));
        line(columns, depth, phrases::cores(run), of_cores(places, run), &cpus);
    }
}

fn is_run(a: &&Core, b: &&Core) -> bool {
    a.cpus.len() == b.cpus.len() && a.id.is_some() == b.id.is_some()
}

fn line(columns: &mut Columns, depth: usize, name: String, facts: String, cpus: &CpuSet) {
    let cpus = if cpus.is_empty() { "no CPUs".to_owned() } else { format!("CPUs {}", phrases::cpus(cpus)) };
    columns.line([format!("{:indent$}{name}", "", indent = depth * 2), facts, cpus]);
}

fn describe(what: &What<'_>) -> (String, Vec<String>) {
    match what {
        What::Package(package) => (format!("package {}", phrases::number_of_package(package.id)), Vec::new()),
        What::Die(die) => (format!("die {}", phrases::number_of_package(die.id)), Vec::new()),
        What::Node(node) => (format!("node {}", node.id), phrases::memory(node)),
        What::Caches(caches) => {
            let mut caches = caches.iter().map(|cache| phrases::cache(cache));
            (caches.next().unwrap_or_default(), caches.collect())
        }
    }
}

/// Of how many PUs cores are, and which caches they have.
fn of_cores(places: &Places<'_>, run: &[&Core]) -> String {
    let pus = match (run.first().map_or(0, |core| core.cpus.len()), run.len()) {
        (pus, 1) => phrases::count(pus, "PU"),
        (pus, _) => format!("{} each", phrases::count(pus, "PU")),
    };
    let caches = phrases::private_caches(run.iter().map(|core| places.private(core)));
    let caches = if caches.is_empty() { String::new() } else { format!("; {caches}") };
    format!("{pus}{caches}")
}
