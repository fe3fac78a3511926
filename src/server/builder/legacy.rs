//! Paths for clients of revision 2024-11-05.

use super::{ServerBuilder, check_path};
use crate::error::BuildError;
use crate::filter::bearer::Challenge;
use crate::filter::legacy::LegacyEndpoint;
use crate::filter::normal;
use crate::http::PublicUrl;
use crate::mcp::version::Version;

/// Where the transport of revision 2024-11-05 is served.
#[derive(Debug, Default)]
pub(super) enum LegacyPaths {
    /// On the usual paths, if they are free.
    #[default]
    Usual,
    /// On these.
    Chosen { stream: String, messages: String },
    /// Nowhere.
    Off,
}

/// What other servers call them, which clients therefore try.
const USUAL_PATHS: (&str, &str) = ("/sse", "/messages");

impl ServerBuilder {
    /// The paths for clients that know no later transport than that of revision 2024-11-05 (HTTP
    /// with SSE): they open a stream by GET on `stream`, `/sse` unless set, and POST what they say
    /// to `messages`, `/messages` unless set. Any revision with sessions can be negotiated there.
    ///
    /// Served beside the endpoint and protected like it, on a server with sessions among whose
    /// [`versions`](Self::versions) is 2024-11-05. The two must differ from each other and from the
    /// endpoint's; unless they are set, such a clash means that they are not served.
    pub fn legacy_paths(mut self, stream: &str, messages: &str) -> Self {
        let checked = check_path(stream).and_then(|()| check_path(messages));
        let (stream, messages) = (normal(stream).to_owned(), normal(messages).to_owned());
        self.legacy = LegacyPaths::Chosen { stream, messages };
        self.note(checked)
    }

    /// Serves clients on the endpoint only, and none that know no later transport than that of
    /// revision 2024-11-05.
    pub fn without_legacy(mut self) -> Self {
        self.legacy = LegacyPaths::Off;
        self
    }

    /// What serves those clients beside an endpoint on these paths.
    pub(super) fn settle_legacy(
        &mut self,
        taken: &[String],
        challenge: &Challenge,
    ) -> Result<Option<LegacyEndpoint>, BuildError> {
        let chosen = matches!(self.legacy, LegacyPaths::Chosen { .. });
        let (stream_path, messages_path) = match std::mem::take(&mut self.legacy) {
            LegacyPaths::Off => return Ok(None),
            LegacyPaths::Chosen { stream, messages } => (stream, messages),
            LegacyPaths::Usual => (USUAL_PATHS.0.to_owned(), USUAL_PATHS.1.to_owned()),
        };
        if !self.app.sessions || !self.versions.contains(&Version::V2024_11_05) {
            return Ok(None);
        }
        let clashes = stream_path == messages_path
            || taken.iter().any(|path| *path == stream_path || *path == messages_path);
        if clashes && chosen {
            let reason = "the endpoint and the two legacy paths must differ".to_owned();
            return Err(BuildError::Invalid { kind: "path", name: messages_path, reason });
        }
        let prefix = self.public_url.as_ref().map_or("", PublicUrl::path);
        Ok((!clashes).then(|| LegacyEndpoint {
            address: format!("{prefix}{messages_path}"),
            stream_path,
            messages_path,
            json_depth_max: self.limits.json_depth_max,
            http10: self.http10,
            challenge: challenge.clone(),
        }))
    }
}
