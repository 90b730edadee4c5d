//! IO: tracefs, rooted at a path.

#![allow(clippy::disallowed_methods, reason = "files of tracefs want to be read in one piece")]

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use noise_text::clean::as_text;

use super::error::TracerError;

/// Where tracefs is mounted.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// Tracers that cannot run beside osnoise.
const RIVALS: [&str; 2] = ["osnoise", "timerlat"];
/// The first part of the names of our instances; the rest is the pid.
const OURS: &str = "noised-";

/// A tracefs with the osnoise tracer in it.
#[derive(Clone, Debug)]
pub struct Tracefs {
    root: PathBuf,
}

/// Room for what a file of settings holds.
const ROOM: usize = 64 * 1024;

/// Reads a file, without white space around it.
/// Errors name the file.
pub fn read(path: &Path) -> Result<String, TracerError> {
    // The kernel's file of CPUs refuses to be read in pieces.
    let whole = || {
        let mut bytes = vec![0; ROOM];
        let mut file = fs::File::open(path)?;
        let mut length = 0;
        loop {
            match file.read(&mut bytes[length..])? {
                0 => break,
                more => length += more,
            }
        }
        bytes.truncate(length);
        Ok(as_text(&bytes).trim().to_owned())
    };
    whole().map_err(|reason| TracerError::File { doing: "read", path: path.to_owned(), reason })
}

/// Errors name the file.
pub fn write(path: &Path, text: &str) -> Result<(), TracerError> {
    let doing = "write to";
    fs::write(path, format!("{text}\n")).map_err(|reason| TracerError::File {
        doing,
        path: path.to_owned(),
        reason,
    })
}

impl Tracefs {
    /// Finds it where it is mounted.
    /// Errors: where there is none, or it is out of reach, or without the tracer.
    pub fn find() -> Result<Self, TracerError> {
        let mut refused = TracerError::NotMounted(PathBuf::from(PLACES[0]));
        for place in PLACES {
            match Self::at(Path::new(place)) {
                Err(TracerError::NotMounted(_)) => {}
                Err(error @ TracerError::Forbidden(_)) => refused = error,
                found => return found,
            }
        }
        Err(refused)
    }

    /// Looks at a path.
    /// Errors: those of [`Tracefs::find`].
    pub fn at(root: &Path) -> Result<Self, TracerError> {
        let tracers = match read(&root.join("available_tracers")) {
            Ok(tracers) => tracers,
            Err(TracerError::File { reason, .. }) => {
                return Err(match reason.kind() {
                    io::ErrorKind::PermissionDenied => TracerError::Forbidden(root.to_owned()),
                    _ => TracerError::NotMounted(root.to_owned()),
                });
            }
            Err(error) => return Err(error),
        };
        if !has_word(&tracers, "osnoise") {
            return Err(TracerError::Absent);
        }
        Ok(Self { root: root.to_owned() })
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A name for an instance of this process.
    pub fn own_instance(&self) -> PathBuf {
        self.root.join(format!("instances/{OURS}{}", std::process::id()))
    }

    /// Makes sure that no other program uses the tracer.
    /// Errors name who does.
    pub fn ensure_free(&self, procfs: &Path) -> Result<(), TracerError> {
        let mut places = vec![self.root.clone()];
        let instances = fs::read_dir(self.root.join("instances"));
        places.extend(instances.into_iter().flatten().flatten().map(|entry| entry.path()));
        places.sort();
        for place in places {
            // An instance that has just gone is not in use.
            let Ok(tracer) = read(&place.join("current_tracer")) else { continue };
            if RIVALS.contains(&tracer.as_str()) {
                let name = place.file_name().unwrap_or_default().to_string_lossy();
                let dead = name.strip_prefix(OURS).is_some_and(|pid| !procfs.join(pid).exists());
                let hint = if dead {
                    format!(
                        "it was left by a noised that was killed; remove it (rmdir {})",
                        place.display()
                    )
                } else {
                    "wait for it to end, or measure with `--backend noised`".to_owned()
                };
                return Err(TracerError::Busy { tracer, place, hint });
            }
        }
        Ok(())
    }
}

/// Whether a list that is separated by white space has a word.
pub fn has_word(text: &str, word: &str) -> bool {
    text.split_ascii_whitespace().any(|own| own == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixture(tracers: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("instances/other")).unwrap();
        fs::write(root.path().join("available_tracers"), tracers).unwrap();
        fs::write(root.path().join("current_tracer"), "nop\n").unwrap();
        fs::write(root.path().join("instances/other/current_tracer"), "function\n").unwrap();
        root
    }

    #[test]
    fn a_kernel_without_the_tracer_is_reported_so() {
        let root = fixture("timerlat_not_osnoise function nop\n");
        let error = Tracefs::at(root.path()).unwrap_err();
        assert!(error.is_unsupported());
        assert_eq!(
            error.to_string(),
            "this kernel has no osnoise tracer (it is built without CONFIG_OSNOISE_TRACER): measure \
             with `--backend noised`, which works on any kernel"
        );
        let error = Tracefs::at(&root.path().join("nothing")).unwrap_err();
        assert!(matches!(error, TracerError::NotMounted(_)) && error.is_unsupported());
    }

    #[test]
    fn others_are_not_disturbed() {
        let root = fixture("timerlat osnoise nop\n");
        let tracefs = Tracefs::at(root.path()).unwrap();
        let procfs = tempfile::tempdir().unwrap();
        assert!(tracefs.ensure_free(procfs.path()).is_ok());

        let other = root.path().join("instances/other/current_tracer");
        fs::write(&other, "timerlat\n").unwrap();
        let error = tracefs.ensure_free(procfs.path()).unwrap_err();
        assert!(!error.is_unsupported());
        let text = error.to_string();
        assert!(text.starts_with("the timerlat tracer is in use at ") && text.contains("other"));
        fs::write(&other, "nop\n").unwrap();

        let left = root.path().join("instances/noised-77");
        fs::create_dir(&left).unwrap();
        fs::write(left.join("current_tracer"), "osnoise\n").unwrap();
        let text = tracefs.ensure_free(procfs.path()).unwrap_err().to_string();
        assert!(text.contains("left by a noised that was killed"), "{text}");
        fs::create_dir(procfs.path().join("77")).unwrap();
        let text = tracefs.ensure_free(procfs.path()).unwrap_err().to_string();
        assert!(text.contains("wait for it to end"), "{text}");
    }
}
