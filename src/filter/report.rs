//! Pages about the server, which the engine fills in.

/// A page about the server itself. Whoever answers with [`Flow::Report`](super::Flow::Report) has
/// decided that the caller may see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Report {
    /// What the server is and how much it holds, as JSON.
    Info,
    /// Everything that is counted, in the text format of Prometheus.
    #[cfg(feature = "metrics")]
    Metrics,
}

impl Report {
    /// Where the page is found when the server was told to have it.
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Info => "/info",
            #[cfg(feature = "metrics")]
            Self::Metrics => "/metrics",
        }
    }
}
