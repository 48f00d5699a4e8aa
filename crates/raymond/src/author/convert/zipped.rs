//! Writing files into an archive.

use std::io::{Cursor, Write};

use zip::ZipWriter;
use zip::result::ZipError;
use zip::write::SimpleFileOptions;

use super::Files;
use crate::workflow::scope::unpack;

/// A flat archive of the files. The same files give the same bytes, so that archives can be compared.
pub fn zip(files: &Files) -> Result<Vec<u8>, String> {
    let bytes = write(files).map_err(|error| error.to_string())?;
    // Reading it back finds everything that an archive may not contain, with the same errors as loading it.
    match unpack(&bytes)? == *files {
        true => Ok(bytes),
        false => Err("the archive would not hold the same files".to_owned()),
    }
}

fn write(files: &Files) -> Result<Vec<u8>, ZipError> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in files {
        let options =
            SimpleFileOptions::default().last_modified_time(zip::DateTime::default()).unix_permissions(0o644);
        writer.start_file(name.as_str(), options)?;
        writer.write_all(bytes)?;
    }
    Ok(writer.finish()?.into_inner())
}
