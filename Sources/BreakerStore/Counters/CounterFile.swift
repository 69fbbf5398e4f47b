internal import CHost
internal import Glibc

/// The file behind the counter page: a header, and a place for the counters of each breaker, by id.
///
/// The file holds statistics and never state, so it may be lost at any time. A file that does not
/// fit is replaced by a new one.
@safe struct CounterFile {
  static let suffix = "-counters"

  /// The number of breakers in one segment, the unit in which space is reserved and mapped.
  static let breakersOfSegment = 1_024

  /// The counters of a breaker occupy a cache line of the processor by themselves.
  static let bytesOfCounters = 64
  static let bytesOfMarks = 128
  static let bytesOfSegment = breakersOfSegment * (bytesOfCounters + bytesOfMarks)

  /// The header takes as much space as the largest page that a processor may have.
  private static let bytesOfHeader = 65_536

  let descriptor: Int32
  let identity: FileIdentity

  /// The size that the file had when it was opened.
  private let size: Int64

  /// Whether this file has just replaced one that did not fit.
  let isReplacement: Bool

  static func offset(ofSegment segment: Int) -> Int {
    bytesOfHeader + segment * bytesOfSegment
  }

  /// Whether the file has had room for a segment since it was opened.
  func has(segment: Int) -> Bool { size >= Self.offset(ofSegment: segment + 1) }

  /// Reserves the space of a segment; false if there is none.
  func reserve(segment: Int) -> Bool {
    sb_reserve(
      descriptor, Int64(Self.offset(ofSegment: segment)), Int64(Self.bytesOfSegment)) == 0
  }
}

/// Opening and creating.
extension CounterFile {
  /// Where the file lies, and which store and boot it has to belong to.
  struct Place: Sendable, Hashable {
    var storePath: String
    var store: Int64
    var boot: Int64

    var path: String { storePath + CounterFile.suffix }
  }

  /// What was found at the path of the counters.
  enum Found {
    case fitting(CounterFile)

    /// No file, or one that this process cannot open.
    case nothing

    /// A file of another store, of another boot, or of no store at all.
    case other
  }

  /// Opens the file of a store, and creates it if there is none that fits.
  ///
  /// - Parameters:
  ///   - place: Where the file lies, and which store and boot it has to belong to.
  ///   - isOfThisBoot: Whether only this boot can have put a file there, whatever boot the file
  ///     names. This is so if the process has used the counters before, because it has not been
  ///     through a reboot since.
  ///   - mayReplace: Whether a file that does not fit may be replaced.
  ///   - timeout: How long to wait for processes that are creating it; keep this short while a
  ///     transaction is open.
  /// - Returns: The file; nil if one that does not fit is in its place, or if it cannot be created.
  /// - Throws: What was missing to open it.
  static func open(
    _ place: Place, isOfThisBoot: Bool, mayReplace: Bool, atMost timeout: Duration
  ) throws(StoreError) -> CounterFile? {
    switch found(at: place, isOfThisBoot: isOfThisBoot) {
    case .fitting(let file): return file
    case .other where !mayReplace: return nil
    case .other, .nothing: break
    }
    return try StoreLock.held(place.storePath, atMost: timeout) { _ throws(StoreError) in
      // Another process may have created it meanwhile.
      switch found(at: place, isOfThisBoot: isOfThisBoot) {
      case .fitting(let file): return file
      case .nothing: return try created(at: place, replacing: false)
      case .other: return mayReplace ? try created(at: place, replacing: true) : nil
      }
    }
  }

  private static func found(at place: Place, isOfThisBoot: Bool) -> Found {
    guard let file = opened(place.path, O_RDWR) else { return .nothing }
    let header = file.header
    if header == Header(store: place.store, boot: place.boot) { return .fitting(file) }
    if isOfThisBoot, header?.store == place.store { return .fitting(file) }
    close(file.descriptor)
    return .other
  }

  /// Creates the file; the caller holds the lock of the store.
  private static func created(
    at place: Place, replacing isReplacement: Bool
  ) throws(StoreError) -> CounterFile? {
    // Users of the store may count in the file, and nobody else, even if root creates it.
    guard let rights = FileStatus(of: place.storePath)?.rights else { return nil }
    let header = Header(store: place.store, boot: place.boot)
    let name = place.path + ".new"
    // A file that is there and does not fit leaves the number as it was.
    errno = 0
    let earlier = opened(place.path, O_RDONLY)
    if earlier == nil, StoreError.isOfDescriptors(errno) {
      throw StoreError(errno: errno, doing: "use", path: place.path)
    }
    defer { if let earlier { close(earlier.descriptor) } }
    unsafe unlink(name)
    let descriptor = try NewFile.create(name, rights, mustHave: true)
    guard let file = CounterFile(descriptor, isReplacement: isReplacement) else { return nil }
    let isReady =
      sb_reserve(file.descriptor, 0, Int64(bytesOfHeader)) == 0
      && file.takeOverTotals(of: earlier, header) && file.write(header)
    guard isReady, unsafe rename(name, place.path) == 0 else {
      close(file.descriptor)
      unsafe unlink(name)
      return nil
    }
    return file
  }

  static func opened(_ path: String, _ flags: Int32) -> CounterFile? {
    let descriptor = unsafe Glibc.open(path, flags | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK)
    guard descriptor >= 0 else { return nil }
    // The owner of the file can truncate it, which would kill every process that has it mapped.
    let store = FileStatus(of: String(path.dropLast(suffix.count)))
    return CounterFile(descriptor) { file in
      file.isRegular
        && !PlantedFile.isAnothers(file.rights.user, in: StorePath.split(path).directory)
        && store.map { !PlantedFile.isStrange(file, beside: $0) } != false
    }
  }

  /// Takes ownership of a descriptor, and closes it if the file is not as required.
  private init?(
    _ descriptor: Int32, isReplacement: Bool = false, if isFit: (FileStatus) -> Bool = { _ in true }
  ) {
    var status = stat()
    guard unsafe fstat(descriptor, &status) == 0, isFit(FileStatus(status)) else {
      close(descriptor)
      return nil
    }
    self.descriptor = descriptor
    identity = FileStatus(status).identity
    size = Int64(status.st_size)
    self.isReplacement = isReplacement
  }

  /// Copies the counters of an earlier boot without the marks, whose times belong to that boot.
  ///
  /// - Returns: False if there are any and they cannot be copied.
  private func takeOverTotals(of earlier: CounterFile?, _ header: Header) -> Bool {
    guard let earlier, earlier.header?.store == header.store else { return true }
    var bytes = [UInt8](repeating: 0, count: Self.breakersOfSegment * Self.bytesOfCounters)
    let size = lseek(earlier.descriptor, 0, SEEK_END)
    var segment = 0
    while Self.offset(ofSegment: segment + 1) <= size {
      let offset = Self.offset(ofSegment: segment)
      guard unsafe pread(earlier.descriptor, &bytes, bytes.count, offset) == bytes.count else {
        return false
      }
      // Deleted breakers leave holes in the file, which stay holes in the copy.
      if bytes.contains(where: { $0 != 0 }) {
        guard reserve(segment: segment),
          unsafe pwrite(descriptor, bytes, bytes.count, offset) == bytes.count
        else { return false }
      }
      segment += 1
    }
    return true
  }
}

/// Reading without a mapping, from the file of a store that is being abandoned.
extension CounterFile {
  /// What was counted for a breaker since its row was written; nil if these are not its counters.
  func counted(since breaker: StoredBreaker) -> Counted? {
    guard breaker.id > 0, breaker.id < CounterPage.limit, breaker.countersKey != 0 else {
      return nil
    }
    let (segment, index) = Int(breaker.id).quotientAndRemainder(
      dividingBy: Self.breakersOfSegment)
    let offset = Self.offset(ofSegment: segment) + index * Self.bytesOfCounters
    let counters = Counters.allocate()
    defer { counters.deallocate() }
    let count = unsafe pread(descriptor, counters.address, Self.bytesOfCounters, offset)
    guard count == Self.bytesOfCounters,
      counters.key.magnitude == breaker.countersKey.magnitude
    else { return nil }
    return counters.read().since(breaker.takenIn)
  }
}

/// The beginning of the file.
extension CounterFile {
  struct Header: Hashable {
    /// "SBCOUNTS", followed by the number of this layout.
    static let magic: UInt64 = 0x5342_434F_554E_5453
    static let layout: UInt64 = 1

    var store: Int64
    var boot: Int64

    var words: [UInt64] {
      let fields = [
        Self.magic, Self.layout, UInt64(bitPattern: store), UInt64(bitPattern: boot),
      ]
      let bytes = Blobs.pack(fields.map { Int64(bitPattern: $0) })
      return fields + [UInt64(bitPattern: Checksum.of(bytes))]
    }
  }

  /// The header, if it is intact and of this layout.
  var header: Header? { Self.header(descriptor) }

  /// Whether an open file begins as the counters of some store do.
  static func hasHeader(_ descriptor: Int32) -> Bool { header(descriptor) != nil }

  private static func header(_ descriptor: Int32) -> Header? {
    var words = [UInt64](repeating: 0, count: 5)
    guard unsafe pread(descriptor, &words, 40, 0) == 40 else { return nil }
    let header = Header(store: Int64(bitPattern: words[2]), boot: Int64(bitPattern: words[3]))
    return words == header.words ? header : nil
  }

  private func write(_ header: Header) -> Bool {
    unsafe pwrite(descriptor, header.words, 40, 0) == 40
  }
}
