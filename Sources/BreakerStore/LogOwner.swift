internal import CHost
internal import Glibc

/// Which file a log, and the log's index, belong to.
///
/// They do not say so themselves: SQLite takes a log for that of whatever file lies beside it
/// (sqlite.org/howtocorrupt.html, 1.4). So whoever opens a store notes the three files together, and
/// whoever starts after one was replaced, and before those who run have noticed, finds out.
struct LogOwner: Hashable {
  private let main: FileOrigin
  private let log: FileOrigin
  private let index: FileOrigin

  /// The files that are there now; nil unless there are all of them.
  init?(of store: String) {
    guard let main = FileOrigin(of: store),
      let log = FileOrigin(of: store + StoreFile.logSuffix),
      let index = FileOrigin(of: store + StoreFile.indexSuffix)
    else { return nil }
    self.main = main
    self.log = log
    self.index = index
  }

  /// Whether the log beside a store is that of a file which was there before, and is still in use.
  ///
  /// Where nobody uses it, the file may have been replaced by its own copy: then the log is needed.
  static func isOfAnother(beside store: String) -> Bool {
    guard let noted = noted(of: store), let main = FileOrigin(of: store), main != noted.main,
      FileOrigin(of: store + StoreFile.logSuffix) == noted.log,
      FileOrigin(of: store + StoreFile.indexSuffix) == noted.index
    else { return false }
    return noted.index.isLocked
  }

  /// Moves the log of another file out of the way, before SQLite sees it.
  static func setAsideAnothers(
    beside store: String, in directory: String, lockTimeout: Duration
  ) throws(StoreError) {
    guard isOfAnother(beside: store) else { return }
    try DirectoryLock.held(directory, atMost: lockTimeout) { () throws(StoreError) in
      // Whoever was first may have begun another log.
      guard isOfAnother(beside: store) else { return }
      for suffix in [StoreFile.logSuffix, StoreFile.indexSuffix] {
        StoreFile.setAside(store + suffix)
      }
      guard !isOfAnother(beside: store) else {
        throw StoreError(
          .busy,
          "the store \(StoreError.visible(store)) was replaced, and the old file's log is still in"
            + " its place: try again")
      }
    }
  }
}

/// The note: in the header of the counters, where it is no harm if it is lost.
extension LogOwner {
  private static let offset: off_t = 4_096
  private static let magic: UInt64 = 0x4C4F_474F_574E_4552
  private static let bytes = 11 * 8

  private static func noted(of store: String) -> LogOwner? {
    guard let file = CounterFile.opened(store + CounterFile.suffix, O_RDONLY) else { return nil }
    defer { close(file.descriptor) }
    return read(file)
  }

  private static func read(_ file: CounterFile) -> LogOwner? {
    var words = [UInt64](repeating: 0, count: bytes / 8)
    guard unsafe pread(file.descriptor, &words, bytes, offset) == bytes else { return nil }
    let owner = LogOwner(
      main: FileOrigin(words[1..<4]), log: FileOrigin(words[4..<7]),
      index: FileOrigin(words[7..<10]))
    return words == owner.words ? owner : nil
  }

  private init(main: FileOrigin, log: FileOrigin, index: FileOrigin) {
    self.main = main
    self.log = log
    self.index = index
  }

  private var words: [UInt64] {
    let words = [Self.magic] + main.words + log.words + index.words
    let bytes = Blobs.pack(words.map { Int64(bitPattern: $0) })
    return words + [UInt64(bitPattern: Checksum.of(bytes))]
  }

  /// Notes the files together, for those who come later.
  func note(beside store: String) {
    guard let file = CounterFile.opened(store + CounterFile.suffix, O_RDWR) else { return }
    defer { close(file.descriptor) }
    if Self.read(file) == self { return }
    unsafe pwrite(file.descriptor, words, Self.bytes, Self.offset)
  }
}

/// A file, and when it was made: its number alone is given to another one after it.
struct FileOrigin: Hashable {
  private let identity: FileIdentity
  private let born: UInt64

  init?(of path: String) {
    guard let identity = StoreFile.identity(of: path) else { return nil }
    self.identity = identity
    born = unsafe sb_born(path)
    // Without it another file could pass for this one.
    if born == 0 { return nil }
  }

  /// Whether a process holds a lock on it, as all do who have an index open.
  fileprivate var isLocked: Bool { !HeldLock.all(on: identity).isEmpty }

  fileprivate init(_ words: ArraySlice<UInt64>) {
    identity = FileIdentity(device: words[words.startIndex], inode: words[words.startIndex + 1])
    born = words[words.startIndex + 2]
  }

  fileprivate var words: [UInt64] { [identity.device, identity.inode, born] }
}
