//! Packages, dies, nodes, caches, cores and PUs as blocks.

use super::{
    super::block::{Anchor, Block, Cell, Kind, PuState, Row, Tone},
    Detail, Scene,
    devices::Devices,
};
use crate::{
    Core, CpuId, CpuSet,
    render::{
        objects::{Object, ObjectType},
        phrases,
    },
};

impl<'a> Scene<'a> {
    /// The outermost objects, and the cores and PUs outside of them; devices go to their
    /// localities.
    pub(super) fn objects(&self, devices: &mut Devices<'a>) -> Vec<Block> {
        let mut blocks: Vec<Block> = self.tree.outermost.iter().map(|object| self.object(object, devices)).collect();
        blocks.extend(self.tree.cores.iter().map(|core| self.core(core)));
        blocks.extend(self.tree.loose.iter().map(|cpu| self.pu(cpu)));
        blocks
    }

    fn object(&self, object: &Object<'a>, devices: &mut Devices<'a>) -> Block {
        let mut block = self.head(object);
        // The objects in this one get their devices before it takes the rest.
        let mut inner: Vec<Block> = object.inner.iter().map(|inner| self.object(inner, devices)).collect();
        inner.extend(object.cores.iter().map(|core| self.core(core)));
        let here = match object.object_type {
            ObjectType::Node(node) => devices.of_node(self, node.id),
            ObjectType::Package(_) | ObjectType::Die(_) => devices.within(self, object.cpus),
            ObjectType::Caches(_) => Vec::new(),
        };
        if let (ObjectType::Node(node), false) = (&object.object_type, object.cpus.is_empty()) {
            block.rails = self.marks.rails_of_node(node.id);
        }
        self.sections(block, inner, here)
    }

    fn head(&self, object: &Object<'_>) -> Block {
        let kind = match object.object_type {
            ObjectType::Package(_) => Kind::Package,
            ObjectType::Die(_) => Kind::Die,
            ObjectType::Node(_) => Kind::Node,
            ObjectType::Caches(_) => Kind::Cache,
        };
        let (cpus, (name, facts)) = (phrases::named_cpus(object.cpus), object.object_type.in_words());
        let size = if kind == Kind::Cache { 10.0 } else { 12.0 };
        let mut first = vec![Cell::new(&name, Tone::Bold)];
        if let ObjectType::Node(node) = &object.object_type {
            first.extend(facts.first().map(|memory| Cell::new(memory, Tone::Plain)));
            let rails = self.marks.rails_of_node(node.id);
            if !rails.is_empty() {
                first.push(Cell::new("memory of", Tone::Dim));
                first.extend(self.marks.frames(&rails, MAX_FRAMES));
            }
        } else if kind == Kind::Cache {
            first.extend(facts.iter().map(|fact| Cell::new(fact, Tone::Plain)));
        }
        if matches!(kind, Kind::Package | Kind::Die) {
            first.push(Cell::new(&cpus, Tone::Dim));
        }
        let mut rows = vec![Row::of(size, first)];
        // The block of a cache contains those of its PUs; a node may have none.
        if kind == Kind::Node {
            rows.extend(facts.iter().skip(1).map(|fact| Row::text(10.0, fact, Tone::Dim)));
            rows.push(Row::text(10.0, &cpus, Tone::Dim));
        }
        if self.detail == Detail::Wide && self.caches.is_none() {
            rows.extend(self.caches_of(&object.cores).iter().map(|line| Row::text(9.0, line, Tone::Dim)));
        }
        let mut block = Block::new(kind, rows);
        block.hint = format!("{name}\n{}{cpus}", facts.iter().map(|fact| format!("{fact}\n")).collect::<String>());
        block
    }

    /// A line for each group of cores that have caches of their own.
    fn caches_of(&self, cores: &[&Core]) -> Vec<String> {
        let groups = self.tree.groups(cores);
        let line = |group: &Vec<&Core>| {
            let caches = phrases::private_caches(self.tree.private(group.first()?));
            let cores = if groups.len() == 1 { "cores".to_owned() } else { phrases::cores(group) };
            (!caches.is_empty()).then(|| format!("{cores}: {caches}"))
        };
        groups.iter().filter_map(line).take(MAX_GROUPS).collect()
    }

    fn core(&self, core: &Core) -> Block {
        let kind = core.cpus.first().and_then(|cpu| self.kind_of(cpu));
        let name = match (core.id, &kind) {
            (None, _) => "core".to_owned(),
            (Some(id), None) => format!("core {id}"),
            (Some(id), Some((_, name))) => format!("core {id} ({name})"),
        };
        let caches = self.tree.private(core);
        let mut block = Block::new(Kind::Core(kind.as_ref().map_or(0, |(rank, _)| *rank)), Vec::new());
        if self.detail == Detail::Close {
            block.rows.push(Row::text(10.0, &name, Tone::Dim));
            let bar = |name: String| {
                let mut bar = Block::new(Kind::PrivateCache, vec![Row::text(8.0, &name, Tone::Dim)]);
                bar.min_size.0 = BAR;
                bar
            };
            // The caches stand below each other, as they lie between the core and its memory.
            for cache in caches {
                block = block.section(vec![bar(phrases::cache(cache))]);
            }
        }
        let facts = caches.iter().map(|cache| format!("\n{}", phrases::cache(cache))).collect::<String>();
        block.hint = format!("{name}, CPUs {}{facts}", phrases::cpus(&core.cpus));
        block.section(core.cpus.iter().map(|cpu| self.pu(cpu)).collect())
    }

    /// The kind of a PU's core: its index among the kinds, and its name.
    pub(super) fn kind_of(&self, cpu: CpuId) -> Option<(usize, String)> {
        let kinds = self.topology.core_kinds().iter().enumerate();
        let mut of_cpu = kinds.filter(|(_, kind)| kind.cpus.contains(cpu));
        of_cpu.next().map(|(rank, kind)| (rank, phrases::name_of_kind(kind)))
    }

    fn pu(&self, cpu: CpuId) -> Block {
        let rails = self.marks.rails_of_cpu(cpu);
        let state = self.state(cpu);
        let tone = if state.forbidden { Tone::Dim } else { Tone::Plain };
        let (size, small, name, columns) = match self.detail {
            Detail::Close => (12.0, 10.0, format!("CPU {cpu}"), 9),
            Detail::Wide => (10.0, 8.0, cpu.to_string(), 6),
        };
        let mut rows = vec![Row::of(size, vec![Cell::new(&name, if rails.is_empty() { tone } else { Tone::Bold })])];
        let mut min_height = 2.0 * Kind::Pu(state).gap() + rows[0].height();
        if self.marks.has_rails_on_cpus() {
            let row = Row::of(small, self.marks.frames(&rails, 2));
            min_height += row.height();
            rows.push(row);
        }
        if self.marks.has_letters() {
            let row = Row::of(small, self.marks.letters_of(cpu, columns));
            min_height += row.height();
            rows.push(row);
        }
        let mut block = Block::new(Kind::Pu(state), rows);
        block.min_size = (if self.detail == Detail::Close { 66.0 } else { 36.0 }, min_height);
        block.hint = self.hint(cpu, state, &rails);
        block.rails = rails;
        block.anchor = Some(Anchor::Cpu(cpu));
        block
    }

    fn hint(&self, cpu: CpuId, state: PuState, rails: &[usize]) -> String {
        let mut lines = vec![format!("CPU {cpu}")];
        lines.extend((!rails.is_empty()).then(|| format!("runs {}", self.marks.names(rails))));
        lines.extend(state.forbidden.then(|| "may not be used here".to_owned()));
        lines.extend(state.isolated.then(|| "isolated".to_owned()));
        lines.extend(state.tickless.then(|| "nohz_full".to_owned()));
        lines.extend(self.marks.interrupts_in_words(cpu));
        lines.join("\n")
    }

    fn state(&self, cpu: CpuId) -> PuState {
        let is_in = |cpus: &CpuSet| cpus.contains(cpu);
        PuState {
            forbidden: !is_in(self.topology.allowed_cpus()),
            isolated: is_in(self.topology.isolated_cpus()),
            tickless: is_in(self.topology.nohz_full_cpus()),
        }
    }
}

/// Real machines have two or three kinds of cores.
const MAX_GROUPS: usize = 8;
/// Frames of rails on one node; the legend has all.
const MAX_FRAMES: usize = 8;
/// The width of the usual text in pixels.
const BAR: f64 = 66.0;
