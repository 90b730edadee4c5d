//! Roles by made tables of sockets.

use super::*;

fn socket(inode: u32, local: &str, remote: &str) -> Connection {
    let (local, remote) = (local.parse().unwrap(), remote.parse().unwrap());
    Connection { inode, protocol: TCP, local, remote, namespace: 1 }
}

fn udp(inode: u32, local: &str, remote: &str) -> Connection {
    Connection { protocol: UDP, ..socket(inode, local, remote) }
}

/// 1 asks 2 at port 80, which asks 3 at port 5432, and another host.
fn sockets() -> Vec<Connection> {
    vec![
        socket(10, "0.0.0.0:80", "0.0.0.0:0"),
        socket(11, "127.0.0.1:5432", "0.0.0.0:0"),
        socket(12, "127.0.0.1:40000", "127.0.0.1:80"),
        socket(13, "127.0.0.1:80", "127.0.0.1:40000"),
        socket(14, "127.0.0.1:40001", "127.0.0.1:5432"),
        socket(15, "127.0.0.1:5432", "127.0.0.1:40001"),
    ]
}

fn open(internet: &[Connection], unix: &[UnixSocket], victim: i32) -> Peers {
    with_translated(internet, unix, victim, &BTreeSet::new())
}

fn with_translated(
    internet: &[Connection],
    unix: &[UnixSocket],
    victim: i32,
    translated: &BTreeSet<(SocketAddr, SocketAddr)>,
) -> Peers {
    let sockets_of =
        [(1, [12].into()), (2, [10, 13, 14, 16, 17].into()), (3, [11, 15].into())].into();
    let pipes_of = [(1, [12].into()), (3, [90].into()), (4, [90].into())].into();
    Peers::of(
        &[victim].into(),
        Open { sockets_of: &sockets_of, pipes_of: &pipes_of, internet, translated, unix },
    )
}

fn of(victim: i32, sockets: &[Connection]) -> Peers {
    open(sockets, &[], victim)
}

fn peer(role: impl Into<Option<Role>>, link: PeerLink) -> Peer {
    Peer { role: role.into(), link }
}

#[test]
fn who_listens_is_asked() {
    let sockets = sockets();
    let expected = [(2, peer(Role::Asks, PeerLink::Tcp(80)))];
    assert_eq!(of(1, &sockets).processes, expected.into());
    let middle =
        [(1, peer(Role::Serves, PeerLink::Tcp(80))), (3, peer(Role::Asks, PeerLink::Tcp(5432)))];
    assert_eq!(of(2, &sockets).processes, middle.into());
    assert_eq!(of(2, &sockets).hosts, None);
    let last = [(2, peer(Role::Serves, PeerLink::Tcp(5432))), (4, peer(None, PeerLink::Pipe))];
    assert_eq!(of(3, &sockets).processes, last.into());
}

#[test]
fn loopback_addresses_of_two_network_namespaces_are_not_the_same() {
    let mut sockets = sockets();
    let elsewhere = |socket| Connection { namespace: 2, ..socket };
    sockets.push(elsewhere(socket(15, "127.0.0.1:80", "127.0.0.1:40000")));
    sockets.push(elsewhere(socket(11, "127.0.0.1:40000", "127.0.0.1:80")));
    let expected = [(2, peer(Role::Asks, PeerLink::Tcp(80)))];
    assert_eq!(of(1, &sockets).processes, expected.into());
    let datagrams = [
        udp(12, "127.0.0.1:40000", "127.0.0.1:53"),
        elsewhere(udp(15, "127.0.0.1:53", "0.0.0.0:0")),
    ];
    assert_eq!(of(1, &datagrams).processes, BTreeMap::new());
}

#[test]
fn other_hosts_ask_or_are_asked() {
    let mut sockets = sockets();
    sockets.push(socket(16, "10.0.0.1:40002", "10.0.0.9:3306"));
    let hosts = |sockets: &[Connection]| of(2, sockets).hosts;
    let name = "10.0.0.9:3306".to_owned();
    let expected = Hosts { role: Role::Asks, name, is_certain: true };
    assert_eq!(hosts(&sockets), Some(expected));
    // One that asks comes from another host, too: which of the two a packet was of is not known.
    sockets.push(socket(17, "10.0.0.1:80", "10.0.0.8:50000"));
    assert_eq!(hosts(&sockets), None);
    sockets.retain(|socket| socket.inode != 16);
    assert_eq!(hosts(&sockets).map(|hosts| hosts.role), Some(Role::Serves));
}

#[test]
fn a_server_behind_a_translated_address_is_found_or_it_is_not_known_where_that_leads() {
    let container = |socket| Connection { namespace: 2, ..socket };
    // 1 asks a service at 10.96.0.7:80, which is 3 in a container at 172.17.0.2:8080.
    let asks = socket(12, "10.0.0.1:40000", "10.96.0.7:80");
    let sockets = [
        asks,
        container(socket(11, "0.0.0.0:8080", "0.0.0.0:0")),
        container(socket(15, "172.17.0.2:8080", "10.0.0.1:40000")),
    ];
    let found = of(1, &sockets);
    assert_eq!(found.processes, [(3, peer(Role::Asks, PeerLink::Tcp(80)))].into());
    assert_eq!(found.hosts, None);
    let served = of(3, &sockets);
    assert_eq!(served.processes.get(&1).map(|peer| peer.role), Some(Some(Role::Serves)));
    assert_eq!(served.hosts, None);
    // One that none is found for is another host, unless two may be it, its address is one of this host, or is translated.
    let certain = |sockets: &[Connection], translated: &[(&str, &str)]| {
        let address = |text: &str| -> SocketAddr { text.parse().unwrap() };
        let both = |(one, other): &(&str, &str)| (address(one), address(other));
        let translated = translated.iter().map(both).collect();
        let found = with_translated(sockets, &[], 1, &translated);
        assert_eq!(found.processes, BTreeMap::new());
        found.hosts.map(|hosts| (hosts.role, hosts.is_certain))
    };
    let third = Connection { namespace: 3, ..socket(0, "172.18.0.2:8080", "10.0.0.1:40000") };
    let two = [sockets.as_slice(), &[third]].concat();
    assert_eq!(certain(&two, &[]), Some((Role::Asks, false)));
    let alone = [asks];
    assert_eq!(certain(&alone, &[]), Some((Role::Asks, true)));
    let entry = [("10.0.0.1:40000", "10.96.0.7:80")];
    assert_eq!(certain(&alone, &entry), Some((Role::Asks, false)));
    let own = [asks, socket(0, "10.96.0.7:22", "10.0.0.9:50000")];
    assert_eq!(certain(&own, &[]), Some((Role::Asks, false)));
}

#[test]
fn clients_that_are_gone_may_have_been_waited_for() {
    let mut sockets = sockets();
    sockets.push(socket(16, "10.0.0.1:40002", "10.0.0.9:3306"));
    let hosts = |sockets: &[Connection]| of(2, sockets).hosts.map(|hosts| hosts.role);
    assert_eq!(hosts(&sockets), Some(Role::Asks));
    let with = |one: Connection| hosts(&[sockets.clone(), vec![one]].concat());
    // A connection that is over, at its port, and at a port of others; then both ends of one on this host.
    assert_eq!(with(socket(0, "10.0.0.1:80", "10.0.0.8:50000")), None);
    assert_eq!(with(socket(0, "10.0.0.1:81", "10.0.0.8:50000")), Some(Role::Asks));
    sockets.push(socket(12, "127.0.0.1:40009", "127.0.0.1:80"));
    assert_eq!(
        hosts(&[sockets.clone(), vec![socket(0, "127.0.0.1:80", "127.0.0.1:40009")]].concat()),
        Some(Role::Asks)
    );
    // A server of datagrams; one of this host alone, and one that asks, are none.
    let with = |one: Connection| hosts(&[sockets.clone(), vec![one]].concat());
    assert_eq!(with(udp(17, "0.0.0.0:53", "0.0.0.0:0")), None);
    assert_eq!(with(udp(17, "127.0.0.1:53", "0.0.0.0:0")), Some(Role::Asks));
    assert_eq!(with(udp(17, "0.0.0.0:40000", "0.0.0.0:0")), Some(Role::Asks));
}

#[test]
fn what_no_connection_says_is_not_known() {
    let mut sockets = sockets();
    // Both listen, or who listened has stopped that.
    sockets.push(socket(18, "0.0.0.0:40001", "0.0.0.0:0"));
    assert_eq!(of(3, &sockets).processes[&2].role, None);
    sockets.retain(|socket| socket.remote.port() != 0);
    assert_eq!(of(1, &sockets).processes[&2].role, None);
    assert_eq!(of(9, &sockets), Peers::default());
    // Two that ask each other.
    let both = [
        socket(10, "0.0.0.0:80", "0.0.0.0:0"),
        socket(12, "127.0.0.1:40000", "127.0.0.1:80"),
        socket(13, "127.0.0.1:80", "127.0.0.1:40000"),
        socket(15, "127.0.0.1:5432", "127.0.0.1:40001"),
        socket(14, "127.0.0.1:40001", "127.0.0.1:5432"),
    ];
    let sockets_of = [(1, [12, 15].into()), (2, [10, 13, 14].into())].into();
    let mut sockets = both.to_vec();
    sockets.push(socket(19, "0.0.0.0:5432", "0.0.0.0:0"));
    let pipes_of = BTreeMap::new();
    let translated = BTreeSet::new();
    let open = Open {
        sockets_of: &sockets_of,
        pipes_of: &pipes_of,
        internet: &sockets,
        translated: &translated,
        unix: &[],
    };
    assert_eq!(Peers::of(&[1].into(), open).processes[&2].role, None);
}

#[test]
fn a_connected_udp_socket_asks_the_one_that_is_bound() {
    let mut sockets = vec![
        udp(11, "0.0.0.0:53", "0.0.0.0:0"),
        udp(12, "127.0.0.1:40000", "127.0.0.1:53"),
        // Of others, at the same port of another address.
        udp(13, "127.0.0.9:53", "0.0.0.0:0"),
    ];
    let asks = [(3, peer(Role::Asks, PeerLink::Udp(53)))];
    assert_eq!(of(1, &sockets).processes, asks.into());
    let serves = [(1, peer(Role::Serves, PeerLink::Udp(53))), (4, peer(None, PeerLink::Pipe))];
    assert_eq!(of(3, &sockets).processes, serves.into());
    assert_eq!(of(2, &sockets).processes, BTreeMap::new());
    // Neither is connected, or both are: the tables do not say who asks.
    sockets[1] = udp(12, "0.0.0.0:40000", "0.0.0.0:0");
    assert_eq!(of(1, &sockets).processes, BTreeMap::new());
    sockets[0] = udp(11, "127.0.0.1:53", "127.0.0.1:40000");
    sockets[1] = udp(12, "127.0.0.1:40000", "127.0.0.1:53");
    assert_eq!(of(1, &sockets).processes, BTreeMap::new());
}

fn unix(inode: u32, peer: u32, name: &str) -> UnixSocket {
    UnixSocket { inode, peer, name: name.to_owned(), is_listening: false, is_datagram: false }
}

#[test]
fn the_end_that_was_accepted_is_asked() {
    let path = || PeerLink::Unix("/run/db.sock".to_owned());
    let listener = UnixSocket { is_listening: true, ..unix(50, 0, "/run/db.sock") };
    let mut sockets = vec![listener, unix(12, 15, ""), unix(15, 12, "/run/db.sock")];
    let role = |sockets: &[UnixSocket], victim, other| {
        open(&[], sockets, victim).processes.get(&other).cloned()
    };
    assert_eq!(role(&sockets, 1, 3), Some(peer(Role::Asks, path())));
    assert_eq!(role(&sockets, 3, 1), Some(peer(Role::Serves, path())));
    assert_eq!(role(&sockets, 2, 1), None);
    // A client that is bound itself: who listens is asked.
    sockets[1].name = "/run/client.sock".to_owned();
    assert_eq!(role(&sockets, 1, 3), Some(peer(Role::Asks, path())));
    sockets[0].is_listening = false;
    assert_eq!(role(&sockets, 1, 3), Some(peer(None, PeerLink::Unix(String::new()))));
    // A pair links them.
    let pair = [unix(12, 15, ""), unix(15, 12, "")];
    assert_eq!(role(&pair, 1, 3), Some(peer(None, PeerLink::Unix(String::new()))));
    // It says nothing against what a connection says, whichever comes first.
    let before =
        [unix(16, 11, ""), unix(11, 16, ""), unix(14, 15, ""), unix(15, 14, "/run/db.sock")];
    assert_eq!(role(&before, 2, 3), Some(peer(Role::Asks, path())));
    let both = open(&self::sockets(), &[unix(12, 13, ""), unix(13, 12, "")], 1);
    assert_eq!(both.processes, [(2, peer(Role::Asks, PeerLink::Tcp(80)))].into());
}

#[test]
fn a_datagram_socket_asks_the_name_that_it_is_connected_to() {
    let datagram =
        |inode, peer, name: &str| UnixSocket { is_datagram: true, ..unix(inode, peer, name) };
    let log = || PeerLink::Unix("/dev/log".to_owned());
    let mut sockets = [datagram(12, 15, "@me"), datagram(15, 0, "/dev/log")];
    let role = |sockets: &[UnixSocket], victim, other| {
        open(&[], sockets, victim).processes.get(&other).cloned()
    };
    assert_eq!(role(&sockets, 1, 3), Some(peer(Role::Asks, log())));
    assert_eq!(role(&sockets, 3, 1), Some(peer(Role::Serves, log())));
    sockets[1].peer = 12;
    assert_eq!(role(&sockets, 1, 3), Some(peer(None, PeerLink::Unix(String::new()))));
}

#[test]
fn links_have_names() {
    for (link, expected) in [
        (PeerLink::Tcp(80), "port 80"),
        (PeerLink::Udp(53), "UDP port 53"),
        (PeerLink::Unix("/run/\x1bx".to_owned()), "/run/\\x1bx"),
        (PeerLink::Unix(String::new()), "a pair of sockets"),
        (PeerLink::Pipe, "a pipe"),
    ] {
        assert_eq!(link.to_string(), expected);
    }
}
