//! The ELF file inside a compressed kernel image.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Context, Result, bail};

const ELF: &[u8] = b"\x7fELF";

/// Compressions that kernels come in: how the data begins, and what undoes it.
const FORMATS: [(&[u8], &[&str]); 4] = [
    (b"\xfd7zXZ\0", &["xz", "-dc", "--single-stream"]),
    (b"\x28\xb5\x2f\xfd", &["zstd", "-dc"]),
    (b"\x02\x21\x4c\x18", &["lz4", "-dc"]),
    (b"\x1f\x8b\x08", &["gzip", "-dc"]),
];

/// Writes the kernel inside `image` to `kernel`.
pub fn extract(image: &Path, kernel: &Path) -> Result<()> {
    let bytes = fs::read(image).with_context(|| format!("cannot read {}", image.display()))?;
    for (magic, command) in FORMATS {
        for at in places(&bytes, magic) {
            let data = undone(&bytes[at..], command)?;
            if data.starts_with(ELF) {
                return fs::write(kernel, data)
                    .with_context(|| format!("cannot write {}", kernel.display()));
            }
        }
    }
    bail!("{} holds no kernel in a compression that is known here", image.display())
}

fn places<'a>(bytes: &'a [u8], magic: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
    let starts = bytes.windows(magic.len()).enumerate();
    starts.filter(move |(_, window)| *window == magic).map(|(at, _)| at)
}

/// What a command makes of data, however the command ends: behind the data lies more of the image.
pub fn undone(data: &[u8], command: &[&str]) -> Result<Vec<u8>> {
    let [program, arguments @ ..] = command else { bail!("no command") };
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot start {program}, in which this kernel is compressed"))?;
    let input = child.stdin.take();
    let output = thread::scope(|scope| {
        scope.spawn(move || {
            if let Some(mut input) = input {
                // It stops reading at the end of its data.
                let _ = input.write_all(data);
            }
        });
        child.wait_with_output()
    });
    Ok(output.with_context(|| format!("cannot read from {program}"))?.stdout)
}

#[cfg(test)]
mod tests {
    use super::{places, undone};

    #[test]
    fn every_place_is_looked_at() {
        assert_eq!(places(b"ab-ab-a", b"ab").collect::<Vec<_>>(), [0, 3]);
    }

    #[test]
    fn what_a_command_leaves_unread_does_no_harm() -> anyhow::Result<()> {
        let data = vec![b'x'; 1_000_000];
        assert_eq!(undone(&data, &["head", "-c", "3"])?, b"xxx");
        Ok(())
    }
}
