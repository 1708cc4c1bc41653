//! What the stages of a sandbox tell each other: frames with a length, and open files beside them.

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use std::ffi::{OsStr, OsString};
use std::io::{self, IoSlice, IoSliceMut, Read, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

/// The most open files that go with one frame.
pub(crate) const MAX_FILES: usize = 12;
/// The largest frame: a script, its environment, and room.
const MAX_FRAME: usize = 8 << 20;

/// Something that can be in a frame.
pub(crate) trait Wire: Sized {
    fn put(&self, frame: &mut Vec<u8>);
    fn take(frame: &mut &[u8]) -> Option<Self>;
}

/// Sends a value, with open files beside it.
pub(crate) fn send(
    socket: &UnixStream,
    value: &impl Wire,
    files: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let mut frame = vec![0; 4];
    value.put(&mut frame);
    let length = u32::try_from(frame.len() - 4).map_err(|_| io::ErrorKind::InvalidInput)?;
    if length as usize > MAX_FRAME || files.len() > MAX_FILES {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the frame is too large"));
    }
    if let Some(head) = frame.get_mut(..4) {
        head.copy_from_slice(&length.to_le_bytes());
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FILES))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() {
        beside.push(SendAncillaryMessage::ScmRights(files));
    }
    let sent = loop {
        match rustix::net::sendmsg(
            socket,
            &[IoSlice::new(&frame)],
            &mut beside,
            SendFlags::NOSIGNAL,
        ) {
            Err(rustix::io::Errno::INTR) => {}
            answer => break answer?,
        }
    };
    (&*socket).write_all(frame.get(sent..).unwrap_or_default())
}

/// Receives a value and the open files beside it; `None` when the other side is gone.
pub(crate) fn receive<T: Wire>(socket: &UnixStream) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    let mut head = [0; 4];
    let (count, files) = receive_head(socket, &mut head)?;
    if count == 0 {
        return Ok(None);
    }
    let mut reader = socket;
    reader.read_exact(head.get_mut(count..).unwrap_or_default())?;
    let length = u32::from_le_bytes(head) as usize;
    if length > MAX_FRAME {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the frame is too large"));
    }
    let mut frame = vec![0; length];
    reader.read_exact(&mut frame)?;
    let value = T::take(&mut frame.as_slice());
    let broken = || io::Error::new(io::ErrorKind::InvalidData, "the frame is not understood");
    Ok(Some((value.ok_or_else(broken)?, files)))
}

fn receive_head(socket: &UnixStream, head: &mut [u8; 4]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FILES))];
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    let received = loop {
        match rustix::net::recvmsg(socket.as_fd(), &mut [IoSliceMut::new(head)], &mut beside, flags)
        {
            Err(rustix::io::Errno::INTR) => {}
            answer => break answer?,
        }
    };
    let files = beside.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => Some(files),
        _ => None,
    });
    Ok((received.bytes, files.flatten().collect()))
}

impl Wire for u64 {
    fn put(&self, frame: &mut Vec<u8>) {
        frame.extend_from_slice(&self.to_le_bytes());
    }

    fn take(frame: &mut &[u8]) -> Option<Self> {
        let (head, rest) = frame.split_first_chunk()?;
        *frame = rest;
        Some(Self::from_le_bytes(*head))
    }
}

impl Wire for u32 {
    fn put(&self, frame: &mut Vec<u8>) {
        u64::from(*self).put(frame);
    }

    fn take(frame: &mut &[u8]) -> Option<Self> {
        Self::try_from(u64::take(frame)?).ok()
    }
}

impl Wire for OsString {
    fn put(&self, frame: &mut Vec<u8>) {
        (self.len() as u64).put(frame);
        frame.extend_from_slice(self.as_bytes());
    }

    fn take(frame: &mut &[u8]) -> Option<Self> {
        let length = usize::try_from(u64::take(frame)?).ok()?;
        let (bytes, rest) = frame.split_at_checked(length)?;
        *frame = rest;
        Some(Self::from_vec(bytes.to_vec()))
    }
}

impl Wire for PathBuf {
    fn put(&self, frame: &mut Vec<u8>) {
        self.as_os_str().to_owned().put(frame);
    }

    fn take(frame: &mut &[u8]) -> Option<Self> {
        OsString::take(frame).map(Self::from)
    }
}

impl Wire for String {
    fn put(&self, frame: &mut Vec<u8>) {
        OsStr::new(self).to_owned().put(frame);
    }

    fn take(frame: &mut &[u8]) -> Option<Self> {
        OsString::take(frame)?.into_string().ok()
    }
}

impl<T: Wire> Wire for Option<T> {
    fn put(&self, frame: &mut Vec<u8>) {
        u64::from(self.is_some()).put(frame);
        if let Some(value) = self {
            value.put(frame);
        }
    }

    fn take(frame: &mut &[u8]) -> Option<Self> {
        match u64::take(frame)? {
            0 => Some(None),
            1 => T::take(frame).map(Some),
            _ => None,
        }
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn put(&self, frame: &mut Vec<u8>) {
        (self.len() as u64).put(frame);
        self.iter().for_each(|item| item.put(frame));
    }

    fn take(frame: &mut &[u8]) -> Option<Self> {
        let length = u64::take(frame)?;
        (0..length).map(|_| T::take(frame)).collect()
    }
}

impl<A: Wire, B: Wire> Wire for (A, B) {
    fn put(&self, frame: &mut Vec<u8>) {
        self.0.put(frame);
        self.1.put(frame);
    }

    fn take(frame: &mut &[u8]) -> Option<Self> {
        Some((A::take(frame)?, B::take(frame)?))
    }
}
