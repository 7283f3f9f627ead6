//! Tables, as wide as their terminal.

use crate::width::{fitted, width};
use comfy_table::{
    CellAlignment, Row,
    presets::{NOTHING, UTF8_HORIZONTAL_ONLY},
};
use std::{
    fmt,
    ops::{Deref, DerefMut},
};

/// A table that prints as a list of its rows where it is wider than the terminal.
#[derive(Debug)]
pub struct Table(comfy_table::Table);

impl Table {
    /// A table with lines, whose first `names` columns name a case, and whose others have figures.
    pub fn of_figures(names: usize, header: impl Into<Row>) -> Self {
        let mut table = comfy_table::Table::new();
        table.load_style(UTF8_HORIZONTAL_ONLY);
        table.set_header(header);
        table.column_iter_mut().skip(names).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
        Self(table)
    }

    /// A table of nothing but its cells; `is_number` says which columns are flush right.
    pub fn plain(header: impl Into<Row>, is_number: impl IntoIterator<Item = bool>) -> Self {
        let mut table = comfy_table::Table::new();
        table.load_style(NOTHING);
        table.set_header(header);
        for (column, is_number) in table.column_iter_mut().zip(is_number) {
            column.set_padding((0, 2));
            if is_number {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        Self(table)
    }

    /// The table, or where it is wider than that the list of its rows.
    fn text(&self, width: Option<usize>) -> String {
        let table: Vec<String> = self.0.to_string().lines().map(|line| line.trim_end().to_owned()).collect();
        match width {
            Some(width) if table.iter().any(|line| line.chars().count() > width) => fitted(&self.list(), width),
            _ => table.join("\n"),
        }
    }

    /// Each row as lines `key: value`, all but its first one indented.
    fn list(&self) -> String {
        let keys: Vec<String> = self.header().into_iter().flat_map(Row::cell_iter).map(|cell| cell.content()).collect();
        let rows = self.row_iter().map(|row| {
            let cells = row.cell_iter().zip(&keys).map(|(cell, key)| (key, cell.content()));
            let lines = cells.filter(|(_, value)| !value.is_empty()).enumerate().map(|(index, (key, value))| {
                let (indent, colon) = (if index == 0 { "" } else { "  " }, if key.is_empty() { "" } else { ": " });
                format!("{indent}{key}{colon}{value}")
            });
            lines.collect::<Vec<_>>().join("\n")
        });
        rows.collect::<Vec<_>>().join("\n")
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(width()))
    }
}

impl Deref for Table {
    type Target = comfy_table::Table;

    fn deref(&self) -> &comfy_table::Table {
        &self.0
    }
}

impl DerefMut for Table {
    fn deref_mut(&mut self) -> &mut comfy_table::Table {
        &mut self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_too_wide_become_lists() {
        let mut table = Table::plain(["", "rate", "lane", "note"], [false, true]);
        table.add_row(["one", "17 Mbit/s", "10.0.0.1 > 10.0.0.2:7575", ""]);
        table.add_row(["two", "4 Mbit/s", "", "slow"]);
        let wide = [
            "          rate   lane                      note",
            "one  17 Mbit/s   10.0.0.1 > 10.0.0.2:7575",
            "two   4 Mbit/s                             slow",
        ];
        assert_eq!(table.text(None), wide.join("\n"));
        assert_eq!(table.text(Some(60)), table.text(None));
        let list = "one\n  rate: 17 Mbit/s\n  lane: 10.0.0.1 > 10.0.0.2:7575\ntwo\n  rate: 4 Mbit/s\n  note: slow";
        assert_eq!(table.text(Some(40)), list);
        assert_eq!(table.text(Some(20)).lines().nth(2), Some("  lane: 10.0.0.1 >"));
    }
}
