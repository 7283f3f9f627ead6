//! The programs, one file for each service.

mod git;
mod http;
mod iperf3;
mod postgres;
mod redis;
mod rsync;
mod ssh;

use crate::program::Program;

/// Every program, in the order of reports.
pub fn all() -> Vec<Box<dyn Program>> {
    vec![
        Box::new(iperf3::Iperf3),
        Box::new(http::Fetch::Curl),
        Box::new(http::Fetch::Python),
        Box::new(http::Fetch::Rclone),
        Box::new(rsync::Daemon),
        Box::new(ssh::Copy::Rsync),
        Box::new(ssh::Copy::Scp),
        Box::new(git::Clone),
        Box::new(postgres::Dump),
        Box::new(redis::Benchmark { clients: 1 }),
        Box::new(redis::Benchmark { clients: 50 }),
    ]
}

/// The program of that name.
pub fn find(name: &str) -> Option<Box<dyn Program>> {
    all().into_iter().find(|program| program.name() == name)
}
