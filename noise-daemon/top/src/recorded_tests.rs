//! Golden screens of frames that were recorded on a real host, while a backup ran beside a web service.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use noise_wire::Recording;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent};

use super::app::App;
use super::draw::draw;
use super::draw::theme::Theme;
use super::{SCREENS, Screen, ScreenLook};

fn app(screen: Screen) -> App {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/fixtures/backup.frames");
    let recording = Recording::open(&path).unwrap();
    assert!(recording.len() > 4, "{} frames", recording.len());
    let mut app = App::new(screen, ScreenLook::default(), Duration::from_secs(1));
    app.status.source = "backup.frames".to_owned();
    for index in 0..recording.len() {
        app.take(Arc::new(recording.frame(index).unwrap()));
    }
    app
}

fn shown(app: &mut App, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, app, Theme { colour: true })).unwrap();
    let text = terminal.backend().to_string();
    text.lines().map(|line| format!("{}\n", line.trim_matches('"').trim_end())).collect()
}

#[test]
fn every_screen() {
    for screen in SCREENS {
        let mut app = app(screen);
        insta::assert_snapshot!(format!("recorded_{}_80", screen.name()), shown(&mut app, 80, 24));
        insta::assert_snapshot!(
            format!("recorded_{}_130", screen.name()),
            shown(&mut app, 130, 30)
        );
    }
}

#[test]
fn what_the_first_row_of_every_screen_opens() {
    for screen in SCREENS {
        let mut app = app(screen);
        app.handle(KeyEvent::from(KeyCode::Enter));
        insta::assert_snapshot!(
            format!("recorded_{}_opened", screen.name()),
            shown(&mut app, 110, 45)
        );
    }
}

#[test]
fn the_planted_culprit_is_reported() {
    let mut app = app(Screen::Who);
    let text = shown(&mut app, 130, 30);
    assert!(
        text.lines().any(|line| line.contains("web.service") && line.contains("backup.service"))
    );
    let mut app = self::app(Screen::Incidents);
    assert!(shown(&mut app, 130, 30).contains("backup.service (another cgroup)"));
}
