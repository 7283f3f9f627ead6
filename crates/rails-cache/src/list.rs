//! Doubly linked lists through the elements of an arena, so that an element leaves a list without a
//! search.

/// An element's neighbours in the one list that it is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Links {
    previous: u32,
    next: u32,
}

impl Links {
    pub(crate) const NONE: Self = Self { previous: END, next: END };
}

/// An arena whose elements have links.
pub(crate) trait Linked {
    #[cfg(any(test, feature = "internals"))]
    fn links(&self, element: u32) -> Links;
    fn links_mut(&mut self, element: u32) -> &mut Links;
}

/// The ends of a list. Its elements lie in an arena that every call names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct List {
    first: u32,
    last: u32,
}

impl List {
    pub(crate) const EMPTY: Self = Self { first: END, last: END };

    pub(crate) fn first(self) -> Option<u32> {
        (self.first != END).then_some(self.first)
    }

    pub(crate) fn last(self) -> Option<u32> {
        (self.last != END).then_some(self.last)
    }

    pub(crate) fn is_empty(self) -> bool {
        self.first == END
    }

    pub(crate) fn push_back(&mut self, arena: &mut impl Linked, element: u32) {
        *arena.links_mut(element) = Links { previous: self.last, next: END };
        match self.last() {
            Some(last) => arena.links_mut(last).next = element,
            None => self.first = element,
        }
        self.last = element;
    }

    pub(crate) fn push_front(&mut self, arena: &mut impl Linked, element: u32) {
        *arena.links_mut(element) = Links { previous: END, next: self.first };
        match self.first() {
            Some(first) => arena.links_mut(first).previous = element,
            None => self.last = element,
        }
        self.first = element;
    }

    /// Removes an element, which has to be in this list.
    pub(crate) fn remove(&mut self, arena: &mut impl Linked, element: u32) {
        let Links { previous, next } = std::mem::replace(arena.links_mut(element), Links::NONE);
        match previous {
            END => self.first = next,
            _ => arena.links_mut(previous).next = next,
        }
        match next {
            END => self.last = previous,
            _ => arena.links_mut(next).previous = previous,
        }
    }

    #[cfg(any(test, feature = "internals"))]
    pub(crate) fn iter(self, arena: &impl Linked) -> impl Iterator<Item = u32> + '_ {
        std::iter::successors(self.first(), |element| {
            let next = arena.links(*element).next;
            (next != END).then_some(next)
        })
    }
}

/// Stands beyond both ends of a list.
const END: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    struct Arena([Links; 8]);

    impl Linked for Arena {
        fn links(&self, element: u32) -> Links {
            self.0[element as usize]
        }

        fn links_mut(&mut self, element: u32) -> &mut Links {
            &mut self.0[element as usize]
        }
    }

    proptest! {
        #[test]
        fn list_holds_the_order_of_its_insertions(
            steps in proptest::collection::vec((0_u32..8, any::<bool>()), 0..100),
        ) {
            let (mut arena, mut list, mut oracle) = (Arena([Links::NONE; 8]), List::EMPTY, Vec::new());
            for (element, at_front) in steps {
                match oracle.iter().position(|other| *other == element) {
                    Some(at) => {
                        oracle.remove(at);
                        list.remove(&mut arena, element);
                    }
                    None if at_front => {
                        oracle.insert(0, element);
                        list.push_front(&mut arena, element);
                    }
                    None => {
                        oracle.push(element);
                        list.push_back(&mut arena, element);
                    }
                }
                prop_assert_eq!(list.iter(&arena).collect::<Vec<_>>(), oracle.clone());
                prop_assert_eq!((list.first(), list.last()), (oracle.first().copied(), oracle.last().copied()));
                prop_assert_eq!(list.is_empty(), oracle.is_empty());
            }
        }
    }
}
