//! The environment of a step's program on Linux: Raymond's own, which is read once because Raymond never changes it,
//! with the step's changes.

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr, OsString, c_char};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::ptr;
use std::sync::OnceLock;

/// Raymond's own variables: the name, and the whole `name=value`.
static OWN: OnceLock<Vec<(OsString, CString)>> = OnceLock::new();

/// Variables as a program is given them.
pub(super) struct Environment {
    changed: Vec<CString>,
    inherited: Vec<*const c_char>,
    path: Option<OsString>,
}

impl Environment {
    /// `Some` sets a variable and `None` removes it; what comes later wins.
    pub(super) fn with(changes: &[(OsString, Option<OsString>)], last: (&str, &str)) -> io::Result<Self> {
        let given = changes.iter().map(|(name, value)| (name.as_os_str(), value.as_deref()));
        let last = (OsStr::new(last.0), Some(OsStr::new(last.1)));
        let changes: BTreeMap<&OsStr, Option<&OsStr>> = given.chain([last]).collect();
        let kept = own().iter().filter(|(name, _)| !changes.contains_key(name.as_os_str()));
        let set = changes.iter().filter_map(|(name, value)| Some((name, (*value)?)));
        let path = match changes.get(OsStr::new("PATH")) {
            Some(changed) => changed.map(OsStr::to_owned),
            None => std::env::var_os("PATH"),
        };
        Ok(Environment {
            inherited: kept.map(|(_, text)| text.as_ptr()).collect(),
            changed: set.map(|(name, value)| variable(name, value)).collect::<io::Result<_>>()?,
            path,
        })
    }

    /// Where programs are looked for.
    pub(super) fn path(&self) -> Option<&OsStr> {
        self.path.as_deref()
    }

    /// As system calls want them, with a null at the end. They point into this, and into what is never freed.
    pub(super) fn pointers(&self) -> Vec<*const c_char> {
        let changed = self.changed.iter().map(|text| text.as_ptr());
        self.inherited.iter().copied().chain(changed).chain([ptr::null()]).collect()
    }
}

fn own() -> &'static [(OsString, CString)] {
    OWN.get_or_init(|| {
        let whole =
            |(name, value): (OsString, OsString)| variable(&name, &value).ok().map(|text| (name, text));
        std::env::vars_os().filter_map(whole).collect()
    })
}

fn variable(name: &OsStr, value: &OsStr) -> io::Result<CString> {
    super::vfork::c_string(&[name.as_bytes(), b"=", value.as_bytes()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_replace_and_remove_what_is_inherited() {
        let set = |name: &str, value: &str| (name.into(), Some(value.into()));
        let changes =
            [set("PATH", "/first"), set("NEW", "a=b"), set("PATH", "/second"), ("HOME".into(), None)];
        let environment = Environment::with(&changes, ("NEW", "last")).unwrap();
        assert_eq!(environment.path(), Some(OsStr::new("/second")));
        assert_eq!(environment.changed, [c"NEW=last".to_owned(), c"PATH=/second".to_owned()]);
        let replaced =
            own().iter().filter(|(name, _)| name == "PATH" || name == "HOME" || name == "NEW").count();
        assert_eq!(environment.inherited.len(), own().len() - replaced);
        assert_eq!(environment.pointers().len(), environment.inherited.len() + 3);
    }

    #[test]
    fn a_zero_byte_is_refused() {
        assert!(Environment::with(&[("A".into(), Some("x\0y".into()))], ("B", "")).is_err());
    }
}
