//! `noised incidents show`: one incident, and what was kept of the moment when it opened.

use std::io::{self, Cursor, Read};
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use jiff::tz::TimeZone;
use noise_command::{CommandError, output};
use noise_keep::export;
use noise_keep::path::find;
use noise_pages::critical_path::page as path_page;
use noise_pages::incidents::{Listing, incidents};
use noise_pages::width::columns;
use noise_text::clean::clean;

use super::source::IncidentSource;

/// Arguments of `noised incidents show`.
#[derive(Debug, clap::Args)]
pub struct ShowArgs {
    /// The number of the incident, as `noised incidents` has it.
    #[arg(value_name = "ID")]
    id: u64,
    /// Show the critical paths of the longest waits that the victim had when it opened.
    #[arg(long)]
    path: bool,
    /// Write the kernel events that were kept into this folder, as a recording for `noised trace`.
    #[arg(long, value_name = "DIR")]
    export: Option<PathBuf>,
}

/// Errors: where there is no such incident, or nothing was kept of it.
pub fn run(args: &ShowArgs, is_json: bool, source: &IncidentSource) -> Result<(), CommandError> {
    let spot = args.export.as_deref().map(export::ensure_new).transpose()?;
    let mut listing = source.incidents()?;
    listing.retain(|report| report.id == args.id);
    if listing.incidents.is_empty() {
        return Err(anyhow::anyhow!(
            "there is no incident {}: `noised incidents` lists those that are kept",
            args.id
        )
        .into());
    }
    if !args.path && args.export.is_none() {
        match is_json {
            true => output::print_document(&listing.document())?,
            false => output::print(&incidents(&listing, &TimeZone::system(), columns()))?,
        }
        return Ok(());
    }
    let file = file(args.id, &listing, source)?;
    if let Some(spot) = spot {
        let said = export::export(&file, spot)
            .with_context(|| format!("cannot export the kernel events of incident {}", args.id))?;
        output::say(&said);
    }
    if args.path {
        show_paths(args.id, &file, &listing, is_json)?;
    }
    Ok(())
}

/// The events that were kept.
fn file(id: u64, listing: &Listing, source: &IncidentSource) -> anyhow::Result<Vec<u8>> {
    match listing.traces.as_slice() {
        [trace] if trace.is_kept() => {}
        [trace] => bail!("of incident {id} there is nothing more: {}", trace.sentence()),
        _ => bail!(
            "no kernel events of incident {id} are kept: see `state.traces` in the configuration of the daemon"
        ),
    }
    let missing = || format!("the kernel events of incident {id} are no longer kept");
    source.trace(id)?.with_context(missing)
}

fn show_paths(id: u64, file: &[u8], listing: &Listing, is_json: bool) -> anyhow::Result<()> {
    let open = || -> io::Result<Box<dyn Read>> { Ok(Box::new(Cursor::new(file.to_vec()))) };
    let found = find(&open).with_context(|| format!("incident {id}"))?;
    if is_json {
        return output::print_document(&found.document);
    }
    if found.sentences.is_empty() {
        return output::print(
            "none of the victim's threads waited in the time before the incident opened\n",
        );
    }
    // The answer comes first.
    let sentences = found.sentences.iter().map(|sentence| format!("{sentence}\n"));
    output::print(&(sentences.collect::<String>() + "\n"))?;
    output::print_painted(&path_page(&found.document, columns()))?;
    let Some(report) = listing.incidents.first() else { return Ok(()) };
    output::print(&format!(
        "\nthe incident: {}; all of it: noised incidents show {id}\n",
        clean(&report.sentence(&TimeZone::system()))
    ))
}
