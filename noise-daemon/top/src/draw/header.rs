//! PURE: the lines above a screen: where and when, the screens, what needs attention.

use jiff::Timestamp;
use noise_analysis::Report;
use noise_common::charge::Cause;
use noise_model::labels::spoken_briefly;
use noise_model::words::{culprit_briefly, why_briefly};
use noise_text::bars::{percent, roughly};
use noise_text::clean::clean;
use noise_text::columns::{cut, pad, shorten, width};
use noise_text::times;
use ratatui::text::{Line, Span};

use super::theme::Theme;
use crate::app::App;
use crate::{SCREENS, Screen, Tone};

/// Incidents that the strip names.
const NAMED: usize = 3;

/// Two texts at both ends of a line.
pub fn ends(left: Line<'static>, right: Line<'static>, columns: usize) -> Line<'static> {
    let blanks = columns.saturating_sub(left.width() + right.width());
    let style = left.style;
    let mut spans = left.spans;
    spans.push(Span::raw(" ".repeat(blanks)));
    spans.extend(right.spans);
    Line::from(spans).style(style)
}

/// An interval as it is set.
fn seconds(interval: std::time::Duration) -> String {
    format!("{} s", interval.as_secs_f64())
}

/// Where, when, how often.
pub fn header(app: &App, columns: usize, theme: Theme) -> Line<'static> {
    let frame = app.history().latest();
    let time = frame.map(|frame| times::of_day(frame.time, &app.look().zone));
    let every = format!("every {}", seconds(app.interval()));
    let right = [time.unwrap_or_default(), every].join("  ");
    let host = frame.map(|frame| &frame.host);
    let name = host.map_or_else(String::new, |host| clean(&host.name).into_owned());
    let noised = host.map_or_else(String::new, |host| clean(&host.noised).into_owned());
    let kernel = host.map_or_else(String::new, |host| clean(&host.kernel).into_owned());
    let source = shorten(&app.status.source, 40);
    // What does not fit goes, the least needed first.
    let mut parts = vec![name, kernel, noised, source];
    let room = columns.saturating_sub(width(&right) + 2 + "noised  ".len());
    let used = |parts: &[String]| parts.iter().map(|part| width(part) + 2).sum::<usize>();
    for part in [2, 1, 3] {
        if used(&parts) > room
            && let Some(part) = parts.get_mut(part)
        {
            part.clear();
        }
    }
    if let Some(name) = parts.first_mut() {
        *name = shorten(name, room);
    }
    let [name, kernel, noised, source] = &parts[..] else { return Line::default() };
    let noised = if noised.is_empty() { "noised".to_owned() } else { format!("noised {noised}") };
    let mut left = vec![Span::styled(noised, theme.title())];
    for (text, style) in [
        (name, theme.tone(Tone::Strong)),
        (kernel, theme.tone(Tone::Plain)),
        (source, theme.tone(Tone::Dim)),
    ] {
        if !text.is_empty() {
            left.push(Span::raw("  "));
            left.push(Span::styled(text.clone(), style));
        }
    }
    ends(Line::from(left), Line::raw(right), columns)
}

/// The screens, close to each other where there is little room.
fn tabs(app: &App, columns: usize, theme: Theme) -> Line<'static> {
    let open = open_incidents(app).count();
    let tab = |screen: Screen, title: &str, after: &'static str| {
        let alarm = screen == Screen::Incidents && open > 0;
        let count = if alarm { format!(" {open}") } else { String::new() };
        let text = format!(" {} {title}{count}{after}", screen.index() + 1);
        let style = theme.tone(if alarm { Tone::Alarm } else { Tone::Plain });
        let chosen = screen == app.screen();
        Span::styled(text, if chosen { style.patch(theme.selected()) } else { style })
    };
    let wide = Line::from_iter(SCREENS.map(|screen| tab(screen, screen.titles().0, " ")));
    let close = Line::from_iter(SCREENS.map(|screen| tab(screen, screen.titles().0, "")));
    [wide, close].into_iter().find(|line| line.width() <= columns).unwrap_or_else(|| {
        Line::from_iter(SCREENS.map(|screen| tab(screen, screen.titles().1, "")))
    })
}

/// What is unusual about what is shown, in short.
fn marks(app: &App, theme: Theme) -> Line<'static> {
    let mut spans = Vec::new();
    let mut mark = |text: String, tone| {
        spans.push(Span::raw(" "));
        spans.push(Span::styled(text, theme.mark(tone)));
    };
    if app.dropped() > 0 {
        mark(format!(" {} EVENTS DROPPED ", app.dropped()), Tone::Alarm);
    }
    if let Some(position) = app.status.replay {
        mark(format!(" REPLAY {}/{} ", position.index + 1, position.frames), Tone::Strong);
    }
    if app.status.recording.is_some() {
        mark(" REC ".to_owned(), Tone::Strong);
    }
    if app.is_paused() {
        mark(" PAUSED ".to_owned(), Tone::Strong);
    }
    Line::from(spans)
}

/// The screens and the marks, in two lines where one has no room for them; and why nothing comes.
pub fn bars(app: &App, columns: usize, theme: Theme) -> Vec<Line<'static>> {
    let (tabs, marks) = (tabs(app, columns, theme), marks(app, theme));
    let mut lines = if tabs.width() + marks.width() <= columns {
        vec![ends(tabs, marks, columns)]
    } else if marks.spans.is_empty() {
        vec![tabs]
    } else {
        vec![tabs, ends(Line::default(), marks, columns)]
    };
    if let Some(why) = &app.status.trouble {
        let latest = app.history().latest();
        let since = latest.map(|frame| times::of_day(frame.time, &app.look().zone));
        let text = match since {
            Some(time) => format!(" STALE, of {time}: {why}"),
            None => format!(" NOTHING YET: {why}"),
        };
        lines
            .push(Line::styled(pad(&cut(&text, columns), columns, false), theme.mark(Tone::Alarm)));
    }
    lines
}

fn open_incidents(app: &App) -> impl Iterator<Item = &Report> {
    let reports = app.history().latest().map(|frame| frame.overview.incidents.iter());
    reports.into_iter().flatten().map(AsRef::as_ref).filter(|report| report.open)
}

/// Who is disturbed, and by whom or what, in so many columns: where one name is short, the other has the rest.
fn both(subject: &str, name: &str, columns: usize) -> String {
    let by = " by ";
    let room = columns.saturating_sub(width(by));
    let half = room / 2;
    let least = width(subject).min(width(name)).min(half);
    let most = if least < half { room - least } else { half };
    let [subject, name] = [subject, name].map(|name| shorten(name, most));
    subject + by + &name
}

/// An incident in a line: what changed most, where there is room for it; both names get what room is left.
fn incident_line(report: &Report, now: Timestamp, columns: usize) -> String {
    let headline = report.worst().headline().map(|headline| headline.short() + ", ");
    let whole = incident_words(report, now, headline.as_deref().unwrap_or_default(), usize::MAX);
    match width(&whole) <= columns {
        true => whole,
        false => incident_words(report, now, "", columns),
    }
}

fn incident_words(report: &Report, now: Timestamp, headline: &str, columns: usize) -> String {
    let (main, worst) = (&report.main, report.worst());
    let subject = if main.subject.is_empty() { "host" } else { spoken_briefly(&main.subject) };
    let lasts = roughly(now.duration_since(report.start()).as_secs_f64());
    let what = format!("! {}, {headline}for {lasts}: ", report.resource().name());
    let room = |how: &str| columns.saturating_sub(width(&what) + width(how));
    let Some(culprit) = report.leading() else {
        let whose = match report.limit() {
            Some(limit) => both(subject, &limit, room("")),
            None => clean(subject).into_owned(),
        };
        return what + &whose;
    };
    let share = percent(culprit.part(worst.nothing_beyond()).clamp(0.0, 1.0));
    let is_own = matches!(culprit.cause, Cause::Own | Cause::Writeback);
    if is_own && culprit.culprit == main.subject {
        let how = format!(" by itself ({share})");
        let subject = shorten(subject, room(&how));
        return what + &subject + &how;
    }
    let mut how = match culprit.cause {
        // At a disk, whose requests wait for each other is no other one.
        Cause::Own => format!(" ({share})"),
        cause => format!(" ({}, {share})", why_briefly(cause)),
    };
    let name = culprit_briefly(culprit.cause, &culprit.culprit);
    if width(&both(subject, name, usize::MAX)) > room(&how) {
        how = format!(" ({share})");
    }
    let parties = both(subject, name, room(&how));
    what + &parties + &how
}

/// The open incidents: what whom lacks, since when, by whom; behind those that have room, where the others are.
pub fn strip(app: &App, others: &str, columns: usize, theme: Theme) -> Vec<Line<'static>> {
    let now = app.history().latest().map(|frame| frame.time).unwrap_or_default();
    let mut reports: Vec<&Report> = open_incidents(app).collect();
    reports.sort_by_key(|report| std::cmp::Reverse((report.start(), report.id)));
    let line = |report: &&Report| {
        let text = incident_line(report, now, columns);
        Line::styled(cut(&text, columns), theme.tone(Tone::Alarm))
    };
    let mut lines: Vec<Line<'static>> = reports.iter().take(NAMED).map(line).collect();
    if let Some(more) = reports.len().checked_sub(NAMED).filter(|more| *more > 0) {
        let text = format!("! and {more} more: {others}");
        lines.push(Line::styled(text, theme.tone(Tone::Alarm)));
    }
    if lines.is_empty() && app.history().latest().is_some() {
        lines.push(Line::styled("no open incident", theme.tone(Tone::Dim)));
    }
    lines
}
