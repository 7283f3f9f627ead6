//! The kernel's MPTCP, under a plain tokio program of ours.

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
        testbed.lab.enable_mptcp().map_err(|error| match error {
            LabError::System(SystemError::File { path, source, .. }) => {
                format!("this kernel has no MPTCP ({}: {source})", path.display())
            }
            other => format!("`ip mptcp` cannot set its endpoints up: {other}"),
        })?;
        let release = nix::sys::utsname::uname().map(|name| name.release().to_string_lossy().into_owned());
        Ok(Self { program, kernel: release.unwrap_or_else(|_| "of an unknown release".to_owned()) })
    }
}

impl Rival for Mptcp {
    fn version(&self) -> Option<String> {
        Some(format!("kernel {}, in-kernel path manager, addresses signalled by the receiver", self.kernel))
    }

    fn measure(&mut self, testbed: &Testbed) -> Result<Figures, ContestError> {
        let joins = || Ok::<_, ContestError>(testbed.lab.transport_counters(Side::A)?.mptcp_joins.unwrap_or(0));
        let before = joins()?;
        let mut figures = self.program.measure(testbed)?;
        let subflows = 1 + joins()? - before;
        let links = testbed.links.len() as u64;
        // Nothing in a healthy rate tells that a subflow did not join; the kernel's count does.
        if subflows != links {
            figures.warnings.push(format!("{subflows} subflow(s) on {links} link(s), by the kernel's MPJoinSynAckRx"));
        }
        Ok(figures)
    }
}
