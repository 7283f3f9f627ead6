//! The pairs: a maximum matching of rails, and then further lanes for the rails that it leaves
//! over.

use super::{LaneCandidate, MAX_OFFERS, Pair, Pairing, Relation, Unpaired, relation::subnet};
use std::cmp::Reverse;

/// Implements [`super::pair`].
pub(super) fn pair(ours: &[LaneCandidate], theirs: &[LaneCandidate], wish: Option<usize>) -> Pairing {
    let (ours, theirs) = (End::new(ours), End::new(theirs));
    let mut candidates = candidates(&ours, &theirs, Relation::direct);
    let mut notes = Vec::new();
    if candidates.is_empty() {
        candidates = self::candidates(&ours, &theirs, Relation::routed);
        if !candidates.is_empty() {
            notes.push(
                "no address of ours is known to be in one subnet with one of theirs: they are paired in order, across \
                 subnets; the routes decide which links the lanes take, and several may take the same one"
                    .to_owned(),
            );
        }
    }
    let max = wish.unwrap_or(MAX_OFFERS).min(MAX_OFFERS);
    let mut matching = Matching::new(&ours, &theirs, &candidates);
    matching.match_rails(max);
    matching.add_lanes(max, wish.is_some());

    let pairs: Vec<Pair> = matching.pairs();
    let limit = match wish {
        Some(wish) if wish <= MAX_OFFERS => format!("{wish} lanes were asked for, and others come first"),
        _ => format!("a stream has no more than {MAX_OFFERS} lanes"),
    };
    let reached = pairs.len() >= max;
    let limited = |could: bool| (could && reached).then(|| limit.clone());
    let unpaired_ours = ours.unused(&matching.lanes_of_ours, ("the peer", &theirs), |rail| {
        limited(candidates.iter().any(|candidate| candidate.ours == rail))
    });
    let unpaired_theirs = theirs.unused(&matching.lanes_of_theirs, ("this end", &ours), |rail| {
        limited(candidates.iter().any(|candidate| candidate.theirs == rail))
    });
    Pairing { pairs, unpaired_ours, unpaired_theirs, notes }
}

/// One end: its offers, fastest rails first, and the rail of each offer.
struct End {
    offers: Vec<LaneCandidate>,
    /// The number of each offer's rail, counted from the fastest.
    rails: Vec<usize>,
    count: usize,
}

impl End {
    fn new(offers: &[LaneCandidate]) -> Self {
        let mut offers = offers.to_vec();
        let order = |offer: &LaneCandidate| {
            let node = offer.node.unwrap_or(u32::MAX);
            (Reverse(offer.speed_bits_per_second), node, offer.rail, offer.address, offer.prefix_len)
        };
        offers.sort_by(|a, b| order(a).cmp(&order(b)).then_with(|| a.interface.cmp(&b.interface)));
        offers.dedup();
        let mut seen = Vec::new();
        let rails = offers.iter().map(|offer| {
            seen.iter().position(|rail| *rail == offer.rail).unwrap_or_else(|| {
                seen.push(offer.rail);
                seen.len() - 1
            })
        });
        let rails = rails.collect();
        Self { offers, rails, count: seen.len() }
    }

    /// The offers of the rails without a lane. `limited` returns the reason if it is a limit;
    /// otherwise the reason is the offer's address. `other` holds the other end, and the name that
    /// reasons give it.
    fn unused(
        &self,
        lanes: &[usize],
        other: (&str, &Self),
        limited: impl Fn(usize) -> Option<String>,
    ) -> Vec<Unpaired> {
        let unused = self.offers.iter().zip(&self.rails).filter(|(_, rail)| lanes[**rail] == 0);
        let unpaired = |(offer, rail): (&LaneCandidate, &usize)| {
            let why = limited(*rail).unwrap_or_else(|| no_partner(offer, other));
            Unpaired { offer: offer.clone(), why }
        };
        unused.map(unpaired).collect()
    }
}

/// A possible pair: indices into the ends' rails and offers.
struct Candidate {
    ours: usize,
    theirs: usize,
    near: usize,
    far: usize,
    relation: Relation,
}

/// All possible pairs, the best first.
fn candidates(
    ours: &End,
    theirs: &End,
    relation: fn(&LaneCandidate, &LaneCandidate) -> Option<Relation>,
) -> Vec<Candidate> {
    let mut candidates = Vec::new();
    for (near, our) in ours.offers.iter().enumerate() {
        for (far, their) in theirs.offers.iter().enumerate() {
            let is_possible = our.address.scheme == their.address.scheme;
            if let Some(relation) = is_possible.then(|| relation(our, their)).flatten() {
                candidates.push(Candidate { ours: ours.rails[near], theirs: theirs.rails[far], near, far, relation });
            }
        }
    }
    candidates.sort_by_key(|candidate| {
        let (our, their) = (&ours.offers[candidate.near], &theirs.offers[candidate.far]);
        let speeds = (our.speed_bits_per_second, their.speed_bits_per_second);
        let bottleneck = speeds.0.into_iter().chain(speeds.1).min();
        let gap = match speeds {
            (Some(our), Some(their)) => our.abs_diff(their),
            _ => 0,
        };
        let other_node = our.node.is_some() && their.node.is_some() && our.node != their.node;
        // Link-local addresses come last: they say least about where a packet goes.
        let link_local = candidate.relation == Relation::Link;
        (
            Reverse(bottleneck),
            gap,
            other_node,
            candidate.ours,
            candidate.theirs,
            link_local,
            candidate.near,
            candidate.far,
        )
    });
    candidates
}

/// The pairs so far.
struct Matching<'a> {
    ends: (&'a End, &'a End),
    candidates: &'a [Candidate],
    /// The candidates of each rail of ours, the best first.
    of_ours: Vec<Vec<usize>>,
    /// The candidate that is the first lane of each rail.
    by_ours: Vec<Option<usize>>,
    by_theirs: Vec<Option<usize>>,
    /// Further lanes, whose two rails both have a first lane.
    more: Vec<usize>,
    lanes_of_ours: Vec<usize>,
    lanes_of_theirs: Vec<usize>,
}

impl<'a> Matching<'a> {
    fn new(ours: &'a End, theirs: &'a End, candidates: &'a [Candidate]) -> Self {
        let mut of_ours = vec![Vec::new(); ours.count];
        for (index, candidate) in candidates.iter().enumerate() {
            of_ours[candidate.ours].push(index);
        }
        Self {
            ends: (ours, theirs),
            candidates,
            of_ours,
            by_ours: vec![None; ours.count],
            by_theirs: vec![None; theirs.count],
            more: Vec::new(),
            lanes_of_ours: vec![0; ours.count],
            lanes_of_theirs: vec![0; theirs.count],
        }
    }

    /// Makes as many pairs of rails as possible, with no rail in two of them, the fastest of ours
    /// first.
    ///
    /// Kuhn's augmenting paths (Naval Research Logistics Quarterly 2, 1955): a paired rail stays
    /// paired, perhaps with another partner, so that no early choice leaves a later rail over.
    fn match_rails(&mut self, max: usize) {
        for rail in 0..self.of_ours.len() {
            if self.by_ours.iter().flatten().count() == max {
                break;
            }
            self.augment(rail, &mut vec![false; self.by_theirs.len()]);
        }
        for candidate in self.by_ours.iter().flatten() {
            self.lanes_of_ours[self.candidates[*candidate].ours] += 1;
            self.lanes_of_theirs[self.candidates[*candidate].theirs] += 1;
        }
    }

    fn augment(&mut self, rail: usize, visited: &mut [bool]) -> bool {
        let candidates = self.of_ours[rail].clone();
        // Take a free rail before a rail that would first have to change its partner.
        let free = candidates.iter().find(|index| self.by_theirs[self.candidates[**index].theirs].is_none());
        if let Some(index) = free {
            self.assign(rail, *index);
            return true;
        }
        for index in candidates {
            let theirs = self.candidates[index].theirs;
            if std::mem::replace(&mut visited[theirs], true) {
                continue;
            }
            let holder = self.by_theirs[theirs].map(|held| self.candidates[held].ours);
            if holder.is_none_or(|holder| self.augment(holder, visited)) {
                self.assign(rail, index);
                return true;
            }
        }
        false
    }

    fn assign(&mut self, rail: usize, index: usize) {
        self.by_ours[rail] = Some(index);
        self.by_theirs[self.candidates[index].theirs] = Some(index);
    }

    /// Adds second lanes of rails: for the rails that are left over at either end, and then, if
    /// `fill`, until there are `max` lanes.
    fn add_lanes(&mut self, max: usize, fill: bool) {
        let mut used = self.used();
        while used.len() < max {
            let lanes =
                |candidate: &Candidate| (self.lanes_of_ours[candidate.ours], self.lanes_of_theirs[candidate.theirs]);
            let next = (0..self.candidates.len()).min_by_key(|index| {
                let candidate = &self.candidates[*index];
                let (ours, theirs) = lanes(candidate);
                let near = used.iter().filter(|used| self.candidates[**used].near == candidate.near).count();
                let far = used.iter().filter(|used| self.candidates[**used].far == candidate.far).count();
                (ours.min(theirs) > 0, ours.max(theirs), ours + theirs, near + far, *index)
            });
            let Some(next) = next else { return };
            let (ours, theirs) = lanes(&self.candidates[next]);
            if ours.min(theirs) > 0 && !fill {
                return;
            }
            self.lanes_of_ours[self.candidates[next].ours] += 1;
            self.lanes_of_theirs[self.candidates[next].theirs] += 1;
            self.more.push(next);
            used.push(next);
        }
    }

    fn used(&self) -> Vec<usize> {
        self.by_ours.iter().flatten().chain(&self.more).copied().collect()
    }

    fn pairs(&self) -> Vec<Pair> {
        let firsts = self.by_ours.iter().flatten().count();
        let pair = |(index, used): (usize, usize)| {
            let candidate = &self.candidates[used];
            let (ours, theirs) = (&self.ends.0.offers[candidate.near], &self.ends.1.offers[candidate.far]);
            let mut why = vec![candidate.relation.to_string()];
            match (ours.speed_bits_per_second, theirs.speed_bits_per_second) {
                (None, None) => why.push("speeds unknown".to_owned()),
                (near, far) => why.push(format!("{} to {}", speed(near), speed(far))),
            }
            if let (Some(near), Some(far)) = (ours.node, theirs.node) {
                why.push(format!("node {near} to node {far}"));
            }
            if index >= firsts {
                why.push(
                    "a further lane: one of its rails has another already, and no free one can be paired".to_owned(),
                );
            }
            Pair {
                ours: ours.clone(),
                theirs: theirs.clone(),
                relation: candidate.relation,
                why: why.join("; "),
                is_further: false,
            }
        };
        self.used().into_iter().enumerate().map(pair).collect()
    }
}

/// The speed in the largest unit that leaves at least 1: `2.5 Gbit/s`.
fn speed(bits_per_second: Option<u64>) -> String {
    let Some(bits) = bits_per_second else { return "speed unknown".to_owned() };
    let units = [(1_000_000_000_000, "Tbit/s"), (1_000_000_000, "Gbit/s"), (1_000_000, "Mbit/s"), (1_000, "kbit/s")];
    let (scale, unit) = units.into_iter().find(|(scale, _)| bits >= *scale).unwrap_or((1, "bit/s"));
    if bits.is_multiple_of(scale) {
        format!("{} {unit}", bits / scale)
    } else {
        format!("{:.1} {unit}", bits as f64 / scale as f64)
    }
}

fn no_partner(offer: &LaneCandidate, (name, other): (&str, &End)) -> String {
    let (ip, scheme) = (offer.ip(), offer.address.scheme);
    if !other.offers.iter().any(|other| other.address.scheme == scheme) {
        return format!("{name} offers no lanes over {scheme}");
    }
    if ip.is_unspecified() {
        return "its address is not known, so neither is its subnet".to_owned();
    }
    if ip.is_loopback() {
        return format!("{name} offers no loopback address of its family");
    }
    if offer.is_link_local() {
        return "its address is link-local, and the peer was not called through its interface".to_owned();
    }
    match subnet(offer) {
        Some(subnet) => format!("{name} offers no address in {subnet}"),
        None => format!("{name} offers no address that is known to be in one subnet with {ip}"),
    }
}
