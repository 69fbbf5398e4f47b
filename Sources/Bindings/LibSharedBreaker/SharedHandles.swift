internal import BreakerStore
package import CSharedBreaker
internal import SharedBreaker

/// The stores and breakers that this process opens once and keeps until it ends.
///
/// They are for callers that forget their handles, such as a PHP script, which ends with each request
/// while its process goes on. Every use is inside the `CallGate`, so the table is at rest during a fork,
/// and the child goes on with what it inherits.
final class SharedHandles: Sendable {
  static let ofProcess = SharedHandles()

  @safe struct OpenStore {
    /// The absolute path, which identifies the store.
    let path: String
    let handle: OpaquePointer
    fileprivate let store: ClosableStore
  }

  @safe private struct OpenBreaker {
    let handle: OpaquePointer

    /// The policy that was declared last, as its words were given.
    var words: String?
  }

  private struct Table {
    var stores: [String: OpenStore] = [:]

    /// The breakers of each store, by their names.
    var breakers: [String: [String: OpenBreaker]] = [:]

    /// The breakers for calls that claim more or less of a limit, by the serial of the one that they
    /// are the same as.
    var claiming: [UInt64: [BreakerClaim: OpenBreaker]] = [:]
  }

  private let table = Guarded(Table())

  private init() {}

  /// The store at a path, or at the default path if nil; the options are those of the first use.
  func store(
    at path: String?, _ options: UnsafePointer<sb_options>?
  ) throws(Failure) -> OpenStore {
    let path = try Self.absolute(path)
    let options = try unsafe StoreOptions(at: options)
    return table.withLock { table in
      if let known = table.stores[path] { return known }
      let store = ClosableStore(SharedStore(path: path, options: options), isShared: true)
      let handle = unsafe Handle.make(store, .store)
      let made = unsafe OpenStore(path: path, handle: handle, store: store)
      table.stores[path] = made
      return made
    }
  }

  /// A breaker of such a store; its policy is declared whenever other words are given.
  ///
  /// No lock is held while a policy is declared, which may wait for the store.
  func breaker(
    _ name: String, of store: OpenStore, words: String?
  ) throws(Failure) -> OpaquePointer {
    let known = table.withLock { $0.breakers[store.path]?[name] }
    if let known, words == nil || words == known.words { return unsafe known.handle }
    let breaker = try store.store.usable.breaker(name, words: words)
    return unsafe table.withLock { table in
      // Another thread may have made it meanwhile.
      let handle =
        unsafe table.breakers[store.path]?[name]?.handle
        ?? BreakerHandle.make(breaker, of: store.store, isShared: true)
      table.breakers[store.path, default: [:]][name] = unsafe OpenBreaker(
        handle: handle, words: words ?? known?.words)
      return unsafe handle
    }
  }

  /// The handle for a claim of calls of the breaker with a serial; it is made once.
  func claiming(
    _ claim: BreakerClaim, of serial: UInt64, _ make: () -> OpaquePointer
  ) -> OpaquePointer {
    unsafe table.withLock { table in
      if let known = table.claiming[serial]?[claim] { return unsafe known.handle }
      let made = unsafe make()
      table.claiming[serial, default: [:]][claim] = unsafe OpenBreaker(handle: made)
      return unsafe made
    }
  }

  /// The absolute path as of now; a process may change its directory and its environment.
  private static func absolute(_ path: String?) throws(Failure) -> String {
    if let path { return StorePath.absolute(path) }
    return try throwingFailures { () throws(StoreError) in
      StorePath.absolute(try SharedStore.defaultPath())
    }
  }
}

@c @implementation
package func sb_shared_store(
  _ path: UnsafePointer<CChar>?, _ path_length: Int64, _ options: UnsafePointer<sb_options>?,
  _ store: UnsafeMutablePointer<OpaquePointer?>?, _ error: UnsafeMutablePointer<sb_error>?
) -> CInt {
  unsafe answer(OpaquePointer(error)) { () throws(Failure) in
    try unsafe ErrorPlace.check(error)
    guard let store = unsafe store else { throw .argument("there is no place for the store") }
    unsafe store.pointee = nil
    let path = try unsafe CText.storePath(path, path_length)
    unsafe store.pointee = try SharedHandles.ofProcess.store(at: path, options).handle
    return SB_OK
  }
}

@c @implementation
package func sb_shared_breaker(
  _ path: UnsafePointer<CChar>?, _ path_length: Int64, _ options: UnsafePointer<sb_options>?,
  _ name: UnsafePointer<CChar>?, _ name_length: Int64, _ policy: UnsafePointer<CChar>?,
  _ policy_length: Int64, _ breaker: UnsafeMutablePointer<OpaquePointer?>?,
  _ error: UnsafeMutablePointer<sb_error>?
) -> CInt {
  unsafe answer(OpaquePointer(error)) { () throws(Failure) in
    try unsafe ErrorPlace.check(error)
    guard let breaker = unsafe breaker else {
      throw .argument("there is no place for the breaker")
    }
    unsafe breaker.pointee = nil
    let path = try unsafe CText.storePath(path, path_length)
    let name = try unsafe CText.required(name, name_length, "name")
    let words = try unsafe CText.read(policy, policy_length, "policy")
    let store = try unsafe SharedHandles.ofProcess.store(at: path, options)
    unsafe breaker.pointee = try SharedHandles.ofProcess.breaker(name, of: store, words: words)
    return SB_OK
  }
}
