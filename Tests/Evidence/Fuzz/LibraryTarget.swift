import CSharedBreaker

/// Checks that the C library answers every mistake with a code, and uses a permit exactly once.
///
/// The store cannot be used, so that nothing is written and every call goes on alone.
enum LibraryTarget {
  static func run(_ bytes: [UInt8]) {
    var bytes = FuzzBytes(bytes)
    var store: OpaquePointer?
    expect(unsafe sb_open("/proc/no/store", Int64(SB_NUL), nil, &store) == 0, "no store")
    let breakers = unsafe (0..<2).map { _ in unsafe open(&bytes, of: store) }
    var permits = [sb_permit(), sb_permit()]
    for index in permits.indices { permits[index].size = UInt32(MemoryLayout<sb_permit>.size) }
    while !bytes.isEmpty {
      let breaker = unsafe breakers[bytes.number(below: 2)]
      let place = bytes.number(below: 2)
      unsafe step(&bytes, breaker, &permits[place], store)
    }
    unsafe breakers.forEach { unsafe sb_breaker_free($0) }
    expect(unsafe sb_close(store) == 0, "the store does not close")
  }

  /// A breaker with a name and a policy of the fuzzer, or else one that is always possible.
  private static func open(_ bytes: inout FuzzBytes, of store: OpaquePointer?) -> OpaquePointer? {
    var breaker: OpaquePointer?
    let (name, policy) = (text(&bytes), text(&bytes))
    let code = unsafe sb_breaker_open(
      store, name, Int64(name.count), policy, Int64(policy.count), 0, &breaker)
    expect(unsafe (code == 0) == (breaker != nil), "\(code) for a breaker")
    if code == 0 { return unsafe breaker }
    let sure = unsafe sb_breaker_open(
      store, "sure", Int64(SB_NUL), "max-failures=2", Int64(SB_NUL), 0, &breaker)
    expect(sure == 0, "no breaker: \(sure)")
    return unsafe breaker
  }

  private static func text(_ bytes: inout FuzzBytes) -> [CChar] {
    bytes.bytes(bytes.number(below: 24)).map { CChar(bitPattern: $0) }
  }

  private static func step(
    _ bytes: inout FuzzBytes, _ breaker: OpaquePointer?, _ permit: inout sb_permit,
    _ store: OpaquePointer?
  ) {
    let wasLive = permit.kind != 0
    switch bytes.number(below: 8) {
    case 0, 1:
      var rejection = sb_rejection()
      rejection.size = UInt32(MemoryLayout<sb_rejection>.size)
      let code = unsafe sb_enter(breaker, &permit, &rejection, UInt32(bytes.number(below: 4)))
      if code == 0 { expect(!wasLive && permit.kind != 0, "a permit was given over another") }
      if code == 1 { expect(unsafe textOf(rejection, breaker), "a rejection has no words") }
      if code < 0 || code > 2 { expect(code < 0, "sb_enter() answers \(code)") }
    case 2, 3:
      let code = unsafe sb_leave(
        breaker, &permit, CInt(bytes.number(below: 5)), nil, UInt32(bytes.number(below: 3)))
      let isUsed = code == 0 || code == 3 || code == 4
      expect(isUsed == (wasLive && permit.kind == 0), "\(code) for a permit")
    case 4:
      let error = text(&bytes)
      unsafe error.withUnsafeBufferPointer { error in
        var details = unsafe sb_details()
        unsafe details.size = UInt32(MemoryLayout<sb_details>.size)
        unsafe details.error = error.baseAddress
        unsafe details.error_length = bytes.number(below: 4) == 0 ? -7 : Int64(error.count)
        unsafe details.open_for_ns = Int64(bitPattern: bytes.word())
        unsafe details.elapsed_ns = Int64(bitPattern: bytes.word())
        _ = unsafe sb_leave(breaker, &permit, CInt(bytes.number(below: 4)), &details, 0)
      }
    case 5:
      _ = unsafe sb_renew(breaker, &permit, Int64(bitPattern: bytes.word()))
    case 6:
      let token = text(&bytes)
      let code = unsafe sb_token_report(store, token, Int64(token.count), 0, nil)
      expect(code < 0, "a token of no store is taken: \(code)")
    default:
      let reason = text(&bytes)
      let code = unsafe sb_force(
        breaker, CInt(bytes.number(below: 6)), Int64(bitPattern: bytes.word()), reason,
        Int64(reason.count))
      expect(code < 0, "a store that cannot be used was changed")
      let flushed = unsafe sb_flush(store)
      expect(flushed == 0 || flushed <= SB_ERR_MISSING.rawValue, "sb_flush() answers \(flushed)")
    }
  }

  private static func textOf(_ rejection: sb_rejection, _ breaker: OpaquePointer?) -> Bool {
    var rejection = rejection
    var words: UnsafeMutablePointer<CChar>?
    defer { unsafe sb_free(words) }
    return unsafe sb_rejection_text(breaker, &rejection, &words, nil) == 0 && words != nil
  }
}
