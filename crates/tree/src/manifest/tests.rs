//! Edits and states: round trips, refusals, listings.

use super::fault::Fault;
use super::*;
use velella_base::Stamp;
use velella_base::codec::Reader;
use velella_sst::TableMeta;
use velella_vfs::Identity;

pub(crate) fn table(file: u64) -> TableMeta {
    TableMeta {
        file,
        bytes: 4096 + file,
        kinds: [0, 7, 1, 2, 0, 0, 3],
        smallest: format!("key{file}").into_bytes(),
        largest: vec![0xff; 9],
        min_stamp: Stamp(file),
        max_stamp: Stamp(1 << 50),
        min_expiry_ms: None,
        max_expiry_ms: Some(0),
        raw_bytes: 9999,
        externals: vec![1, 5, 300],
        shadowed: None,
    }
}

fn record(id: u32, name: &str) -> KeyspaceRecord {
    KeyspaceRecord {
        id,
        name: name.into(),
        layout: "leveled".into(),
        order: "velella.bytewise".into(),
        merge_operator: String::new(),
        prefix_extractor: "fixed:4".into(),
        created: Stamp(3),
    }
}

/// Every setting, and two that a newer build might store.
fn settings() -> KeyspaceSettings {
    KeyspaceSettings {
        memtable: Some("jellyfish".into()),
        compression: Some(velella_sst::Compression::Zstd),
        bloom_bits: Some(14),
        unknown: vec![(0, Vec::new()), (300, vec![1, 2])],
    }
}

/// One edit of every kind, which apply in this order.
fn every_edit() -> Vec<Edit> {
    vec![
        Edit::CreateKeyspace(record(1, "default")),
        Edit::CreateKeyspace(record(2, "other")),
        Edit::AddTables {
            keyspace: 1,
            level: 6,
            tables: vec![table(7), table(8)],
        },
        Edit::AddTables {
            keyspace: 2,
            level: 0,
            tables: vec![table(9)],
        },
        Edit::RemoveTables {
            keyspace: 1,
            files: vec![8],
        },
        Edit::Flushed {
            keyspace: 1,
            below: Stamp(99),
        },
        Edit::DropKeyspace {
            id: 2,
            stamp: Stamp(100),
        },
        Edit::Incarnation {
            number: 4,
            seal_file: 12,
            token: Identity {
                boot: [9; 16],
                device: 1,
                file_system: 2,
                inode: 3,
                born_ns: u64::MAX,
                mount_namespace: 5,
                mount: 6,
            },
        },
        Edit::ClockLease { until: Stamp::MAX },
        Edit::WallClock {
            ms: 1_700_000_000_000,
        },
        Edit::FileLease { until: 1 << 40 },
        Edit::Origin {
            below: 6,
            database: u128::MAX - 5,
        },
        Edit::KeyspaceIds { next: 12 },
        Edit::KeyspaceSettings {
            keyspace: 1,
            settings: settings(),
        },
        Edit::Durable { below: Stamp(77) },
    ]
}

fn applied(edits: &[Edit]) -> State {
    let mut state = State::default();
    for edit in edits {
        state.apply(edit).unwrap();
    }
    state
}

#[test]
fn every_edit_round_trips_and_no_part_of_one_does() {
    for edit in every_edit() {
        let mut bytes = Vec::new();
        edit.encode(&mut bytes);
        let mut reader = Reader::new(&bytes);
        assert_eq!(Edit::decode(&mut reader).unwrap(), edit);
        assert!(reader.is_empty());
        for cut in 0..bytes.len() {
            assert!(
                Edit::decode(&mut Reader::new(&bytes[..cut])).is_err(),
                "{edit:?}"
            );
        }
        // A body with a byte too many.
        let mut long = vec![bytes[0]];
        velella_base::codec::put_slice(&mut long, &[&bytes[2..], b"\0"].concat());
        if bytes[1] < 0x7f {
            let fault = Edit::decode(&mut Reader::new(&long)).unwrap_err();
            assert!(matches!(fault, Fault::Damaged(_)), "{edit:?}: {fault:?}");
        }
    }
}

#[test]
fn an_unknown_edit_is_refused_by_its_number() {
    let fault = Edit::decode(&mut Reader::new(&[77, 0])).unwrap_err();
    assert_eq!(
        fault,
        Fault::Unknown("edit kind 77 is unknown to this build".into())
    );
}

#[test]
fn settings_are_taken_only_whole_ascending_and_with_values_that_can_be() {
    let decode = |body: &[u8]| {
        let mut bytes = vec![12];
        velella_base::codec::put_slice(&mut bytes, &[&[1], body].concat());
        Edit::decode(&mut Reader::new(&bytes))
    };
    decode(&[0]).unwrap();
    decode(&[2, 2, 1, 1, 3, 1, 10]).unwrap();
    for (body, why) in [
        (&[2, 3, 1, 10, 2, 1, 1][..], "descending"),
        (&[2, 3, 1, 10, 3, 1, 10], "twice"),
        (&[1, 2, 2, 1, 1], "a compression of two bytes"),
        (&[1, 2, 0], "a compression of none"),
        (&[1, 1, 1, 0xff], "a name that is no text"),
        (&[1, 3, 2, 10, 0], "bits with a byte too many"),
        (
            &[1, 3, 6, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
            "bits beyond 32 bits",
        ),
        (&[9, 2, 1, 1], "fewer than it says"),
    ] {
        let fault = decode(body).unwrap_err();
        assert!(matches!(fault, Fault::Damaged(_)), "{why}: {fault:?}");
    }
    let newer = decode(&[1, 2, 1, 9]).unwrap_err();
    assert_eq!(
        newer,
        Fault::Unknown("compression 9 is unknown to this build".into())
    );
}

#[test]
fn counts_beyond_what_is_left_are_refused_without_allocating() {
    for kind in [3u8, 4, 11, 12] {
        let mut body = vec![1, 0];
        velella_base::codec::put_varint(&mut body, u64::MAX >> 1);
        let mut bytes = vec![kind];
        velella_base::codec::put_slice(&mut bytes, &body);
        assert!(Edit::decode(&mut Reader::new(&bytes)).is_err());
    }
}

#[test]
fn a_lease_of_file_numbers_that_never_end_is_refused() {
    for (until, is_fine) in [((1 << 62) - 1, true), (1 << 62, false), (u64::MAX, false)] {
        let mut bytes = Vec::new();
        Edit::FileLease { until }.encode(&mut bytes);
        assert_eq!(
            Edit::decode(&mut Reader::new(&bytes)).is_ok(),
            is_fine,
            "{until}"
        );
    }
}

#[test]
fn a_state_is_its_edits() {
    let state = applied(&every_edit());
    assert_eq!(applied(&state.edits()), state);
    let dropped: Vec<u32> = (0..20).filter(|id| state.is_dropped(*id)).collect();
    assert_eq!(dropped, (0..12).filter(|id| *id != 1).collect::<Vec<_>>());
    assert_eq!(state.next_keyspace, 12);
    assert_eq!(
        state.tables().map(|table| table.file).collect::<Vec<_>>(),
        [7]
    );
    assert_eq!(state.origin(5, 1), u128::MAX - 5);
    assert_eq!(state.origin(6, 1), 1);
}

#[test]
fn keyspaces_that_come_and_go_leave_nothing() {
    let encoded = |state: &State| {
        let mut bytes = Vec::new();
        for edit in state.edits() {
            edit.encode(&mut bytes);
        }
        bytes.len()
    };
    let mut state = applied(&[Edit::CreateKeyspace(record(0, "default"))]);
    let before = encoded(&state);
    for id in 1..=1000 {
        let stamp = Stamp(9);
        state
            .apply(&Edit::CreateKeyspace(record(id, "passing")))
            .unwrap();
        state.apply(&Edit::DropKeyspace { id, stamp }).unwrap();
    }
    // Of them only the next id is left, and what the last drop told to be durable.
    let left = encoded(&state) - before;
    assert!(left <= 8, "{left} bytes");
    assert!((1..=1000).all(|id| state.is_dropped(id)));
    assert!(!state.is_dropped(0) && !state.is_dropped(1001));
}

#[test]
fn an_old_list_of_dropped_keyspaces_is_read_and_ignored() {
    let mut bytes = vec![11];
    velella_base::codec::put_slice(&mut bytes, &[12, 2, 3, 4]);
    let edit = Edit::decode(&mut Reader::new(&bytes)).unwrap();
    assert_eq!(edit, Edit::KeyspaceIds { next: 12 });
}

#[test]
fn an_old_manifest_creates_keyspace_0_below_the_next_id() {
    let begun = Edit::KeyspaceIds { next: 1 };
    let first = Edit::CreateKeyspace(record(0, "default"));
    let mut state = applied(&[begun.clone(), first.clone()]);
    assert_eq!((state.keyspaces.len(), state.next_keyspace), (1, 1));
    assert!(state.apply(&first).is_err());
    // Nowhere else.
    for before in [
        &[Edit::KeyspaceIds { next: 2 }][..],
        &[begun, Edit::CreateKeyspace(record(1, "other"))],
    ] {
        assert!(applied(before).apply(&first).is_err(), "{before:?}");
    }
}

#[test]
fn what_a_drop_tells_to_be_durable_stays_told() {
    let created = |id, created| {
        Edit::CreateKeyspace(KeyspaceRecord {
            created: Stamp(created),
            ..record(id, &id.to_string())
        })
    };
    let drop = Edit::DropKeyspace {
        id: 2,
        stamp: Stamp(30),
    };
    let state = applied(&[created(1, 10), created(2, 20), drop]);
    assert_eq!(state.durable_below, Stamp(30));
    assert_eq!(applied(&state.edits()), state);
    let below = Stamp(40);
    let keyspace = 1;
    let flushed = [state.edits(), vec![Edit::Flushed { keyspace, below }]].concat();
    let state = applied(&flushed);
    assert_eq!(state.durable_below, below);
    let says = |edit: &Edit| matches!(edit, Edit::Durable { .. });
    assert!(!state.edits().iter().any(says), "the flush says it");
}

#[test]
fn edits_that_do_not_fit_are_errors() {
    let state = applied(&every_edit());
    let add = |file| Edit::AddTables {
        keyspace: 1,
        level: 0,
        tables: vec![table(file)],
    };
    for edit in [
        Edit::CreateKeyspace(record(1, "again")),
        Edit::CreateKeyspace(record(2, "a dropped id")),
        Edit::CreateKeyspace(record(20, "default")),
        Edit::DropKeyspace {
            id: 9,
            stamp: Stamp(1),
        },
        add(7),
        Edit::RemoveTables {
            keyspace: 1,
            files: vec![7, 8],
        },
        Edit::Flushed {
            keyspace: 2,
            below: Stamp(1),
        },
        Edit::Incarnation {
            number: 3,
            seal_file: 1,
            token: Identity::default(),
        },
        Edit::Origin {
            below: 6,
            database: 1,
        },
        Edit::KeyspaceSettings {
            keyspace: 2,
            settings: settings(),
        },
    ] {
        assert!(state.clone().apply(&edit).is_err(), "{edit:?}");
    }
    assert!(state.clone().apply(&add(8)).is_ok());
}

#[test]
fn every_edit_has_a_line() {
    for edit in every_edit() {
        let line = crate::inspect::describe(&edit);
        assert!(line.starts_with(edit.name()), "{line}");
    }
    let line = crate::inspect::describe_table(&table(7));
    assert!(line.starts_with("000007 4103 bytes, stamps 7..="), "{line}");
    assert!(
        line.ends_with("7 put, 1 delete, 2 put-expiring, 3 external"),
        "{line}"
    );
}
