//! Prints a machine as a tree.
//!
//! Run: `cargo run -p rails-topo --example tree` for this machine, or with `-- PATH` for an hwloc
//! XML file or a captured tree of `/sys` and `/proc`. `-- PATH --json` prints the model instead,
//! `-- PATH --svg` the picture.
//!
//! Expected: a `machine` line, packages with their nodes, caches and cores, and a line for each
//! NIC.

use rails_topo::{Overlay, Topology};
use std::{error::Error, path::PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    let (options, paths): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|argument| argument.starts_with("--"));
    let machine = match paths.first().map(PathBuf::from) {
        None => Topology::detect()?,
        Some(path) if path.is_dir() => Topology::from_sysfs_root(path)?,
        Some(path) => Topology::from_xml(path)?,
    };
    match options.first().map(String::as_str) {
        Some("--json") => println!("{}", serde_json::to_string_pretty(&machine)?),
        Some("--svg") => print!("{}", machine.svg(&Overlay::default())),
        _ => print!("{}", machine.tree()),
    }
    Ok(())
}
