//! The examination in words.

use super::examine::Examined;
use crate::placement::with_remedies;
use rails_bind::{
    affinity::Verdict,
    settings::{Changed, SettingState},
};
use std::{error::Error, fmt::Write as _};

/// Each examined subject: the three properties, the evidence, and the fix.
pub(super) fn examined(all: &[Examined]) -> String {
    let mut text = String::new();
    for one in all {
        let _ = writeln!(text, "{}", one.what);
        for (property, verdict) in one.report.verdicts() {
            let (state, why) = match verdict {
                Verdict::Holds { evidence } => ("holds", evidence),
                Verdict::Broken { evidence, .. } => ("BROKEN", evidence),
                Verdict::Unknown { reason } => ("unknown", reason),
            };
            let _ = writeln!(text, "  {property:<16}  {state:<7}  {why}");
            if let Some(fix) = verdict.fix() {
                let _ = writeln!(text, "  {:<16}  {:<7}  {}", "", "fix:", fix.advice);
            }
        }
        for unheld in &one.unheld {
            let _ = write!(text, "  not held: {}", with_remedies(unheld));
        }
        for note in &one.notes {
            let _ = writeln!(text, "  note: {note}");
        }
    }
    text
}

/// The changes, and their results.
pub(super) fn mended(all: &[Changed]) -> String {
    let mut text = String::new();
    for changed in all {
        let Changed { setting, former, wanted, state, .. } = changed;
        let _ = match state {
            SettingState::Applied => writeln!(text, "changed: {setting}: {wanted}, before {former}"),
            SettingState::Pending { .. } => {
                writeln!(text, "changed: {setting}: {wanted}, before {former}; it moves when it next fires")
            }
            SettingState::Partial { got } => {
                writeln!(text, "changed in part: {setting}: {got} instead of {wanted}, before {former}")
            }
            SettingState::Refused(error) => {
                let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
                writeln!(text, "not changed: {error}{cause}")
            }
            state => writeln!(text, "{setting}: {state:?}"),
        };
    }
    if all.is_empty() {
        text.push_str("nothing was there to be changed\n");
    } else if all.iter().any(|changed| !matches!(changed.state, SettingState::Refused(_))) {
        text.push_str("`rails-bench undo` takes this back\n");
    }
    text
}
