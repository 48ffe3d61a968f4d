//! A stand-in for mmfsd, the daemon of GPFS: the socket that mmpmon uses.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result};

/// What it does with a request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Answer {
    /// Sends these lines between the begin and the end of a reply.
    Whole(String),
    /// Sends this text, then closes the connection.
    Part(String),
    /// Sends nothing, and keeps the connection open.
    Nothing,
}

#[derive(Debug)]
struct State {
    answer: Answer,
    /// Connections that wait for an answer.
    held: Vec<UnixStream>,
    is_over: bool,
}

/// The daemon. It ends when this is dropped, and its socket then refuses connections.
#[derive(Debug)]
pub struct Mmfsd {
    path: PathBuf,
    state: Arc<Mutex<State>>,
    thread: Option<JoinHandle<()>>,
}

impl Mmfsd {
    /// Starts one whose socket has this path.
    ///
    /// # Errors
    /// When the socket cannot be made.
    pub fn start(path: &Path, answer: Answer) -> Result<Self> {
        let _earlier = std::fs::remove_file(path);
        let listener = UnixListener::bind(path).with_context(|| path.display().to_string())?;
        let state = Arc::new(Mutex::new(State {
            answer,
            held: Vec::new(),
            is_over: false,
        }));
        let shared = Arc::clone(&state);
        let thread = thread::spawn(move || serve(&listener, &shared));
        Ok(Self {
            path: path.to_owned(),
            state,
            thread: Some(thread),
        })
    }

    /// Changes the answer to later requests.
    pub fn set(&self, answer: Answer) {
        lock(&self.state).answer = answer;
    }
}

impl Drop for Mmfsd {
    fn drop(&mut self) {
        lock(&self.state).is_over = true;
        // Ends its wait for a connection.
        let _wake = UnixStream::connect(&self.path);
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

fn lock(state: &Mutex<State>) -> std::sync::MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve(listener: &UnixListener, state: &Mutex<State>) {
    for stream in listener.incoming() {
        if lock(state).is_over {
            return;
        }
        // A client that has left costs nothing.
        if let Ok(stream) = stream {
            drop(answer(stream, state));
        }
    }
}

/// One request for each connection, as nodewarden sends it.
fn answer(stream: UnixStream, state: &Mutex<State>) -> Result<()> {
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line)?;
    let mut state = lock(state);
    match &state.answer {
        Answer::Whole(lines) => {
            let request = line.trim();
            (&stream)
                .write_all(format!("_response_ begin {request}\n{lines}\n_response_ end\n").as_bytes())?;
        }
        Answer::Part(text) => (&stream).write_all(text.as_bytes())?,
        Answer::Nothing => state.held.push(stream),
    }
    Ok(())
}
