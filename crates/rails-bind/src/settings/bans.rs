//! irqbalance's bans, as settings.

use super::{Setting, SettingError, Value};
use crate::interrupt::irqbalance::{Balancer, BalancerError};
use std::{
    io,
    path::{Path, PathBuf},
};

pub(super) fn read(root: &Path, setting: &Setting, interrupt: u32) -> Result<Value, SettingError> {
    let banned = running(root, setting)?.banned().map_err(|source| failed("read", setting, source))?;
    Ok(Value::Number(banned.contains(&interrupt).into()))
}

pub(super) fn write(root: &Path, setting: &Setting, interrupt: u32, banned: bool) -> Result<(), SettingError> {
    let balancer = running(root, setting)?;
    let told = if banned { balancer.ban(&[interrupt]) } else { balancer.unban(&[interrupt]) };
    told.map_err(|source| failed("write", setting, source))
}

fn running(root: &Path, setting: &Setting) -> Result<Balancer, SettingError> {
    match Balancer::find_under(root) {
        Ok(Some(balancer)) => Ok(balancer),
        Ok(None) => Err(gone(setting)),
        Err(source) => Err(failed("find", setting, source)),
    }
}

fn failed(call: &'static str, setting: &Setting, source: BalancerError) -> SettingError {
    match source {
        BalancerError::Ended { .. } => gone(setting),
        BalancerError::NotPermitted { source, .. } => {
            let source = source.unwrap_or_else(|| io::Error::from(io::ErrorKind::PermissionDenied));
            SettingError::Denied { call, setting: setting.clone(), needs: setting.needs(), source }
        }
        source => SettingError::Balancer { call, setting: setting.clone(), source: Box::new(source) },
    }
}

/// The error where irqbalance does not run: it has forgotten the bans.
fn gone(setting: &Setting) -> SettingError {
    SettingError::NotThere { setting: setting.clone(), path: PathBuf::from("/run/irqbalance") }
}
