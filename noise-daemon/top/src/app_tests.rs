//! What keys do to the state of the view.

use std::sync::Arc;
use std::time::Duration;

use noise_client::Position;
use noise_common::charge::Charged;
use noise_common::signals::Signal;
use noise_model::{Histogram, Series};
use noise_wire::Frame;
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_assert, prop_oneof, proptest};
use proptest::sample::select;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::app::{Action, App};
use super::draw::draw;
use super::draw::theme::Theme;
use super::sampled::{MAKERS, frame, frames};
use super::services::{Services, Watched};
use super::{Block, SCREENS, Screen, ScreenLook};

fn app(seconds: u64, cgroups: u64) -> App {
    let mut app = App::with(MAKERS, Screen::Victims, ScreenLook::default(), Duration::from_secs(1));
    frames(seconds, cgroups).for_each(|frame| app.take(frame));
    app
}

fn press(app: &mut App, keys: &str) -> Action {
    let mut last = Action::None;
    for key in keys.chars() {
        let code = match key {
            '\n' => KeyCode::Enter,
            '\t' => KeyCode::Tab,
            '\u{1b}' => KeyCode::Esc,
            '\u{8}' => KeyCode::Backspace,
            '→' => KeyCode::Right,
            '⇤' => KeyCode::Home,
            other => KeyCode::Char(other),
        };
        last = app.handle(KeyEvent::from(code));
    }
    last
}

fn keys(app: &App) -> Vec<String> {
    app.shown.rows().map(|row| row.key.clone()).collect()
}

fn selected(app: &App) -> Option<String> {
    let at = app.view().selected(&app.shown)?;
    app.shown.row(at).map(|row| row.key.clone())
}

#[test]
fn the_selection_stays_with_its_row_when_the_order_changes() {
    let mut app = app(10, 8);
    press(&mut app, "jjj");
    let chosen = selected(&app);
    press(&mut app, "ss");
    assert_eq!(selected(&app), chosen);
    for number in 10..20 {
        app.take(frame(number, 8));
        assert_eq!(selected(&app), chosen);
    }
    // The first row is chosen by place until a key moves the choice.
    press(&mut app, "g");
    let before = keys(&app);
    press(&mut app, "S");
    assert_eq!(selected(&app).as_ref(), keys(&app).first());
    assert_ne!(keys(&app), before);
}

/// A frame with every figure as large, or as small, as one can be written.
fn at_the_limit(seconds: u64, limit: u64) -> Arc<Frame> {
    let mut frame = Frame::clone(&frame(seconds, 4));
    let sample = Arc::make_mut(&mut frame.sample);
    sample.at_ns = u64::MAX - (100 - seconds) * 1_000_000_000;
    let stages = [Signal::BlockQueueWait, Signal::BlockDeviceWait];
    sample.series.extend(stages.map(|signal| Series {
        signal,
        labels: ["vda".to_owned(), "read".to_owned()].into(),
        totals: Histogram::default(),
        recent_max_ns: 0,
    }));
    sample
        .series
        .sort_by(|one, other| (one.signal, &one.labels).cmp(&(other.signal, &other.labels)));
    sample.interrupted = [0, 1].map(|cpu| (cpu, "hardirq".into(), 0)).into();
    sample.waited = vec![(0, 0), (1, 0)];
    sample.stolen = vec![(0, 0), (1, 0)];
    for series in &mut sample.series {
        series.totals = Histogram::new(limit, [(0, limit), (60, limit)]);
        series.recent_max_ns = limit;
    }
    sample.counts.iter_mut().for_each(|count| count.total = limit);
    let charged = Charged { ns: limit, count: limit };
    sample.interference.iter_mut().for_each(|one| one.charged = charged);
    sample.interrupted.iter_mut().for_each(|(_, _, ns)| *ns = limit);
    sample.waited.iter_mut().chain(&mut sample.stolen).for_each(|(_, ns)| *ns = limit);
    sample.page_faults.iter_mut().for_each(|(_, count)| *count = limit);
    sample.drops.iter_mut().for_each(|(_, _, count)| *count = limit);
    Arc::new(frame)
}

#[test]
fn figures_of_any_size_are_drawn() {
    let look = ScreenLook { seconds: 60.0, ..ScreenLook::default() };
    let mut app = App::new(Screen::Victims, look, Duration::from_secs(1));
    let mut terminal = Terminal::new(TestBackend::new(160, 50)).unwrap();
    for number in 0..8 {
        app.take(at_the_limit(number, if number % 2 == 0 { 0 } else { u64::MAX }));
    }
    for screen in SCREENS {
        let number = screen.index() + 1;
        for keys in [format!("{number}"), "\n".to_owned(), "\u{1b}".to_owned()] {
            press(&mut app, &keys);
            terminal.draw(|frame| draw(frame, &mut app, Theme { colour: true })).unwrap();
        }
    }
}

#[test]
fn a_selected_row_that_goes_leaves_the_selection_in_its_place() {
    let mut app = app(10, 8);
    press(&mut app, "G");
    for number in 10..30 {
        app.take(frame(number, 3));
    }
    assert_eq!(keys(&app).len(), 3);
    assert!(selected(&app).is_some());
    press(&mut app, "/no such row\n");
    assert_eq!(app.view().selected(&app.shown), None);
    assert_eq!(press(&mut app, "jk\n"), Action::None);
    press(&mut app, "\u{1b}");
    assert!(selected(&app).is_some());
}

#[test]
fn a_filter_is_kept_by_enter_and_dropped_by_escape() {
    let mut app = app(10, 8);
    press(&mut app, "/WEBx\u{8}");
    assert_eq!(keys(&app), ["/system.slice/web.service"], "while it is typed");
    press(&mut app, "\n");
    assert_eq!(keys(&app).len(), 1);
    press(&mut app, "4");
    assert_eq!(keys(&app).len(), 8, "each screen has its own");
    press(&mut app, "1/");
    assert_eq!(app.typing.as_ref().map(|typing| typing.text.as_str()), Some("WEB"));
    press(&mut app, "\u{1b}");
    assert_eq!(keys(&app).len(), 8);
    assert_eq!(press(&mut app, "/q"), Action::None, "q is typed");
    assert_eq!(press(&mut app, "\u{1b}q"), Action::Quit);
}

#[test]
fn a_pause_holds_what_is_shown_while_frames_go_on() {
    let mut app = app(10, 8);
    press(&mut app, " ");
    let before = app.shown.clone();
    for number in 10..15 {
        app.take(frame(number, 4));
    }
    assert_eq!(app.shown, before);
    press(&mut app, "\t1");
    assert_eq!(app.shown, before, "other screens are of the same time");
    press(&mut app, "p");
    assert_eq!(keys(&app).len(), 4);
    assert_eq!(app.history().latest().map(|frame| frame.sample.at_ns), Some(1_014_000_000_000));
}

#[test]
fn intervals_go_by_steps_from_a_tenth_of_a_second_to_a_minute() {
    let mut app = app(1, 1);
    let mut slower = Vec::new();
    while let Action::SetInterval(interval) = press(&mut app, "+") {
        slower.push(interval.as_secs_f64());
    }
    assert_eq!(slower, [2.0, 5.0, 10.0, 30.0, 60.0]);
    while press(&mut app, "-") != Action::None {}
    assert_eq!(app.interval(), Duration::from_millis(100));
}

#[test]
fn a_reset_counts_from_the_newest_frame_on() {
    let mut app = app(10, 2);
    press(&mut app, "r");
    app.take(frame(10, 2));
    app.take(frame(11, 2));
    assert_eq!(app.history().steps_since(app.look().from_ns(app.history())).count(), 2);
    press(&mut app, "t");
    assert_eq!(*app.look(), ScreenLook::default());
    // A clock that begins anew ends a reset.
    press(&mut app, "r");
    app.take(frame(0, 2));
    assert_eq!(app.look().since_ns, 0);
}

#[test]
fn enter_opens_a_page_which_follows_the_frames_until_its_row_is_gone() {
    let mut app = app(10, 8);
    press(&mut app, "s/vm-7\n\n");
    let opened = app.page.clone().unwrap();
    assert_eq!(opened.key, "/machine.slice/vm-7.scope");
    app.take(frame(10, 8));
    assert_ne!(app.page.as_ref().unwrap().page, opened.page);
    for number in 11..30 {
        app.take(frame(number, 4));
    }
    assert!(app.page.as_ref().unwrap().gone);
    press(&mut app, "\u{1b}");
    assert!(app.page.is_none());
    assert!(keys(&app).is_empty(), "the filter is still there");
}

#[test]
fn a_replay_seeks_and_stands_still_when_it_is_paused() {
    let mut app = app(3, 2);
    assert_eq!(press(&mut app, "→"), Action::None, "no replay, no seeking");
    app.status.replay = Some(Position { index: 2, frames: 9 });
    assert_eq!(press(&mut app, "→"), Action::Step(1));
    assert_eq!(app.handle(KeyEvent::new(KeyCode::Left, KeyModifiers::SHIFT)), Action::Step(-10));
    assert!(matches!(press(&mut app, "⇤"), Action::Step(steps) if steps < -1_000_000));
    let noon = "2026-03-04T12:34:00Z".parse().unwrap();
    assert_eq!(press(&mut app, "@12:34\n"), Action::SeekTo(noon));
    assert_eq!(press(&mut app, "@noon\n"), Action::None);
    assert!(app.message.is_some());
    press(&mut app, "p");
    app.restart(frames(5, 3).collect());
    assert_eq!(keys(&app).len(), 3, "a seek is shown though it is paused");
}

#[test]
fn trouble_is_reported_until_the_next_frame() {
    let mut app = app(3, 2);
    let before = app.shown.clone();
    app.trouble("connection refused".to_owned());
    assert_eq!(app.shown, before);
    app.take(frame(3, 2));
    assert_eq!(app.status.trouble, None);
}

#[test]
fn what_is_exported_is_what_is_shown() {
    let mut app = app(10, 8);
    press(&mut app, "/web\n");
    let json = app.export();
    assert_eq!(json["version"], 2);
    assert_eq!(json["screen"], "victims");
    assert_eq!(json["host"], "db1.example");
    assert_eq!(json["time"], "2026-03-04T12:00:09Z");
    assert_eq!(json["rows"].as_array().unwrap().len(), 1);
    assert_eq!(json["rows"][0]["cgroup"], "/system.slice/web.service");
    assert!(json["rows"][0]["lost_seconds_per_second"].is_number());
    assert_eq!(json["rows"][0]["seconds_over_time"].as_array().unwrap().len(), 9);
    assert_eq!(app.export_name(), "noised-victims-20260304T120009000Z.json");
    press(&mut app, "\n");
    let page = app.export();
    assert_eq!(page["title"], "/system.slice/web.service in detail");
    let bounds = page["blocks"][1]["heatmap"]["bounds_seconds"].as_array().unwrap();
    assert_eq!(bounds[0], 256e-9);
    assert!(bounds.last().unwrap().is_null());
    press(&mut app, "\u{1b}\u{1b}s");
    let first = app.export()["rows"][0]["cgroup"].clone();
    assert_eq!(Some(first.as_str().unwrap()), keys(&app).first().map(String::as_str));
}

#[test]
fn what_is_exported_says_how_much_time_it_covers() {
    let mut app = app(1, 2);
    assert_eq!(app.export()["seconds"], 0.0);
    for (last, seconds) in [(1, 1.0), (2, 2.0), (9, 7.0), (10, 8.0)] {
        app.take(frame(last, 2));
        assert_eq!(app.export()["seconds"], seconds, "{last}");
    }
    press(&mut app, "r");
    // The newest step counts in any case.
    assert_eq!(app.export()["seconds"], 1.0);
    app.take(frame(13, 2));
    assert_eq!(app.export()["seconds"], 3.0);
    press(&mut app, "8");
    assert_eq!(app.export()["seconds"], 0.0);
    app.watched(Services::Watched(Watched { seconds: 2.5, ..Watched::default() }));
    assert_eq!(app.export()["seconds"], 2.5);
}

#[test]
fn columns_are_found_by_what_they_are_called() {
    let mut app = app(3, 2);
    assert_eq!(app.sort_by("p99_seconds"), Ok(()));
    assert_eq!(app.shown.sort.column, 3);
    assert_eq!(app.sort_by("Two Minutes"), Ok(()));
    assert_eq!(app.shown.sort.column, 5);
    assert!(app.sort_by("nothing").is_err_and(|error| error.contains("p99")));
}

fn any_key() -> impl Strategy<Value = KeyEvent> {
    let known: Vec<char> = "qh?123456jkgGsSatprew/@<>+-= ".chars().collect();
    let code = prop_oneof![
        8 => select(known).prop_map(KeyCode::Char),
        1 => any::<char>().prop_map(KeyCode::Char),
        6 => select(vec![
            KeyCode::Up, KeyCode::Down, KeyCode::PageUp, KeyCode::PageDown, KeyCode::Home,
            KeyCode::End, KeyCode::Left, KeyCode::Right, KeyCode::Enter, KeyCode::Esc,
            KeyCode::Tab, KeyCode::BackTab, KeyCode::Backspace, KeyCode::Delete, KeyCode::F(1),
        ]),
    ];
    let modifiers = prop_oneof![
        6 => Just(KeyModifiers::NONE),
        1 => Just(KeyModifiers::SHIFT),
        1 => Just(KeyModifiers::CONTROL),
    ];
    (code, modifiers).prop_map(|(code, modifiers)| KeyEvent::new(code, modifiers))
}

/// What happens to a view.
#[derive(Clone, Debug)]
enum Event {
    Key(KeyEvent),
    Frame(u64),
    Size(u16, u16),
    Trouble,
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        12 => any_key().prop_map(Event::Key),
        2 => (0u64..30).prop_map(Event::Frame),
        1 => (1u16..140, 1u16..50).prop_map(|(width, height)| Event::Size(width, height)),
        1 => Just(Event::Trouble),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn whatever_happens_there_is_something_to_draw(
        events in proptest::collection::vec(any_event(), 1..80),
        replay: bool,
    ) {
        let mut app = app(2, 2);
        app.status.replay = replay.then_some(Position { index: 0, frames: 2 });
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        for (number, event) in events.into_iter().enumerate() {
            match event {
                Event::Key(key) => drop(app.handle(key)),
                Event::Frame(cgroups) => app.take(frame(2 + number as u64, cgroups)),
                Event::Size(width, height) => terminal.backend_mut().resize(width, height),
                Event::Trouble => app.trouble("gone\u{1b}".to_owned()),
            }
            terminal.draw(|frame| draw(frame, &mut app, Theme { colour: true })).unwrap();
            let rows = app.shown.order.len();
            match app.view().selected(&app.shown) {
                Some(at) => prop_assert!(at < rows),
                None => prop_assert!(rows == 0),
            }
            prop_assert!(app.view().offset <= rows);
            let symbols = terminal.backend().buffer().content.iter().map(|cell| cell.symbol());
            for symbol in symbols {
                prop_assert!(!symbol.contains(char::is_control), "{symbol:?}");
            }
        }
    }
}

#[test]
fn why_a_victim_is_slow_is_asked_on_its_page_and_shown_until_one_goes_back() {
    let mut app = App::new(Screen::Who, ScreenLook::default(), Duration::from_secs(1));
    frames(10, 4).for_each(|frame| app.take(frame));
    // A row of a pair, whichever is there.
    let Some(victim) = (0..20).find_map(|_| {
        press(&mut app, "\n");
        match press(&mut app, "\n") {
            Action::Why(victim) => Some(victim),
            _ => {
                press(&mut app, "\u{1b}j");
                None
            }
        }
    }) else {
        panic!("no row has a victim");
    };
    app.explain("another", Ok("not asked".to_owned()));
    assert!(!app.page.as_ref().unwrap().is_fixed);
    app.explain(&victim, Err("no daemon".to_owned()));
    assert_eq!(app.message.as_ref().unwrap().0, "no daemon");
    app.explain(&victim, Ok("first\n  second".to_owned()));
    let lines = vec!["first".to_owned(), "  second".to_owned()];
    for _ in 0..2 {
        let opened = app.page.as_ref().unwrap();
        assert_eq!(
            (opened.page.blocks.as_slice(), opened.gone),
            (&[Block::Lines(lines.clone())][..], false)
        );
        // It stays while frames come; Enter does no more.
        app.take(frame(11, 4));
        assert_eq!(press(&mut app, "\n"), Action::None);
    }
    press(&mut app, "\u{1b}");
    assert!(app.page.is_none());
    app.explain(&victim, Ok("too late".to_owned()));
    assert!(app.page.is_none());
}
