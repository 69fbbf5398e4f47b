internal import Glibc

/// Putting a new store into the place of a damaged one, in steps that survive an interruption.
///
/// A store, its log and its index have three names, which cannot change together, and a new file must
/// never meet the old log: SQLite would read that as its own (sqlite.org/howtocorrupt.html, 1.4). So
/// the new store first gets a name that is derived from the one that the damaged store will have. Once
/// the damaged store has been moved, any process that finds no store completes the replacement. Until
/// then, the damaged store is in its place with all its files.
enum Replacement {
  private static let suffix = ".next"

  /// Moves a store and its other files away, and another file into its place: all or nothing.
  ///
  /// The caller holds the lock of the store.
  static func run(
    _ place: StoreSite, by fresh: String, setAsideAs name: String
  ) throws(StoreError) {
    var moved: [(from: String, to: String)] = []
    func move(_ from: String, _ to: String) throws(StoreError) {
      try SetAside.move(from, to: to)
      moved.append((from, to))
    }
    do throws(StoreError) {
      try move(fresh, name + suffix)
      _ = DirectorySync.run(place.directory)
      // The store first: a process that opens it meanwhile finds none, and waits for the lock.
      for suffix in [""] + StoreSite.suffixes where FileStatus(of: place.beside(suffix)) != nil {
        try move(place.beside(suffix), name + suffix)
      }
      try move(name + suffix, place.path)
    } catch {
      moved.reversed().forEach { unsafe rename($0.to, $0.from) }
      throw error
    }
    _ = DirectorySync.run(place.directory)
  }

  /// Whether a store is missing because its replacement was interrupted.
  static func isPending(_ store: String) -> Bool { name(of: store) != nil }

  /// Completes a replacement that was interrupted; the caller holds the lock of the store.
  ///
  /// - Returns: Whether there was one.
  static func complete(
    _ store: String, at milliseconds: Int64
  ) throws(StoreError) -> Bool {
    guard FileStatus(of: store) == nil, let name = name(of: store) else { return false }
    for suffix in StoreSite.suffixes where FileStatus(of: store + suffix) != nil {
      let isFree = FileStatus(of: name + suffix) == nil
      try SetAside.move(
        store + suffix,
        to: isFree ? name + suffix : SetAside.name(for: store + suffix, at: milliseconds))
    }
    try SetAside.move(name + suffix, to: store)
    _ = DirectorySync.run(StorePath.split(store).directory)
    return true
  }

  static func interrupted(_ store: String) -> StoreError {
    StoreError(
      .missing, code: ENOENT,
      "a repair of the store \(StoreError.visible(store)) was interrupted: complete it with"
        + " 'cbctl doctor --repair'")
  }

  /// The name under which the damaged store was set aside before its replacement was interrupted.
  private static func name(of store: String) -> String? {
    let (directory, file) = StorePath.split(store)
    return DirectoryListing.names(directory)
      .filter { name in
        name.hasSuffix(suffix) && SetAside.infixes.contains { name.hasPrefix(file + $0) }
      }.sorted()
      .map { (directory == "/" ? "/" : directory + "/") + $0.dropLast(suffix.count) }
      .last { name in
        // A file that another user has planted is not a replacement.
        [name, name + suffix].allSatisfy { path in
          guard let file = FileStatus(of: path), file.isRegular else { return false }
          return !PlantedFile.isAnothers(file.rights.user, in: directory)
        }
      }
  }
}

/// Moving files out of the way.
enum SetAside {
  /// The text between the name of a file that was set aside and the time: because it was damaged, or
  /// because another one was wanted in its place.
  static let damaged = ".corrupt-"
  static let replaced = ".replaced-"
  static let infixes = [damaged, replaced]

  /// A free name beside the store: the store's name, the time, and a number if needed.
  static func name(
    for path: String, at milliseconds: Int64, infix: String = damaged
  ) -> String {
    let name = path + infix + UTC.text(milliseconds, as: "%Y%m%dT%H%M%SZ")
    var number = 1
    var free = name
    while ([""] + StoreSite.suffixes).contains(where: { FileStatus(of: free + $0) != nil }) {
      number += 1
      free = "\(name)-\(number)"
    }
    return free
  }

  static func move(_ path: String, to other: String) throws(StoreError) {
    guard unsafe rename(path, other) == 0 else {
      throw StoreError(errno: errno, doing: "set aside", path: path)
    }
  }

  /// A connection that holds the write lock; nil if the file is too damaged to be locked.
  static func lock(_ place: StoreSite, lockTimeout: Duration) throws(StoreError) -> Connection? {
    do throws(StoreError) {
      let connection = try Connection(path: place.path, lockTimeout: lockTimeout)
      try connection.execute("BEGIN IMMEDIATE")
      return connection
    } catch {
      guard error.kind == .corrupt || error.kind == .notAStore else { throw error }
      return nil
    }
  }
}

/// Points in time as the doctor writes them.
enum UTC {
  /// A point in time by the wall clock, in a format of `strftime`.
  static func text(_ milliseconds: Int64, as format: String) -> String {
    var seconds = time_t(milliseconds / 1_000)
    var parts = unsafe tm()
    unsafe gmtime_r(&seconds, &parts)
    var text = [CChar](repeating: 0, count: 32)
    let length = unsafe strftime(&text, text.count, format, &parts)
    return String(decoding: text[..<length].map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }
}
