//! A stretch of the flight recorder over the local socket. It is sent piece by piece, the next one made
//! when the one before is on its way, so that a slow client costs no memory.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Extension;
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use futures_util::stream;
use noise_wire::events::EVENTS_CONTENT_TYPE;

use super::turns::Turns;
use super::web::{EVENTS_ROUTE, Hangup, Peer};

/// Answers that are on their way at once.
const MOST_ANSWERS: usize = 2;

/// The pieces of an answer.
pub type EventPieces = Box<dyn Iterator<Item = Vec<u8>> + Send>;

/// Makes the answer for the stretch between two times, ns on CLOCK_MONOTONIC.
pub type EventSource = Arc<dyn Fn(u64, u64) -> EventPieces + Send + Sync>;

/// Begin and end of the stretch that `since=NS` and `until=NS` name; without them, all of it.
fn stretch(query: Option<&str>) -> Option<(u64, u64)> {
    let mut stretch = (0, u64::MAX);
    for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
        let (name, number) = pair.split_once('=')?;
        let number = number.parse().ok()?;
        match name {
            "since" => stretch.0 = number,
            "until" => stretch.1 = number,
            _ => return None,
        }
    }
    Some(stretch)
}

async fn answer(
    source: EventSource,
    turns: Arc<Turns>,
    peer: Peer,
    hangup: Option<Extension<Hangup>>,
    uri: Uri,
) -> Result<Response, StatusCode> {
    let (since_ns, until_ns) = stretch(uri.query()).ok_or(StatusCode::BAD_REQUEST)?;
    let turn = turns.next(peer, hangup.map(|Extension(hangup)| hangup)).await?;
    // An empty piece would end the answer.
    let pieces = source(since_ns, until_ns).filter(|piece| !piece.is_empty());
    let pieces = pieces.map(move |piece| (Ok::<_, Infallible>(piece), &turn).0);
    let body = Body::from_stream(stream::iter(pieces));
    Ok(([(header::CONTENT_TYPE, EVENTS_CONTENT_TYPE)], body).into_response())
}

/// The routes with that of the flight recorder's events.
pub fn with_events(router: Router, source: Option<EventSource>) -> Router {
    let Some(source) = source else { return router };
    let turns = Arc::new(Turns::new(MOST_ANSWERS));
    let answer = move |Extension(peer): Extension<Peer>, hangup: Option<Extension<Hangup>>, uri| {
        answer(Arc::clone(&source), Arc::clone(&turns), peer, hangup, uri)
    };
    router.route(EVENTS_ROUTE, get(answer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_has_a_begin_an_end_or_neither() {
        for (query, expected) in [
            (None, Some((0, u64::MAX))),
            (Some(""), Some((0, u64::MAX))),
            (Some("since=5"), Some((5, u64::MAX))),
            (Some("until=7&since=5"), Some((5, 7))),
            (Some("since=-1"), None),
            (Some("since"), None),
            (Some("from=1"), None),
        ] {
            assert_eq!(stretch(query), expected, "{query:?}");
        }
    }

    #[tokio::test]
    async fn pieces_are_made_as_they_are_taken_and_turns_are_given_back() {
        let turns = Arc::new(Turns::new(1));
        let source: EventSource =
            Arc::new(|since, _| Box::new((0..3).map(move |piece| vec![piece + since as u8; 2])));
        let uri = Uri::from_static("/api/v1/events?since=7");
        let peer = Peer::User(Some(1));
        let ask =
            |uri: &Uri| answer(Arc::clone(&source), Arc::clone(&turns), peer, None, uri.clone());
        let response = ask(&uri).await.unwrap();
        assert_eq!(turns.free(), 0);
        let bytes = axum::body::to_bytes(response.into_body(), 99).await.unwrap();
        assert_eq!(bytes.as_ref(), [7, 7, 8, 8, 9, 9]);
        assert_eq!(turns.free(), 1);
        let wrong = ask(&Uri::from_static("/api/v1/events?x=7")).await;
        assert_eq!(wrong.err(), Some(StatusCode::BAD_REQUEST));
    }
}
