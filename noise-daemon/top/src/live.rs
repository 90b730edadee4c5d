//! IO: keys and frames in, the screen out.

use std::io::Write as _;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use jiff::tz::TimeZone;
use noise_client::{FrameSource, News, Replay};
use noise_model::Trends;
use noise_system::output::{OutputPlace, PLAIN_MODE, explained};
use noise_text::clean::clean_json;
use noise_wire::Frame;
use ratatui::crossterm::event::{self, Event, KeyEventKind};

use super::app::{Action, App};
use super::draw::draw;
use super::draw::theme::Theme;
use super::services::Services;
use super::table::Tone;
use super::term::{self, Waited};
use super::watching::{ELSEWHERE, Watch, Watching};
use super::{Screen, ScreenLook};

/// How long keys are waited for before frames are looked at. Keys are answered at once.
const KEY_TIMEOUT: Duration = Duration::from_millis(50);
/// How long frames are waited for.
const FRAME_TIMEOUT: Duration = Duration::from_millis(1);
/// Frames that are taken before the screen is drawn.
const AT_ONCE: usize = 16;

/// Where frames are recorded.
pub trait Tape {
    /// Begins, or ends: where frames are recorded from now on, if they are.
    /// Errors: where nothing can be written.
    fn toggle(&mut self) -> anyhow::Result<Option<String>>;
    /// Where frames are recorded, if they are.
    fn target(&self) -> Option<String>;
    /// Takes a frame, with what is known of the 15 minutes before it, which the first frame of a recording holds. Does
    /// nothing unless it records.
    /// Errors: where it cannot be written.
    fn take(&mut self, frame: &Frame, known: &Trends) -> anyhow::Result<()>;
}

/// Says why a victim is slow, as text, or why that cannot be said. It may take seconds.
pub type Explain = Arc<dyn Fn(&str) -> Result<String, String> + Send + Sync>;

/// How the view begins.
pub struct Options {
    pub interval: Duration,
    /// What rates and sums cover, s.
    pub seconds: f64,
    pub screen: Screen,
    /// With which rows of it.
    pub filter: String,
    /// By the column of it with that name, instead of its own.
    pub sort: Option<String>,
    pub colour: bool,
    /// Whose times are shown.
    pub zone: TimeZone,
    /// What `w` turns on and off.
    pub tape: Option<Box<dyn Tape>>,
    /// What Enter on the page of a victim shows.
    pub why: Option<Explain>,
    /// What the screen of services shows.
    pub watch: Option<Watch>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(1),
            seconds: ScreenLook::default().seconds,
            screen: Screen::default(),
            filter: String::new(),
            sort: None,
            colour: true,
            zone: TimeZone::UTC,
            tape: None,
            why: None,
            watch: None,
        }
    }
}

/// The view, until the person or a signal ends it.
/// Errors: where there is no terminal, or none any more; where there is no such column.
pub fn run(source: &mut dyn FrameSource, options: Options) -> anyhow::Result<()> {
    let Options { interval, seconds, screen, filter, colour, zone, tape, sort, why, watch } =
        options;
    let mut app = App::new(screen, ScreenLook { seconds, since_ns: 0, zone }, interval);
    app.set_filter(filter);
    if let Some(column) = sort {
        app.sort_by(&column).map_err(anyhow::Error::msg)?;
    }
    let mut live =
        Live { app, source, tape, why, asked: None, wanted: None, watch, watching: None };
    live.source.set_interval(interval);
    live.note();
    let theme = Theme { colour };
    let mut screen = term::TerminalScreen::take()?;
    let mut changed = true;
    while !screen.is_stopped() {
        if changed {
            screen.draw(|frame| draw(frame, &mut live.app, theme)).context("drawing")?;
        }
        changed = false;
        match term::wait(KEY_TIMEOUT) {
            Waited::Gone => anyhow::bail!("the terminal is gone"),
            Waited::Something => changed = true,
            Waited::Nothing => {}
        }
        while changed && event::poll(Duration::ZERO).context("waiting for keys")? {
            match event::read().context("reading keys")? {
                Event::Key(key) if key.kind != KeyEventKind::Release => {
                    match live.app.handle(key) {
                        Action::Quit => return Ok(()),
                        Action::Redraw => screen.clear()?,
                        Action::Suspend => screen.suspend()?,
                        action => live.obey(action),
                    }
                }
                _ => {}
            }
        }
        changed |= live.hear();
        changed |= live.watch();
        changed |= live.listen();
    }
    Ok(())
}

struct Live<'a> {
    app: App,
    source: &'a mut dyn FrameSource,
    tape: Option<Box<dyn Tape>>,
    why: Option<Explain>,
    /// The victim that is asked about, and what comes of it.
    asked: Option<(String, mpsc::Receiver<Result<String, String>>)>,
    /// The victim to ask about then.
    wanted: Option<String>,
    watch: Option<Watch>,
    /// What is attached while the screen of services is shown.
    watching: Option<Watching>,
}

impl Live<'_> {
    /// Finds out in a thread of its own why a victim is slow.
    fn ask(&mut self, victim: String) {
        let Some(explain) = self.why.clone() else {
            let sentence = "why it is slow is known where a daemon's local socket is: `noised why` on that host";
            return self.app.say(sentence.to_owned(), Tone::Plain);
        };
        self.app.say(format!("looking at what {victim} did of late"), Tone::Plain);
        if let Some((asked, _)) = &self.asked {
            // One at a time: each looks at the whole host.
            self.wanted = Some(victim).filter(|victim| victim != asked);
            return;
        }
        let (sender, receiver) = mpsc::channel();
        let whom = victim.clone();
        let explaining = thread::Builder::new().name("why".to_owned()).spawn(move || {
            // Where the view has ended, no one reads it.
            let _ = sender.send(explain(&whom));
        });
        match explaining {
            Ok(_) => self.asked = Some((victim, receiver)),
            Err(error) => self.app.say(format!("cannot start a thread: {error}"), Tone::Alarm),
        }
    }

    /// Takes what came of a question; whether anything did.
    fn hear(&mut self) -> bool {
        let Some((_, receiver)) = &self.asked else { return false };
        let found = match receiver.try_recv() {
            Ok(found) => found,
            Err(mpsc::TryRecvError::Empty) => return false,
            Err(mpsc::TryRecvError::Disconnected) => Err("it could not be found out".to_owned()),
        };
        if let Some((victim, _)) = self.asked.take() {
            self.app.explain(&victim, found);
        }
        // Its page may have been left meanwhile.
        let open = self.app.victim();
        if let Some(victim) = self.wanted.take().filter(|wanted| open.as_ref() == Some(wanted)) {
            self.ask(victim);
        }
        true
    }

    /// Watches services while their screen is shown; whether there is something new.
    fn watch(&mut self) -> bool {
        if self.app.screen() != Screen::Services {
            self.watching = None;
            return false;
        }
        let Some(watching) = &self.watching else {
            let started = match self.watch.clone() {
                Some(watch) => Watching::start(watch).map_err(|error| error.to_string()),
                None => Err(ELSEWHERE.to_owned()),
            };
            match started {
                Ok(watching) => self.watching = Some(watching),
                Err(why) => {
                    let why = Services::Impossible(why);
                    let is_new = *self.app.history().services() != why;
                    self.app.watched(why);
                    return is_new;
                }
            }
            return false;
        };
        let services = watching.latest();
        let is_new = services.is_some();
        services.into_iter().for_each(|services| self.app.watched(services));
        is_new
    }

    /// Notes where frames come from and go to.
    fn note(&mut self) {
        let status = &mut self.app.status;
        status.source = self.source.name();
        status.replay = self.source.replay().map(|replay| replay.position());
        status.recording = self.tape.as_ref().and_then(|tape| tape.target());
    }

    /// Takes what the source says; whether it said anything.
    fn listen(&mut self) -> bool {
        if self.app.is_paused() && self.app.status.replay.is_some() {
            return false;
        }
        let mut heard = 0;
        while heard < AT_ONCE
            && let Some(news) = self.source.poll(FRAME_TIMEOUT)
        {
            heard += 1;
            match news {
                News::Frame(frame) => {
                    self.app.take(Arc::clone(&frame));
                    self.record(&frame);
                }
                News::Trouble(why) => {
                    self.app.trouble(why);
                    // A source that only fails would be polled again at once.
                    break;
                }
            }
        }
        if heard > 0 {
            self.note();
        }
        heard > 0
    }

    fn record(&mut self, frame: &Frame) {
        if let Some(tape) = &mut self.tape
            && let Err(error) = tape.take(frame, self.app.trends())
        {
            self.app.say(format!("recording: {error:#}"), Tone::Alarm);
        }
    }

    fn obey(&mut self, action: Action) {
        match action {
            Action::SetInterval(interval) => self.source.set_interval(interval),
            Action::Export => {
                let (text, tone) = match export(&self.app) {
                    Ok(name) => (format!("wrote {name}"), Tone::Strong),
                    Err(error) => (format!("{error:#}"), Tone::Alarm),
                };
                self.app.say(text, tone);
            }
            Action::Record => {
                let toggled = self.tape.as_mut().map(|tape| tape.toggle());
                let (text, tone) = match toggled {
                    None => ("nothing can be recorded here".to_owned(), Tone::Plain),
                    Some(Ok(Some(target))) => (format!("recording to {target}"), Tone::Strong),
                    Some(Ok(None)) => ("recording ended".to_owned(), Tone::Strong),
                    Some(Err(error)) => (format!("recording: {error:#}"), Tone::Alarm),
                };
                self.app.say(text, tone);
            }
            Action::Step(steps) => self.restart(|replay| replay.step(steps)),
            Action::SeekTo(time) => self.restart(|replay| replay.seek_to(time)),
            Action::Why(victim) => self.ask(victim),
            Action::None | Action::Quit | Action::Redraw | Action::Suspend => {}
        }
        self.note();
    }

    /// Shows what a replay has where it moves to, and what cannot be read there.
    fn restart(&mut self, moved: impl FnOnce(&mut dyn Replay) -> Vec<Arc<Frame>>) {
        let Some(replay) = self.source.replay() else { return };
        let frames = moved(replay);
        let troubles: Vec<String> = std::iter::from_fn(|| replay.trouble()).collect();
        if !frames.is_empty() {
            self.app.restart(frames);
        }
        if !troubles.is_empty() {
            self.app.trouble(troubles.join("; "));
        }
    }
}

/// Writes what is shown into the current directory; never over something.
fn export(app: &App) -> anyhow::Result<String> {
    let name = app.export_name();
    let directory = std::env::current_dir().context("the current directory")?;
    let path = directory.join(&name);
    let text = serde_json::to_string_pretty(&app.export())?;
    let mut text = clean_json(&text).into_owned();
    text.push('\n');
    let file = OutputPlace::find(&path).and_then(|place| place.create_new(PLAIN_MODE));
    let write = file.and_then(|mut file| file.write_all(text.as_bytes()).map_err(explained));
    write.with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::Opened;
    use crate::page::Page;

    struct Silent;

    impl FrameSource for Silent {
        fn name(&self) -> String {
            String::new()
        }

        fn poll(&mut self, _: Duration) -> Option<News> {
            None
        }

        fn set_interval(&mut self, _: Duration) {}
    }

    #[test]
    fn the_victim_that_was_asked_about_last_is_looked_at_once_the_first_is_known() {
        let (told, asked) = mpsc::channel();
        let (answer, answers) = mpsc::channel::<()>();
        let both = std::sync::Mutex::new((told, answers));
        let explain = move |victim: &str| {
            let both = both.lock().unwrap();
            both.0.send(victim.to_owned()).unwrap();
            both.1.recv().map_err(|error| error.to_string())?;
            Ok(String::new())
        };
        let mut live = Live {
            app: App::new(Screen::Victims, ScreenLook::default(), Duration::from_secs(1)),
            source: &mut Silent,
            tape: None,
            why: Some(Arc::new(explain)),
            asked: None,
            wanted: None,
            watch: None,
            watching: None,
        };
        let answered = |live: &mut Live<'_>| {
            answer.send(()).unwrap();
            while !live.hear() {
                thread::yield_now();
            }
        };
        let open = |live: &mut Live<'_>, victim: &str| {
            let page = Page { title: String::new(), blocks: Vec::new() };
            let key = victim.to_owned();
            live.app.page = Some(Opened { key, page, scroll: 0, gone: false, is_fixed: false });
            live.ask(victim.to_owned());
        };
        ["a", "b", "c"].iter().for_each(|victim| open(&mut live, victim));
        answered(&mut live);
        assert_eq!(live.app.message.as_ref().unwrap().0, "looking at what c did of late");
        // Back to the one that is looked at: there is nothing more to do.
        ["b", "c"].iter().for_each(|victim| open(&mut live, victim));
        answered(&mut live);
        assert!(!live.hear());
        // Of one whose page was left, nothing is asked any more.
        ["d", "e"].iter().for_each(|victim| open(&mut live, victim));
        live.app.page = None;
        answered(&mut live);
        assert!(!live.hear());
        assert_eq!(asked.try_iter().collect::<Vec<_>>(), ["a", "c", "d"]);
    }
}
