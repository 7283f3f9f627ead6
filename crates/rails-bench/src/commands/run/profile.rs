//! The wishes of a run: the flags, and the file that has the same keys.

use crate::exit::Helped;
use anyhow::Result;
use rails_multirail::RailRequest;
use serde::{Deserialize, Deserializer, de::Error};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// The wishes of a run. `None` is not said.
#[derive(Debug, Clone, Default, PartialEq, clap::Args, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wishes {
    /// The rails that the program runs beside, as `plan` takes them [default: auto]
    #[arg(long, value_name = "SPEC")]
    #[serde(default, deserialize_with = "rails")]
    pub(super) rails: Option<RailRequest>,
    /// Cores of each rail [default: all beside its NIC; with --exclusive 1]
    #[arg(long, value_name = "N", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=1024))]
    #[serde(default, deserialize_with = "cores")]
    pub(super) cores: Option<usize>,
    /// Give the program its cores, and the interrupts and receive queues of its NICs, for itself:
    /// no other process that asks gets them while it runs. It does not follow its traffic then
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(super) exclusive: Option<bool>,
    /// Put the interrupts of the NICs where they belong, and back at the end (needs root)
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(super) fix: Option<bool>,
    /// Do not start the program if this system does not let it be bound, or its memory policy be
    /// set. Without it the program runs without that, and this says so
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(super) require_placement: Option<bool>,
    /// Send the program's connections through the gate of this host, and those of all programs that
    /// it starts: to destinations that the gate's policy names. Not for set-user-ID programs
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(super) stripe: Option<bool>,
    /// Leave the program beside the rails, whichever NICs its traffic takes
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(super) no_follow: Option<bool>,
    /// Say nothing at the end
    #[arg(long, short, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(super) quiet: Option<bool>,
    /// Write the verdicts to a file, as JSON (docs/json.md)
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// Folder in which changes of the machine are written down [default: /run/rails, or
    /// $XDG_RUNTIME_DIR/rails for those who may not write there]
    #[arg(long, value_name = "DIR")]
    pub(super) journal: Option<PathBuf>,
}

impl Wishes {
    /// These wishes, and those of a file where these say nothing.
    pub(super) fn with_file(self, file: Option<&Path>) -> Result<Self> {
        let Some(file) = file else { return Ok(self) };
        let wrong = |fault: &dyn std::fmt::Display| {
            let error = format!("--profile {}: {fault}", file.display());
            Helped::usage(error, "the keys are the long flags of `rails-bench run --help`, with _ for -")
        };
        let text = fs::read_to_string(file).map_err(|error| wrong(&format_args!("cannot read it: {error}")))?;
        let of_file: Self = toml::from_str(&text).map_err(|error| wrong(&error.to_string().trim_end()))?;
        Ok(self.or(of_file))
    }

    fn or(self, other: Self) -> Self {
        Self {
            rails: self.rails.or(other.rails),
            cores: self.cores.or(other.cores),
            exclusive: self.exclusive.or(other.exclusive),
            fix: self.fix.or(other.fix),
            require_placement: self.require_placement.or(other.require_placement),
            stripe: self.stripe.or(other.stripe),
            no_follow: self.no_follow.or(other.no_follow),
            quiet: self.quiet.or(other.quiet),
            json: self.json.or(other.json),
            journal: self.journal.or(other.journal),
        }
    }
}

/// For [`crate::fuzzing`].
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz(text: &str) {
    let _ = toml::from_str::<Wishes>(text);
}

fn rails<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<RailRequest>, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map(Some).map_err(D::Error::custom)
}

fn cores<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<usize>, D::Error> {
    let cores = usize::deserialize(deserializer)?;
    match (1..=1024).contains(&cores) {
        true => Ok(Some(cores)),
        false => Err(D::Error::custom("a rail has 1 to 1024 cores")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;

    fn with_file(flags: Wishes, text: &str) -> Result<Wishes> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        flags.with_file(Some(file.path()))
    }

    #[test]
    fn flags_win_over_the_file() {
        let flags = Wishes { exclusive: Some(false), cores: Some(2), ..Wishes::default() };
        let text = "rails = 'eth0,eth1'\nexclusive = true\nfix = true\njson = 'out.json'";
        let both = with_file(flags, text).unwrap();
        assert_eq!((both.exclusive, both.fix, both.cores), (Some(false), Some(true), Some(2)));
        assert_eq!(both.rails, Some("eth0,eth1".parse().unwrap()));
        assert_eq!(both.json, Some(PathBuf::from("out.json")));
        assert_eq!(with_file(Wishes::default(), "").unwrap(), Wishes::default());
    }

    #[test]
    fn a_file_that_is_not_understood_says_where() {
        for (text, fault) in [
            ("exclusiv = true", "unknown field `exclusiv`"),
            ("rails = 'eth0,,'", "line 1"),
            ("cores = 0", "1 to 1024"),
            ("fix = 3", "boolean"),
            ("rails", "line 1"),
        ] {
            let error = with_file(Wishes::default(), text).unwrap_err();
            assert!(format!("{error:#}").contains(fault), "{text}: {error:#}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[a-z_=\"'0-9\\[\\]\n ]{0,80}") {
            let _ = toml::from_str::<Wishes>(&text);
        }
    }
}
