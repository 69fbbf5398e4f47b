internal import BreakerCore
internal import CSQLite
internal import Glibc

/// The foundations of the store: the file system, and SQLite.
enum DiskExamination {
  static func findings(_ place: StoreSite) -> [StoreFinding] {
    [disk(place), sqlite(number: sqlite3_libversion_number())]
  }

  /// The log alone may take half of this before it is truncated.
  static let littleRoom: UInt64 = UInt64(LogLength.limitInBytes) * 8
  private static let fewFiles: UInt64 = 100

  private static func disk(_ place: StoreSite) -> StoreFinding {
    if let name = FileSystem.networkName(of: place.directory) {
      return StoreFinding(
        .disk, .bad, "\(name), a network file system",
        means: "processes cannot share the store there safely, so they refuse it",
        repair: "none: move the store to a local disk")
    }
    var status = statvfs()
    guard unsafe statvfs(place.directory, &status) == 0 else {
      return StoreFinding(.disk, .warning, "its free space cannot be read")
    }
    let room = UInt64(status.f_bavail) * UInt64(status.f_frsize)
    let files = status.f_files == 0 ? nil : UInt64(status.f_favail)
    let kind = FileSystem.localName(of: place.directory) ?? "a local disk"
    let found =
      "\(kind), \(room >> 20 > 0 ? "\(room >> 20) MiB" : "\(room >> 10) KiB")"
      + (files.map { " and " + CountedNoun.text($0, "file") } ?? "") + " free"
    if status.f_flag & UInt(ST_RDONLY) != 0 {
      return StoreFinding(
        .disk, .bad, "\(found), read-only",
        means: "nothing can be written, so each process goes on with breakers of its own",
        repair: "none: mount it writable")
    }
    guard room >= littleRoom, files ?? fewFiles >= fewFiles else {
      return StoreFinding(
        .disk, .warning, found,
        means: "it is nearly full: once it is, each process goes on with breakers of its own",
        repair: "none: free some space")
    }
    guard Lifelines.areKept(in: place.path) else {
      return StoreFinding(
        .disk, .note, "\(found); it keeps no lock for a process as long as the process lives",
        means: "if a prober dies that others cannot see, as in another container, its slot is free"
          + " at its deadline")
    }
    return StoreFinding(.disk, .ok, found)
  }

  /// The finding for a version of SQLite, given as 3040001 for 3.40.1.
  static func sqlite(number: Int32) -> StoreFinding {
    let version = "\(number / 1_000_000).\(number / 1_000 % 1_000).\(number % 1_000)"
    if number < 3_038_000 {
      return StoreFinding(
        .sqlite, .bad, "SQLite \(version)", means: "it is too old: 3.38 or later is required",
        repair: "none: upgrade SQLite")
    }
    guard number < 3_051_003 else { return StoreFinding(.sqlite, .ok, "SQLite \(version)") }
    return StoreFinding(
      .sqlite, .note, "SQLite \(version)",
      means: "before 3.51.3, a checkpoint that overlaps a commit can damage a file:"
        + " SharedBreaker prevents that; do not let another program checkpoint the store while it is"
        + " in use")
  }
}
