//! Who is at the other end of a connection, as far as the transport knows.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use sha2::{Digest, Sha256};

/// What the driver of an engine has said about the far end of a connection.
#[derive(Debug, Default)]
pub(crate) struct Peer {
    pub(crate) address: Option<SocketAddr>,
    /// Boxed because most connections have none.
    pub(crate) certificate: Option<Box<ClientCertificate>>,
}

/// The certificate by which a client has proved who it is when its connection was made.
///
/// Whoever hands it to the engine has verified it: signed by an authority that is trusted for
/// clients, valid at that time, and its key is the client's. What it allows its owner to do is for
/// the authentication hook to say.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientCertificate {
    der: Vec<u8>,
    subject: String,
    names: Vec<CertificateName>,
    fingerprint: String,
}

/// A name that a certificate gives its owner beside the subject (`subjectAltName`, RFC 5280
/// section 4.2.1.6).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CertificateName {
    /// A host name.
    Dns(String),
    /// A mail address.
    Email(String),
    /// A URI, such as a SPIFFE id.
    Uri(String),
    /// An address.
    Ip(IpAddr),
}

impl ClientCertificate {
    /// A certificate that the caller has verified and read.
    #[must_use]
    pub fn new(der: Vec<u8>, subject: String, names: Vec<CertificateName>) -> Self {
        use std::fmt::Write as _;
        let mut fingerprint = String::with_capacity(64);
        for byte in Sha256::digest(&der) {
            // Writing to a string does not fail.
            let _ = write!(fingerprint, "{byte:02x}");
        }
        Self { der, subject, names, fingerprint }
    }

    /// The whole certificate, as X.509 in DER.
    #[must_use]
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// The subject as one line, most specific part first: `CN=alice,O=Example` (RFC 4514). Special
    /// characters in it are escaped, so that no name can look like two.
    #[must_use]
    pub fn subject(&self) -> &str {
        &self.subject
    }

    /// The alternative names of the subject; kinds of names that are not known are left out.
    #[must_use]
    pub fn names(&self) -> &[CertificateName] {
        &self.names
    }

    /// The SHA-256 of the whole certificate in 64 lower-case hexadecimal digits. Another one after
    /// every renewal.
    #[must_use]
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }
}

impl fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientCertificate")
            .field("subject", &self.subject)
            .field("names", &self.names)
            .field("fingerprint", &self.fingerprint)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_the_sha_256_in_lower_case() {
        let certificate = ClientCertificate::new(b"abc".to_vec(), String::new(), Vec::new());
        assert_eq!(
            certificate.fingerprint(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
