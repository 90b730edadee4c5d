//! Small inputs with known right answers, beside the repository (`../shared/cases`, or the folder that
//! `NOISED_CASES` names): what the program prints for each, and how it ends.

mod ctf;
mod terminal;
mod text;
mod web;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};
use std::{env, fs};

use libtest_mimic::{Arguments, Completion, Failed, Trial};

/// A check of one case.
type Check = fn(&Case) -> Result<(), String>;

/// Each case by the name of its folder.
const CASES: &[(&str, Check)] = &[
    ("clock_tsc", text::clock_tsc),
    ("flush_of_old_kernels", text::flush_of_old_kernels),
    ("latency_format", text::latency_format),
    ("option_fields", text::option_fields),
    ("perf_script", text::perf_script),
    ("request_other_operation", text::request_other_operation),
    ("state_letters_trace_cmd", text::state_letters_trace_cmd),
    ("cpu_in_event_field", ctf::cpu_in_event_field),
    ("ctf2", ctf::ctf2),
    ("metadata_without_stream", ctf::metadata_without_stream),
    ("other_files", ctf::other_files),
    ("packet_end_zero", ctf::packet_end_zero),
    ("rotation_packet_lost", ctf::rotation_packet_lost),
    ("session_chunks", ctf::session_chunks),
    ("text_per_cpu_files", text::text_per_cpu_files),
    ("terminal_dumb", terminal::escapes_stay_away),
    ("certificate_v1", web::certificate_v1),
    ("web_config_of_others", web::web_config_of_others),
];

/// The folder of one case.
struct Case {
    folder: PathBuf,
}

/// What a command printed, and how it ended.
struct Printed {
    stdout: String,
    stderr: String,
    code: Option<i32>,
}

impl Case {
    /// Runs noised in the case's folder.
    fn noised(&self, arguments: &[&str]) -> Result<Printed, String> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_noised"));
        let output = command.args(arguments).current_dir(&self.folder).output();
        output.map(Printed::of).map_err(|error| format!("cannot start noised: {error}"))
    }
}

impl Printed {
    fn of(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let Output { status, stdout, stderr } = output;
        Self { stdout: text(stdout), stderr: text(stderr), code: status.code() }
    }

    /// Its standard output as JSON, where it ended well.
    fn json(&self) -> Result<serde_json::Value, String> {
        match self.code {
            Some(0) => serde_json::from_str(&self.stdout).map_err(|error| error.to_string()),
            code => Err(format!("exit code {code:?}: {}", self.stderr)),
        }
    }
}

fn place() -> PathBuf {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/cases");
    env::var_os("NOISED_CASES").map_or_else(beside, PathBuf::from)
}

fn main() -> ExitCode {
    let trial = |&(name, check): &(&'static str, Check)| {
        Trial::ignorable_test(format!("cases::{name}"), move || {
            let folder = place().join(name);
            match fs::canonicalize(&folder) {
                Ok(folder) => {
                    check(&Case { folder }).map(|()| Completion::Completed).map_err(Failed::from)
                }
                Err(_) => Ok(Completion::ignored_with(format!("there is no {}", folder.display()))),
            }
        })
    };
    let trials = CASES.iter().map(trial).collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
