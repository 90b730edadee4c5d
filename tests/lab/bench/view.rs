//! What a frame of `noised top` costs on a large host: from its bytes to the screen.
//!
//! What the terminal takes to get it is not in it.

mod host;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use noise_model::SharedNames;
use noise_top::app::App;
use noise_top::draw::draw;
use noise_top::draw::theme::Theme;
use noise_top::{SCREENS, Screen, ScreenLook};
use noise_wire::{decode, encode};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent};
use serde::Serialize;

use self::host::LargeHost;
use super::daemon_cost::clock_time;
use super::ratios::{median, p99};
use crate::daemon::resident_bytes;

/// The terminal.
const SIZE: (u16, u16) = (120, 40);
/// Steps in the history.
const STEPS: usize = 120;
/// Frames by screen that are measured.
const FRAMES: usize = 100;

/// Cost of a screen.
#[derive(Clone, Debug, Serialize)]
pub struct ViewCost {
    /// As scripts call it.
    pub screen: String,
    /// From a frame taken to the buffer drawn, ms, median.
    pub frame_ms_median: f64,
    /// The same of 99 in 100.
    pub frame_ms_p99: f64,
    /// From the bytes of a frame to the frame, ms, median.
    pub decode_ms_median: f64,
    /// CPU time of both at a frame a second, in percent of one CPU.
    pub cpu_percent: f64,
    /// Resident memory of this process behind it: frames are also made in it.
    pub resident_bytes: u64,
}

/// What one frame took: to decode it, to take and draw it, and the CPU time of both.
struct Taken {
    decoded: Duration,
    drawn: Duration,
    cpu: Duration,
}

struct Bench {
    host: LargeHost,
    app: App,
    terminal: Terminal<TestBackend>,
    names: SharedNames,
}

/// Measures every screen.
/// Errors: if frames cannot be written or read.
pub fn measure() -> Result<Vec<ViewCost>> {
    let second = Duration::from_secs(1);
    let mut bench = Bench {
        host: LargeHost::new(),
        app: App::new(Screen::Overview, ScreenLook::default(), second),
        terminal: Terminal::new(TestBackend::new(SIZE.0, SIZE.1))?,
        names: SharedNames::default(),
    };
    for _ in 0..=STEPS {
        bench.frame()?;
    }
    SCREENS.into_iter().map(|screen| bench.screen(screen)).collect()
}

impl Bench {
    /// The next frame.
    fn frame(&mut self) -> Result<Taken> {
        let bytes = encode(&self.host.frame())?;
        let cpu = clock_time(libc::CLOCK_THREAD_CPUTIME_ID)?;
        let begin = Instant::now();
        let mut frame = decode(&bytes)?;
        frame.share_names(&mut self.names);
        let frame = Arc::new(frame);
        let decoded = begin.elapsed();
        let begin = Instant::now();
        self.app.take(frame);
        let theme = Theme { colour: true };
        self.terminal.draw(|frame| draw(frame, &mut self.app, theme))?;
        let drawn = begin.elapsed();
        let cpu = clock_time(libc::CLOCK_THREAD_CPUTIME_ID)?.saturating_sub(cpu);
        Ok(Taken { decoded, drawn, cpu })
    }

    fn screen(&mut self, screen: Screen) -> Result<ViewCost> {
        let key = char::from_digit(screen.index() as u32 + 1, 10).context("no key")?;
        self.app.handle(KeyEvent::from(KeyCode::Char(key)));
        let taken = (0..FRAMES).map(|_| self.frame()).collect::<Result<Vec<Taken>>>()?;
        let ms = |of: fn(&Taken) -> Duration| -> Vec<f64> {
            taken.iter().map(|one| of(one).as_secs_f64() * 1e3).collect()
        };
        let drawn_ms = ms(|one| one.drawn);
        let cpu_seconds: f64 = taken.iter().map(|one| one.cpu.as_secs_f64()).sum();
        Ok(ViewCost {
            screen: screen.name().to_owned(),
            frame_ms_median: median(&drawn_ms).context("no frame")?,
            frame_ms_p99: p99(&drawn_ms).context("no frame")?,
            decode_ms_median: median(&ms(|one| one.decoded)).context("no frame")?,
            cpu_percent: cpu_seconds / taken.len() as f64 * 100.0,
            resident_bytes: resident_bytes(std::process::id())?,
        })
    }
}
