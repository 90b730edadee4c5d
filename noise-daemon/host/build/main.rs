//! Builds the BPF object that the daemon embeds.
//!
//! Needs `rust-src` of the pinned toolchain and `bpf-linker`; `cargo xtask setup` installs both.

mod strip;

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

/// Folder with `bpf-linker`, where it is not on PATH.
const LINKER_DIR: &str = "NOISED_BPF_LINKER_DIR";
/// What the kernel side is built to.
const OBJECTS: [&str; 3] = ["noise-programs", "watch-programs", "empty-programs"];

fn main() -> anyhow::Result<()> {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").context("no CARGO_MANIFEST_DIR")?);
    let root = here.ancestors().nth(2).context("the package is not in the workspace")?;
    for input in ["noise-common/src", "noise-ebpf", "Cargo.lock", "rust-toolchain.toml"] {
        println!("cargo:rerun-if-changed={}", root.join(input).display());
    }
    println!("cargo:rerun-if-env-changed={LINKER_DIR}");

    let linker = find_linker(root);
    let Some(folder) = linker else {
        bail!(
            "bpf-linker is missing; run `cargo xtask setup` once, it installs what the build needs"
        );
    };
    let mut path = vec![folder];
    path.extend(env::split_paths(&env::var_os("PATH").unwrap_or_default()));
    // SAFETY: a build script has one thread.
    unsafe {
        env::set_var("PATH", env::join_paths(path)?);
        // The stable toolchain builds `core` for the BPF target; only that build sees this.
        env::set_var("RUSTC_BOOTSTRAP", "1");
        // aya-build replays each line of that build as a warning of this one.
        env::set_var("CARGO_TERM_QUIET", "true");
        // The programs' type information names files as they are in the repository, not where it lies.
        env::set_var("CARGO_UNSTABLE_TRIM_PATHS", "true");
        env::set_var("CARGO_PROFILE_RELEASE_TRIM_PATHS", "all");
    }

    let toolchain = env::var("RUSTUP_TOOLCHAIN").unwrap_or_else(|_| "stable".to_owned());
    let package = aya_build::Package {
        name: "noise-ebpf",
        root_dir: root
            .join("noise-ebpf")
            .to_str()
            .context("the path is not UTF-8")?
            .to_owned()
            .leak(),
        ..Default::default()
    };
    aya_build::build_ebpf([package], aya_build::Toolchain::Custom(&toolchain))?;
    let out = PathBuf::from(env::var_os("OUT_DIR").context("no OUT_DIR")?);
    OBJECTS.iter().try_for_each(|name| strip::strip(&out.join(name)))
}

fn find_linker(root: &Path) -> Option<PathBuf> {
    let named = env::var_os(LINKER_DIR).map(PathBuf::from);
    let own = root.join("target/tools/bin");
    let on_path = env::split_paths(&env::var_os("PATH")?).collect::<Vec<_>>();
    named.into_iter().chain([own]).chain(on_path).find(|folder| folder.join("bpf-linker").is_file())
}
