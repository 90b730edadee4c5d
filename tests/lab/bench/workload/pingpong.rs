//! Ping-pong between this process and a partner on the same CPU.
//!
//! The partner is this very binary, started anew: a mere fork would keep copies of the
//! descriptors that hold the programs' links. It ends when its input does, so also when this
//! process dies.
//!
//! Both run on one CPU. Left alone, the scheduler moves such a pair together and apart at will,
//! and the two cases differ by more than anything measured here.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result};

use super::{ECHO, Operation};

/// The longest message.
const LONGEST: usize = 8;

/// A ping-pong and its partner.
pub struct PingPong {
    // Closed before the partner is waited for, since their end is its end.
    ends: Option<(Box<dyn Read>, Box<dyn Write>)>,
    partner: Child,
    length: usize,
}

impl PingPong {
    /// Through two pipes, four bytes each way.
    pub fn over_pipes() -> Result<Self> {
        let (their_input, our_output) = io::pipe()?;
        let (our_input, their_output) = io::pipe()?;
        let partner = start_partner(their_input.into(), their_output.into())?;
        Ok(Self { ends: Some((Box::new(our_input), Box::new(our_output))), partner, length: 4 })
    }

    /// Over TCP on loopback, one byte each way.
    pub fn over_tcp() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").context("listening on loopback")?;
        let ours = TcpStream::connect(listener.local_addr()?)?;
        let (theirs, _) = listener.accept()?;
        ours.set_nodelay(true)?;
        theirs.set_nodelay(true)?;
        let their_output = OwnedFd::from(theirs.try_clone()?);
        let partner = start_partner(OwnedFd::from(theirs).into(), their_output.into())?;
        Ok(Self { ends: Some((Box::new(ours.try_clone()?), Box::new(ours))), partner, length: 1 })
    }
}

fn start_partner(input: Stdio, output: Stdio) -> Result<Child> {
    Command::new("/proc/self/exe")
        .arg(ECHO)
        .stdin(input)
        .stdout(output)
        .spawn()
        .context("starting the partner of the ping-pong")
}

impl Operation for PingPong {
    fn repeat(&mut self, count: u32) -> Result<()> {
        let (input, output) = self.ends.as_mut().context("the ping-pong has ended")?;
        let mut message = [0_u8; LONGEST];
        let message = message.get_mut(..self.length).context("the message is too long")?;
        for _ in 0..count {
            output.write_all(message)?;
            input.read_exact(message)?;
        }
        Ok(())
    }
}

impl Drop for PingPong {
    fn drop(&mut self) {
        self.ends = None;
        // An error means that it was waited for already.
        let _ = self.partner.wait();
    }
}

/// The partner: sends back what it gets, to the end of its input.
pub fn echo() -> io::Result<()> {
    // Without the buffers of `std::io`.
    let mut input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut output = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let mut message = [0_u8; LONGEST];
    loop {
        let length = input.read(&mut message)?;
        match message.get(..length) {
            None | Some([]) => return Ok(()),
            Some(message) => output.write_all(message)?,
        }
    }
}
