//! IO: settings that stand for the whole machine, put back when they are dropped.

use std::path::{Path, PathBuf};

use super::error::TracerError;
use super::tracefs::{has_word, read, write};

/// What is changed of the tracer, in the words of its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The CPUs, as a list.
    pub cpus: String,
    /// Period and runtime, us.
    pub times: Times,
    /// Longest gap, us; 0 = any.
    pub stop_us: u64,
    /// Most noise in a period, us; 0 = any.
    pub stop_total_us: u64,
    /// What is a gap, us.
    pub threshold_us: u64,
    pub preempt_disable: bool,
    pub irq_disable: bool,
}

/// Period and runtime: the kernel does not let the runtime exceed the period at any moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    pub period_us: u64,
    pub runtime_us: u64,
}

/// A change that was made.
#[derive(Debug)]
enum AppliedChange {
    /// A file, and what stood in it.
    File(PathBuf, String),
    /// The folder of the two times, and what stood there.
    Times(PathBuf, Times),
}

/// Changed settings. Dropping them puts everything back.
#[derive(Debug, Default)]
pub struct Settings {
    changes: Vec<AppliedChange>,
}

impl Settings {
    /// Errors: where one cannot be made; those before it are undone.
    pub fn make(root: &Path, wanted: &Wanted) -> Result<Self, TracerError> {
        let folder = root.join("osnoise");
        let mut settings = Self::default();
        settings.options(&folder.join("options"), wanted)?;
        settings.set(&folder.join("cpus"), &wanted.cpus)?;
        settings.times(&folder, wanted.times)?;
        settings.set(&folder.join("stop_tracing_us"), &wanted.stop_us.to_string())?;
        settings.set(&folder.join("stop_tracing_total_us"), &wanted.stop_total_us.to_string())?;
        settings.set(&root.join("tracing_thresh"), &wanted.threshold_us.to_string())?;
        Ok(settings)
    }

    fn set(&mut self, path: &Path, value: &str) -> Result<(), TracerError> {
        let before = read(path)?;
        if before == value {
            return Ok(());
        }
        // Put back even where the kernel took half of it.
        self.changes.push(AppliedChange::File(path.to_owned(), before));
        write(path, value)
    }

    fn times(&mut self, folder: &Path, wanted: Times) -> Result<(), TracerError> {
        let number = |name: &str| -> Result<u64, TracerError> {
            let path = folder.join(name);
            let text = read(&path)?;
            text.parse().map_err(|_| TracerError::File {
                doing: "read",
                reason: std::io::Error::other(format!("`{text}` is no number")),
                path,
            })
        };
        let before = Times { period_us: number("period_us")?, runtime_us: number("runtime_us")? };
        if before != wanted {
            self.changes.push(AppliedChange::Times(folder.to_owned(), before));
            write_times(folder, before, wanted)?;
        }
        Ok(())
    }

    /// One word at a time: the tracer's workload on, no panic, and the options that were given.
    fn options(&mut self, path: &Path, wanted: &Wanted) -> Result<(), TracerError> {
        let now = match read(path) {
            Ok(now) => now,
            Err(TracerError::File { reason, .. })
                if reason.kind() == std::io::ErrorKind::NotFound =>
            {
                String::new()
            }
            Err(error) => return Err(error),
        };
        let options = [
            ("OSNOISE_WORKLOAD", "NO_OSNOISE_WORKLOAD", true, ""),
            ("PANIC_ON_STOP", "NO_PANIC_ON_STOP", false, ""),
            (
                "OSNOISE_PREEMPT_DISABLE",
                "NO_OSNOISE_PREEMPT_DISABLE",
                wanted.preempt_disable,
                "--preempt-disable",
            ),
            ("OSNOISE_IRQ_DISABLE", "NO_OSNOISE_IRQ_DISABLE", wanted.irq_disable, "--irq-disable"),
        ];
        for (on, off, wish, flag) in options {
            let (to, from) = if wish { (on, off) } else { (off, on) };
            if has_word(&now, from) {
                self.changes.push(AppliedChange::File(path.to_owned(), from.to_owned()));
                write(path, to)?;
            } else if !has_word(&now, to) && !flag.is_empty() && wish {
                return Err(TracerError::NoOption { option: on, flag });
            }
        }
        Ok(())
    }

    /// Puts everything back, the last change first, however many cannot be undone.
    /// Errors: the first that could not.
    pub fn put_back(&mut self) -> Result<(), TracerError> {
        let mut failed = Ok(());
        while let Some(change) = self.changes.pop() {
            let undone = match change {
                AppliedChange::File(path, before) => write(&path, &before),
                AppliedChange::Times(folder, before) => put_back_times(&folder, before),
            };
            failed = failed.and(undone);
        }
        failed
    }
}

impl Drop for Settings {
    fn drop(&mut self) {
        // A caller that can report errors has put it back before.
        let _ = self.put_back();
    }
}

fn write_times(folder: &Path, now: Times, wanted: Times) -> Result<(), TracerError> {
    let period = || write(&folder.join("period_us"), &wanted.period_us.to_string());
    let runtime = || write(&folder.join("runtime_us"), &wanted.runtime_us.to_string());
    if wanted.period_us >= now.runtime_us {
        period()?;
        runtime()
    } else {
        runtime()?;
        period()
    }
}

fn put_back_times(folder: &Path, before: Times) -> Result<(), TracerError> {
    let now = read(&folder.join("runtime_us"))?.parse().unwrap_or(u64::MAX);
    write_times(folder, Times { period_us: now, runtime_us: now }, before)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const FILES: [(&str, &str); 6] = [
        ("osnoise/cpus", "0-3"),
        ("osnoise/period_us", "1000000"),
        ("osnoise/runtime_us", "900000"),
        ("osnoise/stop_tracing_us", "0"),
        ("osnoise/stop_tracing_total_us", "5"),
        ("tracing_thresh", "0"),
    ];

    fn fixture() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("osnoise")).unwrap();
        for (name, value) in FILES {
            fs::write(root.path().join(name), format!("{value}\n")).unwrap();
        }
        root
    }

    fn values(root: &Path) -> Vec<String> {
        FILES.iter().map(|(name, _)| read(&root.join(name)).unwrap()).collect()
    }

    fn wanted() -> Wanted {
        Wanted {
            cpus: "1".to_owned(),
            times: Times { period_us: 500, runtime_us: 400 },
            stop_us: 7,
            stop_total_us: 0,
            threshold_us: 5,
            preempt_disable: false,
            irq_disable: false,
        }
    }

    #[test]
    fn what_is_changed_is_put_back() {
        let root = fixture();
        let before = values(root.path());
        let settings = Settings::make(root.path(), &wanted()).unwrap();
        assert_eq!(values(root.path()), ["1", "500", "400", "7", "0", "5"]);
        drop(settings);
        assert_eq!(values(root.path()), before);
    }

    #[test]
    fn what_was_changed_before_an_error_is_put_back() {
        let root = fixture();
        let before = values(root.path());
        fs::remove_file(root.path().join("tracing_thresh")).unwrap();
        let error = Settings::make(root.path(), &wanted()).unwrap_err().to_string();
        assert!(error.starts_with("cannot read ") && error.contains("tracing_thresh"), "{error}");
        fs::write(root.path().join("tracing_thresh"), "0\n").unwrap();
        assert_eq!(values(root.path()), before);
    }

    #[test]
    fn options_are_changed_one_word_at_a_time() {
        let root = fixture();
        let options = root.path().join("osnoise/options");
        let now = "NO_DEFAULTS OSNOISE_WORKLOAD NO_PANIC_ON_STOP NO_OSNOISE_PREEMPT_DISABLE \
                   NO_OSNOISE_IRQ_DISABLE";
        fs::write(&options, now).unwrap();
        let wish = Wanted { irq_disable: true, ..wanted() };
        let settings = Settings::make(root.path(), &wish).unwrap();
        // Here the file holds what was written last; the kernel's goes on listing all.
        assert_eq!(read(&options).unwrap(), "OSNOISE_IRQ_DISABLE");
        drop(settings);
        assert_eq!(read(&options).unwrap(), "NO_OSNOISE_IRQ_DISABLE");
    }

    #[test]
    fn an_option_that_the_kernel_lacks_is_refused_only_if_it_is_wanted() {
        let root = fixture();
        let before = values(root.path());
        assert!(Settings::make(root.path(), &wanted()).is_ok());
        let wish = Wanted { preempt_disable: true, ..wanted() };
        let error = Settings::make(root.path(), &wish).unwrap_err();
        assert!(error.is_unsupported());
        assert_eq!(
            error.to_string(),
            "this kernel's osnoise tracer has no OSNOISE_PREEMPT_DISABLE: leave --preempt-disable \
             out, or use a newer kernel"
        );
        assert_eq!(values(root.path()), before);
    }
}
