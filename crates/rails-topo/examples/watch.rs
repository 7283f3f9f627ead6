//! Prints the changes of this machine; with a number of seconds, the cost of watching after them.

use rails_topo::monitor::{Monitor, MonitorOptions, Update};
use std::{error::Error, fs, time::Duration};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let seconds: Option<u64> = std::env::args().nth(1).map(|text| text.parse()).transpose()?;
    let monitor = Monitor::start(MonitorOptions::new()).await?;
    let mut changes = monitor.subscribe();
    let before = cpu_time()?;
    let end = async {
        match seconds {
            Some(seconds) => tokio::time::sleep(Duration::from_secs(seconds)).await,
            None => std::future::pending().await,
        }
    };
    tokio::pin!(end);
    loop {
        tokio::select! {
            () = &mut end => break,
            update = changes.next() => match update.transpose()? {
                Some(Update::Change(stamped)) => println!("{}", stamped.change),
                Some(Update::Lagged { missed, .. }) => println!("{missed} changes were missed"),
                None => break,
            },
        }
    }
    if let Some(seconds) = seconds {
        let used = cpu_time()? - before;
        println!(
            "{used:?} of CPU time in {seconds} s: {:.4} % of one core",
            used.as_secs_f64() / seconds as f64 * 100.0
        );
    }
    Ok(())
}

/// The CPU time of all threads of this process so far (proc_pid_schedstat: the first number is in
/// nanoseconds); ended threads are not counted, so there must be none.
fn cpu_time() -> Result<Duration, Box<dyn Error>> {
    let mut nanoseconds = 0;
    for thread in fs::read_dir("/proc/self/task")? {
        let text = fs::read_to_string(thread?.path().join("schedstat"))?;
        nanoseconds += text.split_whitespace().next().ok_or("an empty schedstat")?.parse::<u64>()?;
    }
    Ok(Duration::from_nanos(nanoseconds))
}
