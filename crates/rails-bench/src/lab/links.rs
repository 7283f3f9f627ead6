//! Links of a measurement on the command line.

use super::{compare::Link, rate};
use crate::duration;
use anyhow::{Result, anyhow};
use rails_lab::MAX_LINKS;

/// Reads veth pairs: rates in Mbit/s or `unshaped`, each with an optional count, as in `400,100x3`.
///
/// # Errors
/// The fault, with the flag.
pub(crate) fn veths(text: &str) -> Result<Vec<Link>> {
    read("--rates", text, |one| rate::shape(one).map(Link::Veth))
}

/// Reads emulated links: a rate, a round-trip time, and perhaps a loss, as in
/// `400@1ms,400@50ms@0.01`.
///
/// # Errors
/// The fault, with the flag.
pub(crate) fn emulated(text: &str) -> Result<Vec<Link>> {
    read("--emulated", text, |one| {
        let (mbit, rtt) = one.split_once('@').ok_or(format!("`{one}` is not a rate and a time, as 400@50ms"))?;
        let (rtt, loss) = rtt.split_once('@').unwrap_or((rtt, "0"));
        let loss = loss.parse().ok().filter(|loss| (0.0..1.0).contains(loss));
        let loss: f64 = loss.ok_or(format!("`{one}` has no loss from 0 to 1 behind its time"))?;
        let lost_per_million = (loss * 1e6).round() as u32;
        match mbit.parse() {
            Ok(mbit) if mbit > 0 => Ok(Link::Emulated { mbit, rtt: duration::parse(rtt)?, lost_per_million }),
            _ => Err(format!("`{mbit}` is no rate in Mbit/s")),
        }
    })
}

fn read(flag: &str, text: &str, link: impl Fn(&str) -> Result<Link, String>) -> Result<Vec<Link>> {
    let mut links = Vec::new();
    for part in text.split(',') {
        let (one, count) = times(part);
        let link = link(one).map_err(|error| anyhow!("{flag} {text}: {error}"))?;
        if count == 0 || count > MAX_LINKS - links.len() {
            return Err(anyhow!("{flag} {text}: there may be 1 to {MAX_LINKS} links"));
        }
        links.extend(std::iter::repeat_n(link, count));
    }
    Ok(links)
}

/// Takes `x8` off the end.
fn times(part: &str) -> (&str, usize) {
    let counted = part.rsplit_once('x').and_then(|(one, count)| Some((one, count.parse().ok()?)));
    counted.unwrap_or((part, 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rails_lab::Shape;
    use std::time::Duration;

    #[test]
    fn rates_and_how_many_of_each_are_read() {
        let veth = |mbit| Link::Veth(Shape::mbit(mbit));
        assert_eq!(veths("400,unshaped").unwrap(), [veth(400), Link::Veth(Shape::Unshaped)]);
        assert_eq!(veths("100x3,400").unwrap(), [veth(100), veth(100), veth(100), veth(400)]);
        for bad in ["", "400,", "fast", "0", "-1", "100x0", "100x300", "100xx2", "1,1x18446744073709551615"] {
            assert!(veths(bad).unwrap_err().to_string().starts_with("--rates"), "{bad}");
        }
    }

    #[test]
    fn emulated_links_are_a_rate_and_a_time() {
        let lossy =
            |mbit, rtt, lost_per_million| Link::Emulated { mbit, rtt: Duration::from_millis(rtt), lost_per_million };
        let link = |mbit, rtt| lossy(mbit, rtt, 0);
        assert_eq!(emulated("400@1ms,100@19ms@0.01").unwrap(), [link(400, 1), lossy(100, 19, 10_000)]);
        assert_eq!(emulated("400@1ms,400@50ms").unwrap(), [link(400, 1), link(400, 50)]);
        assert_eq!(emulated("100@0x2").unwrap(), [link(100, 0); 2]);
        for bad in ["", "400", "400@", "400@50", "@1ms", "0@1ms", "4@1ms@", "4@1ms@1", "4@1ms@-0.1"] {
            assert!(emulated(bad).unwrap_err().to_string().starts_with("--emulated"), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parsers_panic(text in "[0-9x@,msu.a-z-]{0,24}") {
            let _ = (veths(&text), emulated(&text));
        }
    }
}
