//! Clients that are many, slow or hostile: memory and CPU stay bounded, and others are answered.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::{AsRawFd as _, FromRawFd as _};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use noise_tests::daemon::{Daemon, run};
use noise_tests::http::{Response, exchange, get};
use noise_tests::prom::Scrape;

use crate::Test;
use crate::https::{Client, Site, TLS};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("a_thousand_scrapers", a_thousand_scrapers),
    ("a_thousand_scrapers_over_tls", a_thousand_scrapers_over_tls),
    ("slow_loris_over_tls", slow_loris_over_tls),
    ("answers_that_are_not_taken", answers_that_are_not_taken),
    ("many_requests_at_once", many_requests_at_once),
    ("wrong_passwords", wrong_passwords),
    ("a_right_password_among_wrong_ones", a_right_password_among_wrong_ones),
];

/// What they may cost in memory of the daemon.
const GROWTH_BYTES: u64 = 32 << 20;
/// What they may cost in memory of the kernel, for the daemon's ends of the connections: 256 of them,
/// each with twice 48 KiB for what is sent and twice 16 KiB for what comes, and as much again for the
/// last segment of each, which the kernel takes whole. Without a bound they take a gigabyte.
const KERNEL_BYTES: u64 = (256 * 4 * (48 + 16)) << 10;
/// How many scrape at once.
const SCRAPERS: usize = 1000;
/// Longer than any client like any other waits.
const TIMEOUT: Duration = Duration::from_secs(10);

/// What the kernel holds for a daemon's connections, those included that have ended for the daemon.
fn kernel_bytes(address: SocketAddr) -> Result<u64> {
    let mut command = Command::new("ss");
    command.args(["-tmnHO", "state", "all", &format!("sport = :{}", address.port())]);
    let outcome = run(command)?;
    ensure!(outcome.code == 0, "ss: {}", outcome.stderr);
    let mut sum = 0;
    for line in outcome.stdout.lines() {
        let Some((_, memory)) = line.split_once("skmem:(") else { continue };
        let memory = memory.split_once(')').context("skmem without an end")?.0;
        // Received, queued to be sent, kept for either, and what came while it was busy.
        for field in memory.split(',') {
            let (name, number) =
                field.split_at(field.find(|c: char| c.is_ascii_digit()).unwrap_or(0));
            if ["r", "w", "f", "bl"].contains(&name) {
                sum += number.parse::<u64>().with_context(|| memory.to_owned())?;
            }
        }
    }
    Ok(sum)
}

/// Runs `hostile`, and a client like any other while what it holds is held.
fn bounded<T>(
    daemon: &Daemon,
    scrape: impl Fn() -> Result<Scrape>,
    hostile: impl FnOnce() -> Result<T>,
) -> Result<()> {
    for _ in 0..3 {
        scrape()?;
    }
    let before = daemon.resident_bytes()?;
    let (most, most_in_kernel) = (AtomicU64::new(0), AtomicU64::new(0));
    let done = AtomicBool::new(false);
    let held = thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let grown = daemon.resident_bytes().unwrap_or_default().saturating_sub(before);
                most.fetch_max(grown, Ordering::Relaxed);
                thread::sleep(Duration::from_millis(5));
            }
        });
        let in_kernel = scope.spawn(|| -> Result<()> {
            while !done.load(Ordering::Relaxed) {
                most_in_kernel.fetch_max(kernel_bytes(daemon.address)?, Ordering::Relaxed);
                thread::sleep(Duration::from_millis(200));
            }
            Ok(())
        });
        let held = hostile();
        let began = Instant::now();
        let scraped = scrape().context("a scrape among hostile clients");
        let took = began.elapsed();
        done.store(true, Ordering::Relaxed);
        in_kernel.join().map_err(|_| anyhow!("a thread failed"))??;
        println!("a scrape among them took {took:?}");
        ensure!(took < TIMEOUT, "a scrape among hostile clients took {took:?}");
        ensure!(scraped?.total("noised_context_switches_total") > 0.0, "an empty page");
        held
    })?;
    let (grown, in_kernel) = (most.into_inner(), most_in_kernel.into_inner());
    println!(
        "resident memory grew by {} KiB at most, the kernel's was {} KiB",
        grown >> 10,
        in_kernel >> 10
    );
    ensure!(grown < GROWTH_BYTES, "resident memory grew by {grown} bytes");
    ensure!(in_kernel < KERNEL_BYTES, "the kernel held {in_kernel} bytes");
    drop(held);
    scrape().context("a scrape after hostile clients")?;
    Ok(())
}

fn plain(address: SocketAddr) -> Result<Scrape> {
    parsed(&get(address, "/metrics", &[])?)
}

fn encrypted(client: &Client, address: SocketAddr) -> Result<Scrape> {
    parsed(&client.get(address, "/metrics", &[])?)
}

fn parsed(answer: &Response) -> Result<Scrape> {
    ensure!(answer.status == 200, "status {}", answer.status);
    Scrape::parse(answer.text()?)
}

/// Connections that the daemon says it ended before their clients were done.
fn hangups(scrape: &Scrape) -> f64 {
    scrape.total("noised_http_hangups_total")
}

/// All at once. Who is not answered, because it had no turn to ask while others waited for its
/// connection, is counted by the daemon; at least so many are answered.
fn scrape_all(least: usize, get: impl Fn() -> Result<Response> + Sync) -> Result<()> {
    let before = hangups(&parsed(&get()?)?);
    let began = Instant::now();
    let answered = thread::scope(|scope| -> Result<usize> {
        let scrapers: Vec<_> = (0..SCRAPERS)
            .map(|_| {
                let builder = thread::Builder::new().stack_size(256 << 10);
                builder.spawn_scoped(scope, &get)
            })
            .collect::<Result<_, _>>()?;
        // Read when all have their answers, so that no request waits for a turn because of that.
        let mut answers = Vec::new();
        for scraper in scrapers {
            match scraper.join() {
                Ok(Ok(answer)) => answers.push(answer),
                Ok(Err(error)) => println!("{error:#}"),
                Err(_) => println!("a scraper panicked"),
            }
        }
        println!("{} of {SCRAPERS} answered in {:?}", answers.len(), began.elapsed());
        for answer in &answers {
            parsed(answer)?;
        }
        Ok(answers.len())
    })?;
    let counted = hangups(&parsed(&get()?)?) - before;
    println!("{counted} were hung up on");
    ensure!(answered >= least, "{answered} of {SCRAPERS} were answered, not {least}");
    ensure!(
        answered as f64 + counted >= SCRAPERS as f64,
        "{answered} of {SCRAPERS} were answered, and {counted} hung up on"
    );
    Ok(())
}

fn a_thousand_scrapers() -> Result<()> {
    let daemon = Daemon::start()?;
    let address = daemon.address;
    bounded(&daemon, || plain(address), || scrape_all(SCRAPERS, || get(address, "/metrics", &[])))?;
    Ok(())
}

fn a_thousand_scrapers_over_tls() -> Result<()> {
    let site = Site::new(TLS)?;
    let client = site.client()?;
    let daemon = site.start_open()?;
    let scrape = || encrypted(&client, daemon.address);
    let get = || client.get(daemon.address, "/metrics", &[]);
    // While it is busy with the handshakes of all, the request of one may wait for longer than
    // a connection that is not used is left alone.
    bounded(&daemon, scrape, || scrape_all(SCRAPERS - SCRAPERS / 100, get))?;
    Ok(())
}

fn connect(address: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    Ok(stream)
}

fn slow_loris_over_tls() -> Result<()> {
    let site = Site::new(TLS)?;
    let client = site.client()?;
    let daemon = site.start_open()?;
    let scrape = || encrypted(&client, daemon.address);
    bounded(&daemon, scrape, || {
        let mut silent = Vec::new();
        let mut half = Vec::new();
        for _ in 0..1000 {
            // Some of them are hung up on meanwhile.
            let Ok(mut stream) = connect(daemon.address) else { continue };
            // The beginning of a handshake that does not go on.
            let _ = stream.write_all(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc");
            silent.push(stream);
        }
        for _ in 0..300 {
            let mut stream = client.connect(daemon.address)?;
            let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX-Slow: ");
            let _ = stream.flush();
            half.push(stream);
        }
        ensure!(silent.len() > 500, "only {} connections", silent.len());
        Ok((silent, half))
    })?;
    Ok(())
}

/// Clients that ask and do not read.
fn askers(address: SocketAddr, clients: usize, requests: usize) -> Result<Vec<TcpStream>> {
    let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(requests);
    (0..clients)
        .map(|number| {
            let mut stream = connect(address)?;
            // As small as the system allows, so that the daemon has to keep the answer.
            let size: libc::c_int = 1;
            // SAFETY: the option's value is an int that outlives the call.
            let set = unsafe {
                libc::setsockopt(
                    stream.as_raw_fd(),
                    libc::SOL_SOCKET,
                    libc::SO_RCVBUF,
                    (&raw const size).cast(),
                    size_of::<libc::c_int>() as libc::socklen_t,
                )
            };
            ensure!(set == 0, "SO_RCVBUF: {}", std::io::Error::last_os_error());
            let _ = stream.write_all(request.as_bytes());
            if number % 10 == 0 {
                // So that not all are answered by the same.
                thread::sleep(Duration::from_millis(50));
            }
            Ok(stream)
        })
        .collect()
}

/// How many connections have ended, once what came over them is read.
fn ended(streams: &[TcpStream]) -> Result<usize> {
    let mut ended = 0;
    for mut stream in streams {
        stream.set_nonblocking(true)?;
        ended += usize::from(loop {
            match stream.read(&mut [0; 4096]) {
                Ok(0) => break true,
                Ok(_) => {}
                Err(error) => break error.kind() != ErrorKind::WouldBlock,
            }
        });
    }
    Ok(ended)
}

/// Fewer clients than there may be connections, so that they are hung up on for the answers alone.
fn answers_that_are_not_taken() -> Result<()> {
    let daemon = Daemon::start()?;
    let address = daemon.address;
    // More than the kernel takes of them: else no client would be slow.
    let pages = 400_000 / get(address, "/metrics", &[])?.body.len().max(1) + 2;
    let hostile = || {
        let held = askers(address, 200, pages)?;
        let deadline = Instant::now() + 3 * TIMEOUT;
        let ended = loop {
            thread::sleep(Duration::from_secs(1));
            let ended = ended(&held)?;
            if ended > 0 {
                break ended;
            }
            ensure!(Instant::now() < deadline, "no connection was ended");
        };
        println!("{ended} of {} were hung up on", held.len());
        Ok(held)
    };
    bounded(&daemon, || plain(address), hostile)?;
    Ok(())
}

fn many_requests_at_once() -> Result<()> {
    let daemon = Daemon::start()?;
    let address = daemon.address;
    let hostile = || {
        let held = askers(address, 300, 400)?;
        thread::sleep(Duration::from_secs(1));
        Ok(held)
    };
    bounded(&daemon, || plain(address), hostile)?;
    Ok(())
}

/// CPU time of a process so far.
fn cpu_time(pid: u32) -> Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (_, rest) = stat.rsplit_once(')').context("no name")?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>()? + fields[12].parse::<u64>()?;
    // USER_HZ is 100 wherever Linux runs.
    Ok(Duration::from_millis(ticks * 10))
}

/// Counts how a wrong password was answered, and waits a little where it was sent away.
fn count_refusal(status: u16, refused: &AtomicU32, busy: &AtomicU32) -> Result<()> {
    match status {
        401 => refused.fetch_add(1, Ordering::Relaxed),
        429 => {
            thread::sleep(Duration::from_millis(20));
            busy.fetch_add(1, Ordering::Relaxed)
        }
        other => bail!("a wrong password is answered {other}"),
    };
    Ok(())
}

fn wrong_passwords() -> Result<()> {
    let hash = bcrypt::hash("right", 8)?;
    let site = Site::new(&format!("basic_auth_users:\n  alice: {hash}\n"))?;
    let daemon = site.start(|address| get(address, "/-/ready", &[]).is_ok())?;
    let address = daemon.address;
    // alice:right
    let right = [("Authorization", "Basic YWxpY2U6cmlnaHQ=")];
    ensure!(get(address, "/metrics", &right)?.status == 200, "alice is refused");
    let (busy, refused) = (AtomicU32::new(0), AtomicU32::new(0));
    let began = (Instant::now(), cpu_time(daemon.process().pid())?);
    let end = began.0 + Duration::from_secs(6);
    let mut longest = Duration::ZERO;
    thread::scope(|scope| -> Result<()> {
        let mut attackers = Vec::new();
        for attacker in 0..4 {
            let (busy, refused) = (&busy, &refused);
            attackers.push(scope.spawn(move || -> Result<()> {
                let mut number = 0;
                while Instant::now() < end {
                    number += 1;
                    let user = if attacker % 2 == 0 { "alice" } else { "bob" };
                    let text = BASE64_STANDARD.encode(format!("{user}:{attacker}-{number}"));
                    let text = format!("Basic {text}");
                    let answer = get(address, "/metrics", &[("Authorization", &text)])?;
                    count_refusal(answer.status, refused, busy)?;
                }
                Ok(())
            }));
        }
        while Instant::now() < end {
            let began = Instant::now();
            let status = get(address, "/metrics", &right)?.status;
            ensure!(status == 200, "alice is refused: {status}");
            longest = longest.max(began.elapsed());
            thread::sleep(Duration::from_millis(500));
        }
        attackers
            .into_iter()
            .try_for_each(|one| one.join().map_err(|_| anyhow!("an attacker's thread failed"))?)
    })?;
    let cpu = cpu_time(daemon.process().pid())?.saturating_sub(began.1);
    let share = cpu.as_secs_f64() / began.0.elapsed().as_secs_f64();
    let (busy, refused) = (busy.into_inner(), refused.into_inner());
    println!(
        "{refused} refused, {busy} sent away; {:.0} % of one CPU; who may waited {longest:?} at most",
        share * 100.0
    );
    ensure!(refused > 0 && busy > 0, "{refused} refused, {busy} sent away");
    Ok(())
}

/// A connection from this address of ours.
fn connect_from(source: Ipv4Addr, address: SocketAddr) -> Result<TcpStream> {
    let SocketAddr::V4(to) = address else { bail!("{address} is not IPv4") };
    let name = |address: Ipv4Addr, port: u16| libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: port.to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(address.octets()) },
        sin_zero: [0; 8],
    };
    let (source, to) = (name(source, 0), name(*to.ip(), to.port()));
    let length = size_of::<libc::sockaddr_in>() as libc::socklen_t;
    // SAFETY: no memory argument.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
    ensure!(socket >= 0, "socket: {}", std::io::Error::last_os_error());
    // SAFETY: it was just made, and has no other owner.
    let stream = unsafe { TcpStream::from_raw_fd(socket) };
    // SAFETY: the names are valid for the calls, and as long as is said.
    let connected = unsafe {
        libc::bind(socket, (&raw const source).cast(), length) == 0
            && libc::connect(socket, (&raw const to).cast(), length) == 0
    };
    ensure!(connected, "connecting: {}", std::io::Error::last_os_error());
    stream.set_read_timeout(Some(3 * TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    Ok(stream)
}

/// Somebody who was never let in before comes while more addresses than can wait try one password
/// after the other: it waits for its turn, and is not sent away.
fn a_right_password_among_wrong_ones() -> Result<()> {
    let hash = bcrypt::hash("right", 5)?;
    let site = Site::new(&format!("basic_auth_users:\n  alice: {hash}\n"))?;
    let daemon = site.start(|address| get(address, "/-/ready", &[]).is_ok())?;
    let address = daemon.address;
    let (busy, refused) = (AtomicU32::new(0), AtomicU32::new(0));
    let done = AtomicBool::new(false);
    let attack = |attacker: u8| -> Result<()> {
        let mut number = 0;
        while !done.load(Ordering::Relaxed) {
            number += 1;
            let text = BASE64_STANDARD.encode(format!("alice:{attacker}-{number}"));
            let text = format!("Basic {text}");
            let mut stream = connect_from(Ipv4Addr::new(127, 0, 1, 1 + attacker / 3), address)?;
            let answer = exchange(&mut stream, address, "/-/ready", &[("Authorization", &text)])?;
            count_refusal(answer.status, &refused, &busy)?;
        }
        Ok(())
    };
    let (status, took) = thread::scope(|scope| -> Result<_> {
        let attack = &attack;
        let attackers: Vec<_> =
            (0..60).map(|attacker| scope.spawn(move || attack(attacker))).collect();
        thread::sleep(Duration::from_secs(2));
        let began = Instant::now();
        // alice:right
        let status = get(address, "/-/ready", &[("Authorization", "Basic YWxpY2U6cmlnaHQ=")])
            .map(|answer| answer.status);
        let took = began.elapsed();
        done.store(true, Ordering::Relaxed);
        attackers.into_iter().try_for_each(|one| {
            one.join().map_err(|_| anyhow!("an attacker's thread failed"))?
        })?;
        Ok((status?, took))
    })?;
    let (busy, refused) = (busy.into_inner(), refused.into_inner());
    println!("{refused} refused, {busy} sent away; who may was answered {status} after {took:?}");
    ensure!(busy > 0, "no client was sent away");
    ensure!(status == 200, "alice was answered {status}");
    Ok(())
}
