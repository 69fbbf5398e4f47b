internal import BreakerCore
internal import CHost
internal import Glibc

/// Whether the store can be written, by this process and by those that use it.
///
/// It tries without changing a file of the store: an examination leaves no trace.
struct WritingExamination {
  let place: StoreSite
  let users: StoreUsers
  let lockTimeout: Duration

  /// Whether nothing else in this process uses the store.
  let isAlone: Bool

  /// The first byte of SQLite's write lock in the index (sqlite.org/walformat.html, 2.3).
  static let writeLock: Int64 = 120

  func finding() -> StoreFinding {
    if let words = Denial.words(about: place.path) {
      return StoreFinding(
        .writing, .warning, "this process cannot write: \(words)",
        means:
          "its commands are refused, and a program of this user goes on with breakers of its own",
        repair: "none: run it as a user of the store, or see 'cbctl init --help'")
    }
    let code = spaceTrouble()
    if code != 0 {
      return StoreFinding(
        .writing, .bad,
        "a file beside the store cannot be written: \(StoreError.systemMessage(code))",
        means: "what needs new space fails, and each process goes on with breakers of its own",
        repair: "none: free some space, or look at the disk")
    }
    if let holder = steadyHolder() {
      return StoreFinding(
        .writing, .bad, "\(holder) has held the write lock for \(lockTimeout)",
        means: "nobody else can write, so each process goes on with breakers of its own",
        repair: "none: look at what it is doing, or end it")
    }
    return ofUsers()
  }

  /// Tries to write to a new file without a name; 0, or the error.
  private func spaceTrouble() -> Int32 {
    let flags = O_RDWR | O_CLOEXEC | Self.withoutName
    let descriptor = unsafe open(place.directory, flags, 0o600)
    // Not every file system has files without names, and a user may write to a store in a directory
    // that others own.
    guard descriptor >= 0 else { return [ENOSPC, EDQUOT, EROFS, EIO].contains(errno) ? errno : 0 }
    defer { close(descriptor) }
    let block = [UInt8](repeating: 0x5A, count: 65_536)
    var written = 0
    while written < block.count {
      let count = unsafe block.withUnsafeBytes {
        unsafe write(descriptor, $0.baseAddress?.advanced(by: written), block.count - written)
      }
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { return count < 0 ? errno : ENOSPC }
      written += count
    }
    return fdatasync(descriptor) == 0 ? 0 : errno
  }

  /// O_TMPFILE of open(2), which Glibc in Swift does not have.
  private static let withoutName: Int32 = 0o20000000 | O_DIRECTORY
}

/// The write lock.
extension WritingExamination {
  /// The process that holds the write lock for as long as a call would wait; nil if it is free now
  /// and then.
  private func steadyHolder() -> String? {
    guard let index = FileStatus(of: place.beside(StoreFile.indexSuffix)), index.isRegular else {
      return nil
    }
    let descriptor =
      isAlone
      ? unsafe open(
        place.beside(StoreFile.indexSuffix), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1
    // If something else in this process uses the store, closing the index would drop its locks.
    defer { if descriptor >= 0 { close(descriptor) } }
    let deadline = Patience.deadline(after: lockTimeout)
    while true {
      guard let holder = holder(descriptor, index), holder != getpid() else { return nil }
      guard Patience.pause(until: deadline) else { return words(about: holder) }
    }
  }

  /// The process that holds the write lock; nil if none does, and 0 if it is not known which.
  private func holder(_ descriptor: Int32, _ index: FileStatus) -> Int32? {
    guard descriptor >= 0 else {
      return HeldLock.all(on: index.identity).first {
        $0.isForWriting && $0.start == Self.writeLock
      }?.pid
    }
    let pid = sb_lock_holder(descriptor, Self.writeLock)
    return pid < 0 ? nil : pid
  }

  private func words(about pid: Int32) -> String {
    guard pid > 0 else { return "a process that cannot be seen from here" }
    let program = ProcFile.text("/proc/\(pid)/comm") ?? "unknown"
    return StoreUsers.User(pid: pid, program: program).words
  }
}

/// The users that run the programs.
extension WritingExamination {
  private func ofUsers() -> StoreFinding {
    let files = ([""] + StoreSite.suffixes).compactMap { FileStatus(of: place.beside($0)) }
    func areClosed(to process: ProcessRights) -> Bool {
      !files.allSatisfy { process.mayReadAndWrite($0.rights) }
        || !place.way.allSatisfy { process.mayPass($0.rights) }
        || !process.mayPass(place.ofDirectory.rights)
    }
    let readers = users.readers.filter { ProcessRights(of: $0.pid).map(areClosed) ?? false }
    if let first = readers.first {
      return StoreFinding(
        .writing, .warning,
        "\(described(first))" + more(readers) + " cannot reach and write the store",
        means: "it goes on with breakers of its own",
        repair: "none: make the store for its group, with 'cbctl init --group'")
    }
    // A server's workers often run as another user than the process that has started them.
    let children = users.children.filter { ProcessRights(of: $0.pid).map(areClosed) ?? false }
    if let first = children.first {
      return StoreFinding(
        .writing, .note,
        "\(described(first))" + more(children) + " could not reach and write the store",
        means: "a process that has it open started it: if it uses breakers, they are its own",
        repair: "none: if it should share them, make the store for its group, with"
          + " 'cbctl init --group'")
    }
    return StoreFinding(.writing, .ok, "the lock is free, and there is room")
  }

  private func described(_ user: StoreUsers.User) -> String {
    guard let rights = ProcessRights(of: user.pid) else { return user.words }
    return "\(user.words), which runs as \(HostUsers.name(of: rights.user)),"
  }

  private func more(_ users: [StoreUsers.User]) -> String {
    users.count > 1 ? " and \(users.count - 1) more" : ""
  }
}

/// The user and the groups that a process runs as.
private struct ProcessRights {
  let user: UInt32
  private let groups: Set<UInt32>

  /// Whether the modes of files do not restrict it (CAP_DAC_OVERRIDE of capabilities(7)).
  private let isUnrestricted: Bool

  /// Whether the modes of directories do not (CAP_DAC_READ_SEARCH).
  private let maySearch: Bool

  /// Nil if the process cannot be examined.
  init?(of pid: Int32) {
    guard let status = ProcFile.text("/proc/\(pid)/status") else { return nil }
    var user: UInt32?
    var groups: Set<UInt32> = []
    var capabilities: UInt64 = 0
    for line in status.split(separator: "\n") {
      let fields = line.split(whereSeparator: { $0 == "\t" || $0 == " " })
      switch fields.first {
      // Real, effective, saved, and for files.
      case "Uid:" where fields.count == 5: user = UInt32(fields[4])
      case "Gid:" where fields.count == 5: groups.formUnion(fields[4...].compactMap { UInt32($0) })
      case "Groups:": groups.formUnion(fields.dropFirst().compactMap { UInt32($0) })
      case "CapEff:": capabilities = fields.last.flatMap { UInt64($0, radix: 16) } ?? 0
      default: break
      }
    }
    guard let user else { return nil }
    isUnrestricted = capabilities & 0b10 != 0
    maySearch = capabilities & 0b110 != 0
    self.user = user
    self.groups = groups
  }

  func mayReadAndWrite(_ file: FileRights) -> Bool { isUnrestricted || bits(of: file) & 0o6 == 0o6 }

  /// Whether it may reach what is in a directory.
  func mayPass(_ directory: FileRights) -> Bool { maySearch || bits(of: directory) & 0o1 != 0 }

  private func bits(of file: FileRights) -> UInt32 {
    let shift: UInt32 = user == file.user ? 6 : groups.contains(file.group) ? 3 : 0
    return file.mode >> shift
  }
}
