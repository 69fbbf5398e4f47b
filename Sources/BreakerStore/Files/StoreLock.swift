internal import Glibc

/// The lock under which the files of a store are created, replaced and set aside.
///
/// It is `flock` on a file beside the store. Only users of the store may open that file, so nobody
/// else can block them. The kernel releases the lock when its holder ends, in every PID namespace,
/// and closing another descriptor of the file does not release it. A shell script can take it with
/// flock(1). The file is never deleted or replaced, because a lock on a file without a name locks
/// nothing.
struct StoreLock {
  static let suffix = "-lock"

  private let descriptor: Int32
  private let path: String

  /// Runs a body under the lock of a store, whose files need not exist yet.
  ///
  /// - Throws: What the body throws, or why the lock could not be taken in time.
  static func held<Result>(
    _ store: String, access: StoreAccess = StoreAccess(), atMost timeout: Duration,
    _ body: (StoreLock) throws(StoreError) -> Result
  ) throws(StoreError) -> Result {
    let lock = try taken(store, access, until: Patience.deadline(after: timeout))
    defer { lock.release() }
    return try body(lock)
  }

  /// Gives the lock file the rights of the store that its holder has created.
  func share(_ rights: FileRights) {
    guard let status, status.rights != rights.ofUsers else { return }
    rights.ofUsers.giveWhatIsAllowed(to: descriptor)
  }
}

extension StoreLock {
  private static func taken(
    _ store: String, _ access: StoreAccess, until deadline: Int64
  ) throws(StoreError) -> StoreLock {
    let path = store + suffix
    while true {
      let lock = try opened(path, for: store, access)
      do throws(StoreError) {
        try lock.wait(until: deadline)
        // The file may have been deleted meanwhile, so that others now lock a different one.
        if lock.isNamed { return lock }
      } catch {
        lock.release()
        throw error
      }
      lock.release()
      guard Patience.monotonicNanoseconds() < deadline else { throw lock.busy }
    }
  }

  private static func opened(
    _ path: String, for store: String, _ access: StoreAccess
  ) throws(StoreError) -> StoreLock {
    let flags = O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK
    var descriptor = unsafe open(path, flags)
    if descriptor < 0, errno == ENOENT {
      try create(path, access.rights(of: store).ofUsers)
      descriptor = unsafe open(path, flags)
    }
    guard descriptor >= 0 else { throw StoreError(errno: errno, doing: "use", path: path) }
    let lock = StoreLock(descriptor: descriptor, path: path)
    do throws(StoreError) {
      guard let status = lock.status else {
        throw StoreError(errno: errno, doing: "use", path: path)
      }
      try PlantedFile.refuse(status, at: path, in: StorePath.split(path).directory)
      return lock
    } catch {
      close(descriptor)
      throw error
    }
  }

  /// Creates the file under another name first, so that it has its rights when it appears.
  private static func create(_ path: String, _ rights: FileRights) throws(StoreError) {
    let fresh = "\(path).new-\(UInt32.random(in: .min ... .max))"
    close(try NewFile.create(fresh, rights, mustHave: false))
    defer { unsafe unlink(fresh) }
    // Unlike rename, link never replaces the file of another process that was faster.
    guard unsafe link(fresh, path) == 0 || errno == EEXIST else {
      throw StoreError(errno: errno, doing: "create", path: path)
    }
  }

  private func wait(until deadline: Int64) throws(StoreError) {
    while flock(descriptor, LOCK_EX | LOCK_NB) != 0 {
      guard errno == EWOULDBLOCK || errno == EINTR else {
        throw StoreError(errno: errno, doing: "lock", path: path)
      }
      guard Patience.monotonicNanoseconds() < deadline else { throw busy }
      Patience.pause(nanoseconds: .random(in: 200_000...2_000_000))
    }
  }

  private var busy: StoreError {
    StoreError(
      .busy, code: EWOULDBLOCK,
      "the lock file \(StoreError.visible(path)) stays locked: another process is creating or"
        + " replacing files of the store: if this lasts, look for a stopped process that has it"
        + " open")
  }

  private var status: FileStatus? {
    var status = stat()
    return unsafe fstat(descriptor, &status) == 0 ? FileStatus(status) : nil
  }

  private var isNamed: Bool { status?.identity == StoreFile.identity(of: path) }

  private func release() {
    // A child that was forked meanwhile also has the descriptor, and would keep the lock.
    flock(descriptor, LOCK_UN)
    close(descriptor)
  }
}
