//! Opening a database: the one place that names layouts, memtables and files together.
//!
//! O1. Order: lock; manifest; trees; what the journal of the last run still holds, written to
//!     tables; the new journal, durable; one durable edit that names tables and new incarnation;
//!     only then the old journal goes, and what only it referred to, and the database opens.
//! O2. A crash anywhere repeats the opening; nobody has seen anything of it. One that fails leaves
//!     none of its files, unless the manifest may name them.
//! O3. The clock goes on above the stamp of every write of earlier runs, whatever survived of it;
//!     above what the journal shows, where the manifest is not believed.
//!
//! Tests: beside; `tests/lifecycle.rs`, `tests/crash.rs`, `tests/externals.rs`.

use crate::agreement;
use crate::budget;
use crate::catalogue::{DEFAULT_KEYSPACE, LEVELED, record};
use crate::core::{Engine, Pair, Parts};
use crate::handle::Handle;
use crate::jobs::Workers;
use crate::keyspace_core::{Core, MadeOf};
use crate::lease;
use crate::options::{Builder, JournalMode, Options, RecoveryMode};
use crate::recovery::{Known, Recovered, replay};
use crate::settings::check_order;
use crate::sizes::Sizes;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use velella_base::file_name::FileName;
use velella_base::{Error, ErrorKind, KeyspaceId, Order, Result, Stamp, seeded};
use velella_journal::{Access, Config, Journal, Recovery, Report, Start, newest_incarnation};
use velella_mvcc::{Clock, Snapshots};
use velella_sst::BlockCache;
use velella_sync::lock::Mutex;
use velella_sync::thread;
use velella_tree::{
    Edit, Env, ExternalStore, Graveyard, KeyspaceState, Manifest, OpenFiles, State,
};
use velella_vfs::Vfs;

/// Id of the keyspace every database has.
const DEFAULT_ID: KeyspaceId = 0;
/// What a clock may be behind without a word: clocks that are kept right step back, too.
const CLOCK_BEHIND_MAX_MS: u64 = 1_000;

/// Opens the database in `dir`.
pub(crate) fn open(builder: Builder, dir: &Path) -> Result<Arc<Handle>> {
    let (options, simulated) = (builder.options.validated()?, builder.simulated);
    let alone = simulated.is_some();
    let sizes = simulated.unwrap_or_else(|| budget::sizes(&options));
    let (vfs, orders) = (builder.vfs, builder.orders);
    let checked = |order| check_order("open the database", order);
    orders.iter().try_for_each(checked)?;
    make_directory(&*vfs, dir, &options)?;
    let vfs = hold(vfs, dir)?;
    let lock = vfs.lock(&FileName::Lock.path(dir))?;
    let (manifest, state, doubt) = open_manifest(&vfs, dir, &options)?;
    if let Some(bytes) = sizes.manifest_bytes {
        manifest.roll_early(bytes);
    }
    let env = environment(&vfs, dir, manifest, &options);
    let shared = MadeOf::new(sizes.lanes, budget::spare_bytes(&options));
    let cores = open_keyspaces(&env, &state, &options, &orders, &shared)?;

    let (mut recovered, mut report) = match &doubt {
        None => recover_with_room(&env, &state, &cores, &options)?,
        Some(doubt) => tables_only(&env, &state, doubt)?,
    };
    if doubt.is_none() {
        remove_tables(&env, &state, &recovered)?;
    }
    report.notes.extend(clock_behind(&state));
    let start = start(&state, &recovered);
    let (journal, lanes, edit) = new_journal(&env, &state, &options, &sizes, start)?;
    let until = lease::lease(start, start);
    if seeded("the-old-journal-goes-before-the-new-is-named") {
        journal.as_ref().map_or(Ok(()), |new| new.discard_older())?;
    }
    let edits = edits_of_opening(&mut recovered, &cores, edit, start, until);
    if let Err(error) = env.manifest.commit(&edits) {
        give_up_opening(&error, recovered, journal.as_deref());
        return Err(error);
    }
    // Not before: were this opening given up, the next might believe more.
    remove_rest(&env, &state, &recovered, doubt.is_some())?;
    recovered.show();
    match &journal {
        Some(journal) => journal.discard_older()?,
        None => velella_journal::discard_all(&*vfs, dir)?,
    }
    let engine = Engine::new(Parts {
        dir: dir.to_path_buf(),
        clock: Clock::new(start, until),
        slots: shared.slots,
        lanes,
        journal,
        opened_at: start,
        snapshots: Snapshots::new(),
        env,
        keyspaces: cores
            .into_iter()
            .map(|core| (core.name.clone(), core))
            .collect(),
        memtable_counters: shared.counters,
        spare: shared.spare,
        wall_ms: state.wall_ms,
        recovery: report,
        lock,
        options,
        sizes,
        alone,
    });
    handle(engine, alone)
}

/// The user's end of an open database, with its background threads unless it is to be `alone`.
fn handle(engine: Arc<Engine>, alone: bool) -> Result<Arc<Handle>> {
    let workers = match alone {
        true => Workers::default(),
        false => Workers::start(&engine)?,
    };
    Ok(Arc::new(Handle {
        engine,
        workers: Mutex::new(workers),
        closed: Mutex::new(Ok(())),
    }))
}

/// Where the clock goes on (O3).
fn start(state: &State, recovered: &Recovered) -> Stamp {
    match seeded("stamps-go-on-from-the-highest-seen") {
        true => recovered.last,
        false => highest_stamp(state).max(recovered.last),
    }
}

/// No stamp above it was given out before. The lease says so of writes; a switch, a creation or a
/// drop may have drawn one beyond it, and its edit been faster than the lease's extension.
fn highest_stamp(state: &State) -> Stamp {
    state.clock_lease.max(state.durable_below)
}

/// Removes tables that a crash left behind, which neither the manifest nor the recovery names; how
/// many there were.
fn remove_tables(env: &Env, state: &State, recovered: &Recovered) -> Result<usize> {
    let unreferenced = velella_tree::unreferenced(&*env.vfs, &env.dir, state, &BTreeSet::new())?;
    let new: BTreeSet<u64> = recovered.tables().map(|table| table.file).collect();
    let is_old = |name: &FileName| matches!(name, FileName::Table(file) if !new.contains(file));
    remove(env, unreferenced.into_iter().filter(is_old))
}

/// Removes values that nothing refers to any more, and tables where the manifest was in doubt.
fn remove_rest(env: &Env, state: &State, recovered: &Recovered, in_doubt: bool) -> Result<()> {
    if in_doubt {
        remove_tables(env, state, recovered)?;
    }
    let (state, taken) = (env.manifest.state(), &recovered.externals);
    let unreferenced = velella_tree::unreferenced(&*env.vfs, &env.dir, &state, taken)?;
    let is_value = |name: &FileName| matches!(name, FileName::External(_));
    remove(env, unreferenced.into_iter().filter(is_value)).map(drop)
}

fn remove(env: &Env, names: impl Iterator<Item = FileName>) -> Result<usize> {
    let mut removed = 0;
    for name in names {
        match env.vfs.remove(&name.path(&env.dir)) {
            // The last owner of a table may be a thread that is late, of an earlier opening in this
            // process: what it deleted just now is gone, as wanted. Numbers are not used again.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            done => {
                done?;
                removed += 1;
            }
        }
    }
    Ok(removed)
}

/// From here on `dir` is the directory that it is now.
fn hold(vfs: Arc<dyn Vfs>, dir: &Path) -> Result<Arc<dyn Vfs>> {
    match seeded("the-directory-is-looked-up-each-time") {
        true => Ok(vfs),
        false => Ok(vfs.hold(dir)?.unwrap_or(vfs)),
    }
}

/// Makes sure that there is a directory to lock: the database's, or one for a new database.
fn make_directory(vfs: &dyn Vfs, dir: &Path, options: &Options) -> Result<()> {
    if Manifest::exists(vfs, dir)? {
        return Ok(());
    }
    if !options.create {
        // Before the lock file is made: what is no database is left as it is.
        return Err(if vfs.exists(dir)? {
            nothing_there(vfs, dir)
        } else {
            missing(dir)
        });
    }
    if vfs.exists(dir)? {
        // Before the lock file is made, here too.
        Manifest::check_room(vfs, dir)?;
    }
    // Its own name must be as durable as what will be written below it.
    velella_tree::create_directory(vfs, dir)
}

fn missing(dir: &Path) -> Error {
    Error::new(
        ErrorKind::NotFound,
        "open database",
        "the directory does not exist",
    )
    .on(dir)
    .remedy("create it with `create(true)`, or check the path")
}

/// Nothing, or what is left of a database that lost its `CURRENT`.
fn nothing_there(vfs: &dyn Vfs, dir: &Path) -> Error {
    Manifest::lost_current(vfs, dir).unwrap_or_else(|| {
        Error::new(ErrorKind::NotFound, "open database", "there is none there")
            .on(dir)
            .remedy("create it with `create(true)`, or check the path")
    })
}

/// The third is why the manifest is not believed, where loss is accepted.
fn open_manifest(
    vfs: &Arc<dyn Vfs>,
    dir: &Path,
    options: &Options,
) -> Result<(Manifest, State, Option<Error>)> {
    let mut doubt = None;
    let (manifest, state) = if Manifest::exists(&**vfs, dir)? {
        Manifest::open_if(Arc::clone(vfs), dir, |replay| {
            match agreement::check(&**vfs, dir, replay, options.recovery) {
                Err(error)
                    if error.kind() == ErrorKind::Corruption
                        && options.recovery == RecoveryMode::AcceptLoss =>
                {
                    agreement::doubt(replay);
                    doubt = Some(error);
                    Ok(())
                }
                checked => checked,
            }
        })?
    } else if options.create {
        Manifest::create(Arc::clone(vfs), dir)?
    } else {
        return Err(nothing_there(&**vfs, dir));
    };
    // It is never dropped: without it this is a new manifest, or a creation was interrupted here.
    if state.keyspace(DEFAULT_ID).is_none() {
        let default = record(DEFAULT_ID, DEFAULT_KEYSPACE, &Order::Bytewise, Stamp::ZERO);
        manifest.commit(&[Edit::CreateKeyspace(default)])?;
        let state = manifest.state();
        return Ok((manifest, state, doubt));
    }
    Ok((manifest, state, doubt))
}

/// With edits missing, the journal may lack what only they told of: what is left of it would not be
/// a prefix of the writes. Nor are their leases known; stamps go on above what the journal shows.
fn tables_only(env: &Env, state: &State, doubt: &Error) -> Result<(Recovered, Report)> {
    let frontier = velella_journal::highest_frontier(&*env.vfs, &env.dir, env.database)?;
    let recovered = Recovered {
        last: lease::above_unknown(frontier.max(highest_stamp(state))),
        ..Recovered::default()
    };
    let report = Report {
        cut: flushed_up_to(state),
        loss_accepted: true,
        notes: vec![format!(
            "damage, loss accepted: {doubt}; of the journal nothing was taken"
        )],
        ..Report::default()
    };
    Ok((recovered, report))
}

/// What a run without a journal leaves of its writes when it dies.
fn cut_of_tables(state: &State) -> Stamp {
    match state.incarnation {
        // It never ran, or it is a checkpoint, which lost nothing.
        0 => Stamp::MAX,
        _ => flushed_up_to(state),
    }
}

/// Up to where writes are in tables.
fn flushed_up_to(state: &State) -> Stamp {
    let keyspaces = state.keyspaces.iter();
    let below = keyspaces.map(|keyspace| keyspace.flushed_below).max();
    below.map_or(Stamp::ZERO, |below| Stamp(below.0.saturating_sub(1)))
}

fn environment(vfs: &Arc<dyn Vfs>, dir: &Path, manifest: Manifest, options: &Options) -> Env {
    let manifest = Arc::new(manifest);
    let database = manifest.database();
    let files = OpenFiles::new(Arc::clone(vfs), options.open_files);
    let externals = ExternalStore::new(
        Arc::clone(&files),
        dir.to_path_buf(),
        database,
        Arc::clone(&manifest),
    );
    Env {
        vfs: Arc::clone(vfs),
        dir: dir.to_path_buf(),
        database,
        cache: BlockCache::new(crate::budget::cache_bytes(options)),
        counters: Arc::default(),
        graveyard: Graveyard::new(Arc::clone(vfs), Arc::clone(&manifest)),
        manifest,
        externals: Arc::new(externals),
        files,
    }
}

fn open_keyspaces(
    env: &Env,
    state: &State,
    options: &Options,
    orders: &[Order],
    shared: &MadeOf,
) -> Result<Vec<Arc<Core>>> {
    state
        .keyspaces
        .iter()
        .map(|keyspace| open_keyspace(env, keyspace, options, orders, shared))
        .collect()
}

fn open_keyspace(
    env: &Env,
    state: &KeyspaceState,
    options: &Options,
    orders: &[Order],
    shared: &MadeOf,
) -> Result<Arc<Core>> {
    let record = &state.record;
    let unsupported = |found: String, remedy: &str| {
        let attempt = format!("open keyspace `{}`", record.name);
        Error::new(ErrorKind::Unsupported, attempt, found).remedy(remedy)
    };
    if record.layout != LEVELED {
        let found = format!(
            "its layout is `{}`, this build knows `{LEVELED}`",
            record.layout
        );
        return Err(unsupported(
            found,
            "open the database with the version that wrote it",
        ));
    }
    let known = orders
        .iter()
        .find(|order| order.name() == record.order)
        .cloned();
    let bytewise = Some(Order::Bytewise).filter(|order| order.name() == record.order);
    let order = known.or(bytewise).ok_or_else(|| {
        let found = format!(
            "its keys are ordered by `{}`, which was not given",
            record.order
        );
        unsupported(found, "give that order to the builder with `order`; without it, `velella inspect` lists the files")
    })?;
    Core::open(env, state, order, options, shared)
}

/// What to say where time stands still at first: it does not go back (`Wall`).
fn clock_behind(state: &State) -> Option<String> {
    let behind = state.wall_ms.saturating_sub(thread::wall_ms());
    (behind > CLOCK_BEHIND_MAX_MS).then(|| {
        format!(
            "this machine's clock is {} s behind what it was when the database was last used: \
             until it has caught up, nothing expires, and what is written to expire before that is \
             absent at once",
            behind / 1_000
        )
    })
}

/// As `recover`; where the disk is full, once more without the tables of earlier openings that were
/// cut off. Not before: a database that is refused for what its journal says is left as it is.
fn recover_with_room(
    env: &Env,
    state: &State,
    cores: &[Arc<Core>],
    options: &Options,
) -> Result<(Recovered, Report)> {
    match recover(env, state, cores, options) {
        Err(error) if error.kind() == ErrorKind::NoSpace => {
            match remove_tables(env, state, &Recovered::default())? {
                0 => Err(error),
                _ => recover(env, state, cores, options),
            }
        }
        recovered => recovered,
    }
}

/// What the journal of the last incarnation holds, written to tables.
fn recover(
    env: &Env,
    state: &State,
    cores: &[Arc<Core>],
    options: &Options,
) -> Result<(Recovered, Report)> {
    if state.seal_file == 0 {
        let report = Report {
            cut: cut_of_tables(state),
            loss_accepted: options.recovery == RecoveryMode::AcceptLoss,
            ..Report::default()
        };
        return Ok((Recovered::default(), report));
    }
    let last = agreement::last(state, options.recovery);
    let mut journal = Recovery::open(Arc::clone(&env.vfs), &env.dir, env.database, &last)?;
    let lease = match last.accept_loss {
        false => state.clock_lease,
        true => Stamp::MAX,
    };
    let known = Known { state, lease };
    let recovered = replay(&mut journal, cores, &known, options.memory / 4)?;
    sync_externals(env, &recovered, &journal)?;
    let mut report = journal.report().clone();
    let tables = cut_of_tables(state);
    if last.accept_loss && report.cut < tables {
        report.notes.push(format!(
            "tables hold writes up to stamp {tables}, which stay: what was given up below it is of \
             keyspaces whose tables end before"
        ));
    }
    Ok((recovered, report))
}

/// A process that died left the values of its last writes in the page cache. Tables that refer to
/// them are about to be durable, so they must be.
fn sync_externals(env: &Env, recovered: &Recovered, journal: &Recovery) -> Result<()> {
    for &file in &recovered.externals {
        if seeded("recovered-values-are-not-synced") {
            continue;
        }
        let path = FileName::External(file).path(&env.dir);
        match env.files.with_room(|| env.vfs.open_write(&path)) {
            Ok(file) => {
                let synced = file.sync_data();
                synced.inspect_err(|_| journal.note_failed_sync())?;
            }
            // Whoever reads the value is told.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

type NewJournal = (Option<Arc<Journal>>, Vec<Pair>, Edit);

fn new_journal(
    env: &Env,
    state: &State,
    options: &Options,
    sizes: &Sizes,
    start: Stamp,
) -> Result<NewJournal> {
    let accepts = options.recovery == RecoveryMode::AcceptLoss;
    // The journal may know of later runs than a manifest that lost its end.
    let named = state.incarnation;
    let begun = newest_incarnation(&*env.vfs, &env.dir, env.database, named, accepts)?;
    let number = begun.saturating_add(1);
    let access = match options.journal {
        JournalMode::Auto => Access::Auto,
        JournalMode::Mapped => Access::Mapped,
        JournalMode::Write => Access::Write,
        JournalMode::Off => {
            let edit = Edit::Incarnation {
                number,
                seal_file: 0,
                token: Default::default(),
            };
            return Ok((None, (0..sizes.lanes).map(|_| None).collect(), edit));
        }
    };
    let (manifest, noted) = (Arc::clone(&env.manifest), Arc::clone(&env.manifest));
    let files = Arc::clone(&env.files);
    let config = Config {
        vfs: Arc::clone(&env.vfs),
        dir: env.dir.clone(),
        database: env.database,
        incarnation: number,
        lanes: sizes.lanes,
        segment_bytes: sizes.segment_bytes,
        extent_bytes: sizes.extent_bytes,
        access,
        ack_after_done: false,
        next_file: Arc::new(move || manifest.next_file()),
        note: Some(Arc::new(move || agreement::note(noted.position()))),
        make_room: Some(Arc::new(move || files.make_room())),
    };
    let (journal, lanes, Start { seal_file, token }) = Journal::create(config, start)?;
    let edit = Edit::Incarnation {
        number,
        seal_file,
        token,
    };
    Ok((Some(journal), lanes.into_iter().map(Some).collect(), edit))
}

/// What makes the opening true, to be committed as one (O1).
fn edits_of_opening(
    recovered: &mut Recovered,
    cores: &[Arc<Core>],
    incarnation: Edit,
    start: Stamp,
    until: Stamp,
) -> Vec<Edit> {
    let mut edits = recovered.edits();
    // Everything that will ever be known of stamps up to `start` is in tables now.
    let below = lease::above(start);
    for core in cores {
        edits.push(Edit::Flushed {
            keyspace: core.id,
            below,
        });
        core.set_flushed_below(below);
    }
    edits.push(incarnation);
    edits.push(Edit::ClockLease { until });
    edits.push(Edit::WallClock {
        ms: thread::wall_ms(),
    });
    edits
}

/// The commit of an opening has failed: unless it may be found all the same, what it would have
/// named goes (O2).
fn give_up_opening(error: &Error, recovered: Recovered, journal: Option<&Journal>) {
    if !Manifest::is_refusal(error) {
        return;
    }
    recovered.discard();
    if let Some(journal) = journal {
        journal.unmake();
    }
}

#[cfg(test)]
mod tests;
