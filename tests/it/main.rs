//! The engine without sockets and on a virtual clock, a file for each situation.

mod support;

mod asking;
mod auth;
mod batch;
mod breaker;
mod cancel;
mod classic;
mod exchange;
mod features;
mod handshake;
mod http;
mod legacy;
mod limits;
#[cfg(feature = "metrics")]
mod metrics;
mod middleware;
mod modern;
mod ops;
mod rate;
mod replay;
mod reports;
mod routing;
mod rpc;
mod security;
mod session;
mod shutdown;
mod splits;
mod streams;
mod subscriptions;
mod swarm;
mod tasks;
mod timers;
mod versions;
mod visibility;
