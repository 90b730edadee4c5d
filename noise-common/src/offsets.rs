//! The kernel fields that the programs read.
//!
//! The daemon computes their offsets from the running kernel's BTF and puts them, with a few
//! facts about tracepoint arguments, into the object's read-only globals, one global per fact;
//! the verifier folds them into constants. rustc emits no CO-RE relocations, so this is how the
//! programs are portable.

/// Offset of a field that this kernel does not have.
pub const MISSING: u32 = u32::MAX;

/// Calls `$then!` with the table of fields: global, struct, path of the member.
#[macro_export]
macro_rules! for_each_offset {
    ($then:ident) => {
        $then! {
            TASK_PID "task_struct" "pid";
            TASK_TGID "task_struct" "tgid";
            TASK_PRIO "task_struct" "prio";
            TASK_FLAGS "task_struct" "flags";
            TASK_STATE "task_struct" "__state";
            TASK_STATE_OLD "task_struct" "state";
            TASK_COMM "task_struct" "comm";
            TASK_ON_RQ "task_struct" "on_rq";
            TASK_CPU "task_struct" "thread_info.cpu";
            TASK_CPU_OLD "task_struct" "cpu";
            TASK_CGROUPS "task_struct" "cgroups";
            TASK_CFS_RQ "task_struct" "se.cfs_rq";
            CFS_RQ_RQ "cfs_rq" "rq";
            CFS_THROTTLED_SINCE "cfs_rq" "throttled_clock_self";
            CFS_THROTTLED_TIME "cfs_rq" "throttled_clock_self_time";
            RQ_CLOCK "rq" "clock";
            RQ_STEAL "rq" "prev_steal_time_rq";
            CSS_SET_DEFAULT "css_set" "dfl_cgrp";
            CSS_CGROUP "cgroup_subsys_state" "cgroup";
            CGROUP_KN "cgroup" "kn";
            KN_ID "kernfs_node" "id";
            HRTIMER_FUNCTION "hrtimer" "function";
            REQUEST_QUEUE "request" "q";
            REQUEST_FLAGS "request" "cmd_flags";
            REQUEST_LEN "request" "__data_len";
            REQUEST_SECTOR "request" "__sector";
            REQUEST_DISK_OLD "request" "rq_disk";
            QUEUE_DISK "request_queue" "disk";
            DISK_MAJOR "gendisk" "major";
            DISK_MINOR "gendisk" "first_minor";
            REQUEST_BIO "request" "bio";
            BIO_BLKG "bio" "bi_blkg";
            BLKG_BLKCG "blkcg_gq" "blkcg";
            BLKCG_CGROUP "blkcg" "css.cgroup";
            WRITEBACK_BDI "bdi_writeback" "bdi";
            BDI_ID "backing_dev_info" "id";
            BDI_OWNER "backing_dev_info" "owner";
            DEVICE_NUMBER "device" "devt";
            THROTTLE_DIRTY "dirty_throttle_control" "dirty";
            SKB_SK "sk_buff" "sk";
            SOCK_STATE "sock" "__sk_common.skc_state";
            SOCK_CGROUP "sock" "sk_cgrp_data.cgroup";
            SKB_DEV "sk_buff" "dev";
            SKB_LEN "sk_buff" "len";
            DEV_IFINDEX "net_device" "ifindex";
            DEV_NET "net_device" "nd_net.net";
            NET_INUM "net" "ns.inum";
            SOCK_DST "sock" "sk_dst_cache";
            DST_DEV "dst_entry" "dev";
            REGS_FIRST "pt_regs" "di";
            REGS_SECOND "pt_regs" "si";
            REGS_THIRD "pt_regs" "dx";
            REGS_FOURTH "pt_regs" "r10";
            REGS_FIFTH "pt_regs" "r8";
            REGS_NUMBER "pt_regs" "orig_ax";
            PID_NUMBERS "pid" "numbers";
            UPID_NR "upid" "nr";
            TASK_STATUS "task_struct" "thread_info.status";
            TASK_MM "task_struct" "mm";
            TASK_NSPROXY "task_struct" "nsproxy";
            NSPROXY_IPC "nsproxy" "ipc_ns";
            IPC_NS_INUM "ipc_namespace" "ns.inum";
            TASK_FILES "task_struct" "files";
            FILES_TABLE "files_struct" "fdt";
            TABLE_SIZE "fdtable" "max_fds";
            TABLE_FILES "fdtable" "fd";
            FILE_INODE "file" "f_inode";
            FILE_PRIVATE "file" "private_data";
            FILE_DENTRY "file" "f_path.dentry";
            DENTRY_NAME "dentry" "d_shortname";
            DENTRY_NAME_OLD "dentry" "d_iname";
            INODE_MODE "inode" "i_mode";
            INODE_NUMBER "inode" "i_ino";
            INODE_SB "inode" "i_sb";
            SB_DEV "super_block" "s_dev";
            SB_MAGIC "super_block" "s_magic";
            EVENTFD_ID "eventfd_ctx" "id";
            SOCKET_SOCK "socket" "sk";
            SOCKET_INODE "socket_alloc" "vfs_inode";
            SOCK_SOCKET "sock" "sk_socket";
            SOCK_FAMILY "sock" "__sk_common.skc_family";
            INET_PORT "inet_sock" "inet_sport";
            SOCK_DPORT "sock" "__sk_common.skc_dport";
            SOCK_FLAGS "sock" "__sk_common.skc_flags";
            SOCK_PROTOCOL "sock" "sk_protocol";
            SOCK_TYPE "sock" "sk_type";
            SOCK_DADDR "sock" "__sk_common.skc_daddr";
            SOCK_SADDR "sock" "__sk_common.skc_rcv_saddr";
            SOCK_DADDR6 "sock" "__sk_common.skc_v6_daddr";
            SOCK_SADDR6 "sock" "__sk_common.skc_v6_rcv_saddr";
            SOCK_NET "sock" "__sk_common.skc_net.net";
            SIGINFO_CODE "kernel_siginfo" "si_code";
            UNIX_PEER "unix_sock" "peer";
            TCP_WRITE_SEQ "tcp_sock" "write_seq";
            TCP_COPIED_SEQ "tcp_sock" "copied_seq";
            TCP_RCV_NXT "tcp_sock" "rcv_nxt";
        }
    };
}

/// Calls `$then!` with the table of facts that are no offsets: global and what it means.
#[macro_export]
macro_rules! for_each_fact {
    ($then:ident) => {
        $then! {
            ARG_PREV_STATE "Index of sched_switch's prev_state argument, MISSING before 5.18.";
            ARG_REQUEST "Index of the request argument of the block hooks (1 before 5.11).";
            ARG_DROP_REASON "Index of kfree_skb's reason argument, MISSING before 5.17.";
            ARG_RETRANSMIT_ERROR "Index of tcp_retransmit_skb's error argument, MISSING where only what was sent is reported.";
            CPU_CSS "Offset in css_set of the cpu controller's state, where it has a hierarchy of its own (version 1), else MISSING.";
            BOTH_TREES "1 where a task counts for its cgroup of version 2, and only in the root of that for the one of the cpu controller; else MISSING.";
            ARG_DIRTIED "Index of balance_dirty_pages' dirtied argument: 8 where it has single limits, 4 where it has a struct of them, else MISSING.";
            PREEMPT_RT "1 with PREEMPT_RT, where softirqs run in threads that others may preempt; else MISSING.";
            TASK_IN_IOWAIT "Bit of task_struct that marks a sleep for I/O (in_iowait), MISSING where there is none.";
            CPUS "Entries of the array of CPUs.";
            WAITS_MASK "Entries of the table of waits, less one: a power of two, less one.";
            CALLS_MASK "Entries of the table of threads in calls, less one: a power of two, less one.";
            WATCHED_PID "The process or thread that is kept apart from the others of its cgroup; MISSING = none.";
            HOST_NETNS "Inode number of the host's network namespace.";
        }
    };
}

/// A kernel field whose offset the programs need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// The read-only global that takes the offset.
    pub global: &'static str,
    /// The struct's name in BTF.
    pub container: &'static str,
    /// Member names from there, joined with dots; anonymous members are looked into.
    pub path: &'static str,
}

macro_rules! define_fields {
    ($($global:ident $container:literal $path:literal;)*) => {
        /// All fields, in table order.
        pub const FIELDS: &[Field] = &[
            $(Field { global: stringify!($global), container: $container, path: $path },)*
        ];
    };
}

for_each_offset!(define_fields);

/// What events of system calls and sockets need, and what is missing where this kernel lacks one of them.
pub const CALL_FIELDS: &[(&[&str], &str)] = &[
    (
        &[
            "TASK_FILES",
            "FILES_TABLE",
            "TABLE_SIZE",
            "TABLE_FILES",
            "FILE_INODE",
            "INODE_MODE",
            "INODE_NUMBER",
        ],
        "the files of calls",
    ),
    (
        &["FILE_PRIVATE", "SOCKET_SOCK", "SOCK_FAMILY", "INET_PORT", "SOCK_PROTOCOL", "SOCK_TYPE"],
        "sockets",
    ),
    (&["INODE_SB", "SB_DEV", "SB_MAGIC"], "devices of pipes"),
    (&["FILE_DENTRY"], "eventfd, epoll and signalfd"),
    (&["EVENTFD_ID"], "numbers of eventfds"),
    (&["SOCK_SOCKET", "SOCKET_INODE"], "inodes of sockets beside calls"),
    (&["UNIX_PEER"], "peers of unix sockets"),
    (
        &["TCP_WRITE_SEQ", "TCP_COPIED_SEQ", "TCP_RCV_NXT", "SOCK_FLAGS"],
        "positions in streams of TCP",
    ),
    (&["SOCK_SADDR6", "SOCK_DADDR6"], "addresses of IPv6"),
    (&["TASK_MM"], "memory maps of futexes"),
    (&["TASK_STATUS"], "telling calls of 32-bit programs apart"),
    (&["TASK_NSPROXY", "NSPROXY_IPC", "IPC_NS_INUM"], "ipc namespaces"),
    (&["SIGINFO_CODE"], "codes of signals"),
];
