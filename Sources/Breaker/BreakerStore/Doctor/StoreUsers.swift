internal import Glibc

/// The processes that have a store open, as far as this user may see them.
struct StoreUsers {
  struct User: Hashable {
    var pid: Int32
    var program: String

    var words: String { "process \(pid) (\(program))" }
  }

  /// Processes that have the current files open.
  var readers: [User] = []

  /// Processes that do not have the files open, but were started by one that has.
  var children: [User] = []

  /// Processes that have files open which were deleted or replaced.
  var ofOthers: [User] = []

  /// A process that is stopped while it holds the write lock.
  var stoppedWriter: User?

  /// Whether every process could be examined.
  var isComplete = true

  /// Examines the open files of every process except this one.
  init(of place: StoreSite) {
    let own = [place.path] + StoreSite.all.map { place.beside($0) }
    let current = Set(own.compactMap { FileStatus(of: $0)?.identity })
    // All numbers here are those that `/proc` knows, which may show another PID namespace.
    let ownPid = ProcessTable.ownNumber()
    for name in DirectoryListing.names("/proc") {
      guard let pid = Int32(name), pid != ownPid else { continue }
      look(at: pid, place, current)
    }
    stoppedWriter = Self.stopped(among: readers, place)
    children = Self.children(of: Set(readers.map(\.pid)))
  }

  private static func children(of parents: Set<Int32>) -> [User] {
    guard !parents.isEmpty else { return [] }
    return DirectoryListing.names("/proc").compactMap { name in
      guard let pid = Int32(name), pid != getpid(), !parents.contains(pid),
        let status = ProcFile.text("/proc/\(pid)/status"),
        let line = status.split(separator: "\n").first(where: { $0.hasPrefix("PPid:") }),
        let parent = line.split(separator: "\t").last.flatMap({ Int32($0) }),
        parents.contains(parent)
      else { return nil }
      return User(pid: pid, program: ProcFile.text("/proc/\(pid)/comm") ?? "unknown")
    }
  }

  private mutating func look(at pid: Int32, _ place: StoreSite, _ current: Set<FileIdentity>) {
    let folder = "/proc/\(pid)/fd"
    errno = 0
    let descriptors = DirectoryListing.names(folder)
    if descriptors.isEmpty, errno == EACCES { isComplete = false }
    var isReader = false
    var isOfOther = false
    for descriptor in descriptors {
      var status = stat()
      guard unsafe stat("\(folder)/\(descriptor)", &status) == 0 else { continue }
      if current.contains(FileStatus(status).identity) {
        isReader = true
      } else if status.st_mode & S_IFMT == S_IFREG {
        let target = DirectoryListing.target("\(folder)/\(descriptor)")
        isOfOther = isOfOther || Self.wasPart(target, place)
      }
    }
    guard isReader || isOfOther else { return }
    let user = User(pid: pid, program: ProcFile.text("/proc/\(pid)/comm") ?? "unknown")
    if isReader { readers.append(user) }
    if isOfOther { ofOthers.append(user) }
  }

  /// Whether an open file was deleted at the store's path, or moved away from it.
  private static func wasPart(_ target: String, _ place: StoreSite) -> Bool {
    guard target.hasPrefix(place.path) else { return false }
    let rest = target.dropFirst(place.path.count)
    let parts = ["", StoreFile.logSuffix, StoreFile.indexSuffix]
    return parts.contains { rest == $0 + " (deleted)" || rest == $0 + ".orphan" }
      || SetAside.infixes.contains { rest.hasPrefix($0) }
  }

  /// The process that holds SQLite's write lock (sqlite.org/walformat.html, 2.3) and is stopped.
  private static func stopped(among users: [User], _ place: StoreSite) -> User? {
    guard let index = FileStatus(of: place.beside(StoreFile.indexSuffix)) else { return nil }
    let writers = HeldLock.all(on: index.identity).filter { $0.isForWriting && $0.start == 120 }
    return users.first { user in
      writers.contains { $0.pid == user.pid } && ProcessTable.isStopped(user.pid)
    }
  }
}

extension [StoreUsers.User] {
  /// The processes in words, after some introductory words; empty if there are none.
  func words(before: String) -> String {
    guard !isEmpty else { return "" }
    let first = prefix(8).map(\.words).joined(separator: ", ")
    return before + first + (count > 8 ? " and \(count - 8) more" : "")
  }
}
