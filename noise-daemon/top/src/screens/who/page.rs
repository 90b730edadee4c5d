//! One victim and one culprit over time.

use std::collections::BTreeMap;

use noise_common::charge::{Cause, Charged, Resource};
use noise_model::labels::{OTHER, spoken, spoken_briefly};
use noise_model::words::culprit_briefly;
use noise_model::{Amount as _, Interference};
use noise_text::units;
use noise_verdict::called;

use super::{Accounts, names, trends};
use crate::pairs::Cost;
use crate::screens::recent::Recent;
use crate::screens::{cells, tally, threads, totals};
use crate::{Block, Cell, History, Page, ScreenLook, Table, TableRow, Tone};

/// What the row with that key opens.
pub fn page(history: &History, look: &ScreenLook, row: &str) -> Option<Page> {
    let (victim, culprit) = names(row)?;
    let accounts = Accounts::new(history, look);
    if [victim, culprit] == [OTHER; 2] {
        return rest(&accounts);
    }
    let id = history.pairs().id(victim, culprit)?;
    let costs = || history.pairs().costs_of(id).rev();
    let mut cost = Cost::default();
    costs().take(accounts.recent.steps.len()).flatten().for_each(|one| cost.add(&one));
    let charges = charges(&accounts.recent, victim, culprit);
    let times = charges.iter().map(|((_, cause, _), charged)| (*cause, charged.ns));
    let cause = totals::main_cause(times).or_else(|| costs().flatten().next()?.causes().next());
    let lines = vec![
        (sentence(&accounts.recent, victim, culprit, &cost, cause), Tone::Strong),
        (measure(&accounts, &cost), Tone::Plain),
        (preemptions(&accounts.recent, spoken(victim), spoken(culprit), &cost), Tone::Plain),
    ];
    let trend = trends(history, &[id]).into_iter().next().unwrap_or_default();
    let mut blocks = vec![
        Block::Text(lines),
        tally::graph("Lost per second", trend, units::lost),
        Block::Table(table(&accounts.recent, &charges, cost.ns)),
    ];
    blocks.extend(threads::of_pair(history, victim, culprit));
    let culprit = cause.map_or(culprit, |cause| culprit_briefly(cause, culprit));
    Some(Page { title: format!("{culprit} delays {}", spoken_briefly(victim)), blocks })
}

fn rest(accounts: &Accounts<'_>) -> Option<Page> {
    let account = accounts.shown.iter().find(|one| [one.victim, one.culprit] == [OTHER; 2])?;
    let lost = units::lost(accounts.recent.lost(account.cost.ns));
    let lines = vec![
        (format!("All that have no row of their own lost {lost} together."), Tone::Strong),
        (measure(accounts, &account.cost), Tone::Plain),
    ];
    Some(Page {
        title: "All others".to_owned(),
        blocks: vec![
            Block::Text(lines),
            tally::graph("Lost per second", account.trend.clone(), units::lost),
        ],
    })
}

/// What the pair did in the time that is looked at, summed up over its steps.
fn charges<'a>(
    recent: &Recent<'a>,
    victim: &str,
    culprit: &str,
) -> BTreeMap<(Resource, Cause, &'a str), Charged> {
    let mut sums: BTreeMap<_, Charged> = BTreeMap::new();
    let all = recent.steps.iter().flat_map(|step| &step.charges);
    let own = all.filter(|one| {
        one.resource != Resource::Preemption && *one.victim == *victim && *one.culprit == *culprit
    });
    for Interference { resource, cause, place, charged, .. } in own {
        sums.entry((*resource, *cause, &**place)).or_default().add(charged);
    }
    sums
}

fn sentence(
    recent: &Recent<'_>,
    victim: &str,
    culprit: &str,
    cost: &Cost,
    cause: Option<Cause>,
) -> String {
    let culprit = cause.map_or(culprit, |cause| called(cause, culprit));
    let victim = spoken(victim);
    if cost.delays == 0 && cost.ns == 0 {
        return format!(
            "{victim} lost nothing to {culprit} in the last {}.",
            cells::length(recent.seconds)
        );
    }
    let lost = units::lost(recent.lost(cost.ns));
    match cause {
        Some(Cause::Foreign | Cause::Kthread) | None => {
            format!("{victim} waited {lost} behind {culprit}.")
        }
        Some(Cause::Own) => format!("{victim} waited {lost} behind other work of its own."),
        Some(Cause::Hardirq) => format!("{victim} lost {lost} to the interrupt {culprit}."),
        Some(Cause::Softirq) => format!("{victim} lost {lost} to the softirq {culprit}."),
        Some(Cause::Nmi) => format!("{victim} lost {lost} to non-maskable interrupts."),
        Some(Cause::Throttle) => format!("{victim} was held back {lost} by a CPU quota."),
        Some(Cause::Steal) => format!("{victim} lost {lost} to the hypervisor."),
        Some(Cause::Idle) => format!(
            "{victim} waited {lost} for CPUs that were idle: they were waking up, or not chosen."
        ),
        Some(Cause::Writeback) if culprit == victim => {
            format!("{victim} slept {lost} behind what it wrote itself.")
        }
        Some(Cause::Writeback) => format!("{victim} slept {lost} behind what {culprit} wrote."),
        Some(Cause::Iowait) => format!("{victim} slept {lost} until I/O was done."),
        Some(Cause::Untracked) => {
            format!("{victim} waited {lost}, and it is not known for whom.")
        }
    }
}

fn measure(accounts: &Accounts<'_>, cost: &Cost) -> String {
    let recent = &accounts.recent;
    let part = units::share(cells::ratio(cost.ns as f64, accounts.lost_ns as f64));
    let mut text = format!(
        "That is {part} of all that was lost in the last {}, in {} parts",
        cells::length(recent.seconds),
        units::count(cost.delays),
    );
    if cost.delays > 0 {
        let mean = units::duration(cost.ns as f64 / cost.delays as f64);
        text.push_str(&format!(" of {mean} each on average"));
    }
    text.push('.');
    text
}

fn preemptions(recent: &Recent<'_>, victim: &str, culprit: &str, cost: &Cost) -> String {
    match cost.preemptions {
        0 => format!("{culprit} never took a CPU from {victim} in that time."),
        count => format!(
            "{} times ({}) {culprit} took a CPU that {victim} had and could have used on.",
            units::count(count),
            units::per_second(recent.per_second(count as f64))
        ),
    }
}

fn table(
    recent: &Recent<'_>,
    charges: &BTreeMap<(Resource, Cause, &str), Charged>,
    whole_ns: u64,
) -> Table {
    let columns = vec![
        cells::names("cause", "cause", 9).help("Why."),
        cells::names("resource", "resource", 12).help("What the victim waited for, or lost."),
        cells::names("place", "place", 8).grows().help("The device or interface."),
        cells::numbers("lost", "seconds", 9).help("Time that was lost."),
        cells::pictures("share", "share", 11).help("Its part of what the culprit took."),
        cells::numbers("parts", "parts", 8)
            .help("Parts of delays: one for each turn of the culprit within a delay."),
        cells::numbers("mean", "mean_seconds", 8).help("How long one part is."),
    ];
    let row =
        |((resource, cause, place), charged): (&(Resource, Cause, &str), &Charged)| TableRow {
            key: format!("{} {} {place}", resource.name(), cause.name()),
            cells: vec![
                cells::text(cause.name()),
                cells::text(resource.name()),
                match place.is_empty() {
                    true => cells::text("CPUs"),
                    false => Cell::Text((*place).to_owned()),
                },
                cells::duration(charged.ns as f64),
                cells::share(charged.ns as f64, whole_ns as f64),
                cells::count(charged.count),
                cells::mean(charged.ns, charged.count),
            ],
            tone: Tone::Plain,
        };
    Table {
        title: format!("In the last {}", cells::length(recent.seconds)),
        columns,
        rows: charges.iter().map(row).collect(),
        sorted_by: 3,
        empty: "Nothing in that time.".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screens::made::Made;
    use crate::screens::who::key;

    fn opened(made: &Made, victim: &str, culprit: &str) -> Page {
        page(&made.history, &ScreenLook::default(), &key(victim, culprit)).unwrap()
    }

    fn lines(page: &Page) -> Vec<&str> {
        let Some(Block::Text(lines)) = page.blocks.first() else { panic!("{page:?}") };
        lines.iter().map(|(line, _)| line.as_str()).collect()
    }

    #[test]
    fn a_pair_is_reported_in_words_and_numbers() {
        let mut made = Made::new();
        made.frame();
        for _ in 0..5 {
            made.foreign(Resource::Cpu, "", "web", "batch", 300_000_000, 30);
            made.foreign(Resource::BlockQueue, "vda", "web", "batch", 100_000_000, 10);
            made.foreign(Resource::Preemption, "", "web", "batch", 0, 7);
            made.foreign(Resource::Cpu, "", "db", "batch", 400_000_000, 10);
            made.frame();
        }
        let page = opened(&made, "web", "batch");
        let (lost, mean) = (units::lost(0.4), units::duration(1e7));
        let lines = lines(&page);
        assert_eq!(lines[0], format!("web waited {lost} behind batch."));
        assert!(lines[1].contains(&units::share(0.5)) && lines[1].contains(&mean), "{}", lines[1]);
        assert!(lines[2].starts_with(&units::count(35)), "{}", lines[2]);
        let Block::Graph { values, largest, .. } = &page.blocks[1] else { panic!("{page:?}") };
        assert_eq!((values.as_slice(), largest), ([0.4; 5].as_slice(), &lost));
        let Block::Table(table) = &page.blocks[2] else { panic!("{page:?}") };
        let shares: Vec<&Cell> = table.rows.iter().map(|row| &row.cells[4]).collect();
        assert_eq!(shares, [&Cell::Share(0.75), &Cell::Share(0.25)]);
        let number = |row: usize, cell: usize| match &table.rows[row].cells[cell] {
            Cell::Number { value, .. } => value.unwrap(),
            other => panic!("{other:?}"),
        };
        assert_eq!((number(0, 3), number(0, 5), number(0, 6)), (1.5, 150.0, 0.01));
        assert_eq!(table.rows[1].cells[2], Cell::Text("vda".to_owned()));
    }

    #[test]
    fn each_cause_has_its_words() {
        let mut made = Made::new();
        made.frame();
        for (cause, culprit) in [
            (Cause::Own, "web"),
            (Cause::Writeback, "writer"),
            (Cause::Hardirq, "nvme0q1"),
            (Cause::Softirq, "net_rx"),
            (Cause::Throttle, "throttle"),
            (Cause::Idle, "idle"),
            (Cause::Untracked, "untracked"),
        ] {
            made.charge(Resource::Cpu, cause, "", "web", culprit, 1_000, 1);
        }
        made.frame();
        for (culprit, words) in [
            ("web", "of its own"),
            ("writer", "behind what writer wrote"),
            ("nvme0q1", "to the interrupt nvme0q1"),
            ("net_rx", "to the softirq net_rx"),
            ("throttle", "a CPU quota"),
            ("idle", "CPUs that were idle"),
            ("untracked", "not known for whom"),
        ] {
            let page = opened(&made, "web", culprit);
            assert!(lines(&page)[0].contains(words), "{page:?}");
        }
    }

    #[test]
    fn one_that_does_nothing_now_is_reported_as_such() {
        let mut made = Made::new();
        made.frame();
        made.foreign(Resource::Cpu, "", "a", "b", 1_000, 1);
        (0..10).for_each(|_| made.frame());
        let page = opened(&made, "a", "b");
        assert!(lines(&page)[0].starts_with("a lost nothing to b"), "{page:?}");
        let Block::Table(table) = &page.blocks[2] else { panic!("{page:?}") };
        assert!(table.rows.is_empty());
        assert!(super::page(&made.history, &ScreenLook::default(), "no key").is_none());
        assert!(super::page(&made.history, &ScreenLook::default(), &key("a", "c")).is_none());
        assert!(super::page(&made.history, &ScreenLook::default(), &key(OTHER, OTHER)).is_none());
    }

    #[test]
    fn the_rest_opens_too() {
        let mut made = Made::new();
        made.frame();
        made.foreign(Resource::Cpu, "", OTHER, OTHER, 250_000_000, 1);
        made.frame();
        let page = opened(&made, OTHER, OTHER);
        assert!(lines(&page)[0].contains(&units::lost(0.25)), "{page:?}");
        let Block::Graph { values, .. } = &page.blocks[1] else { panic!("{page:?}") };
        assert_eq!(values, &[0.25]);
    }
}
