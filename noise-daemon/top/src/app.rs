//! PURE: the state of the view, and what frames and keys make of it.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use noise_client::Position;
use noise_model::{Trends, total};
use noise_wire::Frame;
use ratatui::crossterm::event::KeyEvent;

use super::arrange::Sort;
use super::input::{KeyCommand, Motion, command};
use super::screens::overview;
use super::services::Services;
use super::table::Tone;
use super::typing::{Purpose, TypedKey, Typing, time_of};
use super::view::{ShownTable, View, moved};
use super::{Block, History, Page, SCREENS, Screen, ScreenLook, Table, columns};

/// Intervals to choose from, ms.
const INTERVALS_MS: [u64; 9] = [100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000];
/// Times that rates and sums can cover, s.
const SPANS: [f64; 5] = [1.0, 5.0, 15.0, 60.0, 120.0];
/// How long a loss of events is shown, ns.
const WARNED_NS: u64 = 60_000_000_000;

/// What the application itself cannot do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    None,
    Quit,
    /// To have frames come that often.
    SetInterval(Duration),
    /// To write [`App::export`] to a file.
    Export,
    /// To begin or to end recording.
    Record,
    /// To go so many frames on, or back, in the replay.
    Step(i64),
    /// To go to a time of the replay.
    SeekTo(Timestamp),
    /// To find out why a victim is slow, for [`App::explain`].
    Why(String),
    /// To draw everything anew.
    Redraw,
    /// To leave the terminal to the shell for a while.
    Suspend,
}

/// What makes tables and pages: the screens, unless a test says otherwise.
#[derive(Clone, Copy)]
pub struct Makers {
    pub table: fn(Screen, &History, &ScreenLook) -> Table,
    /// What a row of it opens.
    pub open: fn(Screen, &History, &ScreenLook, &str) -> Option<Page>,
}

impl Default for Makers {
    fn default() -> Self {
        Self { table: Screen::table, open: Screen::open }
    }
}

/// What is known of where the frames come from and go to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnectionStatus {
    /// What the source is called.
    pub source: String,
    /// Why no frames come.
    pub trouble: Option<String>,
    /// Where the replay is, if it is one.
    pub replay: Option<Position>,
    /// Where frames are recorded, if they are.
    pub recording: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Opened {
    /// Key of its row.
    pub key: String,
    pub page: Page,
    /// First line that is seen.
    pub scroll: usize,
    /// Whether there is no such row any more.
    pub gone: bool,
    /// Whether it stays as it is: it is no page of a screen.
    pub is_fixed: bool,
}

/// What of the last drawing matters to the next key: how much could be seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeenRows {
    /// Rows of the table, or lines of a page.
    pub height: usize,
    /// Lines that a page or the help has.
    pub lines: usize,
}

/// The state of the view.
pub struct App {
    makers: Makers,
    screen: Screen,
    views: [View; SCREENS.len()],
    look: ScreenLook,
    history: History,
    /// What is shown while it is held.
    held: Option<Box<History>>,
    paused: bool,
    pub(super) shown: ShownTable,
    pub(super) page: Option<Opened>,
    pub(super) typing: Option<Typing>,
    /// First line of the help that is seen, if it is open.
    pub(super) help: Option<usize>,
    interval: Duration,
    pub(super) message: Option<(String, Tone)>,
    /// What is known of the source and the recorder.
    pub status: ConnectionStatus,
    dropped: u64,
    pub(super) seen: SeenRows,
}

impl App {
    /// Nothing to show yet.
    pub fn new(screen: Screen, look: ScreenLook, interval: Duration) -> Self {
        Self::with(Makers::default(), screen, look, interval)
    }

    /// The same, with other tables and pages than those of the screens.
    pub fn with(makers: Makers, screen: Screen, look: ScreenLook, interval: Duration) -> Self {
        let mut app = Self {
            makers,
            screen,
            views: Default::default(),
            look,
            history: History::default(),
            held: None,
            paused: false,
            shown: ShownTable::default(),
            page: None,
            typing: None,
            help: None,
            interval,
            message: None,
            status: ConnectionStatus::default(),
            dropped: 0,
            seen: SeenRows::default(),
        };
        app.refresh();
        app
    }

    pub fn screen(&self) -> Screen {
        self.screen
    }

    /// What is shown comes from these last minutes.
    pub fn history(&self) -> &History {
        self.held.as_deref().unwrap_or(&self.history)
    }

    /// What is known of the last 15 minutes, whatever is held.
    pub fn trends(&self) -> &Trends {
        self.history.trends()
    }

    /// What rates and sums cover.
    pub fn look(&self) -> &ScreenLook {
        &self.look
    }

    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// Whether what is shown is held.
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// Events that could not be counted, of late.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// How the screen is looked at.
    pub fn view(&self) -> &View {
        &self.views[self.screen.index()]
    }

    pub(super) fn view_mut(&mut self) -> &mut View {
        &mut self.views[self.screen.index()]
    }

    /// Sets the filter of a screen.
    pub fn set_filter(&mut self, filter: String) {
        self.view_mut().filter = filter;
        self.refresh();
    }

    /// Sorts the screen by the column of that name; see [`columns::find`].
    /// Errors say which columns there are.
    pub fn sort_by(&mut self, name: &str) -> Result<(), String> {
        let column = columns::find(&self.shown.table.columns, name)?;
        self.view_mut().sort = Some(Sort { column, reversed: false });
        self.rearrange();
        Ok(())
    }

    /// Shows a message until the next key.
    pub fn say(&mut self, text: String, tone: Tone) {
        self.message = Some((text, tone));
    }

    pub fn take(&mut self, frame: Arc<Frame>) {
        self.status.trouble = None;
        if frame.sample.at_ns < self.look.since_ns {
            // Another boot.
            self.look.since_ns = 0;
        }
        self.history.push(frame);
        if self.held.is_none() {
            self.refresh();
        }
    }

    /// Takes what was watched of services.
    pub fn watched(&mut self, services: Services) {
        self.history.watched(services);
        if self.held.is_none() && self.screen == Screen::Services {
            self.refresh();
        }
    }

    /// Begins anew with the frames before some place of a replay.
    pub fn restart(&mut self, frames: Vec<Arc<Frame>>) {
        let services = self.history.services().clone();
        self.history = History::default();
        self.history.watched(services);
        frames.into_iter().for_each(|frame| self.history.push(frame));
        let newest_ns = self.history.latest().map_or(0, |frame| frame.sample.at_ns);
        if newest_ns < self.look.since_ns {
            self.look.since_ns = 0;
        }
        self.status.trouble = None;
        self.refresh();
    }

    /// Frames do not come.
    pub fn trouble(&mut self, why: String) {
        self.status.trouble = Some(why);
    }

    /// Makes what is shown anew.
    fn refresh(&mut self) {
        let Makers { table, open } = self.makers;
        if self.page.as_ref().is_some_and(|opened| opened.is_fixed) {
            // What it was opened from goes on behind it.
        } else if let Some(mut opened) = self.page.take() {
            let page = open(self.screen, self.history(), &self.look, &opened.key);
            opened.gone = page.is_none();
            if let Some(page) = page {
                opened.page = page;
            }
            self.page = Some(opened);
        } else {
            let table = table(self.screen, self.history(), &self.look);
            self.shown = self.view_mut().arrange(table);
        }
        self.dropped = self.dropped_of_late();
    }

    fn dropped_of_late(&self) -> u64 {
        let newest_ns = self.history.latest().map_or(0, |frame| frame.sample.at_ns);
        let late = self.history.steps().rev();
        let late = late.take_while(|step| step.end_ns.saturating_add(WARNED_NS) >= newest_ns);
        total(late.map(|step| step.dropped))
    }

    /// What is shown, in another order or with another filter.
    fn rearrange(&mut self) {
        let table = std::mem::take(&mut self.shown.table);
        self.shown = self.view_mut().arrange(table);
    }

    pub fn handle(&mut self, key: KeyEvent) -> Action {
        self.message = None;
        if self.typing.is_some() {
            return self.type_key(&key);
        }
        let replay = self.status.replay.is_some();
        let Some(command) = command(&key, replay) else { return Action::None };
        if let Some(steps) = command.steps() {
            return Action::Step(steps);
        }
        if self.help.is_some() && self.in_help(command) {
            return Action::None;
        }
        self.obey(command)
    }

    /// What the help itself does with a command; the others close it.
    fn in_help(&mut self, command: KeyCommand) -> bool {
        match command {
            KeyCommand::Move(motion) => {
                let last = self.seen.lines.saturating_sub(self.seen.height);
                self.help = self.help.map(|at| moved(at, motion, self.seen.height, last));
            }
            KeyCommand::Help | KeyCommand::Back | KeyCommand::Open => self.help = None,
            _ => {
                self.help = None;
                return false;
            }
        }
        true
    }

    fn obey(&mut self, command: KeyCommand) -> Action {
        match command {
            KeyCommand::Quit => return Action::Quit,
            KeyCommand::Export => return Action::Export,
            KeyCommand::Record => return Action::Record,
            KeyCommand::Redraw => return Action::Redraw,
            KeyCommand::Suspend => return Action::Suspend,
            KeyCommand::Slower => return self.other_interval(true),
            KeyCommand::Faster => return self.other_interval(false),
            KeyCommand::Back => self.back(),
            KeyCommand::Help => self.help = Some(0),
            KeyCommand::Next => self.go_to(self.screen.further(1)),
            KeyCommand::Previous => self.go_to(self.screen.further(SCREENS.len() - 1)),
            KeyCommand::Show(screen) => self.go_to(screen),
            KeyCommand::Move(motion) => self.go(motion),
            KeyCommand::Pan(columns) => self.pan(columns),
            KeyCommand::Open => return self.open(),
            KeyCommand::Pause => self.pause(),
            KeyCommand::Span => self.other_span(),
            KeyCommand::Reset => self.reset(),
            KeyCommand::Time => {
                let frame = self.history.latest();
                let near = frame.map_or(Timestamp::UNIX_EPOCH, |frame| frame.time);
                self.typing = Some(Typing::new(Purpose::Time { near }, ""));
            }
            KeyCommand::Filter
            | KeyCommand::SortNext
            | KeyCommand::SortPrevious
            | KeyCommand::SortReverse => {
                self.order(command);
            }
            // Handled above.
            KeyCommand::Step(_) | KeyCommand::Begin | KeyCommand::End => {}
        }
        Action::None
    }

    /// What concerns tables only: it leads back to the table.
    fn order(&mut self, command: KeyCommand) {
        if self.page.take().is_some() {
            self.refresh();
        }
        let index = self.screen.index();
        let view = &mut self.views[index];
        match command {
            KeyCommand::SortNext => view.sort_further(1, &self.shown),
            KeyCommand::SortPrevious => view.sort_further(-1, &self.shown),
            KeyCommand::SortReverse => view.sort_reversed(&self.shown),
            _ => self.typing = Some(Typing::new(Purpose::Filter, &view.filter)),
        }
        self.rearrange();
    }

    fn back(&mut self) {
        if self.page.take().is_some() {
            self.refresh();
        } else if !self.view().filter.is_empty() {
            self.view_mut().filter.clear();
            self.rearrange();
        }
    }

    fn go_to(&mut self, screen: Screen) {
        self.page = None;
        self.screen = screen;
        self.refresh();
    }

    fn go(&mut self, motion: Motion) {
        let page = self.seen.height;
        match &mut self.page {
            Some(opened) => {
                let last = self.seen.lines.saturating_sub(page);
                opened.scroll = moved(opened.scroll, motion, page, last);
            }
            None => self.views[self.screen.index()].go(motion, page, &self.shown),
        }
    }

    fn pan(&mut self, columns: i8) {
        let last = self.shown.table.columns.len().saturating_sub(1);
        let view = self.view_mut();
        view.pan = view.pan.saturating_add_signed(isize::from(columns)).min(last);
    }

    fn open(&mut self) -> Action {
        if self.page.is_some() {
            return self.victim().map_or(Action::None, Action::Why);
        }
        let row = self.view().selected(&self.shown).and_then(|at| self.shown.row(at));
        let Some(key) = row.map(|row| row.key.clone()) else { return Action::None };
        let open = self.makers.open;
        match open(self.screen, self.history(), &self.look, &key) {
            Some(page) => {
                self.page = Some(Opened { key, page, scroll: 0, gone: false, is_fixed: false });
            }
            None => self.say("nothing more is known of this row".to_owned(), Tone::Plain),
        }
        Action::None
    }

    /// What the selected row would open.
    pub(super) fn preview(&self) -> Option<Page> {
        let row = self.view().selected(&self.shown).and_then(|at| self.shown.row(at))?;
        (self.makers.open)(self.screen, self.history(), &self.look, &row.key)
    }

    /// The signals that have events, in short.
    pub(super) fn signals(&self) -> Table {
        overview::folded(self.history(), &self.look)
    }

    /// The victim that the open page is about, if Enter shows why that is slow.
    pub fn victim(&self) -> Option<String> {
        let opened = self.page.as_ref().filter(|opened| !opened.is_fixed)?;
        self.screen.victim(self.history(), &opened.key)
    }

    /// Shows why a victim is slow, where its page is still open.
    pub fn explain(&mut self, victim: &str, found: Result<String, String>) {
        if self.victim().as_deref() != Some(victim) {
            return;
        }
        let Some(opened) = &self.page else { return };
        match found {
            Ok(text) => {
                let lines = text.lines().map(str::to_owned).collect();
                let page =
                    Page { title: format!("Why {victim}"), blocks: vec![Block::Lines(lines)] };
                let key = opened.key.clone();
                self.message = None;
                self.page = Some(Opened { key, page, scroll: 0, gone: false, is_fixed: true });
            }
            Err(why) => self.say(why, Tone::Alarm),
        }
    }

    fn pause(&mut self) {
        self.paused = !self.paused;
        // A replay that is paused stands still by itself.
        self.held =
            (self.paused && self.status.replay.is_none()).then(|| Box::new(self.history.clone()));
        self.refresh();
    }

    fn other_interval(&mut self, longer: bool) -> Action {
        let now = self.interval.as_millis();
        let mut steps = INTERVALS_MS.into_iter();
        let other = match longer {
            true => steps.find(|step| u128::from(*step) > now),
            false => steps.rfind(|step| u128::from(*step) < now),
        };
        let Some(other) = other else { return Action::None };
        self.interval = Duration::from_millis(other);
        Action::SetInterval(self.interval)
    }

    fn other_span(&mut self) {
        let next = SPANS.into_iter().find(|span| *span > self.look.seconds);
        self.look.seconds = match self.look.since_ns {
            0 => next.unwrap_or(SPANS[0]),
            _ => ScreenLook::default().seconds,
        };
        self.look.since_ns = 0;
        self.refresh();
        self.say(format!("rates and sums over {} s", self.look.seconds), Tone::Plain);
    }

    fn reset(&mut self) {
        let since_ns = self.history().latest().map_or(0, |frame| frame.sample.at_ns);
        self.look.seconds = SPANS[SPANS.len() - 1];
        self.look.since_ns = since_ns;
        self.refresh();
        self.say("counters reset; t: as before".to_owned(), Tone::Plain);
    }

    fn type_key(&mut self, key: &KeyEvent) -> Action {
        let Some(mut typing) = self.typing.take() else { return Action::None };
        let typed = typing.take(key);
        let (purpose, text) = (typing.purpose, typing.text.clone());
        match (typed, purpose) {
            (TypedKey::Quit, _) => return Action::Quit,
            (TypedKey::Kept, Purpose::Time { near }) => match time_of(&text, near, &self.look.zone)
            {
                Some(time) => return Action::SeekTo(time),
                None if text.is_empty() => {}
                None => self.say(
                    format!("no time: {text}; as in 12:34:56 or 2026-01-31 12:34:56"),
                    Tone::Alarm,
                ),
            },
            (TypedKey::Kept | TypedKey::More, Purpose::Filter) => self.narrow(text),
            (TypedKey::Dropped, Purpose::Filter) => self.narrow(String::new()),
            (TypedKey::More | TypedKey::Dropped, Purpose::Time { .. }) => {}
        }
        if typed == TypedKey::More {
            self.typing = Some(typing);
        }
        Action::None
    }

    fn narrow(&mut self, filter: String) {
        if self.view().filter != filter {
            self.view_mut().filter = filter;
            self.rearrange();
        }
    }
}
