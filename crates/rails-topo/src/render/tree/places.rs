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
    add_cores(&mut columns, &places, &places.groups(&places.cores), 1);
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
    let groups = places.groups(&place.cores);
    let alone = place.inner.is_empty() && groups.len() == 1;
    if alone {
        facts.push(format!("{} ({})", phrases::cores(&groups[0]), of_cores(places, &groups[0])));
    }
    line(columns, depth, name, facts.join(", "), place.cpus);
    for inner in &place.inner {
        add(columns, places, inner, depth + 1);
    }
    if !alone {
        add_cores(columns, places, &groups, depth + 1);
    }
}

/// A line for each group.
fn add_cores(columns: &mut Columns, places: &Places<'_>, groups: &[Vec<&Core>], depth: usize) {
    for group in groups {
        let cpus = group.iter().fold(CpuSet::new(), |cpus, core| cpus.union(&core.cpus));
        line(columns, depth, phrases::cores(group), of_cores(places, group), &cpus);
    }
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

/// Of how many PUs each core of a group is, and which caches it has.
fn of_cores(places: &Places<'_>, group: &[&Core]) -> String {
    let first = group.first();
    let pus = match (first.map_or(0, |core| core.cpus.len()), group.len()) {
        (pus, 1) => phrases::count(pus, "PU"),
        (pus, _) => format!("{} each", phrases::count(pus, "PU")),
    };
    let caches = first.map(|core| phrases::private_caches(places.private(core))).unwrap_or_default();
    let caches = if caches.is_empty() { String::new() } else { format!("; {caches}") };
    format!("{pus}{caches}")
}
