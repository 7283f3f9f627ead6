//! The proofs of `proof/`, as z3 checks them.
//!
//! Each check prints its name, which ends with the answer that it has to have, and then z3's
//! answer. So an answer is compared with what stands beside it.
// This looks at the outside world, as the crate must not.
#![allow(clippy::disallowed_methods)]

use std::process::{Command, Stdio};

#[test]
#[ignore = "needs z3: cargo xtask test"]
fn z3_proves_that_no_slot_is_lost() {
    assert_proved("slots.smt2", include_str!("../proof/slots.smt2"));
}

#[test]
#[ignore = "needs z3: cargo xtask test"]
fn z3_proves_that_budgets_are_kept() {
    assert_proved("budgets.smt2", include_str!("../proof/budgets.smt2"));
}

#[test]
fn an_answer_that_is_not_the_named_one_is_found() {
    let script = "(echo \"a: sat\")\n(check-sat)\n(echo \"b: unsat\")\n(check-sat)\n";
    let wrong = |output: &str| !disagreements(script, output).is_empty();
    assert!(!wrong("a: sat\nsat\nb: unsat\nunsat\n"));
    assert!(wrong("a: sat\nsat\nb: unsat\nsat\n"));
    assert!(wrong("a: sat\nunsat\nb: unsat\nsat\n"));
    assert!(wrong("a: sat\nsat\nb: unsat\nunknown\n"));
    assert!(wrong("a: sat\nsat\nb: unsat\ntimeout\n"));
    assert!(wrong("a: sat\nsat\nb: unsat\n"));
    assert!(wrong("a: sat\nsat\n"));
    assert!(wrong("a: sat\nsat\n(error \"line 3\")\nb: unsat\nunsat\n"));
    assert!(wrong("a: sat\nsat\nb: unsat\nunsat\nc: sat\nsat\n"));
    assert!(wrong("a: unknown\nunknown\nb: unsat\nunsat\n"));
    assert!(wrong(""));
}

fn assert_proved(file: &str, script: &str) {
    let path = format!("{}/proof/{file}", env!("CARGO_MANIFEST_DIR"));
    let output = Command::new("z3").arg(MAX_SECONDS).arg(path).stdin(Stdio::null()).output().expect("z3 runs");
    let output = String::from_utf8_lossy(&output.stdout);
    assert_eq!(disagreements(script, &output), [] as [String; 0], "{output}");
    for answer in ["sat", "unsat"] {
        assert!(output.lines().any(|line| line == answer), "{file} has no check whose answer is {answer}");
    }
}

/// Says where the output is not, for each check of the script, its name and the answer in it.
fn disagreements(script: &str, output: &str) -> Vec<String> {
    let lines: Vec<&str> = output.lines().collect();
    let checks = script.lines().filter(|line| *line == "(check-sat)").count();
    let mut found = Vec::new();
    if lines.len() != 2 * checks {
        found.push(format!("{checks} checks printed {} lines", lines.len()));
    }
    let is_wrong = |check: &&[&str]| match check {
        [name, answer @ ("sat" | "unsat")] => name.rsplit_once(": ").is_none_or(|(_, named)| named != *answer),
        _ => true,
    };
    found.extend(lines.chunks(2).filter(is_wrong).map(|check| check.join(" is answered by ")));
    found
}

/// How long one file may take. z3 needs less than a second for each.
const MAX_SECONDS: &str = "-T:60";
