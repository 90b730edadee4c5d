//! The Debian package and its service, on a clean Debian under a real systemd.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use noise_tests::bpf;
use noise_tests::nspawn::{Machine, ensure_possible};
use noise_tests::packages;
use noise_tests::prom::Scrape;

use crate::Test;
use crate::attacks::{Target, ensure_confined};
use crate::incidents::until;

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("package_is_installed_and_purged", package_is_installed_and_purged),
    ("service_runs_confined", service_runs_confined),
    ("service_is_reloaded", service_is_reloaded),
    ("service_that_hangs_is_started_anew", service_that_hangs_is_started_anew),
    ("service_tries_again_only_where_it_helps", service_tries_again_only_where_it_helps),
];

/// Where the service listens.
const ADDRESS: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 19435);

const INSTALL: &str = "apt-get install --yes --no-install-recommends ./noised.deb 2>&1";

/// A machine with the package in its root folder.
fn machine() -> Result<Machine> {
    ensure_possible()?;
    let package = packages::newest(".deb")?;
    let machine = Machine::boot()?;
    fs::copy(package, machine.root().join("noised.deb"))?;
    Ok(machine)
}

/// The same with the service running.
fn serving() -> Result<Machine> {
    let machine = machine()?;
    machine.output(INSTALL)?;
    wait_until_ready(&machine)?;
    Ok(machine)
}

fn wait_until_ready(machine: &Machine) -> Result<()> {
    machine.wait_for("systemctl is-active --quiet noised")?;
    let deadline = Instant::now() + Duration::from_secs(60);
    while !machine.get(ADDRESS, "/-/ready").is_ok_and(|answer| answer.status == 200) {
        ensure!(Instant::now() < deadline, "{}", machine.output("journalctl -u noised; exit 1")?);
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

fn scrape(machine: &Machine) -> Result<Scrape> {
    let answer = machine.get(ADDRESS, "/metrics")?;
    ensure!(answer.status == 200, "/metrics answers {}", answer.status);
    Scrape::parse(answer.text()?)
}

/// What is in the root, but for what dpkg, apt and the journal write for themselves.
fn files(root: &Path) -> Result<BTreeSet<String>> {
    const THEIRS: [&str; 9] = [
        "var/lib/dpkg",
        "var/lib/apt",
        "var/cache",
        "var/log",
        "tmp",
        "var/tmp",
        "run",
        "proc",
        "sys",
    ];
    let mut found = BTreeSet::new();
    let mut left = vec![root.to_owned()];
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let path = entry.path();
            let name = path.strip_prefix(root)?.to_string_lossy().into_owned();
            if THEIRS.contains(&name.as_str()) {
                continue;
            }
            if entry.file_type()?.is_dir() {
                left.push(path);
            }
            found.insert(name);
        }
    }
    Ok(found)
}

/// How the package leaves the machine as it found it.
fn package_is_installed_and_purged() -> Result<()> {
    let machine = machine()?;
    // Made by the first package of its kind, and no package removes it.
    machine.output("mkdir -p -m 700 /var/lib/private; systemctl daemon-reload")?;
    let loaded = bpf::program_ids()?;
    let before = files(machine.root())?;
    println!("{}", machine.output(INSTALL)?);
    wait_until_ready(&machine)?;
    ensure!(machine.output("systemctl is-enabled noised")? == "enabled", "not enabled");
    machine.output("dpkg --verify noised && test -z \"$(dpkg --verify noised)\"")?;
    machine.output(
        "man_page=/usr/share/man/man1/noised-run.1.gz; gzip -dc $man_page | grep -q config",
    )?;
    // systemd has programs of its own for other services.
    let programs = bpf::programs_of(machine.on_host(&machine.property("MainPID")?)?)?;
    ensure!(!programs.is_empty(), "the service has loaded nothing");

    machine.output("systemctl stop noised")?;
    for (name, value) in
        [("Result", "success"), ("ExecMainStatus", "0"), ("ActiveState", "inactive")]
    {
        let found = machine.property(name)?;
        ensure!(found == value, "{name} of the stopped service: {found}");
    }
    bpf::wait_until_gone(programs.into_keys())?;
    ensure!(!machine.root().join("run/noised").exists(), "the socket's folder is left");

    machine.output("systemctl start noised && systemctl is-active noised")?;
    machine.output("echo '# mine' >> /etc/noised/noised.toml")?;
    println!("{}", machine.output("apt-get remove --yes noised 2>&1")?);
    machine
        .output("! systemctl is-active --quiet noised && grep -q mine /etc/noised/noised.toml")?;
    machine.output(&format!("{INSTALL} && grep -q mine /etc/noised/noised.toml"))?;
    wait_until_ready(&machine)?;
    println!("{}", machine.output("apt-get purge --yes noised 2>&1")?);
    machine.output("! getent group noised && ! id _noised 2>/dev/null")?;
    machine.output("systemctl --failed --no-legend | grep . && exit 1; exit 0")?;
    let after = files(machine.root())?;
    let left: Vec<_> = after.difference(&before).filter(|name| !is_backup(name)).collect();
    let gone: Vec<_> = before.difference(&after).collect();
    ensure!(left.is_empty() && gone.is_empty(), "left behind {left:?}, took away {gone:?}");
    drop(machine);
    bpf::ensure_none_left(&loaded)?;
    Ok(())
}

/// What the tools that change groups keep of the file before.
fn is_backup(name: &str) -> bool {
    ["etc/group-", "etc/gshadow-", "etc/passwd-", "etc/shadow-"].contains(&name)
}

/// The lines of `/proc/<pid>/status` of each thread of the service, by their names.
fn threads(machine: &Machine) -> Result<Vec<BTreeMap<String, String>>> {
    let pid = machine.property("MainPID")?;
    let text = machine.output(&format!("cat /proc/{pid}/task/*/status"))?;
    let mut threads: Vec<BTreeMap<String, String>> = Vec::new();
    for line in text.lines() {
        let Some((name, value)) = line.split_once(':') else { continue };
        if name == "Name" {
            threads.push(BTreeMap::new());
        }
        let thread = threads.last_mut().context("a status without a name")?;
        thread.insert(name.to_owned(), value.trim().to_owned());
    }
    Ok(threads)
}

/// Measures as a user of its own, and serves the members of the group.
fn service_runs_confined() -> Result<()> {
    let machine = serving()?;
    let status = machine.property("StatusText")?;
    println!("status: {status}");
    ensure!(status.contains("hooks"), "the status does not say how the service fares: {status:?}");
    let scraped = scrape(&machine)?;
    let attached = scraped.total("noised_probe_attached");
    ensure!(attached > 20.0, "{attached} hooks are attached");
    ensure!(scraped.total("noised_context_switches_total") > 0.0, "nothing is counted");
    let dropped = scraped.total("noised_dropped_total");
    println!("{attached} hooks, {dropped} dropped");

    for thread in threads(&machine)? {
        let of = |name: &str| thread.get(name).map(String::as_str).unwrap_or_default();
        for name in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
            let held = u64::from_str_radix(of(name), 16)?;
            ensure!(held == 0, "{} of thread {} is {held:x}", name, of("Name"));
        }
        ensure!(of("NoNewPrivs") == "1" && of("Seccomp") == "2", "thread {thread:?}");
        ensure!(!of("Uid").starts_with("0\t"), "thread {thread:?}");
    }

    machine.output("useradd --groups noised watcher && useradd stranger")?;
    let as_user = |name: &str| {
        format!("setpriv --reuid {name} --regid {name} --init-groups noised top --once")
    };
    let shown = machine.output(&as_user("watcher"))?;
    ensure!(shown.contains("runqueue_wait"), "the operator is shown {shown}");
    let refused = machine.run(&as_user("stranger"))?;
    ensure!(refused.code == 3 && refused.stderr.contains("not allowed"), "{refused:?}");
    ensure_marks_are_taken(&machine)?;
    // No other user may read what is kept, and none may write the configuration.
    machine.output("setpriv --reuid watcher --regid watcher --init-groups ls /var/lib/noised/ && exit 1; exit 0")?;
    // By number: a minimal system has no name for a dynamic user.
    let owner = machine.output("stat -c %u:%G /run/noised/noised.sock")?;
    let pid = machine.property("MainPID")?;
    let own = machine.output(&format!("stat -c %u:noised /proc/{pid}"))?;
    ensure!(owner == own, "the socket belongs to {owner}, the daemon is {own}");
    ensure_confined(&Target {
        pid: machine.on_host(&pid)?,
        address: ADDRESS,
        state: Some((machine.root().join("var/lib/private/noised"), "/var/lib/noised".to_owned())),
    })?;
    let unit = "/lib/systemd/system/noised.service";
    let analyse = format!("systemd-analyze security --offline=true {unit} | tail -1");
    let exposure = machine.output(&analyse)?;
    println!("{exposure}");
    let level = exposure.split_whitespace().find_map(|word| word.parse::<f64>().ok());
    // 0.1 of it is for netlink, of which the daemon itself allows no further socket once it has started.
    ensure!(level.is_some_and(|level| level <= 1.8), "{exposure}");
    for (name, set) in [
        ("MemoryMax", "536870912"),
        ("TasksMax", "1024"),
        ("CPUQuotaPerSecUSec", "1s"),
        ("CPUWeight", "1000"),
    ] {
        let found = machine.property(name)?;
        ensure!(found == set, "{name} of the service is {found}, not {set}");
    }
    let denied = machine.output("journalctl -u noised --no-pager")?;
    ensure!(!denied.contains("not confined"), "{denied}");
    let is_trouble = |line: &&str| line.contains(" WARN ") || line.contains(" ERROR ");
    // The machine has pids of its own, which a host's service has not.
    let trouble = denied.lines().filter(is_trouble).filter(|line| !line.contains("pid namespace"));
    ensure!(trouble.count() == 0, "{denied}");
    Ok(())
}

/// Marks come from members of the group, and from no one else.
fn ensure_marks_are_taken(machine: &Machine) -> Result<()> {
    // The mark is of the shell, which is the user's own.
    let mark = |user: &str| {
        format!(
            "setpriv --reuid {user} --regid {user} --init-groups sh -c 'noised mark begin job; exit $?'"
        )
    };
    let refused = machine.run(&mark("stranger"))?;
    ensure!(refused.code == 3 && refused.stderr.contains("not allowed to use"), "{refused:?}");
    machine.output(&mark("watcher"))?;
    let marks = || -> Result<Vec<String>> {
        let answer = machine.get(ADDRESS, "/metrics")?;
        let lines = answer.text()?.lines().filter(|line| line.starts_with("noised_marks_total{"));
        Ok(lines.map(str::to_owned).collect())
    };
    let is_taken =
        || Ok(marks()?.iter().any(|line| line == "noised_marks_total{result=\"taken\"} 1"));
    ensure!(until(is_taken)?, "{:?}", marks()?);
    Ok(())
}

fn service_is_reloaded() -> Result<()> {
    let machine = serving()?;
    let pid = machine.property("MainPID")?;
    let write = |text: &str| -> Result<()> {
        Ok(fs::write(machine.root().join("etc/noised/noised.toml"), text)?)
    };
    write("[outliers]\nthreshold-microseconds = 777\n")?;
    machine.output("systemctl reload noised")?;
    wait_until_logged(&machine, "changed: .*outliers.threshold-microseconds")?;
    write("[outliers]\nthreshold-microseconds = \"many\"\n")?;
    let reloaded = machine.output("systemctl reload noised");
    ensure!(reloaded.is_err(), "systemctl says that a broken file was reloaded");
    wait_until_logged(&machine, "keeping the previous configuration: .*/etc/noised/noised.toml")?;
    let status = machine.property("StatusText")?;
    println!("status: {status}");
    ensure!(status.contains("reload"), "the status does not mention it: {status}");
    ensure!(machine.property("MainPID")? == pid, "another process");
    ensure!(machine.property("ActiveState")? == "active", "not active any more");
    // What the check said, beside what the daemon did.
    wait_until_logged(
        &machine,
        "noised: /etc/noised/noised.toml, line 2 .*threshold-microseconds",
    )?;
    wait_until_ready(&machine)?;
    write("[outliers]\nthreshold-microseconds = 778\n")?;
    machine.output("systemctl reload noised")?;
    // What is right by itself, and the running daemon refuses: the last user is taken away.
    let web = machine.root().join("etc/noised/web.yml");
    fs::write(&web, format!("basic_auth_users:\n  alice: {}\n", bcrypt::hash("right", 4)?))?;
    write("[web.config]\nfile = \"/etc/noised/web.yml\"\n")?;
    machine.output("systemctl restart noised")?;
    machine.output("systemctl reload noised")?;
    fs::write(&web, "")?;
    let reloaded = machine.output("systemctl reload noised");
    ensure!(reloaded.is_err(), "systemctl says that a refused file was reloaded");
    wait_until_logged(
        &machine,
        "noised: the running daemon refused it and goes on as before: .*web.yml",
    )?;
    ensure!(machine.property("ActiveState")? == "active", "not active any more");
    Ok(())
}

/// Sooner than an operator would want it, so that a test need not wait for long.
fn soon(machine: &Machine, settings: &str) -> Result<()> {
    machine.output(&format!(
        "mkdir -p /etc/systemd/system/noised.service.d && \
         printf '[Service]\\n{settings}\\n' > /etc/systemd/system/noised.service.d/soon.conf && \
         systemctl daemon-reload"
    ))?;
    Ok(())
}

/// What may mend itself is waited for, as long as it takes; a mistake is not.
fn service_tries_again_only_where_it_helps() -> Result<()> {
    let machine = serving()?;
    let write = |text: &str| -> Result<()> {
        Ok(fs::write(machine.root().join("etc/noised/noised.toml"), text)?)
    };
    ensure!(machine.property("StartLimitIntervalUSec")? == "0", "the service gives up some time");
    soon(&machine, "RestartSec=1s")?;
    // An address that is not there (RFC 5737).
    write("[web]\nlisten-address = \"192.0.2.7:19435\"\n")?;
    machine.run("systemctl restart noised")?;
    machine.wait_for("test \"$(systemctl show -P NRestarts noised)\" -ge 2")?;
    wait_until_logged(&machine, "cannot listen on 192.0.2.7:19435")?;
    write("")?;
    wait_until_ready(&machine)?;

    write("[web]\nlisten-adress = \"127.0.0.1:19435\"\n")?;
    machine.run("systemctl restart noised")?;
    machine.wait_for("systemctl is-failed --quiet noised")?;
    let (status, restarts) = (machine.property("ExecMainStatus")?, machine.property("NRestarts")?);
    println!("with a mistake: status {status}, {restarts} restarts");
    ensure!(status == "2" && restarts == "0", "status {status} after {restarts} restarts");
    std::thread::sleep(Duration::from_secs(3));
    ensure!(machine.property("ActiveState")? == "failed", "a mistake is tried again");
    Ok(())
}

/// Waits until the journal of the service has a word.
fn wait_until_logged(machine: &Machine, word: &str) -> Result<()> {
    machine
        .wait_for(&format!("journalctl -u noised --no-pager | grep -q '{word}'"))
        .with_context(|| format!("the journal does not show {word}"))
}

fn service_that_hangs_is_started_anew() -> Result<()> {
    let machine = serving()?;
    soon(&machine, "WatchdogSec=2s\\nRestartSec=1s")?;
    machine.run("systemctl restart noised")?;
    wait_until_ready(&machine)?;
    // One that works is let alone for longer than that.
    let pid = machine.property("MainPID")?;
    std::thread::sleep(Duration::from_secs(6));
    ensure!(machine.property("MainPID")? == pid, "a working daemon was killed");
    machine.output(&format!("kill -STOP {pid}"))?;
    machine.wait_for("test \"$(systemctl show -P NRestarts noised)\" = 1")?;
    wait_until_ready(&machine)?;
    ensure!(machine.property("MainPID")? != pid, "the same process");
    wait_until_logged(&machine, "Watchdog timeout")?;
    ensure!(scrape(&machine)?.total("noised_probe_attached") > 20.0, "it measures nothing");
    Ok(())
}
