//! Areas as SVG: boxes first, the rails' lines over them, and all text on top.
//!
//! The library escapes text, but no quotation marks in attributes: only constants and numbers of
//! ours go there.

use super::{
    Overlay,
    block::{Anchor, Block, Kind, Tone},
    layout::{Area, Layout, Rect, Text},
    palette,
};
use svg::{
    Document,
    node::element::{Group, Path, Rectangle, Style, Text as Words, Title},
};

/// The whole file.
pub(super) fn draw(layout: &Layout<'_>, overlay: &Overlay, title: &str) -> String {
    let (width, height) = (layout.width.ceil(), layout.height.ceil());
    let mut boxes = Group::new().set("class", "boxes");
    let mut words = Group::new().set("class", "words").set("pointer-events", "none");
    for area in &layout.areas {
        boxes = boxes.add(frame(area));
        for text in &area.texts {
            if let Some(frame) = tag(text) {
                words = words.add(frame);
            }
            words = words.add(write_text(text));
        }
    }
    let mut lines = Group::new().set("class", "lines").set("pointer-events", "none");
    for path in rails(layout, overlay) {
        lines = lines.add(path);
    }
    let document = Document::new()
        .set("viewBox", (0, 0, width, height))
        .set("width", width)
        .set("height", height)
        .set("font-family", FONTS)
        .add(Title::new(title))
        .add(Style::new(STYLE))
        .add(Rectangle::new().set("width", width).set("height", height).set("fill", "#ffffff"))
        .add(boxes)
        .add(lines)
        .add(words);
    format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{document}\n")
}

fn frame(area: &Area<'_>) -> Rectangle {
    let block = area.block;
    let round = if matches!(block.kind, Kind::Pu(_) | Kind::PrivateCache) { 2 } else { 4 };
    let mut frame = rectangle(area.rect).set("rx", round).set("class", class(block));
    if let Some(rail) = block.rails.first() {
        // An element's style outweighs the style sheet's rule for its class.
        let (tint, colour) = (palette::tint(*rail), palette::colour(*rail));
        frame = match block.kind {
            Kind::Pu(_) | Kind::Nic => frame.set("style", format!("fill:{tint};stroke:{colour};stroke-width:2")),
            _ => frame,
        };
    }
    match block.hint.is_empty() {
        true => frame,
        false => frame.add(Title::new(block.hint.as_str())),
    }
}

fn class(block: &Block) -> String {
    let mut class = match block.kind {
        Kind::Machine => "machine",
        Kind::Package => "package",
        Kind::Die => "die",
        Kind::Node => "node",
        Kind::Cache => "cache",
        Kind::Core(kind) => CORES[kind % CORES.len()],
        Kind::PrivateCache => "cache private",
        Kind::Pu(_) => "pu",
        Kind::Pci => "pci",
        Kind::Nic => "nic",
        Kind::Device => "device",
        Kind::Group => "group",
        Kind::Key => "key",
    }
    .to_owned();
    if let Kind::Pu(state) = block.kind {
        for (is, name) in
            [(state.forbidden, " forbidden"), (state.isolated, " isolated"), (state.tickless, " tickless")]
        {
            class.push_str(if is { name } else { "" });
        }
    }
    class
}

/// The frame around a short name.
fn tag(text: &Text<'_>) -> Option<Rectangle> {
    let frame = Rect { y: text.rect.y + 0.5, height: text.rect.height - 1.0, ..text.rect };
    let frame = rectangle(frame).set("rx", 3);
    match text.cell.tone {
        Tone::Rail(rail) => {
            let (tint, colour) = (palette::tint(rail), palette::colour(rail));
            Some(frame.set("style", format!("fill:{tint};stroke:{colour};stroke-width:1.4")))
        }
        Tone::Tag => Some(frame.set("class", "tag")),
        _ => None,
    }
}

fn write_text(text: &Text<'_>) -> Words {
    let class = match text.cell.tone {
        Tone::Plain => "plain",
        Tone::Bold => "bold",
        Tone::Dim => "dim",
        Tone::Warning => "warning",
        Tone::Tag | Tone::Rail(_) => "short",
    };
    let inset = if text.cell.is_framed() { 3.0 } else { 0.0 };
    Words::new(text.cell.text.as_str())
        .set("x", rounded(text.rect.x + inset))
        .set("y", rounded(text.rect.y + text.size * 1.05))
        .set("font-size", text.size)
        .set("class", class)
}

/// A line from each rail's NIC to each of its CPUs.
fn rails(layout: &Layout<'_>, overlay: &Overlay) -> Vec<Path> {
    let mut paths = Vec::new();
    for (index, rail) in overlay.rails.iter().enumerate().take(MAX_LINES) {
        let at = |wanted: &Anchor| layout.areas.iter().find(|area| area.block.anchor.as_ref() == Some(wanted));
        let Some(nic) = rail.nic.clone().and_then(|nic| at(&Anchor::Nic(nic))) else { continue };
        // Rails of one NIC leave it beside each other.
        let place = nic.block.rails.iter().position(|rail| *rail == index).unwrap_or(0) + 1;
        let share = place as f64 / (nic.block.rails.len() + 1) as f64;
        for pu in rail.cpus.iter().take(MAX_LINES).filter_map(|cpu| at(&Anchor::Cpu(cpu))) {
            let path = Path::new()
                .set("d", curve(nic.rect, share, pu.rect))
                .set("fill", "none")
                .set("stroke", palette::colour(index))
                .set("stroke-width", 2.5)
                .set("stroke-opacity", 0.55);
            paths.push(match palette::dashes(index) {
                Some(dashes) => path.set("stroke-dasharray", dashes),
                None => path,
            });
        }
    }
    paths
}

/// The line from a NIC to a PU: between the edges that face each other, along the page where one is
/// above the other, and else across it.
fn curve(nic: Rect, share: f64, pu: Rect) -> String {
    let (middle_of_pu, along) = (pu.x + pu.width / 2.0, nic.x + nic.width * share);
    let (start, end, is_upright) = if pu.y + pu.height <= nic.y {
        ((along, nic.y), (middle_of_pu, pu.y + pu.height), true)
    } else if nic.y + nic.height <= pu.y {
        ((along, nic.y + nic.height), (middle_of_pu, pu.y), true)
    } else {
        let is_right = pu.x < nic.x;
        let start = (if is_right { nic.x } else { nic.x + nic.width }, nic.y + nic.height * share);
        (start, (if is_right { pu.x + pu.width } else { pu.x }, pu.y + pu.height / 2.0), false)
    };
    let bend = if is_upright { (0.0, (end.1 - start.1) / 2.0) } else { ((end.0 - start.0) / 2.0, 0.0) };
    let points = [start, (start.0 + bend.0, start.1 + bend.1), (end.0 - bend.0, end.1 - bend.1), end];
    let [start, first, second, end] = points.map(|(x, y)| format!("{} {}", rounded(x), rounded(y)));
    format!("M{start} C{first} {second} {end}")
}

fn rectangle(rect: Rect) -> Rectangle {
    Rectangle::new()
        .set("x", rounded(rect.x))
        .set("y", rounded(rect.y))
        .set("width", rounded(rect.width))
        .set("height", rounded(rect.height))
}

/// A length, rounded to a hundredth of a pixel.
fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// More lines would hide their own ends.
const MAX_LINES: usize = 32;
/// Text is measured for the widest of them.
const FONTS: &str = "DejaVu Sans Mono, Menlo, Consolas, Liberation Mono, monospace";
/// The kinds of cores, from the slowest.
const CORES: [&str; 4] = ["core", "core second", "core third", "core fourth"];
/// Dark on light, so that it can be printed; only rails and warnings have strong colours.
const STYLE: &str = "
rect { stroke: #8a94a3; stroke-width: 1 }
.machine { fill: #ffffff; stroke: none }
.package { fill: #eef1f6 }
.die { fill: #e3e8f0 }
.node { fill: #e9f3e9; stroke: #7f9c7f }
.cache { fill: #fbf6e3; stroke: #b5a77a }
.private { stroke-width: 0.6 }
.core { fill: #f4f5f8 }
.second { fill: #dfe3ec }
.third { fill: #cad1df }
.fourth { fill: #b6bfd2 }
.pu { fill: #ffffff }
.forbidden { fill: #c9ced6 }
.isolated { stroke: #222222; stroke-dasharray: 4 2 }
.tickless { stroke: #222222; stroke-width: 1.6 }
.pci, .group { fill: #fafbfc; stroke-dasharray: 2 2 }
.nic { fill: #ffffff; stroke: #44505f }
.device, .key { fill: #fdfdfe; stroke: #b8c0cb }
.tag { fill: #ffffff; stroke: #44505f; stroke-width: 0.8 }
text { fill: #1c232d }
.bold { font-weight: bold }
.dim { fill: #4c5866 }
.warning { fill: #a33b00; font-weight: bold }
";
