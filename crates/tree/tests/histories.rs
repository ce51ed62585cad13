//! Random histories of the manifest and of external values against models: rewritings, restarts,
//! failures, checkpoints; what a second reader sees; what cannot be and is refused.
//!
//! Claims: `manifest/mod.rs` N1 to N3, `state.rs` J1 and J2, `external.rs` X1 and X2.

#![allow(clippy::unwrap_used, reason = "a test")]
#![allow(clippy::cast_possible_truncation, reason = "small numbers of a test")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use velella_base::external::ExternalRef;
use velella_base::file_name::FileName;
use velella_base::{ErrorKind, Stamp};
use velella_sst::{Compression, TableMeta};
use velella_sync::rng::Rng;
use velella_tree::manifest::LEVELS_MAX;
use velella_tree::{
    Edit, ExternalHold, ExternalStore, KeyspaceRecord, KeyspaceSettings, Manifest, OpenFiles,
    State, unreferenced,
};
use velella_vfs::fault::{Fault, Rule};
use velella_vfs::mem::CrashMode;
use velella_vfs::{FaultFs, MemFs, Operation, Vfs};

fn db() -> &'static Path {
    Path::new("/db")
}

fn arc(fs: &MemFs) -> Arc<dyn Vfs> {
    Arc::new(fs.clone())
}

fn record(id: u32, created: u64) -> KeyspaceRecord {
    KeyspaceRecord {
        id,
        name: format!("keyspace {id}"),
        layout: "leveled".into(),
        order: "velella.bytewise".into(),
        merge_operator: String::new(),
        prefix_extractor: String::new(),
        created: Stamp(created),
    }
}

fn table(file: u64, rng: &mut Rng) -> TableMeta {
    let low = vec![b'a' + rng.below(20) as u8; 1 + rng.below(30) as usize];
    TableMeta {
        file,
        bytes: 1 + rng.below(1 << 40),
        kinds: [0, 1 + rng.below(1 << 30), rng.below(9), 0, 0, 0, 0],
        largest: [&low[..], b"z"].concat(),
        smallest: low,
        min_stamp: Stamp(rng.below(1 << 50)),
        max_stamp: Stamp((1 << 50) + rng.below(1 << 50)),
        min_expiry_ms: None,
        max_expiry_ms: None,
        raw_bytes: rng.below(1 << 40),
        externals: (0..rng.below(3))
            .map(|at| 1_000_000 + file * 4 + at)
            .collect(),
        shadowed: None,
    }
}

/// Tables with their levels by file, settings, and where the flushed stamps end.
type Keyspace = (BTreeMap<u64, (u32, TableMeta)>, KeyspaceSettings, u64);

/// What the manifest should hold, kept in the plainest way.
#[derive(Default)]
struct Model {
    keyspaces: BTreeMap<u32, Keyspace>,
    dropped: BTreeSet<u32>,
    next: u32,
    lease: u64,
    wall: u64,
    incarnation: u64,
}

impl Model {
    /// Edits of one commit, carried out here as well.
    fn edits(&mut self, rng: &mut Rng, manifest: &Manifest) -> Vec<Edit> {
        let ids: Vec<u32> = self.keyspaces.keys().copied().collect();
        let any = |rng: &mut Rng| {
            ids.get(rng.below(ids.len().max(1) as u64) as usize)
                .copied()
        };
        match (rng.below(12), any(rng)) {
            (0, _) | (_, None) => {
                self.next = self.next.max(1);
                let id = self.next;
                self.next += 1;
                self.keyspaces.insert(id, Default::default());
                vec![Edit::CreateKeyspace(record(id, u64::from(id)))]
            }
            (1, Some(id)) if ids.len() > 1 => {
                self.keyspaces.remove(&id);
                self.dropped.insert(id);
                vec![Edit::DropKeyspace {
                    id,
                    stamp: Stamp(9),
                }]
            }
            (2, _) => {
                self.lease += rng.below(1 << 30);
                self.wall += rng.below(1 << 20);
                let until = Stamp(self.lease);
                vec![
                    Edit::ClockLease { until },
                    Edit::WallClock { ms: self.wall },
                ]
            }
            (3, _) => {
                self.incarnation += 1;
                let (number, token) = (self.incarnation, Default::default());
                vec![Edit::Incarnation {
                    number,
                    seal_file: 7,
                    token,
                }]
            }
            (4, Some(id)) => {
                let settings = KeyspaceSettings {
                    memtable: Some(format!("kind {}", rng.below(9))),
                    compression: [None, Some(Compression::Zstd)][rng.below(2) as usize],
                    bloom_bits: Some(rng.below(33) as u32),
                    ..KeyspaceSettings::default()
                };
                let place = &mut self.keyspaces.get_mut(&id).unwrap().1;
                place.clone_from(&settings);
                vec![Edit::KeyspaceSettings {
                    keyspace: id,
                    settings,
                }]
            }
            (5..8, Some(id)) => {
                let (tables, _, flushed) = self.keyspaces.get_mut(&id).unwrap();
                *flushed += rng.below(100);
                let level = rng.below(4) as u32;
                let new = table(manifest.next_file().unwrap(), rng);
                tables.insert(new.file, (level, new.clone()));
                let below = Stamp(*flushed);
                vec![
                    Edit::AddTables {
                        keyspace: id,
                        level,
                        tables: vec![new],
                    },
                    Edit::Flushed {
                        keyspace: id,
                        below,
                    },
                ]
            }
            (_, Some(id)) => {
                let (tables, ..) = self.keyspaces.get_mut(&id).unwrap();
                let Some(file) = tables.keys().nth(rng.below(3) as usize).copied() else {
                    return Vec::new();
                };
                let (level, mut moved) = tables.remove(&file).unwrap();
                let remove = Edit::RemoveTables {
                    keyspace: id,
                    files: vec![file],
                };
                if rng.below(2) == 0 {
                    return vec![remove];
                }
                let level = (level + 1).min(LEVELS_MAX - 1);
                moved.raw_bytes += 1;
                tables.insert(file, (level, moved.clone()));
                vec![
                    remove,
                    Edit::AddTables {
                        keyspace: id,
                        level,
                        tables: vec![moved],
                    },
                ]
            }
        }
    }

    fn check(&self, state: &State) {
        let ids: Vec<u32> = state
            .keyspaces
            .iter()
            .map(|keyspace| keyspace.record.id)
            .collect();
        assert_eq!(ids, self.keyspaces.keys().copied().collect::<Vec<_>>());
        for keyspace in &state.keyspaces {
            let (tables, settings, flushed) = &self.keyspaces[&keyspace.record.id];
            assert_eq!(
                keyspace.record.name,
                format!("keyspace {}", keyspace.record.id)
            );
            assert_eq!(keyspace.settings, *settings);
            assert_eq!(keyspace.flushed_below, Stamp(*flushed));
            let mut found = BTreeMap::new();
            for (level, metas) in (0..).zip(&keyspace.levels) {
                found.extend(metas.iter().map(|meta| (meta.file, (level, meta.clone()))));
            }
            assert_eq!(found, *tables);
        }
        for id in 1..=self.next {
            assert_eq!(state.is_dropped(id), self.dropped.contains(&id), "{id}");
        }
        let figures = (state.next_keyspace, state.clock_lease.0, state.wall_ms);
        assert_eq!(figures, (self.next, self.lease, self.wall));
        assert_eq!(state.incarnation, self.incarnation);
    }
}

#[test]
fn random_edits_survive_rewritings_restarts_and_power_cuts() {
    for number in 0..12 {
        println!("seed {number}");
        let mut rng = Rng::new(number);
        let mut fs = MemFs::new();
        let (mut manifest, _) = Manifest::create(arc(&fs), db()).unwrap();
        manifest.roll_early(800);
        let mut model = Model::default();
        let mut numbers = BTreeSet::new();
        let mut files = BTreeSet::from([manifest.file()]);
        for step in 0..160 {
            let edits = model.edits(&mut rng, &manifest);
            manifest.commit(&edits).unwrap();
            model.check(&manifest.state());
            files.insert(manifest.file());
            let number = manifest.next_file().unwrap();
            assert!(numbers.insert(number), "file number {number} came back");
            match rng.below(25) {
                0 => {
                    drop(manifest);
                    (manifest, _) = Manifest::open(arc(&fs), db()).unwrap();
                }
                1 => {
                    // What was acknowledged is durable.
                    fs = fs.image(step, CrashMode::POWER_LOSSES[step as usize % 3]);
                    (manifest, _) = Manifest::open(arc(&fs), db()).unwrap();
                }
                2 => {
                    let (_, read) = Manifest::read(&fs, db()).unwrap();
                    model.check(&read);
                }
                _ => continue,
            }
            manifest.roll_early(800);
            model.check(&manifest.state());
        }
        assert!(files.len() > 4, "it was rewritten {} times", files.len());
        let left = fs.read_dir(db()).unwrap().len();
        assert!(left <= 3, "old manifests went: {left} files");
    }
}

/// Edits that do not fit what is there.
#[test]
fn an_edit_that_does_not_fit_is_refused_and_nothing_is_built_upon_it() {
    let mut rng = Rng::new(1);
    let known = table(500, &mut rng);
    let add = |level: u32, file: u64| Edit::AddTables {
        keyspace: 1,
        level,
        tables: vec![TableMeta {
            file,
            ..known.clone()
        }],
    };
    let remove = |file: u64| Edit::RemoveTables {
        keyspace: 1,
        files: vec![file],
    };
    let cases = [
        (vec![remove(501)], "501"),
        (vec![add(0, 500)], "500"),
        (vec![remove(500), remove(500)], "500"),
        (vec![Edit::CreateKeyspace(record(1, 1))], "1"),
        (
            vec![Edit::Incarnation {
                number: 3,
                seal_file: 0,
                token: Default::default(),
            }],
            "incarnation 3 comes after 5",
        ),
    ];
    for (edits, said) in cases {
        let fs = MemFs::new();
        let (manifest, _) = Manifest::create(arc(&fs), db()).unwrap();
        let first = vec![
            Edit::CreateKeyspace(record(1, 1)),
            add(1, 500),
            Edit::Incarnation {
                number: 5,
                seal_file: 0,
                token: Default::default(),
            },
        ];
        manifest.commit(&first).unwrap();
        let expected = Manifest::read(&fs, db()).unwrap().1;
        let error = manifest.commit(&edits).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert!(error.to_string().contains(said), "{said}: {error}");
        assert!(error.file().is_some(), "{error}");
        // What it holds in memory is in doubt now.
        let again = manifest.commit(&[add(0, 900)]).unwrap_err();
        assert_eq!(again.kind(), ErrorKind::ReadOnly, "{again}");
        assert!(
            again.to_string().contains("open the database again"),
            "{again}"
        );
        drop(manifest);
        let (manifest, state) = Manifest::open(arc(&fs), db()).unwrap();
        assert_eq!(
            state.keyspaces, expected.keyspaces,
            "nothing of it was written"
        );
        manifest.commit(&[add(0, 900)]).unwrap();
    }
}

#[test]
fn a_rewriting_that_fails_anywhere_loses_no_commit() {
    for operation in Operation::ALL {
        for nth in 1.. {
            let mem = MemFs::new();
            let faulty = FaultFs::over_mem(&mem);
            let vfs: Arc<dyn Vfs> = Arc::new(faulty.clone());
            let (manifest, _) = Manifest::create(vfs, db()).unwrap();
            manifest
                .commit(&[Edit::CreateKeyspace(record(1, 1))])
                .unwrap();
            // Soon a commit is followed by a rewriting.
            manifest.roll_early(1);
            let first = manifest.file();
            faulty.reset();
            faulty.inject(Rule::every(Fault::Io).of(operation).nth(nth));
            let mut acknowledged = Vec::new();
            let mut rng = Rng::new(nth);
            for file in 600..700 {
                let tables = vec![table(file, &mut rng)];
                match manifest.commit(&[Edit::AddTables {
                    keyspace: 1,
                    level: 0,
                    tables,
                }]) {
                    Ok(()) => acknowledged.push(file),
                    Err(error) => {
                        assert!(error.file().is_some(), "{operation:?} {nth}: {error}");
                        break;
                    }
                }
            }
            let fired = faulty.fired() > 0;
            faulty.heal();
            assert!(fired || manifest.file() > first, "it was never rewritten");
            drop(manifest);
            for mode in [CrashMode::KeepAll, CrashMode::Strict, CrashMode::Random] {
                let after = mem.image(nth, mode);
                let (manifest, state) = Manifest::open(arc(&after), db()).unwrap();
                let tables: Vec<u64> = state.tables().map(|table| table.file).collect();
                assert!(
                    tables.starts_with(&acknowledged),
                    "{operation:?} {nth} {mode:?}"
                );
                assert!(
                    tables.len() <= acknowledged.len() + 1,
                    "{operation:?} {nth} {mode:?}"
                );
                assert!(manifest.next_file().unwrap() > 0);
            }
            if !fired {
                break;
            }
        }
    }
}

#[test]
fn external_values_go_exactly_when_they_are_discarded_and_held_by_nobody() {
    for number in 0..10 {
        println!("seed {number}");
        let mut rng = Rng::new(number);
        let fs = MemFs::new();
        let (manifest, _) = Manifest::create(arc(&fs), db()).unwrap();
        let (database, manifest) = (manifest.database(), Arc::new(manifest));
        let tables = OpenFiles::new(arc(&fs), 1);
        let store = ExternalStore::new(tables, db().into(), database, Arc::clone(&manifest));
        let mut alive: BTreeMap<u64, (ExternalRef, Vec<u8>)> = BTreeMap::new();
        let mut discarded: BTreeSet<u64> = BTreeSet::new();
        let mut holds: Vec<(u64, ExternalHold)> = Vec::new();
        let path = |file: u64| -> PathBuf { FileName::External(file).path(db()) };
        for _ in 0..300 {
            let pick = alive.keys().nth(rng.below(6) as usize).copied();
            match (rng.below(6), pick) {
                (0 | 1, _) => {
                    let value = vec![rng.below(250) as u8; rng.below(9_000) as usize];
                    let (reference, file) = store.write(&value, 0).unwrap();
                    file.sync_all().unwrap();
                    alive.insert(reference.file, (reference, value));
                }
                (2, Some(file)) => holds.push((file, store.hold(file))),
                (3, _) if !holds.is_empty() => {
                    drop(holds.swap_remove(rng.below(holds.len() as u64) as usize));
                }
                (4, Some(file)) => {
                    store.discard(&[file, file]);
                    discarded.insert(file);
                }
                _ => store.reap(),
            }
            store.reap();
            let held: BTreeSet<u64> = holds.iter().map(|(file, _)| *file).collect();
            let gone: Vec<u64> = discarded.difference(&held).copied().collect();
            for file in gone {
                assert!(
                    !fs.exists(&path(file)).unwrap(),
                    "{file} was discarded, nobody holds it"
                );
                alive.remove(&file);
                discarded.remove(&file);
            }
            for (file, (reference, value)) in &alive {
                assert_eq!(store.read(reference).unwrap(), *value, "{file}");
                assert_eq!(store.verify(reference).unwrap(), value.len() as u64);
            }
            let bytes: usize = alive.values().map(|(_, value)| value.len()).sum();
            assert_eq!(store.bytes(), bytes as u64);
        }
        // The next opening finds what no table names.
        drop((holds, store));
        let orphans = unreferenced(&fs, db(), &manifest.state(), &BTreeSet::new()).unwrap();
        let known: Vec<FileName> = alive.keys().map(|file| FileName::External(*file)).collect();
        assert_eq!(
            orphans.iter().copied().collect::<BTreeSet<_>>(),
            known.into_iter().collect()
        );
    }
}

#[test]
fn a_checkpoint_is_a_database_of_its_own_whose_files_keep_their_origin() {
    let mut rng = Rng::new(3);
    let fs = MemFs::new();
    let (manifest, _) = Manifest::create(arc(&fs), db()).unwrap();
    let tables: Vec<TableMeta> = (0..5)
        .map(|_| table(manifest.next_file().unwrap(), &mut rng))
        .collect();
    let token = Default::default();
    manifest
        .commit(&[
            Edit::CreateKeyspace(record(1, 1)),
            Edit::AddTables {
                keyspace: 1,
                level: 1,
                tables: tables.clone(),
            },
            Edit::Incarnation {
                number: 8,
                seal_file: 77,
                token,
            },
            Edit::ClockLease {
                until: Stamp(1_000),
            },
        ])
        .unwrap();
    let mut dirs = vec![(db().to_path_buf(), manifest.database(), manifest.state())];
    // A checkpoint of a checkpoint of it.
    for generation in 1..3 {
        let dir = PathBuf::from(format!("/copy{generation}"));
        let (_, origin, state) = dirs.last().unwrap();
        let id = Manifest::checkpoint(arc(&fs), &dir, state, *origin).unwrap();
        let (copy, state) = Manifest::open(arc(&fs), &dir).unwrap();
        assert_eq!(copy.database(), id);
        assert!(
            dirs.iter().all(|(_, other, _)| *other != id),
            "an id of its own"
        );
        assert_eq!(
            (state.incarnation, state.seal_file),
            (0, 0),
            "no journal came along"
        );
        assert_eq!(state.clock_lease, Stamp(1_000), "stamps go on");
        assert_eq!(state.tables().cloned().collect::<Vec<_>>(), tables);
        for meta in &tables {
            assert_eq!(copy.origin(meta.file), dirs[0].1, "generation {generation}");
        }
        let new = copy.next_file().unwrap();
        assert!(tables.iter().all(|meta| meta.file < new));
        assert_eq!(copy.origin(new), id, "what it writes is its own");
        let mut one = table(new, &mut rng);
        one.externals.clear();
        copy.commit(&[Edit::AddTables {
            keyspace: 1,
            level: 0,
            tables: vec![one],
        }])
        .unwrap();
        copy.commit(&[Edit::RemoveTables {
            keyspace: 1,
            files: vec![new],
        }])
        .unwrap();
        dirs.push((dir.clone(), id, copy.state()));
    }
}
