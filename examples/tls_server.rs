//! A server that speaks HTTPS:
//! `cargo run --release --features tls --example tls_server -- server.pem server.key`.
//!
//! A certificate to try it with:
//!
//! ```sh
//! openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 \
//!   -subj /CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1 \
//!   -addext basicConstraints=critical,CA:FALSE -keyout server.key -out server.pem
//! ```
//!
//! With the certificates of authorities as a third file, clients must show a certificate of one of
//! them, and `whoami` tells whose it is. SIGHUP would be the usual way to read new certificates
//! while a server runs: whoever catches it calls `ServerHandle::reload_tls`.

#[expect(dead_code, reason = "the command line is its own")]
mod support;

use waterwheel::filter::security::{Denial, Verdict};
use waterwheel::{CallToolResult, Principal, Server, ServerBuilder, Tls, Tool, ToolCall};

const USAGE: &str = "usage: tls_server CERTIFICATE KEY [CLIENT_CA] [--bind ADDR:PORT]\n  \
    CERTIFICATE, KEY  PEM files of the server\n  \
    CLIENT_CA         PEM file of authorities; clients must show a certificate of one of them\n  \
    --bind ADDR:PORT  where to listen; 127.0.0.1:8443 unless given, port 0 takes a free one";

fn main() -> support::Outcome {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("info")).init();
    let Options { certificate, key, client_ca, bind } = Options::from_args();
    let tls = Tls::from_files(&certificate, key);
    let server = Server::builder("vault", "1.0.0")
        .tool(Tool::new("whoami").description("Tells who is asking"), whoami);
    let server = match &client_ca {
        Some(file) => with_client_names(server).tls(tls.client_ca(file)),
        None => server.tls(tls),
    };
    let server = server.bind(&bind)?.handle_signals()?;
    println!("listening on {}", server.url());
    let identity = if client_ca.is_some() { " --cert client.pem --key client.key" } else { "" };
    let call =
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"whoami","_meta":{"#
            .to_owned()
            + r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","#
            + r#""io.modelcontextprotocol/clientCapabilities":{}}}}"#;
    println!(
        "curl --cacert {certificate}{identity} -H 'Content-Type: application/json' \
         -H 'MCP-Protocol-Version: 2026-07-28' -H 'Mcp-Method: tools/call' \
         -H 'Mcp-Name: whoami' -d '{call}' {}",
        server.url()
    );
    Ok(server.run()?)
}

/// Names callers by the certificates they show. Only verified ones get here.
fn with_client_names(server: ServerBuilder) -> ServerBuilder {
    server.authenticate_with(|_, cx| match cx.client_certificate() {
        Some(certificate) => Verdict::Allow(Principal::new(certificate.subject())),
        None => Verdict::Deny(Denial::forbidden("a client certificate is needed")),
    })
}

fn whoami(call: &mut ToolCall<'_>) -> Result<CallToolResult, waterwheel::CallError> {
    let caller = call.principal().map_or("somebody", Principal::name);
    Ok(CallToolResult::text(caller))
}

/// The command line.
struct Options {
    certificate: String,
    key: String,
    client_ca: Option<String>,
    bind: String,
}

impl Options {
    fn from_args() -> Self {
        let mut bind = "127.0.0.1:8443".to_owned();
        let mut files = Vec::new();
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--help" | "-h" => {
                    println!("{USAGE}");
                    std::process::exit(0);
                }
                "--bind" => match arguments.next() {
                    Some(address) => bind = address,
                    None => support::fail(USAGE, "--bind needs an address"),
                },
                _ => files.push(argument),
            }
        }
        let mut files = files.into_iter();
        let (Some(certificate), Some(key), client_ca, None) =
            (files.next(), files.next(), files.next(), files.next())
        else {
            support::fail(USAGE, "two files are needed, or three");
        };
        Self { certificate, key, client_ca, bind }
    }
}
