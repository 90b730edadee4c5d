//! Loads that compute: a crew of unbound threads, a prime search, a download with its checksum.

use std::hint::black_box;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use super::{Arguments, Session, command, report};
use crate::task::{own_switches, pin, settle};

/// `crew <threads>`: threads that may run anywhere, and of which each works for some milliseconds,
/// then rests for one.
pub(super) fn crew(arguments: &mut Arguments) -> Result<()> {
    let threads: u64 = arguments.number()?;
    let session = Session::begin()?;
    let crew: Vec<_> = (0..threads)
        .map(|number| {
            let session = session.clone();
            thread::spawn(move || {
                let mut shifts = 0_u64;
                while session.going() {
                    let end = Instant::now() + Duration::from_millis(3 + number % 5);
                    while Instant::now() < end {
                        std::hint::spin_loop();
                    }
                    thread::sleep(Duration::from_millis(1));
                    shifts += 1;
                }
                shifts
            })
        })
        .collect();
    let shifts: u64 = crew.into_iter().filter_map(|thread| thread.join().ok()).sum();
    report(&format!("shifts {shifts}"))
}

/// Finds the first `count` primes by trial division, and returns the last.
pub(super) fn last_prime(count: usize, going: impl Fn() -> bool) -> Option<u64> {
    let mut primes: Vec<u64> = vec![2];
    let mut candidate = 3;
    while primes.len() < count {
        let mut divisors = primes.iter().take_while(|&&prime| prime * prime <= candidate);
        if divisors.all(|prime| candidate % prime > 0) {
            primes.push(candidate);
            if !going() {
                return None;
            }
        }
        candidate += 2;
    }
    primes.last().copied()
}

/// `primes <cpu, or any> <count>`: searches the first primes, from the start again and again.
pub(super) fn primes(arguments: &mut Arguments) -> Result<()> {
    settle(&arguments.text()?)?;
    let count = arguments.number()?;
    let session = Session::begin()?;
    let (mut searches, mut last) = (0_u64, 0);
    let begin = Instant::now();
    let mut end = begin;
    while let Some(prime) = last_prime(count, || session.going()) {
        searches += 1;
        last = prime;
        end = Instant::now();
    }
    report(&format!("searches {searches}"))?;
    report(&format!("last-prime {last}"))?;
    let (voluntary, involuntary) = own_switches()?;
    report(&format!("voluntary-switches {voluntary}"))?;
    report(&format!("involuntary-switches {involuntary}"))?;
    report(&format!(
        "us-per-search {}",
        end.duration_since(begin).as_micros() as u64 / searches.max(1)
    ))
}

/// `download <cpu> <server's cpu> <bytes> <pause us> <rounds>`: receives a piece every so often over
/// loopback, and adds up its bytes that many times.
pub(super) fn download(arguments: &mut Arguments) -> Result<()> {
    pin(0, arguments.number()?)?;
    let server_cpu = arguments.text()?;
    let size = arguments.text()?;
    let pause = arguments.text()?;
    let rounds: u32 = arguments.number()?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?.to_string();
    let mut server =
        command("download-server", &[&server_cpu, &address, &size, &pause])?.spawn()?;
    let (mut stream, _) = listener.accept()?;
    let mut piece = vec![0_u8; size.parse()?];
    let session = Session::begin()?;
    let (mut pieces, mut spent) = (0_u64, Duration::ZERO);
    while session.going() {
        stream.read_exact(&mut piece)?;
        let begin = Instant::now();
        for _ in 0..rounds {
            let sum = piece.iter().fold(0_u64, |sum, &byte| sum.rotate_left(5) ^ u64::from(byte));
            black_box(sum);
        }
        spent += begin.elapsed();
        pieces += 1;
    }
    drop(stream);
    server.wait()?;
    report(&format!("pieces {pieces}"))?;
    report(&format!("ns-per-checksum {}", spent.as_nanos() as u64 / pieces.max(1)))
}

/// `download-server <cpu> <address> <bytes> <pause us>`: the other end.
pub(super) fn download_server(arguments: &mut Arguments) -> Result<()> {
    pin(0, arguments.number()?)?;
    let mut stream = TcpStream::connect(arguments.text()?)?;
    stream.set_nodelay(true)?;
    let piece = vec![0x3c_u8; arguments.number()?];
    let pause = Duration::from_micros(arguments.number()?);
    // Its end is the client's.
    while stream.write_all(&piece).is_ok() {
        thread::sleep(pause);
    }
    stream.shutdown(std::net::Shutdown::Both).or_else(|error| match error.kind() {
        std::io::ErrorKind::NotConnected => Ok(()),
        _ => Err(error).context("closing the connection"),
    })
}

#[cfg(test)]
mod tests {
    use super::last_prime;

    #[test]
    fn primes_are_prime() {
        assert_eq!(last_prime(1, || true), Some(2));
        assert_eq!(last_prime(25, || true), Some(97));
        assert_eq!(last_prime(1000, || true), Some(7919));
        assert_eq!(last_prime(1000, || false), None);
    }
}
