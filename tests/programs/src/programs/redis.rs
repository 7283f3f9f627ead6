//! redis, and its own benchmark.

use crate::{
    passage::Passage,
    program::{Program, Sample, Service, Size, Use},
    room::Room,
};
use anyhow::{Context, Result, ensure};

/// `redis-benchmark -t get` with so many clients.
#[derive(Debug, Clone, Copy)]
pub(super) struct Benchmark {
    pub(super) clients: u32,
}

impl Program for Benchmark {
    fn name(&self) -> &'static str {
        if self.clients == 1 { "redis-1" } else { "redis-50" }
    }

    fn executables(&self) -> &'static [&'static str] {
        &["redis-server", "redis-benchmark"]
    }

    fn serve(&self, room: &Room, passage: &Passage, _size: Size) -> Result<Service> {
        let address = room.service_address();
        let folder = room.folder(&format!("redis-{}", address.port()))?;
        let mut command = room.service(passage, "redis-server");
        command.args(["--bind", "0.0.0.0", "--port", &address.port().to_string()]);
        command.args(["--save", "", "--appendonly", "no", "--protected-mode", "no", "--daemonize", "no"]);
        command.arg("--dir").arg(&folder);
        let mut running = room.start(command)?;
        room.wait_until_listening(&mut running, address)?;
        Ok(Service { address, folder, running: vec![running] })
    }

    fn run(&self, this: &Use<'_>) -> Result<Sample> {
        let to = this.destination();
        let mut command = this.room.client(this.passage, "redis-benchmark");
        command.args(["-h", &to.ip().to_string(), "-p", &to.port().to_string(), "--csv", "-t", "get"]);
        command.args(["-c", &self.clients.to_string(), "-n", &this.size.requests.to_string()]);
        let finished = this.finish(command)?;
        let (requests_per_second, p50_milliseconds) = figures(&finished.output)?;
        Ok(Sample {
            seconds: this.size.requests as f64 / requests_per_second,
            p50_microseconds: Some(p50_milliseconds * 1000.0),
            requests_per_second: Some(requests_per_second),
            ..Sample::default()
        })
    }
}

/// Requests a second, and the median time of one in milliseconds.
fn figures(csv: &str) -> Result<(f64, f64)> {
    let mut lines = csv.lines().skip_while(|line| !line.starts_with("\"test\""));
    let (names, values) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let figure = |name: &str| {
        let position = names.split(',').position(|field| field.trim_matches('"') == name);
        let value = position.and_then(|index| values.split(',').nth(index)?.trim_matches('"').parse::<f64>().ok());
        value.with_context(|| format!("redis-benchmark names no {name}: {csv}"))
    };
    let figures = (figure("rps")?, figure("p50_latency_ms")?);
    ensure!(figures.0 > 0.0, "redis-benchmark got no answer");
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found_by_name() {
        let csv = "\"test\",\"rps\",\"avg_latency_ms\",\"p50_latency_ms\"\n\"GET\",\"125000.00\",\"0.2\",\"0.111\"\n";
        assert_eq!(figures(csv).unwrap(), (125_000.0, 0.111));
        assert!(figures("").is_err());
        assert!(figures("\"test\",\"rps\"\n\"GET\",\"1\"\n").is_err());
    }
}
