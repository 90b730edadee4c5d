//! What is posted and taken without bytes: eventfds, semaphores, futexes, signals.

use std::collections::VecDeque;

use foldhash::HashMap;

use crate::input::{Local, Much};
use crate::slices::SliceId;

/// Objects that are followed; the oldest are given up first.
const MAX_OBJECTS: usize = 1 << 17;
/// Posts of one object that wait to be taken.
const MAX_POSTS: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Post {
    pub slice: SliceId,
    /// When, nanoseconds since the epoch.
    pub sent_ns: u64,
}

#[derive(Clone, Debug, Default)]
struct Posts {
    losses: u32,
    all: VecDeque<Post>,
}

/// From where something that was taken came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Came {
    From(Vec<Post>),
    /// From one of several.
    Ambiguous,
    Unknown,
}

/// Posts of all objects.
#[derive(Clone, Debug, Default)]
pub struct Tokens {
    all: HashMap<(u16, Local), Posts>,
    order: VecDeque<(u16, Local)>,
}

impl Tokens {
    pub fn posted(&mut self, machine: u16, object: Local, post: Post, losses: u32) {
        let key = (machine, object);
        if !self.all.contains_key(&key) {
            self.order.push_back(key);
            if self.order.len() > MAX_OBJECTS
                && let Some(oldest) = self.order.pop_front()
            {
                self.all.remove(&oldest);
            }
        }
        let posts = self.all.entry(key).or_default();
        if posts.losses != losses {
            *posts = Posts { losses, ..Posts::default() };
        }
        posts.all.push_back(post);
        if posts.all.len() > MAX_POSTS {
            posts.all.pop_front();
        }
    }

    /// It is taken, by a thread that began to wait at `since_ns`.
    pub fn taken(
        &mut self,
        machine: u16,
        object: Local,
        much: Much,
        since_ns: u64,
        losses: u32,
    ) -> Came {
        let posts = self.all.get_mut(&(machine, object)).filter(|posts| posts.losses == losses);
        let Some(posts) = posts else { return Came::Unknown };
        // Nothing of a futex is kept: only those who wait already are woken.
        if matches!(object, Local::Futex { .. }) {
            posts.all.retain(|post| post.sent_ns >= since_ns);
        }
        match much {
            Much::All if posts.all.is_empty() => Came::Unknown,
            Much::All => Came::From(posts.all.drain(..).collect()),
            Much::One | Much::IfWoken => posts.take_one(),
        }
    }
}

impl Posts {
    /// One is taken; which one cannot be known where they are of several slices.
    fn take_one(&mut self) -> Came {
        let first = self.all.front().copied();
        let is_one = self.all.iter().all(|post| Some(post.slice) == first.map(|first| first.slice));
        self.all.pop_front();
        match first {
            None => Came::Unknown,
            Some(first) if is_one => Came::From(vec![first]),
            Some(_) => Came::Ambiguous,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn post(slice: SliceId, sent_ns: u64) -> Post {
        Post { slice, sent_ns }
    }

    #[test]
    fn an_eventfd_gives_all_that_was_posted() {
        let mut tokens = Tokens::default();
        let object = Local::Eventfd(1);
        tokens.posted(0, object, post(1, 1), 0);
        tokens.posted(0, object, post(2, 2), 0);
        let came = tokens.taken(0, object, Much::All, 0, 0);
        assert_eq!(came, Came::From(vec![post(1, 1), post(2, 2)]));
        assert_eq!(tokens.taken(0, object, Much::All, 0, 0), Came::Unknown);
        // After a loss nothing is known.
        tokens.posted(0, object, post(1, 1), 0);
        assert_eq!(tokens.taken(0, object, Much::All, 0, 1), Came::Unknown);
    }

    #[test]
    fn one_of_several_is_not_guessed() {
        let mut tokens = Tokens::default();
        let object = Local::Queue(1);
        tokens.posted(0, object, post(1, 1), 0);
        assert_eq!(tokens.taken(0, object, Much::One, 0, 0), Came::From(vec![post(1, 1)]));
        tokens.posted(0, object, post(1, 1), 0);
        tokens.posted(0, object, post(2, 2), 0);
        assert_eq!(tokens.taken(0, object, Much::One, 0, 0), Came::Ambiguous);
        assert_eq!(tokens.taken(0, object, Much::One, 0, 0), Came::From(vec![post(2, 2)]));
    }

    #[test]
    fn a_futex_is_woken_by_those_who_do_so_meanwhile() {
        let mut tokens = Tokens::default();
        let object = Local::Futex { space: 1, address: 8 };
        tokens.posted(0, object, post(1, 10), 0);
        assert_eq!(tokens.taken(0, object, Much::One, 11, 0), Came::Unknown);
        tokens.posted(0, object, post(1, 20), 0);
        let came = tokens.taken(0, object, Much::One, 15, 0);
        assert_eq!(came, Came::From(vec![post(1, 20)]));
        tokens.posted(0, object, post(1, 20), 0);
        tokens.posted(0, object, post(2, 21), 0);
        assert_eq!(tokens.taken(0, object, Much::One, 15, 0), Came::Ambiguous);
    }

    #[test]
    fn posts_that_are_never_taken_are_given_up() {
        let mut tokens = Tokens::default();
        for number in 0..2 * MAX_OBJECTS as u64 {
            tokens.posted(0, Local::Eventfd(number), post(1, 1), 0);
            tokens.posted(0, Local::Eventfd(0), post(1, 1), 0);
        }
        assert!(tokens.all.len() <= MAX_OBJECTS && tokens.order.len() <= MAX_OBJECTS);
        assert!(tokens.all.values().all(|posts| posts.all.len() <= MAX_POSTS));
    }
}
