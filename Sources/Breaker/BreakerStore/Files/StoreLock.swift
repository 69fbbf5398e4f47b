internal import Glibc

/// The lock under which the files of a store are created, replaced and set aside.
///
/// It is `flock` on a file beside the store. Only users of the store may open that file, so no
/// other user can block them. The kernel releases the lock when its holder ends, in every PID
/// namespace, and closing another descriptor of the file does not release it. A shell script can
/// take it with flock(1). The file is never deleted or replaced, because a lock on a file without a
/// name locks nothing.
struct StoreLock {
  static let suffix = "-lock"

  private let descriptor: Int32
  private let path: String

  /// Runs a body under the lock of a store, whose files need not exist yet.
  ///
  /// - Throws: The error of the body, or why the lock could not be taken in time.
  static func held<Result>(
    _ store: String, access: StoreAccess = StoreAccess(), atMost timeout: Duration,
    _ body: (StoreLock) throws(StoreError) -> Result
  ) throws(StoreError) -> Result {
    let path = store + suffix
    let lock = try taken(path, of: store, access, until: Patience.deadline(after: timeout))
    defer { lock.release() }
    return try body(lock)
  }

  /// Gives the lock file the rights of the store that its holder has created.
  func share(_ rights: FileRights) {
    guard let status, status.rights != rights.ofUsers else { return }
    // Any user who may write to the directory can move a private file here.
    guard status.size == 0, [geteuid(), 0, rights.user].contains(status.rights.user) else { return }
    rights.ofUsers.giveWhatIsAllowed(to: descriptor)
  }
}

extension StoreLock {
  private static func taken(
    _ path: String, of store: String, _ access: StoreAccess, until deadline: Int64
  ) throws(StoreError) -> StoreLock {
    while true {
      let lock = try opened(path, for: store, access)
      do throws(StoreError) {
        try lock.wait(for: store, until: deadline)
        // The file may have been deleted meanwhile, so that others now lock a different one.
        if lock.isNamed { return lock }
      } catch {
        lock.release()
        throw error
      }
      lock.release()
      if Patience.isOver(at: deadline) { throw lock.busy(for: store) }
    }
  }

  private static func opened(
    _ path: String, for store: String, _ access: StoreAccess, _ mode: Int32 = O_RDWR,
    mayCreate: Bool = true
  ) throws(StoreError) -> StoreLock {
    let flags = mode | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK
    var descriptor = unsafe open(path, flags)
    if descriptor < 0, errno == ENOENT, mayCreate {
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
      try PlantedFile.refuse(status, at: path, beside: FileStatus(of: store))
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

  private func wait(for store: String, until deadline: Int64) throws(StoreError) {
    while flock(descriptor, LOCK_EX | LOCK_NB) != 0 {
      guard errno == EWOULDBLOCK || errno == EINTR else {
        throw StoreError(errno: errno, doing: "lock", path: path)
      }
      guard Patience.pause(until: deadline) else { throw busy(for: store) }
    }
  }

  private func busy(for store: String) -> StoreError {
    if Patience.wasInterrupted { return .interrupted(store) }
    return StoreError(
      .busy, code: Self.isHeld,
      "the lock file \(StoreError.visible(path)) stays locked: another process is creating or"
        + " replacing files of the store: if this lasts, look for a stopped process that has it"
        + " open")
  }

  private var status: FileStatus? {
    var status = stat()
    return unsafe fstat(descriptor, &status) == 0 ? FileStatus(status) : nil
  }

  private var isNamed: Bool { status?.identity == StoreFile.identity(of: path) }

  /// The code of the error if another process has the lock.
  private static let isHeld = EWOULDBLOCK

  func release() {
    // A child that was forked meanwhile also has the descriptor, and would keep the lock.
    flock(descriptor, LOCK_UN)
    letGo()
  }

  /// Lets go of the lock, which a process that this one was forked from may still hold.
  func letGo() { close(descriptor) }
}

/// The file of the lock, for the lifelines that are in it.
extension StoreLock {
  /// Opens the file without taking the lock; nil if there is none, or if it cannot be used.
  ///
  /// The caller closes the descriptor.
  static func file(
    of store: String, mayCreate: Bool
  ) -> (descriptor: Int32, identity: FileIdentity)? {
    do throws(StoreError) {
      let lock = try opened(
        store + suffix, for: store, StoreAccess(), O_RDONLY, mayCreate: mayCreate)
      guard let identity = lock.status?.identity else {
        lock.letGo()
        return nil
      }
      return (lock.descriptor, identity)
    } catch {
      return nil
    }
  }
}

/// The lock that a relay holds for as long as it works on a store, on a file of its own.
extension StoreLock {
  static let relaySuffix = "-relay"

  /// How long a relay waits for processes that only ask, in nanoseconds.
  private static let moment: Int64 = 100_000_000

  /// Takes the lock of the relay; nil if another process works as the store's relay.
  static func claimed(_ store: String) throws(StoreError) -> StoreLock? {
    do throws(StoreError) {
      return try taken(
        store + relaySuffix, of: store, StoreAccess(),
        until: Patience.monotonicNanoseconds() + moment)
    } catch {
      guard error.kind == .busy, error.code == isHeld else { throw error }
      return nil
    }
  }

  /// Whether a process works as the store's relay.
  static func isClaimed(_ store: String) throws(StoreError) -> Bool {
    let path = store + relaySuffix
    let descriptor = unsafe open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK)
    guard descriptor >= 0 else {
      if errno == ENOENT { return false }
      throw StoreError(errno: errno, doing: "use", path: path)
    }
    let lock = StoreLock(descriptor: descriptor, path: path)
    defer { lock.letGo() }
    if let status = lock.status {
      try PlantedFile.refuse(status, at: path, in: StorePath.split(path).directory)
    }
    // Shared, so that processes that ask do not block each other.
    guard flock(descriptor, LOCK_SH | LOCK_NB) == 0 else { return errno == EWOULDBLOCK }
    flock(descriptor, LOCK_UN)
    return false
  }
}
