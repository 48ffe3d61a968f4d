//! Waits for several descriptors at once; another thread can wake the waiter.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};

/// An epoll instance that identifies descriptors by a number.
#[derive(Debug)]
pub struct Poll {
    epoll: Epoll,
    events: Vec<EpollEvent>,
}

impl Poll {
    /// # Errors
    /// When epoll_create1(2) fails.
    pub fn new() -> io::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        Ok(Self {
            epoll,
            events: vec![EpollEvent::empty(); 64],
        })
    }

    /// Watches a descriptor for input, including its end.
    ///
    /// # Errors
    /// When epoll_ctl(2) fails.
    pub fn add(&self, fd: impl AsFd, token: u64) -> io::Result<()> {
        Ok(self.epoll.add(
            fd,
            EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLRDHUP, token),
        )?)
    }

    /// Sets whether it is watched for room to write as well.
    ///
    /// # Errors
    /// When epoll_ctl(2) fails.
    pub fn want_write(&self, fd: impl AsFd, token: u64, wanted: bool) -> io::Result<()> {
        let mut flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLRDHUP;
        flags.set(EpollFlags::EPOLLOUT, wanted);
        Ok(self.epoll.modify(fd, &mut EpollEvent::new(flags, token))?)
    }

    /// Stops watching it.
    pub fn remove(&self, fd: impl AsFd) {
        // If its peer closed it, epoll has removed it already.
        crate::ignore(self.epoll.delete(fd));
    }

    /// Waits until a descriptor is ready or the time-out expires; returns the numbers of the ready ones.
    ///
    /// # Errors
    /// When epoll_wait(2) fails, except for a signal.
    pub fn wait(&mut self, timeout: Option<Duration>) -> io::Result<Vec<u64>> {
        let timeout = match timeout {
            // Rounded up, so that a deadline has passed when we wake for it.
            Some(t) => EpollTimeout::try_from(t + Duration::from_micros(999)).unwrap_or(EpollTimeout::MAX),
            None => EpollTimeout::NONE,
        };
        match self.epoll.wait(&mut self.events, timeout) {
            Ok(n) => Ok(self.events.iter().take(n).map(EpollEvent::data).collect()),
            Err(Errno::EINTR) => Ok(Vec::new()),
            Err(e) => Err(e.into()),
        }
    }
}

/// Waits for input, or for the end of it.
pub fn until_input(fd: impl AsFd) {
    let mut fds = [PollFd::new(fd.as_fd(), PollFlags::POLLIN)];
    while poll(&mut fds, PollTimeout::NONE) == Err(Errno::EINTR) {}
}

/// Wakes a [`Poll`] from another thread.
#[derive(Clone, Debug)]
pub struct Waker(Arc<EventFd>);

impl Waker {
    /// # Errors
    /// When eventfd(2) fails.
    pub fn new() -> io::Result<Self> {
        let fd = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        Ok(Self(Arc::new(fd)))
    }

    /// Never blocks: a full counter means that it is awake already.
    pub fn wake(&self) {
        crate::ignore(self.0.write(1));
    }

    /// Resets it after a wake-up.
    pub fn clear(&self) {
        crate::ignore(self.0.read());
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
