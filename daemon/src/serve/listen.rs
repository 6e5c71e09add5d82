//! The daemon's socket, private to its user. Replaces the socket of a killed daemon.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::error::ServeError;

/// Connections that the kernel queues.
const BACKLOG: i32 = 128;
/// Maximum bytes of a socket's path: the size of the field less the final zero.
const MAX_PATH_BYTES: usize = if cfg!(target_os = "linux") { 107 } else { 103 };

/// A listening socket; dropping it removes its path.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) socket: UnixListener,
    path: PathBuf,
}

impl Listener {
    /// Listens on `path`. The caller has the daemon's lock, so a socket that does not answer is a
    /// dead daemon's.
    pub(crate) fn bind(path: &Path) -> Result<Self, ServeError> {
        check_length(path)?;
        make_way(path)?;
        let failed = |operation| {
            move |source: rustix::io::Errno| ServeError::Socket {
                operation,
                path: path.to_owned(),
                source: source.into(),
            }
        };
        let address = SocketAddrUnix::new(path).map_err(failed("name"))?;
        #[cfg(target_os = "linux")]
        let flags = SocketFlags::CLOEXEC;
        #[cfg(not(target_os = "linux"))]
        let flags = SocketFlags::empty();
        let family = AddressFamily::UNIX;
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)
            .map_err(failed("make"))?;
        #[cfg(not(target_os = "linux"))]
        rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC).map_err(failed("make"))?;
        rustix::net::bind(&socket, &address).map_err(failed("bind"))?;
        // Sets the mode before clients can connect: a bound socket refuses until it listens.
        let private = fs::set_permissions(path, fs::Permissions::from_mode(0o600))
            .map_err(|source| ServeError::Socket {
                operation: "close off",
                path: path.to_owned(),
                source,
            })
            .and_then(|()| rustix::net::listen(&socket, BACKLOG).map_err(failed("listen on")));
        if let Err(error) = private {
            let _ = fs::remove_file(path);
            return Err(error);
        }
        Ok(Self { socket: socket.into(), path: path.to_owned() })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn check_length(path: &Path) -> Result<(), ServeError> {
    let bytes = path.as_os_str().len();
    if bytes > MAX_PATH_BYTES {
        return Err(ServeError::LongPath { path: path.to_owned(), bytes, limit: MAX_PATH_BYTES });
    }
    Ok(())
}

/// Removes a socket that does not answer. Refuses to remove anything else.
fn make_way(path: &Path) -> Result<(), ServeError> {
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found.map_err(|source| ServeError::Socket {
            operation: "look at",
            path: path.to_owned(),
            source,
        })?,
    };
    if !found.file_type().is_socket() {
        return Err(ServeError::NotASocket { path: path.to_owned() });
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path)
            .map_err(|source| ServeError::Socket {
                operation: "remove stale",
                path: path.to_owned(),
                source,
            }),
        Err(source) => Err(ServeError::Socket { operation: "try", path: path.to_owned(), source }),
        Ok(_) => Err(ServeError::SocketTaken { path: path.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_socket_is_taken_over_and_a_live_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sock");
        drop(UnixListener::bind(&path).unwrap()); // leaves its file, as a killed process does
        let first = Listener::bind(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(matches!(Listener::bind(&path), Err(ServeError::SocketTaken { .. })));
        UnixStream::connect(&path).unwrap();
        drop(first);
        assert!(!path.exists());
    }

    #[test]
    fn other_files_than_sockets_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sock");
        fs::write(&path, "dear").unwrap();
        assert!(matches!(Listener::bind(&path), Err(ServeError::NotASocket { .. })));
        assert_eq!(fs::read_to_string(&path).unwrap(), "dear");
    }

    #[test]
    fn a_path_that_no_socket_can_have_is_refused_with_the_limit() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x".repeat(200));
        let error = Listener::bind(&path).unwrap_err().to_string();
        assert!(
            error.contains(&MAX_PATH_BYTES.to_string()) && error.contains("--socket"),
            "{error}"
        );
        let room = MAX_PATH_BYTES - dir.path().as_os_str().len() - 1;
        Listener::bind(&dir.path().join("x".repeat(room))).unwrap();
    }
}
