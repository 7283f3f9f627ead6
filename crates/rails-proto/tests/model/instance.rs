//! An instance of the model, and the search through its states.

use crate::world::{Step, World, Wrong};
use rails_proto::internals::{Mutation, with_mutation};
use stateright::{Checker, Model, Property};
use std::{
    collections::{BTreeSet, HashMap, HashSet},
    fmt,
    hash::{Hash, Hasher},
    sync::{Arc, Mutex},
};

/// The size of a model, and its fault. Its two streams are in one direction each.
#[derive(Debug, Clone)]
pub(crate) struct Instance {
    /// The bytes of each stream.
    pub(crate) totals: [u64; 2],
    /// Whether each end opens one of the streams; the first end opens both otherwise.
    pub(crate) both_ways: bool,
    /// The windows of each end: of all streams together, and of a new stream.
    pub(crate) window: u64,
    pub(crate) stream_window: u64,
    pub(crate) longest_chunk: u32,
    pub(crate) send_buffer: usize,
    pub(crate) lanes: usize,
    /// How many parcels are on their way on a lane in each direction, at most.
    pub(crate) max_parcels: usize,
    /// Whether the second stream is written in a step of its own.
    pub(crate) begins_later: bool,
    /// Whether the second stream is finished in a step of its own.
    pub(crate) late_finish: bool,
    /// Whether the sender of the first stream may reset it, and the receiver stop it.
    pub(crate) resets: bool,
    pub(crate) stops: bool,
    /// The stream that nobody reads.
    pub(crate) unread: Option<usize>,
    /// How often the first lane may be lost or stall, and whether lost lanes come back.
    pub(crate) losses: u8,
    pub(crate) stalls: u8,
    pub(crate) returns: bool,
    /// Whether an idle lane sends what another has in flight.
    pub(crate) reinjects: bool,
    pub(crate) mutation: Option<Mutation>,
}

/// The result of a search.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) states: usize,
    /// The number of states from which the session cannot come to its end.
    pub(crate) stuck: usize,
    /// What is wrong in some state.
    pub(crate) wrong: BTreeSet<Wrong>,
}

/// Goes through all states of an instance.
pub(crate) fn search(instance: &Instance) -> Found {
    let model = Search { instance: instance.clone(), graph: Mutex::default() };
    let checker = model.checker().threads(2).spawn_bfs().join();
    let wrong = checker.discoveries().into_values().filter_map(|path| path.into_states().pop()?.wrong).collect();
    let graph = checker.model().graph.lock().expect("no thread has panicked");
    Found { states: checker.unique_state_count(), stuck: checker.unique_state_count() - graph.ending(), wrong }
}

/// A state: the steps that lead to it. The objects cannot be copied, so each state makes them anew
/// and takes the steps again.
#[derive(Clone)]
struct State {
    path: Option<Arc<Path>>,
    fingerprint: u64,
    /// The steps that are possible now.
    steps: Arc<[Step]>,
    wrong: Option<Wrong>,
    is_settled: bool,
}

/// The last step to a state, and those before it.
struct Path {
    before: Option<Arc<Path>>,
    step: Step,
}

struct Search {
    instance: Instance,
    graph: Mutex<Graph>,
}

/// The states that were found, by their fingerprints.
#[derive(Default)]
struct Graph {
    /// The states from which one step leads to each.
    before: HashMap<u64, Vec<u64>>,
    settled: HashSet<u64>,
}

impl Graph {
    /// The number of states from which a settled one can be reached.
    fn ending(&self) -> usize {
        let mut ending = self.settled.clone();
        let mut todo: Vec<u64> = ending.iter().copied().collect();
        while let Some(state) = todo.pop() {
            let before = self.before.get(&state).into_iter().flatten();
            todo.extend(before.filter(|before| ending.insert(**before)));
        }
        ending.len()
    }
}

impl Search {
    fn state(&self, path: Option<Arc<Path>>) -> State {
        with_mutation(self.instance.mutation, || {
            let mut world = World::new(&self.instance);
            steps_of(&path).into_iter().for_each(|step| world.step(step));
            State {
                fingerprint: world.fingerprint(),
                steps: world.steps().into(),
                wrong: world.wrong(),
                is_settled: world.is_settled(),
                path,
            }
        })
    }
}

fn steps_of(path: &Option<Arc<Path>>) -> Vec<Step> {
    let steps = std::iter::successors(path.as_ref(), |path| path.before.as_ref()).map(|path| path.step);
    let mut steps: Vec<Step> = steps.collect();
    steps.reverse();
    steps
}

impl Model for Search {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![self.state(None)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Step>) {
        actions.extend(state.steps.iter().copied());
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        let next = self.state(Some(Arc::new(Path { before: state.path.clone(), step })));
        let mut graph = self.graph.lock().expect("no thread has panicked");
        graph.before.entry(next.fingerprint).or_default().push(state.fingerprint);
        if next.is_settled {
            graph.settled.insert(next.fingerprint);
        }
        drop(graph);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no end fails", |_, state: &State| state.wrong != Some(Wrong::Failed)),
            Property::always("what was written is read", |_, state: &State| state.wrong != Some(Wrong::OtherBytes)),
            Property::always("limits hold", |_, state: &State| state.wrong != Some(Wrong::BeyondCredit)),
            Property::always("memory is bounded", |_, state: &State| state.wrong != Some(Wrong::TooMuchMemory)),
            Property::always("ends stay", |_, state: &State| state.wrong != Some(Wrong::EndMoved)),
            Property::always("records are the newest", |_, state: &State| state.wrong != Some(Wrong::OldRecord)),
            Property::always("ends are told", |_, state: &State| state.wrong != Some(Wrong::OtherOutcome)),
            Property::always("limits are told", |_, state: &State| state.wrong != Some(Wrong::LimitUnknown)),
            Property::sometimes(SETTLED, |_, state: &State| state.is_settled),
        ]
    }
}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        self.fingerprint == other.fingerprint
    }
}

impl Eq for State {}

impl Hash for State {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.fingerprint.hash(hasher);
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} after {:?}", self.wrong, steps_of(&self.path))
    }
}

const SETTLED: &str = "the session comes to its end";
