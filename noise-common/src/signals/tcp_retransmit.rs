//! TCP segments sent again (`tcp_retransmit_skb`), by the interface of the socket's route.

use crate::hooks::Hook;
use crate::shown::{Shown, Stage, Way};
use crate::signals::{ExportKind, Signal, SignalInfo, Storage};
use crate::subject::{Domain, SubjectKind};

pub(super) const INFO: SignalInfo = SignalInfo {
    signal: Signal::TcpRetransmit,
    name: "tcp_retransmit",
    metric: "noised_tcp_retransmits_total",
    help: "TCP segments sent again.",
    kind: ExportKind::Counter,
    labels: &["interface"],
    hooks: &[Hook::TcpRetransmit],
    fields: &["SOCK_DST", "DST_DEV", "DEV_IFINDEX", "DEV_NET", "NET_INUM"],
    storage: Storage::KeyedCounter,
    between: "TCP segments sent again, counted",
    domain: Domain::Network,
    subject: SubjectKind::Interface,
    shown: Shown::Way { way: Way::Retransmit, stage: Stage::Events },
    ..SignalInfo::PLAIN
};
