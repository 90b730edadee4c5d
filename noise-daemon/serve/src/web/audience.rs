//! What a client may see of the host's processes, which depends on whether it is known who asks.

/// Whom an answer is for. Under hidepid and from within a container nobody else can read the command lines of all users'
/// processes, and they hold what their users pass on them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Audience {
    /// Anyone who reaches the port: names of processes, no command lines.
    #[default]
    Anyone,
    /// A client of the local socket, one with a password, or one whose certificate was verified: command lines, too.
    Known,
}
