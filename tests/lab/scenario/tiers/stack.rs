//! nginx, a Python application and redis, each behind the one before, on loopback in a folder of their own.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::servers::Servers;
use crate::daemon::{Process, free_address};
use crate::scenario::compared::program::python;

/// The application.
const APP: &str = include_str!("app.py");
/// Longer than any of them takes to start on a loaded machine.
const TIMEOUT: Duration = Duration::from_secs(20);
/// How long the proxy's connections to the application are kept, and how many.
const KEPT: usize = 128;

/// What is planted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Planted {
    /// How long the application sleeps for each request, milliseconds.
    pub sleep_ms: f64,
    /// The application runs on this CPU alone, the others on another one.
    pub cpu: Option<usize>,
}

/// The three servers.
#[derive(Debug)]
pub struct Stack {
    // Each is ended before the one that it asks.
    nginx: Process,
    app: Process,
    redis: Process,
    /// Where the first of them listens.
    pub address: SocketAddr,
}

fn await_port(address: SocketAddr, process: &mut Process) -> Result<()> {
    let deadline = Instant::now() + TIMEOUT;
    while TcpStream::connect(address).is_err() {
        let ended = process.ended()?;
        ensure!(ended.is_none(), "it ended with {ended:?}: {}", process.stderr()?);
        ensure!(Instant::now() < deadline, "nothing listens at {address}: {}", process.stderr()?);
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// On one CPU, where one is named.
fn on(cpu: Option<usize>, command: Command) -> Command {
    let Some(cpu) = cpu else { return command };
    let mut pinned = Command::new("taskset");
    pinned.args(["-c", &cpu.to_string()]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            pinned.env(name, value);
        }
    }
    pinned
}

impl Stack {
    /// Starts all three; the application writes into the folder what it knows of its requests.
    /// Errors: if one does not start.
    pub fn start(servers: &Servers, folder: &Path, planted: Planted) -> Result<Self> {
        let [front, middle, store] = [free_address()?, free_address()?, free_address()?];
        let others = planted.cpu.map(|cpu| usize::from(cpu == 0));
        let mut redis = servers.command("usr/bin/redis-server")?;
        redis.args(["--bind", "127.0.0.1", "--port", &store.port().to_string()]);
        redis.args(["--save", "", "--appendonly", "no", "--dir"]).arg(folder);
        let mut redis = Process::start(on(others, redis))?;
        await_port(store, &mut redis).context("redis")?;
        let program = folder.join("program.py");
        fs::write(&program, APP)?;
        let mut app = Command::new(python());
        app.arg(&program).args([middle.port().to_string(), store.port().to_string()]);
        app.arg(folder).arg(planted.sleep_ms.to_string());
        app.arg(planted.cpu.map_or_else(|| "-1".to_owned(), |cpu| cpu.to_string()));
        let mut app = Process::start(app)?;
        await_port(middle, &mut app).context("the application")?;
        let path = |name: &str| folder.join(name).display().to_string();
        let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|name| format!("  {name}_temp_path {};\n", path(name)))
            .concat();
        let configuration = format!(
            "daemon off;\nmaster_process off;\npid {};\nerror_log stderr;\nevents {{ worker_connections 1024; }}\n\
             http {{\n{temporary}  access_log off;\n  keepalive_requests 1000000;\n  upstream app {{ server {middle}; \
             keepalive {KEPT}; keepalive_requests 1000000; }}\n  server {{\n    listen {front} backlog=256;\n    \
             location / {{ proxy_pass http://app; proxy_http_version 1.1; proxy_set_header Connection \"\"; }}\n  }}\n}}\n",
            path("nginx.pid")
        );
        let file = folder.join("nginx.conf");
        fs::write(&file, configuration)?;
        let mut nginx = servers.command("usr/sbin/nginx")?;
        nginx.arg("-p").arg(folder).arg("-c").arg(&file).args(["-e", "stderr"]);
        let mut nginx = Process::start(on(others, nginx))?;
        await_port(front, &mut nginx).context("nginx")?;
        Ok(Self { nginx, app, redis, address: front })
    }

    /// Ids of the three processes; the application has children.
    pub fn pids(&self) -> [u32; 3] {
        [&self.nginx, &self.app, &self.redis].map(Process::pid)
    }

    /// Ends all; then the application has written what it knows.
    /// Errors: if one does not end.
    pub fn stop(mut self) -> Result<()> {
        for process in [&mut self.nginx, &mut self.app, &mut self.redis] {
            process.signal(libc::SIGTERM)?;
            process.wait()?;
        }
        Ok(())
    }
}
