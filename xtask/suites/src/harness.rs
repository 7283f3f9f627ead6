//! Reads what test programs and cargo print: how many tests ran, and which of them failed.

use crate::tally::Tally;

/// The tests of a run, line by line.
///
/// A program lists its failed tests before it counts them, and cargo names the program after that.
#[derive(Debug, Default)]
pub(crate) struct Harness {
    tally: Tally,
    /// The names below the latest line `failures:`.
    listed: Vec<String>,
    is_listing: bool,
    /// The failed tests of the program that cargo has not named yet.
    of_program: Vec<String>,
}

impl Harness {
    /// Takes the next line.
    pub(crate) fn read(&mut self, line: &str) {
        let line = line.trim_end();
        if line == "failures:" {
            // A list of outputs begins so too, and an output may have any lines. The last list is that of the
            // names.
            self.listed.clear();
            self.is_listing = true;
            return;
        }
        match line.strip_prefix("    ").filter(|_| self.is_listing) {
            Some(name) => self.listed.push(name.to_owned()),
            None => self.is_listing = false,
        }
        if let Some(program) = failed_program(line) {
            self.name(program);
        } else if let Some(one) = Tally::parse(line) {
            self.count(one);
        }
    }

    /// Takes the counts of a program.
    fn count(&mut self, one: Tally) {
        let listed = std::mem::take(&mut self.listed);
        if one.failed > 0 {
            let unlisted = one.failed.saturating_sub(listed.len() as u64);
            self.of_program.extend(listed);
            self.of_program.extend((0..unlisted).map(|_| "a test that its output does not name".to_owned()));
        }
        self.tally.add(one);
    }

    /// Takes the name of a program that failed. One that ended before it counted its tests is a
    /// failed test.
    fn name(&mut self, program: &str) {
        let tests = std::mem::take(&mut self.of_program);
        if tests.is_empty() {
            self.tally.fail(format!("{program}: it ended without naming a failed test"));
        }
        self.tally.failures.extend(tests.into_iter().map(|test| format!("{program}: {test}")));
    }

    /// The tests of the run, whose program has this name if cargo says no other.
    pub(crate) fn end(mut self, program: &str) -> Tally {
        if !self.of_program.is_empty() {
            self.name(program);
        }
        self.tally
    }
}

/// The program of which cargo says that it failed: `error: test failed, to rerun pass `-p a --test
/// b``. Of documentation it says `doctest`.
fn failed_program(line: &str) -> Option<&str> {
    let (_, program) = line.split_once("test failed, to rerun pass `")?;
    program.strip_suffix('`')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Tally {
        let mut harness = Harness::default();
        text.lines().for_each(|line| harness.read(line));
        harness.end("the run")
    }

    #[test]
    fn failed_tests_are_named_with_their_programs() {
        // As cargo test --no-fail-fast prints it.
        let tally = read(
            "running 2 tests\n\
             test ok ... ok\n\
             test bad ... FAILED\n\
             \n\
             failures:\n\
             \n\
             ---- bad stdout ----\n\
             failures:\n    none of these\n\
             \n\
             \n\
             failures:\n    a::bad\n    a::worse\n\
             \n\
             test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.20s\n\
             \n\
             error: test failed, to rerun pass `-p x --lib`\n\
             test result: ok. 4 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s\n\
             running 1 test\n\
             error: test failed, to rerun pass `-p x --test dies`\n\
             \n\
             Caused by:\n  process didn't exit successfully: `/x/dies-4497739ef34e6999` (signal: 6)\n\
             \n\
             failures:\n    src/lib.rs - f (line 1)\n\
             \n\
             test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.49s\n\
             \n\
             error: doctest failed, to rerun pass `-p x --doc`\n\
             error: 3 targets failed:\n    `-p x --lib`\n    `-p x --test dies`\n    `-p x --doc`\n",
        );
        let failures = [
            "-p x --lib: a::bad",
            "-p x --lib: a::worse",
            "-p x --test dies: it ended without naming a failed test",
            "-p x --doc: src/lib.rs - f (line 1)",
        ];
        assert_eq!((tally.passed, tally.failed, tally.ignored), (5, 4, 1));
        assert_eq!(tally.failures, failures);
    }

    #[test]
    fn a_program_without_cargo_has_the_name_of_its_run() {
        let tally = read("failures:\n    bad\n\ntest result: FAILED. 0 passed; 1 failed; 0 ignored");
        assert_eq!((tally.failed, tally.failures), (1, vec!["the run: bad".to_owned()]));
    }

    #[test]
    fn a_failed_test_without_a_name_is_told() {
        let tally =
            read("test result: FAILED. 0 passed; 1 failed; 0 ignored\n\nerror: test failed, to rerun pass `-p x`");
        assert_eq!((tally.failed, tally.failures), (1, vec!["-p x: a test that its output does not name".to_owned()]));
    }

    #[test]
    fn lists_of_tests_that_passed_are_no_failures() {
        let tally =
            read("failures:\n    bad\n\nsuccesses:\n    good\n\ntest result: ok. 1 passed; 0 failed; 0 ignored");
        assert_eq!(tally, Tally { passed: 1, ..Tally::default() });
    }
}
