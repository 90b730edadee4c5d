//! The web file: who has access, and over what. Its format is the one that Prometheus exporters share
//! (exporter-toolkit, `docs/web-configuration.md`), so that one file serves all exporters of a host.
//! Nothing here reads any file but the text it is given.
//!
//! Stricter than exporter-toolkit, because what is silently not done would pass for done: TLS
//! settings without a certificate, client certificates that are to be verified without an authority
//! to verify them against, and versions and ciphers that are not offered are refused.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use axum::http::{HeaderName, HeaderValue};
use bcrypt::HashParts;
use jiff::SignedDuration;
use noise_system::files::MAX_FILE_BYTES;
use noise_system::files::yaml::{Wrong, worded};
use noise_text::nearest::meant;
use serde_saphyr::Spanned;

use super::secret::Secret;
use super::tls_file::{TlsFile, TlsSection};

/// Names alone keep nobody out.
const OPEN: &str = "`client_allowed_sans` does not restrict access with `client_auth_type: RequireAnyClientCert`: no \
                    authority verifies the certificate, so any client can sign itself one with an allowed name; \
                    use RequireAndVerifyClientCert with `client_ca_file`";
/// The highest cost of a hash: with more, one wrong password takes seconds.
const MOST_COST: u32 = 16;
/// Most users: their hashes and what is known of their passwords stay in memory.
const MOST_USERS: usize = 1000;

/// The headers that may be added to answers, and the values that each may have, where few make
/// sense. Those of exporter-toolkit.
const HEADERS: [(&str, &[&str]); 5] = [
    ("Content-Security-Policy", &[]),
    ("Strict-Transport-Security", &[]),
    ("X-Content-Type-Options", &["nosniff"]),
    ("X-Frame-Options", &["deny", "sameorigin"]),
    ("X-XSS-Protection", &[]),
];

/// How often requests may come: a bucket that holds `burst` and gets one more each `interval`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Time between two requests, never 0.
    pub interval: Duration,
    /// How many may come at once, never 0.
    pub burst: u32,
}

/// A web file, understood.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WebFile {
    /// How connections are encrypted, where they are.
    pub tls: Option<TlsFile>,
    /// The file enables HTTP/2 explicitly.
    pub wants_http2: bool,
    /// Headers of every answer.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Names and bcrypt hashes of the users that have access; empty = no authentication.
    pub users: BTreeMap<String, Secret>,
    /// How often requests may come.
    pub rate: Option<Rate>,
}

/// The file as written. Unknown keys are errors.
#[derive(Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawWebConfig {
    tls_server_config: Option<Spanned<TlsSection>>,
    http_server_config: Option<HttpSection>,
    basic_auth_users: Option<BTreeMap<String, Spanned<String>>>,
    rate_limit: Option<RateSection>,
}

#[derive(Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
struct HttpSection {
    http2: Option<bool>,
    headers: Option<BTreeMap<String, Spanned<String>>>,
}

#[derive(Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RateSection {
    interval: Option<Spanned<String>>,
    burst: Option<Spanned<i64>>,
}

impl WebFile {
    /// Parses the text of a web file. Paths in it are relative to the folder of `name`.
    /// Errors: one sentence that names the file, the line, and what was expected. It shows no values of
    /// which some are secret.
    pub fn parse(text: &str, name: &Path) -> anyhow::Result<Self> {
        let folder = name.parent().unwrap_or(Path::new(""));
        parse(text, folder).map_err(|wrong| wrong.within(name))
    }

    /// What is as the format has it and keeps fewer out than it seems, or cannot be offered.
    pub fn warnings(&self) -> Vec<String> {
        let Some(tls) = &self.tls else { return Vec::new() };
        let is_open = tls.client_allowed_sans.is_some() && !tls.client_auth.verifies();
        let open = is_open.then(|| OPEN.to_owned());
        let left_out = (!tls.not_offered.is_empty()).then(|| {
            format!(
                "the web file names what noised does not offer: {}; the others that it names are offered",
                tls.not_offered.join(", ")
            )
        });
        open.into_iter().chain(left_out).collect()
    }

    /// The files that are read besides this one.
    pub fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.tls.iter().flat_map(TlsFile::paths)
    }
}

fn parse(text: &str, folder: &Path) -> Result<WebFile, Wrong> {
    // Bounds what it can make the parser do.
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(Wrong { line: None, message: format!("larger than {MAX_FILE_BYTES} bytes") });
    }
    // An empty file is valid, and says nothing.
    let sections: Option<RawWebConfig> =
        serde_saphyr::from_str(text).map_err(|error| worded(&error))?;
    let sections = sections.unwrap_or_default();
    let http = sections.http_server_config.unwrap_or_default();
    Ok(WebFile {
        tls: sections.tls_server_config.map(|tls| tls.value.resolve(folder)).transpose()?.flatten(),
        wants_http2: http.http2 == Some(true),
        headers: headers(http.headers.unwrap_or_default())?,
        users: users(sections.basic_auth_users.unwrap_or_default())?,
        rate: sections.rate_limit.map(RateSection::resolve).transpose()?.flatten(),
    })
}

fn headers(
    found: BTreeMap<String, Spanned<String>>,
) -> Result<Vec<(HeaderName, HeaderValue)>, Wrong> {
    let names = HEADERS.map(|(name, _)| name);
    // Blank means unset.
    let set = found.into_iter().filter(|(_, value)| !value.value.is_empty());
    set.map(|(name, value)| {
        let wrong = |message| Wrong::at(&value, message);
        let known = HEADERS.iter().find(|(known, _)| known.eq_ignore_ascii_case(&name));
        let Some((_, values)) = known else {
            let meant = meant(&name, &names);
            return Err(wrong(format!("the header `{name}` cannot be set: {meant}")));
        };
        let text = value.value.as_str();
        if !values.is_empty() && !values.contains(&text) {
            let meant = meant(text, values);
            return Err(wrong(format!("`{text}` is no value of the header {name}: {meant}")));
        }
        let name_on_wire = HeaderName::from_str(&name);
        let value_on_wire = HeaderValue::from_str(text);
        match (name_on_wire, value_on_wire) {
            (Ok(name), Ok(value)) => Ok((name, value)),
            _ => Err(wrong(format!("the value of the header {name} is not printable ASCII"))),
        }
    })
    .collect()
}

fn users(found: BTreeMap<String, Spanned<String>>) -> Result<BTreeMap<String, Secret>, Wrong> {
    if found.len() > MOST_USERS {
        let message = format!("{} users: {MOST_USERS} are the most", found.len());
        return Err(Wrong { line: None, message });
    }
    found
        .into_iter()
        .map(|(name, hash)| {
            let wrong = |message| Wrong::at(&hash, message);
            if name.contains(':') {
                // Basic authentication ends the name at the first one.
                return Err(wrong(format!("the user name `{name}` must not contain a colon")));
            }
            let parts = HashParts::from_str(&hash.value).map_err(|_| {
                wrong(format!(
                    "the password of `{name}` is not a bcrypt hash, such as \
                     `htpasswd -nBC 10 {name}` prints"
                ))
            })?;
            match parts.get_cost() {
                4..=MOST_COST => Ok((name, Secret(hash.value))),
                cost => Err(wrong(format!(
                    "the hash of `{name}` has cost {cost}: between 4 and {MOST_COST} can be \
                     checked; hash the password anew: htpasswd -nBC 10 {name}"
                ))),
            }
        })
        .collect()
}

impl RateSection {
    fn resolve(self) -> Result<Option<Rate>, Wrong> {
        let Some(interval) = self.interval else {
            return match self.burst {
                Some(burst) => Err(Wrong::at(&burst, "`burst` needs an `interval`".to_owned())),
                None => Ok(None),
            };
        };
        let expected = || {
            let text = &interval.value;
            Wrong::at(&interval, format!("`{text}` is no interval: expected one such as 1s or 0"))
        };
        if interval.value.trim() == "0" {
            return Ok(None);
        }
        let duration: SignedDuration = interval.value.parse().map_err(|_| expected())?;
        let duration = Duration::try_from(duration).map_err(|_| expected())?;
        if duration.is_zero() {
            return Ok(None);
        }
        let one_burst = || {
            Wrong::at(
                &interval,
                "`interval` needs a `burst` of at least 1: else no request passes".to_owned(),
            )
        };
        let burst = self.burst.ok_or_else(one_burst)?;
        match u32::try_from(burst.value) {
            Ok(burst) if burst > 0 => Ok(Some(Rate { interval: duration, burst })),
            _ => Err(Wrong::at(&burst, format!("a `burst` of {}: at least 1", burst.value))),
        }
    }
}
