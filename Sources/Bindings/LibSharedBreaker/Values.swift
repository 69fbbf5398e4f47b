internal import BreakerCore
internal import CSharedBreaker
internal import SharedBreaker

/// Numbers of the C interface as values of the library.
enum Given {
  /// A time; nil for 0, which stands for the default.
  static func duration(
    _ nanoseconds: Int64, _ what: StaticString
  ) throws(Failure) -> Duration? {
    guard (0...longest).contains(nanoseconds) else {
      throw .argument("\(what) is \(nanoseconds) ns: give 0 to 365 days")
    }
    return nanoseconds == 0 ? nil : .nanoseconds(nanoseconds)
  }

  /// A time that an answer has named; 0 if it is over, because no report is lost over its time.
  static func named(_ nanoseconds: Int64) -> Int64 { min(max(nanoseconds, 0), longest) }

  private static func named(_ nanoseconds: Int64) -> Duration? {
    let time: Int64 = named(nanoseconds)
    return time == 0 ? nil : .nanoseconds(time)
  }

  private static let longest: Int64 = 365 * 86_400 * 1_000_000_000

  /// The flags of `sb_enter` with which a call may be healthy.
  @inline(__always) static var flagsOfHealthyCalls: UInt32 {
    UInt32(SB_NOWAIT.rawValue | SB_SURROUND.rawValue | SB_UNLIMITED.rawValue)
  }

  /// The flags of `sb_enter`.
  static var flagsOfEntering: UInt32 { flagsOfHealthyCalls | UInt32(SB_RETRY.rawValue) }

  /// The flags of `sb_turn_open` and `sb_turn_take`.
  static var flagsOfTurns: UInt32 {
    UInt32(SB_NOWAIT.rawValue | SB_SURROUND.rawValue | SB_RETRY.rawValue)
  }

  static func flags(_ flags: UInt32, allowed: sb_flags) throws(Failure) {
    try self.flags(flags, allowed: UInt32(allowed.rawValue))
  }

  static func flags(_ flags: UInt32, allowed: UInt32) throws(Failure) {
    guard flags & ~allowed == 0 else {
      throw .argument("the flags are \(flags): combine those that the function knows")
    }
  }

  static func size(
    _ size: UInt32, _ known: Int, _ what: StaticString
  ) throws(Failure) {
    guard Int(size) == known else {
      throw Failure(
        SB_ERR_SIZE, "the size of the \(what) is \(size), not \(known): use its macro")
    }
  }

  static func storeFailure(_ number: CInt) throws(Failure) -> StoreFailureAction? {
    switch number {
    case CInt(SB_STORE_DEFAULT.rawValue): nil
    case CInt(SB_ALONE.rawValue): .continueLocally
    case CInt(SB_PERMIT.rawValue): .permit
    case CInt(SB_REJECT.rawValue): .reject
    case CInt(SB_FAIL.rawValue): .throw
    default: throw .argument("\(number) is not in the enum sb_store_failure")
    }
  }

  static func mode(_ number: CInt) throws(Failure) -> BreakerMode {
    guard let mode = BreakerMode(rawValue: Int(number)) else {
      throw .argument("\(number) is not in the enum sb_mode")
    }
    return mode
  }

  /// How a call ended, and how long it took.
  static func outcome(
    _ number: CInt, _ details: UnsafePointer<sb_details>?
  ) throws(Failure) -> (CallOutcome, elapsed: Duration?) {
    var error: String?
    var openTime: Duration?
    var holdTime: Duration?
    var elapsed: Duration?
    if let details = unsafe details?.pointee {
      try unsafe size(details.size, MemoryLayout<sb_details>.size, "details")
      error = try unsafe CText.repaired(details.error, details.error_length, "error text")
      openTime = unsafe named(details.open_for_ns)
      holdTime = unsafe named(details.hold_for_ns)
      elapsed = try unsafe duration(details.elapsed_ns, "elapsed_ns")
    }
    switch number {
    case CInt(SB_SUCCESS.rawValue): return (.success, elapsed)
    case CInt(SB_FAILURE.rawValue): return (.failure(opensFor: openTime, error: error), elapsed)
    case CInt(SB_PERMANENT_FAILURE.rawValue): return (.permanentFailure(error: error), elapsed)
    case CInt(SB_IGNORED.rawValue): return (.ignored, elapsed)
    case CInt(SB_HOLD.rawValue): return (.hold(for: holdTime, reason: error), elapsed)
    default: throw .argument("\(number) is not in the enum sb_outcome")
    }
  }
}

extension ReportVerdict {
  var code: sb_code {
    switch self {
    case .counted: SB_OK
    case .outdated: SB_OUTDATED
    case .refused: SB_REFUSED
    }
  }
}

extension sb_rejection {
  /// Becomes the rejection of an open breaker that no operator has touched.
  ///
  /// ``SharedBreaker/Rejection/fill(_:)`` in a few instructions, for callers in a loop.
  @inline(__always) mutating func be(isHeld: Bool, for nanoseconds: Int64) {
    state = Int32((isHeld ? SB_CLOSED : SB_OPEN).rawValue)
    mode = Int32(SB_AUTOMATIC.rawValue)
    retry_after_ns = nanoseconds
    cause = Int32((isHeld ? SB_CAUSE_HELD : SB_CAUSE_OPEN).rawValue)
    reason.0 = 0
    reason_length = 0
  }
}

extension Rejection {
  /// Puts the rejection where the caller wants it.
  func fill(_ rejection: UnsafeMutablePointer<sb_rejection>?) {
    guard let rejection = unsafe rejection else { return }
    unsafe rejection.pointee.state = Int32(state.rawValue)
    unsafe rejection.pointee.mode = Int32(mode.rawValue)
    unsafe rejection.pointee.retry_after_ns = retryAfter?.inNanoseconds ?? Int64(SB_UNKNOWN)
    unsafe rejection.pointee.cause = Int32(cause.code.rawValue)
    unsafe withUnsafeMutableBytes(of: &rejection.pointee.reason) { room in
      let text = reason.map { OutsideText.cut($0, to: room.count - 1) } ?? ""
      unsafe room.copyBytes(from: text.utf8)
      unsafe room[text.utf8.count] = 0
      unsafe rejection.pointee.reason_length = Int32(text.utf8.count)
    }
  }

  init(_ rejection: sb_rejection) throws(Failure) {
    try Given.size(rejection.size, MemoryLayout<sb_rejection>.size, "rejection")
    guard let state = BreakerState(rawValue: Int(rejection.state)),
      let mode = BreakerMode(rawValue: Int(rejection.mode)),
      let cause = RejectionCause.allCases.first(where: { $0.code.rawValue == rejection.cause })
    else { throw .argument("not a rejection of sb_enter()") }
    let reason = unsafe withUnsafeBytes(of: rejection.reason) { room in
      unsafe String(decoding: room.prefix { $0 != 0 }, as: UTF8.self)
    }
    self.init(
      state: state, mode: mode,
      retryAfter: rejection.retry_after_ns < 0 ? nil : .nanoseconds(rejection.retry_after_ns),
      reason: reason.isEmpty ? nil : reason, cause: cause)
  }
}

extension RejectionCause {
  fileprivate var code: sb_cause {
    switch self {
    case .open: SB_CAUSE_OPEN
    case .held: SB_CAUSE_HELD
    case .ramping: SB_CAUSE_RAMPING
    case .rate: SB_CAUSE_RATE
    case .retryBudget: SB_CAUSE_RETRY_BUDGET
    case .busy: SB_CAUSE_BUSY
    @unknown default: SB_CAUSE_OPEN
    }
  }
}
