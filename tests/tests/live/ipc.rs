//! Recordings of system calls: a program that knows what it does, beside ftrace.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use noise_tests::ftrace::event::Kind;
use noise_tests::ftrace::{self, CALL_EVENTS, Trace};
use noise_tests::needed::needs;
use noise_tests::talk::{Call, calls, ensure_same, talk};
use serde_json::Value;

use crate::Test;
use crate::record::Recorder;

pub(crate) const TESTS: &[(&str, Test)] = &[("ipc_has_every_call", ipc_has_every_call)];

/// What the program said.
struct Facts(Value);

impl Facts {
    fn get(&self, of: &str, name: &str) -> Result<u64> {
        let found = self.0.get(of).and_then(|of| of.get(name)).and_then(Value::as_u64);
        found.with_context(|| format!("{of}.{name} of {}", self.0))
    }

    fn rounds(&self) -> Result<usize> {
        let rounds = self.0.get("rounds").and_then(Value::as_u64).context("no rounds")?;
        Ok(usize::try_from(rounds)?)
    }
}

/// Begins and ends of calls about one object.
fn about<'c>(calls: &'c [Call], names: &[&str], kind: &str, id: u64) -> Vec<&'c Call> {
    let is_it = |call: &&Call| call.of(kind) == Some(id) && names.contains(&call.name.as_str());
    calls.iter().filter(is_it).collect()
}

/// How many bytes calls about an object moved.
fn moved(calls: &[Call], names: &[&str], kind: &str, id: u64) -> (usize, i64) {
    let ends = about(calls, names, kind, id);
    let sizes: Vec<i64> = ends.iter().filter_map(|call| call.ret).filter(|ret| *ret > 0).collect();
    (sizes.len(), sizes.iter().sum())
}

const SENDS: [&str; 4] = ["write", "sendto", "sendmsg", "splice"];
const RECEIVES: [&str; 3] = ["read", "recvfrom", "recvmsg"];

/// Ranges of bytes of a stream, joined where they touch, and their lengths in all.
fn ranges(calls: &[Call], names: &[&str], id: u64) -> Vec<(u32, u32)> {
    let mut all: Vec<(u32, u32)> = Vec::new();
    for call in about(calls, names, "tcp", id) {
        let Some(ret @ 1..) = call.ret else { continue };
        let end = call.object.3 as u32;
        let begin = end.wrapping_sub(ret as u32);
        match all.last_mut() {
            Some((_, last)) if *last == begin => *last = end,
            // What is looked at stays.
            _ if call.peeks => {}
            _ => all.push((begin, end)),
        }
    }
    all
}

fn ensure_files(calls: &[Call], facts: &Facts) -> Result<()> {
    let rounds = facts.rounds()?;
    let bytes = i64::try_from(facts.get("pipe", "bytes")?)?;
    let device = facts.get("pipe", "device")?;
    for pipe in ["there", "back"] {
        let id = facts.get("pipe", pipe)?;
        ensure!(moved(calls, &["write"], "pipe", id) == (rounds, bytes), "writes of {pipe}");
        ensure!(moved(calls, &["read"], "pipe", id) == (rounds, bytes), "reads of {pipe}");
        let devices = about(calls, &["read", "write"], "pipe", id);
        ensure!(devices.iter().all(|call| call.object.2 == device), "{devices:?}");
    }
    let fifo = facts.get("fifo", "inode")?;
    let fifos = about(calls, &["read", "write"], "pipe", fifo);
    let device = facts.get("fifo", "device")?;
    ensure!(fifos.len() == 4 && fifos.iter().all(|call| call.object.2 == device), "{fifos:?}");
    for (name, kind) in [("msg", "msg"), ("sem", "sem")] {
        let (id, namespace) = (facts.get("sysv", name)?, facts.get("sysv", "namespace")?);
        let found = about(calls, &["msgsnd", "msgrcv", "semop", "semtimedop"], kind, id);
        ensure!(found.len() == 4 * rounds, "{} calls of {name}", found.len());
        ensure!(found.iter().all(|call| call.object.2 == namespace), "{found:?}");
    }
    let (from, to) = (facts.get("splice", "from")?, facts.get("splice", "to")?);
    ensure!(moved(calls, &["splice"], "pipe", from) == (rounds, 7 * rounds as i64), "splices");
    ensure!(moved(calls, &["read"], "pipe", to) == (rounds, 7 * rounds as i64), "what was spliced");
    let event = facts.get("eventfd", "id")?;
    ensure!(moved(calls, &["write"], "eventfd", event) == (rounds, 8 * rounds as i64), "eventfd");
    let reads = about(calls, &["read"], "eventfd", event);
    let waits = calls.iter().filter(|call| call.name == "epoll_wait" && call.ret == Some(1));
    let epolls: BTreeSet<_> = waits.clone().map(|call| call.object.clone()).collect();
    ensure!(!reads.is_empty() && waits.count() == reads.len() / 2, "{reads:?}");
    ensure!(epolls.iter().all(|object| object.0 == "epoll" && object.1 > 1 << 47), "{epolls:?}");
    Ok(())
}

fn ensure_sockets(calls: &[Call], others: &[Value], facts: &Facts) -> Result<()> {
    let rounds = facts.rounds()?;
    let (one, other) = (facts.get("unix", "one")?, facts.get("unix", "other")?);
    for (own, peer) in [(one, other), (other, one)] {
        let sent = moved(calls, &SENDS, "unix", own);
        ensure!(
            sent == (rounds, 5 * rounds as i64) && moved(calls, &RECEIVES, "unix", peer) == sent
        );
        let all = about(calls, &["sendto", "recvfrom"], "unix", own);
        ensure!(all.iter().all(|call| call.object.2 == peer), "{all:?}");
    }
    for name in ["tcp", "tcp6"] {
        let (client, server) = (facts.get(name, "client")?, facts.get(name, "server")?);
        let (sent, got) = (ranges(calls, &SENDS, client), ranges(calls, &RECEIVES, server));
        println!("{name}: {sent:?} arrives as {got:?}");
        let length = facts.get(name, "sent")?;
        ensure!(length == facts.get(name, "received")?);
        let [(begin, end)] = sent.as_slice() else { anyhow::bail!("several stretches: {sent:?}") };
        ensure!(u64::from(end.wrapping_sub(*begin)) == length && got == sent, "{got:?}");
        // What was looked at, the first read got again.
        let received = about(calls, &RECEIVES, "tcp", server);
        let peeked: Vec<_> = received.iter().filter(|call| call.peeks).collect();
        let peeked_bytes = peeked.first().and_then(|call| call.ret);
        ensure!(peeked_bytes == Some(i64::try_from(facts.get(name, "peeked")?)?), "{peeked:?}");
        ensure!(peeked.len() == 1 && peeked.iter().all(|call| call.object.3 as u32 == *begin));
        let (back, back_got) = (ranges(calls, &SENDS, server), ranges(calls, &RECEIVES, client));
        ensure!(back == back_got && back.len() == 1, "{back:?} {back_got:?}");
        let ports = facts.0.get(name).and_then(|of| of.get("ports")).context("no ports")?;
        let [Some(own), Some(peer)] = [0, 1].map(|at| ports.get(at).and_then(Value::as_u64)) else {
            anyhow::bail!("{ports}")
        };
        let of = |id: u64| {
            let begins =
                calls.iter().filter(|call| call.ret.is_none() && call.of("tcp") == Some(id));
            begins.filter(|call| call.name != "connect").map(|call| call.object.2).collect()
        };
        let (of_client, of_server): (BTreeSet<u64>, BTreeSet<u64>) = (of(client), of(server));
        ensure!(
            of_client == [own << 16 | peer].into() && of_server == [peer << 16 | own].into(),
            "{own}, {peer}: {of_client:x?} {of_server:x?}"
        );
        let accepted = about(calls, &["accept4", "accept"], "tcp", server);
        ensure!(
            accepted.len() == 1 && accepted.iter().all(|call| call.ret > Some(0)),
            "{accepted:?}"
        );
        ensure_connections(others, &[(client, own, peer), (server, peer, own)], 6)?;
    }
    let (one, other) = (facts.get("udp", "one")?, facts.get("udp", "other")?);
    ensure!(moved(calls, &SENDS, "udp", one) == moved(calls, &RECEIVES, "udp", other));
    let ports = facts.0.get("udp").and_then(|of| of.get("ports")).context("no ports")?;
    let [Some(own), Some(peer)] = [0, 1].map(|at| ports.get(at).and_then(Value::as_u64)) else {
        anyhow::bail!("{ports}")
    };
    ensure_connections(others, &[(one, own, peer), (other, peer, own)], 17)
}

/// The recording says between which addresses these sockets are.
fn ensure_connections(others: &[Value], wanted: &[(u64, u64, u64)], protocol: u64) -> Result<()> {
    for (inode, local, remote) in wanted {
        let is_it = |event: &&Value| {
            let fields = event.get("fields");
            let of = |name: &str| fields.and_then(|of| of.get(name)).and_then(Value::as_u64);
            event.get("name").and_then(Value::as_str) == Some("noised_connection")
                && of("inode") == Some(*inode)
                && of("protocol") == Some(protocol)
                && of("local_port") == Some(*local)
                && of("remote_port") == Some(*remote)
        };
        let found = others.iter().find(is_it).with_context(|| format!("no {inode}"))?;
        let address = |name: &str| {
            let fields = found.get("fields")?;
            fields.get(name).and_then(Value::as_str)
        };
        for name in ["local_address", "remote_address"] {
            ensure!(matches!(address(name), Some("127.0.0.1" | "::1")), "{found}");
        }
    }
    Ok(())
}

/// Threads that wake each other up by a futex name the same one.
fn ensure_futexes(calls: &[Call], facts: &Facts) -> Result<()> {
    let thread = facts.get("futex", "thread")?;
    let main = facts.0.get("process").and_then(Value::as_u64).context("no process")?;
    let of = |tid: u64| -> BTreeMap<u64, u64> {
        let begins = calls.iter().filter(|call| call.ret.is_none() && call.tid == tid);
        let begins = begins.filter(|call| call.name == "futex");
        begins.map(|call| (call.object.1, call.object.2)).collect()
    };
    let (one, other) = (of(main), of(thread));
    let shared: Vec<_> = one.iter().filter(|(id, map)| other.get(id) == Some(map)).collect();
    println!("{} futexes of {} and {} are of both threads", shared.len(), one.len(), other.len());
    ensure!(shared.len() >= 2, "{one:?} {other:?}");
    let maps: BTreeSet<_> = one.values().chain(other.values()).collect();
    ensure!(maps.len() == 1 && !maps.contains(&0), "{maps:?}");
    Ok(())
}

/// Signals to the program, and taken by it: `(what, signal)` in the order of time.
fn signals_of(trace: &Trace, pid: u64) -> Vec<(&'static str, u64)> {
    let events = trace.all();
    let signal = |event: &ftrace::event::Event| {
        let number = |signal: i32| u64::try_from(signal).ok();
        match event.kind {
            Kind::SignalGenerate { signal, pid: target, .. }
                if u64::try_from(target) == Ok(pid) =>
            {
                Some(("signal_generate", number(signal)?))
            }
            Kind::SignalDeliver { signal } if u64::try_from(event.pid) == Ok(pid) => {
                Some(("signal_deliver", number(signal)?))
            }
            _ => None,
        }
    };
    events.iter().filter_map(signal).collect()
}

fn ensure_signals(trace: &Trace, others: &[Value], facts: &Facts) -> Result<()> {
    let pid = facts.0.get("process").and_then(Value::as_u64).context("no process")?;
    let signal = |event: &Value| {
        let fields = event.get("fields")?;
        let of = |name: &str| fields.get(name).and_then(Value::as_u64);
        match event.get("name")?.as_str()? {
            "signal_generate" if of("pid") == Some(pid) => Some(("signal_generate", of("sig")?)),
            "signal_deliver" if of("noised_tid") == Some(pid) => {
                Some(("signal_deliver", of("sig")?))
            }
            _ => None,
        }
    };
    let found: Vec<_> = others.iter().filter_map(signal).collect();
    let expected = signals_of(trace, pid);
    ensure!(found == expected, "{found:?}, and ftrace has {expected:?}");
    let number = facts.get("signal", "number")?;
    let sent = found.iter().filter(|of| **of == ("signal_generate", number)).count();
    ensure!(sent == facts.rounds()?, "{sent} signals");
    Ok(())
}

fn ipc_has_every_call() -> Result<()> {
    needs(&["/usr/bin/python3"])?;
    let mut recorder = Recorder::start(&["--own", "--events", "sched,io,ipc"])?;
    let events = [CALL_EVENTS, &["sched:sched_process_fork"]].concat();
    let ftrace = ftrace::Recording::start(&events, 64)?;
    let facts = Facts(talk()?);
    thread::sleep(Duration::from_millis(100));
    let trace = ftrace.stop()?;
    recorder.stop(libc::SIGINT)?;
    println!("{}", recorder.process.stderr()?);
    let (calls, others) = calls(recorder.folder.path())?;
    let process = facts.0.get("process").and_then(Value::as_u64).context("no process")?;
    let mut tids = BTreeSet::from([process]);
    for event in trace.all() {
        if let Kind::Fork { parent, child } = event.kind
            && u64::try_from(parent).is_ok_and(|parent| tids.contains(&parent))
        {
            tids.insert(u64::try_from(child)?);
        }
    }
    let same = ensure_same(&trace, &calls, &tids)?;
    println!("{same} begins and ends of calls of {} threads, {} in all", tids.len(), calls.len());
    ensure_files(&calls, &facts)?;
    ensure_sockets(&calls, &others, &facts)?;
    ensure_futexes(&calls, &facts)?;
    ensure_signals(&trace, &others, &facts)?;
    Ok(())
}
