//! Rule `layers`: every manifest agrees with the table of layers.
//!
//! Source: the table is `crate::layers`; the reasons are in docs/decisions/0001-shape.md.
//! Also: contract suites are for tests, and packages behind a door are used by the door's owner.
//!
//! Tests: below, each with a planted violation.

use crate::layers::{self, Layer};
use crate::manifest::{Dependency, When};
use crate::report::Report;
use crate::workspace::{Crate, Workspace};

const RULE: &str = "layers";

/// Checks every manifest.
pub(crate) fn check(workspace: &Workspace, report: &mut Report) {
    for found in &workspace.crates {
        match layers::of(&found.name) {
            Some(layer) => check_crate(found, layer, report),
            None => report.find(
                RULE,
                (&found.manifest_path, 0),
                format!("crate `{}` has no row in the table of layers", found.name),
                "add a row to xtask/src/layers.rs and a page to docs/decisions",
            ),
        }
    }
}

fn check_crate(found: &Crate, layer: &Layer, report: &mut Report) {
    if found.manifest.package != layer.package {
        report.find(
            RULE,
            (&found.manifest_path, 0),
            format!("the package is called `{}`", found.manifest.package),
            format!("call it `{}`, as the table of layers does", layer.package),
        );
    }
    for dependency in &found.manifest.dependencies {
        let place = (found.manifest_path.as_str(), dependency.line);
        if let Some(used) = layers::of_package(&dependency.package) {
            check_ours(layer, used, dependency, place, report);
        } else {
            check_outside(layer, dependency, place, report);
        }
    }
}

fn check_ours(
    layer: &Layer,
    used: &Layer,
    dependency: &Dependency,
    place: (&str, usize),
    report: &mut Report,
) {
    let in_tests = dependency.when == When::Tests;
    let allowed = layer.may_use.contains(&used.name)
        || in_tests
            && (used.name == layers::TESTKIT
                || used.name == layer.name
                || layer.tests_may_use.contains(&used.name));
    if !allowed {
        report.find(
            RULE,
            place,
            format!(
                "crate `{}` (layer {}) may not depend on `{}` (layer {}){}",
                layer.name,
                layer.level,
                used.name,
                used.level,
                if in_tests { ", in tests neither" } else { "" }
            ),
            "move the shared word down to `base`, or the code up to where both are known",
        );
    }
    if dependency.contract && !in_tests && layer.name != layers::TESTKIT {
        report.find(
            RULE,
            place,
            format!(
                "the contract suite of `{}` is built into the product",
                used.name
            ),
            "move the `contract` feature to [dev-dependencies]",
        );
    }
}

fn check_outside(
    layer: &Layer,
    dependency: &Dependency,
    place: (&str, usize),
    report: &mut Report,
) {
    let behind = layers::BEHIND_DOORS
        .iter()
        .find(|(package, _)| *package == dependency.package);
    let Some((package, owner)) = behind else {
        return;
    };
    if *owner != layer.name && dependency.when == When::Always {
        report.find(
            RULE,
            place,
            format!("`{package}` stands behind the door of crate `{owner}`"),
            format!("use what `velella_{owner}` offers, or add it there"),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::planted;

    fn findings(name: &str, manifest: &str) -> Vec<String> {
        let mut report = Report::default();
        check(&planted(&[(name, manifest)]), &mut report);
        report.findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_dependency_that_breaks_a_layer_is_found() {
        let found = findings(
            "crates/sst/Cargo.toml",
            "[package]\nname = \"velella-sst\"\n[dependencies]\nvelella-base.workspace = true\n\
             velella-journal.workspace = true\n[dev-dependencies]\nvelella-lsm.workspace = true\n",
        );
        assert_eq!(found.len(), 2, "{found:?}");
        let expected = "crates/sst/Cargo.toml:5: layers: crate `sst` (layer 1) may not depend on \
                        `journal` (layer 1); ";
        assert!(found[0].starts_with(expected), "{found:?}");
        assert!(found[1].contains("in tests neither"), "{found:?}");
    }

    #[test]
    fn the_test_kit_and_contract_suites_are_for_tests_only() {
        let manifest = |section: &str| {
            format!(
                "[package]\nname = \"velella-journal\"\n[{section}]\n\
                 velella-testkit.workspace = true\n\
                 velella-vfs = {{ workspace = true, features = [\"contract\"] }}\n"
            )
        };
        let path = "crates/journal/Cargo.toml";
        assert!(findings(path, &manifest("dev-dependencies")).is_empty());
        assert_eq!(findings(path, &manifest("dependencies")).len(), 2);
    }

    #[test]
    fn what_only_tests_may_use_is_for_tests_only() {
        let manifest = |section: &str| {
            format!("[package]\nname = \"velella-journal\"\n[{section}]\nvelella-mvcc = \"0\"\n")
        };
        let path = "crates/journal/Cargo.toml";
        assert!(findings(path, &manifest("dev-dependencies")).is_empty());
        assert_eq!(findings(path, &manifest("dependencies")).len(), 1);
    }

    #[test]
    fn a_package_behind_a_door_is_used_by_its_owner_only() {
        let locks = "[package]\nname = \"velella-lsm\"\n[dependencies]\nparking_lot = \"0.12\"\n";
        assert_eq!(findings("crates/lsm/Cargo.toml", locks).len(), 1);
        let owner = "[package]\nname = \"velella-sync\"\n[dependencies]\nparking_lot = \"0.12\"\n";
        assert!(findings("crates/sync/Cargo.toml", owner).is_empty());
    }

    #[test]
    fn a_crate_without_a_row_is_found() {
        let found = findings(
            "crates/util/Cargo.toml",
            "[package]\nname = \"velella-util\"\n",
        );
        assert!(found[0].contains("no row"), "{found:?}");
    }
}
