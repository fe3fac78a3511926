//! What a certificate says: when it is valid and whom it names.

use std::net::IpAddr;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use x509_cert::Certificate;
use x509_cert::der::asn1::OctetString;
use x509_cert::der::{self, Decode};
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

use crate::filter::{CertificateName, ClientCertificate};

/// Why a certificate is not valid at this time since 1970, to follow its name; none if it is, or
/// if its dates cannot be read.
pub(super) fn problem_with_dates(der: &CertificateDer<'_>, now: Duration) -> Option<String> {
    let certificate = Certificate::from_der(der).ok()?;
    let validity = certificate.tbs_certificate().validity();
    if now > validity.not_after.to_unix_duration() {
        return Some(format!("has expired on {}", validity.not_after));
    }
    if now < validity.not_before.to_unix_duration() {
        return Some(format!("is not valid before {}", validity.not_before));
    }
    None
}

/// Reads whom a verified certificate names.
pub(super) fn client_certificate(
    der: &CertificateDer<'_>,
) -> Result<ClientCertificate, der::Error> {
    let certificate = Certificate::from_der(der)?;
    let content = certificate.tbs_certificate();
    let names = match content.get_extension::<SubjectAltName>()? {
        Some((_, SubjectAltName(names))) => names.iter().filter_map(alternative_name).collect(),
        None => Vec::new(),
    };
    Ok(ClientCertificate::new(der.to_vec(), content.subject().to_string(), names))
}

fn alternative_name(name: &GeneralName) -> Option<CertificateName> {
    match name {
        GeneralName::DnsName(name) => Some(CertificateName::Dns(name.to_string())),
        GeneralName::Rfc822Name(name) => Some(CertificateName::Email(name.to_string())),
        GeneralName::UniformResourceIdentifier(name) => {
            Some(CertificateName::Uri(name.to_string()))
        }
        GeneralName::IpAddress(octets) => address(octets).map(CertificateName::Ip),
        _ => None,
    }
}

fn address(octets: &OctetString) -> Option<IpAddr> {
    let octets = octets.as_bytes();
    let v4 = <[u8; 4]>::try_from(octets).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(octets).map(IpAddr::from)).ok()
}
