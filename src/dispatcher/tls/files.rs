//! What a server shows and asks for in a handshake: read from files, checked before anything is
//! served, and read again on request.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{InconsistentKeys, RootCertStore, ServerConfig};

use super::certificate;
use crate::dispatcher::since_epoch;
use crate::error::BuildError;
use crate::limits::TLS_FILE_BYTES_MAX;

/// How a server speaks TLS: the files with its certificate and key, and what it asks of clients.
///
/// TLS 1.2 and 1.3 are spoken, and HTTP/1.1 only (ALPN `http/1.1`). The files are PEM, read when
/// the server is bound and again by [`ServerHandle::reload_tls`]; changes in between do nothing.
/// Lists of revoked certificates are not consulted.
///
/// ```no_run
/// use waterwheel::{Server, Tls};
///
/// # fn main() -> Result<(), waterwheel::Error> {
/// let tls = Tls::from_files("server.pem", "server.key").client_ca("clients.pem");
/// Server::builder("vault", "1.0.0").tls(tls).bind("127.0.0.1:8443")?.run()
/// # }
/// ```
///
/// [`ServerHandle::reload_tls`]: crate::ServerHandle::reload_tls
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "it does nothing until it is given to a server"]
pub struct Tls {
    certificate: PathBuf,
    key: PathBuf,
    clients: Clients,
}

/// What clients have to show.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Clients {
    Nothing,
    /// A certificate of one of the authorities in this file, if they like.
    Optional(PathBuf),
    /// A certificate of one of the authorities in this file.
    Required(PathBuf),
}

impl Tls {
    /// Shows the certificate in one file, followed there by those that lead to its authority, and
    /// proves it by the key in the other: PKCS#8, PKCS#1 or SEC1, not encrypted. Both may be the
    /// same file.
    pub fn from_files(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        Self { certificate: certificate.into(), key: key.into(), clients: Clients::Nothing }
    }

    /// Requires every client to show a certificate of one of the authorities in this file; the
    /// handshake fails otherwise. Who the client is the authentication hook learns from
    /// [`Cx::client_certificate`](crate::filter::Cx::client_certificate).
    pub fn client_ca(mut self, file: impl Into<PathBuf>) -> Self {
        self.clients = Clients::Required(file.into());
        self
    }

    /// Asks clients for a certificate of one of the authorities in this file and serves those
    /// without one as well: the authentication hook has to tell them apart. A certificate of
    /// anybody else fails the handshake.
    pub fn client_ca_optional(mut self, file: impl Into<PathBuf>) -> Self {
        self.clients = Clients::Optional(file.into());
        self
    }

    /// Reads and checks everything, and warns of certificates that are not valid today.
    fn load(&self) -> Result<Arc<ServerConfig>, BuildError> {
        let provider = Arc::new(ring::default_provider());
        let shown = self.load_certified_key(&provider)?;
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| refused(&self.certificate, error.to_string()))?;
        let builder = match self.load_verifier(provider)? {
            Some(verifier) => builder.with_client_cert_verifier(verifier),
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(shown)));
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    fn load_certified_key(&self, provider: &CryptoProvider) -> Result<CertifiedKey, BuildError> {
        let chain = read_certificates(&self.certificate)?;
        let key = read_key(&self.key)?;
        let shown = CertifiedKey::from_der(chain, key, provider).map_err(|error| match error {
            rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
                let certificate = self.certificate.display();
                refused(&self.key, format!("it is not the key of the certificate in {certificate}"))
            }
            rustls::Error::InvalidCertificate(_) => {
                refused(&self.certificate, "its first certificate cannot be read".to_owned())
            }
            other => refused(&self.key, other.to_string()),
        })?;
        for certificate in &shown.cert {
            if let Some(problem) = certificate::problem_with_dates(certificate, since_epoch()) {
                log::warn!("a certificate in {} {problem}", self.certificate.display());
            }
        }
        Ok(shown)
    }

    fn load_verifier(
        &self,
        provider: Arc<CryptoProvider>,
    ) -> Result<Option<Arc<dyn ClientCertVerifier>>, BuildError> {
        let (Clients::Optional(file) | Clients::Required(file)) = &self.clients else {
            return Ok(None);
        };
        let mut authorities = RootCertStore::empty();
        for authority in read_certificates(file)? {
            let added = authorities.add(authority);
            added.map_err(|error| refused(file, error.to_string()))?;
        }
        let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(authorities), provider);
        let builder = match &self.clients {
            Clients::Optional(_) => builder.allow_unauthenticated(),
            Clients::Nothing | Clients::Required(_) => builder,
        };
        builder.build().map(Some).map_err(|error| refused(file, error.to_string()))
    }
}

/// The configuration of new connections, and the files it comes from. Shared by the listeners and
/// every handle.
pub(crate) struct TlsSource {
    tls: Tls,
    /// Locked for as long as it takes to copy or replace a pointer, once per connection.
    current: Mutex<Arc<ServerConfig>>,
}

impl TlsSource {
    pub(crate) fn load(tls: Tls) -> Result<Self, BuildError> {
        let current = Mutex::new(tls.load()?);
        Ok(Self { tls, current })
    }

    /// Reads the files again, for connections that are accepted from now on. If they cannot be
    /// used everything stays as it is.
    pub(crate) fn reload(&self) -> Result<(), BuildError> {
        let config = self.tls.load()?;
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = config;
        Ok(())
    }

    pub(super) fn current(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.current.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for TlsSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsSource").field("tls", &self.tls).finish_non_exhaustive()
    }
}

fn refused(file: &Path, reason: String) -> BuildError {
    BuildError::File { file: file.to_owned(), reason }
}

fn read_certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, BuildError> {
    let text = read(file)?;
    let certificates: Result<Vec<_>, pem::Error> = CertificateDer::pem_slice_iter(&text).collect();
    match certificates {
        Ok(certificates) if certificates.is_empty() => {
            Err(refused(file, "there is no certificate in it, in PEM".to_owned()))
        }
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(refused(file, error.to_string())),
    }
}

fn read_key(file: &Path) -> Result<PrivateKeyDer<'static>, BuildError> {
    PrivateKeyDer::from_pem_slice(&read(file)?).map_err(|error| match error {
        pem::Error::NoItemsFound => {
            let reason = "there is no private key in it, in PEM and not encrypted";
            refused(file, reason.to_owned())
        }
        // The others may repeat a line of the file, which would be a line of the key.
        _ => refused(file, "it is not well-formed PEM".to_owned()),
    })
}

fn read(file: &Path) -> Result<Vec<u8>, BuildError> {
    let mut text = Vec::new();
    let opened = File::open(file).and_then(|opened| {
        let bytes_max = TLS_FILE_BYTES_MAX;
        if opened.take(bytes_max + 1).read_to_end(&mut text)? as u64 > bytes_max {
            let reason = format!("it is larger than {bytes_max} bytes");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, reason));
        }
        Ok(())
    });
    opened.map_err(|error| refused(file, error.to_string()))?;
    Ok(text)
}
