//! Identity of the peer of a Unix socket, and descriptors sent through sockets.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// Process at the other end of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Effective user of the process.
    pub uid: u32,
    /// Process id at the time of the connection, where the system reports it. Used only in
    /// messages.
    pub pid: Option<u32>,
}

impl Peer {
    /// Returns the process at the other end of a connected socket.
    #[cfg(target_os = "linux")]
    pub fn of(socket: impl AsFd) -> io::Result<Self> {
        let found = rustix::net::sockopt::socket_peercred(socket)?;
        let pid = u32::try_from(found.pid.as_raw_nonzero().get()).ok();
        Ok(Self { uid: found.uid.as_raw(), pid })
    }

    /// Returns the process at the other end of a connected socket. No test runs on these systems.
    #[cfg(not(target_os = "linux"))]
    pub fn of(socket: impl AsFd) -> io::Result<Self> {
        use std::os::fd::AsRawFd;
        let (mut uid, mut gid) = (0, 0);
        // SAFETY: the descriptor is open for as long as the borrow, and both places are valid.
        let answer =
            unsafe { libc::getpeereid(socket.as_fd().as_raw_fd(), &raw mut uid, &raw mut gid) };
        if answer == 0 { Ok(Self { uid, pid: None }) } else { Err(io::Error::last_os_error()) }
    }

    /// Returns whether the peer has this process's user. `root` is no exception.
    #[must_use]
    pub fn is_us(&self) -> bool {
        self.uid == rustix::process::geteuid().as_raw()
    }
}

/// Sends `bytes` with a descriptor attached to the first of them. Returns the number of bytes sent.
pub fn send_with_descriptor(
    socket: impl AsFd,
    bytes: &[u8],
    descriptor: BorrowedFd<'_>,
) -> io::Result<usize> {
    let descriptors = [descriptor];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // A closed peer is an error and not a signal.
    #[cfg(target_os = "linux")]
    let flags = SendFlags::NOSIGNAL;
    #[cfg(not(target_os = "linux"))]
    let flags = SendFlags::empty();
    Ok(sendmsg(socket, &[IoSlice::new(bytes)], &mut ancillary, flags)?)
}

/// Receives bytes, and the descriptor that came with them. Further descriptors are closed. Fails
/// with `EMFILE` if this process has no number left for the descriptor, which is then lost.
pub fn receive(socket: impl AsFd, bytes: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    #[cfg(target_os = "linux")]
    let flags = RecvFlags::CMSG_CLOEXEC;
    #[cfg(not(target_os = "linux"))]
    let flags = RecvFlags::empty();
    let received = recvmsg(socket, &mut [IoSliceMut::new(bytes)], &mut ancillary, flags)?;
    let mut first = None;
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            for descriptor in descriptors {
                #[cfg(not(target_os = "linux"))]
                rustix::io::fcntl_setfd(&descriptor, rustix::io::FdFlags::CLOEXEC)?;
                first.get_or_insert(descriptor);
            }
        }
    }
    // The system cuts the descriptor off silently.
    if first.is_none() && received.flags.contains(ReturnFlags::CTRUNC) {
        return Err(rustix::io::Errno::MFILE.into());
    }
    Ok((received.bytes, first))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn the_kernel_names_the_user_at_the_other_end() {
        let (here, _there) = UnixStream::pair().unwrap();
        let peer = Peer::of(&here).unwrap();
        assert!(peer.is_us());
        assert!(!Peer { uid: peer.uid.wrapping_add(1), ..peer }.is_us());
        if cfg!(target_os = "linux") {
            assert_eq!(peer.pid, Some(std::process::id()));
        }
    }

    #[test]
    fn a_descriptor_arrives_with_its_bytes_and_without_it_none_does() {
        let (mut here, there) = UnixStream::pair().unwrap();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"content").unwrap();
        assert_eq!(send_with_descriptor(&here, b"take it", file.as_fd()).unwrap(), 7);
        here.write_all(b"!").unwrap();
        let mut bytes = [0; 64];
        let (count, descriptor) = receive(&there, &mut bytes).unwrap();
        assert_eq!(&bytes[..count], b"take it");
        let mut arrived = std::fs::File::from(descriptor.unwrap());
        std::io::Seek::rewind(&mut arrived).unwrap();
        let mut text = String::new();
        arrived.read_to_string(&mut text).unwrap();
        assert_eq!(text, "content");
        let (count, descriptor) = receive(&there, &mut bytes).unwrap();
        assert!(count == 1 && descriptor.is_none());
    }
}
