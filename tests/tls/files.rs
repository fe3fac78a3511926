//! Certificates and keys on disk: what is wrong with them is said before anybody connects.

use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock};

use log::{Level, LevelFilter, Log, Metadata, Record};
use rcgen::date_time_ymd;
use waterwheel::{BuildError, Server, Tls};

use crate::certificates::Authority;
use crate::connect;
use crate::support::running::{Running, call};

/// What the server has to say, from warnings up.
struct Heard(Mutex<Vec<String>>);

impl Log for Heard {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= Level::Warn
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            let line = format!("{} {}", record.level(), record.args());
            self.0.lock().expect("no holder of this lock panics").push(line);
        }
    }

    fn flush(&self) {}
}

static HEARD: Heard = Heard(Mutex::new(Vec::new()));

/// Lines of the log that speak of this file, of all there are since the first call.
fn heard_of(file: &std::path::Path) -> Vec<String> {
    static STARTED: OnceLock<()> = OnceLock::new();
    STARTED.get_or_init(|| {
        log::set_logger(&HEARD).expect("nobody else listens");
        log::set_max_level(LevelFilter::Warn);
    });
    let name = file.display().to_string();
    let lines = HEARD.0.lock().expect("no holder of this lock panics");
    lines.iter().filter(|line| line.contains(&name)).cloned().collect()
}

fn start(tls: Tls) -> Result<Server, BuildError> {
    Server::builder("files", "1").tls(tls).bind("127.0.0.1:0")
}

#[test]
fn b147_what_is_wrong_with_a_file_is_said_at_the_start() {
    let authority = Authority::new("b147");
    let (mine, other) = (authority.sign(|_| {}), authority.sign(|_| {}));
    let good = authority.file("good.pem", &mine.certificate);
    let key = authority.file("good.key", &mine.key);
    let other_key = authority.file("other.key", &other.key);
    let empty = authority.file("empty.pem", "");
    let text = authority.file("text.pem", "certificate goes here");
    let cut = authority.file("cut.pem", &mine.certificate[..200]);
    let garbled = authority.file(
        "garbled.pem",
        &mine.certificate.replace("BEGIN CERTIFICATE-----\nMII", "BEGIN CERTIFICATE-----\nAAA"),
    );
    let secret = authority.file("secret.key", &mine.key.replace('\n', "\n!"));
    let sealed =
        authority.file("sealed.key", &mine.key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY"));
    let broken =
        authority.file("broken.key", &other.certificate.replace("CERTIFICATE", "PRIVATE KEY"));
    let large = authority.file("large.pem", &"#".repeat(1024 * 1024 + 1));
    let missing = good.with_file_name("missing.pem");
    let folder = good.parent().expect("it is in a folder").to_owned();
    let cases: [(&PathBuf, &PathBuf, &PathBuf, &str); 13] = [
        (&missing, &key, &missing, "No such file"),
        (&good, &missing, &missing, "No such file"),
        (&folder, &key, &folder, "directory"),
        (&empty, &key, &empty, "no certificate"),
        (&text, &key, &text, "no certificate"),
        (&cut, &key, &cut, "end marker"),
        (&garbled, &key, &garbled, "cannot be read"),
        (&large, &key, &large, "larger than"),
        (&good, &empty, &empty, "no private key"),
        (&good, &good, &good, "no private key"),
        (&good, &sealed, &sealed, "not encrypted"),
        (&good, &broken, &broken, "private key"),
        (&good, &other_key, &other_key, "not the key of the certificate in"),
    ];
    for (certificate, key, named, reason) in cases {
        let error = start(Tls::from_files(certificate, key)).expect_err("it cannot be used");
        let shown = error.to_string();
        assert!(matches!(&error, BuildError::File { file, .. } if file == named), "{shown}");
        assert!(shown.contains(&named.display().to_string()), "{shown}");
        assert!(shown.contains(reason) && !shown.contains('\n'), "{shown}");
    }
    let error = start(Tls::from_files(&good, &secret)).expect_err("it is no PEM").to_string();
    let lines: Vec<&str> = mine.key.lines().collect();
    assert!(lines.iter().all(|line| !error.contains(line)), "the key is not repeated: {error}");
    for authorities in [&missing, &empty, &garbled, &large] {
        for tls in [
            Tls::from_files(&good, &key).client_ca(authorities),
            Tls::from_files(&good, &key).client_ca_optional(authorities),
        ] {
            let error = start(tls).expect_err("it cannot be used");
            assert!(matches!(&error, BuildError::File { file, .. } if file == authorities));
        }
    }
    let both = authority.file("both.pem", &format!("{}{}", mine.key, mine.certificate));
    assert!(start(Tls::from_files(&both, &both)).is_ok(), "one file may have both");
}

#[test]
fn b147_a_file_that_may_not_be_read_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let authority = Authority::new("b147-permissions");
    let mine = authority.sign(|_| {});
    let certificate = authority.file("server.pem", &mine.certificate);
    let key = authority.file("locked.key", &mine.key);
    fs::set_permissions(&key, fs::Permissions::from_mode(0o0)).expect("the file is ours");
    // Nothing is locked to the superuser, who may be the one that runs this.
    if fs::read(&key).is_err() {
        let error = start(Tls::from_files(&certificate, &key)).expect_err("it is locked");
        let shown = error.to_string();
        assert!(shown.contains("locked.key") && shown.contains("ermission denied"), "{shown}");
    }
    fs::remove_file(&key).expect("the file is ours");
}

#[test]
fn b147_a_certificate_out_of_its_time_is_served_with_a_warning() {
    let authority = Authority::new("b147-expired");
    for (name, from, to, warning) in [
        ("valid", 2020, 2200, None),
        ("expired", 2020, 2021, Some("has expired on 2021-01-01")),
        ("early", 2190, 2200, Some("is not valid before 2190-01-01")),
    ] {
        let identity = authority.sign(|params| {
            params.not_before = date_time_ymd(from, 1, 1);
            params.not_after = date_time_ymd(to, 1, 1);
        });
        let file = authority.file(&format!("{name}.pem"), &identity.certificate);
        assert_eq!(heard_of(&file), [""; 0]);
        let key = authority.file("server.key", &identity.key);
        assert!(start(Tls::from_files(&file, key)).is_ok(), "{name}");
        let lines = heard_of(&file);
        assert_eq!(lines.len(), usize::from(warning.is_some()), "{lines:?}");
        for line in lines {
            let warning = warning.expect("it is the one that was counted");
            assert!(line.starts_with("WARN ") && line.contains(warning), "{line}");
        }
    }
}

#[test]
fn a_reload_is_for_new_connections_and_a_broken_one_changes_nothing() {
    let (old, new) = (Authority::new("reload"), Authority::new("reload-new"));
    let tls = old.tls();
    let server = Running::start(move |server| server.tls(tls));
    let mut before = connect(&server, &old.client());
    assert_eq!(before.ask(&call(1, "echo")).status, 200);

    let identity = new.sign(|_| {});
    let certificate = old.file("server.pem", &identity.certificate);
    let known = heard_of(&certificate).len();
    let error = server.handle.reload_tls().expect_err("the key has not changed yet").to_string();
    assert!(error.contains("server.key"), "{error}");
    let lines = heard_of(&certificate);
    assert!(lines.len() == known + 1 && lines[known].starts_with("ERROR "), "{lines:?}");
    assert_eq!(connect(&server, &old.client()).ask(&call(2, "echo")).status, 200);

    old.file("server.key", &identity.key);
    let also = server.handle.clone();
    also.reload_tls().expect("they belong together");
    assert_eq!(connect(&server, &new.client()).ask(&call(3, "echo")).status, 200);
    assert_eq!(before.ask(&call(4, "echo")).status, 200, "what is open stays");
    server.stop();
}

#[test]
fn a_server_without_tls_has_nothing_to_reload() {
    let server = Running::start(|server| server);
    assert!(server.handle.reload_tls().is_err());
    server.stop();
}
