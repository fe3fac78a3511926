//! A server on a thread of its own, and clients on real sockets. Every wait is a blocking read or
//! receive with a timeout.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::json;
use waterwheel::{CallToolResult, Error, Server, ServerBuilder, ServerHandle, Tool, ToolCall};

use super::request::Request;
use super::response::{Block, Response, parse_chunks};

/// Longer than anything here takes on the slowest machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A server on a thread of its own.
pub(crate) struct Running {
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) url: String,
    pub(crate) handle: ServerHandle,
    ended: Receiver<Result<(), Error>>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    /// Builds a server on its own thread, since its handlers need not be `Send`, and runs it.
    pub(crate) fn start(
        describe: impl FnOnce(ServerBuilder) -> ServerBuilder + Send + 'static,
    ) -> Self {
        Self::start_on("127.0.0.1:0", describe)
    }

    pub(crate) fn start_on(
        address: &'static str,
        describe: impl FnOnce(ServerBuilder) -> ServerBuilder + Send + 'static,
    ) -> Self {
        let (started, is_started) = channel();
        let (end, ended) = channel();
        let thread = std::thread::spawn(move || {
            let builder = describe(Server::builder("loopback", "1").tool(Tool::new("echo"), echo));
            let server = builder.bind(address).expect("the address is free");
            let facts = (server.addresses().to_vec(), server.url(), server.handle());
            started.send(facts).expect("the test waits for it");
            // A test that has failed no longer listens.
            let _ = end.send(server.run());
        });
        let (addresses, url, handle) =
            is_started.recv_timeout(PATIENCE).expect("the server starts");
        Self { addresses, url, handle, ended, thread: Some(thread) }
    }

    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.addresses[0])
    }

    /// Waits for the end that somebody has asked for.
    pub(crate) fn wait_for_end(&mut self) {
        let ended = self.ended.recv_timeout(PATIENCE).expect("the server ends");
        assert!(ended.is_ok(), "{ended:?}");
        let thread = self.thread.take().expect("it is waited for once");
        thread.join().expect("the server does not panic");
    }

    /// Shuts the server down and waits for its end.
    pub(crate) fn stop(mut self) {
        self.handle.shut_down();
        self.wait_for_end();
    }
}

/// One connection.
pub(crate) struct Client<S = TcpStream> {
    pub(crate) stream: S,
    received: Vec<u8>,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("the server listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout can be set");
        stream.set_write_timeout(Some(PATIENCE)).expect("a timeout can be set");
        Self::over(stream)
    }
}

impl<S: Read + Write> Client<S> {
    pub(crate) fn over(stream: S) -> Self {
        Self { stream, received: Vec::new() }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the server reads");
    }

    #[track_caller]
    pub(crate) fn response(&mut self) -> Response {
        loop {
            if let Some((response, taken)) = Response::parse(&self.received, false, false) {
                self.received.drain(..taken);
                return response;
            }
            assert!(self.read() > 0, "the connection ended before its answer");
        }
    }

    #[track_caller]
    pub(crate) fn ask(&mut self, request: &Request) -> Response {
        self.send(&request.bytes());
        self.response()
    }

    /// Reads the head of a stream.
    #[track_caller]
    pub(crate) fn stream(&mut self) -> Response {
        loop {
            if let Some((head, taken)) = Response::parse_head(&self.received) {
                self.received.drain(..taken);
                return head;
            }
            assert!(self.read() > 0, "the connection ended before its answer");
        }
    }

    /// Reads a stream until there is something on it.
    #[track_caller]
    pub(crate) fn blocks(&mut self) -> Vec<Block> {
        loop {
            let (blocks, taken) = parse_chunks(&self.received);
            if !blocks.is_empty() {
                self.received.drain(..taken);
                return blocks;
            }
            assert!(self.read() > 0, "the connection ended in a stream");
        }
    }

    /// Reads on; zero at the end.
    #[track_caller]
    pub(crate) fn read(&mut self) -> usize {
        let mut piece = [0; 64 * 1024];
        let count = self.stream.read(&mut piece).expect("something comes in time");
        self.received.extend_from_slice(&piece[..count]);
        count
    }

    /// Waits until the server has closed the connection, and says nothing more before.
    #[track_caller]
    pub(crate) fn expect_end(&mut self) {
        assert_eq!(self.read(), 0, "{:?}", String::from_utf8_lossy(&self.received));
    }
}

pub(crate) fn echo(call: &mut ToolCall<'_>) -> Result<CallToolResult, waterwheel::CallError> {
    Ok(CallToolResult::text(call.raw_arguments().map_or("{}", |raw| raw.get())))
}

pub(crate) fn call(id: u64, tool: &str) -> Request {
    Request::modern_call(id, tool, json!({}))
}
