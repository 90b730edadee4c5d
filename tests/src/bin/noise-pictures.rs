//! `noise-pictures`: the dashboards as pictures. Started by `cargo xtask dashboards --pictures`.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use clap::Parser;
use noise_tests::daemon::{Daemon, capture, run};
use noise_tests::load;
use noise_tests::needed::missing;
use noise_tests::pictures::page;
use noise_tests::prometheus::{
    Bustle, CONFIGURATION, DISTURBED, Dashboard, QUIET, Server, dashboards,
};

/// Draw Grafana's dashboards, with the data of a Prometheus.
///
/// Without --prometheus, starts the daemon that NOISED_BIN names, a Prometheus beside it, and a load in
/// which every signal moves; needs root, prometheus and chromium.
#[derive(Debug, Parser)]
#[command(name = "noise-pictures", version)]
struct Options {
    /// Where the pictures go
    folder: PathBuf,
    /// Show what this Prometheus has, start nothing
    #[arg(long, value_name = "HOST:PORT")]
    prometheus: Option<SocketAddr>,
}

const WIDTH: u64 = 1600;

fn main() -> ExitCode {
    if let Some(code) = load::instead() {
        return code;
    }
    match draw(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("noise-pictures: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn draw(options: &Options) -> Result<()> {
    fs::create_dir_all(&options.folder)?;
    let folder = fs::canonicalize(&options.folder)?;
    if let Some(address) = options.prometheus {
        return draw_all(&Server::at(address), &folder, Duration::from_secs(900));
    }
    if let Some(reason) = missing(&["prometheus"]) {
        bail!(reason);
    }
    let mut file = capture()?;
    file.write_all(CONFIGURATION)?;
    let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
    let daemon = Daemon::start_with(&["--config.file", &path])?;
    let server = Server::start(&BTreeMap::from([("web-1", daemon.address)]))?;
    let mut bustle = Bustle::start()?;
    thread::sleep(QUIET);
    bustle.disturb()?;
    bustle.go_on(DISTURBED)?;
    draw_all(&server, &folder, QUIET + DISTURBED)
}

fn draw_all(server: &Server, folder: &Path, latest: Duration) -> Result<()> {
    // All pages first: pictures take their time, and what is shown is the same moment.
    let mut pages = Vec::new();
    let own = format!("noised-test-{}-", std::process::id());
    // What the load's groups are called is the test's affair.
    let renamed = |text: &str| text.replace(&format!("/{own}"), "").replace(&own, "");
    for dashboard in dashboards()? {
        let drawn = page(&dashboard, server, latest, &renamed)?;
        pages.push((dashboard, drawn));
    }
    for (dashboard, (html, height)) in pages {
        photograph(&dashboard, &html, height, folder)?;
    }
    Ok(())
}

fn photograph(dashboard: &Dashboard, html: &str, height: u64, folder: &Path) -> Result<()> {
    let page = folder.join(format!("{}.html", dashboard.uid));
    let picture = folder.join(format!("{}.png", dashboard.uid));
    let profile = folder.join("profile");
    fs::write(&page, html)?;
    let mut command = Command::new("chromium");
    command.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
    ]);
    command.args([
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
    ]);
    command.args(["--hide-scrollbars", &format!("--window-size={WIDTH},{height}")]);
    command.arg(format!("--user-data-dir={}", profile.display()));
    command.arg(format!("--screenshot={}", picture.display()));
    command.arg(format!("file://{}", page.display()));
    let outcome = run(command).context("chromium (Debian: apt-get install chromium)")?;
    ensure!(outcome.code == 0 && picture.exists(), "chromium: {}", outcome.stderr);
    fs::remove_file(&page)?;
    fs::remove_dir_all(&profile)?;
    println!("{}", picture.display());
    Ok(())
}
