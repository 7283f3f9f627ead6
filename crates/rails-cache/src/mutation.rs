//! Faults that can be put into a node, so that the models are seen to find them.

/// A fault of a node that a model has to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mutation {
    /// The collector runs though nothing has changed since its last pass, and takes any block.
    CollectorNeedsNoChange,
    /// A block that has arrived can be reclaimed before those who wait for it copy it.
    CollectorTakesWanted,
    /// A block takes its slots when it arrives, not before it is asked for.
    TransitNotCounted,
    /// A request copies once all of its blocks are there, and holds those that are.
    CopyWhenAll,
    /// The youngest request gets the slots.
    NewestFirst,
    /// Requests that lack slots go on once no other can.
    HungryLast,
    /// A young request may pin blocks again and again whose slots an older one needs.
    YoungPins,
    /// A budget takes slots from others that are at their `min`.
    MinNotKept,
    /// An upstream may push blocks that no credit covers.
    PushWithoutCredit,
    /// Credit is never recalled.
    CreditNotRecalled,
    /// A failed block's slots are not given back.
    FailureLeaks,
}

/// The fault of a node, if it has one.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Mutations(Option<Mutation>);

impl Mutations {
    #[cfg(feature = "internals")]
    pub(crate) fn only(mutation: Mutation) -> Self {
        Self(Some(mutation))
    }

    pub(crate) fn has(self, mutation: Mutation) -> bool {
        cfg!(feature = "internals") && self.0 == Some(mutation)
    }
}
