//! What the daemon knows of one victim beside kernel events, over the local socket: what is usual of its cgroups,
//! for how long their quotas and the hypervisor stopped them of late, and their pressure. It is asked for by `noised why`.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::Router;
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use noise_analysis::{Name, Stopped, Usual};
use noise_model::pressure::Pressure;
use noise_text::clean::clean_json;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use tokio::sync::{mpsc, oneshot};

use super::API_VERSION;

/// Cgroups that one request may name.
pub const MOST_CGROUPS: usize = 64;
/// How long a request waits for others.
const WAIT: Duration = Duration::from_secs(5);
const ROUTE: &str = "/api/v1/victim";

#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct VictimDocument {
    version: u64,
    /// What is usual, of each signal of each cgroup that is watched.
    pub usual: Vec<Usual>,
    /// What stopped them, where a time was asked for and the daemon remembers any of it.
    pub stopped: Option<Stopped>,
    /// Pressure of the only one of them that the daemon read in that time, with what grew in it. An older one never read any.
    #[serde(default)]
    pub pressure: Option<Pressure>,
}

impl VictimDocument {
    pub fn new(usual: Vec<Usual>, stopped: Option<Stopped>, pressure: Option<Pressure>) -> Self {
        Self { version: API_VERSION, usual, stopped, pressure }
    }
}

/// A request for it.
#[derive(Debug)]
pub struct Inquiry {
    pub cgroups: BTreeSet<Name>,
    /// From when on they may have been stopped, ns on the clock of the samples; `None` where that is not asked for.
    pub since_ns: Option<u64>,
    pub reply: oneshot::Sender<VictimDocument>,
}

/// The route that asks for cgroups, at most [`MOST_CGROUPS`].
pub fn route<'a>(cgroups: impl IntoIterator<Item = &'a str>, since_ns: Option<u64>) -> String {
    let since = since_ns.map(|since_ns| format!("since={since_ns}"));
    let named = |label: &str| format!("cgroup={}", utf8_percent_encode(label, NON_ALPHANUMERIC));
    let pairs: Vec<String> = since.into_iter().chain(cgroups.into_iter().map(named)).collect();
    format!("{ROUTE}?{}", pairs.join("&"))
}

/// What a query names.
fn asked(query: &str) -> Option<(BTreeSet<Name>, Option<u64>)> {
    let (mut cgroups, mut since_ns) = (BTreeSet::new(), None);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=')? {
            ("cgroup", label) => {
                cgroups.insert(Name::from(percent_decode_str(label).decode_utf8().ok()?));
            }
            ("since", number) => since_ns = Some(number.parse().ok()?),
            _ => return None,
        }
    }
    (1..=MOST_CGROUPS).contains(&cgroups.len()).then_some((cgroups, since_ns))
}

async fn answer(inquiries: mpsc::Sender<Inquiry>, uri: Uri) -> Result<Response, StatusCode> {
    let query = uri.query().and_then(asked);
    let (cgroups, since_ns) = query.ok_or(StatusCode::BAD_REQUEST)?;
    let (reply, document) = oneshot::channel();
    let sent = inquiries.send_timeout(Inquiry { cgroups, since_ns, reply }, WAIT).await;
    sent.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
    let document = document.await.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
    let text = serde_json::to_string(&document).map_err(|error| {
        tracing::error!(%error, "cannot write JSON");
        StatusCode::INTERNAL_SERVER_ERROR
    })?;
    let text = clean_json(&text).into_owned();
    Ok(([(header::CONTENT_TYPE, "application/json")], text).into_response())
}

/// The routes with that of victims.
pub fn with_victims(router: Router, inquiries: mpsc::Sender<Inquiry>) -> Router {
    router.route(ROUTE, get(move |uri| answer(inquiries.clone(), uri)))
}

#[cfg(test)]
mod tests {
    use noise_analysis::Level;
    use noise_common::signals::Signal;

    use super::*;

    fn names(all: &[&str]) -> BTreeSet<Name> {
        all.iter().map(|name| Name::from(*name)).collect()
    }

    #[test]
    fn what_is_asked_for_is_understood() {
        let labels = ["/a b/ü&c=d%", "nginx.service", "docker:0123"];
        for since_ns in [None, Some(7)] {
            let route = route(labels, since_ns);
            let query = route.strip_prefix("/api/v1/victim?").unwrap();
            assert!(route.parse::<Uri>().is_ok(), "{route}");
            assert_eq!(asked(query), Some((names(&labels), since_ns)));
        }
        let many: Vec<String> =
            (0..=MOST_CGROUPS).map(|number| format!("cgroup={number}")).collect();
        assert!(asked(&many[1..].join("&")).is_some());
        for wrong in
            ["", "since=7", "cgroup", "cgroup=a&since=-1", "cgroup=%ff", "c=a", &many.join("&")]
        {
            assert_eq!(asked(wrong), None, "{wrong}");
        }
    }

    #[tokio::test]
    async fn the_daemon_answers() {
        let (inquiries, mut asked) = mpsc::channel(1);
        let level =
            Level { p50_ns: None, p99_ns: Some(9), mean_ns: Some(1.5), rate: 2.0, lost: 0.5 };
        let usual = Usual {
            signal: Signal::CgroupRunqueueWait.into(),
            subject: "/a".into(),
            windows: 3,
            level,
            adopted_since_ns: Some(9),
        };
        let expected =
            VictimDocument::new(vec![usual], Some(Stopped::default()), Some(Pressure::default()));
        let own = expected.clone();
        let daemon = tokio::spawn(async move {
            while let Some(Inquiry { cgroups, since_ns, reply }) = asked.recv().await {
                assert_eq!((cgroups, since_ns), (names(&["/a"]), Some(7)));
                reply.send(own.clone()).unwrap();
            }
        });
        let uri: Uri = route(["/a"], Some(7)).parse().unwrap();
        let response = answer(inquiries.clone(), uri).await.unwrap();
        let bytes = axum::body::to_bytes(response.into_body(), 9999).await.unwrap();
        assert_eq!(serde_json::from_slice::<VictimDocument>(&bytes).unwrap(), expected);
        let value: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!((&value["version"], &value["usual"][0]["p99_ns"]), (&1.into(), &9.into()));
        let wrong = answer(inquiries.clone(), Uri::from_static("/api/v1/victim")).await;
        assert_eq!(wrong.err(), Some(StatusCode::BAD_REQUEST));
        // The daemon stops.
        daemon.abort();
        let _ = daemon.await;
        let uri: Uri = route(["/a"], None).parse().unwrap();
        assert_eq!(answer(inquiries, uri).await.err(), Some(StatusCode::SERVICE_UNAVAILABLE));
    }
}
