//! The property table of `verify/README.md`, read back so that a test can hold it against the code.
//!
//! A cell names the cases that carry a property on a checker. A name that no case has, a case that
//! does not claim the property, and a cell left empty that the design marks are all errors.

use crate::case::Case;

/// The table as it is published.
pub const README: &str = include_str!("../README.md");

/// A column of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// loom's.
    Loom,
    /// shuttle's.
    Shuttle,
    /// That of the crash points.
    Crash,
}

impl Column {
    const fn index(self) -> usize {
        match self {
            Self::Loom => 3,
            Self::Shuttle => 4,
            Self::Crash => 5,
        }
    }

    /// The properties whose cell in this column must not be empty.
    pub const fn marked(self) -> &'static [&'static str] {
        match self {
            Self::Loom => &["P1", "P2", "P3", "P5", "P6", "P10"],
            Self::Shuttle => &["P1", "P2", "P5", "P6", "P7", "P8", "P9", "P10", "P11"],
            Self::Crash => &["P2", "P8", "P9"],
        }
    }
}

/// The names in the cell of `property` in `column`.
pub fn names(property: &str, column: Column) -> Vec<&'static str> {
    let row = README.lines().find(|line| line.split('|').nth(1).map(str::trim) == Some(property));
    let cell = row.and_then(|row| row.split('|').nth(column.index())).unwrap_or_default();
    cell.split('`').skip(1).step_by(2).collect()
}

/// What is wrong with `column`, given the cases of its checker; nothing if it is as it should be.
pub fn complaints(column: Column, cases: &[Case]) -> Vec<String> {
    let mut complaints = Vec::new();
    for property in (1..=11).map(|number| format!("P{number}")) {
        let names = names(&property, column);
        if names.is_empty() && column.marked().contains(&property.as_str()) {
            complaints.push(format!("{property} names no case in the {column:?} column"));
        }
        for name in names {
            match cases.iter().find(|case| case.name == name) {
                None => complaints.push(format!("{property}: no {column:?} case {name}")),
                Some(case) if !case.properties.contains(&property.as_str()) => {
                    complaints.push(format!("{name} does not claim {property}"));
                }
                Some(_) => {}
            }
        }
    }
    complaints
}
