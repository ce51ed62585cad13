//! The workspace as the rules see it: its crates with their sources, its documents, all its paths.
//!
//! Read once, then only looked at; so a rule is a function of a `Workspace`, and its tests hand it
//! one made of strings.
//!
//! Tests: beside each rule.

use crate::manifest::{self, Manifest};
use crate::source::Source;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// One crate of the workspace.
#[derive(Debug)]
pub(crate) struct Crate {
    /// Directory name below `crates/`, or `xtask`.
    pub(crate) name: String,
    /// Path of its manifest from the root.
    pub(crate) manifest_path: String,
    pub(crate) manifest: Manifest,
    pub(crate) sources: Vec<Source>,
}

impl Crate {
    /// The source at `inner`, a path in the crate's directory.
    pub(crate) fn source(&self, inner: &str) -> Option<&Source> {
        self.sources.iter().find(|source| source.inner == inner)
    }
}

/// Everything that `tidy` looks at.
#[derive(Debug, Default)]
pub(crate) struct Workspace {
    pub(crate) crates: Vec<Crate>,
    /// Path -> text of every Markdown file.
    pub(crate) documents: BTreeMap<String, String>,
    /// Every file and directory, from the root, with `/`.
    pub(crate) paths: BTreeSet<String>,
    /// Path -> text of every Rust file, in and outside crates.
    pub(crate) rust: BTreeMap<String, String>,
}

impl Workspace {
    /// Reads the workspace below `root`; skips hidden directories (but `.ci`) and build output.
    pub(crate) fn load(root: &Path) -> std::io::Result<Self> {
        let mut files = Vec::new();
        walk(root, "", &mut files)?;
        Ok(Workspace::of(files))
    }

    /// A workspace of `(path, text)` pairs.
    pub(crate) fn of(files: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut workspace = Workspace::default();
        let mut manifests = BTreeMap::new();
        for (path, text) in files {
            let mut parent = path.as_str();
            while let Some((directory, _)) = parent.rsplit_once('/') {
                workspace.paths.insert(directory.to_owned());
                parent = directory;
            }
            workspace.paths.insert(path.clone());
            if path.ends_with(".md") {
                workspace.documents.insert(path, text);
            } else if path.ends_with(".rs") {
                workspace.rust.insert(path, text);
            // The fuzzers' binaries are a workspace of their own, on another toolchain.
            } else if path.ends_with("/Cargo.toml") && path != "fuzz/Cargo.toml" {
                manifests.insert(path, text);
            }
        }
        for (manifest_path, text) in manifests {
            let directory = manifest_path.trim_end_matches("/Cargo.toml");
            let found = read_crate(directory, &manifest_path, &text, &workspace.rust);
            workspace.crates.push(found);
        }
        workspace
    }

    /// All sources of all crates.
    pub(crate) fn sources(&self) -> impl Iterator<Item = &Source> {
        self.crates.iter().flat_map(|found| &found.sources)
    }
}

fn read_crate(
    directory: &str,
    manifest_path: &str,
    text: &str,
    rust: &BTreeMap<String, String>,
) -> Crate {
    let name = directory.rsplit('/').next().unwrap_or(directory);
    let below = format!("{directory}/");
    let sources = rust
        .iter()
        .filter_map(|(path, text)| {
            let inner = path.strip_prefix(&below)?;
            Some(Source::new(path, name, inner, text))
        })
        .collect();
    Crate {
        name: name.to_owned(),
        manifest_path: manifest_path.to_owned(),
        manifest: manifest::parse(text),
        sources,
    }
}

/// Collects the files below `root/relative`; only texts that a rule reads are loaded.
fn walk(root: &Path, relative: &str, files: &mut Vec<(String, String)>) -> std::io::Result<()> {
    let mut entries = std::fs::read_dir(root.join(relative))?.collect::<Result<Vec<_>, _>>()?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = match relative {
            "" => name.clone(),
            _ => format!("{relative}/{name}"),
        };
        if entry.file_type()?.is_dir() {
            let hidden = name.starts_with('.') && name != ".ci";
            if !hidden && name != "target" && name != "velella-data" {
                walk(root, &path, files)?;
            }
            continue;
        }
        let read = [".md", ".rs", ".toml"]
            .iter()
            .any(|end| name.ends_with(end));
        let text = match read {
            true => std::fs::read_to_string(entry.path())?,
            false => String::new(),
        };
        files.push((path, text));
    }
    Ok(())
}

/// A workspace for the tests of a rule.
#[cfg(test)]
pub(crate) fn planted(files: &[(&str, &str)]) -> Workspace {
    let owned = files
        .iter()
        .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
    Workspace::of(owned)
}
