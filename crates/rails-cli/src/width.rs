//! Texts for people, as wide as their terminal.

use rustix::termios::tcgetwinsize;
use std::{
    env,
    io::{self, IsTerminal},
};

/// The columns of stdout: the variable `COLUMNS`, or else those of the terminal. `None` where a
/// program reads, which is shown every line whole.
pub fn width() -> Option<usize> {
    let stated = env::var("COLUMNS").ok().and_then(|columns| columns.trim().parse().ok());
    let terminal = || {
        let stdout = io::stdout();
        stdout.is_terminal().then(|| tcgetwinsize(&stdout).ok()).flatten().map(|size| usize::from(size.ws_col))
    };
    // A pseudo-terminal that was never given a size says 0.
    stated.or_else(terminal).filter(|columns| *columns > 0).map(|columns| columns.max(NARROWEST))
}

/// The text with no line wider than this: a longer one goes on below its last column, or further to
/// the right than it begins.
pub fn fitted(text: &str, width: usize) -> String {
    let mut fitted = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
        match line.chars().count() > width {
            true => fitted.push_str(&broken(line, width)),
            false => fitted.push_str(line),
        }
        fitted.push_str(end);
    }
    fitted
}

fn broken(line: &str, width: usize) -> String {
    let cells = cells(line);
    let indent = cells.first().map_or(0, |(gap, _)| *gap);
    let last_at = line.chars().count() - cells.last().map_or(0, |(_, cell)| cell.chars().count());
    let is_within_last = cells.len() > 1 && last_at <= width / 2;
    let below = if is_within_last { last_at } else { (indent + 4).min(width / 2) };
    let mut lines = Lines { text: String::new(), used: 0, is_empty: true, below, width };
    for (index, (gap, cell)) in cells.into_iter().enumerate() {
        // Columns that do not fit need not be aligned.
        let gap = match index {
            0 => gap.min(width / 2),
            _ if is_within_last => gap,
            _ => 2,
        };
        let length = cell.chars().count();
        if lines.used + gap + length > width && below + length <= width {
            lines.next();
        }
        for (index, word) in cell.split(' ').enumerate() {
            lines.word(if index == 0 { gap } else { 1 }, word);
        }
    }
    lines.text
}

/// The cells of a line, which two spaces or more divide, each with the number of spaces before it.
fn cells(line: &str) -> Vec<(usize, &str)> {
    let (mut cells, mut rest) = (Vec::new(), line.trim_end_matches(' '));
    while !rest.is_empty() {
        let cell = rest.trim_start_matches(' ');
        let gap = rest.len() - cell.len();
        let end = cell.find("  ").unwrap_or(cell.len());
        cells.push((gap, &cell[..end]));
        rest = &cell[end..];
    }
    cells
}

/// The lines that a line becomes.
struct Lines {
    text: String,
    /// The columns that the last line has.
    used: usize,
    /// Whether the last line has no word yet.
    is_empty: bool,
    /// The column in which each but the first begins.
    below: usize,
    width: usize,
}

impl Lines {
    fn next(&mut self) {
        if !self.is_empty {
            self.text += &format!("\n{:1$}", "", self.below);
            (self.used, self.is_empty) = (self.below, true);
        }
    }

    fn word(&mut self, gap: usize, word: &str) {
        let mut word: Vec<char> = word.chars().collect();
        if self.used + gap + word.len() > self.width {
            self.next();
        }
        if !self.is_empty || self.text.is_empty() {
            self.text.extend(std::iter::repeat_n(' ', gap));
            self.used += gap;
        }
        self.is_empty = false;
        // A word that no line holds is cut.
        while self.used + word.len() > self.width {
            let rest = word.split_off(self.width.saturating_sub(self.used).max(1));
            self.text.extend(word);
            self.next();
            self.is_empty = false;
            word = rest;
        }
        self.used += word.len();
        self.text.extend(word);
    }
}

/// A terminal of fewer columns is taken for one of so many.
const NARROWEST: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_go_on_below_their_last_column() {
        let line = "  interrupt affine  BROKEN   IRQ 24 of eth0 is served by CPU 5, which is on node 1\n";
        let head = "  interrupt affine  BROKEN   IRQ 24 of eth0 is served by CPU";
        let below = format!("{head}\n{:29}5, which is on node 1\n", "");
        assert_eq!(fitted(line, 60), below);
        let head = "  interrupt affine  BROKEN  IRQ 24 of";
        let further = format!("{head}\n      eth0 is served by CPU 5, which is\n      on node 1\n");
        assert_eq!(fitted(line, 40), further);
        assert_eq!(fitted(line, 200), line);
    }

    #[test]
    fn words_that_no_line_holds_are_cut() {
        assert_eq!(fitted("see /sys/class/net/eth0 now", 12), "see\n    /sys/cla\n    ss/net/e\n    th0 now");
    }

    proptest! {
        #[test]
        fn every_line_fits_and_keeps_its_characters(
            text in "( {0,60}[a-zé/]{0,30}){0,12}(\n[a-z ]{0,90}){0,2}",
            width in 20usize..90,
        ) {
            let fitted = fitted(&text, width);
            prop_assert!(fitted.lines().all(|line| line.chars().count() <= width), "{fitted}");
            let dense = |text: &str| text.split_whitespace().collect::<String>();
            prop_assert_eq!(dense(&fitted), dense(&text));
        }
    }
}
