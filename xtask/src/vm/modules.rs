//! Kernel modules that the guest loads, and what these need, in the order of loading.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::elf::undone;

/// What the guest has devices and queues for. What a kernel has built in, or not at all, is no module
/// of it.
const WANTED: [&str; 11] = [
    "virtio_pci",
    "virtio_blk",
    "nvme",
    "crc32c_generic",
    "ext4",
    "loop",
    "veth",
    "null_blk",
    "sch_netem",
    "sch_tbf",
    "sch_htb",
];

/// A module as it is loaded.
pub struct Module {
    /// Its name, as the kernel shows it.
    pub name: String,
    /// Uncompressed.
    pub bytes: Vec<u8>,
}

/// The modules to load, each behind those that it needs.
pub fn wanted(folder: &Path) -> Result<Vec<Module>> {
    let mut found = BTreeMap::new();
    index(folder, &mut found)?;
    let mut loaded = Vec::new();
    for name in WANTED {
        add(name, &found, &mut loaded)?;
    }
    Ok(loaded)
}

fn add(name: &str, found: &BTreeMap<String, PathBuf>, loaded: &mut Vec<Module>) -> Result<()> {
    let name = name.replace('-', "_");
    let Some(path) = found.get(&name) else { return Ok(()) };
    if loaded.iter().any(|module| module.name == name) {
        return Ok(());
    }
    let bytes = read(path)?;
    for needed in needed(&bytes) {
        add(&needed, found, loaded)?;
    }
    loaded.push(Module { name, bytes });
    Ok(())
}

/// Every module below a folder, by its name.
fn index(folder: &Path, found: &mut BTreeMap<String, PathBuf>) -> Result<()> {
    let doing = || format!("cannot read {}", folder.display());
    for entry in fs::read_dir(folder).with_context(doing)? {
        let entry = entry.with_context(doing)?;
        let (path, kind) = (entry.path(), entry.file_type().with_context(doing)?);
        if kind.is_dir() {
            index(&path, found)?;
        } else if let Some((name, _)) = entry.file_name().to_string_lossy().split_once(".ko") {
            found.insert(name.replace('-', "_"), path);
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("xz") => undone(&bytes, &["xz", "-dc"]),
        Some("zst") => undone(&bytes, &["zstd", "-dc"]),
        Some("gz") => undone(&bytes, &["gzip", "-dc"]),
        _ => Ok(bytes),
    }
}

/// The modules that a module names in its section `.modinfo`: strings that end with a zero.
fn needed(module: &[u8]) -> Vec<String> {
    let mut strings = module.split(|&byte| byte == 0);
    let list = strings.find_map(|string| string.strip_prefix(b"depends=".as_slice()));
    let list = String::from_utf8_lossy(list.unwrap_or_default()).into_owned();
    list.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;

    use super::{add, needed};

    #[test]
    fn dependencies_are_read_from_the_module() {
        assert_eq!(needed(b"\x7fELF\0license=GPL\0depends=a,b-c\0x\0"), ["a", "b-c"]);
        assert!(needed(b"license=GPL\0depends=\0").is_empty());
    }

    #[test]
    fn what_is_needed_is_loaded_first_and_once() -> anyhow::Result<()> {
        let folder = std::env::temp_dir().join(format!("noised-vm-test-{}", std::process::id()));
        fs::create_dir_all(&folder)?;
        let mut found = BTreeMap::new();
        for (name, needs) in [("virtio", ""), ("virtio_ring", "virtio"), ("a", "virtio-ring,none")]
        {
            let path = folder.join(format!("{name}.ko"));
            fs::write(&path, format!("\0depends={needs}\0"))?;
            found.insert(name.to_owned(), path);
        }
        let mut loaded = Vec::new();
        add("a", &found, &mut loaded)?;
        add("virtio", &found, &mut loaded)?;
        fs::remove_dir_all(&folder)?;
        let names: Vec<_> = loaded.iter().map(|module| module.name.as_str()).collect();
        assert_eq!(names, ["virtio", "virtio_ring", "a"]);
        Ok(())
    }
}
