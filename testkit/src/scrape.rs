//! A scraper like Prometheus: persistent connection, the same headers, gzip.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use flate2::read::GzDecoder;

/// The Accept header of Prometheus 3.
const ACCEPT: &str = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,\
text/plain;version=0.0.4;q=0.3,*/*;q=0.2";

const PATIENCE: Duration = Duration::from_secs(60);

/// One scrape.
#[derive(Clone, Debug)]
pub struct Scrape {
    /// From the first byte sent to the last byte received.
    pub took: Duration,
    /// Bytes of the body as transferred.
    pub bytes: usize,
    /// Whether it was transferred as gzip.
    pub packed: bool,
    /// The uncompressed page.
    pub page: String,
}

impl Scrape {
    /// Number of samples of the page.
    pub fn samples(&self) -> usize {
        let sample = |line: &&str| !line.is_empty() && !line.starts_with('#');
        self.page.lines().filter(sample).count()
    }
}

/// A client of one target.
#[derive(Debug)]
pub struct Scraper {
    stream: BufReader<TcpStream>,
    target: String,
    address: SocketAddr,
}

impl Scraper {
    /// Connects to `address`, for requests of `target`.
    ///
    /// # Errors
    /// When the connection is refused.
    pub fn connect(address: SocketAddr, target: &str) -> Result<Self> {
        Ok(Self {
            stream: connection(address)?,
            target: target.to_owned(),
            address,
        })
    }

    /// Whether the server has closed the connection, as servers do when it is idle.
    fn closed(&self) -> Result<bool> {
        let stream = self.stream.get_ref();
        stream.set_nonblocking(true)?;
        let peeked = stream.peek(&mut [0]);
        stream.set_nonblocking(false)?;
        Ok(!peeked.is_err_and(|e| e.kind() == std::io::ErrorKind::WouldBlock))
    }

    /// Sends one request. With `gzip`, the server may compress the answer. It may close the connection between two
    /// requests, but not with an answer.
    ///
    /// # Errors
    /// When the answer is not a complete page with status 200.
    pub fn scrape(&mut self, gzip: bool) -> Result<Scrape> {
        if self.closed()? {
            self.stream = connection(self.address)?;
        }
        let encoding = if gzip { "gzip" } else { "identity" };
        let request = format!(
            "GET {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: Prometheus/3\r\nAccept: {ACCEPT}\r\n\
             Accept-Encoding: {encoding}\r\nX-Prometheus-Scrape-Timeout-Seconds: 10\r\n\r\n",
            self.target, self.address
        );
        let start = Instant::now();
        self.stream.get_mut().write_all(request.as_bytes())?;
        let (packed, body) = self
            .answer()
            .with_context(|| format!("http://{}{}", self.address, self.target))?;
        let took = start.elapsed();
        ensure!(gzip || !packed, "requested plain text, got gzip");
        let mut page = String::new();
        if packed {
            GzDecoder::new(body.as_slice()).read_to_string(&mut page)?;
        } else {
            page = String::from_utf8(body.clone())?;
        }
        Ok(Scrape {
            took,
            bytes: body.len(),
            packed,
            page,
        })
    }

    fn answer(&mut self) -> Result<(bool, Vec<u8>)> {
        let status = self.line()?;
        let (mut packed, mut chunked, mut length) = (false, false, None);
        loop {
            let header = self.line()?.to_ascii_lowercase();
            match header.split_once(':').map(|(name, value)| (name, value.trim())) {
                None => break,
                Some(("content-encoding", value)) => packed = value == "gzip",
                Some(("transfer-encoding", value)) => chunked = value == "chunked",
                Some(("content-length", value)) => length = Some(value.parse()?),
                Some(("connection", "close")) => bail!("the server closes the connection"),
                Some(_) => {}
            }
        }
        let body = match (chunked, length) {
            (true, _) => self.chunks()?,
            (false, Some(length)) => self.exactly(length)?,
            (false, None) => bail!("an answer without a length"),
        };
        ensure!(
            status.starts_with("HTTP/1.1 200"),
            "{status}: {}",
            String::from_utf8_lossy(&body)
        );
        Ok((packed, body))
    }

    fn chunks(&mut self) -> Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = self.line()?;
            let size = usize::from_str_radix(&line, 16).with_context(|| format!("chunk size {line:?}"))?;
            body.extend(self.exactly(size)?);
            ensure!(self.line()?.is_empty(), "a chunk lacks its end");
            if size == 0 {
                return Ok(body);
            }
        }
    }

    fn exactly(&mut self, length: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.stream.by_ref().take(16 << 10).read_line(&mut line)?;
        line.strip_suffix("\r\n")
            .map(str::to_owned)
            .with_context(|| format!("incomplete line: {line:?}"))
    }
}

fn connection(address: SocketAddr) -> Result<BufReader<TcpStream>> {
    let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(BufReader::with_capacity(256 << 10, stream))
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    /// Sends the next of these answers to each request. Each list is for one connection, which is then closed.
    fn server(connections: Vec<Vec<Vec<u8>>>) -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for answers in connections {
                let (stream, _) = listener.accept().unwrap();
                let mut stream = BufReader::new(stream);
                for answer in answers {
                    let mut line = String::new();
                    while line != "\r\n" {
                        line.clear();
                        stream.read_line(&mut line).unwrap();
                    }
                    stream.get_mut().write_all(&answer).unwrap();
                }
            }
        });
        address
    }

    #[test]
    fn a_connection_that_the_server_closed_is_opened_again() {
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\na 1\n".to_vec();
        let address = server(vec![vec![answer.clone()], vec![answer]]);
        let mut scraper = Scraper::connect(address, "/metrics").unwrap();
        assert_eq!(scraper.scrape(false).unwrap().samples(), 1);
        crate::wait::until_true("closed", PATIENCE, || scraper.closed().unwrap()).unwrap();
        assert_eq!(scraper.scrape(false).unwrap().samples(), 1);
    }

    #[test]
    fn one_connection_supports_lengths_chunks_and_gzip() {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(b"# c\na 1\n\nb 2\n").unwrap();
        let packed = packer.finish().unwrap();
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n",
            packed.len()
        );
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\na 1\r\n1\r\n\n\r\n0\r\n\r\n";
        let address = server(vec![vec![
            [head.as_bytes(), &packed].concat(),
            chunked.as_bytes().to_vec(),
            b"HTTP/1.1 503 No\r\nContent-Length: 3\r\n\r\nwhy".to_vec(),
            b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec(),
            b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 0\r\n\r\n".to_vec(),
        ]]);
        let mut scraper = Scraper::connect(address, "/metrics").unwrap();
        let first = scraper.scrape(true).unwrap();
        assert_eq!(
            (first.samples(), first.bytes, first.packed),
            (2, packed.len(), true)
        );
        assert_eq!(scraper.scrape(false).unwrap().page, "a 1\n");
        let error = format!("{:#}", scraper.scrape(false).unwrap_err());
        assert!(error.contains("503 No: why"), "{error}");
        assert!(!scraper.scrape(true).unwrap().packed);
        let error = scraper.scrape(false).unwrap_err().to_string();
        assert!(error.contains("got gzip"), "{error}");
    }
}
