//! How `import` and `export` are told the format of their file, and the options that not every
//! format has a use for.
//!
//! F1. Without `--format` the file's name tells it; a name that does not is tsv.
//! F2. An option that the format has no use for is refused: passed over in silence it would promise
//!     what is not done.
//!
//! Tests: below; `tests/import_export.rs`.

use crate::failure::Failure;
use crate::record::Format;
use clap::Args;
use std::path::Path;

/// Formats that have a use for an option.
pub(crate) const OF_CSV: &[Format] = &[Format::Csv];
pub(crate) const OF_COLUMNS: &[Format] = &[Format::Tsv, Format::Csv];

/// An option: its name, whether it was given, and the formats that have a use for it.
pub(crate) type Given = (&'static str, bool, &'static [Format]);

/// The format of a file, as it is told on the command line.
#[derive(Debug, Clone, Args)]
pub(crate) struct FileFormat {
    /// The file's format, if its name does not tell
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<Format>,
    /// What separates the columns of csv, if not a comma
    #[arg(long, value_name = "CHAR", value_parser = delimiter)]
    delimiter: Option<u8>,
}

impl FileFormat {
    /// The format of `file` (F1), which is `done`, read or written, with these options too (F2).
    ///
    /// # Errors
    /// `Usage`, naming an option that this format has no use for.
    pub(crate) fn of(&self, file: &Path, done: &str, given: &[Given]) -> Result<Format, Failure> {
        let format = self.format.or_else(|| Format::of(file));
        let format = format.unwrap_or(Format::Tsv);
        let own = ("--delimiter", self.delimiter.is_some(), OF_CSV);
        for (option, given, formats) in std::iter::once(&own).chain(given) {
            if !given || formats.contains(&format) {
                continue;
            }
            let (of, remedy) = match *formats {
                OF_CSV => ("csv", "add --format csv"),
                _ => ("tsv and csv", "leave it out, or add --format tsv or csv"),
            };
            let file = file.display();
            return Err(Failure::Usage(format!(
                "{option} is of {of}, and {file} is {done} as another format: {remedy}"
            )));
        }
        Ok(format)
    }

    /// What separates the columns of csv.
    pub(crate) fn delimiter(&self) -> u8 {
        self.delimiter.unwrap_or(b',')
    }
}

/// Reads a delimiter: one ASCII character that is not a quote or a line's end.
fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"\\t" => Ok(b'\t'),
        [byte] if byte.is_ascii() && !b"\"\r\n".contains(byte) => Ok(*byte),
        _ => Err("a delimiter is one ASCII character, such as ; or \\t".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(format: Option<Format>, delimiter: Option<u8>) -> FileFormat {
        FileFormat { format, delimiter }
    }

    #[test]
    fn the_option_goes_before_the_name_and_the_name_before_tsv() {
        for (format, name, expected) in [
            (Some(Format::Raw), "a.csv", Format::Raw),
            (None, "a.CSV", Format::Csv),
            (None, "a.gz", Format::Tsv),
            (None, "-", Format::Tsv),
        ] {
            let found = told(format, None).of(Path::new(name), "read", &[]);
            assert_eq!(found.unwrap(), expected, "{name}");
        }
    }

    #[test]
    fn an_option_is_refused_where_the_format_has_no_use_for_it() {
        let of = |name, given: &[Given]| {
            let found = told(None, None).of(Path::new(name), "read", given);
            found.map_err(|failure| match failure {
                Failure::Usage(told) => told,
                _ => panic!("another failure"),
            })
        };
        assert_eq!(of("a.csv", &[("--x", true, OF_COLUMNS)]), Ok(Format::Csv));
        assert_eq!(of("a.raw", &[("--x", false, OF_COLUMNS)]), Ok(Format::Raw));
        let refused = of("a.raw", &[("--x", true, OF_COLUMNS)]).unwrap_err();
        let expected = "--x is of tsv and csv, and a.raw is read as another format: leave it out, \
                        or add --format tsv or csv";
        assert_eq!(refused, expected);
        let own = told(None, Some(b';')).of(Path::new("a.tsv"), "read", &[]);
        assert!(own.is_err());
    }

    #[test]
    fn a_delimiter_is_one_character_of_ascii() {
        assert_eq!(delimiter(";"), Ok(b';'));
        assert_eq!(delimiter("\\t"), Ok(b'\t'));
        for text in ["", ";;", "\"", "\n", "é"] {
            assert!(delimiter(text).is_err(), "{text:?}");
        }
        assert_eq!(told(None, None).delimiter(), b',');
    }
}
