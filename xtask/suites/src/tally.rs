//! Counts tests by the lines that the test harness prints.

use std::fmt;

/// How many tests one or several test programs ran.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) ignored: u64,
    /// The failed tests, each with its program.
    pub(crate) failures: Vec<String>,
}

impl Tally {
    /// Reads `test result: ok. 3 passed; 0 failed; 1 ignored; ...`; `None` for every other line.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
        let mut counts = counts.split(';').map(str::trim);
        let mut next = |word: &str| counts.next()?.strip_suffix(word)?.trim_end().parse().ok();
        let (passed, failed, ignored) = (next("passed")?, next("failed")?, next("ignored")?);
        Some(Self { passed, failed, ignored, failures: Vec::new() })
    }

    /// Adds a failed test.
    pub(crate) fn fail(&mut self, test: impl Into<String>) {
        self.failed += 1;
        self.failures.push(test.into());
    }

    /// Adds the tests of another program.
    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
        self.failures.extend(other.failures);
    }
}

/// All runs together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Total {
    passed: u64,
    failed: u64,
    skipped: u64,
    failures: Vec<String>,
}

impl Total {
    /// Adds a run that left out the ignored tests: they count as skipped until a later run makes up
    /// for them.
    pub(crate) fn add_plain(&mut self, run: Tally) {
        self.passed += run.passed;
        self.failed += run.failed;
        self.skipped += run.ignored;
        self.failures.extend(run.failures);
    }

    /// Adds a run of tests that an earlier run left out.
    pub(crate) fn add_later(&mut self, run: Tally) {
        self.passed += run.passed;
        self.failed += run.failed;
        self.skipped = self.skipped.saturating_sub(run.passed + run.failed);
        self.failures.extend(run.failures);
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failed > 0
    }
}

/// The end of the test runner's output: a line for each failed test, and the line of counts.
impl fmt::Display for Total {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for failure in &self.failures {
            writeln!(formatter, "FAILED: {failure}")?;
        }
        write!(formatter, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_harness_line_is_read() {
        let ok = "test result: ok. 16 passed; 0 failed; 11 ignored; 0 measured; 2 filtered out; finished in 0.08s";
        assert_eq!(Tally::parse(ok), Some(Tally { passed: 16, failed: 0, ignored: 11, failures: Vec::new() }));
        let failed = "test result: FAILED. 0 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out";
        assert_eq!(Tally::parse(failed), Some(Tally { passed: 0, failed: 2, ignored: 0, failures: Vec::new() }));
    }

    #[test]
    fn other_lines_are_not_counted() {
        for line in [
            "",
            "running 3 tests",
            "test result: ok",
            "test result: ok. many passed; 0 failed; 0 ignored",
            "test result: ok. 1 passed; 0 failed",
            "a test result: ok. 1 passed; 0 failed; 0 ignored",
        ] {
            assert_eq!(Tally::parse(line), None, "{line}");
        }
    }

    #[test]
    fn a_test_that_runs_later_is_not_skipped() {
        let mut total = Total::default();
        total.add_plain(Tally { passed: 5, ignored: 4, ..Tally::default() });
        assert!(!total.has_failed());
        let mut later = Tally { passed: 2, ..Tally::default() };
        later.fail("-p x --lib: bad");
        total.add_later(later);
        assert_eq!(total.to_string(), "FAILED: -p x --lib: bad\n7 passed, 1 failed, 1 skipped");
        assert!(total.has_failed());
    }
}
