//! Captured machines, drawn.

use rails_lab::captures::{self, Unpacked};
use rails_topo::{Overlay, Topology};

#[test]
#[ignore = "reads captured machines: set RAILS_CAPTURES to their folder"]
fn captured_trees_are_drawn_with_every_cpu_and_nic() {
    for archive in captures::trees() {
        let machine =
            Topology::from_sysfs_root(Unpacked::of(&archive).root()).unwrap_or_else(|error| panic!("{error}"));
        let picture = machine.svg(&Overlay::default());
        let document = roxmltree::Document::parse(&picture).unwrap_or_else(|error| panic!("{error}"));
        let is_pu = |node: &roxmltree::Node<'_, '_>| {
            node.attribute("class").is_some_and(|class| class.split(' ').any(|class| class == "pu"))
        };
        let pus = document.descendants().filter(is_pu).count();
        // One more stands in the legend where some CPUs may not be used.
        let explained = usize::from(machine.allowed_cpus() != machine.online_cpus());
        assert_eq!(pus, machine.online_cpus().len() + explained, "{}", archive.display());
        for nic in machine.nics() {
            let is_named = |node: roxmltree::Node<'_, '_>| node.text().is_some_and(|text| text.contains(&nic.name));
            assert!(document.descendants().any(is_named), "{}", nic.name);
        }
    }
}
