//! Authorities, certificates and the files they are in, made anew for each test.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, SanType,
};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use waterwheel::Tls;

/// An authority and a folder for what it signs.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: PathBuf,
}

/// A certificate and its key, in PEM.
#[derive(Clone)]
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    /// An authority of this name, and a folder of the same name.
    pub(crate) fn new(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&folder).expect("the folder can be made");
        let mut params = named(name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("there is randomness");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("it signs itself");
        Self { issuer, folder }
    }

    /// Signs what `describe` makes of a certificate for `localhost` that is valid now.
    pub(crate) fn sign(&self, describe: impl FnOnce(&mut CertificateParams)) -> Identity {
        let mut params = named("localhost");
        params.subject_alt_names = vec![SanType::DnsName("localhost".try_into().unwrap())];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        describe(&mut params);
        let key = KeyPair::generate().expect("there is randomness");
        let certificate = params.signed_by(&key, &self.issuer).expect("it can be signed");
        Identity { certificate: certificate.pem(), key: key.serialize_pem() }
    }

    /// Writes a file into the folder.
    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.join(name);
        fs::write(&path, text).expect("the file can be written");
        path
    }

    /// The file with the authority's own certificate.
    pub(crate) fn own_file(&self) -> PathBuf {
        self.file("ca.pem", &self.issuer.pem())
    }

    /// What a server is told that shows a fresh certificate of this authority.
    pub(crate) fn tls(&self) -> Tls {
        self.tls_of(&self.sign(|_| {}))
    }

    pub(crate) fn tls_of(&self, identity: &Identity) -> Tls {
        Tls::from_files(
            self.file("server.pem", &identity.certificate),
            self.file("server.key", &identity.key),
        )
    }

    /// A client that trusts this authority.
    pub(crate) fn client(&self) -> Arc<ClientConfig> {
        self.client_of(None, rustls::ALL_VERSIONS)
    }

    /// A client that shows a certificate of its own, whoever signed it.
    pub(crate) fn client_of(
        &self,
        identity: Option<&Identity>,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).expect("it is an authority");
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(versions)
            .expect("the provider speaks them")
            .with_root_certificates(roots);
        let mut config = match identity {
            Some(Identity { certificate, key }) => {
                let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                builder.with_client_auth_cert(chain, key).expect("they belong together")
            }
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Arc::new(config)
    }
}

fn named(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}
