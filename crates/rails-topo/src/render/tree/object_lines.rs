//! Packages, dies, nodes, caches and cores: a line each, with aligned facts and CPUs.

use super::columns::Columns;
use crate::{
    Core, CpuSet, Topology,
    render::{
        objects::{Object, ObjectTree},
        phrases,
    },
};

pub(super) fn columns(topology: &Topology) -> Columns {
    let tree = ObjectTree::of(topology);
    let mut columns = Columns::default();
    for object in &tree.outermost {
        add(&mut columns, &tree, object, 1);
    }
    add_cores(&mut columns, &tree, &tree.groups(&tree.cores), 1);
    if !tree.loose.is_empty() {
        line(&mut columns, 1, "PUs".to_owned(), "of unknown cores".to_owned(), &tree.loose);
    }
    for kind in topology.core_kinds() {
        let facts = phrases::core_kind(kind).join(", ");
        line(&mut columns, 1, format!("cores of {}", phrases::name_of_kind(kind)), facts, &kind.cpus);
    }
    columns
}

fn add(columns: &mut Columns, tree: &ObjectTree<'_>, object: &Object<'_>, depth: usize) {
    let (name, mut facts) = object.object_type.in_words();
    // An object that holds only cores of one kind shares a line with them.
    let groups = tree.groups(&object.cores);
    let alone = object.inner.is_empty() && groups.len() == 1;
    if alone {
        facts.push(format!("{} ({})", phrases::cores(&groups[0]), of_cores(tree, &groups[0])));
    }
    line(columns, depth, name, facts.join(", "), object.cpus);
    for inner in &object.inner {
        add(columns, tree, inner, depth + 1);
    }
    if !alone {
        add_cores(columns, tree, &groups, depth + 1);
    }
}

/// A line for each group.
fn add_cores(columns: &mut Columns, tree: &ObjectTree<'_>, groups: &[Vec<&Core>], depth: usize) {
    for group in groups {
        let cpus = group.iter().fold(CpuSet::new(), |cpus, core| cpus.union(&core.cpus));
        line(columns, depth, phrases::cores(group), of_cores(tree, group), &cpus);
    }
}

fn line(columns: &mut Columns, depth: usize, name: String, facts: String, cpus: &CpuSet) {
    columns.line([format!("{:indent$}{name}", "", indent = depth * 2), facts, phrases::named_cpus(cpus)]);
}

/// The number of PUs of each core in a group, and the core's caches.
fn of_cores(tree: &ObjectTree<'_>, group: &[&Core]) -> String {
    let first = group.first();
    let pus = match (first.map_or(0, |core| core.cpus.len()), group.len()) {
        (pus, 1) => phrases::count(pus, "PU"),
        (pus, _) => format!("{} each", phrases::count(pus, "PU")),
    };
    let caches = first.map(|core| phrases::private_caches(tree.private(core))).unwrap_or_default();
    let caches = if caches.is_empty() { String::new() } else { format!("; {caches}") };
    format!("{pus}{caches}")
}
