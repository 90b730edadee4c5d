//! What a terminal that obeys no escape sequences is shown.

use std::fs::{self, File};
use std::io::Read as _;
use std::process::{Command, Stdio};

use nix::pty::{Winsize, openpty};
use noise_wire::Recorder;
use noise_wire::sampled::{host, small};

use crate::Case;

/// Threads that take turns on a CPU, as ftrace prints them.
const TEXT: &str = "# tracer: nop
          <idle>-0       [000] d..2.   100.000000: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=web next_pid=70 next_prio=120
             web-70      [000] d..2.   100.010000: sched_switch: prev_comm=web prev_pid=70 prev_prio=120 prev_state=R ==> next_comm=gzip next_pid=80 next_prio=120
            gzip-80      [000] d..2.   100.020000: sched_switch: prev_comm=gzip prev_pid=80 prev_prio=120 prev_state=S ==> next_comm=web next_pid=70 next_prio=120
             web-70      [000] d..2.   100.030000: sched_switch: prev_comm=web prev_pid=70 prev_prio=120 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120
";

/// What a command prints on a terminal that `TERM` calls so, and its exit code.
fn shown(arguments: &[&str], term: Option<&str>) -> Result<(String, Option<i32>), String> {
    let size = Winsize { ws_row: 40, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };
    let pty = openpty(&size, None).map_err(|error| format!("no terminal: {error}"))?;
    let stdio = || pty.slave.try_clone().map(Stdio::from).map_err(|error| error.to_string());
    let mut command = Command::new(env!("CARGO_BIN_EXE_noised"));
    command.args(arguments).stdin(stdio()?).stdout(stdio()?).stderr(stdio()?);
    // Where a build runs, libraries take it that colours are shown.
    command.env_remove("TERM").env_remove("NO_COLOR").env("CI", "true");
    command.envs(term.map(|term| ("TERM", term)));
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    drop(command);
    drop(pty.slave);
    let mut bytes = Vec::new();
    // Ends with an error once no process has the terminal any more.
    let _ = File::from(pty.master).read_to_end(&mut bytes);
    let status = child.wait().map_err(|error| error.to_string())?;
    Ok((String::from_utf8_lossy(&bytes).into_owned(), status.code()))
}

/// Commands whose pages have colours or a line of progress, and no others.
pub fn escapes_stay_away(_: &Case) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let recording = folder.path().join("turns.txt");
    fs::write(&recording, TEXT).map_err(|error| error.to_string())?;
    let recording = recording.to_string_lossy();
    let path = ["trace", "critical-path", &recording, "--execution", "thread:70"];
    let bench = ["bench", "detour", "--duration", "1500ms", "--threshold", "1ms"];
    for (arguments, sequence) in [
        (&path[..], "\x1b[3"),
        (&bench[..], "\x1b[K"),
        (&["--help"], "\x1b[1m"),
        (&["trace", "--no-such"], "\x1b[1m"),
    ] {
        let (text, code) = shown(arguments, Some("xterm"))?;
        if !text.contains(sequence) {
            return Err(format!(
                "{arguments:?} on an xterm has no {sequence:?}: {code:?} {text:?}"
            ));
        }
        for term in [Some("dumb"), None] {
            let (plain, ended) = shown(arguments, term)?;
            // Lines end with both on a terminal; a line of progress goes back to its begin alone.
            if plain.contains('\x1b') || plain.replace("\r\n", "\n").contains('\r') {
                return Err(format!("{arguments:?} on {term:?}: {plain:?}"));
            }
            if ended != code || plain.is_empty() {
                return Err(format!("{arguments:?} on {term:?} ends with {ended:?}: {plain:?}"));
            }
        }
    }
    for term in [Some("dumb"), None] {
        let (text, code) = shown(&["top"], term)?;
        let is_sentence = text.lines().count() == 1 && text.contains("--once");
        if !is_sentence || text.contains('\x1b') || code != Some(1) {
            return Err(format!("top on {term:?} ends with {code:?}: {text:?}"));
        }
    }
    // Its usual width, where it goes to a file, is more than this terminal has.
    let frames = folder.path().join("frames");
    let recorded = Recorder::open(&frames, &host())
        .and_then(|mut to| (1..3).try_for_each(|second| to.append(&small(second))));
    recorded.map_err(|error| error.to_string())?;
    let (text, code) = shown(
        &["top", "--once", "--screen", "overview", "--replay", &frames.to_string_lossy()],
        None,
    )?;
    let longest = text.lines().map(|line| line.chars().count()).max();
    if (longest, code) != (Some(120), Some(0)) {
        return Err(format!("a screen of {longest:?} columns ends with {code:?}: {text}"));
    }
    Ok(())
}
