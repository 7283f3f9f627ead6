//! Prints a machine as a tree.
//!
//! Run: `cargo run -p rails-topo --example tree` for this machine, or with `-- PATH` for an hwloc XML file or a captured
//! tree of `/sys` and `/proc`. `-- PATH --json` prints the model instead.
//!
//! Expected: a `machine` line, packages with their nodes, caches and cores, and a line for each NIC.

use rails_topo::Topology;
use std::{error::Error, path::PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    let (options, paths): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|argument| argument.starts_with("--"));
    let machine = match paths.first().map(PathBuf::from) {
        None => Topology::detect()?,
        Some(path) if path.is_dir() => Topology::from_sysfs_root(path)?,
        Some(path) => Topology::from_xml(path)?,
    };
    match options.iter().any(|option| option == "--json") {
        true => println!("{}", serde_json::to_string_pretty(&machine)?),
        false => print!("{}", machine.tree()),
    }
    Ok(())
}
