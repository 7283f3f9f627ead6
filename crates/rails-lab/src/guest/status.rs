//! The guest's reports on its status port.

/// The guest's progress, by the last line on its status port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The guest has reported no status.
    Silent,
    /// The guest could not be set up; this step failed.
    Failed(String),
    /// The command was started.
    Up,
    /// The command ended with this status.
    Exited(u8),
}

impl Progress {
    /// Reads the port's lines `failed WHAT`, `up` and `exit STATUS`. The last complete line of
    /// these forms counts; others are ignored.
    pub(crate) fn read(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let complete = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
        complete.filter_map(Self::parse).next_back().unwrap_or(Self::Silent)
    }

    fn parse(line: &str) -> Option<Self> {
        if line == "up" {
            return Some(Self::Up);
        }
        if let Some(what) = line.strip_prefix("failed ") {
            return Some(Self::Failed(what.to_owned()));
        }
        line.strip_prefix("exit ")?.parse().ok().map(Self::Exited)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_last_line_counts() {
        assert_eq!(Progress::read(b""), Progress::Silent);
        assert_eq!(Progress::read(b"up\n"), Progress::Up);
        assert_eq!(Progress::read(b"up\nexit 3\n"), Progress::Exited(3));
        assert_eq!(Progress::read(b"failed mounting /run\n"), Progress::Failed("mounting /run".into()));
    }

    #[test]
    fn half_a_line_is_no_line() {
        assert_eq!(Progress::read(b"up\nexit 1"), Progress::Up);
        assert_eq!(Progress::read(b"up\nexit 256\n"), Progress::Up);
        assert_eq!(Progress::read(b"up\nexit\n"), Progress::Up);
    }

    proptest! {
        #[test]
        fn any_status_comes_through_whatever_stands_before(noise in proptest::collection::vec(any::<u8>(), 0..64), code: u8) {
            let mut bytes = noise;
            bytes.extend_from_slice(format!("\nexit {code}\n").as_bytes());
            prop_assert_eq!(Progress::read(&bytes), Progress::Exited(code));
        }

        #[test]
        fn cut_reports_name_no_other_status(code: u8, cut in 0_usize..16) {
            let whole = format!("up\nexit {code}\n");
            let cut = cut.min(whole.len());
            let expected = match cut {
                0..=2 => Progress::Silent,
                _ if cut < whole.len() => Progress::Up,
                _ => Progress::Exited(code),
            };
            prop_assert_eq!(Progress::read(&whole.as_bytes()[..cut]), expected);
        }
    }
}
