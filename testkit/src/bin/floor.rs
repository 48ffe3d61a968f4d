//! The least that serving a tree of counters can cost: `floor ROOT` serves every counter file of
//! `ROOT/sys/class/infiniband` as one page, on a port that it prints.
//!
//! One thread, descriptors that stay open, pread, prepared text, one write. It has no timeouts, no limits and no
//! checks, and one client at a time: a yardstick for benchmarks, not an exporter.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, Result};
use flate2::{Compress, Compression, Crc, FlushCompress};

struct Counter {
    prefix: String,
    file: File,
}

fn main() -> Result<()> {
    let root = std::env::args().nth(1).context("usage: floor ROOT")?;
    let counters = open(&Path::new(&root).join("sys/class/infiniband"))?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    println!(
        "serving {} counters on {}",
        counters.len(),
        listener.local_addr()?
    );
    let mut page = Page {
        counters,
        compress: Compress::new(Compression::new(1), false),
        plain: Vec::new(),
        answer: Vec::new(),
    };
    loop {
        let (client, _) = listener.accept()?;
        client.set_nodelay(true)?;
        // A client that disconnects is not our error.
        if let Err(e) = page.serve(client) {
            eprintln!("{e:#}");
        }
    }
}

fn open(class: &Path) -> Result<Vec<Counter>> {
    let mut counters = Vec::new();
    for device in names(class)? {
        for port in names(&class.join(&device).join("ports"))? {
            for group in ["counters", "hw_counters"] {
                let folder = class.join(&device).join("ports").join(&port).join(group);
                for name in names(&folder)?.into_iter().filter(|n| n != "lifespan") {
                    let mut prefix = String::new();
                    write!(
                        prefix,
                        "floor_{name}_total{{device=\"{device}\",port=\"{port}\"}} "
                    )?;
                    let file = File::open(folder.join(&name))?;
                    counters.push(Counter { prefix, file });
                }
            }
        }
    }
    Ok(counters)
}

fn names(folder: &Path) -> Result<Vec<String>> {
    let listing = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let names = listing.map(|e| Ok(e?.file_name().to_string_lossy().into_owned()));
    let mut names = names.collect::<Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

/// The page and the room to make it in, used again and again.
struct Page {
    counters: Vec<Counter>,
    compress: Compress,
    plain: Vec<u8>,
    answer: Vec<u8>,
}

impl Page {
    fn serve(&mut self, mut client: TcpStream) -> Result<()> {
        let (mut request, mut chunk) = (Vec::new(), [0; 4096]);
        loop {
            let n = client.read(&mut chunk)?;
            if n == 0 {
                return Ok(());
            }
            request.extend_from_slice(&chunk[..n]);
            if request.ends_with(b"\r\n\r\n") {
                let head = String::from_utf8_lossy(&request).to_ascii_lowercase();
                self.answer(head.contains("accept-encoding: gzip"))?;
                client.write_all(&self.answer)?;
                request.clear();
            }
        }
    }

    fn answer(&mut self, gzip: bool) -> Result<()> {
        self.plain.clear();
        let mut value = [0; 32];
        for counter in &self.counters {
            let n = counter.file.read_at(&mut value, 0)?;
            self.plain.extend_from_slice(counter.prefix.as_bytes());
            self.plain.extend_from_slice(&value[..n]);
        }
        // The length is written once it is known, into a field of fixed width.
        const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\n";
        self.answer.clear();
        self.answer.extend_from_slice(HEAD.as_bytes());
        if gzip {
            self.answer.extend_from_slice(b"Content-Encoding: gzip\r\n");
        }
        let length_at = self.answer.len() + "Content-Length: ".len();
        self.answer.extend_from_slice(b"Content-Length: 00000000\r\n\r\n");
        let body_at = self.answer.len();
        if gzip {
            self.gzip()?;
        } else {
            self.answer.extend_from_slice(&self.plain);
        }
        let length = format!("{:08}", self.answer.len() - body_at);
        self.answer[length_at..length_at + 8].copy_from_slice(length.as_bytes());
        Ok(())
    }

    /// RFC 1952 around a deflate whose memory is kept.
    fn gzip(&mut self) -> Result<()> {
        self.answer
            .extend_from_slice(&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff]);
        self.answer.reserve(self.plain.len() + 1024);
        self.compress.reset();
        self.compress
            .compress_vec(&self.plain, &mut self.answer, FlushCompress::Finish)?;
        let mut crc = Crc::new();
        crc.update(&self.plain);
        self.answer.extend_from_slice(&crc.sum().to_le_bytes());
        self.answer.extend_from_slice(&crc.amount().to_le_bytes());
        Ok(())
    }
}
