//! Who may set which marks, how many are taken, and what becomes of the rest.

use std::os::unix::fs::PermissionsExt as _;

use super::*;

const SECOND_NS: u64 = 1_000_000_000;
/// In what time one more may be taken of a user who is alone.
const TOKEN_NS: u64 = SECOND_NS / RATE;

fn bound(folder: &Path) -> (Marks, net::UnixDatagram) {
    let path = folder.join("noised.marks");
    let options = SocketOptions { path, mode: 0o660, group: "no such group".to_owned() };
    let marks = Marks::bind(&options).unwrap();
    let mode = fs::metadata(marks.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o660);
    let sender = net::UnixDatagram::unbound().unwrap();
    sender.connect(marks.path()).unwrap();
    (marks, sender)
}

fn own_tid() -> i32 {
    nix::unistd::gettid().as_raw()
}

#[test]
fn marks_are_kept_with_who_sent_them_when() {
    let folder = tempfile::tempdir().unwrap();
    let (mut marks, sender) = bound(folder.path());
    let begin_ns = monotonic_ns();
    sender.send(b"begin query 17").unwrap();
    let between_ns = monotonic_ns();
    sender.send(format!("end query 17 {between_ns} {}", own_tid()).as_bytes()).unwrap();
    thread::sleep(Duration::from_millis(2));
    assert!(!marks.drain());
    let all: Vec<Mark> = marks.from(0).cloned().collect();
    let [begin, end] = all.as_slice() else { panic!("{all:?}") };
    // The kernel's stamp is of another clock, whose distance is taken twice.
    let slack_ns = 1_000_000;
    assert!((begin_ns - slack_ns..=between_ns + slack_ns).contains(&begin.time_ns));
    assert_eq!((begin.begins, &*begin.name, &*begin.key, begin.tid), (true, "query", "17", 0));
    let own = i32::try_from(std::process::id()).unwrap();
    assert_eq!((begin.pid, begin.uid), (own, nix::unistd::getuid().as_raw()));
    assert_eq!((end.begins, end.time_ns, end.tid), (false, between_ns, own_tid()));
    assert_eq!((begin.number, end.number), (0, 1));
    assert_eq!(marks.from(1).count(), 1);
    assert_eq!(marks.between(end.sent_ns, u64::MAX).count(), 1);
    assert_eq!(marks.counts(), DatagramCounts { taken: 2, refused: 0, dropped: 0 });
}

#[test]
fn what_is_no_mark_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let (mut marks, sender) = bound(folder.path());
    let now_ns = monotonic_ns();
    let long = "x".repeat(MOST_DATAGRAM_BYTES + 100);
    // Thread 2 is the kernel's, and so root's.
    let other = if nix::unistd::getuid().is_root() { 0 } else { 1 };
    for text in ["begin", "begin q\n", "", &long, "begin q - 0 2"].iter().take(4 + other) {
        sender.send(text.as_bytes()).unwrap();
    }
    // Not yet, and too long ago: then it is of now.
    for ns in [now_ns + 3_600 * SECOND_NS, 5] {
        sender.send(format!("begin q - {ns}").as_bytes()).unwrap();
    }
    marks.drain();
    assert_eq!(marks.counts(), DatagramCounts { taken: 2, refused: 4 + other as u64, dropped: 0 });
    let is_now = |mark: &Mark| mark.time_ns == mark.sent_ns && mark.sent_ns + SECOND_NS > now_ns;
    assert!(marks.from(0).all(is_now));
}

#[test]
fn who_sends_without_pause_waits_for_a_turn_only() {
    const MARKS: usize = 300;
    let folder = tempfile::tempdir().unwrap();
    let (mut marks, sender) = bound(folder.path());
    // Ten fit into the socket where the system is not set otherwise; then it blocks.
    let sending = thread::spawn(move || {
        for number in 0..MARKS {
            sender.send(format!("begin query {number}").as_bytes()).unwrap();
        }
    });
    let mut turns = 0;
    let begin = Instant::now();
    while marks.counts().taken < MARKS as u64 && begin.elapsed() < Duration::from_secs(60) {
        marks.wait(Duration::from_millis(20), |_| turns += 1);
    }
    sending.join().unwrap();
    assert_eq!(marks.counts().taken, MARKS as u64);
    assert!(turns > 1);
    let begin = Instant::now();
    marks.wait(Duration::from_millis(5), |_| panic!("nothing came"));
    assert!(begin.elapsed() >= Duration::from_millis(5));
}

#[test]
fn who_waits_gets_through_beside_one_that_floods() {
    const MARKS: usize = 100;
    let folder = tempfile::tempdir().unwrap();
    let (mut marks, sender) = bound(folder.path());
    let flood = net::UnixDatagram::unbound().unwrap();
    flood.connect(marks.path()).unwrap();
    flood.set_nonblocking(true).unwrap();
    let is_over = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let ends = Arc::clone(&is_over);
    let flooding = thread::spawn(move || {
        while !ends.load(Ordering::Relaxed) {
            let _ = flood.send(b"begin flood");
        }
    });
    let sending = thread::spawn(move || {
        (0..MARKS)
            .filter(|number| sender.send(format!("begin q {number}").as_bytes()).is_ok())
            .count()
    });
    let begin = Instant::now();
    while !sending.is_finished() && begin.elapsed() < Duration::from_secs(60) {
        marks.wait(Duration::from_millis(20), |_| {});
    }
    assert!(sending.is_finished(), "a sender that waits is starved");
    assert_eq!(sending.join().unwrap(), MARKS);
    is_over.store(true, Ordering::Relaxed);
    flooding.join().unwrap();
}

#[test]
fn as_many_as_may_come_in_a_second_are_taken() {
    let sender = Some(DatagramSender { pid: 1, uid: 0, sent_ns: 5 });
    let mut kept = LatestMarks::default();
    // A little more often than one for each token, after the first second's were used up.
    for number in 0..4 * RATE {
        kept.take(b"begin query", sender, SECOND_NS + number * (TOKEN_NS - 1_000));
    }
    let DatagramCounts { taken, dropped, .. } = kept.counts;
    assert!(dropped <= taken / 50, "{taken} taken, {dropped} dropped");
}

#[test]
fn ids_of_another_pid_namespace_are_not_taken_for_those_of_this_one() {
    let of = |process: i32, parent: i32, uid: u32, ids: &[i32]| {
        let ids: Vec<String> = ids.iter().map(i32::to_string).collect();
        let text = format!(
            "Name:\tx y\nTgid:\t{process}\nPid:\t{process}\nPPid:\t{parent}\nUid:\t{uid}\t0\t0\t0\nNSpid:\t{}\n",
            ids.join("\t")
        );
        Some(ThreadStatus::parse(&text))
    };
    let status = |tid: i32| match tid {
        1 => of(1, 0, 0, &[1]),
        7 => of(7, 2, 0, &[7]),
        // In a container: its first process, and a script in it with a command.
        500 => of(500, 400, 0, &[500, 1]),
        507 => of(507, 500, 0, &[507, 7]),
        508 => of(508, 507, 0, &[508, 8]),
        // Of another user, outside, with two threads.
        600 | 601 => of(600, 1, 5, &[tid]),
        602 => of(602, 600, 5, &[602]),
        _ => None,
    };
    let of = |tid, is_here, pid, uid| {
        named(tid, is_here, DatagramSender { pid, uid, sent_ns: 5 }, status)
    };
    let named = |tid, pid, uid| of(tid, None, pid, uid);
    assert_eq!((named(8, 508, 0), named(7, 508, 0)), (Some(508), Some(507)));
    // The container's first process is the host's neither by its id nor otherwise its own.
    assert_eq!((named(1, 508, 0), named(3, 508, 0)), (Some(0), Some(0)));
    assert_eq!((named(601, 600, 5), named(600, 602, 5)), (Some(601), Some(600)));
    assert_eq!((named(7, 602, 5), named(7, 1, 0)), (None, Some(7)));
    // A thread that is not there is nobody's while its sender is, and not known where that has gone, too.
    assert_eq!((named(999, 602, 5), named(999, 998, 5)), (None, Some(0)));
    // Of a sender that has gone: its user's, or itself.
    assert_eq!(
        (named(600, 998, 5), named(998, 998, 5), named(7, 998, 5)),
        (Some(600), Some(998), None)
    );
    // Where the sender says what it counts in, that holds when it has gone, too.
    assert_eq!((of(7, Some(false), 998, 0), of(7, Some(true), 998, 0)), (Some(0), Some(7)));
    assert_eq!((of(8, Some(false), 508, 0), of(7, Some(true), 602, 5)), (Some(508), None));
}

#[test]
fn a_flood_is_bounded_and_counted() {
    let sender = Some(DatagramSender { pid: 1, uid: 0, sent_ns: 5 });
    let mut kept = LatestMarks::default();
    let key = "k".repeat(100);
    for number in 0..3 * RATE {
        // All of it within a millisecond.
        kept.take(format!("begin query {key}").as_bytes(), sender, SECOND_NS + number * 30);
    }
    assert!((RATE..RATE + 20).contains(&kept.counts.taken), "{:?}", kept.counts);
    assert_eq!(kept.counts.taken + kept.counts.dropped, 3 * RATE);
    for second in 2..20 {
        for _ in 0..RATE {
            kept.take(format!("begin query {key}").as_bytes(), sender, second * SECOND_NS);
        }
        assert!(kept.bytes <= MOST_KEPT_BYTES);
    }
    let all = kept.wanted(|_| true);
    assert_eq!(all.iter().map(|mark| bytes(mark)).sum::<usize>(), kept.bytes);
    assert!(all.len() > 5_000, "{}", all.len());
    let first = kept.complaint(SECOND_NS).unwrap();
    assert!(first.contains("dropped (more than 10000 a second, or"), "{first}");
    kept.counts.refused += 1;
    assert_eq!(kept.complaint(2 * SECOND_NS), None);
    assert!(kept.complaint(2 * SAY_EVERY_NS).unwrap().contains(": 1 refused "));
}

#[test]
fn a_flood_of_one_user_costs_no_marks_of_another() {
    let of = |uid| Some(DatagramSender { pid: 1, uid, sent_ns: 5 });
    let mut kept = LatestMarks::default();
    // Ten seconds, in which a flood comes in each millisecond.
    for millisecond in 0..10_000 {
        let now_ns = SECOND_NS + millisecond * 1_000_000;
        for _ in 0..30 {
            kept.take(
                b"begin flood kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk",
                of(1000),
                now_ns,
            );
        }
        if millisecond % 10 == 9 {
            kept.take(b"begin query", of(1001), now_ns);
        }
    }
    let quiet = kept.wanted(|mark| mark.uid == 1001);
    assert_eq!(quiet.len(), 1_000);
    assert!(quiet.is_sorted_by_key(|mark| mark.number));
    assert!(kept.counts.dropped > 100_000 && kept.bytes <= MOST_KEPT_BYTES, "{:?}", kept.counts);
}

#[test]
fn what_is_no_mark_is_of_its_senders_share() {
    let of = |uid| Some(DatagramSender { pid: 1, uid, sent_ns: 5 });
    let mut kept = LatestMarks::default();
    for number in 0..2 * RATE {
        kept.take(b"rubbish", of(1000), SECOND_NS + number);
        kept.take(b"begin query", None, SECOND_NS + number);
    }
    let DatagramCounts { taken, refused, dropped } = kept.counts;
    assert!(
        (taken, refused + dropped) == (0, 4 * RATE) && refused <= 2 * RATE,
        "{:?}",
        kept.counts
    );
    kept.take(b"begin query", of(1001), SECOND_NS + 2 * RATE);
    assert_eq!(kept.counts.taken, 1);
}

#[test]
fn subordinate_ids_push_out_no_marks_of_another_user() {
    let of = |uid| Some(DatagramSender { pid: 1, uid, sent_ns: 5 });
    let mut kept = LatestMarks::default();
    let key = "k".repeat(100);
    for second in 1..30 {
        for number in 0..RATE {
            let now_ns = second * SECOND_NS + number * TOKEN_NS;
            kept.take(
                format!("begin flood {key}").as_bytes(),
                of(100_000 + number as u32 % 70),
                now_ns,
            );
            if number % 100 == 0 {
                kept.take(b"begin query", of(1001), now_ns);
            }
        }
    }
    assert!(kept.bytes <= MOST_KEPT_BYTES && kept.bytes > MOST_KEPT_BYTES / 2);
    assert_eq!(kept.wanted(|mark| mark.uid == 1001).len(), 29 * 100);
    let by_bytes: Vec<_> =
        kept.marks.iter().map(|(sharer, of_user)| (of_user.bytes, *sharer)).collect();
    assert_eq!(kept.by_bytes, by_bytes.into_iter().collect());
}

#[test]
fn descriptors_are_not_taken() {
    use std::io::{IoSlice, Read as _};

    use nix::sys::socket::{ControlMessage, UnixAddr, sendmsg};

    let folder = tempfile::tempdir().unwrap();
    let (mut marks, sender) = bound(folder.path());
    let (mut reader, writer) = io::pipe().unwrap();
    let fds = [writer.as_raw_fd(); 3];
    let rights = [ControlMessage::ScmRights(&fds)];
    let text = [IoSlice::new(b"begin q")];
    sendmsg::<UnixAddr>(sender.as_raw_fd(), &text, &rights, MsgFlags::empty(), None).unwrap();
    drop(writer);
    marks.drain();
    // No writer is left.
    assert_eq!(reader.read(&mut [0]).unwrap(), 0);
    assert_eq!(marks.counts(), DatagramCounts { taken: 0, refused: 1, dropped: 0 });
}

#[test]
fn the_socket_lies_beside_the_other() {
    let beside = |path: &str| beside(Path::new(path)).display().to_string();
    assert_eq!(beside("/run/noised/noised.sock"), DEFAULT_MARKS);
    assert_eq!(beside("/x/sock"), "/x/sock.marks");
    assert_eq!(beside("/x/a.marks"), "/x/a.marks.marks");
}
