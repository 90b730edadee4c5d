//! The kernel events that are kept of incidents, over the local socket. They are sent piece by piece as they are
//! read, so that a slow client costs no memory, and a slow disk delays no other answer.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::task::Context;

use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, Path};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use futures_util::{StreamExt as _, stream};
use tokio::sync::mpsc::Receiver;

use super::turns::{RESERVED, Turn, Turns};
use super::web::{Hangup, Peer};

/// Files that are read and sent at once, beside those for [root](RESERVED).
const MOST_OF_ALL: usize = 2;
/// All that are read and sent at once.
pub const MOST_TRACES: usize = MOST_OF_ALL + RESERVED;
const TRACE_TYPE: &str = "application/vnd.noised.trace";

/// The pieces of the file with the kernel events of an incident as they are read; `NotFound` where there is none, any
/// other error where it cannot be read now. What reads them has the turn until it ends: a disk may keep it for longer
/// than a client waits.
pub type TraceSource = Arc<dyn Fn(u64, Turn) -> io::Result<Receiver<Vec<u8>>> + Send + Sync>;

async fn trace(
    source: TraceSource,
    turns: Arc<Turns>,
    peer: Peer,
    hangup: Option<Extension<Hangup>>,
    id: String,
) -> Result<Response, StatusCode> {
    let id = id.parse().map_err(|_| StatusCode::BAD_REQUEST)?;
    let turn = turns.next(peer, hangup.map(|Extension(hangup)| hangup)).await?;
    let mut pieces = source(id, turn).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => StatusCode::NOT_FOUND,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    })?;
    let piece = move |context: &mut Context<'_>| pieces.poll_recv(context);
    let body = Body::from_stream(stream::poll_fn(piece).map(Ok::<_, Infallible>));
    Ok(([(header::CONTENT_TYPE, TRACE_TYPE)], body).into_response())
}

/// The routes with that of incidents' kernel events.
pub fn with_traces(router: Router, source: Option<TraceSource>) -> Router {
    let Some(source) = source else { return router };
    let turns = Arc::new(Turns::new(MOST_OF_ALL));
    let answer = move |Extension(peer): Extension<Peer>,
                       hangup: Option<Extension<Hangup>>,
                       Path(id): Path<String>| {
        trace(Arc::clone(&source), Arc::clone(&turns), peer, hangup, id)
    };
    router.route("/api/v1/incidents/{id}/trace", get(answer))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[tokio::test]
    async fn files_are_sent_piece_by_piece_and_what_reads_them_has_the_turn() {
        let reading: Arc<Mutex<Option<Turn>>> = Arc::default();
        let reads = Arc::clone(&reading);
        let source: TraceSource = Arc::new(move |id, turn| {
            let (sender, receiver) = tokio::sync::mpsc::channel(9);
            (1..=id as u8).for_each(|piece| sender.try_send(vec![piece; 2]).unwrap());
            match id {
                0 => Err(io::ErrorKind::NotFound.into()),
                // No thread.
                9 => Err(io::ErrorKind::WouldBlock.into()),
                _ => {
                    *reads.lock().unwrap() = Some(turn);
                    Ok(receiver)
                }
            }
        });
        let turns = Arc::new(Turns::new(1));
        let peer = Peer::User(Some(1));
        let ask =
            |id: &str| trace(Arc::clone(&source), Arc::clone(&turns), peer, None, id.to_owned());
        let response = ask("3").await.unwrap();
        let bytes = axum::body::to_bytes(response.into_body(), 99).await.unwrap();
        assert_eq!(bytes.as_ref(), [1, 1, 2, 2, 3, 3]);
        // The client has gone, and the disk has not answered yet.
        assert_eq!(turns.free(), 0);
        drop(reading.lock().unwrap().take());
        assert_eq!(turns.free(), 1);
        assert_eq!(ask("0").await.unwrap_err(), StatusCode::NOT_FOUND);
        assert_eq!(ask("9").await.unwrap_err(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(ask("-1").await.unwrap_err(), StatusCode::BAD_REQUEST);
        assert_eq!(turns.free(), 1);
    }
}
