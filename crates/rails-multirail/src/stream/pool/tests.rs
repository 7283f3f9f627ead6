use super::*;
use proptest::prelude::*;
use rails_proto::messages::MessageMemory;

const WINDOW: u64 = 1 << 20;
const HERE: Option<NodeId> = Some(NodeId(0));
const THERE: Option<NodeId> = Some(NodeId(1));

#[test]
fn buffer_back_on_its_node_after_its_last_bytes() {
    let pool = Pool::new(WINDOW);
    let mut buffer = pool.chunk(THERE, 20_000);
    buffer.fill(7);
    let begins = buffer.as_ptr();
    let bytes = buffer.freeze();
    let part = bytes.slice(10..20);
    drop(bytes);
    assert_eq!((pool.bytes_kept(), &part[..]), (0, &[7; 10][..]));
    // The application's thread belongs to no rail.
    std::thread::spawn(move || drop(part)).join().unwrap();
    assert!(pool.bytes_kept() >= 20_000);
    assert_ne!(pool.chunk(HERE, 20_000).as_ptr(), begins);
    assert_eq!(pool.chunk(THERE, 19_900).as_ptr(), begins);
}

#[test]
fn lengths_are_rounded_up_by_little() {
    for length in
        [SMALLEST, 5_000, 8_191, 8_193, 16 << 10, 100_001, MAPPED - 1, MAPPED, MAPPED + 1, 512 << 10, 16 << 20]
    {
        let pool = Pool::new(1 << 30);
        let buffer = pool.chunk(HERE, length);
        let bytes = buffer.memory.as_ref().unwrap().bytes();
        assert!(bytes - length <= (length / STEPS).max(PAGE - 1) && bytes - length <= length / 32, "{length}: {bytes}");
    }
    assert!(Pool::new(WINDOW).chunk(HERE, SMALLEST - 1).home.is_none());
}

#[test]
fn longer_buffers_are_taken_while_little_is_wasted() {
    let pool = Pool::new(WINDOW);
    let waste = 8_000;
    let kept: Vec<_> = (0..4).map(|_| pool.chunk(HERE, 32_000)).collect();
    drop(kept);
    let taken: Vec<_> = (0..4).map(|_| pool.chunk(HERE, 32_000 - waste)).collect();
    let long = taken.iter().filter(|buffer| buffer.memory.as_ref().unwrap().bytes() >= 32_000).count();
    assert_eq!(long, (WINDOW / MAX_WASTE) as usize / waste);
    drop(taken);
    assert_eq!(pool.lock().wasted, 0);
    drop(pool.chunk(HERE, 32_000));
    assert!(
        pool.chunk(HERE, 10_000).memory.as_ref().unwrap().bytes() < 12_000,
        "the buffer is at most half as long again"
    );
}

#[test]
fn idle_buffers_are_given_back_at_the_second_look() {
    let pool = Pool::new(WINDOW);
    drop((pool.chunk(HERE, 10_000), pool.chunk(THERE, 200_000)));
    assert!(pool.give_back_idle(), "the buffer was used since the last call");
    // The test uses one of the two in between.
    drop(pool.chunk(HERE, 10_000));
    assert!(pool.give_back_idle());
    let kept = pool.bytes_kept();
    assert!((10_000..12_000).contains(&kept), "{kept}");
    assert!(!pool.give_back_idle());
    assert_eq!(pool.bytes_kept(), 0);
}

#[test]
fn a_pool_that_is_gone_takes_nothing_back() {
    let pool = Pool::new(WINDOW);
    let bytes = pool.chunk(HERE, 10_000).freeze();
    let weak = Arc::downgrade(&pool);
    drop(pool);
    assert!(weak.upgrade().is_none(), "an application's buffer does not keep the pool");
    assert_eq!(bytes.len(), 10_000);
}

#[test]
fn messages_buffers_come_back_whole() {
    let pool = Pool::new(16 << 20);
    let mut message = pool.message(3_000_000, None);
    message[2_999_999] = 7;
    assert_eq!((message.len(), pool.bytes_kept()), (3_000_000, 0));
    let begins = message.as_ptr();
    drop(message);
    assert!(pool.bytes_kept() >= 3_000_000);
    assert_eq!(pool.message(3_000_000, None).as_ptr(), begins);
    assert_ne!(pool.message(3_000_000, Some(&NodeSet::single(rails_topo::NodeId(0)))).as_ptr(), begins);
}

/// Mapped memory for a message of that length.
fn placed(pool: &Arc<Pool>, length: usize) -> Placed {
    match pool.take(Owner::All, length, || new(length, &MemoryPolicy::Default)) {
        (Memory::Mapped(memory), home) => Placed::new(memory.into_part(), length, home),
        (Memory::Heap(_), _) => panic!("the kernel maps {length} bytes"),
    }
}

#[test]
fn split_message_memory_joined_and_returned() {
    let pool = Pool::new(16 << 20);
    let mut front = placed(&pool, 200_000);
    let mut back = front.split_off(3_000);
    assert_eq!((front.as_ref().len(), (*back).as_ref().len()), (3_000, 197_000));
    front.as_mut().fill(1);
    (*back).as_mut().fill(2);
    front.unsplit(back);
    assert_eq!((front.as_ref().len(), &front.as_ref()[2_999..3_001]), (200_000, &[1, 2][..]));
    assert_eq!(pool.bytes_kept(), 0);
    drop(front);
    assert!(pool.bytes_kept() >= 200_000);
}

#[test]
fn memory_longer_than_its_message_returned() {
    let pool = Pool::new(16 << 20);
    let mut front = placed(&pool, 3_000_000);
    let mut last = front.split_off(2_000_000);
    drop(last.split_off(1_000_000));
    front.unsplit(last);
    drop(front);
    assert!(pool.bytes_kept() > 3_000_000);
    assert_eq!(pool.lock().wasted, 0);
}

#[test]
fn message_memory_dropped_in_parts_unmapped() {
    let pool = Pool::new(16 << 20);
    let mut front = placed(&pool, 200_000);
    drop(front.split_off(3_000));
    drop(front);
    assert_eq!(pool.bytes_kept(), 0, "the pool does not keep parts of a message that was given up");
}

/// One operation on a pool.
#[derive(Debug, Clone)]
enum Act {
    Take {
        node: u32,
        length: usize,
    },
    /// The buffer of that number arrives, and holds a part of the window.
    Arrive(prop::sample::Index),
    /// The application reads an arrived buffer and drops it.
    Read(prop::sample::Index),
    /// A buffer with bytes that had arrived before is dropped.
    Drop(prop::sample::Index),
    Idle,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (0u32..3, prop_oneof![4_096usize..200_000, Just(65_536), Just(131_072)]).prop_map(|(node, length)| Act::Take { node, length }),
        4 => any::<prop::sample::Index>().prop_map(Act::Arrive),
        4 => any::<prop::sample::Index>().prop_map(Act::Read),
        1 => any::<prop::sample::Index>().prop_map(Act::Drop),
        1 => Just(Act::Idle),
    ]
}

proptest! {
    /// For every order of operations and lengths, held and kept buffers are together at most a window, and 1/16 of it
    /// for rounding.
    #[test]
    fn kept_and_held_buffers_are_within_a_window(acts in prop::collection::vec(act(), 0..200)) {
        let pool = Pool::new(WINDOW);
        let (mut filling, mut held) = (Vec::new(), Vec::<ChunkBuffer>::new());
        let of = |buffers: &[ChunkBuffer]| buffers.iter().map(|buffer| buffer.length as u64).sum::<u64>();
        for act in acts {
            match act {
                Act::Take { node, length } if filling.len() < 4 => filling.push(pool.chunk(Some(NodeId(node)), length)),
                Act::Arrive(index) if !filling.is_empty() => {
                    let buffer = filling.swap_remove(index.index(filling.len()));
                    if of(&held) + buffer.length as u64 <= WINDOW {
                        held.push(buffer);
                        pool.note_held(of(&held));
                        pool.make_room();
                    }
                }
                Act::Read(index) if !held.is_empty() => {
                    let buffer = held.swap_remove(index.index(held.len()));
                    pool.note_held(of(&held));
                    drop(buffer);
                }
                Act::Drop(index) if !filling.is_empty() => drop(filling.swap_remove(index.index(filling.len()))),
                Act::Idle => drop(pool.give_back_idle()),
                _ => {}
            }
            let state = pool.lock();
            let out = held.iter().map(|buffer| buffer.memory.as_ref().unwrap().bytes() as u64).sum::<u64>();
            prop_assert!(state.kept + out <= WINDOW + WINDOW / 16, "{} kept, {out} held", state.kept);
            prop_assert!(state.wasted <= WINDOW / MAX_WASTE);
            drop(state);
        }
        drop((filling, held));
        prop_assert_eq!(pool.lock().wasted, 0);
    }
}
