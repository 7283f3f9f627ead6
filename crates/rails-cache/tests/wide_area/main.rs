//! A reader far from its data, under a simulated clock: jobs of the thesis over 500 Mbit/s and 19
//! ms.
#![allow(clippy::disallowed_methods)]

mod job;
mod prefetch;
mod presend;

use crate::{
    job::{ARRAY, Job, Outcome, region},
    prefetch::Prefetching,
    presend::Presending,
};
use rails_array::{Region, Shape};
use rand::{RngExt, SeedableRng, rngs::ChaCha8Rng};
use std::time::Duration;

fn globe(compute: Duration) -> Job {
    Job::wind_shear(&Region::whole(&Shape::new([361, 540]).unwrap()), [1, 1, 91, 135], compute)
}

/// The Atlantic basin of the thesis.
fn basin(compute: Duration) -> Job {
    let plane = Region::new([200, 150], Shape::new([100, 150]).unwrap()).unwrap();
    Job::wind_shear(&plane, [1, 1, 50, 150], compute)
}

fn random() -> Job {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let read = |_| {
        let start = [64, 36, 261, 390].map(|end| random.random_range(0..end));
        (region(start, [1, 1, 100, 150]).into(), Duration::ZERO)
    };
    Job {
        view: Region::whole(&Shape::new(ARRAY).unwrap()),
        block_shape: [1, 1, 91, 135],
        reads: (0..300).map(read).collect(),
    }
}

const PHASE: Duration = Duration::from_millis(50);
/// A memory that holds what any of the jobs reads.
const SLOTS: u32 = 4096;

#[test]
fn globe_fills_the_wire() {
    let job = globe(Duration::ZERO);
    let [alone, ahead] = [false, true].map(|is_ahead| Prefetching::run(&job, SLOTS, is_ahead));
    println!("{}\n{}\nwire {:?}", alone.line(), ahead.line(), job.of_wire());
    assert!(ahead.whole < job.of_wire().mul_f64(1.1), "{ahead:?}");
    assert!(alone.whole > ahead.whole.mul_f64(2.0), "{alone:?}");
}

#[test]
fn globe_hides_behind_computation() {
    let ahead = Prefetching::run(&globe(PHASE), SLOTS, true);
    assert!(ahead.waited_part() <= 0.05, "{ahead:?}");
    assert_eq!(ahead.stats.unused, 0);
}

#[test]
fn basin_hides_behind_computation() {
    let [alone, ahead] = [false, true].map(|is_ahead| Prefetching::run(&basin(PHASE), SLOTS, is_ahead));
    assert!(ahead.waited_part() <= 0.05, "{ahead:?}");
    assert!(alone.whole > ahead.whole.mul_f64(1.5), "{alone:?}");
}

#[test]
fn small_memory_slides_over_the_globe() {
    // Seven planes.
    let [alone, ahead] = [false, true].map(|is_ahead| Prefetching::run(&globe(PHASE), 112, is_ahead));
    println!("{}\n{}", alone.line(), ahead.line());
    assert!(ahead.waited_part() <= 0.05 && alone.waited_part() > 0.5, "{ahead:?}");
    assert_eq!(ahead.stats.unused, 0, "{ahead:?}");
}

#[test]
fn steps_leave_blocks_out() {
    let job = Job::ozone(PHASE);
    let [alone, ahead] = [false, true].map(|is_ahead| Prefetching::run(&job, SLOTS, is_ahead));
    // Twelve of the 36 levels, a block each.
    assert_eq!(alone.blocks, 128 * 12);
    // Four steps were guessed after the first, and one of them is read; the outer loop costs two.
    assert!(ahead.blocks <= 133 * 12 && ahead.waited() < alone.waited().mul_f64(0.05), "{ahead:?}");
}

#[test]
fn random_reads_are_no_slower() {
    let job = random();
    let [alone, ahead] = [false, true].map(|is_ahead| Prefetching::run(&job, 1024, is_ahead));
    assert!(ahead.whole <= alone.whole.mul_f64(1.01), "{ahead:?}");
    assert!(ahead.stats.ahead_fetched * 50 <= ahead.stats.misses, "{ahead:?}");
}

/// How long readers wait with presending, for the first time and if the server has seen another
/// reader of the same job, as parts of how long they wait with prefetching. The time that the link
/// needs for the bytes of a job that only reads is no wait that anyone could avoid.
fn presend_to_prefetch(name: &str, job: &Job) -> [f64; 2] {
    let prefetch = Prefetching::run(job, SLOTS, true);
    let (first, reads) = Presending::run(job, SLOTS, &[]);
    assert_eq!(reads.len(), job.reads.len());
    let (second, _) = Presending::run(job, SLOTS, &reads);
    let avoidable = |outcome: &Outcome| {
        let computing: Duration = job.reads.iter().map(|(_, compute)| *compute).sum();
        (outcome.whole - computing.max(job.of_wire())).as_secs_f64() * 1000.0 / job.reads.len() as f64
    };
    let parts = [&first, &second].map(|outcome| avoidable(outcome) / avoidable(&prefetch));
    println!("{name}: wire {:?}, presend/prefetch {parts:.2?}", job.of_wire());
    for outcome in [&prefetch, &first, &second] {
        println!("    {:.3} ms: {}", avoidable(outcome), outcome.line());
        assert_eq!(outcome.stats.unused, 0, "{outcome:?}");
    }
    parts
}

/// A reader of a job that the server has seen finds its blocks there, or on their way.
fn check_presend(name: &str, job: &Job) {
    let [first, second] = presend_to_prefetch(name, job);
    assert!(first <= 0.7, "{name}: {first}");
    assert!(second <= 0.45, "{name}: {second}");
}

/// Both ways wait for the two reads that nobody could foretell, and then for the wire alone.
fn check_as_soon(name: &str, job: &Job) {
    let prefetch = Prefetching::run(job, SLOTS, true);
    let (first, reads) = Presending::run(job, SLOTS, &[]);
    let (second, _) = Presending::run(job, SLOTS, &reads);
    let parts = [&first, &second].map(|outcome| outcome.whole.as_secs_f64() / prefetch.whole.as_secs_f64());
    println!("{name}: presend/prefetch {parts:.3?}");
    assert!(parts[0] <= 1.02 && parts[1] <= 1.0, "{name}: {parts:?}");
}

#[test]
fn presend_brings_the_globe_as_soon() {
    check_as_soon("globe, computing", &globe(PHASE));
    check_as_soon("globe", &globe(Duration::ZERO));
}

#[test]
fn presend_brings_the_basin_as_soon() {
    check_as_soon("basin, computing", &basin(PHASE));
    check_as_soon("basin", &basin(Duration::ZERO));
}

/// Experiment E9 of the thesis.
#[test]
fn presend_brings_columns_of_ozone_sooner() {
    check_presend("ozone, computing", &Job::ozone(PHASE));
    check_presend("ozone", &Job::ozone(Duration::ZERO));
}

#[test]
fn random_reads_are_no_slower_with_presend() {
    let job = random();
    let alone = Prefetching::run(&job, 1024, false);
    let (ahead, _) = Presending::run(&job, 1024, &[]);
    println!("{}\n{}", alone.line(), ahead.line());
    assert!(ahead.whole <= alone.whole.mul_f64(1.02), "{ahead:?}");
}
