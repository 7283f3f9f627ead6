//! The share of a machine that one user may claim.

use super::Claims;
use crate::kernel_files;
use rails_topo::CpuSet;
use serde::Deserialize;
use std::{
    collections::BTreeSet,
    fs, io,
    sync::{Mutex, PoisonError},
};

/// The limit on the CPUs that the processes of one user hold together. Root has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UserLimit {
    Unlimited,
    /// The administrator's limit, or else half of the CPUs, rounded down.
    Administrators,
    Cpus(usize),
}

/// The file [`Claims::LIMITS`].
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Limits {
    max_cpus_per_user: Option<usize>,
}

impl UserLimit {
    /// The limit of a claim of this process: by default half of the CPUs that it may use.
    pub(super) fn of_claims(self) -> Option<usize> {
        self.or_half_of(|| kernel_files::cpus_kept_for("self").or_else(kernel_files::online_cpus))
    }

    /// The limit up to which claims of others are heeded: by default half of the online CPUs.
    pub(super) fn of_others(self) -> Option<usize> {
        self.or_half_of(kernel_files::online_cpus)
    }

    fn or_half_of(self, cpus: impl FnOnce() -> Option<CpuSet>) -> Option<usize> {
        match self {
            Self::Unlimited => None,
            Self::Cpus(max) => Some(max),
            Self::Administrators => administrators().or_else(|| cpus().map(|cpus| cpus.len() / 2)),
        }
    }
}

fn administrators() -> Option<usize> {
    let read = match fs::read_to_string(Claims::LIMITS) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        read => read,
    };
    let limits = read.map_err(|error| error.to_string()).and_then(|text| parsed(&text));
    limits.unwrap_or_else(|error| {
        tracing::warn!(error, "the limit of {} is not heeded", Claims::LIMITS);
        None
    })
}

fn parsed(text: &str) -> Result<Option<usize>, String> {
    let limits: Limits = toml::from_str(text).map_err(|error| error.message().to_owned())?;
    Ok(limits.max_cpus_per_user)
}

/// Whether this is the process's first call for that user, or for locks without a user (`None`).
pub(super) fn is_first_of(user: Option<u32>) -> bool {
    static WARNED: Mutex<BTreeSet<Option<u32>>> = Mutex::new(BTreeSet::new());
    WARNED.lock().unwrap_or_else(PoisonError::into_inner).insert(user)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_administrators() {
        assert_eq!(parsed("max_cpus_per_user = 12"), Ok(Some(12)));
        assert_eq!(parsed("# none"), Ok(None));
        for wrong in ["max_cpus_per_user = -1", "max_cpus = 3", "max_cpus_per_user = \"all\""] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn half_of_the_cpus_rounded_down() {
        let half_of = |cpus: &str| UserLimit::Administrators.or_half_of(|| Some(cpus.parse().unwrap()));
        if administrators().is_none() {
            assert_eq!([half_of("0"), half_of("0-1"), half_of("4-8")], [Some(0), Some(1), Some(2)]);
        }
        assert_eq!(UserLimit::Cpus(3).of_claims(), Some(3));
        assert_eq!(UserLimit::Unlimited.of_others(), None);
    }
}
