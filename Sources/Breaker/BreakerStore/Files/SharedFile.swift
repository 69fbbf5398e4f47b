internal import CHost
internal import Glibc

/// A file beside a store that its processes map into memory, and that begins with a header which ties
/// it to the store and to a boot.
///
/// It never holds what has to survive, so it may be lost at any time. A file that does not fit is
/// replaced by a new one.
@safe struct SharedFile {
  /// The purpose of the file, with its name and its layout.
  struct Kind: Sendable, Hashable {
    /// The suffix that its name adds to the store's.
    let suffix: String

    /// The first word of the file, and the number of the layout.
    let magic: UInt64
    let layout: UInt64

    /// The space that is reserved when the file is created.
    let bytesOfHeader: Int
  }

  /// Where the file lies, and which store and boot it has to belong to.
  struct Place: Sendable, Hashable {
    var storePath: String
    var store: Int64
    var boot: Int64

    func path(of kind: Kind) -> String { storePath + kind.suffix }
  }

  let kind: Kind
  let descriptor: Int32
  let identity: FileIdentity

  /// The size that the file had when it was opened.
  let size: Int64

  /// Whether this file has just replaced one that did not fit.
  let isReplacement: Bool

  /// Reserves the space of a part, and of the pages of memory that it touches; false if there is none.
  func reserve(_ offset: Int, _ length: Int) -> Bool {
    let page = Int64(getpagesize())
    let start = Int64(offset) / page * page
    let end = (Int64(offset + length) + page - 1) / page * page
    return sb_reserve(descriptor, start, end - start) == 0
  }

  /// Maps a part of the file that has been reserved; nil if the system refuses.
  ///
  /// Map only what has been reserved, or a full disk would kill the process.
  func map(_ offset: Int, _ length: Int) -> UnsafeMutableRawPointer? {
    let address = unsafe mmap(
      nil, length, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, offset)
    return unsafe address == MAP_FAILED ? nil : address
  }
}

/// Opening and creating.
extension SharedFile {
  /// The result of opening the path of a file.
  private enum Found {
    case fitting(SharedFile)

    /// No file, or one that this process cannot open.
    case nothing

    /// A file of another store, of another boot, or of no store at all.
    case other
  }

  /// Opens the file of a store, and creates it if there is none that fits.
  ///
  /// - Parameters:
  ///   - kind: The kind of file.
  ///   - place: Where the file lies, and which store and boot it has to belong to.
  ///   - isOfThisBoot: Whether only this boot can have put a file there, whatever boot the file
  ///     names. This is so if the process has used the file before, because it has not been
  ///     through a reboot since.
  ///   - mayReplace: Whether a file that does not fit may be replaced.
  ///   - timeout: How long to wait for processes that are creating it; keep this short while a
  ///     transaction is open.
  ///   - fill: Fills a new file before others see it, perhaps with what the one before it holds, if
  ///     there is one; false if that failed.
  /// - Returns: The file; nil if one that does not fit is in its place, or if it cannot be created.
  /// - Throws: `StoreError` if the lock of the store cannot be taken in time, or the file not be
  ///   opened.
  static func open(
    _ kind: Kind, _ place: Place, isOfThisBoot: Bool, mayReplace: Bool, atMost timeout: Duration,
    fill: (SharedFile, _ earlier: SharedFile?) -> Bool = { _, _ in true }
  ) throws(StoreError) -> SharedFile? {
    switch found(kind, at: place, isOfThisBoot: isOfThisBoot) {
    case .fitting(let file): return file
    case .other where !mayReplace: return nil
    case .other, .nothing: break
    }
    return try StoreLock.held(place.storePath, atMost: timeout) { _ throws(StoreError) in
      // Another process may have created it meanwhile.
      switch found(kind, at: place, isOfThisBoot: isOfThisBoot) {
      case .fitting(let file): return file
      case .nothing: return try created(kind, at: place, replacing: false, fill)
      case .other: return mayReplace ? try created(kind, at: place, replacing: true, fill) : nil
      }
    }
  }

  private static func found(_ kind: Kind, at place: Place, isOfThisBoot: Bool) -> Found {
    guard let file = opened(kind, place.path(of: kind), O_RDWR) else { return .nothing }
    let header = file.header
    if header == Header(store: place.store, boot: place.boot) { return .fitting(file) }
    if isOfThisBoot, header?.store == place.store { return .fitting(file) }
    close(file.descriptor)
    return .other
  }

  /// Creates the file; the caller holds the lock of the store.
  private static func created(
    _ kind: Kind, at place: Place, replacing isReplacement: Bool,
    _ fill: (SharedFile, SharedFile?) -> Bool
  ) throws(StoreError) -> SharedFile? {
    // Only users of the store may write to the file, even if root creates it.
    guard let rights = FileStatus(of: place.storePath)?.rights else { return nil }
    let header = Header(store: place.store, boot: place.boot)
    let path = place.path(of: kind)
    let name = path + ".new"
    // A file that is there and does not fit leaves the number as it was.
    errno = 0
    let earlier = opened(kind, path, O_RDONLY)
    if earlier == nil, StoreError.isOfDescriptors(errno) {
      throw StoreError(errno: errno, doing: "use", path: path)
    }
    defer { if let earlier { close(earlier.descriptor) } }
    unsafe unlink(name)
    let descriptor = try NewFile.create(name, rights, mustHave: true)
    guard let file = SharedFile(kind, descriptor, isReplacement: isReplacement) else { return nil }
    let isReady =
      file.reserve(0, kind.bytesOfHeader) && fill(file, earlier) && file.write(header)
    guard isReady, unsafe rename(name, path) == 0 else {
      close(file.descriptor)
      unsafe unlink(name)
      return nil
    }
    return file
  }

  /// Opens the file at a path, whatever it belongs to.
  static func opened(_ kind: Kind, _ path: String, _ flags: Int32) -> SharedFile? {
    let descriptor = unsafe Glibc.open(path, flags | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK)
    guard descriptor >= 0 else { return nil }
    // The owner of the file can truncate it, which would kill every process that has it mapped.
    let store = FileStatus(of: String(path.dropLast(kind.suffix.count)))
    return SharedFile(kind, descriptor) { file in
      file.isRegular
        && !PlantedFile.isAnothers(file.rights.user, in: StorePath.split(path).directory)
        && store.map { !PlantedFile.isStrange(file, beside: $0) } != false
    }
  }

  /// Takes ownership of a descriptor, and closes it if the file is not as required.
  private init?(
    _ kind: Kind, _ descriptor: Int32, isReplacement: Bool = false,
    if isFit: (FileStatus) -> Bool = { _ in true }
  ) {
    var status = stat()
    guard unsafe fstat(descriptor, &status) == 0, isFit(FileStatus(status)) else {
      close(descriptor)
      return nil
    }
    self.kind = kind
    self.descriptor = descriptor
    identity = FileStatus(status).identity
    size = Int64(status.st_size)
    self.isReplacement = isReplacement
  }
}

/// The beginning of the file.
extension SharedFile {
  struct Header: Hashable {
    var store: Int64
    var boot: Int64

    func words(_ kind: Kind) -> [UInt64] {
      let fields = [
        kind.magic, kind.layout, UInt64(bitPattern: store), UInt64(bitPattern: boot),
      ]
      let bytes = Blobs.pack(fields.map { Int64(bitPattern: $0) })
      return fields + [UInt64(bitPattern: Checksum.of(bytes))]
    }
  }

  /// The header, if it is intact and of this layout.
  var header: Header? { Self.header(descriptor, kind) }

  /// Whether an open file begins as those of some store do.
  static func hasHeader(_ descriptor: Int32, _ kind: Kind) -> Bool {
    header(descriptor, kind) != nil
  }

  private static func header(_ descriptor: Int32, _ kind: Kind) -> Header? {
    var words = [UInt64](repeating: 0, count: 5)
    guard unsafe pread(descriptor, &words, 40, 0) == 40 else { return nil }
    let header = Header(store: Int64(bitPattern: words[2]), boot: Int64(bitPattern: words[3]))
    return words == header.words(kind) ? header : nil
  }

  private func write(_ header: Header) -> Bool {
    unsafe pwrite(descriptor, header.words(kind), 40, 0) == 40
  }
}
