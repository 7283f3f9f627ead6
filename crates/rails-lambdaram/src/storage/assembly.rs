//! A region that is put together out of the parts of its plan.

use super::{
    error::StorageError,
    files::take_request,
    shared::{Done, Shared},
};
use rails_formats::{
    plan::RegionPlan,
    reader::{ReadEvent, ReadFailure, ReadPart},
};
use std::{
    mem,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

/// A region, as far as it has been read.
pub(super) struct Assembly {
    number: u64,
    plan: Arc<RegionPlan>,
    shared: Arc<Shared>,
    began: Instant,
    goal: Mutex<Goal>,
}

struct Goal {
    /// Empty before the first part.
    elements: Vec<u8>,
    done: Option<Done>,
}

impl Assembly {
    pub(super) fn new(number: u64, plan: Arc<RegionPlan>, shared: Arc<Shared>, done: Done) -> Self {
        let goal = Mutex::new(Goal { elements: Vec::new(), done: Some(done) });
        Self { number, plan, shared, began: Instant::now(), goal }
    }

    /// Takes the news of the plan, on any thread.
    pub(super) fn take(&self, event: ReadEvent) {
        match event {
            ReadEvent::Part(part) => self.add(part),
            ReadEvent::Ended(result) => self.end(result),
            _ => (),
        }
    }

    fn add(&self, part: ReadPart) {
        let request = take_request();
        if let (ReadPart::Read { bytes, .. }, Some((device, took))) = (&part, request) {
            self.shared.requested(device, bytes.len() as u64, took);
        }
        match part {
            ReadPart::Read { number, mut bytes } if self.is_whole(number) => {
                self.plan.dtype().swap_to_native(&mut bytes, self.plan.reads()[number].copies[0].endianness);
                self.with_goal(|goal| goal.elements = bytes);
            }
            part => self.with_goal(|goal| part.scatter(&self.plan, goal.begun(&self.plan))),
        }
    }

    /// Whether the bytes of a read are all elements, side by side.
    fn is_whole(&self, number: usize) -> bool {
        matches!(&self.plan.reads()[number].copies[..], [copy] if copy.from == 0 && copy.bytes == self.plan.bytes())
            && self.plan.reads()[number].range.end - self.plan.reads()[number].range.start == self.plan.bytes()
    }

    fn end(&self, result: Result<(), ReadFailure>) {
        let (elements, done) = self.with_goal(|goal| {
            // A plan of constants has no parts.
            let elements = result.map(|()| mem::take(goal.begun(&self.plan)));
            (elements, goal.done.take())
        });
        let bytes = elements.as_ref().ok().map(|elements| elements.len() as u64);
        self.shared.ended(self.number, self.began, bytes);
        let done = done.expect("a plan ends once");
        done(elements.map_err(StorageError::from));
    }

    fn with_goal<T>(&self, take: impl FnOnce(&mut Goal) -> T) -> T {
        // Where a part that does not fit has panicked, the plan fails.
        take(&mut self.goal.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Goal {
    /// The memory of the region, with the elements that no file has.
    fn begun(&mut self, plan: &RegionPlan) -> &mut Vec<u8> {
        if self.elements.is_empty() {
            self.elements = vec![0; plan.bytes() as usize];
            plan.write_constants(&mut self.elements);
        }
        &mut self.elements
    }
}
