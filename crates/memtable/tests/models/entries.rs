//! Where keys are looked for and where they are put: guards, entries and their splits.

use super::*;

/// Two threads insert, one key both, into a list whose guard directory is renewed in between, and
/// a third searches it: everything is found, and in order.
pub(crate) const GUARDED: Model = Model {
    before: |world| {
        for key in [b"b", b"d", b"f", b"h", b"j"] {
            world.put(2, key, b"0");
        }
    },
    roles: &[
        |world| {
            for key in [b"e", b"g", b"k", b"l"] {
                world.put(0, key, b"1");
            }
        },
        |world| {
            for key in [b"k", b"i", b"c", b"a"] {
                world.put(1, key, b"1");
            }
        },
        |world| {
            let stamp = world.clock.observe();
            for key in [b"b", b"d", b"f", b"h", b"j"] {
                let mut cursor = world.visible(at(stamp));
                cursor.seek(key, Stamp::MAX).unwrap();
                assert_eq!(row(&*cursor).unwrap().0, key, "a search missed its key");
                cursor.seek_before(&[key[0] + 1]).unwrap();
                assert_eq!(row(&*cursor).unwrap().0, key, "a search missed its key");
            }
        },
    ],
    after: |world| {
        let rows = roles::both_ways(world, world.visible(at(world.clock.observe())), None);
        assert_eq!(
            rows.len(),
            12,
            "a key was lost, or is there twice: {rows:?}"
        );
    },
};

/// Two threads put different keys into one entry, which has room for one of them.
pub(crate) const ONE_ENTRY: Model = Model {
    before: |world| {
        world.put(0, b"b", b"0");
    },
    roles: &[
        |world| {
            world.put(0, b"a", b"1");
        },
        |world| {
            world.put(1, b"c", b"1");
        },
    ],
    after: |world| {
        let rows = roles::both_ways(world, world.visible(NEWEST), None);
        let keys: Vec<&[u8]> = rows.iter().map(|row| &row.0[..]).collect();
        assert_eq!(keys, [b"a", b"b", b"c"], "a key was lost");
    },
};

/// Two threads split one full entry, to put the same key into it.
pub(crate) const TWO_SPLITS: Model = Model {
    before: |world| {
        world.put(0, b"b", b"0");
        world.put(0, b"d", b"0");
    },
    roles: &[
        |world| {
            world.put(0, b"c", b"1");
        },
        |world| {
            world.put(1, b"c", b"2");
        },
    ],
    after: |world| {
        let mut cursor = world.visible(NEWEST);
        cursor.seek_first().unwrap();
        let keys: Vec<Vec<u8>> = rest(&mut *cursor).into_iter().map(|row| row.0).collect();
        assert_eq!(
            keys,
            [b"b", b"c", b"d"],
            "a key was lost, or is there twice"
        );
        assert_eq!(all(world).len(), 4, "a version was lost");
        assert!(world.get(b"d", NEWEST).is_some(), "a key was lost");
    },
};

/// A full entry is split under searches for what it held, and a cursor over it.
pub(crate) const SPLIT_VS_SEARCH: Model = Model {
    before: TWO_SPLITS.before,
    roles: &[
        |world| {
            world.put(0, b"c", b"1");
        },
        |world| {
            for key in [b"d", b"b"] {
                let found = world.get(key, NEWEST);
                assert!(found.is_some(), "a key moved away from under a search");
            }
            let mut cursor = world.visible(at(Stamp(2)));
            cursor.seek_first().unwrap();
            let keys: Vec<Vec<u8>> = rest(&mut *cursor).into_iter().map(|row| row.0).collect();
            assert_eq!(keys, [b"b", b"d"], "s3: a scan met a split");
        },
    ],
    after: nothing,
};
