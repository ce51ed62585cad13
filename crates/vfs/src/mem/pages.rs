//! A file's bytes in pages that copies share until one of them changes.
//!
//! G1. A copy of a file costs a pointer per page, and a page that was never written no memory:
//!     journals fill their files with zeros, and a crash copies all of them.
//! G2. Behind the end of the file its last page holds zeros.
//!
//! Tests: below, and those of the file system.

use crate::mem::sector::{SECTOR, Sector};
use std::sync::Arc;

const PAGE: usize = 4096;

type Page = [u8; PAGE];
static ZEROS: Page = [0; PAGE];

/// The bytes of a file.
#[derive(Clone, Default)]
pub(super) struct Pages {
    /// `None`: zeros.
    pages: Vec<Option<Arc<Page>>>,
    len: usize,
}

impl Pages {
    /// A file of these bytes.
    pub(super) fn of(bytes: &[u8]) -> Pages {
        let mut pages = Pages::default();
        pages.resize(bytes.len());
        pages.write(0, bytes);
        pages
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Fills `buffer` from `offset`; whether the file reaches that far.
    pub(super) fn read(&self, offset: usize, buffer: &mut [u8]) -> bool {
        let end = offset.checked_add(buffer.len());
        if end.is_none_or(|end| end > self.len) {
            return false;
        }
        let (mut offset, mut rest) = (offset, buffer);
        while !rest.is_empty() {
            let from = &self.page(offset)[offset % PAGE..];
            let (now, later) = rest.split_at_mut(rest.len().min(from.len()));
            now.copy_from_slice(&from[..now.len()]);
            (offset, rest) = (offset + now.len(), later);
        }
        true
    }

    /// All bytes.
    pub(super) fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len];
        self.read(0, &mut bytes);
        bytes
    }

    /// Cuts or extends by zeros.
    pub(super) fn resize(&mut self, len: usize) {
        if len < self.len
            && !len.is_multiple_of(PAGE)
            && let Some(page) = &mut self.pages[len / PAGE]
        {
            Arc::make_mut(page)[len % PAGE..].fill(0);
        }
        self.pages.resize(len.div_ceil(PAGE), None);
        self.len = len;
    }

    /// Stores `bytes` at `offset`; the file is as long already.
    pub(super) fn write(&mut self, offset: usize, bytes: &[u8]) {
        let (mut offset, mut rest) = (offset, bytes);
        while !rest.is_empty() {
            let within = offset % PAGE;
            let (now, later) = rest.split_at(rest.len().min(PAGE - within));
            let page = &mut self.pages[offset / PAGE];
            if page.is_some() || !Pages::are_zeros(now) {
                let page = page.get_or_insert_with(|| Arc::new(ZEROS));
                Arc::make_mut(page)[within..][..now.len()].copy_from_slice(now);
            }
            (offset, rest) = (offset + now.len(), later);
        }
    }

    /// A sector, with zeros behind the end.
    pub(super) fn sector(&self, number: usize) -> &Sector {
        let begin = number * SECTOR;
        let page = self.page(begin);
        let sector = page[begin % PAGE..].first_chunk();
        sector.expect("a page consists of whole sectors")
    }

    /// Stores a sector, except what lies behind the end.
    pub(super) fn put_sector(&mut self, number: usize, bytes: &Sector) {
        let begin = (number * SECTOR).min(self.len);
        let end = self.len.min(begin + SECTOR);
        self.write(begin, &bytes[..end - begin]);
    }

    /// How many bytes from `offset` on, within its page, were never anything but zeros.
    pub(super) fn hole(&self, offset: usize) -> usize {
        match self.pages.get(offset / PAGE) {
            Some(Some(_)) => 0,
            _ => PAGE - offset % PAGE,
        }
    }

    /// Whether these are zeros, at most a page of them.
    pub(super) fn are_zeros(bytes: &[u8]) -> bool {
        ZEROS.get(..bytes.len()) == Some(bytes)
    }

    /// The page that holds this byte; zeros behind the end.
    fn page(&self, offset: usize) -> &Page {
        let page = self.pages.get(offset / PAGE).and_then(Option::as_ref);
        page.map_or(&ZEROS, |page| page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use velella_sync::rng::Rng;

    #[test]
    fn it_holds_what_a_vector_holds_and_so_does_an_older_copy() {
        for seed in 0..50 {
            let mut rng = Rng::new(seed);
            let mut below = |bound: usize| usize::try_from(rng.below(bound as u64)).unwrap();
            let (mut pages, mut bytes) = (Pages::default(), Vec::new());
            let mut copies = Vec::new();
            for step in 0..60u8 {
                match below(4) {
                    0 => {
                        let len = below(5 * PAGE);
                        pages.resize(len);
                        bytes.resize(len, 0);
                    }
                    1 => copies.push((pages.clone(), bytes.clone())),
                    _ if bytes.is_empty() => {}
                    _ => {
                        let at = below(bytes.len());
                        let new = vec![step % 3; below(bytes.len() - at)];
                        pages.write(at, &new);
                        bytes[at..at + new.len()].copy_from_slice(&new);
                    }
                }
                copies.push((pages.clone(), bytes.clone()));
            }
            for (pages, bytes) in copies {
                assert_eq!(pages.to_vec(), bytes);
                let mut padded = bytes.clone();
                padded.resize(bytes.len().next_multiple_of(SECTOR) + SECTOR, 0);
                for (number, sector) in padded.chunks(SECTOR).enumerate() {
                    assert_eq!(pages.sector(number)[..], *sector);
                }
                assert!(!pages.read(bytes.len(), &mut [0]));
            }
        }
    }

    #[test]
    fn zeros_take_no_memory() {
        let mut pages = Pages::default();
        pages.resize(100 * PAGE);
        pages.write(5, &[0; 50 * PAGE]);
        assert!(pages.pages.iter().all(Option::is_none));
    }
}
