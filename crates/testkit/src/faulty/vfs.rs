//! The shim itself: C entry points between SQLite and its unix VFS.
//!
//! Each open file is a [`ShimFile`] followed in the same allocation, which SQLite makes, by the file of the unix VFS.
//! Entry points come in two sorts: those of [`forward!`] only pass the call on; the others first ask whether the call
//! must fail and afterwards record what it changed. This is the one module of the project with `unsafe` code.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::ffi;
use rusqlite::ffi::{sqlite3_file, sqlite3_vfs};

use super::fault::{Fault, FaultError, Faults, OpKind};
use super::record::{Action, Recorder, SyncReach, WatchedPath};

/// A VFS registered with SQLite that records changes and injects faults below one watched directory.
///
/// Open connections through it with `Connection::open_with_flags_and_vfs(path, flags, vfs.name())`.
pub struct FaultyVfs {
    name: String,
    recorder: Arc<Recorder>,
    faults: Faults,
    swallows_syncs: AtomicBool,
    real: RealVfs,
}

#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    #[error("a VFS named `{0}` is registered already")]
    NameTaken(String),
    #[error("`{0:?}` contains a zero byte and cannot name a VFS")]
    ZeroInName(String),
    #[error("SQLite has no default VFS to pass calls on to")]
    NoDefault,
    #[error("SQLite refused the VFS `{name}` with code {code}")]
    Refused { name: String, code: c_int },
}

/// The unix VFS. SQLite never frees or moves it.
#[derive(Clone, Copy)]
struct RealVfs(*mut sqlite3_vfs);

// SAFETY: the unix VFS is a static of SQLite that is written only while being registered, and its methods may be
// called from any thread.
unsafe impl Send for RealVfs {}
// SAFETY: as above.
unsafe impl Sync for RealVfs {}

impl FaultyVfs {
    /// Registers a shim over the default VFS. It stays registered for the life of the process, so that no connection
    /// can outlive it; use [`FaultyVfs::watch`] to use one shim for many runs.
    pub fn register(name: &str) -> Result<Arc<Self>, RegisterError> {
        let c_name = CString::new(name).map_err(|_| RegisterError::ZeroInName(name.to_owned()))?;
        // SAFETY: the name is a C string; a null name asks for the default VFS.
        let (taken, real) =
            unsafe { (ffi::sqlite3_vfs_find(c_name.as_ptr()), ffi::sqlite3_vfs_find(std::ptr::null())) };
        if !taken.is_null() {
            return Err(RegisterError::NameTaken(name.to_owned()));
        }
        if real.is_null() {
            return Err(RegisterError::NoDefault);
        }
        let real = RealVfs(real);
        let shim = Arc::new(Self {
            name: name.to_owned(),
            recorder: Arc::default(),
            faults: Faults::default(),
            swallows_syncs: AtomicBool::new(false),
            real,
        });
        match register_table(&shim, c_name) {
            ffi::SQLITE_OK => Ok(shim),
            code => Err(RegisterError::Refused { name: name.to_owned(), code }),
        }
    }

    /// The name to open connections with.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Starts anew with the present contents of `directory`: nothing recorded, nothing armed. Files that are still
    /// open from before are passed through unrecorded.
    pub fn watch(&self, directory: &Path) -> io::Result<()> {
        self.faults.clear();
        self.recorder.watch(directory)
    }

    pub fn recorder(&self) -> &Arc<Recorder> {
        &self.recorder
    }

    /// Arms a fault, in addition to those that are armed already.
    pub fn fail(&self, fault: Fault) {
        self.faults.arm(fault);
    }

    /// Disarms all faults and forgets how many calls they failed.
    pub fn clear_faults(&self) {
        self.faults.clear();
    }

    /// How many calls have failed by injection; a loop over `nth` ends with the first run in which this stays 0.
    pub fn tripped(&self) -> u64 {
        self.faults.tripped()
    }

    /// Makes the disk lie: from now on a sync answers that it is done, and makes nothing durable.
    pub fn swallow_syncs(&self) {
        self.swallows_syncs.store(true, Ordering::SeqCst);
    }

    /// Lets code that uses plain files share the armed faults: counts one call, and fails if it is due to.
    pub fn check(&self, op: OpKind, path: &Path) -> io::Result<()> {
        self.faults.trip(op, path).map_or(Ok(()), |error| Err(error.into()))
    }
}

fn register_table(shim: &Arc<FaultyVfs>, name: CString) -> c_int {
    // SAFETY: `real` points to the unix VFS. Name, shim and table are leaked, so the pointers in the table stay valid
    // for the life of the process. Of the methods taken over with the copy none reads `pAppData`, which alone would
    // betray that they are called on another VFS; `xOpen`, which does, is replaced.
    unsafe {
        let mut table = *shim.real.0;
        table.szOsFile += size_of::<ShimFile>() as c_int;
        table.pNext = std::ptr::null_mut();
        table.zName = name.into_raw();
        table.pAppData = Arc::into_raw(Arc::clone(shim)).cast_mut().cast();
        table.xOpen = Some(open);
        table.xDelete = Some(delete);
        ffi::sqlite3_vfs_register(Box::into_raw(Box::new(table)), 0)
    }
}

#[repr(C)]
struct ShimFile {
    base: sqlite3_file,
    state: *mut FileState,
}

struct FileState {
    shim: Arc<FaultyVfs>,
    /// Absent for files outside the watched directory and for temporary ones.
    watched: Option<WatchedPath>,
    /// The unix VFS will sync the directory together with the file, once.
    syncs_directory: AtomicBool,
}

/// # Safety
/// `vfs` is a table made by `register_table`.
unsafe fn shim_of(vfs: *mut sqlite3_vfs) -> Arc<FaultyVfs> {
    // SAFETY: `pAppData` is a leaked `Arc<FaultyVfs>`; the count is raised for the one returned.
    unsafe {
        let shim = (*vfs).pAppData.cast::<FaultyVfs>().cast_const();
        Arc::increment_strong_count(shim);
        Arc::from_raw(shim)
    }
}

/// # Safety
/// `file` was allocated by SQLite for a VFS made by `register_table`.
unsafe fn real_file(file: *mut sqlite3_file) -> *mut sqlite3_file {
    // SAFETY: `szOsFile` has room for both, and the size of `ShimFile` is a multiple of the alignment of pointers.
    unsafe { file.cast::<ShimFile>().add(1).cast() }
}

/// # Safety
/// `file` was opened by `open`, is not closed, and the result is not used after it is.
unsafe fn state_of<'a>(file: *mut sqlite3_file) -> &'a FileState {
    // SAFETY: `open` stored a leaked box, which `close` alone takes back.
    unsafe { &*(*file.cast::<ShimFile>()).state }
}

/// Calls a method of the file below, or gives `$missing` if the VFS below lacks it.
macro_rules! call_real {
    ($file:expr, $method:ident, ($($arg:expr),*), $missing:expr) => {{
        // SAFETY: SQLite calls methods only on files that `open` opened, whose lower half the unix VFS has opened;
        // the arguments are SQLite's own.
        unsafe {
            let real = real_file($file);
            match (*(*real).pMethods).$method {
                Some(method) => method(real $(, $arg)*),
                None => $missing,
            }
        }
    }};
}

macro_rules! forward {
    ($($name:ident => $method:ident($($arg:ident: $type:ty),*), or $missing:expr;)*) => {
        $(unsafe extern "C" fn $name(file: *mut sqlite3_file $(, $arg: $type)*) -> c_int {
            call_real!(file, $method, ($($arg),*), $missing)
        })*
    };
}

forward! {
    file_size => xFileSize(size: *mut i64), or ffi::SQLITE_IOERR_FSTAT;
    lock => xLock(level: c_int), or ffi::SQLITE_IOERR_LOCK;
    unlock => xUnlock(level: c_int), or ffi::SQLITE_IOERR_UNLOCK;
    check_reserved_lock => xCheckReservedLock(held: *mut c_int), or ffi::SQLITE_IOERR_CHECKRESERVEDLOCK;
    sector_size => xSectorSize(), or 4096;
    device_characteristics => xDeviceCharacteristics(), or 0;
    shm_map => xShmMap(page: c_int, bytes: c_int, extend: c_int, at: *mut *mut c_void), or ffi::SQLITE_IOERR_SHMMAP;
    shm_lock => xShmLock(offset: c_int, count: c_int, flags: c_int), or ffi::SQLITE_IOERR_SHMLOCK;
    shm_unmap => xShmUnmap(delete: c_int), or ffi::SQLITE_OK;
    fetch => xFetch(offset: i64, bytes: c_int, at: *mut *mut c_void), or ffi::SQLITE_IOERR_MMAP;
    unfetch => xUnfetch(offset: i64, at: *mut c_void), or ffi::SQLITE_OK;
}

unsafe extern "C" fn shm_barrier(file: *mut sqlite3_file) {
    call_real!(file, xShmBarrier, (), ());
}

static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 3,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: Some(fetch),
    xUnfetch: Some(unfetch),
};

unsafe extern "C" fn open(
    vfs: *mut sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: SQLite passes the table that it was given, and a name that is null or a C string. While `pMethods` is
    // null it does not touch the file again.
    let (shim, path) = unsafe {
        (*file).pMethods = std::ptr::null();
        (shim_of(vfs), path_of(name))
    };
    let watched = path.filter(|_| flags & PERSISTENT != 0).and_then(|path| shim.recorder.watched(path));
    // SAFETY: the lower half of the allocation is the unix VFS's to fill, called with its own table.
    let open_real = || unsafe { open_lower(shim.real, name, real_file(file), flags, out_flags) };
    let code = match (&watched, path) {
        (Some(watched), Some(path)) => open_watched(&shim, watched, path, open_real),
        _ => open_real(),
    };
    if code == ffi::SQLITE_OK {
        let state = Box::into_raw(Box::new(FileState {
            shim,
            watched,
            syncs_directory: AtomicBool::new(syncs_directory(flags)),
        }));
        // SAFETY: the upper half is ours; `close` takes the box back.
        unsafe {
            (*file.cast::<ShimFile>()).state = state;
            (*file).pMethods = &METHODS;
        }
    }
    code
}

const JOURNAL: c_int = ffi::SQLITE_OPEN_MAIN_JOURNAL | ffi::SQLITE_OPEN_SUPER_JOURNAL | ffi::SQLITE_OPEN_WAL;
/// Temporary files are gone after a crash and their loss means nothing.
const PERSISTENT: c_int = ffi::SQLITE_OPEN_MAIN_DB | JOURNAL;

/// The rule of the unix VFS (`isNewJrnl`), which asks whether the file may be created, not whether it was.
fn syncs_directory(flags: c_int) -> bool {
    flags & ffi::SQLITE_OPEN_CREATE != 0 && flags & JOURNAL != 0
}

fn open_watched(shim: &FaultyVfs, watched: &WatchedPath, path: &Path, open_real: impl FnOnce() -> c_int) -> c_int {
    shim.recorder.perform(watched, || {
        if shim.faults.trip(OpKind::Open, &watched.path).is_some() {
            return (ffi::SQLITE_CANTOPEN, None);
        }
        let existed = path.exists();
        let code = open_real();
        let created = code == ffi::SQLITE_OK && !existed;
        (code, created.then(|| Action::Create { path: watched.path.clone() }))
    })
}

/// # Safety
/// As for `xOpen` of the unix VFS, of which `real` is the table.
unsafe fn open_lower(
    real: RealVfs,
    name: ffi::sqlite3_filename,
    file: *mut sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: by contract. The memory may hold leftovers, so `pMethods` is cleared to learn whether the file below
    // wants closing although opening it failed.
    unsafe {
        (*file).pMethods = std::ptr::null();
        let Some(open) = (*real.0).xOpen else { return ffi::SQLITE_CANTOPEN };
        let code = open(real.0, name, file, flags, out_flags);
        if code != ffi::SQLITE_OK && !(*file).pMethods.is_null() {
            (*(*file).pMethods).xClose.map(|close| close(file));
        }
        code
    }
}

unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    let code = call_real!(file, xClose, (), ffi::SQLITE_OK);
    // SAFETY: `open` leaked this box, and SQLite closes a file once and then forgets it.
    drop(unsafe { Box::from_raw((*file.cast::<ShimFile>()).state) });
    code
}

unsafe extern "C" fn delete(vfs: *mut sqlite3_vfs, name: *const c_char, sync_dir: c_int) -> c_int {
    // SAFETY: SQLite passes the table that it was given, and a name that is null or a C string.
    let (shim, path) = unsafe { (shim_of(vfs), path_of(name)) };
    let delete_real = || {
        // SAFETY: the unix VFS is called with its own table.
        unsafe { (*shim.real.0).xDelete.map_or(ffi::SQLITE_IOERR_DELETE, |delete| delete(shim.real.0, name, sync_dir)) }
    };
    let Some(watched) = path.and_then(|path| shim.recorder.watched(path)) else { return delete_real() };
    shim.recorder.perform(&watched, || {
        if shim.faults.trip(OpKind::Delete, &watched.path).is_some() {
            return (ffi::SQLITE_IOERR_DELETE, None);
        }
        let code = delete_real();
        let done = Action::Delete { path: watched.path.clone(), directory_synced: sync_dir != 0 };
        (code, (code == ffi::SQLITE_OK).then_some(done))
    })
}

unsafe extern "C" fn read(file: *mut sqlite3_file, buffer: *mut c_void, amount: c_int, offset: i64) -> c_int {
    // SAFETY: the file is open.
    let FileState { shim, watched, .. } = unsafe { state_of(file) };
    let fault = watched.as_ref().and_then(|watched| shim.faults.trip(OpKind::Read, &watched.path));
    if fault.is_some() {
        return ffi::SQLITE_IOERR_READ;
    }
    call_real!(file, xRead, (buffer, amount, offset), ffi::SQLITE_IOERR_READ)
}

unsafe extern "C" fn write(file: *mut sqlite3_file, buffer: *const c_void, amount: c_int, offset: i64) -> c_int {
    // SAFETY: the file is open.
    let FileState { shim, watched, .. } = unsafe { state_of(file) };
    let write_real = |length| call_real!(file, xWrite, (buffer, length, offset), ffi::SQLITE_IOERR_WRITE);
    let Some(watched) = watched else { return write_real(amount) };
    shim.recorder.perform(watched, || {
        let (length, verdict) = match shim.faults.trip(OpKind::Write, &watched.path) {
            None => (amount, ffi::SQLITE_OK),
            Some(FaultError::ShortWrite) if amount > 1 => (amount / 2, ffi::SQLITE_FULL),
            Some(FaultError::ShortWrite | FaultError::Enospc) => return (ffi::SQLITE_FULL, None),
            Some(FaultError::Eio) => return (ffi::SQLITE_IOERR_WRITE, None),
        };
        let code = write_real(length);
        if code != ffi::SQLITE_OK {
            return (code, None);
        }
        // SAFETY: SQLite gives a buffer of `amount` bytes, and `length` is not more.
        let bytes = unsafe { std::slice::from_raw_parts(buffer.cast::<u8>(), length as usize) };
        let done = Action::Write { path: watched.path.clone(), offset: offset as u64, bytes: bytes.into() };
        (verdict, Some(done))
    })
}

unsafe extern "C" fn truncate(file: *mut sqlite3_file, size: i64) -> c_int {
    // SAFETY: the file is open.
    let FileState { shim, watched, .. } = unsafe { state_of(file) };
    let truncate_real = || call_real!(file, xTruncate, (size), ffi::SQLITE_IOERR_TRUNCATE);
    let Some(watched) = watched else { return truncate_real() };
    shim.recorder.perform(watched, || {
        if shim.faults.trip(OpKind::Truncate, &watched.path).is_some() {
            return (ffi::SQLITE_IOERR_TRUNCATE, None);
        }
        let code = truncate_real();
        let done = Action::Truncate { path: watched.path.clone(), length: size as u64 };
        (code, (code == ffi::SQLITE_OK).then_some(done))
    })
}

unsafe extern "C" fn sync(file: *mut sqlite3_file, flags: c_int) -> c_int {
    // SAFETY: the file is open.
    let FileState { shim, watched, syncs_directory } = unsafe { state_of(file) };
    let sync_real = || call_real!(file, xSync, (flags), ffi::SQLITE_IOERR_FSYNC);
    let Some(watched) = watched else { return sync_real() };
    if shim.swallows_syncs.load(Ordering::SeqCst) {
        return ffi::SQLITE_OK;
    }
    shim.recorder.perform(watched, || {
        let path = watched.path.clone();
        let failure = shim.faults.trip(OpKind::Sync, &path).map(|_| ffi::SQLITE_IOERR_FSYNC);
        match failure.unwrap_or_else(sync_real) {
            ffi::SQLITE_OK => {
                let with_directory = syncs_directory.swap(false, Ordering::Relaxed);
                let reach = if with_directory { SyncReach::Directory } else { SyncReach::Name };
                (ffi::SQLITE_OK, Some(Action::Sync { path, reach }))
            }
            code => (code, Some(Action::SyncFailed { path })),
        }
    })
}

/// Passed through; but a size hint may make the unix VFS lengthen the file without a write, which is recorded.
unsafe extern "C" fn file_control(file: *mut sqlite3_file, op: c_int, arg: *mut c_void) -> c_int {
    // SAFETY: the file is open.
    let FileState { shim, watched, .. } = unsafe { state_of(file) };
    let control_real = || call_real!(file, xFileControl, (op, arg), ffi::SQLITE_NOTFOUND);
    let Some(watched) = watched.as_ref().filter(|_| op == ffi::SQLITE_FCNTL_SIZE_HINT) else { return control_real() };
    shim.recorder.perform(watched, || {
        // SAFETY: the file is open.
        let length = || unsafe { length_of(file) };
        let before = length();
        let code = control_real();
        let resized = length().filter(|length| Some(*length) != before);
        (code, resized.map(|length| Action::Truncate { path: watched.path.clone(), length }))
    })
}

/// # Safety
/// `file` was opened by `open` and is not closed.
unsafe fn length_of(file: *mut sqlite3_file) -> Option<u64> {
    let mut length = 0;
    let code = call_real!(file, xFileSize, (&raw mut length), ffi::SQLITE_IOERR_FSTAT);
    (code == ffi::SQLITE_OK).then_some(length as u64)
}

/// # Safety
/// `name` is null, or a C string that outlives the result.
unsafe fn path_of<'a>(name: *const c_char) -> Option<&'a Path> {
    // SAFETY: by contract.
    (!name.is_null()).then(|| unsafe { Path::new(OsStr::from_bytes(CStr::from_ptr(name).to_bytes())) })
}
