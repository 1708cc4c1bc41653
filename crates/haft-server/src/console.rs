//! The console: files that are part of the binary, under a policy that lets a page run nothing
//! but them.

use std::sync::LazyLock;

use axum::Router;
use axum::extract::Path;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use haft_core::Digest;
use haft_core::tool::MODE_TABLE;

use crate::app::App;
use crate::error::{Error, Kind};

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JAVASCRIPT: &str = "text/javascript; charset=utf-8";
const JSON: &str = "application/json";
const SVG: &str = "image/svg+xml";

struct Asset {
    path: &'static str,
    media_type: &'static str,
    text: &'static str,
}

macro_rules! assets {
    ($($path:literal: $media_type:expr),* $(,)?) => {
        &[$(Asset {
            path: $path,
            media_type: $media_type,
            text: include_str!(concat!("../console/", $path)),
        }),*]
    };
}

static ASSETS: &[Asset] = assets! {
    "app.js": JAVASCRIPT,
    "dom.js": JAVASCRIPT,
    "elements/approval.js": JAVASCRIPT,
    "elements/call-card.js": JAVASCRIPT,
    "elements/diff.js": JAVASCRIPT,
    "elements/elicitation.js": JAVASCRIPT,
    "elements/form.js": JAVASCRIPT,
    "elements/grant-form.js": JAVASCRIPT,
    "elements/settlement.js": JAVASCRIPT,
    "elements/theme.js": JAVASCRIPT,
    "elements/timeline.js": JAVASCRIPT,
    "elements/waiting.js": JAVASCRIPT,
    "haft.js": JAVASCRIPT,
    "icon.svg": SVG,
    "index.html": HTML,
    "legible.js": JAVASCRIPT,
    "prose.js": JAVASCRIPT,
    "schema.js": JAVASCRIPT,
    "session-model.js": JAVASCRIPT,
    "style.css": CSS,
    "text-diff.js": JAVASCRIPT,
    "time.js": JAVASCRIPT,
    "views/agents.js": JAVASCRIPT,
    "views/audit.js": JAVASCRIPT,
    "views/grants.js": JAVASCRIPT,
    "views/inbox.js": JAVASCRIPT,
    "views/login.js": JAVASCRIPT,
    "views/memories.js": JAVASCRIPT,
    "views/mounts.js": JAVASCRIPT,
    "views/permissions.js": JAVASCRIPT,
    "views/rules.js": JAVASCRIPT,
    "views/session.js": JAVASCRIPT,
    "views/sessions.js": JAVASCRIPT,
    "views/thing.js": JAVASCRIPT,
    "views/tools.js": JAVASCRIPT,
    "views/trace.js": JAVASCRIPT,
    "words.js": JAVASCRIPT,
};

/// The table by which server and page classify a tool's name; one and the same text.
static MODES: Asset = Asset { path: "tool-modes.json", media_type: JSON, text: MODE_TABLE };

/// What a page of ours may do: run and load what this server has, and nothing else. No script
/// and no style within a page, no eval, no markup from text (trusted types), no frames.
static POLICY: LazyLock<String> =
    LazyLock::new(|| include_str!("../console/csp.txt").trim().replace('\n', " "));

/// Changes whenever any file does: a page never mixes files of two versions.
static TAG: LazyLock<String> = LazyLock::new(|| {
    let all: String = ASSETS.iter().map(|asset| asset.text).collect();
    let digest = Digest::of_bytes(all.as_bytes());
    let hex: String = digest.as_bytes()[..12].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("\"{hex}\"")
});

pub(crate) fn router() -> Router<App> {
    Router::new()
        .route("/", get(|headers: HeaderMap| async move { file("index.html", &headers) }))
        .route(
            "/console/{*path}",
            get(
                |Path(path): Path<String>, headers: HeaderMap| async move { file(&path, &headers) },
            ),
        )
}

fn file(path: &str, headers: &HeaderMap) -> Result<Response, Error> {
    let found = ASSETS.iter().chain([&MODES]).find(|asset| asset.path == path);
    let asset = found.ok_or_else(|| Error::new(Kind::NotFound, "the console has no such file"))?;
    let given: [(HeaderName, &str); 7] = [
        (CONTENT_TYPE, asset.media_type),
        (ETAG, &TAG),
        // Kept, and asked for again: a server that was updated is not met with an old page.
        (CACHE_CONTROL, "no-cache"),
        (CONTENT_SECURITY_POLICY, &POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
    ];
    let is_known = headers.get(IF_NONE_MATCH).is_some_and(|tag| tag.as_bytes() == TAG.as_bytes());
    Ok(match is_known {
        true => (StatusCode::NOT_MODIFIED, given).into_response(),
        false => (given, asset.text).into_response(),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path as File;

    use super::*;

    fn files(folder: &File, below: &str, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let name = format!("{below}{}", entry.file_name().to_string_lossy());
            match entry.file_type().unwrap().is_dir() {
                true => files(&entry.path(), &format!("{name}/"), found),
                false => drop(found.insert(name)),
            }
        }
    }

    #[test]
    fn every_file_of_the_console_is_served() {
        let mut there = BTreeSet::new();
        files(&File::new(env!("CARGO_MANIFEST_DIR")).join("console"), "", &mut there);
        there.retain(|name| !name.starts_with("types/"));
        for not_served in ["csp.txt", "package.json", "README.md"] {
            there.remove(not_served);
        }
        let served: BTreeSet<String> = ASSETS.iter().map(|asset| asset.path.to_owned()).collect();
        assert_eq!(there, served);
    }

    #[test]
    fn no_page_has_script_or_style_within_it() {
        let page = ASSETS.iter().find(|asset| asset.path == "index.html").unwrap().text;
        assert!(!page.contains("<style") && !page.contains(" style=") && !page.contains(" on"));
        assert!(
            page.matches("<script").count() == page.matches("<script type=\"module\" src=").count()
        );
        assert!(POLICY.contains("script-src 'self'") && !POLICY.contains("unsafe"));
    }

    #[test]
    fn a_file_that_is_known_is_not_sent_again() {
        let first = file("app.js", &HeaderMap::new()).unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(IF_NONE_MATCH, first.headers()[ETAG].clone());
        assert_eq!(file("app.js", &headers).unwrap().status(), StatusCode::NOT_MODIFIED);
        assert!(file("../Cargo.toml", &headers).is_err());
    }
}
