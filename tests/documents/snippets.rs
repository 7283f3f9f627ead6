//! The code of `docs/`, compiled and not run. Each block of Rust there stands here too, word by
//! word, with the declarations that it takes.

#![allow(dead_code, reason = "the code is for readers")]

use rails::{
    multirail::{RailId, Rails, plan_rails},
    topo::Topology,
};
use std::{collections::BTreeSet, error::Error, fs};

/// The pages whose code the documentation tests of crates compile.
const TESTED_BY_RUSTDOC: [&str; 3] = ["celeritas.md", "lambdaram.md", "placement.md"];

#[test]
fn code_of_the_pages_is_compiled() {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let compiled = words(include_str!("snippets.rs"));
    let mut pages = BTreeSet::new();
    for entry in fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/docs")).unwrap() {
        let path = entry.unwrap().path();
        let page = path.file_name().unwrap().to_str().unwrap().to_owned();
        if !page.ends_with(".md") || TESTED_BY_RUSTDOC.contains(&page.as_str()) {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        for block in text.split("\n```rust\n").skip(1) {
            let code = block.split("\n```").next().unwrap();
            assert!(compiled.contains(&words(code)), "not compiled, in {page}:\n{code}");
            pages.insert(page.clone());
        }
    }
    assert_eq!(Vec::from_iter(pages), ["runtime.md"]);
}

type Outcome = Result<(), Box<dyn Error>>;

fn a_runtime_per_rail() -> Outcome {
    let plan = plan_rails(&Topology::detect()?, &"eth0,eth1".parse()?)?;
    let rails = Rails::build(&plan)?;
    drop(rails);
    Ok(())
}

async fn a_computation(rails: Rails, frame: Vec<u8>) -> Outcome {
    let sum = rails[RailId(0)].runtime().compute(move || checksum(&frame)).await?;
    assert_eq!(sum, 0);
    Ok(())
}

fn checksum(frame: &[u8]) -> u8 {
    frame.iter().fold(0, |sum, byte| sum ^ byte)
}
