import Glibc
import ProgramKit

/// A file that replaces another one as a whole or not at all, as every `--output` does.
///
/// It replaces only a regular file. It refuses a directory, a device and a pipe, and also a symbolic
/// link: following the link would write to a place that the user did not name, and replacing it would
/// lose the link.
///
/// The file has no name until it is complete, so nothing remains of it however the process ends. If
/// the system cannot do that, the file has a name that readers of the directory ignore.
struct FileReplacement {
  /// The sentence about `--output` in the help of each command that has it.
  static let rule =
    "--output replaces a regular file or creates one, completely or not at all. It refuses "
    + "anything else at that path, such as a symbolic link."

  private let path: String
  private let descriptor: Int32

  /// The temporary name, on systems where the file needs one.
  private let name: String?

  /// The first error of writing to the file.
  private var failure: Int32?

  /// Begins a file for a path.
  ///
  /// `kind` asks the file system for a file without a name; tests pass one that no system supports.
  init(
    of path: String, mode: UInt32, kind: Int32 = Self.temporaryFile
  ) throws(ControlError) {
    try Self.refuseAllButFile(path)
    self.path = path
    let (directory, file) = Self.split(path)
    if let nameless = try Self.nameless(in: directory, kind, for: path) {
      (descriptor, name) = (nameless, nil)
    } else {
      let named = Self.unusedName(directory, file)
      name = named
      descriptor = unsafe open(named, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0o600)
      guard descriptor >= 0 else { throw Self.error(errno, path) }
    }
    // Unlike the mode of open, this one ignores the umask.
    if fchmod(descriptor, mode) != 0 { failure = errno }
  }

  /// Opens a file without a name; nil if the system has no such files, or cannot name them later.
  private static func nameless(
    in directory: String, _ kind: Int32, for path: String
  ) throws(ControlError) -> Int32? {
    let descriptor = unsafe open(directory, kind | O_WRONLY | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else {
      guard errno == EOPNOTSUPP || errno == EISDIR else { throw error(errno, path) }
      return nil
    }
    // Without /proc, linking the descriptor itself needs a privilege (linkat(2)).
    guard unsafe access(link(of: descriptor), F_OK) == 0 else {
      close(descriptor)
      return nil
    }
    return descriptor
  }

  /// The path through which a file without a name can be linked; needs `/proc`.
  private static func link(of descriptor: Int32) -> String { "/proc/self/fd/\(descriptor)" }

  /// The flag O_TMPFILE, which the header defines as a sum that Swift does not import.
  static let temporaryFile = 0o20_000_000 | O_DIRECTORY

  /// Appends to the file; `finish()` reports an error.
  mutating func write(_ text: String) {
    if failure == nil { failure = ThisProcess.write(text, to: descriptor) }
  }

  /// Puts the file in its place, or throws; either way no temporary file remains.
  func finish() throws(ControlError) {
    let problem = failure ?? put()
    if problem != nil, let name { unsafe unlink(name) }
    close(descriptor)
    if let problem { throw Self.error(problem, path) }
  }

  private func put() -> Int32? {
    if let name { return unsafe rename(name, path) == 0 ? nil : errno }
    let (directory, file) = Self.split(path)
    var link = "\(directory)/.\(file).new"
    // Only a complete file ever has this name. A process that finds such a file removes it: its owner
    // was killed, or is about to see that a newer file has taken its place.
    for _ in 0..<100 {
      let own = Self.link(of: descriptor)
      if unsafe linkat(AT_FDCWD, own, AT_FDCWD, link, AT_SYMLINK_FOLLOW) == 0 {
        let isPut = unsafe rename(link, path) == 0 || errno == ENOENT
        if isPut { return nil }
        let problem = errno
        unsafe unlink(link)
        return problem
      }
      guard errno == EEXIST else { return errno }
      // A file that cannot be removed is not one of ours.
      if unsafe unlink(link) != 0, errno != ENOENT { link = Self.unusedName(directory, file) }
    }
    return EEXIST
  }

  private static func unusedName(_ directory: String, _ file: Substring) -> String {
    "\(directory)/.\(file).\(String(UInt64.random(in: 0 ... .max), radix: 36))"
  }

  /// Refuses a path at which there is anything but a regular file.
  private static func refuseAllButFile(_ path: String) throws(ControlError) {
    var status = stat()
    guard unsafe lstat(path, &status) == 0 else {
      if errno == ENOENT, !split(path).file.isEmpty { return }
      throw error(errno, path)
    }
    let remedy = "or leave out --output to print"
    switch status.st_mode & S_IFMT {
    case S_IFREG: return
    case S_IFLNK:
      throw ControlError(
        .failed, "\(VisibleText.bare(path)) cannot be replaced", "it is a symbolic link",
        "use the path of the file that it points to, \(remedy)")
    default:
      throw ControlError(
        .failed, "\(VisibleText.bare(path)) cannot be replaced", "it is not a regular file",
        "use another path, \(remedy)")
    }
  }

  private static func split(_ path: String) -> (directory: String, file: Substring) {
    // By bytes, because the slash and a combining mark after it would be one character.
    let bytes = path.utf8
    guard let slash = bytes.lastIndex(of: UInt8(ascii: "/")) else { return (".", path[...]) }
    let name = bytes.index(after: slash)
    return (String(path[..<name]), path[name...])
  }

  private static func error(_ number: Int32, _ path: String) -> ControlError {
    ControlError(
      .failed, "\(VisibleText.bare(path)) cannot be written", SystemError.text(number),
      "check its directory, or use another path")
  }
}
