internal import Glibc

/// Writes the names in a directory through to the disk.
///
/// A new file survives a power cut only once the directory that contains it is on the disk, and so
/// does a new directory.
enum DirectorySync {
  /// Returns 0 or the system's error number.
  static func run(_ path: String) -> Int32 {
    let directory = unsafe open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard directory >= 0 else { return errno }
    defer { close(directory) }
    return fsync(directory) == 0 ? 0 : errno
  }
}
