//! IO: which connections are translated on their way (DNAT), as far as the kernel's table of connections is readable: it is to
//! root, where the kernel has it as a file (`CONFIG_NF_CONNTRACK_PROCFS`), and has those of this network namespace, whose
//! packets come by here.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use noise_system::procfs;
use noise_text::clean::as_text;

const TABLE: &str = "/proc/net/nf_conntrack";
/// What is read of it: some 50,000 connections.
const MOST_BYTES: u64 = 8 << 20;

/// The clients' addresses, each with the one that it connects to, of those that are translated.
pub fn read() -> BTreeSet<(SocketAddr, SocketAddr)> {
    let table = procfs::begin(TABLE, MOST_BYTES).unwrap_or_default();
    as_text(&table).lines().filter_map(translated).collect()
}

/// A line has the addresses of both directions: what answers comes from elsewhere than what was asked, where it is translated.
fn translated(line: &str) -> Option<(SocketAddr, SocketAddr)> {
    let all = |name: &str| {
        let values = line.split_ascii_whitespace();
        let mut values = values.filter_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        Some((values.next()?, values.next()?))
    };
    let address = |ip: &str, port: &str| {
        let ip: IpAddr = ip.parse().ok()?;
        Some(SocketAddr::new(ip, port.parse().ok()?))
    };
    let ((src, answer_src), (dst, _)) = (all("src")?, all("dst")?);
    let ((sport, answer_sport), (dport, _)) = (all("sport")?, all("dport")?);
    let (client, asked) = (address(src, sport)?, address(dst, dport)?);
    (address(answer_src, answer_sport)? != asked).then_some((client, asked))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_answers_from_elsewhere_is_translated() {
        let line = |answer: &str| {
            format!(
                "ipv4     2 tcp      6 431999 ESTABLISHED src=10.0.0.1 dst=10.96.0.7 sport=40000 dport=80 {answer} \
                 dst=10.0.0.1 sport=8080 dport=40000 [ASSURED] mark=0 zone=0 use=2"
            )
        };
        let both = ("10.0.0.1:40000".parse().unwrap(), "10.96.0.7:80".parse().unwrap());
        assert_eq!(translated(&line("src=172.17.0.2")), Some(both));
        let plain = line("src=10.96.0.7").replace("sport=8080", "sport=80");
        assert_eq!(translated(&plain), None);
        // Another port of the same address is one, and what has no ports is none.
        assert_eq!(translated(&line("src=10.96.0.7")), Some(both));
        for none in
            ["", "ipv4 2 icmp 1 29 src=10.0.0.1 dst=10.0.0.9 type=8 src=10.0.0.9 dst=10.0.0.1"]
        {
            assert_eq!(translated(none), None);
        }
    }
}
