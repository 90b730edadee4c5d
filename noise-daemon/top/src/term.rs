//! IO: the terminal: taken, drawn on, and given back however the view ends.

#![allow(clippy::disallowed_methods, reason = "the view has the terminal for itself")]

use std::io::{self, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    BeginSynchronizedUpdate, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen,
    disable_raw_mode, enable_raw_mode,
};
use ratatui::{Frame, Terminal};

/// A signal has ended the view. Signal handlers and the panic hook can reach statics only.
static STOPPED: AtomicBool = AtomicBool::new(false);
/// Whether the terminal is taken, and must be given back.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// Signals that end the view.
const ENDING: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// Time in which the view ends after a signal, s: then the kernel ends it.
const LAST_SECONDS: libc::c_uint = 10;

extern "C" fn stop(_signal: libc::c_int) {
    STOPPED.store(true, Ordering::Relaxed);
    // SAFETY: async-signal-safe, and no memory argument.
    unsafe { libc::alarm(LAST_SECONDS) };
}

/// What came while keys were waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    Nothing,
    /// Keys, or a signal, such as that of another size.
    Something,
    /// The terminal is gone.
    Gone,
}

/// Waits for keys. Where the terminal is gone, what reads the keys would read its end for ever, so it
/// must not be called.
pub fn wait(timeout: Duration) -> Waited {
    let mut wanted = libc::pollfd { fd: libc::STDIN_FILENO, events: libc::POLLIN, revents: 0 };
    let milliseconds = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: it points to one live value.
    match unsafe { libc::poll(&raw mut wanted, 1, milliseconds) } {
        0 => Waited::Nothing,
        _ if wanted.revents & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) != 0 => Waited::Gone,
        _ => Waited::Something,
    }
}

/// Handlers of the signals that end the view; dropping it gives back those that were there.
struct Handlers {
    before: Vec<(libc::c_int, libc::sigaction)>,
}

impl Handlers {
    fn set() -> Self {
        STOPPED.store(false, Ordering::Relaxed);
        let mut before = Vec::new();
        for signal in ENDING {
            // SAFETY: a zeroed sigaction is a valid one: no flags, an empty mask.
            let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
            // SAFETY: as above.
            let mut old: libc::sigaction = unsafe { std::mem::zeroed() };
            action.sa_sigaction = stop as extern "C" fn(libc::c_int) as libc::sighandler_t;
            // SAFETY: both point to live values, and the handler only stores an atomic.
            if unsafe { libc::sigaction(signal, &action, &mut old) } == 0 {
                before.push((signal, old));
            }
        }
        Self { before }
    }
}

impl Drop for Handlers {
    fn drop(&mut self) {
        for (signal, old) in &self.before {
            // SAFETY: it is what the kernel gave when it was replaced.
            unsafe { libc::sigaction(*signal, old, std::ptr::null_mut()) };
        }
    }
}

fn take() -> io::Result<()> {
    enable_raw_mode()?;
    TAKEN.store(true, Ordering::SeqCst);
    execute!(io::stdout(), EnterAlternateScreen)
}

/// Gives the terminal back, once.
fn restore() {
    if TAKEN.swap(false, Ordering::SeqCst) {
        // Where the terminal is gone, there is nothing left to do.
        let mut out = io::stdout();
        let _ = execute!(out, EndSynchronizedUpdate, LeaveAlternateScreen, Show);
        let _ = out.flush();
        let _ = disable_raw_mode();
    }
}

/// The terminal while the view has it.
pub struct TerminalScreen {
    terminal: Terminal<CrosstermBackend<io::Stdout>>,
    _handlers: Handlers,
}

impl TerminalScreen {
    /// Takes it. Whether it can be drawn on is for the caller to know.
    /// Errors: where there is no terminal.
    pub fn take() -> anyhow::Result<Self> {
        const ELSEWHERE: &str = "cannot draw on this terminal; --once and --batch print plain text";
        let handlers = Handlers::set();
        hook_panics();
        let screen = take().and_then(|()| Terminal::new(CrosstermBackend::new(io::stdout())));
        match screen {
            Ok(terminal) => Ok(Self { terminal, _handlers: handlers }),
            Err(error) => {
                restore();
                Err(error).context(ELSEWHERE)
            }
        }
    }

    /// Whether a signal has ended the view.
    pub fn is_stopped(&self) -> bool {
        STOPPED.load(Ordering::Relaxed)
    }

    /// Draws, so that the terminal shows all of it at once.
    /// Errors: where the terminal is gone.
    pub fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        execute!(self.terminal.backend_mut(), BeginSynchronizedUpdate)?;
        self.terminal.draw(draw)?;
        execute!(self.terminal.backend_mut(), EndSynchronizedUpdate)
    }

    /// Forgets what is drawn: something else wrote to the terminal.
    /// Errors: where the terminal is gone.
    pub fn clear(&mut self) -> io::Result<()> {
        self.terminal.clear()
    }

    /// Leaves the terminal to the shell until it lets this process go on.
    /// Errors: where the terminal is gone.
    pub fn suspend(&mut self) -> io::Result<()> {
        restore();
        // SAFETY: it stops this process as the terminal itself would outside raw mode.
        unsafe { libc::kill(0, libc::SIGTSTP) };
        take()?;
        self.terminal.clear()
    }
}

impl Drop for TerminalScreen {
    fn drop(&mut self) {
        restore();
    }
}

/// Gives the terminal back before a panic of this thread is printed. A thread that brings frames may
/// panic without ending the view.
fn hook_panics() {
    let own = thread::current().id();
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if thread::current().id() == own {
            restore();
        }
        before(info);
    }));
}
