//! A comparison as a picture: goodput over loss, a line for each transport.

use super::{Transport, WanComparison, WanOutcome};
use crate::{lab::compare::ChartError, output_file};
use plotters::{
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};
use std::path::Path;

/// Draws a comparison into an SVG file: medians on a line for each transport, minimum and maximum
/// as whiskers. The losses are spaced evenly.
///
/// # Errors
/// [`ChartError`].
pub(crate) fn draw(comparison: &WanComparison, path: &Path) -> Result<(), ChartError> {
    let mut picture = String::new();
    let area = SVGBackend::with_string(&mut picture, (WIDTH, HEIGHT)).into_drawing_area();
    let drawn = area.fill(&WHITE).and_then(|()| {
        draw_head(comparison, &area)?;
        let (_, below) = area.split_vertically(HEAD);
        let (plot, names) = below.split_horizontally(WIDTH - NAMES);
        draw_lines(comparison, &plot)?;
        draw_names(comparison, &names)?;
        area.present()
    });
    let drawn = drawn.map_err(|error| error.to_string());
    drop(area);
    let written = drawn.and_then(|()| output_file::write(path, picture).map_err(|error| error.to_string()));
    written.map_err(|reason| ChartError { path: path.to_owned(), reason })
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type Drawn<'a> = Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>>;

fn draw_head<'a>(comparison: &WanComparison, area: &Area<'a>) -> Drawn<'a> {
    let heading = ("sans-serif", 20).into_font().color(&BLACK);
    let small = ("sans-serif", 13).into_font().color(&GREY);
    let path = &comparison.path;
    let milliseconds = |time: std::time::Duration| time.as_secs_f64() * 1e3;
    let title = format!(
        "Emulated path of {}, round trip {} ms, queue {} ms",
        path.rate,
        milliseconds(path.rtt),
        milliseconds(path.queue)
    );
    area.draw_text(&title, &heading, (MARGIN, 12))?;
    let how = format!(
        "kernel {}, Celeritas and RBUDP at {}{}, {} rounds of {} s, seed {}, rails-bench {}",
        comparison.kernel.as_deref().unwrap_or("unknown"),
        comparison.celeritas,
        comparison.beside.map(|rival| format!(", beside {rival}")).unwrap_or_default(),
        comparison.samples.iter().map(|sample| sample.round).max().unwrap_or(0),
        comparison.seconds,
        comparison.seed,
        env!("CARGO_PKG_VERSION")
    );
    area.draw_text(&how, &small, (MARGIN, 38))
}

fn draw_lines<'a>(comparison: &WanComparison, plot: &Area<'a>) -> Drawn<'a> {
    let losses = losses(comparison);
    let transports = transports(comparison);
    let top = comparison.path.rate.as_bits_per_second() as f64 / 1e6 * ROOM;
    let mut chart = ChartBuilder::on(plot)
        .margin_right(MARGIN as u32)
        .margin_bottom(8)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(-0.5..losses.len() as f64 - 0.5, 0.0..top)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .disable_x_axis()
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.12))
        .axis_style(BLACK.mix(0.5))
        .y_labels(8)
        .y_label_formatter(&|mbit| format!("{mbit:.0}"))
        .y_desc("goodput in Mbit/s: median, with minimum and maximum")
        .label_style(("sans-serif", 14))
        .draw()?;
    let below = ("sans-serif", 14).into_font().color(&BLACK).pos(Pos::new(HPos::Center, VPos::Top));
    for (index, loss) in losses.iter().enumerate() {
        let name = Text::new(format!("{} %", percent(*loss)), (0, 8), below.clone());
        chart.draw_series([EmptyElement::at((index as f64, 0.0)) + name])?;
    }
    let middle = (losses.len() as f64 - 1.0) / 2.0;
    chart.draw_series([EmptyElement::at((middle, 0.0)) + Text::new("frames lost, each way", (0, 26), below)])?;
    for (number, transport) in transports.iter().enumerate() {
        let color = color(number);
        let mut line = Vec::new();
        for outcome in comparison.results.iter().filter(|outcome| outcome.transport == *transport) {
            let index = losses.iter().position(|loss| *loss == outcome.loss).unwrap_or(0) as f64;
            // Side by side, so that no whisker hides another one.
            let x = index + (number as f64 - (transports.len() as f64 - 1.0) / 2.0) * BESIDE;
            let [median, min, max] = mbit(outcome);
            line.push((x, median));
            let ends = [(x, min), (x, max)];
            chart.draw_series([PathElement::new(ends, color)])?;
            chart.draw_series(ends.map(|end| EmptyElement::at(end) + PathElement::new([(-3, 0), (3, 0)], color)))?;
            chart.draw_series([Circle::new((x, median), 3, color.filled())])?;
        }
        chart.draw_series([PathElement::new(line, color.stroke_width(width(*transport)))])?;
    }
    Ok(())
}

fn draw_names<'a>(comparison: &WanComparison, names: &Area<'a>) -> Drawn<'a> {
    let beside = ("sans-serif", 14).into_font().color(&BLACK).pos(Pos::new(HPos::Left, VPos::Center));
    for (number, transport) in transports(comparison).into_iter().enumerate() {
        let y = 16 + LINE * number as i32;
        let is_void = |outcome: &WanOutcome| outcome.transport == transport && outcome.unplanned_drops > 0;
        let mark = if comparison.results.iter().any(is_void) { " (void)" } else { "" };
        names.draw(&PathElement::new([(0, y), (24, y)], color(number).stroke_width(width(transport))))?;
        names.draw(&Circle::new((12, y), 3, color(number).filled()))?;
        names.draw(&Text::new(format!("{transport}{mark}"), (32, y), beside.clone()))?;
    }
    Ok(())
}

fn losses(comparison: &WanComparison) -> Vec<f64> {
    let mut losses: Vec<f64> = comparison.results.iter().map(|outcome| outcome.loss).collect();
    losses.sort_by(f64::total_cmp);
    losses.dedup();
    losses
}

/// The transports that took part, in the order of the table.
fn transports(comparison: &WanComparison) -> Vec<Transport> {
    let mut transports = Vec::new();
    for outcome in &comparison.results {
        if !transports.contains(&outcome.transport) {
            transports.push(outcome.transport);
        }
    }
    transports
}

/// Median, minimum and maximum.
fn mbit(outcome: &WanOutcome) -> [f64; 3] {
    let goodput = &outcome.goodput_bits_per_second;
    [goodput.median, goodput.min, goodput.max].map(|bits| bits / 1e6)
}

/// A percentage without the noise of binary fractions.
fn percent(loss: f64) -> f64 {
    (loss * 1e8).round() / 1e6
}

/// Transports of this project stand out.
fn width(transport: Transport) -> u32 {
    if transport == Transport::Celeritas { 3 } else { 1 }
}

fn color(number: usize) -> RGBColor {
    let (red, green, blue) = COLORS[number % COLORS.len()];
    RGBColor(red, green, blue)
}

/// The colors of Okabe and Ito, which the color-blind tell apart, and two more.
const COLORS: [(u8, u8, u8); 10] = [
    (0, 114, 178),
    (213, 94, 0),
    (0, 158, 115),
    (230, 159, 0),
    (0, 0, 0),
    (204, 121, 167),
    (86, 180, 233),
    (150, 140, 20),
    (110, 50, 150),
    (150, 150, 150),
];
const WIDTH: u32 = 1000;
const HEIGHT: u32 = 560;
/// Heading and setting.
const HEAD: u32 = 64;
/// The names of the lines, on the right.
const NAMES: u32 = 210;
const MARGIN: i32 = 16;
/// A line of text.
const LINE: i32 = 24;
/// The length of the axis over the path's rate.
const ROOM: f64 = 1.04;
/// Between two transports with one loss.
const BESIDE: f64 = 0.05;
const GREY: RGBColor = RGBColor(96, 96, 96);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::{compare::Spread, wan::WanPath};
    use clap::ValueEnum;
    use rails_topo::Bandwidth;
    use std::time::Duration;

    #[test]
    fn chart_of_lines_names_and_losses() {
        let outcome = |loss, transport, unplanned_drops| WanOutcome {
            loss,
            transport,
            goodput_bits_per_second: Spread::of([400e6, 420e6, 430e6]).unwrap(),
            beside: None,
            retransmitted_share: 0.01,
            queue_drop_share: 0.0,
            cpu_seconds_per_gigabyte: None,
            unplanned_drops,
        };
        let all = || Transport::value_variants().iter().copied();
        let mut results: Vec<_> =
            [0.0, 1e-4, 0.05].into_iter().flat_map(|loss| all().map(move |one| outcome(loss, one, 0))).collect();
        let cubic = results.iter_mut().find(|outcome| outcome.transport == Transport::Cubic);
        cubic.unwrap().unplanned_drops = 1;
        let comparison = WanComparison {
            path: WanPath {
                rate: Bandwidth::mbps(500),
                rtt: Duration::from_millis(19),
                queue: Duration::from_millis(20),
            },
            celeritas: Bandwidth::mbps(494),
            beside: None,
            warm_up_seconds: 1.0,
            warm_up_messages: None,
            seconds: 4.0,
            seed: 7,
            settings: Vec::new(),
            kernel: None,
            cpu_model: None,
            samples: Vec::new(),
            results,
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("chart.svg");
        draw(&comparison, &path).unwrap();
        let svg = std::fs::read_to_string(&path).unwrap();
        for said in ["Celeritas, fixed rate", "TCP CUBIC (void)", "RBUDP", "0.01 %", "5 %", "seed 7", "19 ms"] {
            assert!(svg.contains(said), "{said} is missing");
        }
        let error = draw(&comparison, &folder.path().join("no/such/folder.svg")).unwrap_err();
        assert!(error.to_string().contains("folder.svg"), "{error}");
    }
}
