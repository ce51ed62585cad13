//! All commands there are.
//!
//! I1. A command's number is its place here, and indexes the counters of every thread; subcommands
//!     count with their command.
//!
//! Tests: below.

use super::row::{Row, Table};
use super::{
    bits, client, counting, durability, expiry, flush, handshake, info, introspection, keys, lcs,
    monitoring, object, ordered, pairs, rename, scan, settings, strings, substrings,
};
use std::sync::OnceLock;

const GROUPS: &[&[Row]] = &[
    handshake::ROWS,
    client::ROWS,
    strings::ROWS,
    pairs::ROWS,
    counting::ROWS,
    substrings::ROWS,
    lcs::ROWS,
    bits::ROWS,
    keys::ROWS,
    rename::ROWS,
    expiry::ROWS,
    scan::ROWS,
    object::ROWS,
    ordered::ROWS,
    flush::ROWS,
    durability::ROWS,
    info::ROWS,
    settings::ROWS,
    monitoring::ROWS,
    introspection::ROWS,
];

/// The table of them.
pub(crate) fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| Table::new(GROUPS))
}

#[cfg(test)]
mod tests {
    use super::super::missing;
    use super::super::row::NAME_BYTES_MAX;
    use super::*;

    #[test]
    fn every_command_is_found_by_its_name_in_any_case() {
        for (number, row) in table().rows().iter().enumerate() {
            assert_eq!(
                table().find(row.name.as_bytes()).unwrap().0,
                number,
                "{}",
                row.name
            );
            let shouted = row.name.to_ascii_uppercase();
            assert_eq!(table().find(shouted.as_bytes()).unwrap().0, number);
        }
        assert!(table().find(b"nosuchcommand").is_none());
        assert!(table().find(b"").is_none());
        assert!(table().find(&[b'x'; 1000]).is_none());
    }

    #[test]
    fn every_row_is_complete() {
        let subcommands = table().rows().iter().flat_map(|row| row.subcommands);
        for row in table().rows().iter().copied().chain(subcommands) {
            assert!(row.summary.ends_with('.'), "{} needs a summary", row.name);
            assert!(row.arity != 0 && row.name.len() <= NAME_BYTES_MAX);
            assert_eq!(row.name, row.name.to_ascii_lowercase());
        }
        for row in table().rows() {
            for subcommand in row.subcommands {
                assert!(subcommand.name.starts_with(&format!("{}|", row.name)));
            }
        }
    }

    #[test]
    fn the_commands_called_missing_are() {
        assert!(missing::NAMES.is_sorted());
        for name in missing::NAMES {
            assert!(table().find(name.as_bytes()).is_none(), "{name} is there");
        }
    }

    #[test]
    fn the_page_on_the_server_has_all_commands() {
        let page = include_str!("../../../../docs/server.md");
        let (_, commands) = page.split_once("## Commands\n").unwrap();
        let found = commands.lines().filter(|line| line.starts_with("| `"));
        let rows = table().rows().iter().copied();
        let rows = rows.flat_map(|row| std::iter::once(row).chain(row.subcommands));
        let lines = rows.map(|row| {
            let name = row.name.replace('|', " ").to_uppercase();
            format!("| `{name}` | {} |", row.summary.replace('|', "\\|"))
        });
        let lines: Vec<String> = lines.collect();
        let page = lines.join("\n");
        assert_eq!(found.collect::<Vec<_>>(), lines, "should be\n{page}\n");
    }
}
