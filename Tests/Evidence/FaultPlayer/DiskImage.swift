import FaultShim
import TestSupport

/// An operation on the disk of a store.
enum DiskEvent {
  case write(file: Int, offset: Int, bytes: [UInt8])
  case truncate(file: Int, length: Int)
  case delete(file: Int)

  /// Everything in the file is now on the disk.
  case sync(file: Int)

  /// The names of these files are now on the disk.
  case directorySync(names: Int32)

  /// The name of the store's directory is now on the disk.
  case outerDirectorySync

  /// This number of steps of the story are over.
  case mark(Int)

  /// Returns every event of the trace.
  static func all() -> [DiskEvent] { (0..<trace_count()).map { unsafe DiskEvent(trace_at($0)) } }

  private init(_ event: trace_event) {
    let file = unsafe Int(event.file)
    let offset = unsafe Int(event.offset)
    switch unsafe event.kind {
    case trace_write:
      let bytes = unsafe UnsafeBufferPointer(start: event.bytes, count: event.length)
      self = unsafe .write(file: file, offset: offset, bytes: Array(bytes))
    case trace_truncate: self = .truncate(file: file, length: offset)
    case trace_delete: self = .delete(file: file)
    case trace_sync: self = .sync(file: file)
    case trace_directory_sync:
      self = file == 0 ? unsafe .directorySync(names: event.names) : .outerDirectorySync
    default: self = .mark(offset)
    }
  }
}

/// The contents of a store on a disk: synced bytes, and bytes that a power cut may keep or lose.
struct DiskImage {
  private var files: [File]

  /// Whether the store's directory surely survives.
  private var hasDirectory: Bool

  private struct File {
    var bytes: [UInt8] = []
    var isNamed = false

    /// Whether the file has been deleted, which may not be on the disk yet.
    var isDeleted = false
    var pending: [DiskEvent] = []
  }

  private static let suffixes = ["", "-wal", "-journal"]
  private static let sector = 512

  /// Creates an image of the disk as it is now, with everything synced.
  init(ofStoreAt path: String) throws {
    files = try Self.suffixes.map { suffix in
      guard Files.exists(path + suffix) else { return File() }
      return File(bytes: try Files.read(path + suffix), isNamed: true)
    }
    hasDirectory = files[0].isNamed
  }

  /// Applies the next event to the disk.
  mutating func apply(_ event: DiskEvent) {
    switch event {
    case .write(let file, _, _), .truncate(let file, _):
      // After a deletion this is a new file with the same name.
      if files[file].isDeleted { files[file] = File() }
      files[file].pending.append(event)
    case .delete(let file): files[file].isDeleted = true
    case .sync(let file):
      for change in files[file].pending { Self.apply(change, to: &files[file].bytes) }
      files[file].pending = []
    case .directorySync(let names):
      for index in files.indices {
        files[index].isNamed = names & (1 << Int32(index)) != 0
        if !files[index].isNamed, files[index].isDeleted { files[index] = File() }
      }
    case .outerDirectorySync: hasDirectory = true
    case .mark: break
    }
  }

  /// Which unsynced changes a power cut keeps.
  enum Luck {
    case nothing, everything, something
  }

  /// Writes what would be found after a power cut at this moment.
  func write(asStoreAt path: String, _ luck: Luck, _ random: inout SeededRandom) throws {
    func isLucky() -> Bool {
      switch luck {
      case .nothing: false
      case .everything: true
      case .something: random.number(0...1) == 1
      }
    }
    Files.removeAll(StoreDirectory.of(path))
    guard hasDirectory || isLucky() else { return }
    try Files.makeDirectory(StoreDirectory.of(path), mode: 0o700)
    for (file, suffix) in zip(files, Self.suffixes) {
      guard file.isDeleted ? file.isNamed && !isLucky() : file.isNamed || isLucky() else {
        continue
      }
      var bytes = file.bytes
      for change in file.pending {
        switch luck {
        case .nothing: break
        case .everything: Self.apply(change, to: &bytes)
        case .something: Self.tear(change, into: &bytes, isLucky)
        }
      }
      try Files.write(path + suffix, bytes)
    }
  }

  /// Applies a change as a whole, not at all, or in some of its sectors.
  private static func tear(
    _ change: DiskEvent, into bytes: inout [UInt8], _ isLucky: () -> Bool
  ) {
    if isLucky() {
      if isLucky() { apply(change, to: &bytes) }
      return
    }
    guard case .write(_, let offset, let written) = change else { return }
    var rest = written[...]
    while !rest.isEmpty {
      let start = offset + rest.startIndex
      let part = rest.prefix((start / sector + 1) * sector - start)
      if isLucky() { copy(part, to: start, of: &bytes) }
      rest = rest[part.endIndex...]
    }
  }

  private static func apply(_ change: DiskEvent, to bytes: inout [UInt8]) {
    switch change {
    case .write(_, let offset, let written): copy(written[...], to: offset, of: &bytes)
    case .truncate(_, let length): resize(&bytes, to: length)
    case .delete, .sync, .directorySync, .outerDirectorySync, .mark: break
    }
  }

  private static func copy(_ part: ArraySlice<UInt8>, to start: Int, of bytes: inout [UInt8]) {
    if bytes.count < start + part.count { resize(&bytes, to: start + part.count) }
    bytes.replaceSubrange(start..<start + part.count, with: part)
  }

  private static func resize(_ bytes: inout [UInt8], to length: Int) {
    if bytes.count > length {
      bytes.removeLast(bytes.count - length)
    } else {
      bytes += [UInt8](repeating: 0, count: length - bytes.count)
    }
  }
}

enum StoreDirectory {
  static func of(_ path: String) -> String {
    "/" + path.split(separator: "/").dropLast().joined(separator: "/")
  }
}
