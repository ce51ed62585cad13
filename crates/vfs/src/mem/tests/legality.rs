//! Random histories, crashed at random, judged by oracles that know nothing of the model: they
//! only remember, byte by byte and name by name, what was ever legal.

use super::*;
use std::collections::BTreeMap;

const FILE_BYTES: usize = 3000;

/// What a byte may be after a power loss.
#[derive(Clone, Default)]
struct Legal(BTreeSet<u8>);

/// Everything one file may show after a power loss.
struct Oracle {
    now: Vec<u8>,
    bytes: Vec<Legal>,
    lengths: BTreeSet<usize>,
    /// Lengths between two successive ones are legal while the file grows.
    growing: Vec<(usize, usize)>,
}

impl Oracle {
    fn new() -> Oracle {
        let mut oracle = Oracle {
            now: Vec::new(),
            bytes: vec![Legal::default(); FILE_BYTES],
            lengths: BTreeSet::new(),
            growing: Vec::new(),
        };
        oracle.sync();
        oracle
    }

    fn resize(&mut self, len: usize) {
        if len > self.now.len() {
            self.growing.push((self.now.len(), len));
        }
        self.now.resize(len, 0);
        self.lengths.insert(len);
        for legal in &mut self.bytes[len..] {
            legal.0.insert(0);
        }
    }

    fn write(&mut self, offset: usize, bytes: &[u8]) {
        let end = offset + bytes.len();
        if end > self.now.len() {
            self.resize(end);
        }
        self.now[offset..end].copy_from_slice(bytes);
        for (legal, byte) in self.bytes[offset..].iter_mut().zip(bytes) {
            legal.0.insert(*byte);
        }
    }

    fn sync(&mut self) {
        self.lengths = [self.now.len()].into();
        self.growing.clear();
        for (place, legal) in self.bytes.iter_mut().enumerate() {
            legal.0 = [self.now.get(place).copied().unwrap_or(0)].into();
        }
    }

    fn judge(&self, image: &[u8]) {
        let len = image.len();
        let mut growing = self.growing.iter();
        let legal = self.lengths.contains(&len) || growing.any(|&(a, b)| a < len && len < b);
        assert!(legal, "length {len}, legal are {:?}", self.lengths);
        for (place, byte) in image.iter().enumerate() {
            let legal = &self.bytes[place].0;
            assert!(
                legal.contains(byte),
                "{byte} at {place}, legal are {legal:?}"
            );
        }
    }
}

fn index(rng: &mut Rng, bound: usize) -> usize {
    usize::try_from(rng.below(bound as u64)).unwrap()
}

#[test]
fn no_crash_shows_a_byte_or_a_length_that_never_was() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let mut fs = with("file", b"");
        let mut oracle = Oracle::new();
        for step in 0..120u8 {
            let file = fs.open_write(&path("file")).unwrap();
            match rng.below(20) {
                0..12 => {
                    let offset = index(&mut rng, FILE_BYTES - 700);
                    let bytes = vec![step + 1; index(&mut rng, 700)];
                    if !bytes.is_empty() {
                        file.write_at(offset as u64, &bytes).unwrap();
                        oracle.write(offset, &bytes);
                    }
                }
                12..15 => {
                    let len = index(&mut rng, FILE_BYTES);
                    file.set_len(len as u64).unwrap();
                    oracle.resize(len);
                }
                15 | 16 => {
                    file.sync_data().unwrap();
                    oracle.sync();
                }
                17 => {
                    fs = fs.crash(rng.next_u64(), CrashMode::KeepAll);
                }
                18 => {
                    let mode = CrashMode::POWER_LOSSES[index(&mut rng, 3)];
                    fs = fs.crash(rng.next_u64(), mode);
                    let image = fs.read_file(&path("file")).unwrap();
                    oracle.judge(&image);
                    oracle.now = image;
                    oracle.sync();
                }
                _ => {
                    for mode in CrashMode::POWER_LOSSES {
                        let crashed = after(&fs, rng.next_u64(), mode, "file");
                        oracle.judge(&crashed.unwrap());
                    }
                }
            }
            assert_eq!(fs.read_file(&path("file")).unwrap(), oracle.now);
        }
    }
}

#[test]
fn what_a_surviving_cut_took_away_does_not_come_back() {
    let fs = with("file", &[1; 4000]);
    let file = fs.open_write(&path("file")).unwrap();
    file.write_at(900, &[2; 600]).unwrap();
    file.set_len(1000).unwrap();
    file.set_len(3500).unwrap();
    let mut lengths = BTreeSet::new();
    for mode in CrashMode::POWER_LOSSES {
        for image in outcomes(&fs, mode, "file").into_iter().flatten() {
            lengths.insert(image.len());
            // Only the file that was cut has such a length; behind the cut it has zeros.
            if image.len() <= 3500 {
                assert!(image[1000..].iter().all(|&byte| byte == 0), "{image:?}");
            }
        }
    }
    assert!(
        lengths.is_superset(&[1000, 3500, 4000].into()),
        "{lengths:?}"
    );
    file.sync_data().unwrap();
    let image = after(&fs, 0, CrashMode::Strict, "file").unwrap();
    assert_eq!((image.len(), &image[1000..]), (3500, &[0; 2500][..]));
}

/// All files with their content.
fn state(fs: &MemFs) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = fs.files().into_iter();
    files
        .map(|path| (path.clone(), fs.read_file(&path).unwrap()))
        .collect()
}

/// One random change, of any kind, to any of a few files.
fn change(fs: &MemFs, rng: &mut Rng, value: u8) {
    let names = ["a", "b", "c", "d"];
    let first = path(names[index(rng, 4)]);
    let second = path(names[index(rng, 4)]);
    match (rng.below(8), fs.exists(&first).unwrap()) {
        (_, false) => drop(fs.create(&first).unwrap()),
        (0, true) => fs.remove(&first).unwrap(),
        (1, true) => fs.rename(&first, &second).unwrap(),
        (2, true) => drop(fs.hard_link(&first, &second)),
        (3, true) => {
            let file = fs.open_write(&first).unwrap();
            file.set_len(rng.below(1500)).unwrap();
        }
        (_, true) => {
            let file = fs.open_write(&first).unwrap();
            file.write_at(rng.below(1000), &[value; 300]).unwrap();
        }
    }
}

#[test]
fn a_prefix_crash_leaves_the_state_after_some_operation() {
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        let fs = MemFs::new();
        let mut states = BTreeSet::from([BTreeMap::new()]);
        for value in 1..60 {
            change(&fs, &mut rng, value);
            states.insert(state(&fs));
        }
        let mut seen = BTreeSet::new();
        for crash in 0..40 {
            let image = state(&fs.image(crash, CrashMode::Prefix));
            assert!(
                states.contains(&image),
                "seed {seed}, crash {crash}: {image:?}"
            );
            seen.insert(image);
        }
        assert!(seen.len() > 10, "only {} states seen", seen.len());
    }
}

#[test]
fn a_name_leads_to_a_file_it_once_led_to_since_its_directory_was_synced() {
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let fs = MemFs::new();
        let number = |fs: &MemFs, name: &str| fs.identity(&path(name)).map_or(0, |i| i.inode);
        // 0: no file.
        let names = ["a", "b", "c", "d"];
        let mut legal: BTreeMap<_, _> = names.map(|name| (name, BTreeSet::from([0]))).into();
        for value in 0..80 {
            change(&fs, &mut rng, value);
            if rng.below(12) == 0 {
                fs.sync_dir(root()).unwrap();
                legal.clear();
            }
            for name in names {
                let legal = legal.entry(name).or_default();
                legal.insert(number(&fs, name));
            }
            for mode in CrashMode::POWER_LOSSES {
                let image = fs.image(rng.next_u64(), mode);
                for (name, legal) in &legal {
                    let found = number(&image, name);
                    assert!(legal.contains(&found), "{name}: {found}, legal {legal:?}");
                }
            }
        }
    }
}
