//! The cases: what is read, by whom, and what is to be reached.

use super::{
    goal::{Goal, Measure},
    plan::Way,
    rivals::Rival,
    shared::{self, Sharing},
    weather::{LEVELS, SHEAR_LEVELS, STEPS, Window},
    zarr::Store,
};
use clap::ValueEnum;
use rand::{SeedableRng, rngs::ChaCha8Rng, seq::SliceRandom};
use serde::Serialize;
use std::time::Duration;

/// A case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Case {
    /// Wind shear over the globe: 64 steps, two levels, 99.8 MB
    Globe,
    /// The same, with 50 ms of computing after each step
    GlobeComputing,
    /// Wind shear over the Atlantic basin: rows 200 to 300, columns 150 to 300, 7.7 MB
    Basin,
    /// The same, with 50 ms of computing after each step
    BasinComputing,
    /// The globe out of a compressed Zarr folder
    Compressed,
    /// The globe over Celeritas, with losses of 0, 0.001 and 0.01
    Loss,
    /// Opening 64 files with four variables, and reading the coordinates
    Open,
    /// The globe from one server and from two with copies, each behind half of the rate, and eight
    /// of its levels, which take four times as long
    Replicas,
    /// Columns of ozone: twelve levels of every fourth step, with 50 ms of computing after each,
    /// fetched ahead by the reader and sent ahead by the server
    Ozone,
    /// The globe from xarray, by LambdaRAM's package for Python (see `--wheel`)
    Xarray,
    /// The globe's steps in a random order, with a cache and without prefetching
    Random,
    /// A working set out of a node whose memory another application scans through
    MemQos,
}

/// A reader in a case.
#[derive(Debug, Clone)]
pub(crate) struct Contender {
    /// The name, unique in the case.
    pub(crate) name: &'static str,
    /// The rival; `None` for LambdaRAM.
    pub(crate) rival: Option<Rival>,
    /// The data that are served.
    pub(crate) data: Served,
    /// The steps of time in their order.
    pub(crate) steps: Vec<usize>,
    /// The levels of each step.
    pub(crate) levels: Vec<usize>,
    /// The part of each plane.
    pub(crate) window: Window,
    /// The time of computing after each step.
    pub(crate) pause: Duration,
    /// The way of reading.
    pub(crate) way: Way,
    /// The number of servers, each behind a link of its own.
    pub(crate) servers: u64,
    /// The part of the rate that a link has.
    pub(crate) share_of_rate: u64,
    /// Whether LambdaRAM's link is Celeritas.
    pub(crate) celeritas: bool,
    /// The probability of loss beside that of all links.
    pub(crate) loss: f64,
    /// How the memory of a node in the middle is shared, if the reader reads out of one.
    pub(crate) shared: Option<Sharing>,
}

/// Data that a server has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Served {
    /// The 64 files of the weather.
    Wind,
    /// The 64 files with four variables, or the group of Zarr.
    Variables,
    /// A folder of Zarr.
    Store(Store),
}

impl Case {
    /// The readers, LambdaRAM's first.
    pub(crate) fn contenders(self) -> Vec<Contender> {
        let plane = Served::Store(Store::Plane);
        let tile = Served::Store(Store::Tile);
        let packed = Served::Store(Store::PlaneZstd);
        let ours = Contender::lambdaram;
        let rival = Contender::rival;
        let rivals = || {
            vec![
                ours(LAMBDARAM, Served::Wind),
                rival(SEQUENTIAL, Rival::TensorStore, plane),
                rival(EXPERT_PLANE, Rival::TensorStore, plane).way(Way::AllFirst),
                rival(EXPERT_TILE, Rival::TensorStore, tile).way(Way::AllFirst),
                rival(ZARR, Rival::ZarrPython, plane),
                rival(DASK, Rival::Dask, plane),
            ]
        };
        let mut list = match self {
            Self::Globe => rivals(),
            Self::GlobeComputing | Self::BasinComputing => rivals().into_iter().take(4).collect(),
            Self::Basin => {
                let mut list = rivals();
                list.push(rival(MOUNT, Rival::RcloneMount, Served::Wind).steps(0..8));
                list
            }
            Self::Compressed => vec![
                ours(LAMBDARAM, packed),
                rival(SEQUENTIAL, Rival::TensorStore, packed),
                rival(EXPERT_PLANE, Rival::TensorStore, packed).way(Way::AllFirst),
            ],
            Self::Loss => [("no loss", 0.0), ("loss 0.001", 0.001), ("loss 0.01", 0.01)]
                .map(|(name, loss)| Contender { celeritas: true, loss, ..ours(name, Served::Wind) })
                .into(),
            Self::Open => vec![
                ours(LAMBDARAM, Served::Variables).way(Way::Open),
                rival(ZARR, Rival::ZarrPython, Served::Variables).way(Way::Open),
            ],
            Self::Replicas => {
                [("two servers", 2, 2), ("one server", 1, 2), (TWO_SERVERS_LONG, 2, 8), (ONE_SERVER_LONG, 1, 8)]
                    .map(|(name, servers, levels)| {
                        let levels = if levels == 2 { SHEAR_LEVELS.into() } else { (0..LEVELS).step_by(5).collect() };
                        Contender { servers, share_of_rate: 2, levels, ..ours(name, Served::Wind) }
                    })
                    .into()
            }
            Self::Ozone => [(PREFETCHED, Way::Sequential), (PRESENDED, Way::Presend)]
                .map(|(name, way)| Contender {
                    levels: (0..LEVELS).step_by(3).collect(),
                    window: Window::column(),
                    pause: COMPUTING,
                    ..ours(name, Served::Wind).steps((0..STEPS).step_by(4)).way(way)
                })
                .into(),
            Self::Xarray => vec![ours(LAMBDARAM, Served::Wind), rival(XARRAY, Rival::Xarray, Served::Wind)],
            Self::Random => {
                let order = || {
                    let mut steps: Vec<usize> = (0..STEPS).collect();
                    steps.shuffle(&mut ChaCha8Rng::seed_from_u64(0));
                    steps
                };
                vec![
                    ours(LAMBDARAM, Served::Wind).steps(order()),
                    ours("without prefetching", Served::Wind).steps(order()).way(Way::NoPrefetch),
                ]
            }
            Self::MemQos => [
                (ALONE, Sharing::Alone),
                (WEIGHTED, Sharing::Weights),
                (GUARANTEED, Sharing::Min),
                ("beside a scan, no rules", Sharing::NoRules),
            ]
            .map(|(name, sharing)| {
                let one = ours(name, Served::Wind).way(Way::NoPrefetch);
                let steps = std::iter::repeat_n(0..shared::WORKING_SET, shared::PASSES).flatten();
                Contender { shared: Some(sharing), pause: COMPUTING / 2, ..one.steps(steps) }
            })
            .into(),
        };
        for contender in &mut list {
            if matches!(self, Self::Basin | Self::BasinComputing) {
                contender.window = Window::basin();
            }
            if matches!(self, Self::GlobeComputing | Self::BasinComputing) {
                contender.pause = COMPUTING;
            }
        }
        list
    }

    /// The goals, on links of this round-trip time.
    pub(crate) fn goals(self, rtt: Duration) -> Vec<Goal> {
        let faster =
            |ratio: f64, than: &[&'static str]| Goal::new(LAMBDARAM, Measure::Faster { than: than.to_vec(), ratio });
        let within = |who, than, share| Goal::new(who, Measure::Within { than, share });
        let experts = [EXPERT_PLANE, EXPERT_TILE];
        let hits = [Goal::new(LAMBDARAM, Measure::Hits(0.95)), Goal::new(LAMBDARAM, Measure::Waste(0.05))];
        match self {
            Self::Globe => {
                let mut goals =
                    vec![faster(2.4, &[SEQUENTIAL]), faster(2.4, &[ZARR]), faster(1.2, &experts), faster(1.5, &[DASK])];
                goals.extend(hits);
                goals
            }
            Self::GlobeComputing => vec![faster(2.2, &[SEQUENTIAL]), Goal::new(LAMBDARAM, Measure::Stall(0.05))],
            Self::Basin => {
                let mut goals = vec![faster(8.0, &[SEQUENTIAL]), faster(2.0, &experts), faster(60.0, &[MOUNT])];
                goals.extend(hits);
                goals
            }
            Self::BasinComputing => vec![faster(2.1, &[SEQUENTIAL])],
            Self::Compressed => vec![faster(1.2, &[EXPERT_PLANE])],
            Self::Loss => vec![within("loss 0.001", "no loss", 0.03), within("loss 0.01", "no loss", 0.1)],
            Self::Open => vec![Goal::new(LAMBDARAM, Measure::Seconds(3.0 * rtt.as_secs_f64() + 0.02))],
            Self::Replicas => [("two servers", "one server"), (TWO_SERVERS_LONG, ONE_SERVER_LONG)]
                .map(|(two, one)| Goal::new(two, Measure::Faster { than: vec![one], ratio: 1.8 }))
                .into(),
            Self::Ozone => vec![Goal::new(PRESENDED, Measure::Waits { than: PREFETCHED, ratio: 0.7 })],
            Self::Xarray => vec![within(XARRAY, LAMBDARAM, 0.15)],
            Self::Random => {
                vec![within(LAMBDARAM, "without prefetching", 0.05), Goal::new(LAMBDARAM, Measure::Waste(0.02))]
            }
            Self::MemQos => vec![
                Goal::new(WEIGHTED, Measure::HitsNear { than: ALONE, points: 0.02 }),
                Goal::new(GUARANTEED, Measure::MinKept),
            ],
        }
    }
}

impl Contender {
    fn lambdaram(name: &'static str, data: Served) -> Self {
        Self {
            name,
            rival: None,
            data,
            steps: (0..STEPS).collect(),
            levels: SHEAR_LEVELS.into(),
            window: Window::globe(),
            pause: Duration::ZERO,
            way: Way::Sequential,
            servers: 1,
            share_of_rate: 1,
            celeritas: false,
            loss: 0.0,
            shared: None,
        }
    }

    fn rival(name: &'static str, rival: Rival, data: Served) -> Self {
        Self { rival: Some(rival), ..Self::lambdaram(name, data) }
    }

    fn way(self, way: Way) -> Self {
        Self { way, ..self }
    }

    fn steps(self, steps: impl IntoIterator<Item = usize>) -> Self {
        Self { steps: steps.into_iter().collect(), ..self }
    }

    /// The factor from the seconds of a run to those of all steps: a slow rival reads only some.
    pub(crate) fn scale(&self) -> f64 {
        if self.rival.is_none() || self.way == Way::Open { 1.0 } else { STEPS as f64 / self.steps.len() as f64 }
    }
}

const LAMBDARAM: &str = "LambdaRAM";
const SEQUENTIAL: &str = "TensorStore, one after the other";
const EXPERT_PLANE: &str = "TensorStore, all asked first, planes";
const EXPERT_TILE: &str = "TensorStore, all asked first, 91x135";
const ZARR: &str = "zarr-python, obstore";
const DASK: &str = "xarray, dask, 16 threads";
const MOUNT: &str = "rclone mount, rows by pread";
const XARRAY: &str = "LambdaRAM from xarray";
const TWO_SERVERS_LONG: &str = "two servers, eight levels";
const ONE_SERVER_LONG: &str = "one server, eight levels";
const PREFETCHED: &str = "prefetched";
const PRESENDED: &str = "presended";
const ALONE: &str = "alone";
const WEIGHTED: &str = "beside a scan, 75:25";
const GUARANTEED: &str = "beside a scan, a min";
const COMPUTING: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn goals_name_contenders() {
        for case in Case::value_variants() {
            let names: Vec<&str> = case.contenders().iter().map(|contender| contender.name).collect();
            assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "{case:?}");
            for goal in case.goals(Duration::from_millis(19)) {
                assert!(goal.names().all(|name| names.contains(&name)), "{case:?}: {goal:?}");
            }
        }
    }

    #[test]
    fn a_random_order_has_every_step_once() {
        let [cached, uncached] = &Case::Random.contenders()[..] else { panic!("two contenders") };
        assert_eq!(cached.steps, uncached.steps);
        assert_eq!(cached.steps.iter().collect::<BTreeSet<_>>().len(), STEPS);
    }
}
