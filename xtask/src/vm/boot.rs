//! QEMU: boots a kernel and reads from its console how the script ended.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// A guest that takes longer hangs. Emulation on a busy machine is slow.
const LONGEST: Duration = Duration::from_secs(900);
const LOOK: Duration = Duration::from_millis(200);
/// How the last line of the console begins, by `init.sh`.
const EXIT: &str = "noised-vm: exit ";

/// Boots, waits for the guest's end and prints its console; an error where the script failed.
pub fn boot(kernel: &Path, initramfs: &Path, console: &Path) -> Result<()> {
    let mut append = "console=ttyS0 panic=-1 quiet no_timer_check".to_owned();
    if let Some(khz) = tsc_khz() {
        append.push_str(&format!(" tsc_early_khz={khz}"));
    }
    // Never with KVM: where it is nested it may be there and not work.
    let mut child = Command::new("nice")
        .args(["-n", "19", "qemu-system-x86_64", "-nodefaults", "-no-user-config"])
        .args(["-display", "none", "-no-reboot", "-monitor", "none", "-machine", "q35"])
        .args(["-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", "768"])
        .arg("-serial")
        .arg(format!("file:{}", console.display()))
        .args(["-serial", "null", "-append", &append])
        .arg("-kernel")
        .arg(kernel)
        .arg("-initrd")
        .arg(initramfs)
        .stdin(Stdio::null())
        .spawn()
        .context("cannot start qemu-system-x86_64 (Debian: apt-get install qemu-system-x86)")?;
    let begin = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().context("cannot wait for QEMU")? {
            break Some(status);
        }
        if begin.elapsed() > LONGEST {
            child.kill().context("cannot end QEMU")?;
            child.wait().context("cannot wait for QEMU")?;
            break None;
        }
        thread::sleep(LOOK);
    };
    let said = fs::read(console).with_context(|| format!("cannot read {}", console.display()))?;
    let said = String::from_utf8_lossy(&said).replace('\r', "");
    print!("{said}");
    match (exit_of(&said), status) {
        (Some("0"), _) => Ok(()),
        (Some(code), _) => bail!("the script ended with {code}"),
        (None, None) => bail!("the guest did not end within {LONGEST:?}"),
        (None, Some(status)) => bail!("the guest ended ({status}) before its script"),
    }
}

/// How the script ended, as the console says.
fn exit_of(console: &str) -> Option<&str> {
    console.lines().rev().find_map(|line| line.strip_prefix(EXIT))
}

/// The rate of this machine's clock counter, which a busy host lets the guest measure wrong.
fn tsc_khz() -> Option<String> {
    let output = Command::new("dmesg").stderr(Stdio::null()).output().ok()?;
    khz_in(&String::from_utf8_lossy(&output.stdout))
}

/// `tsc: Detected 2596.122 MHz processor`.
fn khz_in(messages: &str) -> Option<String> {
    let (_, rest) = messages.split_once("tsc: Detected ")?;
    let (megahertz, _) = rest.split_once(" MHz")?;
    let (whole, thousandths) = megahertz.split_once('.')?;
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let fits = digits(whole) && digits(thousandths) && thousandths.len() == 3;
    fits.then(|| format!("{whole}{thousandths}"))
}

#[cfg(test)]
mod tests {
    use super::{exit_of, khz_in};

    #[test]
    fn the_script_ends_as_its_last_line_says() {
        assert_eq!(exit_of("a\nnoised-vm: exit 3\n[ 9.1] reboot: Power down\n"), Some("3"));
        assert_eq!(exit_of("Kernel panic\n"), None);
    }

    #[test]
    fn the_rate_is_read_from_the_kernels_messages() {
        let line = "[    0.000058] tsc: Detected 2596.122 MHz processor\n";
        assert_eq!(khz_in(line).as_deref(), Some("2596122"));
        assert_eq!(khz_in("tsc: Detected odd MHz"), None);
    }
}
