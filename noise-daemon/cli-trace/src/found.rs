//! The critical paths of executions in a recording, with for whom they wait.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::bail;
use noise_paths::blame::Blame;
use noise_paths::build::Builder;
use noise_paths::calls::{Calls, begins_call};
use noise_paths::document::{Delimiters, PathsDocument, traced};
use noise_paths::execution::{Execution, Finder, Wanted, find};
use noise_paths::feed;
use noise_paths::graph::{Graph, Who};
use noise_paths::several::Merged;
use noise_paths::walk::Walks;
use noise_trace::clock::TraceClock;
use noise_trace::crowd::{Crowd, MOST_THREADS, TooManyThreads};
use noise_trace::ctf::CtfReader;
use noise_trace::damage::Damage;
use noise_trace::delays::Delays;
use noise_trace::event::OLDEST_MARK_NS;
use noise_trace::record::Source;
use noise_trace::select::Select;
use noise_trace::summary::UnreadDocument;

use super::NO_CGROUPS;
use super::asked::{Asking, Reading, Sought};
use super::critical_path::picture::Picture;
use super::delimited::{WalkedExecutions, delimited};
use super::growing::Growing;
use super::recording::Recording;
use super::several::{self, PartReach, Together};
use super::variables;

/// Events after which what is not needed any more is forgotten.
const FORGET_EVENTS: u64 = if cfg!(test) { 16 } else { 1 << 16 };

/// Events beyond the asked time that are looked at to find out what ends a sleep.
const BEYOND_EVENTS: u64 = if cfg!(test) { LOOK_EVENTS } else { 1 << 20 };
/// How long behind the asked time marks may stand that are of it: as much older as a mark may be than its datagram, as much
/// later as that may be read, and a second until it is written.
const LATE_MARK_NS: u64 = 2 * OLDEST_MARK_NS + 1_000_000_000;
/// After so many of them it is looked whether any more are needed.
const LOOK_EVENTS: u64 = 1 << 10;

/// Threads that the graph holds at a time.
const MAX_HELD: u32 = if cfg!(test) { 1 << 8 } else { MOST_THREADS };
/// Parts of all paths together: about a gigabyte.
const MAX_PARTS: usize = if cfg!(test) { 1000 } else { 1 << 22 };

/// The paths in a recording, with those of other machines beside it, and what of each could not be read. They are drawn
/// where a picture was begun.
/// Errors: what was not found, or cannot be read or drawn.
pub fn found(
    asking: &Asking,
    recording: &Recording,
    others: &[PathBuf],
    mut picture: Option<Picture>,
) -> anyhow::Result<(PathsDocument, Vec<Damage>)> {
    let opened = several::open(recording, others)?;
    let begin_ns = || recording.first_ns();
    Ok(match recording {
        Recording::Ctf(ctf) => {
            let files = ctf.streams();
            let reader = || CtfReader::new(&ctf.layout, &files);
            let select = asking.select(begin_ns);
            let sought = asking.sought(&select, begin_ns);
            let shown = || recording.shown(reader(), false);
            let clock = ctf.layout.clocks.first().cloned().unwrap_or_else(TraceClock::epoch);
            if let Some(picture) = &mut picture {
                picture.of(&clock, &ctf.layout.env);
            }
            let together = Together::new(recording, ctf, &opened, others)?;
            let builder = builder(asking, Reading::of(&ctf.layout.env), together.builder());
            let found = all(together.read(), builder, select, &sought)?;
            let (mut document, damages) = blamed(together.read(), found);
            variables::name(&mut document.executions, &ctf.layout.env);
            picture.map(|picture| picture.finish(&document, shown())).transpose()?;
            (document, damages)
        }
        Recording::Text(text) => {
            let select = asking.select(begin_ns);
            let sought = asking.sought(&select, begin_ns);
            let shown = || recording.shown(text.reader(), false);
            let builder = builder(asking, Reading::Events, Builder::new(text.waker()));
            let found = all(Merged::one(shown()), builder, select, &sought)?;
            let (mut document, damages) = blamed(Merged::one(shown()), found);
            document.unread_lines = text.unread_lines();
            picture.map(|picture| picture.finish(&document, shown())).transpose()?;
            (document, damages)
        }
    })
}

fn builder(asking: &Asking, usual: Reading, builder: Builder) -> Builder {
    match asking.reading.unwrap_or(usual) {
        Reading::TraceCompass => builder.like_trace_compass(),
        Reading::Events => builder,
    }
}

/// The paths, what could not be read of each recording, and whether there are begins and ends of system calls.
type FoundPaths = (PathsDocument, Vec<Damage>, bool);

/// Goes over the events, and finds the paths.
fn all<S: Source>(
    mut source: Merged<S>,
    mut builder: Builder,
    mut select: Select,
    sought: &[Sought<'_>],
) -> anyhow::Result<FoundPaths> {
    // None where one of them has no begin or no end.
    let from_ns = sought.iter().map(|sought| sought.from_ns).min().flatten();
    let to_ns = sought.iter().map(|sought| sought.to_ns).collect::<Option<Vec<_>>>();
    let to_ns = to_ns.and_then(|all| all.into_iter().max());
    builder = builder.names_until(to_ns);
    let mut document = PathsDocument::default();
    let mut reach = PartReach::new(source.machines(), from_ns);
    let (mut wanted, mut last_ns) = (BTreeSet::new(), 0);
    let (mut beyond, mut number, mut has_calls) = (0, 0u64, false);
    let marks_until_ns = marks_until(sought);
    let (mut grows, mut crowd) = (true, Crowd::alive());
    let (mut first_ns, mut few_ns) = (None, 0);
    let (mut is_whole, mut parts) = (true, 0usize);
    let finder = |sought: &Sought<'_>| {
        let (from_ns, to_ns) = (sought.from_ns.unwrap_or(0), sought.to_ns.unwrap_or(u64::MAX));
        Some(Finder::new(sought.wanted, 0)?.within(from_ns, to_ns))
    };
    let mut finders: Vec<Option<Finder>> = sought.iter().map(finder).collect();
    let mut walks = Walks::default();
    let growing = |sought: &Sought<'_>| Growing::of(sought.wanted);
    let mut growing: Vec<Option<Growing>> = sought.iter().map(growing).collect();
    let mut walked: Vec<WalkedExecutions> =
        sought.iter().map(|_| WalkedExecutions::default()).collect();
    while let Some((machine, record)) = source.read_from() {
        last_ns = record.time_ns;
        let begin_ns = *first_ns.get_or_insert(last_ns);
        if to_ns.is_some_and(|to_ns| record.time_ns > to_ns) {
            is_whole = false;
            // Who ends a sleep that is under way is worth a look, but not at all the rest.
            if grows && beyond % LOOK_EVENTS == 0 {
                let is_over = |sought| is_over(builder.graph(), sought);
                grows = beyond < BEYOND_EVENTS && !sought.iter().all(is_over);
            }
            // Marks take no memory: all of the time in which they may stand is read.
            if !grows && record.time_ns > marks_until_ns {
                break;
            }
            beyond += 1;
        }
        if number.is_multiple_of(FORGET_EVENTS) && beyond == 0 {
            let mut needed_ns = record.time_ns;
            let each = sought.iter().zip(&mut growing).zip(finders.iter_mut().zip(&mut walked));
            for ((sought, growing), (finder, walked)) in each {
                let own_ns = growing.as_mut().map(|growing| {
                    let found = begun(builder.graph(), sought);
                    let own_ns = growing.grow(builder.graph(), &found, &mut walks);
                    builder.keep(growing.new_workers());
                    own_ns.max(sought.from_ns.unwrap_or(0))
                });
                let of_over = finder.as_mut().and_then(|finder| {
                    let needed_ns =
                        walked.walk(builder.graph(), finder, record.time_ns, &mut walks)?;
                    Some(needed_ns.max(sought.from_ns.unwrap_or(0)))
                });
                builder.keep(walked.new_workers());
                needed_ns = needed_ns.min(own_ns.or(of_over).or(sought.from_ns).unwrap_or(0));
            }
            builder.forget_before(needed_ns);
            if builder.graph().held() > MAX_HELD {
                bail!(TooManyThreads::needed(MAX_HELD, few_ns));
            }
            few_ns = last_ns.saturating_sub(begin_ns).saturating_sub(1);
        }
        number += 1;
        let event = record.event();
        match crowd.follow(machine, &event) {
            // What ends the sleeps of the asked time is not among so many.
            Ok(_) => grows &= beyond == 0 || builder.graph().held() <= MAX_HELD,
            Err(_) if beyond > 0 => grows = false,
            Err(error) => bail!(error),
        }
        if beyond == 0 {
            reach.follow(machine, &record);
        }
        if grows {
            has_calls |= begins_call(&event.kind).is_some();
            feed::follow(&mut builder, machine, &record, &event);
        }
        // Executions are those of the first recording.
        if machine != 0 {
            continue;
        }
        if select.follows() && beyond == 0 {
            select.note(&event, &mut wanted);
        }
        for finder in finders.iter_mut().flatten() {
            finder.follow(&record, &event, &builder);
        }
    }
    if select.lacks_cgroups() {
        bail!(NO_CGROUPS);
    }
    (document.reach, document.discarded) = reach.finish();
    let mut asked = Vec::new();
    let mut found = Vec::new();
    for (number, ((sought, finder), walked)) in sought.iter().zip(finders).zip(walked).enumerate() {
        // What was not read may have it.
        let lacks = finder.as_ref().filter(|_| is_whole).and_then(Finder::lacks);
        let (executions, tally) = match finder {
            Some(finder) => delimited(&mut builder, sought, finder, walked.into_paths()),
            None => {
                close(&mut builder, sought, last_ns);
                let keyless = |execution| (execution, None, None);
                let mut all = executions(builder.graph(), sought);
                let growing = growing.get(number).and_then(Option::as_ref);
                all.extend(growing.iter().flat_map(|growing| growing.gone(builder.graph())));
                all.sort_by_key(|execution| execution.worker);
                (all.into_iter().map(keyless).collect(), None)
            }
        };
        let is_wanted = |execution: &Execution| {
            !select.follows() || wanted.contains(&tid(builder.graph(), execution))
        };
        let executions = executions.into_iter().filter(|(execution, ..)| is_wanted(execution));
        found.extend(executions.map(|(execution, key, path)| (number, execution, key, path)));
        asked.push((lacks, tally, false));
    }
    let mut traced_at = Vec::new();
    // Where not all can be held, those that are left out are as many early ones as late ones: sets of them stay alike.
    for place in spread(found.len()) {
        let Some((number, execution, key, walked)) = found.get_mut(place) else { continue };
        let Some((sought, (.., is_there))) = sought.get(*number).zip(asked.get_mut(*number)) else {
            continue;
        };
        // Sleeps that are not followed are not like those of the executions before.
        let has_grown = growing.get(*number).is_some_and(Option::is_some);
        if parts >= MAX_PARTS || (walks.is_spent() && !has_grown) {
            document.left_out += 1;
            *is_there = true;
            continue;
        }
        let Execution { worker, from_ns, to_ns, .. } = *execution;
        let path = match (walked.take(), growing.get_mut(*number).and_then(Option::as_mut)) {
            (Some(path), _) => path,
            (None, Some(growing)) => growing.finish(builder.graph(), execution, &mut walks),
            (None, None) => walks.walk(builder.graph(), worker, from_ns, to_ns),
        };
        if let Some(path) = path {
            let mut traced = traced(builder.graph(), sought.name, execution, &path);
            traced.key = key.take();
            parts = parts.saturating_add(traced.path.len());
            traced_at.push((place, traced));
            *is_there = true;
        }
    }
    traced_at.sort_unstable_by_key(|(place, _)| *place);
    document.executions = traced_at.into_iter().map(|(_, traced)| traced).collect();
    for (sought, (lacks, tally, is_there)) in sought.iter().zip(asked) {
        if !is_there {
            bail!(nothing(sought, lacks, tally.as_ref()));
        }
        document.delimiters.extend(tally);
    }
    let damages = source.damages();
    document.unread = UnreadDocument::of(&Damage::of_all(&damages));
    Ok((document, damages, has_calls))
}

/// The numbers below that one, each as far from those before as can be: any first part of them is spread evenly.
fn spread(count: usize) -> impl Iterator<Item = usize> {
    let all = count.next_power_of_two();
    let unused = all.leading_zeros() + 1;
    (0..all)
        .map(move |number| number.reverse_bits().checked_shr(unused).unwrap_or(0))
        .filter(move |place| *place < count)
}

/// Why there is no execution.
fn nothing(sought: &Sought<'_>, lacks: Option<String>, tally: Option<&Delimiters>) -> String {
    let name = sought.name;
    match tally {
        Some(delimiters) => delimiters.nothing(lacks.as_deref()),
        None => format!(
            "{name} did not run in this recording, or not in the time that is asked for; \
             `noised trace delays --json` lists the threads that ran"
        ),
    }
}

/// The same with for whom it waits, for which the recording is read once more, up to the last wait.
fn blamed<S: Source>(
    mut source: Merged<S>,
    (mut document, damages, has_calls): FoundPaths,
) -> (PathsDocument, Vec<Damage>) {
    let blame = |machine| Blame::of(&document, machine, Delays::of_turns());
    let mut blames: Vec<Blame> = (0..source.machines()).map(blame).collect();
    let machines = if has_calls { source.machines() } else { 0 };
    let mut calls: Vec<Calls> = (0..machines).map(|number| Calls::of(&document, number)).collect();
    while let Some((machine, record)) = source.read_from() {
        if blames.iter().all(Blame::is_over) && calls.iter().all(Calls::is_over) {
            break;
        }
        let (machine, event) = (usize::from(machine), record.event());
        if let Some(blame) = blames.get_mut(machine) {
            blame.follow(&event, &mut document);
        }
        if let Some(calls) = calls.get_mut(machine) {
            calls.follow(&event);
        }
    }
    for calls in calls {
        calls.finish(&mut document);
    }
    for blame in blames {
        blame.finish(&mut document);
    }
    (document, damages)
}

/// Up to when marks are read that may be of the time that is asked for.
fn marks_until(sought: &[Sought<'_>]) -> u64 {
    let marks = sought.iter().filter(|sought| matches!(sought.wanted, Wanted::Mark { .. }));
    let until_ns =
        marks.map(|sought| sought.to_ns.unwrap_or(u64::MAX).saturating_add(LATE_MARK_NS));
    until_ns.max().unwrap_or(0)
}

/// Whether all is known of what is sought. What ends between two delimiters has its end by then.
fn is_over(graph: &Graph, sought: &Sought<'_>) -> bool {
    let to_ns = sought.to_ns.unwrap_or(u64::MAX);
    let all = find(graph, sought.wanted);
    all.iter().all(|execution| execution.has_end || execution.to_ns >= to_ns)
}

/// What is under way at the end of the asked time lasts until then.
fn close(builder: &mut Builder, sought: &Sought<'_>, last_ns: u64) {
    let Some(to_ns) = sought.to_ns else { return };
    let to_ns = to_ns.min(last_ns);
    for execution in find(builder.graph(), sought.wanted) {
        if execution.to_ns < to_ns {
            builder.until(execution.worker, to_ns);
        }
    }
}

/// The executions that are sought, as far as they lie in the time that is asked for.
fn executions(graph: &Graph, sought: &Sought<'_>) -> Vec<Execution> {
    let mut all = begun(graph, sought);
    all.retain(|execution| execution.from_ns < execution.to_ns);
    all
}

/// The same with those that have begun, and of which no more is known yet.
fn begun(graph: &Graph, sought: &Sought<'_>) -> Vec<Execution> {
    let mut all = find(graph, sought.wanted);
    for execution in &mut all {
        if let Some(from_ns) = sought.from_ns.filter(|from_ns| *from_ns > execution.from_ns) {
            (execution.from_ns, execution.has_begin) = (from_ns, false);
        }
        if let Some(to_ns) = sought.to_ns.filter(|to_ns| *to_ns < execution.to_ns) {
            (execution.to_ns, execution.has_end) = (to_ns, false);
        }
    }
    let is_first =
        |execution: &Execution| graph.get(execution.worker).is_some_and(|of| of.who.machine() == 0);
    all.retain(is_first);
    all
}

fn tid(graph: &Graph, execution: &Execution) -> i32 {
    match graph.get(execution.worker).map(|worker| worker.who) {
        Some(Who::Thread { tid, .. }) => tid,
        Some(Who::Idle { .. } | Who::Kernel { .. }) | None => 0,
    }
}

#[cfg(test)]
mod tests;
