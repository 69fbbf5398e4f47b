internal import BreakerCore
package import CSharedBreaker
internal import SharedBreaker

@c @implementation
package func sb_open(
  _ path: UnsafePointer<CChar>?, _ path_length: Int64, _ options: UnsafePointer<sb_options>?,
  _ store: UnsafeMutablePointer<OpaquePointer?>?
) -> CInt {
  unsafe open(path, path_length, options, .system, store)
}

@c @implementation
package func sb_test_open(
  _ path: UnsafePointer<CChar>?, _ path_length: Int64, _ options: UnsafePointer<sb_options>?,
  _ time_ns: UnsafePointer<Int64>?, _ store: UnsafeMutablePointer<OpaquePointer?>?
) -> CInt {
  unsafe open(path, path_length, options, time_ns.map { unsafe StoreClock(at: $0) }, store)
}

private func open(
  _ path: UnsafePointer<CChar>?, _ path_length: Int64, _ options: UnsafePointer<sb_options>?,
  _ clock: StoreClock?, _ store: UnsafeMutablePointer<OpaquePointer?>?
) -> CInt {
  answer(nil) { () throws(Failure) in
    guard let store = unsafe store else { throw .argument("there is no place for the store") }
    unsafe store.pointee = nil
    guard let clock else { throw .argument("there is no time for the test") }
    let path = try unsafe CText.storePath(path, path_length)
    var options = try unsafe StoreOptions(at: options)
    options.clock = clock
    let opened = ClosableStore(SharedStore(path: path, options: options))
    unsafe store.pointee = Handle.make(opened, .store)
    return SB_OK
  }
}

extension CText {
  /// Reads the path of a store; nil for the default.
  static func storePath(
    _ start: UnsafePointer<CChar>?, _ length: Int64
  ) throws(Failure) -> String? {
    let path = try unsafe path(start, length, "path")
    if path?.isEmpty == true { throw .argument("the path is empty: give NULL for the default") }
    return path
  }
}

extension StoreOptions {
  /// The options of a caller; the defaults if it gave none.
  init(at options: UnsafePointer<sb_options>?) throws(Failure) {
    if let options = unsafe options {
      try unsafe self.init(options.pointee)
    } else {
      self.init()
    }
  }

  private init(_ options: sb_options) throws(Failure) {
    try unsafe Given.size(options.size, MemoryLayout<sb_options>.size, "options")
    let group = try unsafe CText.path(options.group, options.group_length, "group")
    let program = try unsafe CText.read(options.program, options.program_length, "program")
    guard unsafe options.mode & ~0o777 == 0 else {
      throw .argument("the mode has other bits than those of 0777")
    }
    guard let room = unsafe Int(exactly: options.maximum_breakers), room >= 0 else {
      throw unsafe .argument("maximum_breakers is \(options.maximum_breakers)")
    }
    try unsafe Given.flags(options.flags, allowed: SB_QUIET)
    self.init(
      onStoreFailure: try unsafe Given.storeFailure(options.on_store_failure) ?? .continueLocally,
      mode: unsafe options.mode == 0 ? nil : options.mode, group: group,
      maximumBreakers: room == 0 ? nil : room, program: program)
    if let timeout = try unsafe Given.duration(options.lock_timeout_ns, "lock_timeout_ns") {
      lockTimeout = timeout
    }
    if unsafe options.flags & UInt32(SB_QUIET.rawValue) != 0 { isQuiet = true }
  }
}

extension StoreClock {
  /// The clock of a test, which tells the time that the caller keeps in its memory.
  fileprivate init(at time: UnsafePointer<Int64>) {
    let address = UInt(bitPattern: time)
    let now: @Sendable () -> Int64 = {
      unsafe UnsafePointer<Int64>(bitPattern: address)?.pointee ?? 0
    }
    self.init(
      bootNanoseconds: now, wallMilliseconds: { now() / 1_000_000 }, bootID: { "the test's" })
  }
}

@c @implementation
package func sb_connect(_ store: OpaquePointer?, _ flags: UInt32) -> CInt {
  unsafe answer(store) { () throws(Failure) in
    let store = try unsafe ClosableStore.at(store).usable
    try Given.flags(flags, allowed: SB_EXISTING)
    try throwingFailures { () throws(StoreError) in
      if flags == 0 { try store.connect() } else { try store.connectToExisting() }
    }
    return SB_OK
  }
}

@c @implementation
package func sb_flush(_ store: OpaquePointer?) -> CInt {
  unsafe answer(store) { () throws(Failure) in
    let opened = try unsafe ClosableStore.at(store)
    let store = try opened.usable
    try throwingFailures { () throws(StoreError) in try store.flush() }
    try opened.deliverResults()
    return SB_OK
  }
}

@c @implementation
package func sb_close(_ store: OpaquePointer?) -> CInt {
  if unsafe store == nil { return SB_OK.rawValue }
  do throws(Failure) {
    let opened = try CallGate.shared.pass { () throws(Failure) in
      let opened = try unsafe ClosableStore.at(store)
      if opened.isShared {
        throw .argument("the store is this process's, and stays open until the process ends")
      }
      opened.refuseUses()
      return opened
    }
    // A call that has begun earlier would open the file again.
    CallGate.shared.waitForCalls()
    return try CallGate.shared.pass { () throws(Failure) in
      opened.close()
      unsafe Handle.free(store, .store)
      return SB_OK.rawValue
    }
  } catch {
    return unsafe told(error, to: ErrorPlace.at(store))
  }
}

@c @implementation
package func sb_health(_ store: OpaquePointer?) -> CInt {
  unsafe answer(store) { () throws(Failure) in try unsafe ClosableStore.at(store).usable.health.code
  }
}

extension StoreHealth {
  /// The code; throws the error that keeps the store from being used.
  var code: sb_code {
    get throws(Failure) {
      switch self {
      case .untried: SB_UNTRIED
      case .connected: SB_OK
      case .unavailable(let error): throw Failure(error)
      }
    }
  }
}

@c @implementation
package func sb_path(
  _ store: OpaquePointer?, _ path: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?,
  _ length: UnsafeMutablePointer<Int64>?
) -> CInt {
  unsafe answer(store) { () throws(Failure) in
    let receiver = try unsafe TextReceiver(path, length)
    try receiver.take(try unsafe ClosableStore.at(store).usable.path)
    return SB_OK
  }
}
