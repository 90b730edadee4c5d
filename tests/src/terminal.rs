//! A real terminal: a tmux server of its own, whose keys are pressed and whose screen is read.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use crate::scratch::Folder;

/// Longer than a loaded machine takes to draw what a key asks for.
const TIMEOUT: Duration = Duration::from_secs(20);
const SESSION: &str = "noised";
/// What is on the screen once the command has ended, before its status.
const ENDED: &str = "ended with ";

/// A terminal in which one command runs. The server and all in it end when this is dropped.
#[derive(Debug)]
pub struct Terminal {
    folder: Folder,
}

impl Terminal {
    /// Starts a command in a terminal of so many columns and rows, in a folder of its own.
    pub fn start(columns: u16, rows: u16, command: &[&str]) -> Result<Self> {
        let terminal = Self { folder: Folder::new("terminal")? };
        let configuration = terminal.folder.path().join("tmux.conf");
        // Esc is not waited for.
        fs::write(
            &configuration,
            "set -g escape-time 0\nset -g default-terminal screen-256color\n",
        )?;
        let (width, height) = (columns.to_string(), rows.to_string());
        let mut arguments: Vec<&OsStr> = vec!["-f".as_ref(), configuration.as_os_str()];
        for argument in ["new-session", "-d", "-s", SESSION, "-x", &width, "-y", &height, "-c"] {
            arguments.push(argument.as_ref());
        }
        arguments.push(terminal.folder.path().as_os_str());
        // The screen stays to be read after the command has ended. What tmux knows of the status of one
        // that ended is not there now and then.
        let keep = format!("\"$0\" \"$@\"; printf '\\n{ENDED}%s\\n' $?; exec sleep 1000");
        arguments.extend(["sh", "-c", &keep].map(OsStr::new));
        arguments.extend(command.iter().map(OsStr::new));
        terminal.tmux(&arguments)?;
        Ok(terminal)
    }

    /// Where the command runs.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn tmux(&self, arguments: &[&OsStr]) -> Result<String> {
        let output = Command::new("tmux")
            .arg("-S")
            .arg(self.folder.path().join("tmux.socket"))
            .args(arguments)
            .env_remove("TMUX")
            .env("LC_ALL", "C.UTF-8")
            .output()
            .context("running tmux")?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "tmux {arguments:?}: {error}");
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn ask(&self, arguments: &[&str]) -> Result<String> {
        let arguments: Vec<&OsStr> = arguments.iter().map(OsStr::new).collect();
        self.tmux(&arguments)
    }

    /// Presses keys, as tmux names them (`Enter`, `Escape`, `Tab`, `Left`, single characters).
    pub fn press(&self, keys: &[&str]) -> Result<()> {
        for key in keys {
            self.ask(&["send-keys", "-t", SESSION, key])?;
        }
        Ok(())
    }

    /// Makes the terminal larger or smaller.
    pub fn resize(&self, columns: u16, rows: u16) -> Result<()> {
        let (columns, rows) = (columns.to_string(), rows.to_string());
        self.ask(&["resize-window", "-t", SESSION, "-x", &columns, "-y", &rows])?;
        Ok(())
    }

    /// What is on the screen.
    pub fn screen(&self) -> Result<String> {
        self.ask(&["capture-pane", "-p", "-t", SESSION])
    }

    /// The status with which the command has ended, as a shell has it, if it has.
    pub fn ended(&self) -> Result<Option<i32>> {
        let screen = self.screen()?;
        let said = screen.lines().find_map(|line| line.strip_prefix(ENDED));
        said.map(|status| status.trim().parse().context("no status")).transpose()
    }

    /// Process id of the command.
    pub fn pid(&self) -> Result<i32> {
        let said = self.ask(&["display-message", "-p", "-t", SESSION, "#{pane_pid}"])?;
        let shell: i32 = said.trim().parse().context("tmux prints no process id")?;
        for entry in fs::read_dir("/proc")? {
            let entry = entry?;
            let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            // The name before may have blanks in it.
            let Some((_, rest)) = stat.rsplit_once(") ") else { continue };
            if rest.split(' ').nth(1).and_then(|parent| parent.parse().ok()) == Some(shell) {
                let name = entry.file_name();
                return name.to_str().and_then(|name| name.parse().ok()).context("no process id");
            }
        }
        bail!("the command does not run any more")
    }

    /// Whether the terminal shows its alternate screen, as it does while a view has it.
    pub fn is_taken(&self) -> Result<bool> {
        let said = self.ask(&["display-message", "-p", "-t", SESSION, "#{alternate_on}"])?;
        Ok(said.trim() == "1")
    }

    /// Waits until the screen is as wanted, and returns it.
    /// Errors: with the screen as it is, if it does not become so.
    pub fn wait_for(&self, what: &str, wanted: impl Fn(&str) -> bool) -> Result<String> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let screen = self.screen()?;
            if wanted(&screen) {
                return Ok(screen);
            }
            if Instant::now() > deadline {
                bail!("the screen does not show {what}:\n{screen}");
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until the screen has all of these words on it.
    pub fn wait_for_words(&self, words: &[&str]) -> Result<String> {
        self.wait_for(&format!("{words:?}"), |screen| {
            words.iter().all(|word| screen.contains(word))
        })
    }

    /// Waits for the end of the command.
    pub fn wait(&self) -> Result<i32> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            if let Some(status) = self.ended()? {
                return Ok(status);
            }
            if Instant::now() > deadline {
                bail!("the command does not end; on its screen:\n{}", self.screen()?);
            }
            thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Errors mean that there is nothing to end.
        let _ = self.ask(&["kill-server"]);
    }
}
