//! `velella export`: the pairs of a keyspace into a file.
//!
//! X1. The file appears under its name only when it is complete, and without `--force` only where
//!     there was none; one that it replaces leaves it its owner, where allowed, and its mode. A
//!     link stays, and leads to it.
//! X2. Until then it has a name of its own. A file found under that is another's, or was left by
//!     an export that was killed: it stays, and the next name is taken. Whoever may not read the
//!     file that is to be replaced may not read this one, from its beginning on.
//! X3. What is there and is no file, such as a device or a pipe, is written to and stays, as where
//!     a shell redirects to it. So is a descriptor, be it named by a link or by `/dev/stdout`,
//!     `/dev/fd/N` or `/proc/PID/fd/N`: a file that it leads to is added to, and never replaced.
//! X4. A descriptor that is not there is none, and a stream is open before the database is: it
//!     would take the numbers that nobody uses for its own files, which would then be written over.
//! X5. A finished export is on the device under its name, not only its bytes; unless its directory
//!     may not be read, which is what it takes to sync it, or the file system syncs none.
//!
//! Tests: below, and `tests/import_export.rs`.

use crate::database::{KeyspaceName, Place};
use crate::failure::{Failure, say};
use crate::file_format::{FileFormat, OF_COLUMNS};
use crate::human;
use crate::output::Output;
use crate::progress;
use crate::range::{Pair, Range, Walk};
use crate::record::{Format, WriteError, Writer};
use crate::scan::unfit;
use clap::Args;
use indicatif::ProgressBar;
use serde::Serialize;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;
use velella::{Error, ErrorKind};

/// Pairs between two looks at the progress bar.
const PAIRS_PER_TICK: u64 = 1024;
const WRITE_BYTES: usize = 256 << 10;
/// Names that are tried for a file that is not complete.
const PARTIAL_NAMES: u32 = 100;

/// What to do about a pair that the format cannot carry.
const UNFIT_ADVICE: &str = "use --format tsv, jsonl or raw, or --bytes";

/// Arguments of `export`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  velella export words.tsv --keyspace words
  velella export backup.raw
  velella export - --format jsonl --prefix user: | gzip > users.jsonl.gz

The format follows from the file's name (.tsv .txt .csv .jsonl .raw), else it is tsv.
A device, a pipe or a descriptor such as /dev/fd/3 is written to as it is; a link is followed.
Every format can be imported again. Only jsonl and raw carry expiry times. csv carries text;
bytes that are not UTF-8 need --bytes or another format.")]
pub(crate) struct Export {
    /// The file; - for standard output
    file: PathBuf,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    keyspace: KeyspaceName,
    #[command(flatten)]
    range: Range,
    #[command(flatten)]
    format: FileFormat,
    /// Begin with a line `key`, `value` (tsv, csv)
    #[arg(long)]
    header: bool,
    /// Give bytes as they are: no escapes, no check for UTF-8 (tsv, csv)
    #[arg(long)]
    bytes: bool,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
}

/// What an export did.
#[derive(Debug, Default, Serialize)]
struct Summary {
    file: String,
    pairs: u64,
    bytes: u64,
    /// Pairs whose expiry time the format could not carry.
    expiries_lost: u64,
    seconds: f64,
}

impl Export {
    pub(crate) fn run(self, output: &mut Output) -> Result<(), Failure> {
        let destination = Destination::of(&self.file)?;
        if let Destination::File(path) = &destination {
            may_replace(path, self.force)?;
        }
        let columns = [
            ("--header", self.header, OF_COLUMNS),
            ("--bytes", self.bytes, OF_COLUMNS),
        ];
        let format = self.format.of(&self.file, "written", &columns)?;
        let chosen = self.range.chosen()?;
        let mut way = destination.open(&self.file)?;
        let db = self.place.open(output)?;
        let keyspace = self.keyspace.of(&db)?;
        let mut walk = chosen.walk(&keyspace, false)?;
        let mut job = Job {
            format,
            header: self.header,
            bytes: self.bytes,
            ..Job::new()
        };
        job.delimiter = self.format.delimiter();
        // Where pairs go to a terminal it would stand between them.
        job.is_watched = matches!(destination, Destination::File(_)) || !Output::is_terminal();
        job.summary.file = self.file.display().to_string();
        let start = Instant::now();
        let failed = |error| stream_failed(&self.file, error);
        match &mut way {
            Way::Stdout => job.write(&mut walk, &mut output.out, Failure::from)?,
            Way::Stream(stream) => {
                let mut out = BufWriter::with_capacity(WRITE_BYTES, stream);
                job.write(&mut walk, &mut out, failed)?;
            }
            Way::File(path) => job.write_file(&mut walk, path, self.force)?,
        }
        drop(walk);
        db.close()?;
        job.summary.seconds = start.elapsed().as_secs_f64();
        finish(&job.summary, &destination, output)
    }
}

/// Where an export goes.
enum Destination {
    Stdout,
    Stderr,
    /// What is there and is no file, or a descriptor (X3).
    Stream {
        /// Whether it is a file under a descriptor, which has an end to add to.
        append: bool,
    },
    /// The file of this name, which is no link.
    File(PathBuf),
}

impl Destination {
    fn of(path: &Path) -> velella::Result<Self> {
        if path == Path::new("-") {
            return Ok(Destination::Stdout);
        }
        let failed = |error| Error::io("export to", path, error);
        let found = match path.metadata() {
            Ok(found) => Ok(found.is_file()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(error),
            // Among them links that lead to each other, which are not followed below.
            Err(error) => return Err(failed(error)),
        };
        let end = at_end_of_links(path);
        Ok(match (descriptor(&end), found) {
            (Some(Descriptor::Own(1)), Ok(_)) => Destination::Stdout,
            (Some(Descriptor::Own(2)), Ok(_)) => Destination::Stderr,
            (Some(_), Ok(append)) => Destination::Stream { append },
            // X4.
            (Some(_), Err(error)) => return Err(failed(error)),
            (None, Ok(false)) => Destination::Stream { append: false },
            (None, _) => Destination::File(end),
        })
    }

    /// Opens what is a stream (X4).
    fn open<'a>(&'a self, path: &Path) -> Result<Way<'a>, Failure> {
        let stream: Box<dyn Write> = match self {
            Destination::Stdout => return Ok(Way::Stdout),
            Destination::File(file) => return Ok(Way::File(file)),
            Destination::Stderr => Box::new(io::stderr()),
            Destination::Stream { append } => {
                let opened = File::options().write(true).append(*append).open(path);
                Box::new(opened.map_err(|error| stream_failed(path, error))?)
            }
        };
        Ok(Way::Stream(stream))
    }
}

/// The way to a destination, which may be open already.
enum Way<'a> {
    Stdout,
    Stream(Box<dyn Write>),
    File(&'a Path),
}

/// What a path leads to, be it there or not: a descriptor, or what is no link.
fn at_end_of_links(path: &Path) -> PathBuf {
    let mut end = path.to_path_buf();
    while descriptor(&end).is_none()
        && let Ok(target) = end.read_link()
    {
        end.pop();
        end.push(target);
    }
    end
}

/// A descriptor that has a name.
enum Descriptor {
    /// Of this process.
    Own(u32),
    /// Of another one.
    Foreign,
}

/// The descriptor that a path is the name of.
fn descriptor(path: &Path) -> Option<Descriptor> {
    let number = path.file_name()?.to_str()?.parse().ok()?;
    let dir = match path.parent()? {
        here if here.as_os_str().is_empty() => Path::new("."),
        dir => dir,
    };
    let dir = dir.canonicalize().ok()?;
    let own = Path::new("/proc").join(std::process::id().to_string());
    if dir == Path::new("/dev/fd") || dir.starts_with(own) && dir.ends_with("fd") {
        return Some(Descriptor::Own(number));
    }
    (dir.starts_with("/proc") && dir.ends_with("fd")).then_some(Descriptor::Foreign)
}

fn stream_failed(path: &Path, error: io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::ReaderGone,
        _ => Failure::Error(Error::io("export to", path, error)),
    }
}

/// Refuses to replace a file without being told to.
fn may_replace(file: &Path, force: bool) -> velella::Result<()> {
    if force || !file.exists() {
        return Ok(());
    }
    Err(taken(file))
}

fn taken(file: &Path) -> Error {
    let error = Error::new(ErrorKind::AlreadyExists, "export to", "the file exists");
    error.on(file).remedy("use --force to replace it")
}

/// Gives a finished export its name, unless another file came to have it meanwhile.
fn take_name(partial: &Path, path: &Path, force: bool) -> velella::Result<()> {
    let failed = |error| Error::io("export to", path, error);
    #[cfg(target_os = "linux")]
    if !force {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        use rustix::io::Errno;
        match renameat_with(CWD, partial, CWD, path, RenameFlags::NOREPLACE) {
            Ok(()) => return Ok(()),
            Err(Errno::EXIST) => return Err(taken(path)),
            // A file system that cannot look and rename in one step.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
            Err(error) => return Err(failed(error.into())),
        }
    }
    may_replace(path, force)?;
    fs::rename(partial, path).map_err(failed)
}

/// Brings a name to the device, which no sync of its file does (X5).
fn sync_name(path: &Path) -> velella::Result<()> {
    use rustix::io::Errno;
    let dir = match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    match File::open(dir).and_then(|dir| dir.sync_all()) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        // A file system that syncs no directories.
        Err(error)
            if matches!(
                Errno::from_io_error(&error),
                Some(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP)
            ) =>
        {
            Ok(())
        }
        synced => synced.map_err(|error| Error::io("sync directory", dir, error)),
    }
}

fn finish(
    summary: &Summary,
    destination: &Destination,
    output: &mut Output,
) -> Result<(), Failure> {
    if summary.expiries_lost > 0 {
        let pairs = human::counted(summary.expiries_lost, "pair");
        output.note(&format!(
            "note: {pairs} had an expiry time, which this format does not carry; jsonl and raw do"
        ));
    }
    match destination {
        Destination::File(_) => {}
        // A stream may be where results go, as a terminal is: only the pairs may.
        Destination::Stdout | Destination::Stream { .. } if output.json => {
            say(&serde_json::json!(summary).to_string());
            return Ok(());
        }
        _ => return Ok(()),
    }
    let time = std::time::Duration::from_secs_f64(summary.seconds);
    output.result(summary, |out| {
        writeln!(
            out,
            "exported {} ({}) to {}, in {} ({})",
            human::counted(summary.pairs, "pair"),
            human::bytes(summary.bytes),
            summary.file,
            human::duration(time),
            human::rate(summary.pairs, time),
        )
    })
}

/// An export under way.
struct Job {
    format: Format,
    delimiter: u8,
    header: bool,
    bytes: bool,
    /// Whether a person is shown how far it is.
    is_watched: bool,
    summary: Summary,
}

impl Job {
    fn new() -> Self {
        Job {
            format: Format::Tsv,
            delimiter: b',',
            header: false,
            bytes: false,
            is_watched: false,
            summary: Summary::default(),
        }
    }

    fn write_file(&mut self, walk: &mut Walk, path: &Path, force: bool) -> Result<(), Failure> {
        let failed = |error| Failure::Error(Error::io("export to", path, error));
        let (file, partial) = create_partial(path)?;
        let mut out = BufWriter::with_capacity(WRITE_BYTES, file);
        let written = self.write(walk, &mut out, failed).and_then(|()| {
            out.get_ref().sync_all().map_err(failed)?;
            Ok(take_name(&partial, path, force)?)
        });
        if written.is_err() {
            // The first error is the one to tell; a file left behind is named for what it is.
            let _ = fs::remove_file(&partial);
        }
        written?;
        Ok(sync_name(path)?)
    }

    fn write<W: Write>(
        &mut self,
        walk: &mut Walk,
        out: &mut W,
        failed: impl Fn(io::Error) -> Failure,
    ) -> Result<(), Failure> {
        let bar = match self.is_watched {
            true => progress::pairs("exporting"),
            false => ProgressBar::hidden(),
        };
        let mut out = Counted { out, bytes: 0 };
        let mut writer = Writer::new(&mut out, self.format, self.bytes, self.delimiter);
        writer.begin(self.header).map_err(&failed)?;
        while let Some(Pair {
            key,
            value,
            expires_at_ms,
        }) = walk.next()?
        {
            writer
                .write(key, value, expires_at_ms)
                .map_err(|error| match error {
                    WriteError::Io(error) => failed(error),
                    WriteError::Unfit(reason) => unfit(key, reason, UNFIT_ADVICE),
                })?;
            self.summary.pairs += 1;
            if expires_at_ms.is_some() && !self.format.carries_expiry() {
                self.summary.expiries_lost += 1;
            }
            if self.summary.pairs.is_multiple_of(PAIRS_PER_TICK) {
                bar.set_position(self.summary.pairs);
            }
        }
        writer.end().map_err(&failed)?;
        self.summary.bytes = out.bytes;
        bar.finish_and_clear();
        Ok(())
    }
}

/// Creates the file that is to become the export at `path` (X2), and says its name.
fn create_partial(path: &Path) -> velella::Result<(File, PathBuf)> {
    const REMEDY: &str = "delete those that no export is writing, or choose another name";
    let mut last = PathBuf::new();
    let replaced = path.metadata().ok();
    for number in 1..=PARTIAL_NAMES {
        let mut name = path.as_os_str().to_owned();
        name.push(match number {
            1 => ".partial".to_owned(),
            _ => format!(".{number}.partial"),
        });
        last = PathBuf::from(name);
        match create_like(replaced.as_ref(), &last) {
            Ok(file) => return Ok((file, last)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Error::io("export to", path, error)),
        }
    }
    let found = format!("it exists, as do {} before it", PARTIAL_NAMES - 1);
    let error = Error::new(ErrorKind::AlreadyExists, "export to", found);
    Err(error.on(&last).remedy(REMEDY))
}

/// Creates a file that nobody may read who may not read `replaced`.
#[cfg(unix)]
fn create_like(replaced: Option<&fs::Metadata>, path: &Path) -> io::Result<File> {
    use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
    const OWNER: u32 = 0o700;
    let mut options = File::options();
    options.write(true).create_new(true);
    let Some(replaced) = replaced else {
        return options.open(path);
    };
    let mode = replaced.mode() & 0o777;
    let file = options.mode(mode & OWNER).open(path)?;
    // Only a superuser gives files away; a group may be any of one's own.
    let kept = fchown(&file, Some(replaced.uid()), Some(replaced.gid()))
        .or_else(|_| fchown(&file, None, Some(replaced.gid())));
    let mode = match kept {
        Ok(()) => mode,
        // Of another group, which was among the others.
        Err(_) => mode & 0o707 | (mode & 0o007) << 3,
    };
    if let Err(error) = file.set_permissions(fs::Permissions::from_mode(mode)) {
        let _ = fs::remove_file(path);
        return Err(error);
    }
    Ok(file)
}

#[cfg(not(unix))]
fn create_like(_: Option<&fs::Metadata>, path: &Path) -> io::Result<File> {
    File::create_new(path)
}

/// Counts what passes through.
struct Counted<W> {
    out: W,
    bytes: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    /// That it is called after the rename, `strace` shows.
    #[test]
    fn a_name_is_synced_in_the_directory_it_stands_in() {
        let place = tempfile::tempdir().unwrap();
        sync_name(&place.path().join("x.tsv")).unwrap();
        sync_name(Path::new("x.tsv")).unwrap();
        let nowhere = place.path().join("nowhere");
        let error = sync_name(&nowhere.join("x.tsv")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert_eq!(error.file(), Some(nowhere.as_path()));
    }

    #[test]
    fn a_file_under_way_is_as_readable_as_the_one_it_replaces() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("x.tsv");
        fs::write(&path, "").unwrap();
        for mode in [0o600, 0o640, 0o644, 0o400, 0o666] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let (mut file, partial) = create_partial(&path).unwrap();
            assert_eq!(file.metadata().unwrap().mode() & 0o7777, mode, "{mode:o}");
            file.write_all(b"x").unwrap();
            fs::remove_file(partial).unwrap();
        }
    }
}
