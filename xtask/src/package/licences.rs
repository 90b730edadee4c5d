//! What of others is linked in, under which terms, and the notices that these require.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::notices::{self, Package};
use super::{output_of, read};
use crate::cargo::{Workspace, program};
use crate::setup;

/// The packages that the program is: the daemon, and the programs for the kernel that are embedded in it.
const ROOTS: [&str; 2] = ["noise-daemon", "noise-ebpf"];

/// What is said of the list of packages.
const HEAD: &str = "\
Linked into noised: name, version, licence, source. The standard library of Rust has a page of its own
beside this one. Where a package may be had under several licences, noised takes it under the one that asks
for least; the texts of all follow as the packages carry them.

";

/// A line for each package that ends up in the program: name, version, licence, where it is from; and
/// below them their texts.
pub fn of_dependencies(workspace: &Workspace) -> Result<String> {
    let target = format!("{}-unknown-linux-musl", env::consts::ARCH);
    let mut command = Command::new(program());
    command.current_dir(&workspace.root).args([
        "metadata",
        "--format-version",
        "1",
        "--locked",
        "--filter-platform",
        &target,
    ]);
    let metadata: Value =
        serde_json::from_slice(&output_of(&mut command)?).context("cargo metadata is not JSON")?;
    let packages = reached(&metadata, &ROOTS)?;
    let carriers: Vec<Package> = packages.iter().map(carrier).collect();
    Ok(format!("{HEAD}{}\n{}", lines(&packages), notices::page(&carriers, &c_library()?)?))
}

/// The notice of musl. The toolchain has it linked in and not beside it, but its own mathematics are
/// musl's as well, and have it.
fn c_library() -> Result<String> {
    const PLACE: &str = "lib/rustlib/src/rust/library/compiler-builtins/libm/LICENSE.txt";
    let text = read(&setup::sysroot()?.join(PLACE))?;
    let text = String::from_utf8(text).context("the notice of musl is no text")?;
    ensure!(text.contains("musl libc"), "{PLACE} does not name musl any more");
    Ok(text)
}

/// The notices of the standard library, as the toolchain has them.
pub fn of_library() -> Result<Vec<u8>> {
    read(&setup::sysroot()?.join("share/doc/rust/COPYRIGHT-library.html"))
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_owned()
}

/// The packages of others that these ones of ours are made of.
fn reached(metadata: &Value, roots: &[&str]) -> Result<Vec<Value>> {
    let packages: BTreeMap<String, Value> = list(&metadata["packages"])
        .into_iter()
        .map(|package| (text(&package, "id"), package))
        .collect();
    let nodes: BTreeMap<String, Value> = list(&metadata["resolve"]["nodes"])
        .into_iter()
        .map(|node| (text(&node, "id"), node))
        .collect();
    let mut left = Vec::new();
    for root in roots {
        let found = packages.iter().find(|(_, package)| text(package, "name") == *root);
        left.push(found.with_context(|| format!("the workspace has no {root}"))?.0.clone());
    }
    let mut reached = BTreeSet::new();
    while let Some(id) = left.pop() {
        if !reached.insert(id.clone()) {
            continue;
        }
        for dependency in nodes.get(&id).map(|node| list(&node["deps"])).unwrap_or_default() {
            // Ordinary ones have no kind; those of tests and build scripts are not linked in.
            if list(&dependency["dep_kinds"]).iter().any(|kind| kind["kind"].is_null()) {
                left.push(text(&dependency, "pkg"));
            }
        }
    }
    // Those without a source are noised's own.
    let found = reached.iter().filter_map(|id| packages.get(id));
    Ok(found.filter(|package| !package["source"].is_null()).cloned().collect())
}

fn lines(packages: &[Value]) -> String {
    let mut page = String::new();
    for package in packages {
        let of = |key: &str| text(package, key);
        let (name, version) = (of("name"), of("version"));
        let _ = writeln!(page, "{name} {version}  {}  {}", of("license"), of("repository"));
    }
    page
}

fn carrier(package: &Value) -> Package {
    let manifest = PathBuf::from(text(package, "manifest_path"));
    let authors: Vec<String> =
        list(&package["authors"]).iter().filter_map(Value::as_str).map(str::to_owned).collect();
    Package {
        name: format!("{} {}", text(package, "name"), text(package, "version")),
        licence: text(package, "license"),
        authors: authors.join(", "),
        folder: manifest.parent().unwrap_or(&manifest).to_path_buf(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{lines, reached};

    #[test]
    fn what_is_linked_in_is_listed_and_nothing_else() -> anyhow::Result<()> {
        let package = |name: &str, source: Option<&str>| {
            json!({"id": name, "name": name, "version": "1.0", "license": "MIT",
                   "repository": "r", "source": source})
        };
        let to =
            |name: &str, kind: Option<&str>| json!({"pkg": name, "dep_kinds": [{"kind": kind}]});
        let metadata = json!({
            "packages": [package("own", None), package("kernel", None), package("a", Some("s")),
                         package("b", Some("s")), package("c", Some("s")),
                         package("tests", Some("s"))],
            "resolve": {"nodes": [
                {"id": "own", "deps": [to("a", None), to("tests", Some("dev"))]},
                {"id": "kernel", "deps": [to("c", None)]},
                {"id": "a", "deps": [to("b", None), to("a", None)]},
            ]},
        });
        let page = lines(&reached(&metadata, &["own", "kernel"])?);
        assert_eq!(page, "a 1.0  MIT  r\nb 1.0  MIT  r\nc 1.0  MIT  r\n");
        assert!(reached(&metadata, &["other"]).is_err());
        Ok(())
    }
}
