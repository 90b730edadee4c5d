//! What of a stream is not read, because its file ends too early or is damaged.

use std::borrow::Cow;

use memchr::memmem;

use super::{MAX_FALSE_BEGINS, Stream};
use crate::ctf::packet::MAGIC;
use crate::damage::StreamCut;

impl Stream<'_> {
    /// So many bytes at that one are left out, and so many are missing there.
    fn cut_at(
        &self,
        byte: u64,
        unread_bytes: u64,
        missing_bytes: u64,
        what: impl Into<Cow<'static, str>>,
    ) -> StreamCut {
        StreamCut {
            recording: 0,
            stream: self.name.to_owned(),
            cpu: self.cpu,
            from_ns: Some(self.time_ns).filter(|ns| *ns > 0),
            byte: self.window.place(byte),
            unread_bytes,
            missing_bytes,
            what: what.into(),
        }
    }

    /// The file ends in the packet at that byte. From when on its events are missing is known once those before were read.
    pub(super) fn tear(
        &mut self,
        at: u64,
        unread: u64,
        missing: u64,
        what: impl Into<Cow<'static, str>>,
    ) {
        match &mut self.torn {
            Some(torn) => {
                torn.unread_bytes = torn.unread_bytes.saturating_add(unread);
                torn.missing_bytes = torn.missing_bytes.saturating_add(missing);
            }
            None => self.torn = Some(self.cut_at(at, unread, missing, what)),
        }
    }

    /// Takes over that the file turned out to be shorter than it was.
    pub(super) fn note_short(&mut self) {
        if let Some(short) = self.window.short() {
            self.tear(short.at, 0, short.missing, short.to_string());
        }
    }

    /// Notes where the file ended too early, once it was read.
    pub(super) fn note_torn(&mut self) {
        self.note_short();
        if let Some(torn) = self.torn.take() {
            let cut = self.cut_at(0, torn.unread_bytes, torn.missing_bytes, torn.what);
            self.damage.cut(StreamCut { byte: torn.byte, ..cut });
        }
    }

    /// Leaves the rest of a packet out.
    #[cold]
    pub(super) fn give_up(&mut self, what: &'static str) {
        let Some(packet) = self.packet else { return };
        let left = packet.end.saturating_sub(self.at).div_ceil(8);
        let at = packet.begin + self.at / 8;
        self.is_cut = true;
        self.at = packet.end;
        match packet.is_cut {
            true => self.tear(at, left, 0, what),
            false => {
                let byte = self.window.place(at);
                let what =
                    format!("{what}, at byte {byte}, and the rest of its packet is left out");
                self.damage.cut(self.cut_at(at, left, 0, what));
            }
        }
    }

    /// Looks for the next place where a packet may begin, by magic and number of the trace.
    pub(super) fn find_packet(&mut self, at: u64, what: &'static str) {
        let magic = match self.layout.big {
            true => (MAGIC as u32).to_be_bytes(),
            false => (MAGIC as u32).to_le_bytes(),
        };
        let mut sought = magic.to_vec();
        sought.extend_from_slice(self.layout.uuid.as_ref().map_or(&[], |uuid| &uuid[..]));
        let is_known = self.layout.uuid.is_some() && self.layout.packet_header.is_some();
        self.false_begins += 1;
        let may_follow = is_known && self.false_begins < MAX_FALSE_BEGINS;
        let found = if may_follow { self.find(at.saturating_add(1), &sought) } else { None };
        self.next_packet = found.unwrap_or(self.window.length());
        let left_out = self.next_packet.saturating_sub(at);
        self.is_cut = true;
        let byte = self.window.place(at);
        let cut = self.cut_at(at, left_out, 0, format!("no packet at byte {byte}: {what}"));
        self.damage.cut(cut);
        self.note_short();
    }

    /// Where these bytes lie next in the file.
    fn find(&mut self, mut from: u64, sought: &[u8]) -> Option<u64> {
        let finder = memmem::Finder::new(sought);
        let least = self.window.usual().max(2 * sought.len());
        loop {
            let bytes = self.window.view(from, least);
            if let Some(place) = finder.find(bytes) {
                return Some(from.saturating_add(place as u64));
            }
            let length = bytes.len();
            if from.saturating_add(length as u64) >= self.window.length() {
                return None;
            }
            // It may begin at the end of these.
            from = from.saturating_add((length + 1).saturating_sub(sought.len()) as u64);
        }
    }
}
