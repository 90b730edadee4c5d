//! The screens, each a pure function of the last minutes.

mod cells;
pub mod cpu;
pub mod disk_net;
pub mod incidents;
pub mod irq;
#[cfg(test)]
mod made;
pub mod overview;
mod recent;
pub mod services;
mod tally;
mod threads;
mod totals;
pub mod victims;
pub mod who;

use self::recent::Recent;
use super::services::Services;
use super::{History, Page, ScreenLook, Table};

noise_common::named! {
    /// What can be looked at, in the order of their keys; scripts, options and file names have the name.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Screen all SCREENS {
        /// Who is held up, and by whom.
        #[default]
        Victims = "victims",
        Overview = "overview",
        /// What is taken from each CPU.
        Cpu = "cpu",
        Who = "who",
        DiskNet = "disk-net",
        Irq = "irq",
        /// What left its baseline.
        Incidents = "incidents",
        /// Which service waits for which.
        Services = "services",
    }
}

impl Screen {
    /// Its place in [`SCREENS`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// As people read it, and where there is little room.
    pub fn titles(self) -> (&'static str, &'static str) {
        match self {
            Self::Victims => ("Victims", "Vict"),
            Self::Overview => ("Signals", "Sig"),
            Self::Cpu => ("CPU", "CPU"),
            Self::Who => ("Who", "Who"),
            Self::DiskNet => ("Disk and net", "Disk"),
            Self::Irq => ("IRQ", "IRQ"),
            Self::Incidents => ("Incidents", "Inc"),
            Self::Services => ("Services", "Svc"),
        }
    }

    /// What it says, for the help.
    pub fn help(self) -> &'static str {
        match self {
            Self::Victims => "Who is held up, how much, and by whom; open incidents above.",
            Self::Overview => "Every signal: how often, how long, how much time is lost to it.",
            Self::Cpu => "What interrupts, the hypervisor and waiting take from each CPU.",
            Self::Who => "Who delays whom, by how much.",
            Self::DiskNet => "Devices and interfaces: waits in their queues and for themselves.",
            Self::Irq => "Interrupts, softirqs and vectors by source.",
            Self::Incidents => "What left its own baseline, since when, and by whom.",
            Self::Services => {
                "Which service waits for which: requests by system calls, which are watched while this screen is shown."
            }
        }
    }

    /// The one that many further, round.
    pub fn further(self, steps: usize) -> Self {
        SCREENS.get((self.index() + steps) % SCREENS.len()).copied().unwrap_or_default()
    }

    pub fn table(self, history: &History, look: &ScreenLook) -> Table {
        match self {
            Self::Victims => victims::table(history, look),
            Self::Overview => overview::table(history, look),
            Self::Cpu => cpu::table(history, look),
            Self::Who => who::table(history, look),
            Self::DiskNet => disk_net::table(history, look),
            Self::Irq => irq::table(history, look),
            Self::Incidents => incidents::table(history, look),
            Self::Services => services::table(history),
        }
    }

    /// How much time its rates and sums cover, seconds; 0 where nothing is known yet.
    pub fn covered(self, history: &History, look: &ScreenLook) -> f64 {
        match (self, history.services()) {
            (Self::Services, Services::Watched(watched)) => watched.seconds,
            (Self::Services, _) => 0.0,
            _ => Recent::new(history, look).seconds,
        }
    }

    /// Whose delays the row with that key is about, where it is one cgroup's.
    pub fn victim(self, history: &History, key: &str) -> Option<String> {
        match self {
            Self::Victims => victims::victim(key),
            Self::Who => who::victim(key),
            Self::Incidents => incidents::victim(history, key),
            Self::Overview | Self::Cpu | Self::DiskNet | Self::Irq | Self::Services => None,
        }
    }

    /// What the row with that key opens.
    pub fn open(self, history: &History, look: &ScreenLook, key: &str) -> Option<Page> {
        match self {
            Self::Victims => victims::open(history, look, key),
            Self::Overview => overview::open(history, look, key),
            Self::Cpu => cpu::open(history, look, key),
            Self::Who => who::open(history, look, key),
            Self::DiskNet => disk_net::open(history, look, key),
            Self::Irq => irq::open(history, look, key),
            Self::Incidents => incidents::open(history, look, key),
            Self::Services => services::open(history, key),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::SCREENS;

    #[test]
    fn screens_are_in_the_order_of_their_keys() {
        assert!(SCREENS.iter().enumerate().all(|(index, screen)| screen.index() == index));
    }
}
