//! The traces' files.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use noise_trace::ctf::{CtfReader, StreamFile, TraceLayout, metadata};

/// The traces that are there.
pub const NAMES: [&str; 2] = ["many-threads", "bug446190"];

pub struct Trace {
    pub folder: PathBuf,
    pub layout: TraceLayout,
    /// The names and bytes of its streams.
    pub files: Vec<(String, Vec<u8>)>,
    /// What it must say.
    pub expected: serde_json::Value,
}

pub fn place() -> PathBuf {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    env::var_os("NOISED_TRACES").map_or_else(beside, PathBuf::from)
}

impl Trace {
    /// Reads it, or says why that cannot be done here.
    pub fn read(name: &str) -> Result<Self, String> {
        let place = place();
        let folder = place.join(name);
        if !folder.join("metadata").is_file() {
            return Err(format!("there is no {}", folder.display()));
        }
        let expected = fs::read_to_string(place.join("expected.json")).unwrap();
        let expected: serde_json::Value = serde_json::from_str(&expected).unwrap();
        Ok(Self { expected: expected[name].clone(), ..Self::open(folder) })
    }

    /// One that lies in a folder, of which nothing is expected.
    pub fn open(folder: PathBuf) -> Self {
        let text = metadata::text(&fs::read(folder.join("metadata")).unwrap()).unwrap();
        let layout = TraceLayout::parse(&text).unwrap();
        let entries = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        let streams = entries.filter(|path| path.is_file() && !path.ends_with("metadata"));
        let file = |path: PathBuf| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, fs::read(path).unwrap())
        };
        let mut files: Vec<_> = streams.map(file).collect();
        files.sort();
        Self { folder, layout, files, expected: serde_json::Value::Null }
    }

    pub fn streams(&self) -> Vec<StreamFile<'_>> {
        self.files.iter().map(|(name, bytes)| StreamFile::held(name, bytes)).collect()
    }

    pub fn reader(&self) -> CtfReader<'_> {
        CtfReader::new(&self.layout, &self.streams())
    }
}
