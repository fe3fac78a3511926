//! Who is at the other end: what is asked of clients and what the hook learns of them.

use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use rcgen::{DnType, SanType};
use rustls::ClientConfig;
use waterwheel::filter::security::{Denial, Verdict};
use waterwheel::filter::{CertificateName, ClientCertificate};
use waterwheel::{Principal, ServerBuilder, Tls};

use crate::certificates::{Authority, Identity};
use crate::support::running::{PATIENCE, Running, call};
use crate::{connect, session};

/// Lets in who has a certificate, and tells the test about it.
fn with_hook(server: ServerBuilder, seen: Sender<ClientCertificate>) -> ServerBuilder {
    server.authenticate_with(move |_, cx| match cx.client_certificate() {
        Some(certificate) => {
            seen.send(certificate.clone()).expect("the test listens");
            Verdict::Allow(Principal::new(certificate.subject()))
        }
        None => Verdict::Deny(Denial::forbidden("a certificate is needed")),
    })
}

fn alice(authority: &Authority) -> Identity {
    authority.sign(|params| {
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "Example, Inc.");
        params.distinguished_name.push(DnType::CommonName, "alice");
        params.subject_alt_names = vec![
            SanType::DnsName("alice.example".try_into().unwrap()),
            SanType::Rfc822Name("alice@example.com".try_into().unwrap()),
            SanType::URI("spiffe://example/alice".try_into().unwrap()),
            SanType::IpAddress([192, 0, 2, 1].into()),
            SanType::IpAddress("2001:db8::1".parse().unwrap()),
        ];
    })
}

#[test]
fn the_certificate_of_a_client_reaches_the_hook() {
    let (authority, clients) = (Authority::new("identity"), Authority::new("identity-clients"));
    let identity = alice(&clients);
    let tls: [Tls; 2] = [
        authority.tls().client_ca(clients.own_file()),
        authority.tls().client_ca_optional(clients.own_file()),
    ];
    for (tls, versions) in
        tls.into_iter().zip([&[&rustls::version::TLS12], &[&rustls::version::TLS13]])
    {
        let (see, seen) = channel();
        let server = Running::start(move |server| with_hook(server, see).tls(tls));
        let config = authority.client_of(Some(&identity), versions);
        // The second connection resumes the session of the first, without its certificate.
        for id in 0..2 {
            assert_eq!(connect(&server, &config).ask(&call(id, "echo")).status, 200);
            let certificate = seen.recv_timeout(PATIENCE).expect("the hook is asked");
            assert_eq!(certificate.subject(), r"CN=alice,O=Example\, Inc.");
            let names = [
                CertificateName::Dns("alice.example".into()),
                CertificateName::Email("alice@example.com".into()),
                CertificateName::Uri("spiffe://example/alice".into()),
                CertificateName::Ip([192, 0, 2, 1].into()),
                CertificateName::Ip("2001:db8::1".parse().unwrap()),
            ];
            assert_eq!(certificate.names(), names);
            let begins = config.client_auth_cert_resolver.has_certs();
            assert!(begins && certificate.der().starts_with(&[0x30]));
        }
        server.stop();
    }
}

#[test]
fn a_client_without_a_certificate_is_for_the_hook_where_none_is_required() {
    let authority = Authority::new("optional");
    let tls = authority.tls().client_ca_optional(authority.own_file());
    let (see, seen) = channel();
    let server = Running::start(move |server| with_hook(server, see).tls(tls));
    let mut client = connect(&server, &authority.client());
    assert_eq!(client.ask(&call(1, "echo")).status, 403);
    drop(client);
    server.stop();
    assert!(seen.try_recv().is_err());
}

/// What a client is told instead of an answer.
fn refusal(server: &Running, config: &Arc<ClientConfig>) -> String {
    let mut client = connect(server, config);
    // A handshake of TLS 1.3 is over for the client before the server has judged it.
    let _ = client.stream.write_all(&call(1, "echo").bytes());
    let error = client.stream.read(&mut [0; 1]).expect_err("there is no answer");
    assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");
    error.to_string()
}

#[test]
fn who_does_not_show_what_is_required_is_told_so_by_an_alert() {
    let (authority, strangers) = (Authority::new("required"), Authority::new("strangers"));
    let tls = authority.tls().client_ca(authority.own_file());
    let server = Running::start(move |server| server.tls(tls));
    let expired = authority.sign(|params| params.not_after = rcgen::date_time_ymd(2021, 1, 1));
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        for (identity, alert) in [
            (None, "CertificateRequired"),
            (Some(alice(&strangers)), "UnknownCA"),
            (Some(expired.clone()), "CertificateExpired"),
        ] {
            let config = authority.client_of(identity.as_ref(), &[version]);
            let told = refusal(&server, &config);
            assert!(told.contains(alert), "{told}");
        }
    }
    let config = authority.client_of(Some(&alice(&authority)), rustls::ALL_VERSIONS);
    assert_eq!(connect(&server, &config).ask(&call(1, "echo")).status, 200);
    server.stop();
}

#[test]
fn only_http_1_1_is_offered() {
    let authority = Authority::new("alpn");
    let tls = authority.tls();
    let server = Running::start(move |server| server.tls(tls));
    let mut client = connect(&server, &authority.client());
    assert_eq!(client.ask(&call(1, "echo")).status, 200);
    assert_eq!(client.stream.conn.alpn_protocol(), Some(&b"http/1.1"[..]));
    let mut h2 = ClientConfig::clone(&authority.client());
    h2.alpn_protocols = vec![b"h2".to_vec()];
    let told = refusal(&server, &Arc::new(h2));
    assert!(told.contains("NoApplicationProtocol"), "{told}");
    let mut silent = ClientConfig::clone(&authority.client());
    silent.alpn_protocols.clear();
    assert_eq!(connect(&server, &Arc::new(silent)).ask(&call(2, "echo")).status, 200);
    assert!(session(&authority.client()).is_handshaking());
    server.stop();
}
