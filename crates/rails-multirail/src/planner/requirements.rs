//! Required affinities, as limits to the choice of CPUs.

use super::{Need, RejectedCpus, cpus::Candidate, plan_rails::Planner};
use rails_topo::NodeId;

impl Planner<'_> {
    /// Takes out the candidates that lack a required affinity, and returns them with the reason. `node` is the node of
    /// the memory; without one, memory comes from the node nearest to the chosen CPU.
    ///
    /// # Errors
    /// The first affinity that all candidates lack. They stay.
    pub(super) fn keep_required(
        &self,
        candidates: &mut Vec<Candidate>,
        node: Option<NodeId>,
    ) -> Result<Vec<RejectedCpus>, &'static str> {
        let wants = self.request.affinities;
        let thread = |candidate: &Candidate| candidate.from_interrupt.is_affine();
        let memory = |candidate: &Candidate| {
            let nearest = self.locality.nearest_node(candidate.cpu);
            nearest.is_some_and(|nearest| node.is_none_or(|node| node == nearest))
        };
        let needs: [(_, _, &dyn Fn(&Candidate) -> bool); 2] =
            [("thread", wants.thread, &thread), ("memory", wants.memory, &memory)];
        let mut rejected = Vec::new();
        for (affinity, _, holds) in needs.into_iter().filter(|(_, need, _)| *need == Need::Required) {
            if !candidates.iter().any(holds) {
                return Err(affinity);
            }
            let lacking = candidates.extract_if(.., |candidate| !holds(candidate));
            let reason = format!("lacks {affinity} affinity, which is required");
            let lacking = RejectedCpus { cpus: lacking.map(|candidate| candidate.cpu).collect(), reason };
            rejected.extend(Some(lacking).filter(|lacking| !lacking.cpus.is_empty()));
        }
        Ok(rejected)
    }
}
