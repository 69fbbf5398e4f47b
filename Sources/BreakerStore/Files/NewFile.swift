internal import Glibc

/// Creates the files of a store.
enum NewFile {
  /// Creates a file and opens it; nobody else can open it before it has its rights.
  ///
  /// - Parameters:
  ///   - path: Where to create the file; nothing may be there yet.
  ///   - rights: The rights of the file.
  ///   - mustHave: Whether to remove the file again if this user may not give it all of these
  ///     rights.
  ///   - what: The action that an error message names.
  /// - Returns: The descriptor, which the caller must close.
  /// - Throws: `StoreError` if the file cannot be created, or not with the rights that it must
  ///   have.
  static func create(
    _ path: String, _ rights: FileRights, mustHave: Bool, doing what: String = "create"
  ) throws(StoreError) -> Int32 {
    let flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW
    let descriptor = unsafe open(path, flags, 0o600)
    guard descriptor >= 0 else { throw StoreError(errno: errno, doing: what, path: path) }
    guard mustHave else {
      rights.giveWhatIsAllowed(to: descriptor)
      return descriptor
    }
    do throws(StoreError) {
      try rights.give(to: descriptor, at: path)
      return descriptor
    } catch {
      close(descriptor)
      unsafe unlink(path)
      throw error
    }
  }
}
