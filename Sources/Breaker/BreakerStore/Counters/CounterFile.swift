internal import CHost
internal import Glibc

/// The file behind the counter page: a header, and a place for the counters of each breaker, by id.
///
/// The file holds statistics and never state, so it may be lost at any time. A file that does not
/// fit is replaced by a new one.
@safe struct CounterFile {
  typealias Place = SharedFile.Place

  static let kind = SharedFile.Kind(
    // "SBCOUNTS". The header takes as much space as the largest page that a processor may have.
    suffix: "-counters", magic: 0x5342_434F_554E_5453, layout: 2, bytesOfHeader: 65_536)

  static var suffix: String { kind.suffix }

  /// The number of breakers in one segment, the unit in which space is reserved and mapped.
  static let breakersOfSegment = 1_024

  /// The counters of a breaker occupy cache lines of the processor by themselves: those of healthy calls are in the
  /// first one.
  static let bytesOfCounters = 128
  static let bytesOfMarks = 128
  static let bytesOfAttempts = AttemptTally.wordCount * 8
  static let bytesOfSegment =
    breakersOfSegment * (bytesOfCounters + bytesOfMarks + bytesOfAttempts)

  private let file: SharedFile

  var descriptor: Int32 { file.descriptor }
  var identity: FileIdentity { file.identity }

  /// Whether this file has just replaced one that did not fit.
  var isReplacement: Bool { file.isReplacement }

  /// The header, if it is intact and of this layout.
  var header: SharedFile.Header? { file.header }

  static func offset(ofSegment segment: Int) -> Int {
    kind.bytesOfHeader + segment * bytesOfSegment
  }

  /// Whether the file has had room for a segment since it was opened.
  func has(segment: Int) -> Bool { file.size >= Self.offset(ofSegment: segment + 1) }

  /// Reserves the space of a segment and maps it; nil if there is none.
  func map(segment: Int) -> UnsafeMutableRawPointer? {
    guard Self.reserve(segment, in: file) else { return nil }
    return unsafe file.map(Self.offset(ofSegment: segment), Self.bytesOfSegment)
  }

  private static func reserve(_ segment: Int, in file: SharedFile) -> Bool {
    file.reserve(offset(ofSegment: segment), bytesOfSegment)
  }

  /// Opens the file of a store, and creates it if there is none that fits; `SharedFile.open` has the
  /// parameters.
  static func open(
    _ place: Place, isOfThisBoot: Bool, mayReplace: Bool, atMost timeout: Duration
  ) throws(StoreError) -> CounterFile? {
    let file = try SharedFile.open(
      kind, place, isOfThisBoot: isOfThisBoot, mayReplace: mayReplace, atMost: timeout,
      fill: { takeOverTotals(of: $1, into: $0, at: place) })
    return file.map { CounterFile(file: $0) }
  }

  static func opened(_ path: String, _ flags: Int32) -> CounterFile? {
    SharedFile.opened(kind, path, flags).map { CounterFile(file: $0) }
  }

  /// Whether an open file begins as the counters of some store do.
  static func hasHeader(_ descriptor: Int32) -> Bool { SharedFile.hasHeader(descriptor, kind) }

  /// Copies the counters of an earlier boot without the marks, whose times belong to that boot.
  ///
  /// - Returns: False if there are any and they cannot be copied.
  private static func takeOverTotals(
    of earlier: SharedFile?, into new: SharedFile, at place: Place
  ) -> Bool {
    guard let earlier, earlier.header?.store == place.store else { return true }
    var bytes = [UInt8](repeating: 0, count: breakersOfSegment * bytesOfCounters)
    let size = lseek(earlier.descriptor, 0, SEEK_END)
    var segment = 0
    while offset(ofSegment: segment + 1) <= size {
      let offset = offset(ofSegment: segment)
      guard unsafe pread(earlier.descriptor, &bytes, bytes.count, offset) == bytes.count else {
        return false
      }
      // Deleted breakers leave holes in the file, which stay holes in the copy.
      if bytes.contains(where: { $0 != 0 }) {
        guard reserve(segment, in: new),
          unsafe pwrite(new.descriptor, bytes, bytes.count, offset) == bytes.count
        else { return false }
      }
      segment += 1
    }
    return true
  }
}

/// Reading without a mapping, from the file of a store that is being abandoned.
extension CounterFile {
  /// The counts of a breaker since its row was written; nil if these are not its counters.
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
