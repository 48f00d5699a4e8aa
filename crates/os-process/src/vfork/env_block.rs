//! The environment of a child: this process's own, read once, with some changes.

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr, OsString, c_char};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::ptr;
use std::sync::OnceLock;

/// This process's own variables: the name, and the whole `name=value`.
static INHERITED: OnceLock<Vec<(OsString, CString)>> = OnceLock::new();

/// Variables in the form that `execve` takes.
#[derive(Debug)]
pub(super) struct EnvBlock {
    changed: Vec<CString>,
    unchanged: Vec<&'static CString>,
    path: Option<OsString>,
}

impl EnvBlock {
    /// `Some` sets a variable, `None` removes it, and later entries win.
    pub(super) fn new(changes: &[(&OsStr, Option<&OsStr>)]) -> io::Result<Self> {
        let changes: BTreeMap<&OsStr, Option<&OsStr>> = changes.iter().copied().collect();
        let unchanged = inherited().iter().filter(|(name, _)| !changes.contains_key(name.as_os_str()));
        let set = changes.iter().filter_map(|(name, value)| Some((name, (*value)?)));
        let path = match changes.get(OsStr::new("PATH")) {
            Some(changed) => changed.map(OsStr::to_owned),
            None => std::env::var_os("PATH"),
        };
        Ok(EnvBlock {
            unchanged: unchanged.map(|(_, text)| text).collect(),
            changed: set.map(|(name, value)| variable(name, value)).collect::<io::Result<_>>()?,
            path,
        })
    }

    /// The child's PATH.
    pub(super) fn path(&self) -> Option<&OsStr> {
        self.path.as_deref()
    }

    /// The list that `execve` takes, with a null at the end. The pointers are valid while `self` lives.
    pub(super) fn pointers(&self) -> Vec<*const c_char> {
        let unchanged = self.unchanged.iter().map(|text| text.as_ptr());
        let changed = self.changed.iter().map(|text| text.as_ptr());
        unchanged.chain(changed).chain([ptr::null()]).collect()
    }
}

fn inherited() -> &'static [(OsString, CString)] {
    INHERITED.get_or_init(|| {
        let whole =
            |(name, value): (OsString, OsString)| variable(&name, &value).ok().map(|text| (name, text));
        std::env::vars_os().filter_map(whole).collect()
    })
}

fn variable(name: &OsStr, value: &OsStr) -> io::Result<CString> {
    super::c_string(&[name.as_bytes(), b"=", value.as_bytes()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set<'a>(name: &'a str, value: &'a str) -> (&'a OsStr, Option<&'a OsStr>) {
        (OsStr::new(name), Some(OsStr::new(value)))
    }

    #[test]
    fn changes_replace_and_remove_what_is_inherited() {
        let changes = [
            set("PATH", "/first"),
            set("NEW", "a=b"),
            set("PATH", "/second"),
            (OsStr::new("HOME"), None),
            set("NEW", "last"),
        ];
        let block = EnvBlock::new(&changes).unwrap();
        assert_eq!(block.path(), Some(OsStr::new("/second")));
        assert_eq!(block.changed, [c"NEW=last".to_owned(), c"PATH=/second".to_owned()]);
        let replaced =
            inherited().iter().filter(|(name, _)| name == "PATH" || name == "HOME" || name == "NEW").count();
        assert_eq!(block.unchanged.len(), inherited().len() - replaced);
        assert_eq!(block.pointers().len(), block.unchanged.len() + 3);
    }

    #[test]
    fn a_zero_byte_is_refused() {
        assert!(EnvBlock::new(&[set("A", "x\0y")]).is_err());
    }
}
