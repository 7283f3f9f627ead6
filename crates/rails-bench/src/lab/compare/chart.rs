//! Comparisons as a picture: a panel for each, a bar for each contender.

use super::{Comparison, Contender, Outcome, link};
use crate::output_file;
use plotters::{
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};
use std::path::{Path, PathBuf};

/// A chart could not be written.
#[derive(Debug, thiserror::Error)]
#[error("{path} could not be drawn: {reason}")]
pub(crate) struct ChartError {
    /// The file.
    pub(crate) path: PathBuf,
    /// The message of the drawing library.
    pub(crate) reason: String,
}

/// Draws comparisons below each other into an SVG file: medians as bars, minimum and maximum as
/// whiskers, the ceiling as a line.
///
/// # Errors
/// [`ChartError`].
pub(crate) fn draw(comparisons: &[Comparison], path: &Path) -> Result<(), ChartError> {
    let heights: Vec<u32> = comparisons.iter().map(height).collect();
    let mut picture = String::new();
    let area = SVGBackend::with_string(&mut picture, (WIDTH, heights.iter().sum::<u32>().max(1))).into_drawing_area();
    let drawn = area.fill(&WHITE).and_then(|()| {
        let mut rest = area.clone();
        for (comparison, height) in comparisons.iter().zip(heights) {
            let (panel, below) = rest.split_vertically(height);
            draw_panel(comparison, &panel)?;
            rest = below;
        }
        area.present()
    });
    let drawn = drawn.map_err(|error| error.to_string());
    drop(area);
    let written = drawn.and_then(|()| output_file::write(path, picture).map_err(|error| error.to_string()));
    written.map_err(|reason| ChartError { path: path.to_owned(), reason })
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type Drawn<'a> = Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>>;

fn draw_panel<'a>(comparison: &Comparison, panel: &Area<'a>) -> Drawn<'a> {
    let setting = &comparison.setting;
    let heading = ("sans-serif", 20).into_font().color(&BLACK);
    let small = ("sans-serif", 13).into_font().color(&GREY);
    panel.draw_text(&format!("Links of {} Mbit/s", link::short(&comparison.links)), &heading, (MARGIN, 12))?;
    let how = format!(
        "kernel {}, {}, {} rounds of {} s, seed {}, rails-bench {}",
        setting.kernel.as_deref().unwrap_or("unknown"),
        setting.congestion_control,
        setting.rounds,
        setting.seconds,
        setting.seed,
        setting.version
    );
    panel.draw_text(&how, &small, (MARGIN, 38))?;
    let lines = missing(comparison);
    for (line, text) in lines.iter().enumerate() {
        panel.draw_text(text, &small, (MARGIN, 56 + LINE * line as i32))?;
    }
    let (_, plot) = panel.split_vertically(HEAD + LINE as u32 * lines.len() as u32);
    draw_bars(comparison, &plot)
}

fn draw_bars<'a>(comparison: &Comparison, plot: &Area<'a>) -> Drawn<'a> {
    let results = &comparison.results;
    let mbit = |bits: f64| bits / 1e6;
    let max = results.iter().map(|outcome| mbit(outcome.goodput_bits_per_second.max)).fold(1.0, f64::max);
    let labels: Vec<String> = results.iter().map(|outcome| outcome.contender.to_string()).collect();
    // The first is to be on top; beyond the longest bar there is room for the figures.
    let count = results.len() as i32;
    let mut chart = ChartBuilder::on(plot)
        .margin_right(MARGIN as u32)
        .margin_bottom(8)
        .x_label_area_size(40)
        .y_label_area_size(270)
        .build_cartesian_2d(0.0..max * ROOM, (0..count.max(1) - 1).into_segmented())?;
    let row = |index: usize| count - 1 - index as i32;
    let label = |value: &SegmentValue<i32>| match value {
        SegmentValue::CenterOf(row) => labels.iter().rev().nth(*row as usize).cloned().unwrap_or_default(),
        _ => String::new(),
    };
    chart
        .configure_mesh()
        .disable_y_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.12))
        .axis_style(BLACK.mix(0.5))
        .x_labels(8)
        .x_label_formatter(&|mbit| format!("{mbit:.0}"))
        .x_desc("goodput in Mbit/s: median, with minimum and maximum")
        .y_labels(results.len())
        .y_label_formatter(&label)
        .label_style(("sans-serif", 14))
        .draw()?;
    chart.draw_series(results.iter().enumerate().map(|(index, outcome)| {
        let median = mbit(outcome.goodput_bits_per_second.median);
        let (low, high) = (SegmentValue::Exact(row(index)), SegmentValue::Exact(row(index) + 1));
        let mut bar = Rectangle::new([(0.0, low), (median, high)], color(outcome).filled());
        bar.set_margin(7, 7, 0, 0);
        bar
    }))?;
    for (index, outcome) in results.iter().enumerate() {
        let spread = outcome.goodput_bits_per_second;
        let middle = || SegmentValue::CenterOf(row(index));
        let ends = [spread.min, spread.max].map(|end| (mbit(end), middle()));
        chart.draw_series([PathElement::new(ends.clone(), BLACK)])?;
        chart.draw_series(
            ends.map(|end| EmptyElement::at(end) + PathElement::new([(0, -5), (0, 5)], BLACK.stroke_width(1))),
        )?;
        let beside = ("sans-serif", 14).into_font().color(&BLACK).pos(Pos::new(HPos::Left, VPos::Center));
        chart.draw_series([EmptyElement::at((max * BESIDE, middle())) + Text::new(figure(outcome), (0, 0), beside)])?;
    }
    if let Some(ceiling) = comparison.of(Contender::PlainFlows) {
        let x = mbit(ceiling.goodput_bits_per_second.median);
        let line = [(x, SegmentValue::Exact(0)), (x, SegmentValue::Exact(count))];
        chart.draw_series([PathElement::new(line, RED.stroke_width(1))])?;
    }
    Ok(())
}

/// The contenders without a bar, and the facts that the bars do not show.
fn missing(comparison: &Comparison) -> Vec<String> {
    let absent = comparison.entries.iter().filter_map(|entry| {
        entry.absent.as_ref().map(|reason| format!("not measured: {}: {}", entry.contender, cut(reason)))
    });
    let warnings = comparison.results.iter().flat_map(|outcome| {
        outcome.warnings.iter().map(|warning| format!("(!) {}: {}", outcome.contender, cut(warning)))
    });
    absent.chain(warnings).collect()
}

/// Cuts a text to a line of the picture.
fn cut(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

fn figure(outcome: &Outcome) -> String {
    let mark = if outcome.warnings.is_empty() { "" } else { " (!)" };
    let share = outcome.share_of_ceiling.map(|share| format!(" ({share:.3})")).unwrap_or_default();
    format!("{:.0}{share}{mark}", outcome.goodput_bits_per_second.median / 1e6)
}

/// Contenders of this project stand out.
fn color(outcome: &Outcome) -> RGBColor {
    match outcome.contender {
        ours if ours.is_ours() => RGBColor(46, 110, 180),
        _ => RGBColor(170, 178, 189),
    }
}

fn height(comparison: &Comparison) -> u32 {
    HEAD + LINE as u32 * missing(comparison).len() as u32 + 56 + 34 * comparison.results.len().max(1) as u32
}

const WIDTH: u32 = 1000;
const MARGIN: i32 = 16;
/// Heading and setting.
const HEAD: u32 = 64;
/// A line of small text.
const LINE: i32 = 18;
/// In characters; a line of small text has about 150.
const LONGEST: usize = 105;
/// The length of the axis over the longest bar, which leaves room for the figures.
const ROOM: f64 = 1.3;
const BESIDE: f64 = 1.04;
const GREY: RGBColor = RGBColor(96, 96, 96);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::compare::tests::comparison;

    #[test]
    fn chart_of_contenders_figures_and_absentees() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("chart.svg");
        let comparison = comparison(&Contender::ALL);
        draw(&[comparison.clone(), comparison], &path).unwrap();
        let svg = std::fs::read_to_string(&path).unwrap();
        for said in
            ["rails, adaptive", "MPTCP", "(ceiling)", "400 + 400", "seed 7", "cubic", "(0.900) (!)", "it is not here"]
        {
            assert!(svg.contains(said), "{said} is missing");
        }
        let error = draw(&[], &folder.path().join("no/such/folder.svg")).unwrap_err();
        assert!(error.to_string().contains("folder.svg"), "{error}");
    }
}
