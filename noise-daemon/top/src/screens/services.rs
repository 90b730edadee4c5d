//! A map of services in text: which waits for which, how often, and how long each takes itself.

use noise_text::units;

use super::cells;
use crate::services::{ServiceLink, Services, Watched};
use crate::{Block, Column, History, Page, Table, TableRow, Tone};

/// What stands for those who ask from elsewhere.
const ELSEWHERE: &str = "elsewhere";

fn columns() -> Vec<Column> {
    vec![
        cells::names("who asks", "caller", 12)
            .help("The service that waits; elsewhere: not on this host."),
        cells::names("whom", "service", 12).grows().help(
            "The service that is asked: a process with its port, or with what else requests \
             come by.",
        ),
        cells::numbers("rate", "rate_per_second", 8).help("Answered requests in a second."),
        cells::numbers("true p50", "true_latency_p50_seconds", 8).help(
            "Half of them took that long at most, without what the service waited for others.",
        ),
        cells::numbers("p99", "true_latency_p99_seconds", 7).help("The same of 99 of 100."),
        cells::numbers("busy", "true_latency_seconds_per_second", 8)
            .help("True latency of all of them in each second: of two at once, both count."),
        cells::numbers("idle", "idle_mean_seconds", 7)
            .help("Mean length of the stretches in which they had no CPU."),
        cells::numbers("reached", "reach_p50_seconds", 7)
            .help("Half of them were waited with so long at most, until the service came to them."),
        cells::numbers("r. p99", "reach_p99_seconds", 7).help("The same of 99 of 100."),
        cells::numbers("whole p50", "latency_p50_seconds", 9)
            .help("Half of them took that long at most, all in all."),
        cells::numbers("w. p99", "latency_p99_seconds", 7).help("The same of 99 of 100."),
    ]
}

fn caller(link: &ServiceLink) -> &str {
    if link.caller.is_empty() { ELSEWHERE } else { &link.caller }
}

fn key(link: &ServiceLink) -> String {
    format!("{} > {}", caller(link), link.service)
}

fn row(link: &ServiceLink) -> TableRow {
    let time = |ns: u64| cells::duration(ns as f64);
    let cells = vec![
        cells::text(caller(link)),
        cells::text(link.service.as_str()),
        cells::rate(link.rate),
        time(link.true_p50_ns),
        time(link.true_p99_ns),
        cells::lost(link.busy),
        time(link.idle_mean_ns),
        time(link.reach_p50_ns),
        time(link.reach_p99_ns),
        time(link.latency_p50_ns),
        time(link.latency_p99_ns),
    ];
    TableRow { key: key(link), cells, tone: Tone::Plain }
}

fn shown<'l>(title: String, links: impl Iterator<Item = &'l ServiceLink>, empty: &str) -> Table {
    let rows = links.map(row).collect();
    let empty = empty.to_owned().into();
    Table { title, columns: columns(), rows, sorted_by: 5, empty }
}

fn title(watched: &Watched) -> String {
    let seconds = units::duration(watched.seconds * 1e9);
    let lost = match watched.lost {
        0 => String::new(),
        lost => format!("; {} events were lost: some are missing", units::count(lost)),
    };
    format!("Who waits for whom, {seconds}{lost}")
}

/// A row for each service and who asks it.
pub fn table(history: &History) -> Table {
    let none = || [].iter();
    match history.services() {
        Services::Unknown => shown(
            "Who waits for whom".to_owned(),
            none(),
            "System calls are watched; the first requests come in some seconds.",
        ),
        Services::Watched(watched) => {
            shown(title(watched), watched.links.iter(), "No request was answered in that time.")
        }
        Services::Impossible(why) => shown("Who waits for whom".to_owned(), none(), why),
    }
}

/// Who asks a service, and whom it asks.
pub fn open(history: &History, wanted: &str) -> Option<Page> {
    let Services::Watched(watched) = history.services() else { return None };
    let found = watched.links.iter().find(|link| key(link) == wanted)?;
    let service = &found.service;
    let asked = watched.links.iter().filter(|link| link.service == *service);
    let asks = watched.links.iter().filter(|link| link.caller == *service);
    let blocks = vec![
        Block::Table(shown("Who asks it".to_owned(), asked, "")),
        Block::Table(shown("Whom it asks".to_owned(), asks, "It asks no one.")),
    ];
    Some(Page { title: service.clone(), blocks })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history() -> History {
        let link = |caller: &str, service: &str, busy| ServiceLink {
            caller: caller.to_owned(),
            service: service.to_owned(),
            rate: 100.0,
            true_p50_ns: 1_000_000,
            busy,
            ..ServiceLink::default()
        };
        let links = vec![
            link("", "nginx :80", 0.1),
            link("nginx :80", "app :8000", 0.4),
            link("app :8000", "redis-server :6379", 0.01),
            link("cron", "app :8000", 0.001),
        ];
        let mut history = History::default();
        history.watched(Services::Watched(Watched { seconds: 2.0, lost: 0, links }));
        history
    }

    #[test]
    fn a_row_is_who_asks_whom_and_opens_both_sides() {
        let history = history();
        let table = table(&history);
        assert_eq!(table.title, "Who waits for whom, 2.00 s");
        let keys: Vec<&str> = table.rows.iter().map(|row| row.key.as_str()).collect();
        let expected = [
            "elsewhere > nginx :80",
            "nginx :80 > app :8000",
            "app :8000 > redis-server :6379",
            "cron > app :8000",
        ];
        assert_eq!(keys, expected);
        let page = open(&history, "nginx :80 > app :8000").unwrap();
        assert_eq!(page.title, "app :8000");
        let rows = |block: &Block| match block {
            Block::Table(table) => table.rows.iter().map(|row| row.key.clone()).collect(),
            _ => Vec::new(),
        };
        let both: Vec<_> = page.blocks.iter().map(rows).collect();
        assert_eq!(both[0], ["nginx :80 > app :8000", "cron > app :8000"]);
        assert_eq!(both[1], ["app :8000 > redis-server :6379"]);
        assert!(open(&history, "x > y").is_none());
    }

    #[test]
    fn why_nothing_is_watched_is_said_in_place_of_rows() {
        let mut history = History::default();
        assert!(table(&history).empty.starts_with("System calls are watched"));
        history.watched(Services::Impossible("needs root".to_owned()));
        assert_eq!(table(&history).empty, "needs root");
    }
}
