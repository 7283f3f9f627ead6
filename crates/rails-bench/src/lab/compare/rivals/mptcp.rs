//! The kernel's MPTCP, under this project's plain tokio program.

use super::{ContestError, Figures, Rival, Testbed, own::Own};
use rails_lab::{LabError, Side, SystemError};

/// MPTCP with a subflow on every link.
pub(super) struct Mptcp {
    program: Own,
    kernel: String,
}

impl Mptcp {
    /// Sets the path manager of both ends up.
    pub(super) fn enable(testbed: &Testbed, program: Own) -> Result<Self, String> {
        enable(testbed)?;
        let release = nix::sys::utsname::uname().map(|name| name.release().to_string_lossy().into_owned());
        Ok(Self { program, kernel: release.unwrap_or_else(|_| "of an unknown release".to_owned()) })
    }
}

impl Rival for Mptcp {
    fn version(&self) -> Option<String> {
        Some(format!("kernel {}, in-kernel path manager, addresses signalled by the receiver", self.kernel))
    }

    fn measure(&mut self, testbed: &Testbed) -> Result<Figures, ContestError> {
        let before = joins(testbed)?;
        let mut figures = self.program.measure(testbed)?;
        figures.warnings.extend(missing(testbed, before)?);
        Ok(figures)
    }
}

/// Sets the path manager of both ends up, or returns the reason why it cannot.
pub(crate) fn enable(testbed: &Testbed) -> Result<(), String> {
    testbed.lab.enable_mptcp().map_err(|error| match error {
        LabError::System(SystemError::File { path, source, .. }) => {
            format!("this kernel has no MPTCP ({}: {source})", path.display())
        }
        other => format!("`ip mptcp` cannot set its endpoints up: {other}"),
    })
}

/// The number of subflows that have joined connections of the sender so far.
pub(crate) fn joins(testbed: &Testbed) -> Result<u64, ContestError> {
    Ok(testbed.lab.transport_counters(Side::A)?.mptcp_joins.unwrap_or(0))
}

/// A warning if the connection made since then lacks a subflow on a link, which a good rate does
/// not show.
pub(crate) fn missing(testbed: &Testbed, joins_before: u64) -> Result<Option<String>, ContestError> {
    let (subflows, links) = (1 + joins(testbed)? - joins_before, testbed.links.len() as u64);
    let warning = || format!("{subflows} subflow(s) on {links} link(s), by the kernel's MPJoinSynAckRx");
    Ok((subflows != links).then(warning))
}
