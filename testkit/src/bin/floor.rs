//! The least that serving a tree of counters can cost: `floor ROOT` serves every counter file of
//! `ROOT/sys/class/infiniband` as one page, on a port that it prints.
//!
//! One thread, descriptors that stay open, pread, prepared text, one write. It has no timeouts, no limits and no
//! checks, and one client at a time: a yardstick for benchmarks, not an exporter.
//!
//! `floor --design PAGE ROOT` is the least that nodewarden's design can cost. A process of its own reads, on another thread than
//! that at its socket, and sends parsed numbers: one byte asks, one frame answers. It also reads what checks need of each port. A core
//! thread asks it for the thread that serves. Both processes have a system call filter. The page has the text of the file PAGE, one of
//! nodewarden's, with the numbers of the counters in place of its own.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use anyhow::{Context, Result, bail, ensure};
use flate2::{Compress, Compression, Crc, FlushCompress};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

/// What asks the other process for its numbers.
const ASK: [u8; 1] = *b"?";

const USAGE: &str = "usage: floor [--design PAGE] ROOT";

struct Counter {
    prefix: String,
    file: File,
}

/// Where the values come from.
enum Source {
    Files(Vec<File>),
    /// The core thread gets a frame to fill, and gives it back.
    Core {
        ask: Sender<Vec<u8>>,
        given: Receiver<Vec<u8>>,
        frame: Vec<u8>,
    },
}

/// The text around the numbers.
struct Text {
    /// Before each number, with the end of the line before.
    prefixes: Vec<String>,
    /// Behind the last one.
    rest: String,
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let class = |root: &str| Path::new(root).join("sys/class/infiniband");
    let opened = |root: &str| open(&class(root));
    match args[..] {
        ["--reader", root] => {
            let counters = opened(root)?.into_iter().map(|c| c.file).collect();
            read(counters, facts(&class(root))?)
        }
        ["--design", page, root] => {
            let count = opened(root)?.len();
            let page = std::fs::read_to_string(page).with_context(|| page.to_owned())?;
            let text = around(&page, count)?;
            let (ours, theirs) = UnixStream::pair()?;
            let reader = Command::new(std::env::current_exe()?)
                .args(["--reader", root])
                .stdin(Stdio::from(OwnedFd::from(theirs)))
                .spawn()?;
            // It ends with our end of the socket.
            drop(reader);
            filter()?;
            let ((ask, asked), (give, given)) = (channel(), channel());
            thread::spawn(move || relay(ours, &asked, &give));
            let frame = vec![0; count * size_of::<u64>()];
            serve(text, Source::Core { ask, given, frame })
        }
        [root] => {
            let counters = opened(root)?.into_iter().map(|c| (c.prefix, c.file));
            let (prefixes, files) = counters.unzip();
            let rest = String::new();
            serve(Text { prefixes, rest }, Source::Files(files))
        }
        _ => bail!(USAGE),
    }
}

/// The text of a page around the numbers of its counters.
fn around(page: &str, count: usize) -> Result<Text> {
    let (mut prefixes, mut rest) = (Vec::new(), String::new());
    for line in page.lines() {
        let number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        match line.rsplit_once(' ') {
            Some((series, value)) if is_counter(series) && number(value) => {
                rest.push_str(series);
                rest.push(' ');
                prefixes.push(std::mem::take(&mut rest));
            }
            _ => {
                rest.push_str(line);
                rest.push('\n');
            }
        }
    }
    let found = prefixes.len();
    ensure!(found == count, "{found} counters on the page, expected {count}");
    Ok(Text { prefixes, rest })
}

/// Whether a line of a page up to its value is that of a counter of a port.
fn is_counter(series: &str) -> bool {
    let name = series.split_once('{').map(|(name, _)| name);
    name.is_some_and(|name| name.starts_with("rdma_") && name.ends_with("_total"))
}

/// The core thread: asks the process that reads, for the thread that serves.
fn relay(mut stream: UnixStream, asked: &Receiver<Vec<u8>>, give: &Sender<Vec<u8>>) -> Result<()> {
    for mut frame in asked {
        stream.write_all(&ASK)?;
        stream.read_exact(&mut frame)?;
        give.send(frame)?;
    }
    Ok(())
}

/// The process that reads: answers each byte of its standard input by the numbers of all files.
fn read(counters: Vec<File>, facts: Vec<File>) -> Result<()> {
    filter()?;
    let mut stream = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    let answers = stream.try_clone()?;
    let (ask, asked) = channel();
    thread::spawn(move || numbers(&counters, &facts, &asked, answers));
    let mut question = ASK;
    while stream.read(&mut question)? > 0 {
        ask.send(())?;
    }
    Ok(())
}

/// Its thread that reads.
fn numbers(counters: &[File], facts: &[File], asked: &Receiver<()>, mut answers: UnixStream) -> Result<()> {
    let (mut text, mut frame) = ([0; 32], Vec::new());
    for () in asked {
        frame.clear();
        for file in facts {
            file.read_at(&mut text, 0)?;
        }
        for file in counters {
            let n = file.read_at(&mut text, 0)?;
            let digits = text[..n].iter().take_while(|b| b.is_ascii_digit());
            let number = digits.fold(0_u64, |n, b| n.wrapping_mul(10).wrapping_add(u64::from(b - b'0')));
            frame.extend_from_slice(&number.to_le_bytes());
        }
        answers.write_all(&frame)?;
    }
    Ok(())
}

fn serve(text: Text, source: Source) -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    println!(
        "serving {} counters on {}",
        text.prefixes.len(),
        listener.local_addr()?
    );
    let mut page = Page {
        text,
        source,
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

/// What a reading needs of each port besides its counters.
fn facts(class: &Path) -> Result<Vec<File>> {
    let mut files = Vec::new();
    for device in names(class)? {
        let ports = class.join(&device).join("ports");
        for port in names(&ports)? {
            for name in ["state", "phys_state", "rate"] {
                files.push(File::open(ports.join(&port).join(name))?);
            }
        }
    }
    Ok(files)
}

/// Has the kernel filter the calls of this process. Every call is allowed: the kernel knows that without running the filter, as it does
/// of the calls that nodewarden's filters always allow.
fn filter() -> Result<()> {
    let arch = std::env::consts::ARCH.try_into()?;
    let all = SeccompFilter::new(
        BTreeMap::new(),
        SeccompAction::Allow,
        SeccompAction::KillProcess,
        arch,
    )?;
    let program: BpfProgram = all.try_into()?;
    Ok(seccompiler::apply_filter(&program)?)
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
    text: Text,
    source: Source,
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
        match &mut self.source {
            Source::Files(files) => {
                let mut value = [0; 32];
                for (prefix, file) in self.text.prefixes.iter().zip(files) {
                    let n = file.read_at(&mut value, 0)?;
                    self.plain.extend_from_slice(prefix.as_bytes());
                    self.plain.extend_from_slice(&value[..n]);
                }
            }
            Source::Core { ask, given, frame } => {
                ask.send(std::mem::take(frame))?;
                *frame = given.recv()?;
                let (numbers, _) = frame.as_chunks();
                for (prefix, number) in self.text.prefixes.iter().zip(numbers) {
                    self.plain.extend_from_slice(prefix.as_bytes());
                    writeln!(self.plain, "{}", u64::from_le_bytes(*number))?;
                }
            }
        }
        self.plain.extend_from_slice(self.text.rest.as_bytes());
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
