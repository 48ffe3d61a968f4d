//! Certificates made by openssl, and curl as a client.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::{LONG, Node};

/// The folder of a certificate authority and of what it has signed: `ca.pem`, `NAME.pem`, `NAME.key`.
pub struct Pki(TempDir);

fn openssl(dir: &Path, args: &[&str]) {
    let mut command = Command::new("openssl");
    command.args(args).current_dir(dir);
    testkit::exec::run(command, b"", LONG).unwrap().ok().unwrap();
}

const EC: [&str; 6] = [
    "-newkey",
    "ec",
    "-pkeyopt",
    "ec_paramgen_curve:prime256v1",
    "-nodes",
    "-batch",
];

impl Pki {
    pub fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("pki-").tempdir().unwrap();
        let ca = [
            "req", "-x509", "-subj", "/CN=ca", "-days", "2", "-keyout", "ca.key", "-out", "ca.pem",
        ];
        openssl(dir.path(), &[&ca[..], &EC].concat());
        Self(dir)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    /// Signs a certificate with these subject alternative names.
    pub fn sign(&self, name: &str, sans: &str) {
        let (key, request) = (format!("{name}.key"), format!("{name}.csr"));
        let subject = format!("/CN={name}");
        let asked = [
            "req", "-new", "-subj", &subject, "-keyout", &key, "-out", &request,
        ];
        openssl(self.0.path(), &[&asked[..], &EC].concat());
        self.write("ext", &format!("subjectAltName={sans}\n"));
        let certificate = format!("{name}.pem");
        let signed = [
            "x509",
            "-req",
            "-CA",
            "ca.pem",
            "-CAkey",
            "ca.key",
            "-CAcreateserial",
            "-extfile",
            "ext",
            "-days",
            "1",
        ];
        let files = ["-in", request.as_str(), "-out", &certificate];
        openssl(self.0.path(), &[&signed[..], &files].concat());
    }

    /// Writes `web.yml`: TLS with the certificate of `server`, and these lines.
    pub fn web(&self, more: &str) {
        self.write("web.yml", &format!("{TLS}{more}"));
    }

    /// The setting that names `web.yml`.
    pub fn setting(&self) -> String {
        format!("web_config_file={:?}", self.path("web.yml"))
    }
}

/// TLS of `server`, with paths relative to the file.
pub const TLS: &str = "tls_server_config:\n  cert_file: server.pem\n  key_file: server.key\n";

/// Names of the server.
pub const LOCAL: &str = "DNS:localhost,IP:127.0.0.1";

/// The rows of users, each with the password `secret`.
pub fn users(names: &[&str]) -> String {
    let hash = bcrypt::hash("secret", 5).unwrap();
    let rows: Vec<String> = names.iter().map(|name| format!("  {name}: {hash}\n")).collect();
    format!("basic_auth_users:\n{}", rows.concat())
}

/// What curl says: its exit code, the HTTP status (0: none), head and body, and its errors.
#[derive(Debug)]
pub struct Curled {
    pub exit: Option<i32>,
    pub status: u16,
    pub text: String,
    pub errors: String,
}

/// Asks for a page with curl.
pub fn curl(node: &Node, scheme: &str, path: &str, args: &[&str]) -> Curled {
    let url = format!("{scheme}://{}{path}", node.address().unwrap());
    let mut command = Command::new("curl");
    command.args([
        "--silent",
        "--show-error",
        "--include",
        "--max-time",
        "50",
        "--write-out",
        "\n%{http_code}",
    ]);
    command.args(args).arg(url);
    let output = testkit::exec::run(command, b"", LONG).unwrap();
    let (text, status) = output.stdout.rsplit_once('\n').unwrap();
    Curled {
        exit: output.code,
        status: status.parse().unwrap(),
        text: text.to_owned(),
        errors: output.stderr,
    }
}
