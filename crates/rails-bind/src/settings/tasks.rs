//! Settings of threads and processes, which system calls set.

use super::{Setting, SettingError, Value};
use crate::{
    BindError,
    memory::{MemoryError, process},
    thread::{self, Tid},
    usage,
};
use rails_topo::NodeSet;
use std::path::PathBuf;

pub(super) fn read(setting: &Setting) -> Result<Value, SettingError> {
    match setting {
        Setting::ThreadAffinity { thread, started_ns } => {
            still_there(setting, *thread, *started_ns)?;
            thread::affinity_kept_for(*thread).map(Value::Cpus).map_err(|source| of_thread("read", setting, source))
        }
        Setting::ProcessMemory { process, started_ns } => {
            still_there(setting, *process, *started_ns)?;
            let memory = process::nodes_of(*process);
            memory.map(|memory| Value::Nodes(memory.main_nodes())).map_err(|source| of_memory("read", setting, source))
        }
        _ => unreachable!("every other setting has a file"),
    }
}

pub(super) fn write(setting: &Setting, value: &Value) -> Result<(), SettingError> {
    match (setting, value) {
        (Setting::ThreadAffinity { thread, started_ns }, Value::Cpus(cpus)) => {
            still_there(setting, *thread, *started_ns)?;
            thread::bind(*thread, cpus)
                .map(|guard| drop(guard.keep()))
                .map_err(|source| of_thread("write", setting, source))
        }
        (Setting::ProcessMemory { process, started_ns }, Value::Nodes(nodes)) => {
            still_there(setting, *process, *started_ns)?;
            let failed = |source| of_memory("write", setting, source);
            let lies_on: NodeSet = process::nodes_of(*process).map_err(failed)?.own().into_keys().collect();
            match lies_on.difference(nodes) {
                astray if astray.is_empty() => Ok(()),
                astray => process::migrate(*process, &astray, nodes).map(drop).map_err(failed),
            }
        }
        _ => unreachable!("the kind of the value was checked, and every other setting has a file"),
    }
}

/// Fails if the thread has ended, also if another thread has its number.
fn still_there(setting: &Setting, tid: Tid, started_ns: u64) -> Result<(), SettingError> {
    match usage::started(tid) {
        Ok(started) if started.as_nanos() == u128::from(started_ns) => Ok(()),
        _ => Err(gone(setting, tid)),
    }
}

fn of_thread(call: &'static str, setting: &Setting, source: BindError) -> SettingError {
    let setting = setting.clone();
    match source {
        BindError::NoSuchThread { tid } => gone(&setting, tid),
        BindError::Denied { source, .. } => {
            let needs = setting.needs();
            SettingError::Denied { call, setting, needs, source }
        }
        source => SettingError::Thread { call, setting, source: Box::new(source) },
    }
}

fn of_memory(call: &'static str, setting: &Setting, source: MemoryError) -> SettingError {
    let setting = setting.clone();
    match source {
        MemoryError::NotPermitted { source, capability, .. } => {
            SettingError::Denied { call, setting, needs: capability, source }
        }
        source => SettingError::Memory { call, setting, source: Box::new(source) },
    }
}

fn gone(setting: &Setting, tid: Tid) -> SettingError {
    SettingError::NotThere { setting: setting.clone(), path: PathBuf::from(format!("/proc/{tid}")) }
}
