//! What is over before a recording ends, and since when something is under way.

use super::unread::UnreadBytes;
use super::{PortFollower, PortWork, PortWorkKind, ServedConnection};

impl ServedConnection {
    /// When the first thing began that may become a work.
    fn begun_ns(&self, kind: PortWorkKind) -> Option<u64> {
        if kind == PortWorkKind::Connections {
            return self.accepted_ns.filter(|_| !self.is_client);
        }
        let requests = self.before.iter().chain(&self.latest).map(|request| request.from_ns);
        requests.chain(self.unread.first_ns()).min()
    }
}

impl PortFollower {
    /// All that is over, in the order in which that became known. A request is over when it is known what follows it on its
    /// connection, a connection when many others were closed since, or its number comes again.
    pub fn over(&self) -> &[PortWork] {
        &self.works
    }

    /// Since when something is under way that is not over.
    pub fn needed_ns(&self) -> Option<u64> {
        let connections =
            self.connections.values().filter_map(|connection| connection.begun_ns(self.kind));
        let unaccepted = self.unaccepted.values().filter_map(UnreadBytes::first_ns);
        connections.chain(unaccepted).min()
    }
}
