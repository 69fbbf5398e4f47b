internal import CHost
internal import Glibc

/// Which file a log, and the log's index, belong to.
///
/// They do not say so themselves: SQLite takes a log for that of whatever file lies beside it
/// (sqlite.org/howtocorrupt.html, 1.4). So whoever opens a store notes the three files together, and
/// whoever comes first after one of them was replaced finds out.
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

  /// The parts beside a store that were noted with another file, or with another log.
  static func strangers(beside store: String) -> [String] {
    guard let noted = noted(of: store) else { return [] }
    let log = FileOrigin(of: store + StoreFile.logSuffix)
    let isOtherFile = FileOrigin(of: store) != noted.main
    var parts: [String] = []
    if isOtherFile, log == noted.log { parts.append(StoreFile.logSuffix) }
    if isOtherFile || log != noted.log,
      FileOrigin(of: store + StoreFile.indexSuffix) == noted.index
    {
      parts.append(StoreFile.indexSuffix)
    }
    return parts
  }

  /// Moves what was noted with another file out of the way, before SQLite sees it.
  static func setAsideStrangers(
    beside store: String, in directory: String, lockTimeout: Duration
  ) throws(StoreError) {
    if strangers(beside: store).isEmpty { return }
    try DirectoryLock.held(directory, atMost: lockTimeout) {
      // Whoever was first may have begun another log.
      strangers(beside: store).forEach { StoreFile.setAside(store + $0) }
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
  }

  fileprivate init(_ words: ArraySlice<UInt64>) {
    identity = FileIdentity(device: words[words.startIndex], inode: words[words.startIndex + 1])
    born = words[words.startIndex + 2]
  }

  fileprivate var words: [UInt64] { [identity.device, identity.inode, born] }
}
