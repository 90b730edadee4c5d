//! Golden screens.

use std::sync::Arc;
use std::time::Duration;

use noise_analysis::{Cause, IncidentPressure};
use noise_client::Position;
use noise_common::loss::Loss;
use noise_common::signals::Signal;
use noise_model::Sample;
use noise_model::memory::{LimitHits, LimitKind};
use noise_model::pressure::{Pressure, ResourcePressure, Stalled};
use noise_wire::Frame;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent};
use ratatui::style::{Color, Modifier};

use super::app::App;
use super::arrange::Filter;
use super::draw::draw;
use super::draw::theme::Theme;
use super::sampled::{MAKERS, frame, frames};
use super::{Screen, ScreenLook, text};

fn app(seconds: u64, cgroups: u64) -> App {
    let mut app = App::with(MAKERS, Screen::Victims, ScreenLook::default(), Duration::from_secs(1));
    app.status.source = "/run/noised/noised.sock".to_owned();
    frames(seconds, cgroups).for_each(|frame| app.take(frame));
    app
}

fn drawn(app: &mut App, width: u16, height: u16, colour: bool) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, app, Theme { colour })).unwrap();
    terminal
}

fn screen(app: &mut App, width: u16, height: u16) -> String {
    let terminal = drawn(app, width, height, true);
    let buffer = terminal.backend().buffer();
    let rows = (0..height).map(|y| {
        let mut row = String::new();
        let mut hidden = 0;
        for x in 0..width {
            let symbol = buffer[(x, y)].symbol();
            if hidden == 0 {
                row.push_str(symbol);
                hidden = noise_text::columns::width(symbol).saturating_sub(1);
            } else {
                hidden -= 1;
            }
        }
        format!("{}\n", row.trim_end())
    });
    rows.collect()
}

fn press(app: &mut App, keys: &str) {
    for key in keys.chars() {
        let code = match key {
            '\n' => KeyCode::Enter,
            '↓' => KeyCode::PageDown,
            other => KeyCode::Char(other),
        };
        app.handle(KeyEvent::from(code));
    }
}

#[test]
fn overview_in_the_least_usual_terminal() {
    insta::assert_snapshot!(screen(&mut app(30, 40), 80, 24));
}

#[test]
fn who_in_a_larger_terminal() {
    let mut app = app(30, 40);
    press(&mut app, "4sj");
    insta::assert_snapshot!(screen(&mut app, 120, 40));
}

#[test]
fn columns_without_room_are_marked_and_can_be_reached() {
    let mut app = app(30, 10);
    insta::assert_snapshot!("narrow", screen(&mut app, 60, 16));
    press(&mut app, ">>>");
    insta::assert_snapshot!("narrow_further", screen(&mut app, 60, 16));
}

#[test]
fn nothing_yet() {
    let mut app = app(0, 0);
    app.trouble("no daemon listens at /run/noised/noised.sock; trying again".to_owned());
    insta::assert_snapshot!(screen(&mut app, 80, 24));
}

#[test]
fn an_empty_screen() {
    let mut app = app(3, 3);
    press(&mut app, "7");
    insta::assert_snapshot!(screen(&mut app, 80, 24));
}

#[test]
fn a_filter_that_is_typed_and_one_that_is_kept() {
    let mut app = app(30, 40);
    press(&mut app, "4/vm-1");
    insta::assert_snapshot!("filter_typed", screen(&mut app, 80, 24));
    press(&mut app, "\n/nobody\n");
    insta::assert_snapshot!("filter_kept", screen(&mut app, 80, 24));
}

#[test]
fn help() {
    let mut app = app(30, 4);
    press(&mut app, "?");
    insta::assert_snapshot!("help", screen(&mut app, 80, 24));
    press(&mut app, "↓");
    insta::assert_snapshot!("help_further", screen(&mut app, 80, 24));
    insta::assert_snapshot!("help_large", screen(&mut app, 120, 40));
}

#[test]
fn a_page_with_a_heatmap() {
    let mut app = app(70, 4);
    press(&mut app, "\n");
    insta::assert_snapshot!("page", screen(&mut app, 80, 24));
    press(&mut app, "↓");
    insta::assert_snapshot!("page_further", screen(&mut app, 80, 24));
    insta::assert_snapshot!("page_large", screen(&mut app, 120, 40));
}

#[test]
fn everything_that_can_be_marked() {
    let mut app = app(30, 4);
    let mut lossy = (*frame(30, 4)).clone();
    let drops = vec![(Signal::RunqueueWait, Loss::MapFull, 123)];
    lossy.sample = Arc::new(Sample { drops, ..(*lossy.sample).clone() });
    app.take(Arc::new(lossy));
    assert_eq!(app.dropped(), 123);
    app.status.replay = Some(Position { index: 29, frames: 340 });
    app.status.recording = Some("noised.rec".to_owned());
    app.trouble("the daemon stopped \u{1b}[31m".to_owned());
    press(&mut app, "p");
    insta::assert_snapshot!(screen(&mut app, 80, 24));
}

#[test]
fn a_terminal_that_is_too_small() {
    insta::assert_snapshot!(screen(&mut app(3, 3), 40, 10));
    for (width, height) in [(1, 1), (59, 30), (120, 15), (60, 16), (500, 200)] {
        screen(&mut app(3, 3), width, height);
    }
}

#[test]
fn without_colours_there_are_modifiers_only() {
    for keys in ["", "\n", "?", "/web", "4jj", "7"] {
        let mut app = app(30, 8);
        app.trouble("gone".to_owned());
        press(&mut app, keys);
        let terminal = drawn(&mut app, 80, 24, false);
        let cells = &terminal.backend().buffer().content;
        let plain = cells.iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset);
        assert!(plain, "{keys:?}");
        assert!(cells.iter().any(|cell| cell.modifier.contains(Modifier::REVERSED)), "{keys:?}");
    }
}

/// A host where a service keeps itself waiting, and so does a device's only user.
fn own_work() -> Arc<Frame> {
    let mut own = (*frame(30, 4)).clone();
    let mut report = (*own.overview.incidents[0]).clone();
    report.main.culprits[0].culprit = report.main.subject.clone();
    report.main.culprits[0].cause = Cause::Own;
    let mut device = report.clone();
    device.id = 4;
    device.main.signal = Signal::BlockQueueWait.into();
    device.main.subject = "vda write".into();
    own.overview.incidents = vec![Arc::new(report), Arc::new(device)];
    Arc::new(own)
}

#[test]
fn own_work_is_reported_in_whole_words_in_any_width() {
    for columns in [60, 80, 120] {
        let mut app = App::new(Screen::Victims, ScreenLook::default(), Duration::from_secs(1));
        app.take(own_work());
        insta::assert_snapshot!(format!("own_work_{columns}"), screen(&mut app, columns, 16));
        press(&mut app, "7");
        let incidents = screen(&mut app, columns, 16);
        insta::assert_snapshot!(format!("own_incidents_{columns}"), &incidents);
        assert_eq!(incidents.matches("(self)").count(), 2, "{incidents}");
    }
}

#[test]
fn plain_text_says_which_incidents_are_open() {
    for (number, line) in [
        (0, "no open incident"),
        (
            1,
            "! cpu, mean 250x, for 30 s: /system.slice/web.service by /system.slice/backup.service \
             (another cgroup, 89 %)",
        ),
    ] {
        let mut app = app(30, 6);
        let mut next = (*frame(30, 6)).clone();
        next.overview.incidents.truncate(number);
        app.take(Arc::new(next));
        let text = text::screen(&app, &Filter::new(""), 160);
        assert_eq!(text.lines().nth(1), Some(line), "{text}");
    }
    let mut app = app(30, 6);
    let mut next = (*frame(31, 6)).clone();
    let report = Arc::clone(&next.overview.incidents[0]);
    next.overview.incidents = vec![report; 5];
    app.take(Arc::new(next));
    let text = text::screen(&app, &Filter::new(""), 160);
    assert!(text.contains("\n! and 2 more: --screen incidents\n"), "{text}");
}

#[test]
fn a_limit_of_memory_is_named_on_the_first_screen() {
    let mut next = (*frame(30, 6)).clone();
    next.overview.incidents.truncate(1);
    let report = Arc::make_mut(&mut next.overview.incidents[0]);
    report.main.signal = Signal::UninterruptibleWait.into();
    let limit = LimitHits {
        of: report.main.subject.to_string(),
        is_own: true,
        kind: LimitKind::Max,
        bytes: 64 << 20,
        hits: 90,
        refaulted: None,
        swapped_in: None,
        gone: None,
    };
    let some = Stalled { avg10_percent: 50.0, stalled_ms: Some(5_000.0) };
    let latest = Some(Pressure {
        span_ns: Some(10_000_000_000),
        memory: Some(ResourcePressure { some, full: None }),
        limits: Some(vec![limit]),
        ..Pressure::default()
    });
    report.beside.pressure = Some(IncidentPressure { opening: Pressure::default(), latest });
    let mut app = app(30, 6);
    app.take(Arc::new(next));
    for (columns, rose) in [(120, ", mean 250x"), (80, "")] {
        let text = text::screen(&app, &Filter::new(""), columns);
        let line = format!(
            "! memory{rose}, for 30 s: /system.slice/web.service by its own memory limit of 64 MiB"
        );
        assert_eq!(text.lines().nth(1), Some(&*line), "{text}");
    }
}

#[test]
fn plain_text_has_the_same_rows() {
    let app = app(30, 6);
    let table = &app.shown.table;
    insta::assert_snapshot!(text::table(table, &Filter::new("!vm"), None, 100));
}

#[test]
fn incidents_of_other_days_say_when_they_began_in_any_width() {
    let mut own = (*own_work()).clone();
    let began = own.time;
    let days_ago = |days: i64| began - jiff::SignedDuration::from_hours(24 * days);
    for (report, days) in own.overview.incidents.iter_mut().zip([1, 400]) {
        Arc::make_mut(report).main.start = days_ago(days);
    }
    let expected = [
        days_ago(1).strftime("%b %d %H:%M").to_string(),
        days_ago(400).strftime("%Y-%m-%d").to_string(),
    ];
    let own = Arc::new(own);
    for columns in 60..=200 {
        let mut app = App::new(Screen::Incidents, ScreenLook::default(), Duration::from_secs(1));
        app.take(Arc::clone(&own));
        let shown = screen(&mut app, columns, 16);
        for text in &expected {
            let row = shown.lines().find(|line| line.contains(&format!(" {text} ")));
            // As of today's, whose culprit is there in any width.
            assert!(row.is_some_and(|row| row.contains("(self)")), "{columns}: {shown}");
        }
    }
}
