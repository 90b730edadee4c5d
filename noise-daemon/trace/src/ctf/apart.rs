//! Files with packets of several CPUs that are not in the order of time, as when the streams of a trace were put into one
//! file one behind the other. Each CPU's packets are read as a file of its own then.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::iter;
use std::ops::Range;
use std::sync::Arc;

use super::files::{StreamFile, buffer};
use super::layout::TraceLayout;
use super::packet::{ENDS, open};
use crate::window::{Content, LEAST_WINDOW_BYTES, ReadAt, Window};

/// Stretches that a file is divided into, of all CPUs together.
const MAX_STRETCHES: usize = 65_536;

/// Bytes of a file that lie together.
type Stretch = Range<u64>;

/// Stretches of a file, as a file.
#[derive(Debug)]
pub struct StreamPart<R> {
    file: Arc<R>,
    /// Each with the byte of this that it begins at.
    stretches: Vec<(u64, Stretch)>,
    length: u64,
}

impl<R: ReadAt> StreamPart<R> {
    pub fn new(file: Arc<R>, stretches: Vec<Stretch>) -> Self {
        let mut length = 0_u64;
        let place = |stretch: Stretch| {
            let begin = length;
            length = length.saturating_add(stretch.end.saturating_sub(stretch.start));
            (begin, stretch)
        };
        let stretches = stretches.into_iter().map(place).collect();
        Self { file, stretches, length }
    }

    /// What lies at that byte and behind it, up to the end of the stretch.
    fn rest(&self, at: u64) -> Option<Stretch> {
        let behind = self.stretches.partition_point(|(begin, _)| *begin <= at);
        let (begin, stretch) = self.stretches.get(behind.checked_sub(1)?)?;
        Some(stretch.start.saturating_add(at - begin)..stretch.end)
    }
}

impl<R: ReadAt> ReadAt for StreamPart<R> {
    fn length(&self) -> u64 {
        self.length
    }

    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        let Some(rest) = self.rest(at) else { return Ok(0) };
        let left = usize::try_from(rest.end.saturating_sub(rest.start)).unwrap_or(usize::MAX);
        let most = left.min(into.len());
        self.file.read_at(into.get_mut(..most).unwrap_or_default(), rest.start)
    }

    fn place(&self, at: u64) -> u64 {
        self.rest(at).map_or(at, |rest| rest.start)
    }
}

/// What is read as a file of its own: the number of the file, and what of it.
pub fn apart(layout: &TraceLayout, files: &[StreamFile<'_>]) -> Vec<(usize, Vec<Stretch>)> {
    let is_lone = lone(layout, files);
    let mut all = Vec::with_capacity(files.len());
    for (number, file) in files.iter().enumerate() {
        let of_cpus = is_lone.contains(&number).then(|| of_cpus(layout, file.content)).flatten();
        match of_cpus {
            Some(cpus) => all.extend(cpus.into_values().map(|stretches| (number, stretches))),
            None => all.push((number, iter::once(0..file.content.length()).collect())),
        }
    }
    all
}

#[derive(Default)]
struct ChannelFiles {
    /// With which CPUs they begin.
    cpus: BTreeSet<u32>,
    numbers: Vec<usize>,
}

/// Files whose packets may be of several CPUs: tracers write one for each CPU, so that other files of the same name begin
/// with other CPUs. The heads of all packets are read of these alone.
fn lone(layout: &TraceLayout, files: &[StreamFile<'_>]) -> BTreeSet<usize> {
    let mut channels: BTreeMap<(u64, &str), ChannelFiles> = BTreeMap::new();
    for (number, file) in files.iter().enumerate() {
        let packet = open(layout, &mut Window::new(file.content, LEAST_WINDOW_BYTES), 0);
        if let Some((stream, cpu, stem)) = packet.ok().and_then(|it| buffer(&it, file.name)) {
            let channel = channels.entry((stream, stem)).or_default();
            channel.cpus.insert(cpu);
            channel.numbers.push(number);
        }
    }
    let lone = channels.into_values().filter(|channel| channel.cpus.len() == 1);
    lone.flat_map(|channel| channel.numbers).collect()
}

/// Where each CPU's packets lie, if they are of several and one begins before another one ends. `None` where a packet
/// cannot be read, or does not say of which CPU it is: such a file is read as it lies.
fn of_cpus(layout: &TraceLayout, content: Content<'_>) -> Option<BTreeMap<u32, Vec<Stretch>>> {
    let mut window = Window::new(content, LEAST_WINDOW_BYTES);
    let mut cpus: BTreeMap<u32, Vec<Stretch>> = BTreeMap::new();
    let (mut at, mut count, mut reached, mut goes_back) = (0, 0, None, false);
    let mut latest = None;
    while at < window.length() {
        let (cpu, end) = match open(layout, &mut window, at) {
            Ok(packet) => {
                let context = packet.context;
                goes_back |= context.begin.is_some() && context.begin < reached;
                reached = reached.max(context.bound()).max(context.begin);
                (context.cpu?, at.saturating_add(packet.length).min(content.length()))
            }
            // It is said where the file is read.
            Err(ENDS) => (latest?, content.length()),
            Err(_) => return None,
        };
        let stretches = cpus.entry(cpu).or_default();
        match stretches.last_mut().filter(|last| last.end == at) {
            Some(last) => last.end = end,
            None => {
                stretches.push(at..end);
                count += 1;
            }
        }
        if count > MAX_STRETCHES {
            return None;
        }
        (at, latest) = (end, Some(cpu));
    }
    (goes_back && cpus.len() > 1).then_some(cpus)
}
