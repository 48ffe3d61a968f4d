//! A small blocking HTTP/1.1 client over TCP and Unix sockets. Independent of the server's library on purpose.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// Status code.
    pub status: u16,
    /// Headers in their order; names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, with the transfer encoding undone but not the content encoding.
    pub body: Vec<u8>,
}

impl Response {
    /// First header of that name, in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, v)| v.as_str())
    }

    /// The body as text.
    pub fn text(&self) -> Result<&str> {
        Ok(std::str::from_utf8(&self.body)?)
    }

    /// The text of a 200, or an error with the other answer.
    pub fn ok(&self) -> Result<&str> {
        ensure!(
            self.status == 200,
            "status {}: {}",
            self.status,
            String::from_utf8_lossy(&self.body)
        );
        self.text()
    }
}

/// GET from `address`, such as `127.0.0.1:9000`. The timeout holds for each wait on the socket.
pub fn get(address: &str, target: &str, headers: &[(&str, &str)], timeout: Duration) -> Result<Response> {
    let to: SocketAddr = address.parse().with_context(|| address.to_owned())?;
    let stream = TcpStream::connect_timeout(&to, timeout).with_context(|| format!("connect to {address}"))?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    request(stream, "GET", address, target, headers, b"").with_context(|| format!("http://{address}{target}"))
}

/// One request on a connection that then ends.
pub fn request(
    mut stream: impl Read + Write,
    method: &str,
    host: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Result<Response> {
    let mut head = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n");
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    if method != "GET" {
        head += &format!("Content-Length: {}\r\n", body.len());
    }
    head += "\r\n";
    stream.write_all(&[head.as_bytes(), body].concat())?;
    response(BufReader::new(stream))
}

fn line(stream: &mut impl BufRead) -> Result<String> {
    let mut line = String::new();
    stream.by_ref().take(64 << 10).read_line(&mut line)?;
    line.strip_suffix("\r\n")
        .map(str::to_owned)
        .with_context(|| format!("no line: {line:?}"))
}

fn response(mut stream: impl BufRead) -> Result<Response> {
    let first = line(&mut stream)?;
    let status = first.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3));
    let status = status
        .and_then(|s| s.parse().ok())
        .with_context(|| format!("not HTTP/1.1: {first:?}"))?;
    let mut headers = Vec::new();
    loop {
        let line = line(&mut stream)?;
        if line.is_empty() {
            break;
        }
        let (name, value) = line
            .split_once(':')
            .with_context(|| format!("bad header: {line:?}"))?;
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let mut response = Response {
        status,
        headers,
        body: Vec::new(),
    };
    if response
        .header("transfer-encoding")
        .is_some_and(|v| v.eq_ignore_ascii_case("chunked"))
    {
        response.body = chunked(&mut stream)?;
    } else if let Some(length) = response.header("content-length") {
        let length: usize = length.parse().with_context(|| format!("length {length:?}"))?;
        response.body.resize(length, 0);
        stream
            .read_exact(&mut response.body)
            .context("the body is shorter than its length")?;
        ensure!(stream.read(&mut [0])? == 0, "bytes after the body");
    } else {
        stream.read_to_end(&mut response.body)?;
    }
    Ok(response)
}

fn chunked(stream: &mut impl BufRead) -> Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let size = line(stream)?;
        let size = size.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(size, 16).with_context(|| format!("chunk size {size:?}"))?;
        if size == 0 {
            while !line(stream)?.is_empty() {}
            return Ok(body);
        }
        let start = body.len();
        body.resize(start + size, 0);
        stream.read_exact(&mut body[start..])?;
        if !line(stream)?.is_empty() {
            bail!("no newline after a chunk");
        }
    }
}

/// Encodes a query's value.
pub fn encode(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            _ => out += &format!("%{byte:02X}"),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;
    use crate::wait::PATIENCE;

    /// Serves one connection and returns the client's request.
    fn serve(mut stream: impl Read + Write, answer: &[u8]) -> String {
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            request.push(byte[0]);
        }
        stream.write_all(answer).unwrap();
        String::from_utf8(request).unwrap()
    }

    #[test]
    fn talks_over_tcp_and_undoes_chunks() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = std::thread::spawn(move || {
            let answer = b"HTTP/1.1 200 OK\r\nX-A: b:c\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1;x=y\r\nd\r\n0\r\n\r\n";
            serve(listener.accept().unwrap().0, answer)
        });
        let response = get(&address, "/m?x=1", &[("Accept-Encoding", "gzip")], PATIENCE).unwrap();
        assert_eq!(
            (response.ok().unwrap(), response.header("x-a")),
            ("abcd", Some("b:c"))
        );
        let sent = server.join().unwrap();
        assert_eq!(
            sent,
            format!(
                "GET /m?x=1 HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nAccept-Encoding: gzip\r\n\r\n"
            )
        );
    }

    #[test]
    fn talks_over_a_unix_socket_and_refuses_a_cut_body() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let server = std::thread::spawn(move || {
            serve(
                listener.accept().unwrap().0,
                b"HTTP/1.1 503 No\r\nContent-Length: 2\r\n\r\nno",
            );
            serve(
                listener.accept().unwrap().0,
                b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort",
            );
        });
        let ask = || {
            request(
                UnixStream::connect(&path).unwrap(),
                "GET",
                "localhost",
                "/",
                &[],
                b"",
            )
        };
        let response = ask().unwrap();
        assert_eq!((response.status, response.body.as_slice()), (503, &b"no"[..]));
        assert!(response.ok().is_err());
        assert!(ask().is_err());
        server.join().unwrap();
    }

    #[test]
    fn a_server_that_says_nothing_is_an_error() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        assert!(get(&address, "/", &[], Duration::from_millis(50)).is_err());
        assert_eq!(encode("up{a=\"b\"}"), "up%7Ba%3D%22b%22%7D");
    }
}
