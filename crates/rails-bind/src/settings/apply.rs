//! Several settings changed together, and put back together.

use super::{
    Change, Host, Journal, JournalError, PutBack, Setting, SettingError, Undo, Undone, Value,
    journal::{LiveRecord, Session},
    put_back::put_back,
};
use crate::interrupt;
use rails_topo::CpuSet;
use std::collections::HashSet;

/// The reaction to the kernel's refusal of one of several changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusals {
    /// Earlier changes are put back, and the refusal is the error.
    Fail,
    /// The other changes are made, and each refusal is reported ([`SettingState::Refused`]). The
    /// kernel may manage some interrupts of a NIC itself, while others can be moved.
    Report,
}

/// A guard of changed settings.
///
/// Dropping the guard puts the former values back, the latest change first, also while a panic
/// unwinds. A setting that another program has changed since stays, with a warning. Drop the guards
/// of one setting in the reverse order of their making, as scopes do.
#[derive(Debug)]
#[must_use = "dropping the guard puts the former settings back at once"]
pub struct SettingsGuard {
    host: Host,
    changes: Vec<Changed>,
    recovered: Vec<Undone>,
    /// The changes to put back; `None` once they were put back or kept.
    record: Option<LiveRecord>,
}

/// The outcome of one change.
#[derive(Debug)]
#[non_exhaustive]
pub struct Changed {
    /// The setting.
    pub setting: Setting,
    /// The setting's value before.
    pub former: Value,
    /// The requested value.
    pub wanted: Value,
    /// The state that was read back.
    pub state: SettingState,
}

/// The state of a setting, as read back.
#[derive(Debug)]
#[non_exhaustive]
pub enum SettingState {
    /// The setting has the requested value, which is in effect.
    Applied,
    /// The setting has the requested value, which is not in effect yet: an interrupt moves when it
    /// next fires. The state stays pending if the kernel does not state the serving CPUs
    /// (`effective` is `None`).
    Pending {
        /// The CPUs that served the interrupt so far; empty if it is not started.
        effective: Option<CpuSet>,
    },
    /// The kernel kept a part of the value, without offline CPUs for example.
    Partial {
        /// The present value.
        got: Value,
    },
    /// The kernel refused; the setting has its former value.
    Refused(SettingError),
}

/// The reason why nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// A setting could not be read or changed. The changes before it were put back.
    #[error(transparent)]
    Setting(#[from] SettingError),

    /// Two changes are of the same setting.
    #[error("{setting} is to be changed twice")]
    Duplicate {
        /// The setting.
        setting: Setting,
    },

    /// Another process has changed this setting and will put it back.
    #[error("{setting} is held by process {by}, which will put it back when it ends")]
    Held {
        /// The setting.
        setting: Setting,
        /// The process, by its number in its own PID namespace.
        by: u32,
    },

    /// The change cannot be recorded, so it is not made.
    #[error("nothing is changed that cannot be written down")]
    Journal(#[from] JournalError),
}

impl Host {
    /// Makes changes, reads each of them back, and records beforehand how to put them back.
    ///
    /// First the host puts back the changes of dead processes ([`SettingsGuard::recovered`]).
    ///
    /// # Privileges
    /// The privileges of the settings ([module](super)), and a journal that this process may write
    /// to.
    ///
    /// # Errors
    /// [`ApplyError`], and then nothing is changed. With [`Refusals::Report`] a refused write is
    /// not an error but a [`SettingState::Refused`]; a setting that cannot be read beforehand,
    /// or cannot have such a value, is always one.
    pub fn apply(
        &self,
        journal: &Journal,
        changes: &[Change],
        refusals: Refusals,
    ) -> Result<SettingsGuard, ApplyError> {
        let mut seen = HashSet::new();
        for Change { setting, value } in changes {
            Self::check(setting, value)?;
            if !seen.insert(setting) {
                return Err(ApplyError::Duplicate { setting: setting.clone() });
            }
        }
        let session = journal.session()?;
        let recovered = session.undo(self, Undo::Abandoned, false)?;
        refuse_held(&session, changes)?;
        let formers: Result<Vec<Value>, SettingError> =
            changes.iter().map(|change| self.read(&change.setting)).collect();
        let formers = formers?;
        let differing = changes.iter().zip(&formers).filter(|(change, former)| change.value != **former);
        let entries = differing.map(|(change, former)| (change.setting.clone(), former.clone(), change.value.clone()));
        let record = session.begin(entries)?;

        // From here on every way out drops the guard, which puts the changes back.
        let mut guard = SettingsGuard { host: self.clone(), changes: Vec::new(), recovered, record: Some(record) };
        for (change, former) in changes.iter().zip(formers) {
            guard.make(change, former, refusals)?;
        }
        if let Some(record) = &mut guard.record {
            record.settle()?;
        }
        Ok(guard)
    }

    /// Gives a setting that another program has changed its former value again, and reads it back;
    /// `None` if the setting already has that value. No journal records the write, which reverts
    /// another program's change.
    ///
    /// # Privileges
    /// The privilege of the setting ([module](super)).
    ///
    /// # Errors
    /// [`SettingError`], of the write or of the reading back.
    pub fn set_again(&self, change: &Change) -> Result<Option<SettingState>, SettingError> {
        if self.read(&change.setting)? == change.value {
            return Ok(None);
        }
        self.write(&change.setting, &change.value)?;
        self.state(&change.setting, &change.value).map(Some)
    }

    /// Reads a setting back, and compares it with the request.
    fn state(&self, setting: &Setting, wanted: &Value) -> Result<SettingState, SettingError> {
        let got = self.read(setting)?;
        if got != *wanted {
            return Ok(SettingState::Partial { got });
        }
        let (Setting::InterruptAffinity { interrupt }, Value::Cpus(wanted)) = (setting, wanted) else {
            return Ok(SettingState::Applied);
        };
        // The affinity could be read a moment ago; if the serving CPUs cannot, the change is not
        // known to be in effect.
        let effective = interrupt::read_under(self.root(), *interrupt).ok().and_then(|status| status.effective);
        match effective {
            Some(cpus) if !cpus.is_empty() && cpus.is_subset(wanted) => Ok(SettingState::Applied),
            effective => Ok(SettingState::Pending { effective }),
        }
    }
}

impl SettingsGuard {
    /// The outcome of each change, in the order of the requests.
    pub fn changes(&self) -> &[Changed] {
        &self.changes
    }

    /// The changes of dead processes that were put back before any change was made.
    pub fn recovered(&self) -> &[Undone] {
        &self.recovered
    }

    /// Reads all settings back once more: a pending interrupt may have moved, and another program
    /// may have changed a setting ([`SettingState::Partial`]).
    pub fn refresh(&mut self) -> &[Changed] {
        for changed in &mut self.changes {
            if !matches!(changed.state, SettingState::Refused(_)) {
                changed.state = match self.host.state(&changed.setting, &changed.wanted) {
                    Ok(state) => state,
                    Err(error) => SettingState::Refused(error),
                };
            }
        }
        &self.changes
    }

    /// Leaves the settings as they are. The journal keeps their former values, for
    /// [`Journal::undo`].
    ///
    /// # Errors
    /// [`JournalError`] if the record cannot be written; the settings stay, and the next process
    /// that changes any puts the former values back.
    pub fn keep(mut self) -> Result<Vec<Changed>, JournalError> {
        match self.record.take() {
            Some(record) => record.keep()?,
            None => unreachable!("only `keep` and `restore` take the record, and both consume the guard"),
        }
        Ok(std::mem::take(&mut self.changes))
    }

    /// The first refusal, if all changes were refused; then there is nothing to put back.
    pub(crate) fn take_refusal(&mut self) -> Option<SettingError> {
        let is_refused = |changed: &Changed| matches!(changed.state, SettingState::Refused(_));
        if !self.changes.iter().all(is_refused) {
            return None;
        }
        self.changes.drain(..).find_map(|changed| match changed.state {
            SettingState::Refused(error) => Some(error),
            _ => None,
        })
    }

    /// Puts the former settings back, and returns the outcome of each. Dropping does the same and
    /// can only log failures.
    ///
    /// # Errors
    /// [`JournalError`] if the record cannot be written.
    pub fn restore(mut self) -> Result<Vec<(Setting, PutBack)>, JournalError> {
        self.put_back()
    }

    fn make(&mut self, change: &Change, former: Value, refusals: Refusals) -> Result<(), ApplyError> {
        let Change { setting, value } = change;
        let written = if former == *value {
            Ok(former.clone())
        } else {
            if let Some(record) = &mut self.record {
                record.begin(setting)?;
            }
            self.host.write(setting, value)
        };
        let state = match written {
            Ok(got) => {
                if let Some(record) = &mut self.record {
                    record.made(setting, &got);
                }
                self.host.state(setting, value)?
            }
            Err(error) => {
                self.take_back(setting, &former);
                match refusals {
                    Refusals::Report => SettingState::Refused(error),
                    Refusals::Fail => return Err(error.into()),
                }
            }
        };
        self.changes.push(Changed { setting: setting.clone(), former, wanted: value.clone(), state });
        Ok(())
    }

    /// A write that fails may have changed the setting all the same: the kernel switches steering
    /// off rather than refuse CPUs that are all offline. A change that cannot be taken back at
    /// once remains recorded.
    fn take_back(&mut self, setting: &Setting, former: &Value) {
        let Some(record) = &mut self.record else { return };
        match self.host.read(setting) {
            Ok(now) if now == *former => record.forget(setting),
            Ok(now) => match self.host.write(setting, former) {
                Ok(again) if again == *former => record.forget(setting),
                Ok(again) => record.made(setting, &again),
                Err(_) => record.made(setting, &now),
            },
            Err(_) => {}
        }
    }

    fn put_back(&mut self) -> Result<Vec<(Setting, PutBack)>, JournalError> {
        let Some(mut record) = self.record.take() else { return Ok(Vec::new()) };
        let mut left = Vec::new();
        let mut outcomes = Vec::new();
        for entry in record.entries().iter().rev() {
            let outcome = put_back(&self.host, entry, false);
            if !outcome.is_final() {
                left.insert(0, entry.clone());
            }
            outcomes.push((entry.setting.clone(), outcome));
        }
        record.leave(left)?;
        Ok(outcomes)
    }
}

impl Drop for SettingsGuard {
    fn drop(&mut self) {
        match self.put_back() {
            Ok(outcomes) => {
                for (setting, outcome) in outcomes {
                    if !matches!(outcome, PutBack::Restored { .. } | PutBack::Untouched { .. }) {
                        tracing::warn!(%setting, %outcome, "a setting was not put back");
                    }
                }
            }
            Err(error) => tracing::warn!(%error, "the journal still lists settings that were put back"),
        }
    }
}

fn refuse_held(session: &Session<'_>, changes: &[Change]) -> Result<(), ApplyError> {
    let live = session.live()?;
    for Change { setting, .. } in changes {
        // Guards within one process may be nested.
        if let Some(holder) = live.get(setting).filter(|holder| !holder.is_own) {
            return Err(ApplyError::Held { setting: setting.clone(), by: holder.pid });
        }
    }
    Ok(())
}
