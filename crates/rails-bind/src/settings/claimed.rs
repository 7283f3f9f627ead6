//! Settings of interrupts and receive queues that another process has claimed.

use super::{Host, Setting, SettingError};
use crate::claims::{Claims, Resource};

impl Host {
    /// Refuses a setting of a resource that another process has claimed. Root overrides other
    /// users.
    pub(super) fn refuse_claimed(&self, setting: &Setting) -> Result<(), SettingError> {
        let Some(resource) = setting.resource() else { return Ok(()) };
        match self.claims().holder_of(&resource) {
            Ok(Some(by)) if by.is_overridden_by_this_process() => {
                tracing::warn!(%setting, "root changes what another user has claimed: {by}");
                Ok(())
            }
            Ok(Some(by)) if !by.is_this_process() => {
                Err(SettingError::Claimed { setting: setting.clone(), resource, by: Box::new(by) })
            }
            Ok(_) => Ok(()),
            // Claims are advisory: any user can make their folder unusable, which must not stop an
            // administrator.
            Err(error) => {
                tracing::warn!(%error, %setting, "it is not known whether another process has claimed this");
                Ok(())
            }
        }
    }

    /// The claims of the host's processes.
    fn claims(&self) -> Claims {
        Claims::at(self.root().join(Claims::MACHINE.trim_start_matches('/')))
    }
}

impl Setting {
    /// The resource of the setting; `None` if it cannot be claimed.
    fn resource(&self) -> Option<Resource> {
        match self {
            Self::InterruptAffinity { interrupt } | Self::IrqbalanceBan { interrupt } => {
                Some(Resource::Interrupt(*interrupt))
            }
            Self::ReceiveSteering { interface, queue } | Self::ReceiveFlows { interface, queue } => {
                Some(Resource::Queue { interface: interface.clone(), index: *queue })
            }
            Self::FlowTable
            | Self::TransmitSteering { .. }
            | Self::ThreadedNapi { .. }
            | Self::ThreadAffinity { .. }
            | Self::ProcessMemory { .. } => None,
        }
    }
}
