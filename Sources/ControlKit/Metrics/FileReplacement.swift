import Glibc

/// A file that takes another one's place whole, or not at all.
///
/// Until then it has no name, so that nothing is left of it however the process ends. Where the file
/// system cannot do that, it has a name that no reader of the directory looks for.
struct FileReplacement {
  private let path: String
  private let descriptor: Int32

  /// The name that the file has already, where it needs one.
  private let name: String?

  /// The first error of writing to it.
  private var failure: Int32?

  /// Begins a file for a path; of a symbolic link, for what it leads to.
  ///
  /// `kind` asks the file system for a file without a name; tests ask for what none can give.
  init(
    of path: String, mode: UInt32, kind: Int32 = Self.temporaryFile
  ) throws(ControlError) {
    self.path = try Self.target(of: path)
    let (directory, file) = Self.split(self.path)
    let nameless = unsafe open(directory, kind | O_WRONLY | O_CLOEXEC, 0o600)
    if nameless >= 0 {
      (descriptor, name) = (nameless, nil)
    } else {
      guard errno == EOPNOTSUPP || errno == EISDIR else { throw Self.error(errno, path) }
      let named = Self.unusedName(directory, file)
      name = named
      descriptor = unsafe open(named, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0o600)
      guard descriptor >= 0 else { throw Self.error(errno, path) }
    }
    // Whatever the umask says.
    if fchmod(descriptor, mode) != 0 { failure = errno }
  }

  /// The header has it as a sum, which Swift does not import.
  static let temporaryFile = 0o20_000_000 | O_DIRECTORY

  /// Adds to the file; an error is kept for the end.
  mutating func write(_ text: String) {
    guard failure == nil else { return }
    var text = text
    failure = text.withUTF8 { bytes -> Int32? in
      var rest = unsafe bytes[...]
      while unsafe !rest.isEmpty {
        let part = unsafe UnsafeRawBufferPointer(UnsafeBufferPointer(rebasing: rest))
        let count = unsafe Glibc.write(descriptor, part.baseAddress, part.count)
        if count < 0, errno == EINTR { continue }
        guard count > 0 else { return count < 0 ? errno : EIO }
        unsafe rest = unsafe rest.dropFirst(count)
      }
      return nil
    }
  }

  /// Puts the file in its place, or throws why it cannot be; either way there is nothing left of it.
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
    // Only what is whole ever has this name. Whoever finds it there takes it away, for its owner
    // was killed or is about to see that a newer one has come.
    for _ in 0..<100 {
      let own = "/proc/self/fd/\(descriptor)"
      if unsafe linkat(AT_FDCWD, own, AT_FDCWD, link, AT_SYMLINK_FOLLOW) == 0 {
        let isPut = unsafe rename(link, path) == 0 || errno == ENOENT
        if isPut { return nil }
        let problem = errno
        unsafe unlink(link)
        return problem
      }
      guard errno == EEXIST else { return errno }
      // What cannot be taken away is none of ours.
      if unsafe unlink(link) != 0, errno != ENOENT { link = Self.unusedName(directory, file) }
    }
    return EEXIST
  }

  private static func unusedName(_ directory: String, _ file: Substring) -> String {
    "\(directory)/.\(file).\(String(UInt64.random(in: 0 ... .max), radix: 36))"
  }

  /// What a path leads to: a file, or the place for one.
  private static func target(of path: String) throws(ControlError) -> String {
    var status = stat()
    guard unsafe lstat(path, &status) == 0 else {
      if errno == ENOENT { return path }
      throw error(errno, path)
    }
    guard unsafe stat(path, &status) == 0 else { throw error(errno, path) }
    guard status.st_mode & S_IFMT == S_IFREG else {
      throw ControlError(
        .failed, "\(VisibleText.bare(path)) cannot be replaced", "it is not a file",
        "name a file, or one that is yet to be")
    }
    guard let resolved = unsafe realpath(path, nil) else { throw error(errno, path) }
    defer { unsafe free(resolved) }
    return unsafe String(cString: resolved)
  }

  private static func split(_ path: String) -> (directory: String, file: Substring) {
    // By bytes: a mark beside the slash would make one character of both.
    let bytes = path.utf8
    guard let slash = bytes.lastIndex(of: UInt8(ascii: "/")) else { return (".", path[...]) }
    let name = bytes.index(after: slash)
    return (String(path[..<name]), path[name...])
  }

  private static func error(_ number: Int32, _ path: String) -> ControlError {
    ControlError(
      .failed, "\(VisibleText.bare(path)) cannot be written", SystemError.text(number),
      "look at its directory, or name another file")
  }
}
