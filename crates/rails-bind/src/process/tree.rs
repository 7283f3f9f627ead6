//! A process and its descendants, looked at now and then.

use super::{ProcessError, unreadable};
use crate::{thread::Tid, usage};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

/// A process and its descendants, as far as looks have seen them.
///
/// A descendant whose parent ends stays one, if a look has seen it before. A process that was made
/// and lost its parent between two looks is missed.
///
/// A look costs little: the kernel says which number it gave last, and where that is the former
/// one, there are no new processes. Of new ones, each is read once.
#[derive(Debug)]
pub struct ProcessTree {
    members: BTreeSet<Tid>,
    /// The processes that are no descendants.
    others: BTreeSet<Tid>,
    newest: Option<u64>,
}

impl ProcessTree {
    /// The tree of `root` and its descendants. Nothing is read before the first
    /// [`look`](Self::look).
    pub fn of(root: Tid) -> Self {
        Self { members: BTreeSet::from([root]), others: BTreeSet::new(), newest: None }
    }

    /// The processes that the last look saw, and the first one before any look.
    pub fn members(&self) -> impl Iterator<Item = Tid> + '_ {
        self.members.iter().copied()
    }

    /// Leaves ended processes out, and takes new descendants in. Returns whether the kernel may
    /// have made processes or threads since the last look; if not, the known processes have no
    /// new threads either. An ended process that nobody has waited for is still there.
    ///
    /// # Privileges
    /// None; with `hidepid`, processes of other users are missing.
    ///
    /// # Errors
    /// [`ProcessError::Read`] if `/proc` cannot be listed.
    ///
    /// # References
    /// [proc_loadavg(5)](https://man7.org/linux/man-pages/man5/proc_loadavg.5.html)
    pub fn look(&mut self) -> Result<bool, ProcessError> {
        // Read first: a process that comes in between is looked for again.
        let newest = newest();
        if newest.is_some() && newest == self.newest {
            self.members.retain(|process| fs::exists(format!("/proc/{process}")).unwrap_or(true));
            return Ok(false);
        }
        let read = |source| ProcessError::Read { file: "/proc".to_owned(), source };
        let mut there = BTreeSet::new();
        for entry in fs::read_dir("/proc").map_err(read)? {
            let name = entry.map_err(read)?.file_name();
            there.extend(name.to_str().and_then(|name| name.parse().ok()).and_then(Tid::from_raw));
        }
        self.newest = newest;
        self.take(&there, |process| usage::parent(process).ok().flatten());
        Ok(true)
    }

    /// Sorts the processes that are there into members and others.
    fn take(&mut self, there: &BTreeSet<Tid>, parent: impl Fn(Tid) -> Option<Tid>) {
        self.members.retain(|process| there.contains(process));
        self.others.retain(|process| there.contains(process));
        let is_new = |process: &&Tid| !self.members.contains(process) && !self.others.contains(process);
        // A process that has ended meanwhile has no parent, and is forgotten.
        let mut new: BTreeMap<Tid, Tid> =
            there.iter().filter(is_new).filter_map(|process| Some((*process, parent(*process)?))).collect();
        // The parent of a new process may be new itself, with a higher number where numbers began anew.
        loop {
            let children: Vec<Tid> =
                new.iter().filter(|(_, parent)| self.members.contains(parent)).map(|(child, _)| *child).collect();
            if children.is_empty() {
                break;
            }
            for child in children {
                new.remove(&child);
                self.members.insert(child);
            }
        }
        self.others.extend(new.into_keys());
    }
}

/// The number that the kernel gave to a process or thread last; `None` if it does not say.
fn newest() -> Option<u64> {
    fs::read_to_string("/proc/loadavg").ok()?.split_ascii_whitespace().next_back()?.parse().ok()
}

impl super::Process {
    /// The inodes of the process's open sockets, of any kind. A socket that the process opens or
    /// closes during the call may be missing.
    ///
    /// # Privileges
    /// As [`sockets`](Self::sockets).
    ///
    /// # Errors
    /// By variant; a zombie counts as ended.
    pub fn socket_inodes(self) -> Result<BTreeSet<u64>, ProcessError> {
        super::open_sockets::inodes(self.pid())
    }

    /// The name of the process's first thread, which is that of its program unless it has set
    /// another.
    ///
    /// # Errors
    /// [`ProcessError::NoSuchProcess`], [`ProcessError::Read`].
    pub fn name(self) -> Result<String, ProcessError> {
        let file = format!("/proc/{}/comm", self.pid());
        let name = fs::read(&file).map_err(|source| unreadable(self.pid(), file, super::TO_LOOK, source))?;
        Ok(String::from_utf8_lossy(&name).trim_end_matches('\n').to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::process::{Command, Stdio};

    fn tid(number: i32) -> Tid {
        Tid::from_raw(number).expect("above zero")
    }

    #[test]
    fn grandchild_stays_when_its_parent_ends() {
        let mut tree = ProcessTree::of(tid(10));
        let parents = |of: Tid| Some(tid(BTreeMap::from([(10, 1), (11, 10), (12, 11), (13, 1)])[&of.as_raw()]));
        tree.take(&[10, 11, 12, 13].map(tid).into(), parents);
        assert_eq!(tree.members().collect::<Vec<_>>(), [10, 11, 12].map(tid));
        tree.take(&[10, 12, 13].map(tid).into(), |_| Some(tid(1)));
        assert_eq!(tree.members().collect::<Vec<_>>(), [10, 12].map(tid));
    }

    #[test]
    fn child_of_this_process_comes_and_goes() {
        let mut tree = ProcessTree::of(tid(std::process::id() as i32));
        tree.look().expect("readable");
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().expect("it is there");
        let number = tid(child.id() as i32);
        assert!(tree.look().expect("readable"), "there is a new process");
        assert!(tree.members().any(|member| member == number));
        assert!(Process::of(number).socket_inodes().expect("it is ours").is_empty());
        drop(child.stdin.take());
        child.wait().expect("it ends");
        tree.look().expect("readable");
        assert!(!tree.members().any(|member| member == number));
    }

    use super::super::Process;

    proptest! {
        #[test]
        fn members_are_those_with_a_way_up_to_the_root(parents in prop::collection::vec(1_i32..40, 1..40)) {
            let parent = |of: Tid| parents.get(of.as_raw() as usize - 1).copied().map(tid);
            let there: BTreeSet<Tid> = (1..=parents.len() as i32).map(tid).collect();
            let mut tree = ProcessTree::of(tid(1));
            tree.take(&there, parent);
            for process in &there {
                let mut up = *process;
                let climbs = (0..=parents.len()).any(|_| {
                    let arrived = up == tid(1);
                    up = parent(up).unwrap_or(up);
                    arrived
                });
                prop_assert_eq!(tree.members.contains(process), climbs, "{}", process);
            }
        }
    }
}
