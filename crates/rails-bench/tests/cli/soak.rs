//! `soak`, for a short while.

use crate::util::{run, stderr, stdout};

#[test]
#[ignore = "needs root: makes network namespaces"]
fn netns_every_byte_arrives_through_faults() {
    let output = run(["soak", "--minutes", "0.3", "--links", "4"]);
    let (told, said) = (stdout(&output), stderr(&output));
    println!("{said}{told}");
    assert_eq!(output.status.code(), Some(0), "{said}{told}");
    assert!(told.contains("every byte arrived, once and in order, through "), "{told}");
    let faults = told.rsplit("through ").next().and_then(|rest| rest.split(' ').next()).unwrap_or_default();
    assert!(faults.parse::<u32>().unwrap() >= 5, "{told}");
    assert!(said.contains("seed ") && said.contains("whole again"), "{said}");
}
