//! The order in which the cached blocks of one budget are reclaimed.

use crate::{
    list::{Linked, Links, List},
    table::{Place, Table},
};
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use rails_array::PartitionIndex;
use std::{collections::BTreeSet, fmt, hash::BuildHasher, str::FromStr};

/// Which block goes first.
///
/// Partitions, not blocks, are kept in the order of their last access; inside a partition, blocks
/// are. Under each policy, a block that nobody is expected to use again goes before any other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Policy {
    /// The least recently used block goes first.
    #[default]
    Lru,
    /// The most recently used block goes first: for scans that begin again and are larger than the
    /// memory.
    Mru,
    /// As [`Policy::Lru`], but blocks whose use is expected go last, that with the latest use
    /// first.
    Hinted,
    /// The whole future is known: a block without an expected use is not used again, and of the
    /// others that with the latest use goes first (Belady's order).
    Schedule,
}

/// A text that is no name of a policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no policy: they are lru, mru, hinted and schedule")]
pub struct ParsePolicyError(String);

impl Policy {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Lru, Self::Mru, Self::Hinted, Self::Schedule];
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Lru => "lru",
            Self::Mru => "mru",
            Self::Hinted => "hinted",
            Self::Schedule => "schedule",
        })
    }
}

impl FromStr for Policy {
    type Err = ParsePolicyError;

    fn from_str(text: &str) -> Result<Self, ParsePolicyError> {
        let named = |policy: &Self| policy.to_string() == text;
        Self::ALL.into_iter().find(named).ok_or_else(|| ParsePolicyError(text.to_owned()))
    }
}

/// Why and when a block comes into the order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Touch {
    pub(crate) partition: PartitionIndex,
    /// In seconds of the node's clock.
    pub(crate) now: u32,
    /// The position of the next expected use.
    pub(crate) next_use: Option<u64>,
    /// The block came ahead of time, and nobody has used it yet.
    pub(crate) is_awaited: bool,
}

/// The reclaimable blocks of a budget: cached, and pinned by nobody.
#[derive(Debug, Clone)]
pub(crate) struct Order {
    policy: Policy,
    groups: Groups,
    by_partition: HashTable<u32>,
    hasher: FixedState,
    /// Groups, the least recently used first.
    recency: List,
    /// Entries, in the order of their last use.
    passed: List,
    /// Entries by the position of their next use.
    expected: BTreeSet<(u64, u32)>,
    /// Uses at positions before this one are not expected any more.
    first_expected: u64,
}

impl Order {
    pub(crate) fn new(policy: Policy, seed: u64) -> Self {
        Self {
            policy,
            groups: Groups::default(),
            by_partition: HashTable::new(),
            hasher: FixedState::with_seed(seed),
            recency: List::EMPTY,
            passed: List::EMPTY,
            expected: BTreeSet::new(),
            first_expected: 0,
        }
    }

    pub(crate) fn policy(&self) -> Policy {
        self.policy
    }

    /// Puts a block in its place, as the one that was used last.
    pub(crate) fn insert(&mut self, table: &mut Table, entry: u32, touch: Touch) {
        let place = match (self.policy, touch.next_use) {
            (Policy::Hinted | Policy::Schedule, Some(position)) => self.insert_expected(entry, position),
            (Policy::Schedule, None) if !touch.is_awaited => self.insert_passed(table, entry),
            _ if table.get(entry).is_passed => self.insert_passed(table, entry),
            // The block that was used last goes first, and this one was not used.
            (Policy::Mru, _) if touch.is_awaited => {
                let group = self.group(touch, |recency, groups, group| recency.push_front(groups, group));
                self.groups.groups[group as usize].blocks.push_front(table, entry);
                Place::Group(group)
            }
            _ => {
                let group = self.group(touch, |recency, groups, group| recency.push_back(groups, group));
                self.groups.groups[group as usize].blocks.push_back(table, entry);
                Place::Group(group)
            }
        };
        table.get_mut(entry).place = place;
    }

    /// Moves a block to the place of its next use, if the policy heeds it.
    pub(crate) fn expect(&mut self, table: &mut Table, entry: u32, position: u64) {
        if matches!(self.policy, Policy::Hinted | Policy::Schedule) {
            self.remove(table, entry);
            table.get_mut(entry).place = self.insert_expected(entry, position);
        }
    }

    /// Moves a block whose expected use did not come to the place of the next one, or, without any,
    /// to those that nobody is expected to use again.
    pub(crate) fn leave_out(&mut self, table: &mut Table, entry: u32, next_use: Option<u64>) {
        if matches!(table.get(entry).place, Place::Expected(_)) {
            self.remove(table, entry);
            table.get_mut(entry).place = match next_use {
                Some(position) => self.insert_expected(entry, position),
                None => self.insert_passed(table, entry),
            };
        }
    }

    /// Moves a block to those that nobody is expected to use again, unless its use is expected.
    pub(crate) fn pass(&mut self, table: &mut Table, entry: u32) {
        if matches!(table.get(entry).place, Place::Group(_)) {
            self.remove(table, entry);
            table.get_mut(entry).place = self.insert_passed(table, entry);
        }
    }

    /// Expects no use before this position any more.
    pub(crate) fn forget_expected(&mut self, first_expected: u64) {
        self.first_expected = first_expected;
    }

    fn insert_passed(&mut self, table: &mut Table, entry: u32) -> Place {
        self.passed.push_back(table, entry);
        Place::Passed
    }

    fn insert_expected(&mut self, entry: u32, position: u64) -> Place {
        self.expected.insert((position, entry));
        Place::Expected(position)
    }

    /// Takes a block out of its place.
    pub(crate) fn remove(&mut self, table: &mut Table, entry: u32) {
        match std::mem::replace(&mut table.get_mut(entry).place, Place::Outside) {
            Place::Outside => unreachable!("a block outside the order is not taken out of it"),
            Place::Passed => self.passed.remove(table, entry),
            Place::Expected(position) => {
                assert!(self.expected.remove(&(position, entry)), "it is where its place says")
            }
            Place::Group(group) => {
                let blocks = &mut self.groups.groups[group as usize].blocks;
                blocks.remove(table, entry);
                if blocks.is_empty() {
                    self.remove_group(group);
                }
            }
        }
    }

    /// The block that goes first.
    pub(crate) fn victim(&self) -> Option<u32> {
        let group = |group: u32| self.groups.groups[group as usize].blocks;
        let by_recency = match self.policy {
            Policy::Mru => self.recency.last().and_then(|last| group(last).last()),
            _ => self.recency.first().and_then(|first| group(first).first()),
        };
        let last = || self.expected.last().map(|(_, entry)| *entry);
        self.passed_victim().or(by_recency).or_else(last)
    }

    /// A block that nobody is expected to use again.
    pub(crate) fn passed_victim(&self) -> Option<u32> {
        let forgotten = self.expected.first().filter(|(position, _)| *position < self.first_expected);
        self.passed.first().or_else(|| forgotten.map(|(_, entry)| *entry))
    }

    /// A block of the partition that was idle for longest, if its last access was before `limit`.
    pub(crate) fn idle_victim(&self, limit: u32) -> Option<u32> {
        let group = &self.groups.groups[self.recency.first()? as usize];
        group.blocks.first().filter(|_| group.last_access < limit)
    }

    /// The last access to the partition that was idle for longest.
    pub(crate) fn oldest_access(&self) -> Option<u32> {
        self.recency.first().map(|group| self.groups.groups[group as usize].last_access)
    }

    /// The group of a partition, put by `place` where its access says.
    fn group(&mut self, touch: Touch, place: impl FnOnce(&mut List, &mut Groups, u32)) -> u32 {
        let Self { groups, by_partition, hasher, recency, .. } = self;
        let hash = hasher.hash_one(touch.partition);
        let is_it = |group: &u32| groups.groups[*group as usize].partition == touch.partition;
        let group = match by_partition.find(hash, is_it) {
            Some(group) => {
                let group = *group;
                recency.remove(groups, group);
                group
            }
            None => {
                let group = groups.add(touch.partition);
                let rehash = |group: &u32| hasher.hash_one(groups.groups[*group as usize].partition);
                by_partition.insert_unique(hash, group, rehash);
                group
            }
        };
        place(recency, groups, group);
        groups.groups[group as usize].last_access = touch.now;
        group
    }

    fn remove_group(&mut self, group: u32) {
        let hash = self.hasher.hash_one(self.groups.groups[group as usize].partition);
        let found = self.by_partition.find_entry(hash, |other| *other == group);
        found.expect("a group is found until it is removed").remove();
        self.recency.remove(&mut self.groups, group);
        self.groups.vacant.push(group);
    }

    /// The entries in the order in which they would go, for comparing states.
    #[cfg(any(test, feature = "internals"))]
    pub(crate) fn entries(&self, table: &Table) -> Vec<Vec<u32>> {
        let mut lists = vec![self.passed.iter(table).collect::<Vec<u32>>()];
        let (forgotten, expected): (Vec<_>, Vec<_>) =
            self.expected.iter().partition(|(position, _)| *position < self.first_expected);
        lists.extend([forgotten, expected].map(|list| list.into_iter().map(|(_, entry)| entry).collect()));
        lists.extend(self.recency.iter(&self.groups).map(|group| {
            let blocks = self.groups.groups[group as usize].blocks;
            blocks.iter(table).collect()
        }));
        lists
    }
}

/// The reclaimable blocks of one partition.
#[derive(Debug, Clone)]
struct Group {
    partition: PartitionIndex,
    blocks: List,
    links: Links,
    last_access: u32,
}

#[derive(Debug, Clone, Default)]
struct Groups {
    groups: Vec<Group>,
    vacant: Vec<u32>,
}

impl Groups {
    fn add(&mut self, partition: PartitionIndex) -> u32 {
        let new = Group { partition, blocks: List::EMPTY, links: Links::NONE, last_access: 0 };
        if let Some(group) = self.vacant.pop() {
            self.groups[group as usize] = new;
            return group;
        }
        self.groups.push(new);
        u32::try_from(self.groups.len() - 1).expect("a group has a block at least, which u32 numbers")
    }
}

impl Linked for Groups {
    #[cfg(any(test, feature = "internals"))]
    fn links(&self, element: u32) -> Links {
        self.groups[element as usize].links
    }

    fn links_mut(&mut self, element: u32) -> &mut Links {
        &mut self.groups[element as usize].links
    }
}
