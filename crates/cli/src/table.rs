//! Tables that line up: numbers to the right, words to the left.
//!
//! One place for all of them, so that every command's output looks alike. Widths count characters,
//! which is right for everything this program prints but not for keys in wide scripts.
//!
//! Tests: below.

use std::io::{self, Write};

/// Which side a column's cells stand on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The left one: words.
    Left,
    /// The right one: numbers.
    Right,
}

/// Rows under a header.
#[derive(Debug)]
pub struct Table {
    columns: Vec<(String, Side)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table. A column's name that begins with `>` puts its cells to the right.
    pub fn new(columns: &[&str]) -> Self {
        let column = |name: &&str| match name.strip_prefix('>') {
            Some(name) => (name.to_owned(), Side::Right),
            None => ((*name).to_owned(), Side::Left),
        };
        Table {
            columns: columns.iter().map(column).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row, which has a cell for each column.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells: Vec<String> = cells.into_iter().collect();
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push(cells);
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Its columns' names, with the side on which their cells stand.
    pub fn columns(&self) -> &[(String, Side)] {
        &self.columns
    }

    /// Its rows, which have a cell for each column.
    pub fn rows(&self) -> &[Vec<String>] {
        &self.rows
    }

    /// Prints it, indented by two.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let widths: Vec<usize> = self
            .columns
            .iter()
            .enumerate()
            .map(|(index, (name, _))| {
                let cells = self.rows.iter().filter_map(|row| row.get(index));
                cells
                    .chain([name])
                    .map(|cell| cell.chars().count())
                    .max()
                    .unwrap_or(0)
            })
            .collect();
        let names: Vec<String> = self.columns.iter().map(|(name, _)| name.clone()).collect();
        for row in std::iter::once(&names).chain(&self.rows) {
            let mut line = String::from(" ");
            for ((cell, width), (_, side)) in row.iter().zip(&widths).zip(&self.columns) {
                let padding = " ".repeat(width.saturating_sub(cell.chars().count()));
                line.push(' ');
                match side {
                    Side::Left => line.extend([cell.as_str(), &padding]),
                    Side::Right => line.extend([padding.as_str(), cell]),
                }
                line.push(' ');
            }
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_lines_have_no_trailing_space() {
        let mut table = Table::new(&["name", ">count", "note"]);
        table.row(["é".into(), "1".into(), String::new()]);
        table.row(["longer".into(), "1,000".into(), "x".into()]);
        let mut out = Vec::new();
        table.print(&mut out).unwrap();
        let expected = "  name    count  note\n  é           1\n  longer  1,000  x\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        assert!(!table.is_empty());
    }
}
