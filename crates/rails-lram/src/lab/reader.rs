//! The reader of LambdaRAM, in a process of its own.

use super::{
    plan::{Blocks, Figures, Plan, Way},
    shared::Watch,
    weather::Digest,
};
use anyhow::{Context, Result};
use rails_array::{Region, Selection, Shape};
use rails_cli::{exit::Exit, print};
use rails_lambdaram::{Array, Site, SiteOptions};
use rails_multirail::Security;
use rails_topo::DataSize;
use std::{
    thread,
    time::{Duration, Instant},
};
use tokio::runtime::Runtime;

/// Reads as a plan says, and prints figures
#[derive(Debug, clap::Args)]
pub(crate) struct ReaderArgs {
    /// The plan, as JSON
    plan: String,
}

/// Carries out the plan, and prints its figures.
pub(crate) fn read(args: &ReaderArgs) -> Result<Exit> {
    let plan: Plan = serde_json::from_str(&args.plan).context("the plan is no JSON of one")?;
    let runtime = Runtime::new().context("start a runtime")?;
    let figures = match plan.way {
        Way::Open => open(&runtime, &plan),
        _ => read_steps(&runtime, &plan),
    }?;
    print::result(serde_json::to_string(&figures)? + "\n")?;
    Ok(Exit::Done)
}

fn read_steps(runtime: &Runtime, plan: &Plan) -> Result<Figures> {
    let begin = Instant::now();
    let (site, array) = runtime.block_on(array(plan))?;
    let opened = begin.elapsed().as_secs_f64();
    let mut waits = Vec::with_capacity(plan.steps.len());
    let mut digest = Digest::default();
    let mut watch = Watch::default();
    let mut planes = vec![vec![0.0_f32; plan.window.bytes() / 4]; plan.levels.len()];
    for (count, step) in plan.steps.iter().enumerate() {
        let asked = Instant::now();
        for (plane, level) in planes.iter_mut().zip(&plan.levels) {
            runtime.block_on(read_plane(&array, plan, *step, *level, plane))?;
        }
        waits.push(asked.elapsed().as_secs_f64());
        std::hint::black_box(shear(&planes));
        for (number, plane) in planes.iter().enumerate() {
            digest.add(count, number, plan.window.columns.len(), plane);
        }
        if let Some(shared) = &plan.shared {
            runtime.block_on(watch.look(&site, shared, count))?;
        }
        if plan.pause > 0.0 {
            thread::sleep(Duration::from_secs_f64(plan.pause));
        }
    }
    let seconds = begin.elapsed().as_secs_f64();
    let status = site.status();
    let blocks = Blocks {
        hits: status.sum(|budget| budget.hits),
        ahead_hits: status.sum(|budget| budget.ahead_hits),
        late_ahead: status.sum(|budget| budget.late_ahead),
        misses: status.sum(|budget| budget.misses),
        ahead_fetched: status.sum(|budget| budget.ahead_fetched),
        pushed: status.sum(|budget| budget.pushed),
        used: status.sum(|budget| budget.used),
        unused: status.sum(|budget| budget.unused),
    };
    let digest = digest.number().to_string();
    Ok(Figures { seconds, opened, waits, digest, blocks: Some(blocks), shared: watch.figures(), version: None })
}

/// Opens a dataset and reads its coordinates.
fn open(runtime: &Runtime, plan: &Plan) -> Result<Figures> {
    let begin = Instant::now();
    let digest = runtime.block_on(async {
        let dataset = site(plan).await?.dataset(&plan.dataset).await?;
        let mut sum = 0_u64;
        let names: Vec<String> = dataset.array_names().map(str::to_owned).collect();
        for name in names {
            let array = dataset.array(&name)?;
            if array.description().shape.rank() == 1 {
                let bytes = array.read(&Region::whole(&array.description().shape)).await?;
                let elements = bytes.chunks_exact(8).map(|bytes| f64::from_ne_bytes(bytes.try_into().expect("eight")));
                sum += elements.sum::<f64>() as u64;
            }
        }
        anyhow::Ok(sum.to_string())
    })?;
    let seconds = begin.elapsed().as_secs_f64();
    Ok(Figures { seconds, opened: seconds, waits: Vec::new(), digest, blocks: None, shared: None, version: None })
}

async fn site(plan: &Plan) -> Result<Site> {
    let mut options = SiteOptions::new().security(Security::insecure());
    if let Some(shared) = &plan.shared {
        options = options.application(&shared.application).memory(OWN_MEMORY);
    }
    match plan.way {
        Way::NoPrefetch => options = options.prefetch(false),
        Way::Presend => options = options.presend(true),
        Way::Sequential | Way::AllFirst | Way::Open => {}
    }
    Ok(Site::open_with(&plan.address, options).await?)
}

async fn array(plan: &Plan) -> Result<(Site, Array)> {
    let site = site(plan).await?;
    let array = site.dataset(&plan.dataset).await?.array(&plan.array)?;
    Ok((site, array))
}

async fn read_plane(array: &Array, plan: &Plan, step: usize, level: usize, plane: &mut [f32]) -> Result<()> {
    let window = &plan.window;
    let start = [step, level, window.rows.start, window.columns.start].map(|at| at as u64);
    let extents = [1, 1, window.rows.len() as u64, window.columns.len() as u64];
    let region = Region::new(start, Shape::new(extents)?)?;
    let bytes = array.read_selection(&Selection::from(region)).await?;
    for (element, bytes) in plane.iter_mut().zip(bytes.chunks_exact(4)) {
        *element = f32::from_ne_bytes(bytes.try_into().expect("four bytes"));
    }
    Ok(())
}

/// The root of the mean square of the difference of two winds.
fn shear(planes: &[Vec<f32>]) -> f64 {
    let [lower, upper] = planes else { return 0.0 };
    let squares: f64 = lower.iter().zip(upper).map(|(lower, upper)| f64::from(lower - upper).powi(2)).sum();
    (squares / lower.len() as f64).sqrt()
}

/// The memory of a reader that leaves its blocks to a node: of four steps of the globe.
const OWN_MEMORY: DataSize = DataSize::bytes(8 << 20);
