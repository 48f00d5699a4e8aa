//! The token that every request has to know.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Seek, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::error::UserError;
use crate::files::{self, open_plain_as, private_options};
use crate::store::Own;

/// How long a token file may be.
const MAX_TOKEN_BYTES: u64 = 1024;

/// What a token is marked as.
const KIND: &str = "serve.token";

/// A secret text. Two of them are compared in constant time.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// The token in this file. A file that is not there is made, with a random token and for the owner only.
    pub fn keep(file: &Path) -> Result<Self, UserError> {
        let wrong = |what: &str, error: &dyn std::fmt::Display| {
            UserError::usage(format!("cannot {what} the token file {}: {error}", file.display()))
        };
        match make(file) {
            Ok(token) => return Ok(token),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(wrong("write", &error)),
        }
        let text = files::read_text(file, MAX_TOKEN_BYTES).map_err(|error| wrong("read", &error))?;
        let token = text.trim();
        let is_usable = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
        match is_usable {
            true => Ok(Self(token.to_owned())),
            false => Err(wrong("use", &"it must hold one line of letters, digits and signs")
                .hint("remove it to get a new token")),
        }
    }

    /// The token of a project, in a file that may have come with it. Only one that was made here is used; otherwise a new
    /// one takes its place. Its mark is in a file beside it, which is locked meanwhile: of servers that start at once, the
    /// first makes the token of all.
    pub fn keep_own(file: &Path, own: &Own) -> Result<Self, UserError> {
        let cannot = |error: io::Error| {
            UserError::usage(format!("cannot write the token file {}: {error}", file.display()))
        };
        if !own.is_strict() {
            return Self::keep(file);
        }
        let mut mark = locked_mark(file).map_err(cannot)?;
        if let Some(known) = own_token(file, &mark, own) {
            return Ok(known);
        }
        if fs::symlink_metadata(file).is_ok() {
            eprintln!(
                "warning: {} was made by an earlier version, in another folder or by another user, so there is a new token now",
                file.display()
            );
        }
        let token = random().map_err(cannot)?;
        let text = own.mark_for(KIND, &[token.0.as_bytes()]);
        let text = text.ok_or_else(|| cannot(io::Error::other("it cannot be marked")))?;
        files::replace_private(file, format!("{}\n", token.0).as_bytes()).map_err(cannot)?;
        let written = mark.set_len(0).and_then(|()| mark.rewind()).and_then(|()| writeln!(mark, "{text}"));
        written.map_err(cannot)?;
        Ok(token)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is the text that someone gave. It takes as long for a wrong text as for the right one.
    pub fn is(&self, given: &[u8]) -> bool {
        let (own, given) = (Sha256::digest(self.0.as_bytes()), Sha256::digest(given));
        own.iter().zip(given.iter()).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
    }
}

/// The file with the mark of a token, for this process alone until it is closed. A link or a pipe in its place, which this
/// user's Raymond has not made, is removed.
fn locked_mark(token: &Path) -> io::Result<File> {
    let path = mark_path(token);
    let open =
        || files::open_own_as(private_options().read(true).write(true).create(true).truncate(false), &path);
    let file = open().or_else(|_| fs::remove_file(&path).and_then(|()| open()))?;
    file.lock()?;
    Ok(file)
}

fn mark_path(token: &Path) -> PathBuf {
    let mut name = token.as_os_str().to_owned();
    name.push(".mark");
    name.into()
}

/// The token in a file, if it was made here: it fits the mark.
fn own_token(file: &Path, mark: &File, own: &Own) -> Option<Token> {
    let token = files::read_text(file, MAX_TOKEN_BYTES).ok()?;
    let mark = files::read_open(mark.try_clone().ok()?, MAX_TOKEN_BYTES).ok()?;
    let mark = String::from_utf8(mark).ok()?;
    own.fits(mark.trim(), KIND, &[token.trim().as_bytes()]).then(|| Token(token.trim().to_owned()))
}

/// Writes a new token to a file that is not there.
fn make(file: &Path) -> io::Result<Token> {
    let mut open = open_plain_as(private_options().write(true).create_new(true), file)?;
    let token = random()?;
    open.write_all(format!("{}\n", token.0).as_bytes())?;
    open.sync_all()?;
    Ok(token)
}

impl Token {
    /// One that no file keeps, for a server that never listens.
    pub fn passing() -> io::Result<Self> {
        random()
    }
}

/// 32 random bytes, as hexadecimal digits.
fn random() -> io::Result<Token> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(format!("no random numbers: {error}")))?;
    Ok(Token(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_made_once_and_used_again() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        let first = Token::keep(&file).unwrap();
        assert_eq!(first.as_str().len(), 64);
        assert_eq!(Token::keep(&file).unwrap().as_str(), first.as_str());
        assert!(first.is(first.as_str().as_bytes()));
        for wrong in [&b""[..], b"x", &first.as_str().as_bytes()[1..]] {
            assert!(!first.is(wrong));
        }
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        }
        std::fs::write(&file, "two words").unwrap();
        assert!(Token::keep(&file).err().unwrap().message.contains("one line"));
    }
}
