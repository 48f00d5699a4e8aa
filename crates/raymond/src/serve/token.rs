//! The token that every request has to know.

use std::io::{self, ErrorKind, Write};
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::error::UserError;
use crate::files::{self, open_plain_as, private_options};
use crate::store::Own;

/// How long a token file may be.
const MAX_TOKEN_BYTES: u64 = 1024;

/// How many digits of a project's token are random; as many are its mark.
const HALF: usize = 32;

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
    /// one takes its place.
    ///
    /// Half of such a token is random and the other half its mark, so that no second file is needed.
    pub fn keep_own(file: &Path, own: &Own) -> Result<Self, UserError> {
        let cannot = |error: io::Error| {
            UserError::usage(format!("cannot write the token file {}: {error}", file.display()))
        };
        if !own.is_strict() {
            return Self::keep(file);
        }
        let token = marked(&random().map_err(cannot)?.0, own);
        let token = token.ok_or_else(|| cannot(io::Error::other("it cannot be marked")))?;
        if let Some(known) = own_token(file, own) {
            return Ok(known);
        }
        let is_there = std::fs::symlink_metadata(file).is_ok();
        if is_there {
            eprintln!(
                "warning: {} was made by an earlier version, in another folder or by somebody else, so there is a new token now",
                file.display()
            );
            files::replace_private(file, format!("{}\n", token.0).as_bytes()).map_err(cannot)?;
        } else {
            write_first(file, &token).map_err(cannot)?;
        }
        // Of servers that start at once, the first has written it.
        Ok(own_token(file, own).unwrap_or(token))
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

/// A token with its mark: the second half is made from the first. None where nothing is marked.
fn marked(random: &str, own: &Own) -> Option<Token> {
    let first = random.get(..HALF)?;
    let mark = own.mark_for("serve.token", &[first.as_bytes()]).filter(|_| own.is_strict())?;
    Some(Token(format!("{first}{}", mark.get(..HALF)?)))
}

/// The token in a file, if it was made here.
fn own_token(file: &Path, own: &Own) -> Option<Token> {
    let text = files::read_text(file, MAX_TOKEN_BYTES).ok()?;
    let right = marked(text.trim(), own)?;
    right.is(text.trim().as_bytes()).then_some(right)
}

/// Puts a token into a file that is not there, as a whole. If another process was first, its token stays.
fn write_first(file: &Path, token: &Token) -> io::Result<()> {
    let unfinished = file.with_file_name(format!(".serve.token.{}.tmp", uuid::Uuid::new_v4().simple()));
    files::write_private(&unfinished, format!("{}\n", token.0).as_bytes())?;
    let linked = files::name_first(&unfinished, file);
    let _ = std::fs::remove_file(&unfinished);
    match linked {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
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
