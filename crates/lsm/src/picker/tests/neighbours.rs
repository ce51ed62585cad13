//! Small tables beside each other (P5), and what a full compaction rewrites together.

use super::*;

#[test]
fn a_full_compaction_rewrites_neighbours_together_as_far_as_they_fit() {
    let options = TreeOptions {
        table_bytes: 100,
        ..options()
    };
    let of = |file: u64, bytes| table(file, 10 * file as u8, 10 * file as u8 + 5, bytes);
    let sizes = [30, 30, 40, 1, 500, 20, 20];
    let last = (1..).zip(sizes).map(|(file, bytes)| of(file, bytes));
    let levels = [vec![], last.collect()];
    let shape = shape(&levels);
    let step = |pending: &[u64], taken: &Busy| {
        let pending = pending.iter().copied().collect();
        pick_full(&shape, taken, &pending, &options).map(|choice| choice.upper)
    };
    let free = Busy::default();
    assert_eq!(step(&[1, 2, 3, 4, 5, 6, 7], &free), Some(vec![1, 2, 3]));
    assert_eq!(step(&[4, 5, 6, 7], &free), Some(vec![4]));
    assert_eq!(step(&[5, 6, 7], &free), Some(vec![5]), "alone too large");
    assert_eq!(step(&[1, 3], &free), Some(vec![1]), "it began without 2");
    // Somebody writes between 6 and 7.
    let between = Busy {
        files: HashSet::new(),
        outputs: vec![span_of(&table(9, 66, 69, 1), 1)],
    };
    assert_eq!(step(&[6, 7], &between), Some(vec![6]));
}

#[test]
fn small_neighbours_are_merged_once_they_are_many_and_none_is_most_of_them() {
    let options = TreeOptions {
        table_bytes: 1_600,
        level_bytes: 1 << 20,
        ..options()
    };
    let choice = |sizes: &[u64], below: u64, taken: &[u64]| {
        let level = (1..).zip(sizes);
        let of = |(file, bytes): (u64, &u64)| table(file, 10 * file as u8, 10 * file as u8, *bytes);
        let levels = [
            vec![],
            level.map(of).collect(),
            vec![table(90, 1, 99, below)],
        ];
        let busy = Busy {
            files: taken.iter().copied().collect(),
            outputs: Vec::new(),
        };
        let choice = pick(&shape(&levels), &busy, &options, &now(0))?;
        assert_eq!((choice.level, choice.output.level), (1, 1));
        Some(choice.upper)
    };
    let small = [1; 8];
    assert_eq!(choice(&small, 1, &[]), Some((1..9).collect()));
    assert_eq!(choice(&small[1..], 1, &[]), None, "few");
    assert_eq!(choice(&small, 1, &[4]), None, "one is busy");
    assert_eq!(choice(&[13; 8], 1, &[]), None, "more than a small table");
    assert_eq!(
        choice(&[7, 1, 1, 1, 1, 1, 1, 1], 1, &[]),
        Some((1..9).collect())
    );
    let uneven = [8, 1, 1, 1, 1, 1, 1, 1];
    assert_eq!(
        choice(&uneven, 1, &[]),
        None,
        "the first would be written again for little"
    );
    assert_eq!(
        choice(&small, 16_000, &[]),
        None,
        "they would be parted again"
    );
}

#[test]
fn what_is_small_and_what_fits_goes_by_the_level() {
    let options = TreeOptions {
        table_bytes: 1_600,
        level_bytes: 1 << 20,
        ..options()
    };
    let at = |level: usize, sizes: &[u64], full: bool| {
        let of = |(file, bytes): (u64, &u64)| table(file, 10 * file as u8, 10 * file as u8, *bytes);
        let mut levels = vec![vec![]; level];
        levels.push((1..).zip(sizes).map(of).collect());
        let (shape, free) = (shape(&levels), Busy::default());
        let choice = match full {
            true => pick_full(&shape, &free, &(1..9).collect(), &options),
            false => pick(&shape, &free, &options, &now(0)),
        };
        choice.map_or(0, |choice| choice.upper.len())
    };
    let small = |level, bytes| at(level, &[bytes; 8], false);
    assert_eq!([small(1, 12), small(2, 12), small(2, 13)], [8, 8, 0]);
    assert_eq!([small(3, 25), small(3, 26)], [8, 0]);
    assert_eq!([small(4, 50), small(4, 51), small(5, 50)], [8, 0, 8]);
    let fitting = |level| at(level, &[800; 8], true);
    assert_eq!([1, 2, 3, 4, 5].map(fitting), [2, 2, 4, 8, 8]);
}

#[test]
fn small_tables_that_ascend_stay_few_and_are_written_a_few_times() {
    let (tables, written) = arrive(10_000, 1_000);
    assert!(tables < 40, "{tables} tables");
    assert!(written < 6 * 10_000 * 1_000, "{written} bytes");
    // Larger ones do no harm, and what came between them later would meet much, were they one.
    assert_eq!(arrive(1_000, 1 << 20), (1_000, 0));
}

/// Tables of so many bytes come one after the other, each behind the last one: the most there were
/// at once, and the bytes that merging them wrote.
fn arrive(tables: u64, bytes: u64) -> (usize, u64) {
    let options = TreeOptions {
        level_bytes: 1 << 40,
        ..options()
    };
    let mut levels = [vec![], Vec::new()];
    let (mut written, mut most) = (0, 0);
    let key = |number: u64| number.to_be_bytes().to_vec();
    for number in 0..tables {
        levels[1].push(TableMeta {
            smallest: key(number),
            largest: key(number),
            ..table(number, 0, 0, bytes)
        });
        while let Some(choice) = pick(&shape(&levels), &Busy::default(), &options, &now(0)) {
            let (gone, stay) = std::mem::take(&mut levels[1])
                .into_iter()
                .partition::<Vec<_>, _>(|table| choice.upper.contains(&table.file));
            let bytes = gone.iter().map(|table| table.bytes).sum();
            written += bytes;
            levels[1] = stay;
            levels[1].push(TableMeta {
                smallest: choice.output.smallest,
                largest: choice.output.largest,
                ..table(choice.upper[0], 0, 0, bytes)
            });
            levels[1].sort_by(|a, b| a.smallest.cmp(&b.smallest));
        }
        most = most.max(levels[1].len());
    }
    (most, written)
}
