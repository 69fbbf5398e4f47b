import Glibc

/// A file that is replaced whole: who reads it gets the old text or the new one, never a part.
enum FileReplacement {
  /// Puts the text in the place of the file, or makes it; its permissions are `mode` whatever it had.
  static func write(_ text: String, to path: String, mode: UInt32) throws(ControlError) {
    try checkThatFileIsReplaceable(path)
    let draft = "\(path).\(getpid()).new"
    // What an earlier process of this number has left behind is nobody's.
    unsafe unlink(draft)
    let file = unsafe open(draft, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600)
    guard file >= 0 else { throw failure(path, errno) }
    var number = fill(file, with: text, mode: mode)
    if close(file) != 0, number == 0 { number = errno }
    if number == 0, unsafe rename(draft, path) != 0 { number = errno }
    guard number == 0 else {
      unsafe unlink(draft)
      throw failure(path, number)
    }
  }

  /// A device, or a link to somewhere else, is not what somebody wants replaced by a file.
  private static func checkThatFileIsReplaceable(_ path: String) throws(ControlError) {
    var status = stat()
    guard unsafe lstat(path, &status) == 0, status.st_mode & S_IFMT != S_IFREG else { return }
    throw ControlError(
      .failed, "\(VisibleText.bare(path)) is not replaced", "it is no regular file",
      "name another one, or leave --output away for standard output")
  }

  /// Answers with an errno, or 0.
  private static func fill(_ file: Int32, with text: String, mode: UInt32) -> Int32 {
    var rest = Array(text.utf8)[...]
    while !rest.isEmpty {
      let count = unsafe rest.withUnsafeBytes { unsafe Glibc.write(file, $0.baseAddress, $0.count) }
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { return count == 0 ? ENOSPC : errno }
      rest = rest.dropFirst(count)
    }
    guard fchmod(file, mode) == 0 else { return errno }
    // Without it a power cut can leave a new name with nothing behind it.
    return fsync(file) == 0 ? 0 : errno
  }

  private static func failure(_ path: String, _ number: Int32) -> ControlError {
    ControlError(
      .failed, "\(VisibleText.bare(path)) cannot be written", SystemError.text(number),
      "write to another place, or free space")
  }
}
