//! Lines with aligned cells.

use std::fmt;

/// Lines of cells. A column is as wide as its widest cell, except for the last cell of a line.
#[derive(Default)]
pub(super) struct Columns(Vec<Line>);

enum Line {
    Cells(Vec<String>),
    /// A line without columns that belongs to the one above.
    Note(String),
}

impl Columns {
    pub(super) fn line(&mut self, cells: impl Into<Vec<String>>) {
        self.0.push(Line::Cells(cells.into()));
    }

    pub(super) fn note(&mut self, text: String) {
        self.0.push(Line::Note(text));
    }
}

impl fmt::Display for Columns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut widths: Vec<usize> = Vec::new();
        for line in &self.0 {
            let Line::Cells(cells) = line else { continue };
            widths.resize(widths.len().max(cells.len()), 0);
            let all_but_last = cells.len().saturating_sub(1);
            for (width, cell) in widths.iter_mut().zip(&cells[..all_but_last]) {
                *width = cell.chars().count().max(*width);
            }
        }
        for line in &self.0 {
            match line {
                Line::Note(text) => writeln!(f, "{text}")?,
                Line::Cells(cells) => {
                    let mut text = String::new();
                    // A column that is empty in every line takes no room.
                    for (cell, width) in
                        cells.iter().zip(&widths).filter(|(cell, width)| **width > 0 || !cell.is_empty())
                    {
                        text.push_str(&format!("{cell:width$}  "));
                    }
                    writeln!(f, "{}", text.trim_end())?;
                }
            }
        }
        Ok(())
    }
}
