internal import Glibc

/// Writes the names of a directory through to the disk.
///
/// A file that is new is not there after a power cut before the directory that it lies in says so,
/// nor is a directory that is new.
enum DirectorySync {
  /// Returns 0 or the system's error number.
  static func run(_ path: String) -> Int32 {
    let directory = unsafe open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard directory >= 0 else { return errno }
    defer { close(directory) }
    return fsync(directory) == 0 ? 0 : errno
  }
}
