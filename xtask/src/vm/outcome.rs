//! What a guest found out, read from what it wrote.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use serde_json::{Value, json};

use super::complaints::Complaints;
use crate::libtest::{Reading, Tally};

/// How a line begins that opens a section, by `scenarios/matrix.sh`.
const SECTION: &str = "@@ ";

/// What `noised check` says of a kernel.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Hooks that are attached, and those that are not, with the reasons.
    pub attached: usize,
    pub absent: Vec<(String, String)>,
    /// Hooks that the kernel has and refused, in its words.
    pub refused: Vec<(String, String)>,
    /// Hooks that only a recording attaches, and that this kernel has not.
    pub recording_absent: Vec<(String, String)>,
    /// Those that it has and refused, in its words.
    pub recording_refused: Vec<(String, String)>,
    /// Signals that are measured, and those that are not, with the reasons.
    pub measured: usize,
    pub unmeasured: Vec<(String, String)>,
}

/// What a guest found out.
#[derive(Debug)]
pub struct Outcome {
    /// Version of the kernel, by its own word.
    pub release: String,
    /// As root, or why that says nothing.
    pub root: Result<Checked, String>,
    /// As nobody with CAP_BPF and CAP_PERFMON.
    pub nobody: Result<Checked, String>,
    /// The live tests.
    pub tests: Tally,
    /// What the kernel leaves to processes without privileges, as `noise-rights` prints it.
    pub rights: Option<Value>,
    /// What the kernel complained of.
    pub complaints: Complaints,
}

impl Outcome {
    /// Reads what the guest wrote, and its console.
    pub fn read(text: &str, console: &str) -> Self {
        let sections = sections(text);
        let of = |name: &str| sections.get(name).map_or("", String::as_str);
        let mut reading = Reading::default();
        reading.feed(of("live").as_bytes());
        let code = sections.keys().find_map(|name| name.strip_prefix("live-exit "));
        // Whoever did not come to its end failed.
        let code = code.and_then(|code| code.parse::<i32>().ok()).unwrap_or(255);
        Self {
            release: of("kernel").trim().to_owned(),
            root: checked(of("check")),
            nobody: checked(of("check-nobody")),
            tests: reading.finish("live", ExitStatus::from_raw(code << 8)),
            rights: json_in(of("rights")),
            complaints: Complaints::among(&[of("log"), console]),
        }
    }

    /// Everything that is not as it should be; nothing where all is well.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        match &self.root {
            Ok(checked) => {
                let refused = checked.refused.iter().chain(&checked.recording_refused);
                faults.extend(refused.map(|(hook, words)| format!("{hook} is refused: {words}")));
            }
            Err(words) => faults.push(format!("noised check: {words}")),
        }
        match (&self.nobody, &self.root) {
            (Err(words), _) => faults.push(format!("noised check without root: {words}")),
            (Ok(nobody), Ok(root)) if nobody != root => {
                faults.push("noised check finds something else without root".to_owned());
            }
            _ => {}
        }
        faults.extend(self.tests.failed.iter().map(|test| format!("test {test}")));
        if self.tests.passed == 0 {
            faults.push("no test passed".to_owned());
        }
        if self.rights.is_none() {
            faults.push("nothing was learnt of processes without privileges".to_owned());
        }
        faults.extend(self.complaints.faults.iter().map(|line| format!("the kernel says {line}")));
        faults
    }

    /// Whether the daemon can go on reading its maps with this much of its privileges, whatever
    /// `kernel.unprivileged_bpf_disabled` says.
    pub fn reads_with(&self, level: &str) -> Option<bool> {
        const NEEDED: [&str; 4] = [
            "look up in an array",
            "look up in a per-CPU hash",
            "look up a batch",
            "next key of a hash",
        ];
        let all = self.rights.as_ref()?.get("allowed")?.as_array()?;
        let mut of_level = all.iter().filter(|entry| entry["level"] == level).peekable();
        of_level.peek()?;
        let is_ok = |entry: &Value| NEEDED.iter().all(|it| entry["operations"][it] == "ok");
        Some(of_level.all(is_ok))
    }

    /// Version of Landlock's interface; `None` where there is none.
    pub fn landlock(&self) -> Option<i64> {
        self.rights.as_ref()?["confinement"]["landlock"]["Ok"].as_i64()
    }

    /// Whether a seccomp filter works.
    pub fn seccomp(&self) -> bool {
        let confinement = self.rights.as_ref().map(|rights| &rights["confinement"]);
        confinement.is_some_and(|confinement| confinement["seccomp"]["Ok"] == true)
    }

    /// For programs.
    pub fn json(&self) -> Value {
        let side = |side: &Result<Checked, String>| match side {
            Ok(checked) => checked.json(),
            Err(words) => json!({"error": words}),
        };
        let skipped = self.tests.skipped.iter();
        json!({
            "release": self.release,
            "root": side(&self.root),
            "nobody_with_cap_bpf_and_cap_perfmon": side(&self.nobody),
            "tests": {
                "passed": self.tests.passed,
                "failed": self.tests.failed,
                "skipped": skipped
                    .map(|it| json!({"test": it.test, "reason": it.reason}))
                    .collect::<Vec<_>>(),
            },
            "rights": self.rights,
            "remarks": self.complaints.remarks,
        })
    }
}

impl Checked {
    /// How many hooks there could be.
    pub fn hooks(&self) -> usize {
        self.attached + self.absent.len() + self.refused.len()
    }

    /// How many signals there could be.
    pub fn signals(&self) -> usize {
        self.measured + self.unmeasured.len()
    }

    fn json(&self) -> Value {
        let pairs = |pairs: &[(String, String)]| -> Value {
            pairs.iter().map(|(name, reason)| (name.clone(), json!(reason))).collect()
        };
        json!({
            "attached": self.attached,
            "absent": pairs(&self.absent),
            "refused": pairs(&self.refused),
            "recording_absent": pairs(&self.recording_absent),
            "recording_refused": pairs(&self.recording_refused),
            "measured": self.measured,
            "unmeasured": pairs(&self.unmeasured),
        })
    }
}

/// The sections of a text, by name.
fn sections(text: &str) -> BTreeMap<String, String> {
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    let mut name = String::new();
    for line in text.lines() {
        match line.strip_prefix(SECTION) {
            Some(next) => {
                next.clone_into(&mut name);
                found.entry(name.clone()).or_default();
            }
            None => {
                let section = found.entry(name.clone()).or_default();
                section.push_str(line);
                section.push('\n');
            }
        }
    }
    found
}

/// The JSON object in a text that may have words around it.
fn json_in(text: &str) -> Option<Value> {
    let (begin, end) = (text.find('{')?, text.rfind('}')?);
    serde_json::from_str(text.get(begin..=end)?).ok()
}

fn checked(text: &str) -> Result<Checked, String> {
    let Some(report) = json_in(text) else {
        let words = text.trim();
        return Err(if words.is_empty() { "it said nothing" } else { words }.to_owned());
    };
    if let Some(error) = report["error"].as_str() {
        return Err(error.to_owned());
    }
    let (Some(hooks), Some(signals)) = (report["hooks"].as_array(), report["signals"].as_array())
    else {
        return Err("its report names no hooks".to_owned());
    };
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let mut checked = Checked::default();
    for hook in report["recording_hooks"].as_array().into_iter().flatten() {
        let reason = (text(hook, "hook"), text(hook, "detail"));
        match hook["state"].as_str() {
            Some("ok") => {}
            Some("absent") => checked.recording_absent.push(reason),
            _ => checked.recording_refused.push(reason),
        }
    }
    for hook in hooks {
        let reason = (text(hook, "hook"), text(hook, "detail"));
        match hook["state"].as_str() {
            Some("ok") => checked.attached += 1,
            Some("absent") => checked.absent.push(reason),
            _ => checked.refused.push(reason),
        }
    }
    for signal in signals {
        match signal["measured"].as_bool() {
            Some(true) => checked.measured += 1,
            _ => checked.unmeasured.push((text(signal, "signal"), text(signal, "reason"))),
        }
    }
    Ok(checked)
}

#[cfg(test)]
mod tests {
    use super::Outcome;

    const CHECK: &str = r#"{"hooks": [{"hook": "a", "state": "ok", "detail": "tp_btf"},
        {"hook": "b", "state": "absent", "detail": "none"}],
        "signals": [{"signal": "s", "measured": true}], "works": true}"#;
    const RIGHTS: &str = r#"{"allowed": [{"level": "nothing", "operations": {"look up in an array":
        "ok", "look up in a per-CPU hash": "EPERM", "look up a batch": "ok", "next key of a hash":
        "ok"}}], "confinement": {"landlock": {"Ok": 2}, "seccomp": {"Ok": true}}}"#;

    const BOOTED: &str = "[    0.000000] Linux version 6.1.0-56\n";

    fn guest(live: &str, code: &str) -> Outcome {
        let rights = RIGHTS.replace('\n', "");
        let text = format!(
            "@@ kernel\n6.1.0-56\n@@ check\n{CHECK}\n@@ check-nobody\n{CHECK}\n@@ live\n{live}\
             @@ live-exit {code}\n@@ rights\n{rights}\n@@ log\n{BOOTED}@@ end\n"
        );
        Outcome::read(&text, BOOTED)
    }

    #[test]
    fn a_guest_is_read() {
        let live = "running 2 tests\ntest a ... ok\ntest b ... ignored (no such disk)\n\
            test result: ok. 1 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out\n";
        let outcome = guest(live, "0");
        assert_eq!(outcome.release, "6.1.0-56");
        let root = outcome.root.as_ref().unwrap();
        assert_eq!((root.attached, root.hooks(), root.measured, root.signals()), (1, 2, 1, 1));
        assert_eq!(outcome.tests.passed, 1);
        assert_eq!(outcome.tests.skipped[0].reason, "no such disk");
        assert_eq!(outcome.reads_with("nothing"), Some(false));
        assert_eq!((outcome.landlock(), outcome.seccomp()), (Some(2), true));
        assert!(outcome.faults().is_empty(), "{:?}", outcome.faults());
    }

    #[test]
    fn complaints_of_the_kernel_are_faults() {
        let text = "@@ log\n[    1.0] BUG: kernel NULL pointer dereference, address: 0\n";
        let faults = Outcome::read(text, "[    2.0] Oops: 0000\n").faults();
        let complaints = faults.iter().filter(|fault| fault.starts_with("the kernel says"));
        assert_eq!(complaints.count(), 2, "{faults:?}");
    }

    #[test]
    fn hooks_of_recordings_are_not_counted_and_may_be_absent() {
        let check = CHECK.replace(
            r#""signals""#,
            r#""recording_hooks": [{"hook": "c", "state": "refused", "detail": "no"},
                {"hook": "d", "state": "absent", "detail": "none"}], "signals""#,
        );
        let outcome = Outcome::read(&format!("@@ check\n{check}\n"), BOOTED);
        let root = outcome.root.as_ref().unwrap();
        assert_eq!(root.hooks(), 2);
        assert_eq!(root.recording_absent, [("d".to_owned(), "none".to_owned())]);
        let faults = outcome.faults();
        assert!(faults.contains(&"c is refused: no".to_owned()), "{faults:?}");
        assert!(!faults.iter().any(|fault| fault.starts_with("d is")), "{faults:?}");
    }

    #[test]
    fn tests_that_broke_off_are_a_fault() {
        let outcome = guest("running 2 tests\ntest a ... ok\n", "137");
        assert!(outcome.faults().iter().any(|fault| fault.contains("broke off")));
    }

    #[test]
    fn a_guest_that_said_nothing_is_at_fault_in_everything() {
        let faults = Outcome::read("", "").faults();
        for word in ["noised check:", "without root:", "no test passed", "nothing was learnt"] {
            assert!(faults.iter().any(|fault| fault.contains(word)), "{word}: {faults:?}");
        }
    }
}
