//! `velella import`: a file of pairs into a keyspace.
//!
//! M1. Pairs are written in batches, in the file's order: of two with one key the later stays.
//! M2. What the summary counts is durable when the summary is printed.
//! M3. A malformed line is reported by its number; what came before it stays.
//!     So it does if the file cannot be read further, or the database not written; then the error
//!     tells how many pairs that is.
//! M4. A pair that has expired is imported as any other, and counted: what its key had before is
//!     older, and must not stay.
//!
//! Tests: below; `tests/import_export.rs`.

use crate::database::{KeyspaceName, Place};
use crate::failure::{Failure, say};
use crate::file_format::{FileFormat, OF_COLUMNS};
use crate::human;
use crate::output::Output;
use crate::progress;
use crate::record::columns::Columns;
use crate::record::{Format, Malformed, Next, ReadOptions, Reader, Record, raw};
use clap::{Args, ValueEnum};
use indicatif::ProgressBar;
use serde::Serialize;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use velella::{Db, Error, ErrorKind, Keyspace, WriteBatch, limits};

/// A batch ends at this many pairs or bytes, whichever comes first.
const BATCH_PAIRS_MAX: usize = 512;
const BATCH_BYTES_MAX: usize = 1 << 20;
/// Malformed lines that are named on standard error, and in `--json`; the rest is counted.
const MALFORMED_NAMED_MAX: usize = 20;
const MALFORMED_KEPT_MAX: usize = 1000;
const READ_BYTES: usize = 256 << 10;
/// Column of the key, unless it is chosen.
const KEY_COLUMN: usize = 1;

/// Arguments of `import`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  velella import /usr/share/dict/words --keyspace words
  velella import people.csv --header --key-column 2 --on-error skip
  zcat pairs.jsonl.gz | velella import - --format jsonl

The format follows from the file's name (.tsv .txt .csv .jsonl .raw), else it is tsv.
tsv and csv: the key is the first column, the value the others; one column: an empty value.
tsv: \\t \\n \\r \\\\ \\xHH are escapes; --bytes takes backslashes, and all bytes, as they are.
jsonl: {\"key\": \"...\", \"value\": \"...\"}, or {\"base64\": \"...\"} in place of a string.

Exit code 1 if a malformed line stopped it, 3 if it went on and left such lines out.")]
pub(crate) struct Import {
    /// The file; - for standard input
    file: PathBuf,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    keyspace: KeyspaceName,
    #[command(flatten)]
    format: FileFormat,
    /// Column of the key, from 1 (tsv, csv); without it the first
    #[arg(long, value_name = "N", value_parser = column)]
    key_column: Option<usize>,
    /// Column of the value, from 1 (tsv, csv); without it all but the key's
    #[arg(long, value_name = "N", value_parser = column)]
    value_column: Option<usize>,
    /// Pass over the first line (tsv), or the first record (csv)
    #[arg(long)]
    header: bool,
    /// Take bytes as they are: no escapes, no check for UTF-8 (tsv, csv)
    #[arg(long)]
    bytes: bool,
    /// What to do about a malformed line
    #[arg(long, value_enum, default_value_t = OnError::Stop, value_name = "WHAT")]
    on_error: OnError,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OnError {
    /// End there; what came before it stays
    Stop,
    /// Report it and go on
    Skip,
}

/// Reads a column's number.
fn column(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("a column is a number, counted from 1".to_owned()),
        Ok(number) => Ok(number),
    }
}

/// What an import did.
#[derive(Debug, Default, Serialize)]
struct Summary {
    file: String,
    pairs: u64,
    /// Of the pairs, those that had expired when the import began (M4).
    expired: u64,
    bytes: u64,
    skipped: u64,
    /// Whether the file was read to its end.
    complete: bool,
    ends_within_line: bool,
    seconds: f64,
    malformed: Vec<Malformed>,
}

impl Import {
    pub(crate) fn run(self, output: &mut Output) -> Result<(), Failure> {
        let format = self.format()?;
        self.keyspace.check()?;
        let key_column = self.key_column.unwrap_or(KEY_COLUMN);
        let (mut source, bytes) = open(&self.file)?;
        if format == Format::Raw {
            // What is no such file leaves no database behind.
            check_raw(&mut source, &self.file)?;
        }
        let options = ReadOptions {
            format,
            columns: Columns {
                key: key_column,
                value: self.value_column,
            },
            delimiter: self.format.delimiter(),
            header: self.header,
            bytes: self.bytes,
        };
        let db = self.place.open_or_create(output)?;
        let mut job = Job {
            keyspace: self.keyspace.of_or_create(&db)?,
            reader: Reader::new(source, &self.file, options),
            bar: bytes.map_or_else(
                || progress::pairs("importing"),
                |bytes| progress::bytes(bytes, "importing"),
            ),
            begun_ms: db.now_ms(),
            db,
            unit: format.unit(),
            on_error: self.on_error,
            batch: WriteBatch::new(),
            batch_bytes: 0,
            summary: Summary {
                file: self.file.display().to_string(),
                ..Summary::default()
            },
        };
        let start = Instant::now();
        let ended = job.run(output);
        job.bar.finish_and_clear();
        ended.map_err(|error| unfinished(&job.summary, error))?;
        job.db.close()?;
        let mut summary = job.summary;
        summary.seconds = start.elapsed().as_secs_f64();
        finish(
            &summary,
            format,
            &self.place.dir,
            &self.keyspace.keyspace,
            output,
        )?;
        if summary.skipped == 0 {
            return Ok(());
        }
        Err(Failure::Told(if summary.complete { 3 } else { 1 }))
    }

    /// The file's format, for which all options given make sense.
    fn format(&self) -> Result<Format, Failure> {
        let key_column = self.key_column.unwrap_or(KEY_COLUMN);
        if self.value_column == Some(key_column) {
            return Err(Failure::Usage(format!(
                "column {key_column} is the key's: choose another by --value-column, or leave it \
                 out to take all others for the value"
            )));
        }
        let columns = [
            ("--key-column", self.key_column.is_some(), OF_COLUMNS),
            ("--value-column", self.value_column.is_some(), OF_COLUMNS),
            ("--header", self.header, OF_COLUMNS),
            ("--bytes", self.bytes, OF_COLUMNS),
        ];
        self.format.of(&self.file, "read", &columns)
    }
}

/// An import under way.
struct Job<R> {
    db: Db,
    keyspace: Keyspace,
    reader: Reader<R>,
    bar: ProgressBar,
    unit: &'static str,
    on_error: OnError,
    batch: WriteBatch,
    batch_bytes: usize,
    /// When it began, in milliseconds since 1970, by the database's clock.
    begun_ms: u64,
    summary: Summary,
}

impl<R: BufRead> Job<R> {
    /// Takes all pairs; ends early after a malformed one if asked to.
    fn run(&mut self, output: &Output) -> velella::Result<()> {
        let mut unread = None;
        loop {
            let next = match self.reader.next() {
                Ok(next) => next,
                Err(error) => {
                    unread = Some(error);
                    break;
                }
            };
            match next {
                Next::Record(record) => match check(&record) {
                    Ok(()) => self.take(&record)?,
                    Err(reason) => {
                        let number = self.reader.number();
                        let malformed = Malformed {
                            number,
                            reason,
                            resumable: true,
                        };
                        if !self.goes_on(malformed, output) {
                            break;
                        }
                    }
                },
                Next::Malformed(malformed) => {
                    if !self.goes_on(malformed, output) {
                        break;
                    }
                }
                Next::End => {
                    self.summary.complete = true;
                    break;
                }
            }
        }
        self.write()?;
        self.db.persist()?;
        self.summary.bytes = self.reader.position();
        self.summary.ends_within_line = self.reader.ends_within_line();
        unread.map_or(Ok(()), Err)
    }

    fn take(&mut self, record: &Record) -> velella::Result<()> {
        let Record {
            key,
            value,
            expires_at_ms,
        } = record;
        if expires_at_ms.is_some_and(|at| at <= self.begun_ms) {
            self.summary.expired += 1;
        }
        match expires_at_ms {
            Some(at) => self.batch.put_expiring(&self.keyspace, key, value, *at),
            None => self.batch.put(&self.keyspace, key, value),
        };
        self.batch_bytes += key.len() + value.len();
        if self.batch.len() >= BATCH_PAIRS_MAX || self.batch_bytes >= BATCH_BYTES_MAX {
            self.write()?;
        }
        Ok(())
    }

    fn write(&mut self) -> velella::Result<()> {
        if !self.batch.is_empty() {
            self.db.write(&self.batch)?;
            self.summary.pairs += self.batch.len() as u64;
            self.batch.clear();
            self.batch_bytes = 0;
        }
        self.bar.set_position(match self.bar.length() {
            Some(_) => self.reader.position(),
            None => self.summary.pairs,
        });
        Ok(())
    }

    /// Counts and tells a malformed line; whether to read on.
    fn goes_on(&mut self, malformed: Malformed, output: &Output) -> bool {
        let Malformed {
            number,
            reason,
            resumable,
        } = &malformed;
        let go_on = *resumable && self.on_error == OnError::Skip;
        if self.summary.malformed.len() < MALFORMED_NAMED_MAX && !output.json {
            let (file, unit) = (&self.summary.file, self.unit);
            self.bar.suspend(|| {
                say(&format!(
                    "velella: cannot import {unit} {number} of {file}: {reason}"
                ));
            });
        } else if self.summary.malformed.len() == MALFORMED_NAMED_MAX {
            self.bar
                .suspend(|| output.note("velella: further ones are only counted"));
        }
        self.summary.skipped += 1;
        if self.summary.malformed.len() < MALFORMED_KEPT_MAX {
            self.summary.malformed.push(malformed);
        }
        go_on
    }
}

/// Why an import ended, and what it had done by then.
fn unfinished(summary: &Summary, error: Error) -> Error {
    const REMEDY: &str = "free space and run it again: what is there already is written again";
    let kind = error.kind();
    let error = match kind {
        ErrorKind::NoSpace => error.remedy(REMEDY),
        _ => error,
    };
    let pairs = human::counted(summary.pairs, "pair");
    let found = format!("it ended with {pairs} written: {error}");
    Error::new(kind, "import all of", found).on(Path::new(&summary.file))
}

/// Whether the engine will take the pair: it refuses whole batches.
fn check(record: &Record) -> Result<(), String> {
    if record.expires_at_ms == Some(0) {
        return Err("its expiry is 0; a pair that does not expire has none".to_owned());
    }
    limits::check_key(&record.key)
        .and_then(|()| limits::check_value(&record.value))
        .map_err(|error| error.to_string())
}

/// The source of pairs, and how long it is if that is known.
fn open(path: &Path) -> Result<(Box<dyn BufRead>, Option<u64>), Failure> {
    if path == Path::new("-") {
        return Ok((
            Box::new(BufReader::with_capacity(READ_BYTES, io::stdin())),
            None,
        ));
    }
    let failed = |error| Error::io("import", path, error);
    let file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if metadata.is_dir() {
        let found = "it is a directory";
        let error = Error::new(ErrorKind::InvalidInput, "import", found).on(path);
        return Err(error.remedy("name a file, or - for standard input").into());
    }
    let bytes = metadata.is_file().then_some(metadata.len());
    Ok((Box::new(BufReader::with_capacity(READ_BYTES, file)), bytes))
}

/// Looks at the first bytes, as far as they are there.
fn check_raw(source: &mut impl BufRead, path: &Path) -> Result<(), Failure> {
    let start = source.fill_buf();
    let start = start.map_err(|error| Error::io("import", path, error))?;
    match !start.is_empty() && raw::may_begin_with(start) {
        true => Ok(()),
        false => {
            let error = Error::new(ErrorKind::InvalidInput, "import", raw::NO_RAW_FILE).on(path);
            Err(error.remedy("name its format with --format").into())
        }
    }
}

fn finish(
    summary: &Summary,
    format: Format,
    dir: &Path,
    keyspace: &str,
    output: &mut Output,
) -> Result<(), Failure> {
    if summary.ends_within_line && summary.skipped == 0 && format != Format::Csv {
        output.note(
            "note: the last line does not end in a line feed; if the file was cut off, its last \
             pair is, too",
        );
    }
    if summary.expired > 0 {
        let pairs = human::counted(summary.expired, "pair");
        output.note(&format!(
            "note: {pairs} had expired before, and so their keys are absent"
        ));
    }
    let time = Duration::from_secs_f64(summary.seconds);
    output.result(summary, |out| {
        writeln!(
            out,
            "imported {} ({} of {}) into {}, keyspace {keyspace}, in {} ({})",
            human::counted(summary.pairs, "pair"),
            human::bytes(summary.bytes),
            summary.file,
            dir.display(),
            human::duration(time),
            human::rate(summary.pairs, time),
        )?;
        let unit = format!("malformed {}", format.unit());
        match summary.skipped {
            0 => Ok(()),
            _ if !summary.complete => writeln!(out, "stopped at a {unit}"),
            skipped => writeln!(out, "left out {}", human::counted(skipped, &unit)),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    /// A device that fails.
    struct Broken;

    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the device is gone"))
        }
    }

    /// A file that ends when the database cannot be written any more.
    struct Ending(Db);

    impl Read for Ending {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            self.0.close().unwrap();
            Ok(0)
        }
    }

    /// Imports what `source` gives of x.tsv.
    fn job<R: BufRead>(db: Db, source: R) -> Job<R> {
        let options = ReadOptions {
            format: Format::Tsv,
            columns: Columns {
                key: 1,
                value: None,
            },
            delimiter: b',',
            header: false,
            bytes: false,
        };
        Job {
            keyspace: db.default_keyspace().clone(),
            reader: Reader::new(source, Path::new("x.tsv"), options),
            bar: ProgressBar::hidden(),
            db,
            unit: Format::Tsv.unit(),
            on_error: OnError::Stop,
            batch: WriteBatch::new(),
            batch_bytes: 0,
            begun_ms: 0,
            summary: Summary {
                file: "x.tsv".to_owned(),
                ..Summary::default()
            },
        }
    }

    fn failed<R: BufRead>(job: &mut Job<R>) -> Error {
        let ended = job.run(&Output::new(true));
        unfinished(&job.summary, ended.unwrap_err())
    }

    #[test]
    fn what_came_before_an_unreadable_part_stays() {
        let directory = tempfile::tempdir().unwrap();
        let db = velella::open(directory.path()).unwrap();
        let mut job = job(db, BufReader::new(b"a\t1\nb\t2\nc".chain(Broken)));
        let error = failed(&mut job);
        assert_eq!(error.kind(), ErrorKind::Io);
        let told = "cannot import all of x.tsv: it ended with 2 pairs written: cannot read x.tsv: \
                    the device is gone";
        assert_eq!(error.to_string(), told);
        assert_eq!((job.summary.pairs, job.summary.complete), (2, false));
        assert_eq!(job.keyspace.get("b").unwrap().as_deref(), Some(&b"2"[..]));
        assert_eq!(job.keyspace.get("c").unwrap(), None);
    }

    #[test]
    fn what_was_written_before_a_failure_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let db = velella::open(directory.path()).unwrap();
        let lines: String = (0..600).map(|n| format!("{n}\t\n")).collect();
        let source = BufReader::new(lines.as_bytes().chain(Ending(db.clone())));
        let error = failed(&mut job(db, source));
        assert_eq!(error.kind(), ErrorKind::Closed);
        let told = "cannot import all of x.tsv: it ended with 512 pairs written: cannot";
        assert!(error.to_string().starts_with(told), "{error}");
        assert!(error.to_string().ends_with("open it again"), "{error}");
    }

    #[test]
    fn a_full_disk_asks_for_space_and_another_run() {
        let full = Error::new(ErrorKind::NoSpace, "write", "the disk is full").remedy("wait");
        let summary = Summary {
            file: "x.tsv".to_owned(),
            pairs: 1,
            ..Summary::default()
        };
        assert_eq!(
            unfinished(&summary, full).to_string(),
            "cannot import all of x.tsv: it ended with 1 pair written: cannot write: the disk is \
             full; free space and run it again: what is there already is written again"
        );
    }
}
