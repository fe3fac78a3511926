//! A server that asks for tokens: `cargo run --example auth_server`.
//!
//! Tokens are JSON Web Tokens, signed by a secret that both sides know (HS256) or by a key of which
//! this server has the public half only (RS256). Whoever issues them is not part of this program;
//! in its place `auth_server mint` makes tokens to try the server with. It prints the commands.

#[expect(dead_code, reason = "this server has more arguments than the others")]
mod support;

use std::fs;

use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use serde::{Deserialize, Serialize};
use waterwheel::filter::bearer::{BearerAuth, Token, TokenVerdict};
use waterwheel::{CallToolResult, Item, Principal, Server, Tool, ToolCall};

const USAGE: &str = "usage: auth_server [KEY...] [--bind ADDR:PORT] [--resource URL] [--issuer URL]
       auth_server mint [KEY...] [--resource URL] [--issuer URL] [--subject NAME] [--scopes LIST]
                            [--minutes N]
KEY is any of the first three:
  --secret TEXT       tokens are signed by this secret of 32 bytes or more (HS256); the default is
                      one that everybody knows
  --public-key FILE   tokens are verified by this RSA key in PEM (RS256)
  --private-key FILE  mint signs by this RSA key in PEM
  --bind ADDR:PORT    where to listen; 127.0.0.1:8080 unless given
  --resource URL      what clients know the server by; http://ADDR:PORT/mcp unless given
  --issuer URL        who issues tokens; https://login.example.com unless given
  --subject NAME      whose token it is; alice unless given
  --scopes LIST       what the token grants, with spaces between; notes:read unless given
  --minutes N         how long the token is good for; 60 unless given";

/// For trying things out; nobody who reads this has to guess it.
const KNOWN_SECRET: &str = "a secret that everybody knows is none";

/// A shorter secret could be guessed from one token (RFC 7518 section 3.2).
const SECRET_BYTES_MIN: usize = 32;

/// What a token says. The registered claims are checked by the library.
#[derive(Serialize, Deserialize)]
struct Claims {
    iss: String,
    aud: String,
    sub: String,
    exp: u64,
    /// What the token grants, with spaces between (RFC 9068 section 2.2.3).
    scope: String,
}

fn main() -> support::Outcome {
    env_logger::init();
    let options = Options::from_args();
    if options.mints {
        println!("{}", options.mint(&options.subject, &options.scopes)?);
        return Ok(());
    }
    serve(&options)
}

fn serve(options: &Options) -> support::Outcome {
    let check = TokenCheck::new(options)?;
    let protection = BearerAuth::new(&options.resource)
        .authorization_server(&options.issuer)
        .scopes(["notes:read"])
        .required_scopes(["notes:read"])
        .scope_includes("notes:write", ["notes:read"])
        .check(move |token| check.verdict(token));
    let server = Server::builder("notes", "1.0.0")
        .bearer_auth(protection)
        .tool(Tool::new("whoami").description("Says who is asking"), whoami)
        .tool(
            // A caller without the scope is told to get it, and a client asks its user.
            Tool::new("write_note").description("Writes a note").scopes(["notes:write"]),
            |_: &mut ToolCall| Ok(CallToolResult::text("written")),
        )
        .tool(
            Tool::new("erase_notes").description("Erases all notes").scopes(["notes:admin"]),
            |_: &mut ToolCall| Ok(CallToolResult::text("erased")),
        )
        // What is of no use to a caller need not be in its listing.
        .visible(|item, caller| match item {
            Item::Tool(tool) if tool.name == "erase_notes" => caller.has_scope("notes:admin"),
            _ => true,
        })
        .bind(&options.bind)?
        .handle_signals()?;
    println!("listening on {}", server.url());
    explain(options, &server.url())?;
    Ok(server.run()?)
}

fn whoami(call: &mut ToolCall) -> Result<CallToolResult, waterwheel::CallError> {
    let name = call.principal().map_or("nobody", Principal::name);
    Ok(CallToolResult::text(format!("{name}, granted {}", call.scopes().join(" "))))
}

/// Verifies tokens of one kind. The algorithm is the key's: a token does not get to choose.
struct TokenCheck {
    key: DecodingKey,
    validation: Validation,
}

impl TokenCheck {
    fn new(options: &Options) -> Result<Self, support::Failure> {
        let (key, algorithm) = match &options.public_key {
            Some(file) => (DecodingKey::from_rsa_pem(&read_key(file)?)?, Algorithm::RS256),
            None => (DecodingKey::from_secret(options.secret.as_bytes())?, Algorithm::HS256),
        };
        let mut validation = Validation::new(algorithm);
        // A token for somebody else, or by somebody else, is no token here.
        validation.set_audience(&[&options.resource]);
        validation.set_issuer(&[&options.issuer]);
        validation.set_required_spec_claims(&["exp", "aud", "iss", "sub"]);
        validation.validate_nbf = true;
        // Clocks differ, but not by the minute that is the default.
        validation.leeway = 5;
        Ok(Self { key, validation })
    }

    fn verdict(&self, token: &Token<'_>) -> TokenVerdict {
        match jsonwebtoken::decode::<Claims>(token.as_str(), &self.key, &self.validation) {
            Ok(data) => {
                let scopes = data.claims.scope.split_whitespace();
                TokenVerdict::valid(Principal::new(&data.claims.sub).with_scopes(scopes))
            }
            // The error names a claim or a kind of damage, never the token.
            Err(error) => TokenVerdict::invalid(error.to_string()),
        }
    }
}

fn read_key(file: &str) -> Result<Vec<u8>, support::Failure> {
    fs::read(file).map_err(|error| format!("cannot read {file}: {error}").into())
}

/// Prints what to paste next.
fn explain(options: &Options, url: &str) -> support::Outcome {
    println!("\n# Where tokens come from:\ncurl -s {}", url.replace("/mcp", METADATA));
    if options.public_key.is_some() {
        println!("\n# A token for alice, who may read, with the private half of the key:");
        let mint = "cargo run -q --example auth_server -- mint --private-key FILE";
        println!("TOKEN=$({mint} --resource {} --issuer {})", options.resource, options.issuer);
    } else {
        println!("\n# A token for alice, who may read:");
        println!("TOKEN={}", options.mint("alice", "notes:read")?);
        println!("\n# One for bob, who may write:");
        println!("TOKEN={}", options.mint("bob", "notes:write")?);
    }
    println!("\n# A call that takes notes:write; try it with each token and with none:");
    println!("curl -si {url} -H \"Authorization: Bearer $TOKEN\" {CALL}");
    Ok(())
}

const METADATA: &str = "/.well-known/oauth-protected-resource/mcp";

/// What curl has to send for a call of `write_note`.
const CALL: &str = r#"\
  -H 'Content-Type: application/json' -H 'MCP-Protocol-Version: 2026-07-28' \
  -H 'Mcp-Method: tools/call' -H 'Mcp-Name: write_note' \
  -d '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"write_note",
       "_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",
                "io.modelcontextprotocol/clientCapabilities":{}}}}'
"#;

/// The command line.
struct Options {
    mints: bool,
    bind: String,
    resource: String,
    issuer: String,
    secret: String,
    public_key: Option<String>,
    private_key: Option<String>,
    subject: String,
    scopes: String,
    minutes: u64,
}

impl Options {
    /// Reads the arguments of this process. `--help` prints the usage and exits 0; anything unknown
    /// prints it to stderr and exits 2.
    fn from_args() -> Self {
        let mut options = Self {
            mints: false,
            bind: "127.0.0.1:8080".to_owned(),
            resource: String::new(),
            issuer: "https://login.example.com".to_owned(),
            secret: KNOWN_SECRET.to_owned(),
            public_key: None,
            private_key: None,
            subject: "alice".to_owned(),
            scopes: "notes:read".to_owned(),
            minutes: 60,
        };
        let mut resource = None;
        let mut arguments = std::env::args().skip(1).peekable();
        options.mints = arguments.next_if(|argument| argument == "mint").is_some();
        while let Some(name) = arguments.next() {
            if name == "--help" || name == "-h" {
                println!("{USAGE}");
                std::process::exit(0);
            }
            let Some(value) = arguments.next() else {
                support::fail(USAGE, &format!("{name:?} is unknown or lacks its value"));
            };
            match name.as_str() {
                "--bind" => options.bind = value,
                "--resource" => resource = Some(value),
                "--issuer" => options.issuer = value,
                "--secret" => options.secret = value,
                "--public-key" => options.public_key = Some(value),
                "--private-key" => options.private_key = Some(value),
                "--subject" => options.subject = value,
                "--scopes" => options.scopes = value,
                "--minutes" => match value.parse() {
                    Ok(minutes) => options.minutes = minutes,
                    Err(_) => support::fail(USAGE, "--minutes needs a number"),
                },
                _ => support::fail(USAGE, &format!("unknown argument {name:?}")),
            }
        }
        options.resource = resource.unwrap_or_else(|| format!("http://{}/mcp", options.bind));
        if options.secret.len() < SECRET_BYTES_MIN {
            support::fail(USAGE, "the secret is too short");
        }
        options
    }

    /// Makes a token, as an authorization server would once its user has agreed.
    fn mint(&self, subject: &str, scopes: &str) -> Result<String, support::Failure> {
        let (key, algorithm) = match &self.private_key {
            Some(file) => (EncodingKey::from_rsa_pem(&read_key(file)?)?, Algorithm::RS256),
            None => (EncodingKey::from_secret(self.secret.as_bytes())?, Algorithm::HS256),
        };
        let claims = Claims {
            iss: self.issuer.clone(),
            aud: self.resource.clone(),
            sub: subject.to_owned(),
            exp: jsonwebtoken::get_current_timestamp() + self.minutes * 60,
            scope: scopes.to_owned(),
        };
        Ok(jsonwebtoken::encode(&Header::new(algorithm), &claims, &key)?)
    }
}
