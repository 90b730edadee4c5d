//! What came of the latest reload of the configuration, over the local socket: a reload that a signal asked for has no
//! other way to say to whom sent it that it was refused.

use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::http::{StatusCode, header};
use axum::routing::get;
use noise_text::clean::clean_json;

use super::API_VERSION;

/// The route that says it.
pub const RELOAD_ROUTE: &str = "/api/v1/reload";

/// Why the latest reload was refused, shared with what answers; nothing where it was not.
#[derive(Clone, Debug, Default)]
pub struct Refused(Arc<Mutex<Option<String>>>);

impl Refused {
    /// Notes what came of a reload.
    pub fn set(&self, why: Option<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }

    fn get(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[derive(Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ReloadDocument {
    version: u64,
    /// Why the latest reload was refused.
    pub refused: Option<String>,
}

/// The routes with that of the latest reload.
pub fn with_reload(router: Router, refused: Refused) -> Router {
    let answer = move || {
        let document = ReloadDocument { version: API_VERSION, refused: refused.get() };
        let text = serde_json::to_string(&document);
        let text = text.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR);
        let text = text.map(|text| clean_json(&text).into_owned());
        async { ([(header::CONTENT_TYPE, "application/json")], text) }
    };
    router.route(RELOAD_ROUTE, get(answer))
}
