//! Recordings of two machines whose clocks are apart, read as one: a request goes over and its answer comes back.

use noise_paths::blame::Blame;
use noise_paths::build::Builder;
use noise_paths::clocks::traffic::lines;
use noise_paths::document::{PathsDocument, traced};
use noise_paths::execution::{Wanted, find};
use noise_paths::feed;
use noise_paths::several::{Merged, traffic};
use noise_paths::walk::{Bounds, walk};
use noise_trace::delays::Delays;
use noise_trace::event::{LostEvents, Packet, TraceKind};
use noise_trace::fixtures::{MadeEvent, MadeRecording, switch, waking};
use noise_trace::record::Record;

/// How far the second machine's clock is behind, and how long a packet takes.
const BEHIND_NS: u64 = 40_000_000;
const WAY_NS: u64 = 30_000;
const BEGIN_NS: u64 = 1_000_000_000;

const PACKET: Packet<'static> = Packet { skb: 7, len: 154, name: b"eth0" };

/// A packet, with the sequence number and ports of its segment.
fn packet(kind: TraceKind<'static>, (sequence, ports): (i64, [i64; 2])) -> MadeEvent {
    let numbers = vec![
        ("_saddr", ports[0]),
        ("_daddr", ports[1]),
        ("_source_port", ports[0]),
        ("_dest_port", ports[1]),
        ("_seq", sequence),
        ("_tot_len", 140),
        ("_ihl", 5),
        ("_data_offset", 5),
    ];
    MadeEvent { numbers: numbers.leak(), ..MadeEvent::new("fake", kind) }
}

/// One machine's events, and those of a packet that it gets, at true times.
#[derive(Default)]
struct Machine(Vec<(u64, MadeEvent)>);

impl Machine {
    fn at(&mut self, time_ns: u64, kind: TraceKind<'static>) {
        self.0.push((time_ns, MadeEvent::new("fake", kind)));
    }

    fn sends(&mut self, time_ns: u64, segment: (i64, [i64; 2])) {
        self.0.push((time_ns, packet(TraceKind::NetDevQueue(PACKET), segment)));
    }

    /// In a softirq, in which it wakes a thread.
    fn gets(&mut self, time_ns: u64, segment: (i64, [i64; 2]), tid: i32) {
        self.at(time_ns - 10, TraceKind::SoftirqEntry { vec: 3 });
        self.0.push((time_ns, packet(TraceKind::NetifReceiveSkb(PACKET), segment)));
        self.at(time_ns + 10, waking(tid));
        self.at(time_ns + 20, TraceKind::SoftirqExit { vec: 3 });
    }

    fn recorded(&self, behind_ns: u64) -> MadeRecording {
        MadeRecording::new(self.0.iter().map(|(time_ns, event)| (time_ns - behind_ns, *event)))
    }
}

/// A client that asks a server so often, and a server that works 200 µs, half of which another thread has its CPU.
fn requests(count: u64) -> [Machine; 2] {
    let (mut client, mut server) = (Machine::default(), Machine::default());
    client.at(BEGIN_NS, switch(0, 0, 1));
    server.at(BEGIN_NS, switch(5, 1, 0));
    for number in 0..count {
        let asks_ns = BEGIN_NS + 1_000_000 * (number + 1);
        let sequence = number.cast_signed() * 100;
        let (there, back) = ((sequence, [4000, 80]), (sequence, [80, 4000]));
        client.sends(asks_ns, there);
        client.at(asks_ns + 1_000, switch(1, 1, 0));
        let gets_ns = asks_ns + WAY_NS;
        server.gets(gets_ns, there, 5);
        server.at(gets_ns + 1_000, switch(0, 0, 5));
        server.at(gets_ns + 50_000, switch(5, 0, 6));
        server.at(gets_ns + 150_000, switch(6, 1, 5));
        let answers_ns = gets_ns + 200_000;
        server.sends(answers_ns, back);
        server.at(answers_ns + 500, switch(5, 1, 0));
        client.gets(answers_ns + WAY_NS, back, 1);
        client.at(answers_ns + WAY_NS + 2_000, switch(0, 0, 1));
    }
    [client, server]
}

#[test]
fn a_path_leads_through_both_machines() {
    let machines = requests(50);
    let recorded = || [machines[0].recorded(0), machines[1].recorded(BEHIND_NS)];
    let seen = recorded().map(traffic);
    let lines = lines(&seen).unwrap();
    let off = lines[1].to_reference(BEGIN_NS + 20_000_000 - BEHIND_NS);
    assert!(off.abs_diff(BEGIN_NS + 20_000_000) < WAY_NS, "{off}");

    let merged = || Merged::new(recorded().into_iter().zip(lines.clone()));
    let mut builder = Builder::default();
    let mut source = merged();
    let mut last_ns = 0;
    while let Some((machine, record)) = source.read_from() {
        assert!(record.time_ns >= last_ns);
        last_ns = record.time_ns;
        feed::follow(&mut builder, machine, &record, &record.event());
    }
    let graph = builder.finish();
    let all = find(&graph, &Wanted::Thread(1));
    assert_eq!(all.len(), 1);
    let path =
        walk(&graph, all[0].worker, all[0].from_ns, all[0].to_ns, Bounds::default()).unwrap();
    assert_eq!(path.fault(all[0].worker, all[0].from_ns, all[0].to_ns), None);
    let executions = vec![traced(&graph, "thread:1", &all[0], &path)];
    let mut document = PathsDocument { executions, ..PathsDocument::default() };
    let of = |machine| Blame::of(&document, machine, Delays::of_turns());
    let mut blames = [of(0), of(1)];
    let mut source = merged();
    while let Some((machine, record)) = source.read_from() {
        blames[usize::from(machine)].follow(&record.event(), &mut document);
    }
    blames.into_iter().for_each(|blame| blame.finish(&mut document));

    let traced = &document.executions[0];
    let sum = |recording: u16, tid: i32, state: &str| -> u64 {
        let is = |part: &&noise_paths::document::Segment| {
            (part.recording, part.tid, part.state) == (recording, tid, state)
        };
        traced.path.iter().filter(is).map(|part| part.to_ns - part.from_ns).sum()
    };
    // The server runs 99 and waits 101 of each 200 µs; the last 500 ns of a request are the client's.
    let each = |ns: u64, expected: u64| assert!(ns.abs_diff(50 * expected) < 50 * 2_000, "{ns}");
    each(sum(1, 5, "waiting_cpu"), 101_000);
    each(sum(1, 5, "running"), 99_000);
    each(sum(0, 1, "network") + sum(1, 5, "network"), 2 * WAY_NS);
    for part in traced.path.iter().filter(|part| part.state == "waiting_cpu") {
        let culprits: u64 = part.culprits.iter().map(|culprit| culprit.ns).sum();
        assert_eq!(culprits, part.to_ns - part.from_ns);
    }
    let hog = traced.path.iter().filter(|part| part.recording == 1).flat_map(|part| &part.culprits);
    let hog_ns: u64 = hog.filter(|culprit| culprit.tid == 6).map(|culprit| culprit.ns).sum();
    assert_eq!(hog_ns, 50 * 100_000);
}

#[test]
fn one_recording_is_read_as_it_is() {
    let machines = requests(3);
    let times = |source: MadeRecording| source.0.map(|record| record.time_ns).collect::<Vec<_>>();
    let mut merged = Merged::one(machines[0].recorded(0));
    let mut found = Vec::new();
    while let Some((machine, record)) = merged.read_from() {
        found.push(record.time_ns);
        assert_eq!(machine, 0);
    }
    assert_eq!(found, times(machines[0].recorded(0)));
}

#[test]
fn a_loss_has_the_times_of_the_first_clock() {
    let machines = requests(3);
    let recorded = || [machines[0].recorded(0), machines[1].recorded(BEHIND_NS)];
    let lines = lines(&recorded().map(traffic)).unwrap();
    let from_ns = BEGIN_NS + 50_000_000 - BEHIND_NS;
    let loss = LostEvents { events: 1, packets: 0, from_ns, to_ns: from_ns + 1_000_000 };
    let [first, second] = recorded();
    let second: Vec<_> = second.0.chain([Record::lost(from_ns, 0, loss)]).collect();
    let second = MadeRecording(second.into_iter().peekable());
    let mut merged = Merged::new([first, second].into_iter().zip(lines.clone()));
    let mut losses = Vec::new();
    while let Some((_, record)) = merged.read_from() {
        losses.extend(record.loss().map(|loss| (record.time_ns, loss)));
    }
    let [from_ns, to_ns] = [loss.from_ns, loss.to_ns].map(|ns| lines[1].to_reference(ns));
    assert_eq!(losses, [(from_ns, LostEvents { from_ns, to_ns, ..loss })]);
}
